// Shortest paths from one root: Dijkstra with std::priority_queue; stale entries are dropped when they are popped.
// sssp MODE LAYOUT EDGES
#include "graph.hpp"
#include "window.hpp"
#include <queue>

using Entry = std::pair<uint64_t, uint64_t>; // distance, vertex
using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;
static const uint64_t FAR = UINT64_MAX;

[[gnu::noinline]] static void paths_rows(const Rows &rows, uint64_t *distance, uint64_t *parent, Heap &heap, int root) {
    const int64_t *offsets = rows.offsets;
    const int32_t *neighbours = rows.neighbours, *weights = rows.weights;
    distance[root] = 0;
    heap.push({0, root});
    while (!heap.empty()) {
        auto [near, u] = heap.top();
        heap.pop();
        if (near > distance[u]) continue;
        int64_t end = offsets[u + 1];
        for (int64_t e = offsets[u]; e < end; e++) {
            int32_t v = neighbours[e];
            uint64_t through = near + weights[e];
            if (through < distance[v]) {
                distance[v] = through;
                parent[v] = u;
                heap.push({through, v});
            }
        }
    }
}

// A vertex's colour is its distance, its level its parent.
template <class I> [[gnu::noinline]] static void paths_objects(I &index, Heap &heap, uint64_t root) {
    index[root]->colour = 0;
    heap.push({0, root});
    while (!heap.empty()) {
        auto [near, number] = heap.top();
        heap.pop();
        auto u = index[number];
        if (near > u->colour) continue;
        for (const auto &edge : u->edges) {
            uint64_t through = near + edge.weight();
            auto v = index[edge.target];
            if (through < v->colour) {
                v->colour = through;
                v->level = number;
                heap.push({through, edge.target});
            }
        }
    }
}

template <class I> static double paths_all(const EdgeList &list, Heap &heap, int root, int other, char **argv) {
    I &index = *new I(list); // its end is not measured
    index.for_each([](uint64_t, auto u) { u->colour = FAR; });
    begin_window(argv);
    paths_objects(index, heap, root);
    return index[other]->colour;
}

int main(int, char **argv) {
    EdgeList list(argv[3]);
    Rows rows(list);
    std::vector<Entry> entries;
    entries.reserve(rows.edges);
    Heap heap({}, std::move(entries));
    double last;
    int root = root_after(rows, 0), other = root_after(rows, 1);
    if (strcmp(argv[2], "csr") == 0) {
        std::vector<uint64_t> distance(rows.vertices, FAR), parent(rows.vertices);
        begin_window(argv);
        paths_rows(rows, distance.data(), parent.data(), heap, root);
        last = distance[other];
    } else if (strcmp(argv[2], "linked") == 0) {
        last = paths_all<HashedList>(list, heap, root, other, argv);
    } else {
        last = paths_all<Index>(list, heap, root, other, argv);
    }
    end_window(rows.edges, last);
}
