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
[[gnu::noinline]] static void paths_objects(const std::vector<Vertex *> &index, Heap &heap, uint64_t root) {
    index[root]->colour = 0;
    heap.push({0, root});
    while (!heap.empty()) {
        auto [near, number] = heap.top();
        heap.pop();
        Vertex *u = index[number];
        if (near > u->colour) continue;
        for (const Edge &edge : u->edges) {
            uint64_t through = near + edge.weight;
            Vertex *v = index[edge.target];
            if (through < v->colour) {
                v->colour = through;
                v->level = number;
                heap.push({through, edge.target});
            }
        }
    }
}

int main(int, char **argv) {
    bool rows_layout = strcmp(argv[2], "csr") == 0;
    EdgeList list(argv[3]);
    Rows rows(list);
    std::vector<Entry> entries;
    entries.reserve(rows.edges);
    Heap heap({}, std::move(entries));
    double last;
    int root = root_after(rows, 0), other = root_after(rows, 1);
    if (rows_layout) {
        std::vector<uint64_t> distance(rows.vertices, FAR), parent(rows.vertices);
        begin_window(argv);
        paths_rows(rows, distance.data(), parent.data(), heap, root);
        last = distance[other];
    } else {
        auto index = objects(list);
        for (Vertex *u : index)
            if (u) u->colour = FAR;
        begin_window(argv);
        paths_objects(index, heap, root);
        last = index[other]->colour;
    }
    end_window(rows.edges, last);
}
