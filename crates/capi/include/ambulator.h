/* libambulator: the operating system and the MMUs of a modelled machine inside another simulator.
 *
 * The simulator around the library (the host) has cores, caches, queues and time. The library has page tables,
 * TLBs, walk caches, lookasides, speculation and an operating system, in simulated physical memory of its own.
 * ambulator_translate() translates at once, on the bytes as they are, and returns what the translation needs in
 * time: steps, in groups. The host times them, and calls ambulator_complete() when they have ended. What the
 * walk fills (TLB entries, walk caches) becomes usable then and not before.
 *
 * All functions return a status: AMBULATOR_OK (0) or why they failed; ambulator_error() has a sentence. They
 * never throw, abort or unwind. A machine has no threads, and shares nothing that changes with other machines:
 * several threads may use several machines, and one machine one after the other (two at once: AMBULATOR_BUSY).
 * Pointers that a function returns belong to the library; each says until when they are valid.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef AMBULATOR_H
#define AMBULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define AMBULATOR_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "size of " #type)
#else
#define AMBULATOR_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#endif

/* Version of this interface. A program passes it to ambulator_create(). */
#define AMBULATOR_ABI_VERSION 1u

/* A machine. */
typedef struct ambulator_machine ambulator_machine;

/* Outcomes of calls. */
enum {
    AMBULATOR_OK = 0,       /* success */
    AMBULATOR_ARGUMENT = 1, /* an argument is wrong; nothing has changed */
    AMBULATOR_SPEC = 2,     /* ambulator_create(): the spec is invalid */
    AMBULATOR_SEGFAULT = 3, /* the program may not access the address; the machine goes on */
    AMBULATOR_MEMORY = 4,   /* the modelled machine ran out of memory, and stops */
    AMBULATOR_FAILED = 5,   /* a translation disagrees with the kernel, or an invariant was violated; it stops */
    AMBULATOR_STOPPED = 6,  /* the machine stopped in an earlier call */
    AMBULATOR_BUSY = 7      /* another thread is in a call with this machine */
};

/* Kinds of accesses. */
enum { AMBULATOR_LOAD = 0, AMBULATOR_STORE = 1, AMBULATOR_FETCH = 2 };
/* Access rights, to be combined. */
enum { AMBULATOR_READ = 1, AMBULATOR_WRITE = 2, AMBULATOR_EXECUTE = 4 };
/* Kinds of mappings. */
enum { AMBULATOR_ANONYMOUS = 0, AMBULATOR_FILE = 1, AMBULATOR_HEAP = 2, AMBULATOR_STACK = 3 };
/* madvise: MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTNEED, MADV_FREE. */
enum { AMBULATOR_HUGE = 0, AMBULATOR_NO_HUGE = 1, AMBULATOR_DONT_NEED = 2, AMBULATOR_FREE = 3 };
/* Levels of a memory hierarchy. */
enum { AMBULATOR_DRAM = 0, AMBULATOR_L1 = 1, AMBULATOR_L2 = 2, AMBULATOR_LLC = 3 };
/* Flags of ambulator_config. */
enum {
    /* The host has TLBs of its own, of both levels: each translation goes to the lookaside and the walker. The
     * host merges misses of a page, and follows AMBULATOR_EFFECTS to invalidate. */
    AMBULATOR_HOST_TLBS = 1,
    /* Effects of the operating system are kept for ambulator_take_effects(). */
    AMBULATOR_EFFECTS = 2
};

/* What a machine is made from. Set everything to 0 first, then struct_size and abi_version. */
typedef struct ambulator_config {
    uint32_t struct_size;       /* sizeof(ambulator_config) */
    uint32_t abi_version;       /* AMBULATOR_ABI_VERSION */
    const char *machine;        /* a machine preset or file, as of `ambulator run --machine`; null: the default */
    const char *design;         /* a design preset or file, as of `--design`; null: the default */
    const char *spec;           /* a spec in TOML, above both; null: none */
    const char *const *options; /* `key=value` texts, as of `--set`, above the spec */
    size_t option_count;        /* how many */
    uint64_t auto_map;          /* an access outside all mappings maps this many bytes around it (a multiple of
                                   4096, such as 2097152); 0: it is a segmentation fault */
    uint32_t cores;             /* 1 to 256; at first core i runs process i */
    uint32_t flags;             /* AMBULATOR_HOST_TLBS, AMBULATOR_EFFECTS */
    uint32_t assumed_level;     /* the level that serves walks' loads, for designs that count those from DRAM
                                   (Utopia): AMBULATOR_DRAM is assumed unless you know better */
    uint32_t reserved;          /* 0 */
} ambulator_config;
AMBULATOR_ASSERT_SIZE(ambulator_config, 72);

