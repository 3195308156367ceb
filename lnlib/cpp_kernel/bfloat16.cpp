#define NUMBER bfloat16
#include "kernel.cpp"
