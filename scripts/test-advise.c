/* A program that is slow because of one function on one array: random look-ups in 256 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (32ul << 20)

static unsigned long look_up(const unsigned long *table, unsigned long at) {
    return table[at % WORDS];
}

static unsigned long work(unsigned long *small, unsigned long at) {
    small[at % 512] += at;
    return small[(at + 7) % 512];
}

int main(void) {
    unsigned long *table = malloc(WORDS * sizeof *table), *small = calloc(512, sizeof *small);
    unsigned long random = 88172645463325252ul, sum = 0;
    for (unsigned long i = 0; i < WORDS; i += 512)
        table[i] = i;
    for (unsigned long i = 0; i < 100000000ul; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        sum += look_up(table, random) + work(small, i);
    }
    printf("%lu\n", sum);
    return 0;
}
