/* Wrong calls of libambulator, in C: each must give an error with a sentence, and leave the machine usable. */
#include <ambulator.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* The error is asked for after the call: C leaves open in which order arguments are evaluated. */
static void compare(const char *what, int32_t status, int32_t wanted, const char *text, const char *part);

static void expect(const char *what, int32_t status, int32_t wanted, const ambulator_machine *machine,
                   const char *part) {
    compare(what, status, wanted, ambulator_error(machine), part);
}

static void compare(const char *what, int32_t status, int32_t wanted, const char *text, const char *part) {
    if (status != wanted || (part && !strstr(text, part))) {
        fprintf(stderr, "misuse: %s: status %d (%s), wanted %d with \"%s\": %s\n", what, (int)status,
                ambulator_status_text(status), (int)wanted, part ? part : "", text);
        failures++;
    }
}

static ambulator_config config(void) {
    ambulator_config c;
    memset(&c, 0, sizeof c);
    c.struct_size = sizeof c;
    c.abi_version = AMBULATOR_ABI_VERSION;
    c.cores = 2;
    c.spec = "[memory]\nbytes = \"256MiB\"\n";
    return c;
}

static void rejects(const char *what, const ambulator_config *c, int32_t wanted, const char *part) {
    char why[8192] = "";
    ambulator_machine *machine = (ambulator_machine *)&why;
    int32_t status = ambulator_create(c, &machine, why, sizeof why);
    compare(what, status, wanted, why, part);
    if (machine) {
        fprintf(stderr, "misuse: %s: a machine was made\n", what);
        failures++;
        ambulator_destroy(machine);
    }
}

