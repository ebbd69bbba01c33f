// A C++17 wrapper of libambulator: a machine that frees itself, and exceptions with the library's sentence.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef AMBULATOR_HPP
#define AMBULATOR_HPP

#include "ambulator.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ambulator {

// A call that failed.
class Error : public std::runtime_error {
    std::int32_t status_;

public:
    Error(std::int32_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    // One of AMBULATOR_ARGUMENT, ...
    std::int32_t status() const noexcept { return status_; }
};

// What a machine is made from: see ambulator_config.
struct Config {
    std::string machine{};
    std::string design{};
    std::string spec{};
    std::vector<std::string> options{};
    std::uint64_t auto_map = 0;
    std::uint32_t cores = 1;
    std::uint32_t flags = 0;
    std::uint32_t assumed_level = AMBULATOR_DRAM;
};

// The steps of a translation, for a range-based for.
struct Steps {
    const ambulator_step *first;
    std::size_t count;
    const ambulator_step *begin() const noexcept { return first; }
    const ambulator_step *end() const noexcept { return first + count; }
    std::size_t size() const noexcept { return count; }
};

inline Steps steps(const ambulator_translation &translation) noexcept {
    return {translation.steps, translation.step_count};
}

class Machine {
    struct Destroy {
        void operator()(ambulator_machine *machine) const noexcept { ambulator_destroy(machine); }
    };
    std::unique_ptr<ambulator_machine, Destroy> machine_;

    void check(std::int32_t status) const {
        if (status != AMBULATOR_OK)
            throw Error(status, machine_ ? ambulator_error(machine_.get()) : ambulator_status_text(status));
    }

public:
    explicit Machine(const Config &config) {
        std::vector<const char *> options;
        for (const std::string &option : config.options)
            options.push_back(option.c_str());
        const auto text = [](const std::string &given) { return given.empty() ? nullptr : given.c_str(); };
        ambulator_config c{};
        c.struct_size = sizeof c;
        c.abi_version = AMBULATOR_ABI_VERSION;
        c.machine = text(config.machine);
        c.design = text(config.design);
        c.spec = text(config.spec);
        c.options = options.data();
        c.option_count = options.size();
        c.auto_map = config.auto_map;
        c.cores = config.cores;
        c.flags = config.flags;
        c.assumed_level = config.assumed_level;
        std::vector<char> why(1 << 16);
        ambulator_machine *made = nullptr;
        const std::int32_t status = ambulator_create(&c, &made, why.data(), why.size());
        if (status != AMBULATOR_OK)
            throw Error(status, why.data());
        machine_.reset(made);
    }

    // For what this wrapper lacks.
    ambulator_machine *get() const noexcept { return machine_.get(); }

    ambulator_machine_info info() const {
        ambulator_machine_info info{};
        info.struct_size = sizeof info;
        check(ambulator_info(get(), &info));
        return info;
    }

    // `pc`: the instruction that makes the access; 0 if it is not known.
    ambulator_translation translate(std::uint32_t core, std::uint64_t address, std::uint32_t access,
                                    std::uint64_t now, std::uint64_t pc = 0) {
        ambulator_translation translation{};
        translation.struct_size = sizeof translation;
        check(ambulator_translate_at(get(), core, pc, address, access, now, &translation));
        return translation;
    }

    void complete(std::uint32_t core, std::uint64_t walk, std::uint64_t cycle) {
        check(ambulator_complete(get(), core, walk, cycle));
    }

    // System calls return the cycles of the operating system.
    std::uint64_t map(std::uint32_t core, std::uint64_t start, std::uint64_t bytes,
                      std::uint32_t rights = AMBULATOR_READ | AMBULATOR_WRITE,
                      std::uint32_t kind = AMBULATOR_ANONYMOUS) {
        std::uint64_t cycles = 0;
        check(ambulator_map(get(), core, start, bytes, rights, kind, &cycles));
        return cycles;
    }
    std::uint64_t unmap(std::uint32_t core, std::uint64_t start, std::uint64_t bytes) {
        std::uint64_t cycles = 0;
        check(ambulator_unmap(get(), core, start, bytes, &cycles));
        return cycles;
    }
    std::uint64_t protect(std::uint32_t core, std::uint64_t start, std::uint64_t bytes, std::uint32_t rights) {
        std::uint64_t cycles = 0;
        check(ambulator_protect(get(), core, start, bytes, rights, &cycles));
        return cycles;
    }
    std::uint64_t advise(std::uint32_t core, std::uint64_t start, std::uint64_t bytes, std::uint32_t advice) {
        std::uint64_t cycles = 0;
        check(ambulator_advise(get(), core, start, bytes, advice, &cycles));
        return cycles;
    }
    std::uint64_t touch(std::uint32_t core, std::uint64_t start, std::uint64_t bytes,
                        std::uint32_t access = AMBULATOR_STORE) {
        std::uint64_t cycles = 0;
        check(ambulator_touch(get(), core, start, bytes, access, &cycles));
        return cycles;
    }
    std::uint32_t spawn() {
        std::uint32_t process = 0;
        check(ambulator_spawn(get(), &process));
        return process;
    }
    std::uint32_t fork(std::uint32_t core) {
        std::uint32_t child = 0;
        check(ambulator_fork(get(), core, &child, nullptr));
        return child;
    }
    std::uint64_t exit(std::uint32_t core, std::uint32_t process) {
        std::uint64_t cycles = 0;
        check(ambulator_exit(get(), core, process, &cycles));
        return cycles;
    }
    std::uint64_t switch_to(std::uint32_t core, std::uint32_t process) {
        std::uint64_t cycles = 0;
        check(ambulator_switch(get(), core, process, &cycles));
        return cycles;
    }
    std::uint64_t tick(std::uint32_t core, std::uint64_t now) {
        std::uint64_t cycles = 0;
        check(ambulator_tick(get(), core, now, &cycles));
        return cycles;
    }

    // UINT64_MAX if the page is not present.
    std::uint64_t lookup(std::uint32_t process, std::uint64_t address) const {
        std::uint64_t physical = 0;
        check(ambulator_lookup(get(), process, address, &physical));
        return physical;
    }
    void set_bus_load(std::uint32_t permille) { check(ambulator_set_bus_load(get(), permille)); }

    std::vector<ambulator_effect> take_effects() {
        const ambulator_effect *effects = nullptr;
        std::size_t count = 0;
        check(ambulator_take_effects(get(), &effects, &count));
        return std::vector<ambulator_effect>(effects, effects + count);
    }

    // Valid until the next call.
    std::vector<ambulator_counter> counters() {
        const ambulator_counter *counters = nullptr;
        std::size_t count = 0;
        check(ambulator_counters(get(), &counters, &count));
        return std::vector<ambulator_counter>(counters, counters + count);
    }
    std::uint64_t counter(const std::string &name) const {
        std::uint64_t value = 0;
        check(ambulator_counter_value(get(), name.c_str(), &value));
        return value;
    }
    void reset_counters() { check(ambulator_reset_counters(get())); }
    void check_books() { check(ambulator_check(get())); }
};

} // namespace ambulator

#endif