/* Kinds of steps. */
enum {
    AMBULATOR_STEP_LOAD = 0,        /* load the line of `address` */
    AMBULATOR_STEP_FETCH_TABLE = 1, /* fetch a table's line; nobody waits; may be dropped */
    AMBULATOR_STEP_FETCH_DATA = 2,  /* fetch a data line on a guess; nobody waits; may be dropped */
    AMBULATOR_STEP_WRITE = 3,       /* write to the line of `address`; nobody waits */
    AMBULATOR_STEP_KERNEL = 4,      /* the operating system works for `value` cycles: a fault was served */
    AMBULATOR_STEP_JOIN = 5         /* wait for walk `value` of the same core, if it is not complete yet */
};

/* A step of a translation. One of group 0 issues `delay` cycles after the translation began. One of group g > 0
 * issues `delay` cycles after all waited steps of group g - 1 have ended; if `waited` is 0, after all loads of
 * that group, waited for or not. Steps of a group are parallel. */
typedef struct ambulator_step {
    uint64_t address; /* physical */
    uint64_t delay;   /* cycles of fixed hardware: look-ups, hashes */
    uint64_t value;   /* see the kinds */
    uint32_t group;
    uint16_t kind;
    uint16_t waited; /* 1: the translation waits for it */
} ambulator_step;
AMBULATOR_ASSERT_SIZE(ambulator_step, 32);

/* What answered a translation. */
enum {
    AMBULATOR_BY_L1_TLB = 0,
    AMBULATOR_BY_L2_TLB = 1,
    AMBULATOR_BY_LOOKASIDE = 2,
    AMBULATOR_BY_WALK = 3,
    AMBULATOR_BY_PERFECT_TLB = 4
};

/* A translation. The physical address is known `latency` cycles after the waited steps of group `groups - 1` have
 * ended, or after the begin if `groups` is 0. */
typedef struct ambulator_translation {
    uint32_t struct_size;        /* sizeof(ambulator_translation), set by the caller */
    uint32_t answered;           /* AMBULATOR_BY_... */
    uint64_t physical;           /* the physical address of the byte */
    uint64_t page_bytes;         /* of the page that holds it, both virtually and physically */
    uint64_t walk;               /* to be completed with ambulator_complete(); 0: nothing to complete */
    uint64_t latency;            /* cycles */
    uint64_t os_cycles;          /* of the operating system; its steps have them too */
    uint32_t groups;             /* groups that it waits for, one after the other */
    uint32_t faults;             /* page faults served */
    const ambulator_step *steps; /* valid until the machine's next translation */
    size_t step_count;
} ambulator_translation;
AMBULATOR_ASSERT_SIZE(ambulator_translation, 72);

/* Kinds of effects. */
enum {
    AMBULATOR_INVALIDATE_PAGE = 0,    /* `bytes` from virtual `address` on must leave TLBs */
    AMBULATOR_INVALIDATE_PROCESS = 1, /* all translations of `process` must leave TLBs */
    AMBULATOR_COPY = 2,               /* physical memory is copied in the background: from `address` to `to` */
    AMBULATOR_ZERO = 3                /* physical memory was zeroed, past the caches */
};
/* `process` of an effect on all of them, and on one that has exited. */
#define AMBULATOR_ALL_PROCESSES UINT32_MAX

/* What the operating system did to the hardware. The library's own TLBs and walk caches know already. */
typedef struct ambulator_effect {
    uint64_t address;
    uint64_t to;
    uint64_t bytes;
    uint32_t process;
    uint32_t kind;
} ambulator_effect;
AMBULATOR_ASSERT_SIZE(ambulator_effect, 32);

/* A counter. */
typedef struct ambulator_counter {
    const char *name;    /* such as `mmu.walks` */
    const char *unit;    /* such as `events` */
    const char *meaning; /* one line */
    uint64_t value;
} ambulator_counter;
AMBULATOR_ASSERT_SIZE(ambulator_counter, 32);

/* What a machine is. Texts are valid as long as the machine. */
typedef struct ambulator_machine_info {
    uint32_t struct_size; /* sizeof(ambulator_machine_info), set by the caller */
    uint32_t cores;
    uint32_t walkers;        /* concurrent walks of a core (`mmu.walkers`): the host enforces it */
    uint32_t va_bits;        /* of a virtual address */
    uint64_t memory_bytes;   /* physical addresses are below */
    uint64_t l1_tlb_latency; /* cycles of a look-up; in `latency` and `delay` already */
    uint64_t l2_tlb_latency;
    const char *machine;
    const char *design;
} ambulator_machine_info;
AMBULATOR_ASSERT_SIZE(ambulator_machine_info, 56);

/* Version of the interface that the library has; AMBULATOR_ABI_VERSION is that of this header. */
uint32_t ambulator_abi_version(void);
/* Version of the library, such as "0.1.0". */
const char *ambulator_version(void);
/* A status in words. */
const char *ambulator_status_text(int32_t status);

/* Makes a machine in `*machine`. A failure writes a null pointer there, and why to `error`, which has `error_size`
 * bytes (cut if it is longer); both may be 0. */
