#define NUMBER float
#include "kernel.cpp"
