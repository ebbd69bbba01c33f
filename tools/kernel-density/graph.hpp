// A graph from a file of edges ("u v" a line), in compressed sparse rows (as in GAP), as vertex objects with growing
// vectors of edges, and as those with linked lists of edges and a hash map of them (as GraphBIG's openG stores edges):
// the layouts `csr`, `property` and `linked` of the simulator's graph programs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// 1 to 255, the same in both directions.
inline uint64_t weight_of(uint64_t u, uint64_t v) {
    return 1 + mix64(std::min(u, v) << 32 | std::max(u, v)) % 255;
}

struct EdgeList {
    long vertices = 0;
    std::vector<std::pair<int, int>> edges;

    explicit EdgeList(const char *path) {
        FILE *file = fopen(path, "r");
        if (!file) {
            perror(path);
            exit(1);
        }
        std::vector<char> text(1 << 16);
        int number = 0, ends[2], end = 0;
        bool digits = false;
        while (size_t bytes = fread(text.data(), 1, text.size(), file)) {
            for (size_t i = 0; i < bytes; i++) {
                char c = text[i];
                if (c >= '0' && c <= '9') {
                    number = 10 * number + (c - '0');
                    digits = true;
                } else if (digits) {
                    ends[end++] = number;
                    vertices = std::max(vertices, number + 1L);
                    number = 0;
                    digits = false;
                    if (end == 2) {
                        edges.emplace_back(ends[0], ends[1]);
                        end = 0;
                    }
                }
            }
        }
        fclose(file);
    }
};

// Compressed sparse rows: each edge at both of its ends.
struct Rows {
    long vertices, edges;
    int64_t *offsets;
    int32_t *neighbours;
    int32_t *weights;

    explicit Rows(const EdgeList &list) : vertices(list.vertices), edges(2 * list.edges.size()) {
        offsets = (int64_t *)calloc(vertices + 1, sizeof *offsets);
        neighbours = (int32_t *)malloc(edges * sizeof *neighbours);
        weights = (int32_t *)malloc(edges * sizeof *weights);
        for (auto [u, v] : list.edges) offsets[u]++, offsets[v]++;
        int64_t sum = 0;
        for (long u = 0; u <= vertices; u++) sum += std::exchange(offsets[u], sum);
        std::vector<int64_t> next(offsets, offsets + vertices);
        for (auto [u, v] : list.edges) {
            weights[next[u]] = weights[next[v]] = weight_of(u, v);
            neighbours[next[u]++] = v;
            neighbours[next[v]++] = u;
        }
    }
};

// An edge of a vertex object: 24 bytes.
struct Edge {
    uint64_t target, value, id;
    uint64_t weight() const { return value; }
};

// An edge in a list: 32 bytes, and two pointers of the list. Both ends share its property.
struct ListEdge {
    uint64_t id, target;
    std::shared_ptr<uint64_t> property;
    uint64_t weight() const { return *property; }
};

// A vertex object: 64 bytes.
struct Vertex {
    uint64_t id, colour = 0, level = 0;
    std::vector<Edge> edges;
    double contribution = 0, score = 0;

    void append(uint64_t v, uint64_t edge, const std::shared_ptr<uint64_t> &property) {
        edges.push_back({v, *property, edge});
    }
};

struct ListVertex {
    uint64_t id, colour = 0, level = 0;
    std::list<ListEdge> edges;
    double contribution = 0, score = 0;
    std::unordered_map<uint64_t, std::list<ListEdge>::iterator> by_id;

    void append(uint64_t v, uint64_t edge, const std::shared_ptr<uint64_t> &property) {
        edges.push_back({edge, v, property});
        by_id[edge] = std::prev(edges.end());
    }
};

// The pointers to the vertex objects, by number; null for a vertex without edges.
template <class V> std::vector<V *> objects(const EdgeList &list) {
    std::vector<V *> index(list.vertices, nullptr);
    uint64_t id = 0;
    auto append = [&](int u, int v, const std::shared_ptr<uint64_t> &property) {
        if (!index[u]) {
            index[u] = new V;
            index[u]->id = u;
        }
        index[u]->append(v, id, property);
    };
    for (auto [u, v] : list.edges) {
        std::shared_ptr<uint64_t> property(new uint64_t(weight_of(u, v)));
        append(u, v, property);
        append(v, u, property);
        id++;
    }
    return index;
}

// Vertices with edges, scattered: roots of searches.
inline int root_after(const Rows &rows, uint64_t draw) {
    for (;; draw++) {
        long u = mix64(draw) % rows.vertices;
        if (rows.offsets[u] < rows.offsets[u + 1]) return u;
    }
}
