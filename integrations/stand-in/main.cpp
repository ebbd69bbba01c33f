// A small cycle-driven simulator that uses libambulator as a large one would: cores with a window of accesses in
// flight, caches with queues and latencies, answers that are late and in another order than asked for.
//
//   stand-in run [--design D] [--set K=V]... [--cores N] [--accesses N] [--window N] [--pages N] [--seed N] [--own]
//                [--threads] [--unmap] [--touch] [--strides] [--no-pc] [--csv FILE]
//
// --strides: four instructions, each with a stride of pages of its own, in turn. --no-pc: the library is not told
// which instruction makes an access.
#include "caches.hpp"
#include "own_walker.hpp"

#include <ambulator_engine.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>

namespace stand_in {

constexpr std::uint64_t BASE = 0x100000000ull;

struct Options {
    std::string design = "radix";
    std::vector<std::string> settings;
    std::uint32_t cores = 1;
    std::uint64_t accesses = 20000, window = 16, pages = 4096, seed = 1;
    bool own = false, threads = false, unmap = false, touch = false, strides = false, no_pc = false;
    std::string csv;
};

struct Access {
    std::uint64_t pc, address;
    std::uint32_t access;
};

// A core's accesses: a random walk over pages, half of it over a hot sixteenth; or instructions with strides.
class Stream {
    std::uint64_t state_, pages_, count_ = 0;
    bool strides_, no_pc_;

public:
    Stream(std::uint64_t seed, const Options &options)
        : state_(seed * 2654435761u + 1), pages_(options.pages), strides_(options.strides), no_pc_(options.no_pc) {}
    Access next() {
        const std::uint64_t number = count_++;
        const std::uint64_t pc = no_pc_ ? 0 : 0x400000 + number % 4 * 16;
        if (strides_) {
            // Strides of 3, 5, 7 and 9 pages, each in a quarter of its own.
            const std::uint64_t quarter = pages_ / 4, way = number % 4;
            const std::uint64_t page = way * quarter + number / 4 * (2 * way + 3) % quarter;
            return {pc, BASE + page * 4096, AMBULATOR_LOAD};
        }
        state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
        const std::uint64_t random = state_ >> 20;
        const std::uint64_t page = random & 1 ? (random >> 12) % pages_ : (random >> 12) % (pages_ / 16 + 1);
        const std::uint32_t access = (random >> 1 & 3) == 0 ? AMBULATOR_STORE : AMBULATOR_LOAD;
        return {pc, BASE + page * 4096 + (random >> 3 & 511) * 8, access};
    }
};

// The private caches of a core, which also are its walker's path to memory.
struct Private final : ambulator::Memory {
    Cache l2, l1;
    std::function<void(std::uint64_t)> arrived;
    explicit Private(Level &last) : l2(last, 512, 8, 10, 16), l1(l2, 32, 8, 4, 8) {}
    bool load(std::uint64_t address, std::uint64_t token) override {
        return l2.ask(address >> 6, [this, token] { arrived(token); });
    }
    bool fetch(std::uint64_t address, bool) override { return l2.ask(address >> 6, {}); }
    bool write(std::uint64_t address) override { return l2.ask(address >> 6, {}); }
};

struct Result {
    std::uint64_t cycles = 0, accesses = 0, wrong = 0, os_cycles = 0, translation_cycles = 0;
};

// A core with an MMU of either kind.
template <typename Mmu> struct Core {
    std::unique_ptr<Private> caches;
    std::unique_ptr<Mmu> mmu;
    Stream stream;
    std::uint64_t begun = 0, ended = 0, in_flight = 0;
    Core(std::uint64_t seed, const Options &options) : stream(seed, options) {}
};

template <typename Mmu, typename Check, typename Between>
Result simulate(const Options &options, std::vector<Core<Mmu>> &cores, Cache &last, Dram &dram, Check check,
                Between between, std::uint64_t &now) {
    Result result;
    std::FILE *csv = options.csv.empty() ? nullptr : std::fopen(options.csv.c_str(), "w");
    for (bool goes_on = true; goes_on; ++now) {
        goes_on = false; // `now` is the clock that the callbacks see too
        dram.tick(now);
        last.tick(now);
        for (std::uint32_t number = 0; number < cores.size(); ++number) {
            Core<Mmu> &core = cores[number];
            core.caches->l2.tick(now);
            core.caches->l1.tick(now);
            core.mmu->tick(now);
            for (const ambulator::Finished &found : core.mmu->done()) {
                result.wrong += !check(number, found);
                result.os_cycles += found.os_cycles;
                result.translation_cycles += now - found.begun;
                Core<Mmu> *of = &core;
                // The line of the data; with a full queue the access ends at once, as its cost is not of interest.
                if (!core.caches->l1.ask(found.physical >> 6, [of] { of->ended++, of->in_flight--; }))
                    core.ended++, core.in_flight--;
            }
            core.mmu->done().clear();
            if (core.begun < options.accesses && core.in_flight < options.window) {
                if (between(number, core.begun, core.in_flight)) {
                    const auto [pc, address, access] = core.stream.next();
                    if (csv)
                        std::fprintf(csv, " %c %llx,8\n", access == AMBULATOR_STORE ? 'S' : 'L',
                                     static_cast<unsigned long long>(address));
                    core.mmu->start(core.begun, address, access, now, pc);
                    core.begun++, core.in_flight++;
                }
            }
            goes_on |= core.ended < options.accesses || core.mmu->pending() > 0;
        }
        if (now > 4000000000ull) {
            std::fprintf(stderr, "stand-in: no progress\n");
            std::exit(3);
        }
    }
    if (csv)
        std::fclose(csv);
    result.cycles = now;
    for (const Core<Mmu> &core : cores)
        result.accesses += core.ended;
    return result;
}

void say(const char *name, std::uint64_t value) { std::printf("%s %llu\n", name, static_cast<unsigned long long>(value)); }

int run(const Options &options) {
    Dram dram(options.seed);
    Cache last(dram, 2048 * options.cores, 16, 30, 32);
    Result result;
    const auto before = std::chrono::steady_clock::now();
    std::vector<ambulator_counter> counters;
    std::unique_ptr<ambulator::Machine> machine;
    if (options.own) {
        std::vector<Core<OwnWalker>> cores;
        for (std::uint32_t number = 0; number < options.cores; ++number) {
            cores.emplace_back(options.seed + number, options);
            Core<OwnWalker> &core = cores.back();
            core.caches = std::make_unique<Private>(last);
            core.mmu = std::make_unique<OwnWalker>(*core.caches);
            if (options.touch)
                core.mmu->touch(BASE, options.pages * 4096);
        }
        std::uint64_t now = 0;
        for (Core<OwnWalker> &core : cores) {
            OwnWalker *mmu = core.mmu.get();
            core.caches->arrived = [mmu, &now](std::uint64_t token) { mmu->arrived(token, now); };
        }
        result = simulate(
            options, cores, last, dram, [](std::uint32_t, const ambulator::Finished &) { return true; },
            [](std::uint32_t, std::uint64_t, std::uint64_t) { return true; }, now);
        std::uint64_t walks = 0;
        for (Core<OwnWalker> &core : cores)
            walks += core.mmu->walks;
        say("own.walks", walks);
    } else {
        ambulator::Config config;
        config.design = options.design;
        config.options = options.settings;
        config.cores = options.cores;
        config.flags = AMBULATOR_EFFECTS;
        machine = std::make_unique<ambulator::Machine>(config);
        std::vector<Core<ambulator::Engine>> cores;
        for (std::uint32_t number = 0; number < options.cores; ++number) {
            if (options.threads)
                machine->switch_to(number, 0);
            if (number == 0 || !options.threads)
                machine->map(number, BASE, options.pages * 4096);
            if (options.touch && (number == 0 || !options.threads))
                machine->touch(number, BASE, options.pages * 4096);
            cores.emplace_back(options.seed + number, options);
            Core<ambulator::Engine> &core = cores.back();
            core.caches = std::make_unique<Private>(last);
            core.mmu = std::make_unique<ambulator::Engine>(*machine, number, *core.caches);
        }
        std::uint64_t now = 0;
        for (Core<ambulator::Engine> &core : cores) {
            ambulator::Engine *mmu = core.mmu.get();
            core.caches->arrived = [mmu, &now](std::uint64_t token) { mmu->arrived(token, now); };
        }
        std::uint64_t invalidated = 0;
        // The truth may have changed since the translation (migration): then the page was invalidated.
        std::set<std::uint64_t> moved;
        auto note = [&] {
            for (const ambulator_effect &effect : machine->take_effects())
                if (effect.kind == AMBULATOR_INVALIDATE_PAGE)
                    for (std::uint64_t at = 0; at < effect.bytes && effect.bytes <= 1 << 21; at += 4096)
                        invalidated++, moved.insert((effect.address + at) >> 12);
                else if (effect.kind == AMBULATOR_INVALIDATE_PROCESS)
                    invalidated++;
        };
        auto check = [&](std::uint32_t number, const ambulator::Finished &found) {
            note();
            const std::uint64_t truth = machine->lookup(options.threads ? 0 : number, found.address);
            return truth == found.physical || moved.count(found.address >> 12) != 0;
        };
        auto between = [&](std::uint32_t number, std::uint64_t begun, std::uint64_t in_flight) {
            if (!options.unmap || begun % 1000 != 999)
                return true;
            if (in_flight > 0)
                return false; // the program waits for its accesses before a system call
            static std::set<std::pair<std::uint32_t, std::uint64_t>> did;
            if (did.insert({number, begun}).second) {
                machine->unmap(number, BASE, 16 * 4096);
                machine->map(number, BASE, 16 * 4096);
                machine->advise(number, BASE + (1 << 20), 8 * 4096, AMBULATOR_DONT_NEED);
            }
            return true;
        };
        result = simulate(options, cores, last, dram, check, between, now);
        say("stand_in.invalidated", invalidated);
        machine->check_books();
        counters = machine->counters();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    for (const ambulator_counter &counter : counters)
        say(counter.name, counter.value);
    say("stand_in.accesses", result.accesses);
    say("stand_in.cycles", result.cycles);
    say("stand_in.os_cycles", result.os_cycles);
    say("stand_in.translation_cycles", result.translation_cycles);
    say("stand_in.wrong", result.wrong);
    std::fprintf(stderr, "%.3f s of the host, %.0f simulated cycles a second\n", seconds,
                 static_cast<double>(result.cycles) / seconds);
    return result.wrong == 0 && result.accesses == options.accesses * options.cores ? 0 : 1;
}

} // namespace stand_in

int main(int count, char **arguments) {
    stand_in::Options options;
    auto usage = [] {
        std::fprintf(stderr, "stand-in: see the head of main.cpp for its options\n");
        return 2;
    };
    if (count < 2 || std::strcmp(arguments[1], "run") != 0)
        return usage();
    for (int at = 2; at < count; ++at) {
        const std::string name = arguments[at];
        bool *const flag = name == "--own"       ? &options.own
                           : name == "--threads" ? &options.threads
                           : name == "--unmap"   ? &options.unmap
                           : name == "--touch"   ? &options.touch
                           : name == "--strides" ? &options.strides
                           : name == "--no-pc"   ? &options.no_pc
                                                 : nullptr;
        if (flag != nullptr) {
            *flag = true;
            continue;
        }
        if (at + 1 >= count)
            return usage();
        const std::string value = arguments[++at];
        const auto number = [&] { return std::strtoull(value.c_str(), nullptr, 0); };
        if (name == "--design")
            options.design = value;
        else if (name == "--set")
            options.settings.push_back(value);
        else if (name == "--cores")
            options.cores = static_cast<std::uint32_t>(number());
        else if (name == "--accesses")
            options.accesses = number();
        else if (name == "--window")
            options.window = number();
        else if (name == "--pages")
            options.pages = number();
        else if (name == "--seed")
            options.seed = number();
        else if (name == "--csv")
            options.csv = value;
        else
            return usage();
    }
    try {
        return stand_in::run(options);
    } catch (const ambulator::Error &error) {
        std::fprintf(stderr, "stand-in: %s\n", error.what());
        return 1;
    }
}
