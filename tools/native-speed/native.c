// The speed of the host itself: GUPS, a pointer chase and BFS, compiled, on one core, beside which the simulator's
// speed is measured. The same algorithms on the same data structures as the simulator's programs.
//
//   native gups BYTES STREAMS    updates of a table; STREAMS is 128 (independent) or 1
//   native chase BYTES           loads, each at the address that the one before returned; a node has 64 bytes
//   native bfs csr VERTICES      stored edges visited, in compressed rows of a Kronecker graph of 16 edges a vertex
//   native bfs property VERTICES the same with vertex objects and vectors of edges on the heap
//
// It prepares its data, prints "ready", and then for each line with a number of seconds on its input runs so long and
// prints how many units it did and the nanoseconds that they took. So its runs can alternate with others.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *take(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "native: %zu bytes of memory are not to be had; ask for less\n", bytes);
        exit(1);
    }
    return memory;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static volatile uint64_t sink;

// GUPS: HPC Challenge RandomAccess, sequential.

static const uint64_t POLY = 7;
static uint64_t *table, table_words, ran[128];
static int streams;

__attribute__((noinline)) static uint64_t gups(void) {
    enum { UPDATES = 1 << 20 };
    if (streams == 1) {
        uint64_t r = ran[0];
        for (long i = 0; i < UPDATES; i++) {
            r = (r << 1) ^ ((int64_t)r < 0 ? POLY : 0);
            table[r & (table_words - 1)] ^= r;
        }
        ran[0] = r;
    } else {
        for (long i = 0; i < UPDATES / 128; i++)
            for (int j = 0; j < 128; j++) {
                ran[j] = (ran[j] << 1) ^ ((int64_t)ran[j] < 0 ? POLY : 0);
                table[ran[j] & (table_words - 1)] ^= ran[j];
            }
    }
    return UPDATES;
}

static void prepare_gups(uint64_t bytes, int of) {
    for (table_words = 1; table_words * 16 <= bytes;) table_words *= 2;
    table = take(table_words * 8);
    for (uint64_t i = 0; i < table_words; i++) table[i] = i;
    streams = of;
    for (int j = 0; j < 128; j++) ran[j] = mix((uint64_t)j + 1);
}

// A chase along one random cycle through all nodes.

struct node {
    struct node *next;
    uint64_t rest[7];
};
static struct node *at;

__attribute__((noinline)) static uint64_t chase(void) {
    enum { STEPS = 1 << 18 };
    struct node *p = at;
    for (long i = 0; i < STEPS; i++) p = p->next;
    at = p;
    return STEPS;
}

static void prepare_chase(uint64_t bytes) {
    uint64_t nodes = 1;
    while (nodes * 2 * sizeof(struct node) <= bytes) nodes *= 2;
    struct node *all = take(nodes * sizeof *all);
    // A linear congruential generator of full period visits every node; its low bits are mixed upwards reversibly.
    uint64_t mask = nodes - 1, state = 0, half = 1;
    while ((1ull << (2 * half)) < nodes) half++;
    struct node *before = NULL;
    for (uint64_t i = 0; i < nodes; i++) {
        state = (state * 6364136223846793005u + 1442695040888963407u) & mask;
        uint64_t x = state;
        for (int round = 0; round < 3; round++) {
            x = x * 0x9e3779b97f4a7c15u & mask;
            x ^= x >> half;
        }
        if (before) before->next = &all[x];
        else at = &all[x];
        before = &all[x];
    }
    before->next = at; // the cycle closes
}

// Kronecker edges with Graph500's parameters, in a random order of labels, the same at each pass.

static uint64_t vertices, label_mask;
static unsigned scale;

static uint32_t label(uint64_t x) {
    do {
        for (int round = 0; round < 3; round++) {
            x = (x ^ 0x5bd1e995u) * 0x9e3779b97f4a7c15u & label_mask;
            x ^= x >> (scale / 2 + 1);
        }
    } while (x >= vertices);
    return (uint32_t)x;
}

static void edge_of(uint64_t e, uint32_t *u, uint32_t *v) {
    uint64_t row, column, bits = 0, seed = e * 0x9e3779b97f4a7c15u;
    do {
        row = column = 0;
        for (unsigned level = 0; level < scale; level++) {
            if (level % 4 == 0) bits = mix(seed += 0xd1342543de82ef95u);
            uint64_t draw = bits & 0xffff; // 0.57, 0.19, 0.19 and 0.05 of 65536
            bits >>= 16;
            row = row << 1 | (draw >= 49807);
            column = column << 1 | ((draw >= 37356 && draw < 49807) || draw >= 62259);
        }
    } while (row >= vertices || column >= vertices);
    *u = label(row);
    *v = label(column);
}

static uint64_t *offsets, stored_edges;
static uint32_t *neighbours, *queue;
static int32_t *parent;

struct edge {
    uint64_t target, rest[2];
};
struct vertex {
    uint64_t number, colour, level;
    struct edge *begin, *end;
    uint64_t rest[3];
};
static struct vertex **objects;
static uint64_t *wide_queue;

static uint64_t next_root(void) {
    static uint64_t state;
    for (;;) {
        uint64_t u = mix(++state * 0x9e3779b97f4a7c15u) % vertices;
        if (offsets ? offsets[u] < offsets[u + 1] : objects[u] != NULL) return u;
    }
}

