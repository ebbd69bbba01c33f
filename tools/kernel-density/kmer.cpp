// k-mer counting in libcuckoo's table as Flye and GenomicsBench's kmer-cnt do it: reads of two bits a base, k-mers
// rolled along them, the smaller of a k-mer and its reverse complement counted. kmer MODE K READS (of 10,000 bases,
// 10% wrong, from a genome of a million bases).
#include "window.hpp"
#include <cstdint>
#include <cstdlib>
#include <libcuckoo/cuckoohash_map.hh>
#include <random>
#include <vector>

static unsigned kmer_size;

struct Kmer {
    uint64_t bases = 0;

    Kmer() = default;
    explicit Kmer(uint64_t bases) : bases(bases) {}
    bool operator==(const Kmer &other) const { return bases == other.bases; }

    void append(uint64_t base) {
        bases = (bases << 2) + base;
        bases &= (uint64_t(1) << kmer_size * 2) - 1;
    }

    Kmer reverse_complement() const {
        uint64_t rest = bases;
        Kmer reversed;
        for (unsigned i = 0; i < kmer_size; i++) {
            reversed.bases <<= 2;
            reversed.bases += ~rest & 3;
            rest >>= 2;
        }
        return reversed;
    }

    void standardise() {
        Kmer other = reverse_complement();
        if (other.bases < bases) bases = other.bases;
    }
};

struct Hash {
    uint64_t operator()(const Kmer &kmer) const {
        uint64_t z = kmer.bases + 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
};

// A read: two bits a base; the other strand is read backwards.
struct Read {
    std::vector<uint64_t> chunks;
    uint64_t length;
    bool complement;

    uint64_t at(uint64_t index) const {
        if (complement) index = length - index - 1;
        uint64_t base = (chunks[index / 32] >> (index % 32) * 2) & 3;
        return complement ? ~base & 3 : base;
    }
};

using Table = libcuckoo::cuckoohash_map<Kmer, uint64_t, Hash>;

[[gnu::noinline]] static long count(const std::vector<Read> &reads, Table &table) {
    long counted = 0;
    for (const Read &read : reads) {
        Kmer kmer;
        for (unsigned i = 0; i + 1 < kmer_size; i++) kmer.append(read.at(i));
        for (uint64_t i = kmer_size - 1; i < read.length; i++) {
            kmer.append(read.at(i));
            Kmer standard = kmer;
            standard.standardise();
            table.upsert(standard, [](uint64_t &count) { ++count; }, 1);
            counted++;
        }
    }
    return counted;
}

int main(int, char **argv) {
    kmer_size = atoi(argv[2]);
    long number = atol(argv[3]);
    std::mt19937_64 random(1);
    std::vector<uint8_t> genome(1000000);
    for (auto &base : genome) base = random() & 3;
    const uint64_t LENGTH = 10000;
    std::vector<Read> reads;
    for (long r = 0; r < number; r++) {
        Read read{std::vector<uint64_t>((LENGTH - 1) / 32 + 1), LENGTH, (random() & 1) != 0};
        uint64_t start = random() % (genome.size() - LENGTH + 1);
        for (uint64_t i = 0; i < LENGTH; i++) {
            uint64_t base = genome[start + i];
            if (random() % 10 == 0) base = (base + 1 + random() % 3) & 3;
            read.chunks[i / 32] |= base << (i % 32) * 2;
        }
        reads.push_back(std::move(read));
    }
    Table table(1 << 22);
    begin_window(argv);
    end_window(count(reads, table), table.size());
}
