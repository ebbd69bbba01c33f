// Graph500's kernel 2: a top-down search with a queue, from two roots. bfs MODE LAYOUT EDGES
#include "graph.hpp"
#include "window.hpp"

// Returns how many vertices the search has reached.
[[gnu::noinline]] static long search_rows(const Rows &rows, int32_t *parent, int32_t *queue, int32_t root) {
    const int64_t *offsets = rows.offsets;
    const int32_t *neighbours = rows.neighbours;
    parent[root] = root;
    queue[0] = root;
    long head = 0, tail = 1;
    while (head < tail) {
        int32_t u = queue[head++];
        for (int64_t e = offsets[u]; e < offsets[u + 1]; e++) {
            int32_t v = neighbours[e];
            if (parent[v] < 0) {
                parent[v] = u;
                queue[tail++] = v;
            }
        }
    }
    return tail;
}

[[gnu::noinline]] static void reset_rows(int32_t *parent, long vertices) {
    for (long u = 0; u < vertices; u++) parent[u] = -1;
}

enum { WHITE, GREY, BLACK };

template <class I> [[gnu::noinline]] static long search_objects(I &index, uint64_t *queue, uint64_t root) {
    index[root]->colour = GREY;
    index[root]->level = 0;
    queue[0] = root;
    long head = 0, tail = 1;
    while (head < tail) {
        auto u = index[queue[head++]];
        uint64_t level = u->level + 1;
        for (const auto &edge : u->edges) {
            auto v = index[edge.target];
            if (v->colour == WHITE) {
                v->colour = GREY;
                v->level = level;
                queue[tail++] = edge.target;
            }
        }
        u->colour = BLACK;
    }
    return tail;
}

template <class I> [[gnu::noinline]] static void reset_objects(I &index) {
    index.for_each([](uint64_t, auto vertex) { vertex->colour = WHITE; });
}

static const int ROUNDS = 2;

template <class I> static long search_all(const EdgeList &list, const Rows &rows, char **argv) {
    I &index = *new I(list); // its end is not measured
    std::vector<uint64_t> queue(rows.vertices);
    long found = 0;
    begin_window(argv);
    for (int round = 0; round < ROUNDS; round++) {
        reset_objects(index);
        found += search_objects(index, queue.data(), root_after(rows, round));
    }
    return found;
}

int main(int, char **argv) {
    EdgeList list(argv[3]);
    Rows rows(list);
    long found = 0;
    if (strcmp(argv[2], "csr") == 0) {
        std::vector<int32_t> parent(rows.vertices, -1), queue(rows.vertices);
        begin_window(argv);
        for (int round = 0; round < ROUNDS; round++) {
            reset_rows(parent.data(), rows.vertices);
            found += search_rows(rows, parent.data(), queue.data(), root_after(rows, round));
        }
    } else if (strcmp(argv[2], "linked") == 0) {
        found = search_all<HashedList>(list, rows, argv);
    } else {
        found = search_all<Index>(list, rows, argv);
    }
    end_window(ROUNDS * rows.edges, found);
}
