// Times the translations of libambulator for a cycle-driven simulator: issues their steps to the simulator's caches,
// waits for its answers, and completes the walks. One engine serves one core.
//
// The simulator implements ambulator::Memory, calls start() for each access, tick() each cycle, and arrived() for
// each load that has come back; finished translations are handed to done(). Answers may be late, and in any order.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef AMBULATOR_ENGINE_HPP
#define AMBULATOR_ENGINE_HPP

#include "ambulator.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ambulator {

// A simulator's path from a walker to its caches.
struct Memory {
    virtual ~Memory() = default;
    // Loads the line of a physical address; Engine::arrived(token) when it is there. False: no room, try again.
    virtual bool load(std::uint64_t address, std::uint64_t token) = 0;
    // Fetches a line that nobody waits for. False: no room; it is dropped, as hardware does.
    virtual bool fetch(std::uint64_t address, bool data) = 0;
    // Writes to the line. False: no room, try again.
    virtual bool write(std::uint64_t address) = 0;
};

// A translation that is known.
struct Finished {
    std::uint64_t tag;
    std::uint64_t address;
    std::uint64_t physical;
    std::uint64_t page_bytes;
    std::uint64_t begun;
    std::uint64_t os_cycles;
    std::uint32_t answered;
};

class Engine {
    static constexpr std::uint64_t NEVER = std::numeric_limits<std::uint64_t>::max();
    enum class State : std::uint8_t { Held, Released, Issued, Done };

    struct Timed {
        ambulator_step step;
        State state = State::Held;
        std::uint64_t at = 0; // released: when it may issue; issued, of the kernel's: when it ends
        bool loads() const { return step.kind == AMBULATOR_STEP_LOAD; }
        bool awaitable() const { return loads() || step.kind >= AMBULATOR_STEP_KERNEL; }
    };

    struct Walk {
        Finished result{};
        std::uint64_t id = 0;
        std::uint32_t groups = 0;
        std::uint64_t latency = 0;
        std::vector<Timed> steps;
        std::uint64_t known = NEVER; // when the translation is known, once that is certain
        bool told = false;           // handed to done()
        bool used = false;
        bool walks = false; // occupies a walker
        std::uint32_t left = 0; // steps that are not done
        std::uint64_t next = 0; // nothing to do before this cycle
    };

    Machine &machine_;
    std::uint32_t core_;
    Memory &memory_;
    std::uint32_t walkers_;
    std::uint32_t busy_ = 0;
    std::vector<Walk> walks_;
    std::vector<std::uint32_t> free_, active_;
    std::deque<std::uint32_t> queue_; // translations that wait for a walker
    std::unordered_set<std::uint64_t> in_flight_;
    std::vector<Finished> now_known_;

    std::uint32_t slot() {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(walks_.size()));
            walks_.emplace_back();
        }
        const std::uint32_t number = free_.back();
        free_.pop_back();
        return number;
    }

    // Releases what waits for group `group` - 1, which has ended at `now`.
    static void release(Walk &walk, std::uint32_t group, bool waited, std::uint64_t now) {
        for (Timed &timed : walk.steps)
            if (timed.step.group == group && (timed.step.waited != 0) == waited && timed.state == State::Held) {
                timed.state = State::Released;
                timed.at = now + timed.step.delay;
                walk.next = std::min(walk.next, timed.at);
            }
    }

    // A step has ended.
    void end(Walk &walk, Timed &timed, std::uint64_t now) {
        timed.state = State::Done;
        walk.left -= 1;
        walk.next = now;
        if (!timed.awaitable())
            return;
        bool waited_left = false, any_left = false;
        for (const Timed &other : walk.steps)
            if (other.step.group == timed.step.group && other.state != State::Done && other.awaitable()) {
                any_left = true;
                waited_left |= other.step.waited != 0;
            }
        const std::uint32_t group = timed.step.group;
        if (!waited_left && timed.step.waited) {
            release(walk, group + 1, true, now);
            if (group + 1 == walk.groups)
                walk.known = now + walk.latency;
        }
        if (!any_left)
            release(walk, group + 1, false, now);
    }

    // Issues a step; false if the simulator has no room for it.
    bool issue(Walk &walk, Timed &timed, std::uint64_t number, std::uint64_t index, std::uint64_t now) {
        switch (timed.step.kind) {
        case AMBULATOR_STEP_LOAD:
            timed.state = State::Issued;
            timed.at = NEVER;
            if (memory_.load(timed.step.address, number << 16 | index))
                return true;
            timed.state = State::Released;
            timed.at = now + 1;
            return false;
        case AMBULATOR_STEP_FETCH_TABLE:
        case AMBULATOR_STEP_FETCH_DATA:
            memory_.fetch(timed.step.address, timed.step.kind == AMBULATOR_STEP_FETCH_DATA);
            end(walk, timed, now);
            return true;
        case AMBULATOR_STEP_WRITE:
            if (!memory_.write(timed.step.address)) {
                timed.at = now + 1;
                return false;
            }
            end(walk, timed, now);
            return true;
        case AMBULATOR_STEP_KERNEL:
            timed.state = State::Issued;
            timed.at = now + timed.step.value;
            return true;
        default: // join
            timed.state = State::Issued;
            timed.at = now;
            return true;
        }
    }

    void begin(Walk &walk, std::uint64_t now) {
        walk.next = NEVER;
        release(walk, 0, true, now);
        release(walk, 0, false, now);
        if (walk.groups == 0)
            walk.known = now + walk.latency;
        walk.next = std::min(walk.next, walk.known);
    }

    void advance(std::uint32_t number, std::uint64_t now) {
        Walk &walk = walks_[number];
        walk.next = NEVER;
        for (std::size_t index = 0; index < walk.steps.size(); ++index) {
            Timed &timed = walk.steps[index];
            if (timed.state == State::Released && timed.at <= now)
                issue(walk, timed, number, index, now);
            if (timed.state == State::Issued && timed.step.kind >= AMBULATOR_STEP_KERNEL) {
                const bool joined = timed.step.kind == AMBULATOR_STEP_JOIN;
                if (joined ? in_flight_.count(timed.step.value) == 0 : timed.at <= now)
                    end(walk, timed, now);
                else if (joined)
                    walk.next = now + 1;
            }
            if (timed.state == State::Released || timed.state == State::Issued)
                walk.next = std::min(walk.next, timed.at <= now ? now + 1 : timed.at);
        }
        if (walk.known <= now && !walk.told) {
            walk.told = true;
            if (walk.id != 0) {
                machine_.complete(core_, walk.id, now);
                in_flight_.erase(walk.id);
            }
            if (walk.walks)
                busy_ -= 1;
            now_known_.push_back(walk.result);
        } else if (!walk.told) {
            walk.next = std::min(walk.next, walk.known);
        }
    }