__attribute__((noinline)) static uint64_t search_rows(void) {
    uint32_t root = (uint32_t)next_root();
    memset(parent, 0xff, vertices * sizeof *parent);
    parent[root] = (int32_t)root;
    queue[0] = root;
    uint64_t head = 0, tail = 1, edges = 0;
    while (head < tail) {
        uint32_t u = queue[head++];
        edges += offsets[u + 1] - offsets[u];
        for (uint64_t e = offsets[u]; e < offsets[u + 1]; e++) {
            uint32_t v = neighbours[e];
            if (parent[v] < 0) {
                parent[v] = (int32_t)u;
                queue[tail++] = v;
            }
        }
    }
    return edges;
}

__attribute__((noinline)) static uint64_t search_objects(void) {
    uint64_t root = next_root();
    for (uint64_t u = 0; u < vertices; u++)
        if (objects[u]) objects[u]->colour = 0;
    objects[root]->colour = 1;
    objects[root]->level = 0;
    wide_queue[0] = root;
    uint64_t head = 0, tail = 1, edges = 0;
    while (head < tail) {
        struct vertex *u = objects[wide_queue[head++]];
        uint64_t level = u->level + 1;
        edges += (uint64_t)(u->end - u->begin);
        for (struct edge *edge = u->begin; edge != u->end; edge++) {
            struct vertex *v = objects[edge->target];
            if (v->colour == 0) {
                v->colour = 1;
                v->level = level;
                wide_queue[tail++] = edge->target;
            }
        }
        u->colour = 2;
    }
    return edges;
}

static void append(uint32_t u, uint32_t v) {
    struct vertex *object = objects[u];
    if (!object) {
        object = objects[u] = take(sizeof *object);
        memset(object, 0, sizeof *object);
        object->number = u;
    }
    size_t used = (size_t)(object->end - object->begin);
    if ((used & (used - 1)) == 0) { // none, or a full vector: it doubles
        struct edge *grown = take((used ? 2 * used : 1) * sizeof *grown);
        if (used) memcpy(grown, object->begin, used * sizeof *grown);
        free(object->begin);
        object->begin = grown;
        object->end = grown + used;
    }
    object->end->target = v;
    object->end++;
}

static void prepare_bfs(int rows, uint64_t count) {
    vertices = count;
    for (scale = 1; (1ull << scale) < vertices;) scale++;
    label_mask = (1ull << scale) - 1;
    uint64_t edges = 16 * vertices;
    uint32_t u, v;
    if (!rows) {
        objects = take(vertices * sizeof *objects);
        memset(objects, 0, vertices * sizeof *objects);
        wide_queue = take(vertices * sizeof *wide_queue);
        for (uint64_t e = 0; e < edges; e++) {
            edge_of(e, &u, &v);
            append(u, v);
            append(v, u);
        }
        return;
    }
    offsets = take((vertices + 2) * sizeof *offsets);
    memset(offsets, 0, (vertices + 2) * sizeof *offsets);
    for (uint64_t e = 0; e < edges; e++) {
        edge_of(e, &u, &v);
        offsets[u + 2]++;
        offsets[v + 2]++;
    }
    for (uint64_t i = 2; i < vertices + 2; i++) offsets[i] += offsets[i - 1];
    stored_edges = 2 * edges;
    neighbours = take(stored_edges * sizeof *neighbours);
    for (uint64_t e = 0; e < edges; e++) {
        edge_of(e, &u, &v);
        neighbours[offsets[u + 1]++] = v;
        neighbours[offsets[v + 1]++] = u;
    }
    parent = take(vertices * sizeof *parent);
    queue = take(vertices * sizeof *queue);
}

static int usage(void) {
    fprintf(stderr, "usage: native gups BYTES 1|128, native chase BYTES, native bfs csr|property VERTICES\n");
    return 2;
}

int main(int count, char **words) {
    uint64_t (*work)(void);
    if (count == 4 && !strcmp(words[1], "gups")) {
        prepare_gups(strtoull(words[2], NULL, 10), atoi(words[3]));
        work = gups;
    } else if (count == 3 && !strcmp(words[1], "chase")) {
        prepare_chase(strtoull(words[2], NULL, 10));
        work = chase;
    } else if (count == 4 && !strcmp(words[1], "bfs")) {
        int rows = !strcmp(words[2], "csr");
        uint64_t of = strtoull(words[3], NULL, 10);
        if (of < 16 || of > 1u << 31) return usage();
        prepare_bfs(rows, of);
        work = rows ? search_rows : search_objects;
    } else {
        return usage();
    }
    printf("ready\n");
    fflush(stdout);
    double seconds;
    while (scanf("%lf", &seconds) == 1) {
        uint64_t begin = nanoseconds(), units = 0, now;
        do {
            units += work();
            now = nanoseconds();
        } while ((double)(now - begin) < seconds * 1e9);
        printf("%llu %llu\n", (unsigned long long)units, (unsigned long long)(now - begin));
        fflush(stdout);
    }
    sink = (uint64_t)(uintptr_t)at + (table ? table[table_words / 3] : 0);
    return 0;
}