int32_t ambulator_create(const ambulator_config *config, ambulator_machine **machine, char *error, size_t error_size);
/* Frees a machine; null is allowed. Nothing else may be done with the pointer afterwards. */
void ambulator_destroy(ambulator_machine *machine);
/* Why the latest call that failed did so. Valid until the next call with the machine. */
const char *ambulator_error(const ambulator_machine *machine);
/* What the machine is. */
int32_t ambulator_info(ambulator_machine *machine, ambulator_machine_info *info);

/* Translates an access of a core that begins at cycle `now` (below 2^60), serves its faults, and checks the
 * result with the oracle. Calls of a core need not come in the order of their cycles. */
int32_t ambulator_translate(ambulator_machine *machine, uint32_t core, uint64_t address, uint32_t access, uint64_t now,
                            ambulator_translation *translation);
/* The same for an access by the instruction at virtual address `pc` (0: not known): TLB prefetchers with strides
 * and SpOT predict by it. */
int32_t ambulator_translate_at(ambulator_machine *machine, uint32_t core, uint64_t pc, uint64_t address,
                               uint32_t access, uint64_t now, ambulator_translation *translation);
/* A walk of a core has ended at `cycle`, which may lie in the future: translations from then on use what it has
 * filled. Every walk must be completed once, also one that the host has squashed. Walks may end in any order;
 * what one fills that overtakes an older walk of its core becomes usable when the older one has ended too. A core
 * may have 4096 walks in flight. */
int32_t ambulator_complete(ambulator_machine *machine, uint32_t core, uint64_t walk, uint64_t cycle);

/* System calls of the process that a core runs. `os_cycles` receives the cycles of the operating system, and may
 * be null. Lengths are rounded up to 4 KiB. */
int32_t ambulator_map(ambulator_machine *machine, uint32_t core, uint64_t start, uint64_t bytes, uint32_t rights,
                      uint32_t kind, uint64_t *os_cycles);
int32_t ambulator_unmap(ambulator_machine *machine, uint32_t core, uint64_t start, uint64_t bytes,
                        uint64_t *os_cycles);
int32_t ambulator_protect(ambulator_machine *machine, uint32_t core, uint64_t start, uint64_t bytes, uint32_t rights,
                          uint64_t *os_cycles);
int32_t ambulator_advise(ambulator_machine *machine, uint32_t core, uint64_t start, uint64_t bytes, uint32_t advice,
                         uint64_t *os_cycles);
/* Touches each page of a range once, ascending: AMBULATOR_LOAD or AMBULATOR_STORE. */
int32_t ambulator_touch(ambulator_machine *machine, uint32_t core, uint64_t start, uint64_t bytes, uint32_t access,
                        uint64_t *os_cycles);

/* Processes have numbers: 0 to cores - 1 exist from the start, and each new one gets the next. */
int32_t ambulator_spawn(ambulator_machine *machine, uint32_t *process);
int32_t ambulator_fork(ambulator_machine *machine, uint32_t core, uint32_t *child, uint64_t *os_cycles);
int32_t ambulator_exit(ambulator_machine *machine, uint32_t core, uint32_t process, uint64_t *os_cycles);
/* A core runs another process from now on. Cores may run the same one: its threads. */
int32_t ambulator_switch(ambulator_machine *machine, uint32_t core, uint32_t process, uint64_t *os_cycles);
/* The kernel's daemons (khugepaged, reclaim) work up to cycle `now`. Call it now and then, if the spec has them. */
int32_t ambulator_tick(ambulator_machine *machine, uint32_t core, uint64_t now, uint64_t *os_cycles);

/* Where the kernel has a byte of a process: the truth, without hardware, faults or time. UINT64_MAX if its page is
 * not present. */
int32_t ambulator_lookup(ambulator_machine *machine, uint32_t process, uint64_t address, uint64_t *physical);
/* Which share of main memory's bandwidth is in use, in thousandths, for designs that speculate less then
 * (Revelator); 0 at first. */
int32_t ambulator_set_bus_load(ambulator_machine *machine, uint32_t permille);
/* All effects since the last call, oldest first; the flag AMBULATOR_EFFECTS must be set. At most 65,536 are kept.
 * Valid until the next call of this function. */
int32_t ambulator_take_effects(ambulator_machine *machine, const ambulator_effect **effects, size_t *count);

/* All counters, summed over cores, in the order of their names. Valid until the next call of this function. */
int32_t ambulator_counters(ambulator_machine *machine, const ambulator_counter **counters, size_t *count);
/* The value of one. */
int32_t ambulator_counter_value(ambulator_machine *machine, const char *name, uint64_t *value);
/* Sets all to zero: the end of a warm-up. Tables, TLBs and walk caches keep their contents. */
int32_t ambulator_reset_counters(ambulator_machine *machine);
/* Checks that the modelled kernel's books balance; slow. */
int32_t ambulator_check(ambulator_machine *machine);

#ifdef __cplusplus
}
#endif

#endif
