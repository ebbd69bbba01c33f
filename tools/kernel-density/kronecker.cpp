// Writes a Kronecker graph with Graph500's parameters as a list of edges: kronecker SCALE EDGE_FACTOR.
#include "graph.hpp"
#include <random>

int main(int, char **argv) {
    int scale = atoi(argv[1]), factor = atoi(argv[2]);
    std::mt19937_64 random(1);
    std::vector<int> labels(1L << scale);
    for (size_t i = 0; i < labels.size(); i++) labels[i] = i;
    for (size_t i = labels.size() - 1; i > 0; i--) std::swap(labels[i], labels[random() % (i + 1)]);
    for (long e = 0; e < (long)factor << scale; e++) {
        long u = 0, v = 0;
        for (int level = 0; level < scale; level++) {
            double draw = (random() >> 11) * 0x1p-53;
            u = u << 1 | (draw >= 0.76);
            v = v << 1 | ((draw >= 0.57 && draw < 0.76) || draw >= 0.95);
        }
        printf("%d %d\n", labels[u], labels[v]);
    }
}
