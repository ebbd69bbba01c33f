// The measured window of a program. `PROGRAM setup ...` ends where the window begins, `PROGRAM total ...` where it
// ends: the difference of the two is the window's, to the instruction.
#pragma once
#include <cstdio>
#include <cstring>
#include <unistd.h>

// Ends the program here if only its set-up is wanted.
inline void begin_window(char **argv) {
    if (strcmp(argv[1], "setup") == 0) _exit(0);
}

// Ends the program and says how many units of work (stored edges, look-ups, updates) the window had. `result` is
// what was computed: printed, so that the compiler must compute it.
[[noreturn]] inline void end_window(long units, double result) {
    char line[96];
    int length = snprintf(line, sizeof line, "units %ld result %g\n", units, result);
    _exit(write(1, line, length) == length ? 0 : 1);
}
