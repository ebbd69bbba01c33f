// Where the part that is measured begins.
#include <stdlib.h>
#include <string.h>

// Ends the program here if its argument is `setup`.
static void end_setup(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "setup") == 0) _Exit(0);
}
