// The bridge behind a port like gem5's: it refuses requests now and then, and answers late and out of order.
#include "bridge.hpp"

#include <cstdio>
#include <vector>

int main() {
    ambulator::Config config;
    config.design = "me-hpt";
    config.cores = 2;
    ambulator::Machine machine(config);
    std::uint64_t random = 1, now = 0, known = 0, wrong = 0;
    const auto next = [&random](std::uint64_t below) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        return (random >> 33) % below;
    };
    constexpr std::uint64_t BASE = 1ull << 40, START = 1ull << 32;
    std::vector<std::unique_ptr<ambulator::Bridge>> bridges;
    struct Flying {
        std::uint32_t core;
        std::uint64_t due;
        ambulator::Bridge::Request request;
    };
    std::vector<Flying> flying;
    for (std::uint32_t core = 0; core < 2; ++core) {
        machine.map(core, START, 64 << 20);
        bridges.push_back(std::make_unique<ambulator::Bridge>(machine, core, BASE, 8));
    }
    constexpr std::uint64_t WANTED = 3000;
    std::uint64_t begun = 0;
    for (; known < WANTED && now < 100000000; ++now) {
        for (std::uint32_t core = 0; core < 2; ++core) {
            ambulator::Bridge &bridge = *bridges[core];
            if (begun < WANTED && next(4) == 0) {
                begun++;
                const auto done = [&machine, &known, &wrong, core](const ambulator::Finished &finished) {
                    known++;
                    wrong += machine.lookup(core, finished.address) != finished.physical;
                };
                bridge.translate(START + next(64 << 20), next(3) == 0 ? AMBULATOR_STORE : AMBULATOR_LOAD, now, done);
            }
            bridge.tick(now);
            if (bridge.front() && next(3) != 0) { // else the port is busy
                wrong += bridge.front()->address < BASE;
                flying.push_back({core, now + 20 + next(200), *bridge.front()});
                bridge.pop();
            }
        }
        for (std::size_t at = 0; at < flying.size();)
            if (flying[at].due <= now) {
                bridges[flying[at].core]->answer(flying[at].request, now);
                flying[at] = flying.back();
                flying.pop_back();
            } else {
                ++at;
            }
    }
    machine.check_books();
    std::printf("bridge: %llu translations in %llu cycles, %llu wrong\n", static_cast<unsigned long long>(known),
                static_cast<unsigned long long>(now), static_cast<unsigned long long>(wrong));
    return known == WANTED && wrong == 0 ? 0 : 1;
}
