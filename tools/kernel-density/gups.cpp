// HPC Challenge RandomAccess, sequential: a million updates of a table of 16 MiB. gups MODE STREAMS
#include "window.hpp"
#include <cstdint>
#include <cstdlib>

static const uint64_t POLY = 7;
static const long UPDATES = 1 << 20, WORDS = 1 << 21;

[[gnu::noinline]] static void many_streams(uint64_t *table, uint64_t words) {
    uint64_t ran[128];
    for (int j = 0; j < 128; j++) ran[j] = (j + 1) * 0x9e3779b97f4a7c15;
    for (long i = 0; i < UPDATES / 128; i++)
        for (int j = 0; j < 128; j++) {
            ran[j] = (ran[j] << 1) ^ ((int64_t)ran[j] < 0 ? POLY : 0);
            table[ran[j] & (words - 1)] ^= ran[j];
        }
}

[[gnu::noinline]] static void one_stream(uint64_t *table, uint64_t words) {
    uint64_t ran = 0x9e3779b97f4a7c15;
    for (long i = 0; i < UPDATES; i++) {
        ran = (ran << 1) ^ ((int64_t)ran < 0 ? POLY : 0);
        table[ran & (words - 1)] ^= ran;
    }
}

int main(int, char **argv) {
    uint64_t *table = (uint64_t *)malloc(WORDS * sizeof *table);
    for (long i = 0; i < WORDS; i++) table[i] = i;
    begin_window(argv);
    if (atoi(argv[2]) == 1)
        one_stream(table, WORDS);
    else
        many_streams(table, WORDS);
    end_window(UPDATES, table[WORDS / 3]);
}
