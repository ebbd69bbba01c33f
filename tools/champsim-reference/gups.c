// Updates of random words of 16 MiB.
#include "window.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    uint64_t words = 1u << 21, x = 88172645463325252u;
    uint64_t *table = aligned_alloc(4096, words * 8);
    for (uint64_t i = 0; i < words; i++) table[i] = i;
    end_setup(count, arguments);
    for (long i = 0; i < 1000000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        table[x & (words - 1)] ^= x;
    }
    printf("%lu\n", table[5]);
}
