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
[[gnu::noinline]] static long flood_objects(const std::vector<Vertex *> &index, uint64_t *queue) {
    long components = 0;
    for (size_t root = 0; root < index.size(); root++) {
        Vertex *first = index[root];
        if (!first || first->colour) continue;
        components++;
        first->colour = 1;
        first->level = root;
        queue[0] = root;
        long head = 0, tail = 1;
        while (head < tail) {
            Vertex *u = index[queue[head++]];
            for (const Edge &edge : u->edges) {
                Vertex *v = index[edge.target];
                if (!v->colour) {
                    v->colour = 1;
                    v->level = root;
                    queue[tail++] = edge.target;
                }
            }
        }
    }
    return components;
}

int main(int, char **argv) {
    bool rows_layout = strcmp(argv[2], "csr") == 0;
    EdgeList list(argv[3]);
    Rows rows(list);
    std::vector<uint64_t> queue(rows.vertices);
    long components;
    if (rows_layout) {
        std::vector<uint64_t> visited(rows.vertices), label(rows.vertices);
        begin_window(argv);
        components = flood_rows(rows, visited.data(), label.data(), queue.data());
    } else {
        auto index = objects(list);
        begin_window(argv);
        components = flood_objects(index, queue.data());
    }
    end_window(rows.edges, components);
}
