// Breadth-first search of a random graph of a million vertices and 8 million edges.
#include "window.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define V (1u << 20)
#define DEGREE 8

int main(int count, char **arguments) {
    uint32_t *edges = malloc((size_t)V * DEGREE * 4), *first = malloc((V + 1ul) * 4);
    uint32_t *distance = malloc(V * 4ul), *queue = malloc(V * 4ul), head = 0, tail = 0;
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < (size_t)V * DEGREE; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        edges[i] = x % V;
    }
    for (uint32_t i = 0; i <= V; i++) first[i] = i * DEGREE;
    for (uint32_t i = 0; i < V; i++) {
        distance[i] = ~0u;
        queue[i] = 0;
    }
    end_setup(count, arguments);
    queue[tail++] = 1;
    distance[1] = 0;
    while (head < tail) {
        uint32_t vertex = queue[head++], next = distance[vertex] + 1;
        for (uint32_t k = first[vertex]; k < first[vertex + 1]; k++) {
            uint32_t neighbour = edges[k];
            if (distance[neighbour] == ~0u) {
                distance[neighbour] = next;
                queue[tail++] = neighbour;
            }
        }
    }
    printf("%u\n", tail);
}