int main(void) {
    ambulator_config c;
    ambulator_machine *m = NULL;
    ambulator_translation t;
    ambulator_machine_info info;
    uint64_t value = 0, walk;
    char why[8192], tiny[8];
    const char *option[1];

    if (ambulator_abi_version() != AMBULATOR_ABI_VERSION)
        failures++;
    /* Configurations. */
    rejects("no configuration", NULL, AMBULATOR_ARGUMENT, "null");
    c = config(), c.struct_size = 8;
    rejects("a small struct", &c, AMBULATOR_ARGUMENT, "struct_size");
    c = config(), c.abi_version = 99;
    rejects("another version", &c, AMBULATOR_ARGUMENT, "version 99");
    c = config(), c.cores = 0;
    rejects("no cores", &c, AMBULATOR_SPEC, "1 to 256 cores");
    c = config(), c.flags = 64;
    rejects("unknown flags", &c, AMBULATOR_ARGUMENT, "flags");
    c = config(), c.assumed_level = 9;
    rejects("an unknown level", &c, AMBULATOR_ARGUMENT, "assumed_level");
    c = config(), c.design = "radixx";
    rejects("an unknown design", &c, AMBULATOR_SPEC, "did you mean `radix`");
    c = config(), c.spec = "[mmu]\nwalker = 3\n";
    rejects("an unknown key", &c, AMBULATOR_SPEC, "mmu.walker");
    c = config(), c.spec = "[mmu\n";
    rejects("broken TOML", &c, AMBULATOR_SPEC, "spec text");
    c = config(), c.spec = "\xff";
    rejects("no UTF-8", &c, AMBULATOR_ARGUMENT, "UTF-8");
    c = config(), option[0] = "mmu.walkers=0", c.options = option, c.option_count = 1;
    rejects("a value out of range", &c, AMBULATOR_SPEC, "mmu.walkers");
    c = config(), c.option_count = 1;
    rejects("no options", &c, AMBULATOR_ARGUMENT, "options");
    c = config(), c.design = "midgard";
    rejects("a design after the caches", &c, AMBULATOR_SPEC, "translates after the caches");
    c = config();
    compare("nowhere to write", ambulator_create(&c, NULL, why, sizeof why), AMBULATOR_ARGUMENT, why, "null");
    c = config(), c.abi_version = 99;
    compare("a short buffer", ambulator_create(&c, &m, tiny, sizeof tiny), AMBULATOR_ARGUMENT, tiny, "the cal");

    c = config(), option[0] = "mmu.walkers=2", c.options = option, c.option_count = 1;
    if (ambulator_create(&c, &m, why, sizeof why) != AMBULATOR_OK) {
        fprintf(stderr, "misuse: %s\n", why);
        return 1;
    }
    memset(&info, 0, sizeof info);
    expect("a small info", ambulator_info(m, &info), AMBULATOR_ARGUMENT, m, "struct_size");
    info.struct_size = sizeof info;
    expect("info", ambulator_info(m, &info), AMBULATOR_OK, m, NULL);
    if (info.walkers != 2 || info.cores != 2 || info.memory_bytes != 256u << 20)
        failures++;

    /* Calls. */
    memset(&t, 0, sizeof t);
    t.struct_size = sizeof t;
    expect("no machine", ambulator_translate(NULL, 0, 4096, AMBULATOR_LOAD, 0, &t), AMBULATOR_ARGUMENT,
           NULL, "null");
    expect("no result", ambulator_translate(m, 0, 4096, AMBULATOR_LOAD, 0, NULL), AMBULATOR_ARGUMENT,
           m, "null");
    expect("no core", ambulator_translate(m, 2, 4096, AMBULATOR_LOAD, 0, &t), AMBULATOR_ARGUMENT, m,
           "no core 2");
    expect("no access", ambulator_translate(m, 0, 4096, 3, 0, &t), AMBULATOR_ARGUMENT, m,
           "AMBULATOR_FETCH");
    expect("a wide address", ambulator_translate(m, 0, 1ull << 50, AMBULATOR_LOAD, 0, &t), AMBULATOR_ARGUMENT,
           m, "48 bits");
    expect("nothing mapped", ambulator_translate(m, 0, 4096, AMBULATOR_LOAD, 0, &t), AMBULATOR_SEGFAULT,
           m, "0x1000");
    expect("rights", ambulator_map(m, 0, 1 << 20, 4096, 8, AMBULATOR_ANONYMOUS, NULL), AMBULATOR_ARGUMENT,
           m, "rights");
    expect("a range around the end", ambulator_map(m, 0, UINT64_MAX - 4095, 8192, AMBULATOR_READ, 0, NULL),
           AMBULATOR_ARGUMENT, m, "last address");
    expect("nothing to map", ambulator_map(m, 0, 1 << 20, 0, AMBULATOR_READ, 0, NULL), AMBULATOR_ARGUMENT,
           m, "0");
    expect("map", ambulator_map(m, 0, 1 << 20, 1 << 20, AMBULATOR_READ, AMBULATOR_ANONYMOUS, &value), AMBULATOR_OK,
           m, NULL);
    expect("translate", ambulator_translate(m, 0, 1 << 20, AMBULATOR_LOAD, 7, &t), AMBULATOR_OK, m,
           NULL);
    if (t.physical >= info.memory_bytes || t.walk == 0 || t.faults != 1 || t.step_count == 0)
        failures++;
    walk = t.walk;
    expect("no result for an instruction", ambulator_translate_at(m, 0, 0x400000, 1 << 20, AMBULATOR_LOAD, 7, NULL),
           AMBULATOR_ARGUMENT, m, "null");
    expect("any instruction", ambulator_translate_at(m, 0, UINT64_MAX, 1 << 20, AMBULATOR_LOAD, 7, &t), AMBULATOR_OK, m,
           NULL);
    expect("a store to what may be read", ambulator_translate(m, 0, 1 << 20, AMBULATOR_STORE, 8, &t),
           AMBULATOR_SEGFAULT, m, "not allowed");
    expect("no walk", ambulator_complete(m, 0, 0, 100), AMBULATOR_ARGUMENT, m, "no walk 0");
    expect("another core's walk", ambulator_complete(m, 1, walk, 100), AMBULATOR_ARGUMENT, m,
           "another core");
    expect("an end before the begin", ambulator_complete(m, 0, walk, 6), AMBULATOR_ARGUMENT, m,
           "began at cycle 7");
    expect("complete", ambulator_complete(m, 0, walk, 100), AMBULATOR_OK, m, NULL);
    expect("twice", ambulator_complete(m, 0, walk, 100), AMBULATOR_ARGUMENT, m, "already complete");
    expect("no process", ambulator_switch(m, 0, 99, NULL), AMBULATOR_ARGUMENT, m, "no process 99");
    expect("no counter", ambulator_counter_value(m, "mmu.walk", &value), AMBULATOR_ARGUMENT, m,
           "mmu.walks");
    expect("a counter", ambulator_counter_value(m, "mmu.walks", &value), AMBULATOR_OK, m, NULL);
    if (value == 0)
        failures++;
    expect("a bus load", ambulator_set_bus_load(m, 1001), AMBULATOR_ARGUMENT, m, "1001");
    expect("books", ambulator_check(m), AMBULATOR_OK, m, NULL);
    /* Memory that runs out stops the machine, and says so from then on. */
    expect("a large mapping", ambulator_map(m, 1, 1ull << 30, 1ull << 30, 3, AMBULATOR_ANONYMOUS, NULL), AMBULATOR_OK, m, NULL);
    expect("more than there is", ambulator_touch(m, 1, 1ull << 30, 1ull << 30, AMBULATOR_STORE, NULL),
           AMBULATOR_MEMORY, m, "memory");
    expect("afterwards", ambulator_translate(m, 0, 1 << 20, AMBULATOR_LOAD, 200, &t), AMBULATOR_STOPPED,
           m, "has stopped");
    ambulator_destroy(m);
    ambulator_destroy(NULL);
    if (failures == 0)
        puts("every wrong call got its error");
    return failures != 0;
}
