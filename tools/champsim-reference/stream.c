// A triad over three arrays of 8 MiB.
#include "window.h"
#include <stdio.h>
#include <stdlib.h>

#define N (1 << 20)

int main(int count, char **arguments) {
    double *a = aligned_alloc(4096, N * 8), *b = aligned_alloc(4096, N * 8), *c = aligned_alloc(4096, N * 8);
    for (long i = 0; i < N; i++) a[i] = b[i] = c[i] = 1;
    end_setup(count, arguments);
    for (int round = 0; round < 10; round++) {
        for (long i = 0; i < N; i++) a[i] = b[i] + 3.0 * c[i];
        __asm__ volatile("" ::"r"(a) : "memory");
    }
    printf("%f\n", a[7]);
}
