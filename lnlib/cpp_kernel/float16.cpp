#define NUMBER float16
#include "kernel.cpp"
