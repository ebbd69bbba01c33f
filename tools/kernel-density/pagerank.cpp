// PageRank as GAP computes it (pull, Jacobi), three iterations. pagerank MODE LAYOUT EDGES
#include "graph.hpp"
#include "window.hpp"
#include <cmath>

static const int ITERATIONS = 3;

[[gnu::noinline]] static double iterate_rows(const Rows &rows, float *score, float *contribution) {
    float base = (1 - 0.85f) / rows.vertices, damping = 0.85f;
    const int64_t *offsets = rows.offsets;
    const int32_t *neighbours = rows.neighbours;
    double moved = 0;
    for (long u = 0; u < rows.vertices; u++) contribution[u] = score[u] / (offsets[u + 1] - offsets[u]);
    for (long u = 0; u < rows.vertices; u++) {
        float sum = 0;
        for (int64_t e = offsets[u]; e < offsets[u + 1]; e++) sum += contribution[neighbours[e]];
        float old = score[u];
        score[u] = base + damping * sum;
        moved += std::fabs(score[u] - old);
    }
    return moved;
}

template <class I> [[gnu::noinline]] static double iterate_objects(I &index) {
    double base = (1 - 0.85) / index.size(), damping = 0.85, moved = 0;
    index.for_each([](uint64_t, auto u) { u->contribution = u->score / u->edges.size(); });
    index.for_each([&](uint64_t, auto u) {
        double sum = 0;
        for (const auto &edge : u->edges) sum += index[edge.target]->contribution;
        double old = u->score;
        u->score = base + damping * sum;
        moved += std::fabs(u->score - old);
    });
    return moved;
}

template <class I> static double iterate_all(const EdgeList &list, const Rows &rows, char **argv) {
    I &index = *new I(list); // its end is not measured
    index.for_each([&](uint64_t, auto u) { u->score = 1.0 / rows.vertices; });
    double moved = 0;
    begin_window(argv);
    for (int i = 0; i < ITERATIONS; i++) moved += iterate_objects(index);
    return moved;
}

int main(int, char **argv) {
    EdgeList list(argv[3]);
    Rows rows(list);
    double moved = 0;
    if (strcmp(argv[2], "csr") == 0) {
        std::vector<float> score(rows.vertices, 1.0f / rows.vertices), contribution(rows.vertices);
        begin_window(argv);
        for (int i = 0; i < ITERATIONS; i++) moved += iterate_rows(rows, score.data(), contribution.data());
    } else if (strcmp(argv[2], "linked") == 0) {
        moved = iterate_all<HashedList>(list, rows, argv);
    } else {
        moved = iterate_all<Index>(list, rows, argv);
    }
    end_window(ITERATIONS * rows.edges, moved);
}
