// XSBench's event mode with the unionised grid: look-ups of macroscopic cross sections. xsbench MODE SIZE POINTS
// LOOKUPS. SIZE is small (68 nuclides) or large (355); POINTS are those of a nuclide's grid.
#include "window.hpp"
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

// A point of a nuclide's grid: 48 bytes.
struct Point {
    double energy, total, elastic, absorption, fission, nu_fission;
};

static const int MATERIALS = 12;

// A linear congruential generator modulo 2^63.
static const uint64_t MULTIPLIER = 2806196910506780709, INCREMENT = 1, MODULUS = uint64_t(1) << 63;

static double random_double(uint64_t *seed) {
    *seed = (MULTIPLIER * *seed + INCREMENT) % MODULUS;
    return (double)*seed / (double)MODULUS;
}

// The generator's state after `n` more steps: each look-up finds its own place in the sequence.
static uint64_t fast_forward(uint64_t seed, uint64_t n) {
    n %= MODULUS;
    uint64_t a = MULTIPLIER, c = INCREMENT, all_a = 1, all_c = 0;
    while (n > 0) {
        if (n & 1) {
            all_a *= a;
            all_c = all_c * a + c;
        }
        c *= a + 1;
        a *= a;
        n >>= 1;
    }
    return (all_a * seed + all_c) % MODULUS;
}

static int pick_material(uint64_t *seed) {
    double share[MATERIALS] = {0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013};
    double roll = random_double(seed);
    for (int i = 0; i < MATERIALS; i++) {
        double running = 0;
        for (int j = i; j > 0; j--) running += share[j];
        if (roll < running) return i;
    }
    return 0;
}

static long search(long n, double energy, const double *grid) {
    long low = 0, high = n - 1, length = high - low;
    while (length > 1) {
        long middle = low + length / 2;
        if (grid[middle] > energy)
            high = middle;
        else
            low = middle;
        length = high - low;
    }
    return low;
}

static void micro(double energy, int nuclide, long nuclides, long points, const int *__restrict index,
                  const Point *__restrict grids, long at, double *__restrict sections) {
    const Point *low = index[at * nuclides + nuclide] == points - 1
                           ? &grids[nuclide * points + index[at * nuclides + nuclide] - 1]
                           : &grids[nuclide * points + index[at * nuclides + nuclide]];
    const Point *high = low + 1;
    double f = (high->energy - energy) / (high->energy - low->energy);
    sections[0] = high->total - f * (high->total - low->total);
    sections[1] = high->elastic - f * (high->elastic - low->elastic);
    sections[2] = high->absorption - f * (high->absorption - low->absorption);
    sections[3] = high->fission - f * (high->fission - low->fission);
    sections[4] = high->nu_fission - f * (high->nu_fission - low->nu_fission);
}

static void macro(double energy, int material, long nuclides, long points, const int *__restrict counts,
                  const double *__restrict concentrations, const double *__restrict energies,
                  const int *__restrict index, const Point *__restrict grids, const int *__restrict compositions,
                  double *__restrict sections, int most) {
    for (int k = 0; k < 5; k++) sections[k] = 0;
    long at = search(nuclides * points, energy, energies);
    for (int j = 0; j < counts[material]; j++) {
        double one[5];
        int nuclide = compositions[material * most + j];
        double concentration = concentrations[material * most + j];
        micro(energy, nuclide, nuclides, points, index, grids, at, one);
        for (int k = 0; k < 5; k++) sections[k] += one[k] * concentration;
    }
}

struct Data {
    long nuclides, points;
    std::vector<int> counts, compositions, index;
    std::vector<double> concentrations, energies;
    std::vector<Point> grids;
    int most;
};

[[gnu::noinline]] static long simulate(const Data &data, long lookups) {
    long verification = 0;
    for (int i = 0; i < lookups; i++) {
        uint64_t seed = fast_forward(1070, 2 * i);
        double energy = random_double(&seed);
        int material = pick_material(&seed);
        double sections[5] = {0};
        macro(energy, material, data.nuclides, data.points, data.counts.data(), data.concentrations.data(),
              data.energies.data(), data.index.data(), data.grids.data(), data.compositions.data(), sections,
              data.most);
        double max = -1;
        int which = 0;
        for (int j = 0; j < 5; j++)
            if (sections[j] > max) {
                max = sections[j];
                which = j;
            }
        verification += which + 1;
    }
    return verification;
}

int main(int, char **argv) {
    bool large = strcmp(argv[2], "large") == 0;
    Data data;
    data.nuclides = large ? 355 : 68;
    data.points = atol(argv[3]);
    long lookups = atol(argv[4]), all = data.nuclides * data.points;
    std::mt19937_64 random(1);
    auto unit = [&] { return (random() >> 11) * 0x1p-53; };
    data.grids.resize(all);
    for (long n = 0; n < data.nuclides; n++) {
        auto from = data.grids.begin() + n * data.points;
        for (long i = 0; i < data.points; i++) from[i] = {unit(), unit(), unit(), unit(), unit(), unit()};
        std::sort(from, from + data.points, [](const Point &a, const Point &b) { return a.energy < b.energy; });
    }
    for (const Point &point : data.grids) data.energies.push_back(point.energy);
    std::sort(data.energies.begin(), data.energies.end());
    data.index.resize(all * data.nuclides);
    std::vector<int> below(data.nuclides);
    for (long e = 0; e < all; e++)
        for (long n = 0; n < data.nuclides; n++) {
            int &at = below[n];
            while (at + 1 < data.points && data.grids[n * data.points + at + 1].energy <= data.energies[e]) at++;
            data.index[e * data.nuclides + n] = at;
        }
    data.counts = {large ? 321 : 34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};
    data.most = data.counts[0];
    data.compositions.resize(MATERIALS * data.most);
    data.concentrations.resize(MATERIALS * data.most);
    for (int m = 0; m < MATERIALS; m++)
        for (int j = 0; j < data.counts[m]; j++) {
            data.compositions[m * data.most + j] = m == 0 ? j : random() % data.nuclides;
            data.concentrations[m * data.most + j] = unit();
        }
    begin_window(argv);
    end_window(lookups, simulate(data, lookups));
}
