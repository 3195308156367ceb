#define NUMBER double
#include "kernel.cpp"
