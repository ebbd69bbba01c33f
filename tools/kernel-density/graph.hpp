// A graph from a file of edges ("u v" a line), in compressed sparse rows (as in GAP), as vertex objects with growing
// vectors of edges and an index of pointers, and as a list of vertex objects with linked lists of edges, and hash tables
// of vertices and edges (as GraphBIG's openG stores them): the layouts `csr`, `property` and `linked` of the simulator's
// graph programs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <tr1/unordered_map>
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
};

// A vertex in a list, with the edges from it and those to it.
struct ListVertex {
    using Edges = std::list<ListEdge>;
    using Table = std::tr1::unordered_map<uint64_t, Edges::iterator>;

    uint64_t id, colour = 0, level = 0;
    Edges edges;
    double contribution = 0, score = 0;
    Table by_id;
    Edges in_edges;
    Table in_by_id;

    ListEdge &append(Edges &list, Table &table, uint64_t id, uint64_t other) {
        list.push_back({id, other, nullptr});
        table[id] = std::prev(list.end());
        return list.back();
    }
};

// The pointers to the vertex objects, by number; null for a vertex without edges.
struct Index {
    std::vector<Vertex *> objects;

    explicit Index(const EdgeList &list) : objects(list.vertices, nullptr) {
        uint64_t id = 0;
        auto append = [&](int u, int v) {
            if (!objects[u]) {
                objects[u] = new Vertex;
                objects[u]->id = u;
            }
            objects[u]->edges.push_back({uint64_t(v), weight_of(u, v), id});
        };
        for (auto [u, v] : list.edges) {
            append(u, v);
            append(v, u);
            id++;
        }
    }

    Vertex *operator[](uint64_t number) const { return objects[number]; }
    uint64_t size() const { return objects.size(); }

    // Calls `use(number, object)` for each vertex that has an object.
    template <class F> [[gnu::always_inline]] void for_each(F use) const {
        for (size_t number = 0; number < objects.size(); number++)
            if (Vertex *object = objects[number]) use(number, object);
    }
};

// A list of the vertex objects, and a hash table of their places. As in GraphBIG's data sets the input lists the vertices,
// and then the edges of each in turn, in both directions.
struct HashedList {
    std::list<ListVertex> objects;
    std::tr1::unordered_map<uint64_t, std::list<ListVertex>::iterator> places;
    // Of the names of vertices in the input, and back.
    std::tr1::unordered_map<std::string, uint64_t> numbers;
    std::tr1::unordered_map<uint64_t, std::string> names;

    explicit HashedList(const EdgeList &list) {
        for (long u = 0; u < list.vertices; u++) {
            objects.push_back(ListVertex());
            objects.back().id = u;
            places[u] = std::prev(objects.end());
            numbers[std::to_string(u)] = u;
            names[u] = std::to_string(u);
        }
        Rows rows(list);
        uint64_t id = 0;
        for (long u = 0; u < rows.vertices; u++) {
            for (int64_t e = rows.offsets[u]; e < rows.offsets[u + 1]; e++) {
                ListVertex *source = (*this)[u], *target = (*this)[rows.neighbours[e]];
                auto &edge = source->append(source->edges, source->by_id, id, rows.neighbours[e]);
                edge.property.reset(new uint64_t(weight_of(u, rows.neighbours[e])));
                target->append(target->in_edges, target->in_by_id, id, u).property = edge.property;
                id++;
            }
        }
    }

    // openG's `find_vertex`, inlined as with -O3, with which GraphBIG is compiled.
    [[gnu::always_inline, gnu::flatten]] std::list<ListVertex>::iterator find(uint64_t number) {
        auto found = places.find(number);
        return found == places.end() ? objects.end() : found->second;
    }
    [[gnu::always_inline]] ListVertex *operator[](uint64_t number) { return &*find(number); }
    uint64_t size() const { return objects.size(); }

    template <class F> [[gnu::always_inline]] void for_each(F use) {
        for (ListVertex &object : objects) use(object.id, &object);
    }
};

// Vertices with edges, scattered: roots of searches.
inline int root_after(const Rows &rows, uint64_t draw) {
    for (;; draw++) {
        long u = mix64(draw) % rows.vertices;
        if (rows.offsets[u] < rows.offsets[u + 1]) return u;
    }
}