public:
    Engine(Machine &machine, std::uint32_t core, Memory &memory)
        : machine_(machine), core_(core), memory_(memory), walkers_(machine.info().walkers) {}

    // Translates an access that begins at `now`, by the instruction at `pc` (0: not known); done() returns it with
    // its tag later.
    void start(std::uint64_t tag, std::uint64_t address, std::uint32_t access, std::uint64_t now,
               std::uint64_t pc = 0) {
        const ambulator_translation found = machine_.translate(core_, address, access, now, pc);
        const std::uint32_t number = slot();
        Walk &walk = walks_[number];
        walk = Walk{};
        walk.used = true;
        walk.result = {tag, address, found.physical, found.page_bytes, now, found.os_cycles, found.answered};
        walk.id = found.walk;
        walk.groups = found.groups;
        walk.latency = found.latency;
        bool loads = false, joins = false;
        for (const ambulator_step &step : ambulator::steps(found)) {
            walk.steps.push_back(Timed{step});
            loads |= step.kind == AMBULATOR_STEP_LOAD && step.waited != 0;
            joins |= step.kind == AMBULATOR_STEP_JOIN && step.group == 0;
        }
        walk.left = static_cast<std::uint32_t>(walk.steps.size());
        if (walk.id != 0)
            in_flight_.insert(walk.id);
        // What joins a walk waits beside the walkers.
        walk.walks = loads && !joins;
        if (walk.walks && busy_ >= walkers_) {
            walk.next = NEVER;
            queue_.push_back(number);
        } else {
            busy_ += walk.walks;
            begin(walk, now);
            active_.push_back(number);
        }
    }

    // A load has arrived.
    void arrived(std::uint64_t token, std::uint64_t now) {
        Walk &walk = walks_.at(token >> 16);
        end(walk, walk.steps.at(token & 0xffff), now);
    }

    // Does what is due at `now`. Call it each cycle, with cycles that ascend.
    void tick(std::uint64_t now) {
        for (std::size_t at = 0; at < active_.size();) {
            const std::uint32_t number = active_[at];
            if (walks_[number].next <= now)
                advance(number, now);
            Walk &walk = walks_[number];
            if (walk.told && walk.left == 0) {
                walk.used = false;
                free_.push_back(number);
                active_[at] = active_.back();
                active_.pop_back();
            } else {
                ++at;
            }
        }
        while (!queue_.empty() && busy_ < walkers_) {
            busy_ += 1;
            begin(walks_[queue_.front()], now);
            active_.push_back(queue_.front());
            queue_.pop_front();
        }
    }

    // The translations that have become known; the caller empties it.
    std::vector<Finished> &done() { return now_known_; }

    // Translations under way.
    std::size_t pending() const { return active_.size() + queue_.size(); }
};

} // namespace ambulator

#endif
