// The caches of the stand-in: private L1 and L2, a shared last level, DRAM with banks. Every level has a queue of
// bounded length, a latency, and MSHRs; answers come in the order in which they are ready, not asked for.
#ifndef STAND_IN_CACHES_HPP
#define STAND_IN_CACHES_HPP

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <queue>
#include <unordered_map>
#include <vector>

namespace stand_in {

using Answer = std::function<void()>;

// What takes requests for lines.
struct Level {
    virtual ~Level() = default;
    // False if its queue is full. `answer` may be empty.
    virtual bool ask(std::uint64_t line, Answer answer) = 0;
    virtual void tick(std::uint64_t now) = 0;
};

// Banks serve one line after the other; a bank's last row is quicker. A seed shuffles latencies.
class Dram final : public Level {
    struct Request {
        std::uint64_t line, asked;
        Answer answer;
    };
    struct Bank {
        std::deque<Request> queue;
        std::uint64_t row = ~0ull, busy_until = 0;
        bool serving = false;
    };
    std::vector<Bank> banks_{32};
    std::uint64_t now_ = 0, noise_;

public:
    explicit Dram(std::uint64_t seed) : noise_(seed | 1) {}
    bool ask(std::uint64_t line, Answer answer) override {
        Bank &bank = banks_[(line ^ line >> 7) % banks_.size()];
        if (bank.queue.size() >= 16)
            return false;
        bank.queue.push_back({line, now_, std::move(answer)});
        return true;
    }
    void tick(std::uint64_t now) override {
        now_ = now;
        for (Bank &bank : banks_) {
            if (bank.serving && bank.busy_until <= now) {
                Answer answer = std::move(bank.queue.front().answer);
                bank.queue.pop_front();
                bank.serving = false;
                if (answer)
                    answer();
            }
            if (!bank.serving && !bank.queue.empty()) {
                const std::uint64_t row = bank.queue.front().line >> 7;
                noise_ = noise_ * 6364136223846793005ull + 1442695040888963407ull;
                bank.busy_until = now + (row == bank.row ? 60 : 110) + (noise_ >> 59);
                bank.row = row;
                bank.serving = true;
            }
        }
    }
};

class Cache final : public Level {
    struct Request {
        std::uint64_t line, due;
        Answer answer;
    };
    struct Miss {
        std::vector<Answer> answers;
        bool sent = false;
    };
    Level &below_;
    std::uint64_t latency_, now_ = 0;
    std::size_t ways_, sets_, mshrs_;
    std::vector<std::vector<std::uint64_t>> tags_; // most recently used last
    std::deque<Request> queue_;
    std::unordered_map<std::uint64_t, Miss> misses_;

    bool hit(std::uint64_t line) {
        auto &set = tags_[line % sets_];
        for (auto way = set.begin(); way != set.end(); ++way)
            if (*way == line) {
                set.erase(way);
                set.push_back(line);
                return true;
            }
        return false;
    }
    void send(std::uint64_t line, Miss &miss) {
        miss.sent = below_.ask(line, [this, line] { fill(line); });
    }
    void fill(std::uint64_t line) {
        auto &set = tags_[line % sets_];
        if (set.size() == ways_)
            set.erase(set.begin());
        set.push_back(line);
        auto found = misses_.find(line);
        std::vector<Answer> answers = std::move(found->second.answers);
        misses_.erase(found);
        for (Answer &answer : answers)
            if (answer)
                answer();
    }

public:
    std::uint64_t accesses = 0, missed = 0;
    Cache(Level &below, std::size_t kib, std::size_t ways, std::uint64_t latency, std::size_t mshrs)
        : below_(below), latency_(latency), ways_(ways), sets_(kib * 16 / ways), mshrs_(mshrs), tags_(sets_) {}
    bool ask(std::uint64_t line, Answer answer) override {
        if (queue_.size() >= 32)
            return false;
        queue_.push_back({line, now_ + latency_, std::move(answer)});
        return true;
    }
    void tick(std::uint64_t now) override {
        now_ = now;
        for (auto &[line, miss] : misses_)
            if (!miss.sent)
                send(line, miss);
        for (int served = 0; served < 2 && !queue_.empty() && queue_.front().due <= now; ++served) {
            Request &request = queue_.front();
            const std::uint64_t line = request.line;
            auto found = misses_.find(line);
            if (found != misses_.end()) {
                found->second.answers.push_back(std::move(request.answer));
            } else if (hit(line)) {
                Answer answer = std::move(request.answer);
                if (answer)
                    answer();
            } else if (misses_.size() < mshrs_) {
                missed += 1;
                Miss &miss = misses_[line];
                miss.answers.push_back(std::move(request.answer));
                send(line, miss);
            } else {
                return; // the queue waits for an MSHR
            }
            accesses += 1;
            queue_.pop_front();
        }
    }
};

} // namespace stand_in

#endif
