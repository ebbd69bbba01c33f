// The engine in front of a memory of constant latency: every cycle of a translation is known in advance.
#include <ambulator_engine.hpp>

#include <cstdio>
#include <map>
#include <vector>

namespace {

constexpr std::uint64_t START = 1ull << 32, LATENCY = 100;
int failures = 0;

void expect(const char *what, std::uint64_t got, std::uint64_t wanted) {
    if (got != wanted) {
        std::fprintf(stderr, "timing: %s: %llu, wanted %llu\n", what, static_cast<unsigned long long>(got),
                     static_cast<unsigned long long>(wanted));
        failures++;
    }
}

struct Constant final : ambulator::Memory {
    std::uint64_t now = 0, loads = 0, refused = 0;
    bool refuses = false;
    std::multimap<std::uint64_t, std::uint64_t> flying; // when, token
    bool load(std::uint64_t, std::uint64_t token) override {
        if (refuses && ++refused % 3 != 0)
            return false;
        loads++;
        flying.emplace(now + LATENCY, token);
        return true;
    }
    bool fetch(std::uint64_t, bool) override { return true; }
    bool write(std::uint64_t) override { return true; }
};

struct Bench {
    ambulator::Machine machine;
    Constant memory;
    ambulator::Engine engine;
    std::map<std::uint64_t, std::uint64_t> known; // when, by tag

    static ambulator::Config config(const char *design, std::vector<std::string> options) {
        ambulator::Config c;
        c.design = design;
        c.options = std::move(options);
        for (const char *fixed : {"mmu.l1_latency=1", "mmu.l2_tlb.latency=12", "mmu.pwc.latency=2"})
            c.options.push_back(fixed);
        return c;
    }
    explicit Bench(const char *design, std::vector<std::string> options = {})
        : machine(config(design, std::move(options))), engine(machine, 0, memory) {
        machine.map(0, START, 1 << 30);
        machine.touch(0, START, 1 << 24);
        machine.touch(0, START + (1 << 29), 4096);
    }
    void until(std::uint64_t end) {
        for (; memory.now < end; ++memory.now) {
            while (!memory.flying.empty() && memory.flying.begin()->first <= memory.now) {
                const std::uint64_t token = memory.flying.begin()->second;
                memory.flying.erase(memory.flying.begin());
                engine.arrived(token, memory.now);
            }
            engine.tick(memory.now);
            for (const ambulator::Finished &finished : engine.done())
                known[finished.tag] = memory.now;
            engine.done().clear();
        }
    }
    void start(std::uint64_t tag, std::uint64_t offset, std::uint32_t access = AMBULATOR_LOAD) {
        engine.start(tag, START + offset, access, memory.now);
    }
};

} // namespace

int main() {
    try {
        Bench b("radix");
        b.until(1000);
        // L1 TLB, L2 TLB, walk caches, four loads one after the other.
        b.start(1, 0);
        b.until(1010);
        b.start(2, 8); // joins
        b.until(2000);
        expect("a walk", b.known[1], 1000 + 15 + 4 * LATENCY);
        expect("one that joins it", b.known[2], b.known[1]);
        expect("its loads", b.memory.loads, 4);
        // The L1 TLB, one cycle of which overlaps the cache; then the walk cache of the last level.
        b.start(3, 16);
        b.start(4, 4096);
        b.until(3000);
        expect("an L1 TLB hit", b.known[3], 2000);
        expect("a walk of one load", b.known[4], 2000 + 15 + LATENCY);
        // Two walks at once do not use what the other one has not loaded yet.
        b.start(5, 1 << 29);
        b.start(6, (1 << 29) + 64);
        b.until(4000);
        expect("a walk with two loads", b.known[5], 3000 + 15 + 2 * LATENCY);
        expect("another one that joins", b.known[6], b.known[5]);
        // A fault: a walk, the kernel, a walk.
        const std::uint64_t loads = b.memory.loads;
        b.start(7, (1 << 29) + 8192, AMBULATOR_STORE);
        b.until(100000);
        expect("the loads around a fault", b.memory.loads - loads, 2);
        if (b.known[7] < 4000 + 2 * (15 + LATENCY) + 500)
            expect("a fault takes the kernel's time", b.known[7], 4000 + 2 * (15 + LATENCY) + 1000);
        expect("everything is complete", b.machine.counter("hosted.walks_begun"),
               b.machine.counter("hosted.walks_completed"));

        // One walker: the second walk begins when the first has ended.
        Bench one("radix", {"mmu.walkers=1"});
        one.start(1, 0);
        one.start(2, 1 << 21);
        one.until(5000);
        expect("the first of two on one walker", one.known[1], 15 + 4 * LATENCY);
        expect("the second", one.known[2], one.known[1] + 15 + 4 * LATENCY);

        // A memory that refuses two of three requests delays, and loses nothing.
        Bench busy("radix");
        busy.memory.refuses = true;
        busy.start(1, 0);
        busy.until(5000);
        expect("refused loads are asked for again", busy.known[1], 15 + 4 * (LATENCY + 2));

        // Loads of a hashed table's ways are parallel.
        Bench ways("me-hpt");
        ways.start(1, 0);
        ways.until(5000);
        if (ways.memory.loads < 3 || ways.known[1] >= ways.memory.loads * LATENCY)
            expect("ways are loaded at once", ways.known[1], 2 * LATENCY);
    } catch (const ambulator::Error &error) {
        std::fprintf(stderr, "timing: %s\n", error.what());
        return 1;
    }
    if (failures == 0)
        std::puts("every cycle is accounted for");
    return failures != 0;
}
