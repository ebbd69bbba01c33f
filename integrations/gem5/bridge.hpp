// What the SimObject for gem5 wraps, without gem5: the engines of all cores, and a queue of requests for a port that
// may be busy. Compiled and tested without gem5 (test_bridge.cpp).
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef AMBULATOR_GEM5_BRIDGE_HPP
#define AMBULATOR_GEM5_BRIDGE_HPP

#include <ambulator_engine.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

namespace ambulator {

// The walker of one core behind a port that takes one request at a time, and may refuse it.
class Bridge final : private Memory {
public:
    // A request for the port. Requests without a token get no answer that matters.
    struct Request {
        std::uint64_t address;
        std::uint64_t token;
        bool answered;
    };
    using Done = std::function<void(const Finished &)>;

    Bridge(Machine &machine, std::uint32_t core, std::uint64_t table_base, std::size_t room)
        : base_(table_base), room_(room), engine_(machine, core, *this) {}

    // Translates an access that begins at `now`, by the instruction at `pc` (0: not known); `done` is called from
    // tick().
    void translate(std::uint64_t address, std::uint32_t access, std::uint64_t now, Done done, std::uint64_t pc = 0) {
        const std::uint64_t tag = next_tag_++;
        waiting_.emplace(tag, std::move(done));
        engine_.start(tag, address, access, now, pc);
    }

    void tick(std::uint64_t now) {
        engine_.tick(now);
        // A callback may begin another translation.
        const std::vector<Finished> known = std::exchange(engine_.done(), {});
        for (const Finished &finished : known) {
            auto found = waiting_.find(finished.tag);
            const Done done = std::move(found->second);
            waiting_.erase(found);
            done(finished);
        }
    }

    // The next request for the port, or null; pop() when the port has taken it.
    const Request *front() const { return requests_.empty() ? nullptr : &requests_.front(); }
    void pop() { requests_.pop_front(); }

    // An answer to a request.
    void answer(const Request &request, std::uint64_t now) {
        if (request.answered)
            engine_.arrived(request.token, now);
    }

    // Whether tick() has anything to do.
    bool busy() const { return engine_.pending() > 0; }

private:
    bool put(std::uint64_t address, std::uint64_t token, bool answered) {
        if (requests_.size() >= room_)
            return false;
        requests_.push_back({base_ + address, token, answered});
        return true;
    }
    bool load(std::uint64_t address, std::uint64_t token) override { return put(address, token, true); }
    // The data lies where the simulator has it, not where the library has: only table lines are fetched.
    bool fetch(std::uint64_t address, bool data) override { return data || put(address, 0, false); }
    bool write(std::uint64_t address) override { return put(address, 0, false); }

    std::uint64_t base_;
    std::size_t room_;
    std::uint64_t next_tag_ = 0;
    std::deque<Request> requests_;
    std::unordered_map<std::uint64_t, Done> waiting_;
    Engine engine_;
};

} // namespace ambulator

#endif
