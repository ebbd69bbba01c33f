// Connected components: a flood from every vertex not reached yet. cc MODE LAYOUT EDGES
#include "graph.hpp"
#include "window.hpp"

[[gnu::noinline]] static long flood_rows(const Rows &rows, uint64_t *visited, uint64_t *label, uint64_t *queue) {
    const int64_t *offsets = rows.offsets;
    const int32_t *neighbours = rows.neighbours;
    long components = 0;
    for (long root = 0; root < rows.vertices; root++) {
        if (visited[root]) continue;
        components++;
        visited[root] = 1;
        label[root] = root;
        queue[0] = root;
        long head = 0, tail = 1;
        while (head < tail) {
            uint64_t u = queue[head++];
            int64_t end = offsets[u + 1];
            for (int64_t e = offsets[u]; e < end; e++) {
                int32_t v = neighbours[e];
                if (!visited[v]) {
                    visited[v] = 1;
                    label[v] = root;
                    queue[tail++] = v;
                }
            }
        }
    }
    return components;
}

// A vertex's colour says whether it has been visited; its level is its label.
template <class I> [[gnu::noinline]] static long flood_objects(I &index, uint64_t *queue) {
    long components = 0;
    index.for_each([&](uint64_t root, auto first) {
        if (first->colour) return;
        components++;
        first->colour = 1;
        first->level = root;
        queue[0] = root;
        long head = 0, tail = 1;
        while (head < tail) {
            auto u = index[queue[head++]];
            for (const auto &edge : u->edges) {
                auto v = index[edge.target];
                if (!v->colour) {
                    v->colour = 1;
                    v->level = root;
                    queue[tail++] = edge.target;
                }
            }
        }
    });
    return components;
}

template <class I> static long flood_all(const EdgeList &list, uint64_t *queue, char **argv) {
    I &index = *new I(list); // its end is not measured
    begin_window(argv);
    return flood_objects(index, queue);
}

int main(int, char **argv) {
    EdgeList list(argv[3]);
    Rows rows(list);
    std::vector<uint64_t> queue(rows.vertices);
    long components;
    if (strcmp(argv[2], "csr") == 0) {
        std::vector<uint64_t> visited(rows.vertices), label(rows.vertices);
        begin_window(argv);
        components = flood_rows(rows, visited.data(), label.data(), queue.data());
    } else if (strcmp(argv[2], "linked") == 0) {
        components = flood_all<HashedList>(list, queue.data(), argv);
    } else {
        components = flood_all<Index>(list, queue.data(), argv);
    }
    end_window(rows.edges, components);
}
