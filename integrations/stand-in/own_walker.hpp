// A radix walker of the stand-in's own, as simulators have them: TLBs, page-walk caches, and a page table whose
// nodes get made-up addresses. It is what the library's cost is measured against.
#ifndef STAND_IN_OWN_WALKER_HPP
#define STAND_IN_OWN_WALKER_HPP

#include <ambulator_engine.hpp>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stand_in {

// Least recently used keys in sets.
class Array {
    std::size_t ways_, sets_;
    std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> data_;

public:
    Array(std::size_t entries, std::size_t ways) : ways_(ways), sets_(entries / ways), data_(sets_) {}
    const std::uint64_t *find(std::uint64_t key) {
        auto &set = data_[key % sets_];
        for (std::size_t at = 0; at < set.size(); ++at)
            if (set[at].first == key) {
                const auto entry = set[at];
                set.erase(set.begin() + static_cast<std::ptrdiff_t>(at));
                set.push_back(entry);
                return &set.back().second;
            }
        return nullptr;
    }
    void fill(std::uint64_t key, std::uint64_t value) {
        if (find(key))
            return;
        auto &set = data_[key % sets_];
        if (set.size() == ways_)
            set.erase(set.begin());
        set.emplace_back(key, value);
    }
};

class OwnWalker {
    struct Walk {
        ambulator::Finished result{};
        int level = 0;
        std::uint64_t at = 0, due = 0;
        bool loading = false;
    };
    ambulator::Memory &memory_;
    Array l1_{64, 4}, l2_{2048, 16};
    std::vector<Array> pwc_{Array{32, 4}, Array{32, 4}, Array{32, 4}};
    std::unordered_map<std::uint64_t, std::uint64_t> nodes_, pages_; // by level and prefix; by page
    std::uint64_t next_frame_ = 1, root_ = 0;
    std::unordered_map<std::uint64_t, Walk> walks_; // by page
    std::unordered_map<std::uint64_t, std::vector<ambulator::Finished>> waiting_;
    std::vector<std::pair<std::uint64_t, ambulator::Finished>> known_;
    std::vector<std::uint64_t> queue_;
    std::vector<ambulator::Finished> done_;

    std::uint64_t node(int level, std::uint64_t page) {
        auto [found, fresh] = nodes_.try_emplace(static_cast<std::uint64_t>(level) << 60 | page >> (9 * level), 0);
        if (fresh)
            found->second = next_frame_++ << 12;
        return found->second;
    }
    void begin(std::uint64_t page, std::uint64_t now) {
        Walk &walk = walks_[page];
        walk.level = 4;
        walk.at = root_;
        for (int level = 1; level <= 3; ++level)
            if (const std::uint64_t *found = pwc_[static_cast<std::size_t>(level - 1)].find(page >> (9 * level))) {
                walk.level = level;
                walk.at = *found;
                break;
            }
        walk.due = now + 2;
    }

public:
    std::uint64_t walks = 0, faults = 0;
    explicit OwnWalker(ambulator::Memory &memory) : memory_(memory) {}
    std::vector<ambulator::Finished> &done() { return done_; }

    // Gives each page of a range its frame, without faults.
    void touch(std::uint64_t start, std::uint64_t bytes) {
        for (std::uint64_t page = start >> 12; page < (start + bytes) >> 12; ++page) {
            if (pages_.try_emplace(page, next_frame_).second)
                next_frame_++;
            for (int level = 1; level <= 3; ++level)
                node(level, page);
        }
    }

    void start(std::uint64_t tag, std::uint64_t address, std::uint32_t, std::uint64_t now, std::uint64_t) {
        const std::uint64_t page = address >> 12;
        ambulator::Finished result{tag, address, 0, 4096, now, 0, 0};
        auto known = [&](std::uint64_t frame, std::uint64_t latency) {
            result.physical = frame << 12 | (address & 0xfff);
            known_.emplace_back(now + latency, result);
        };
        if (const std::uint64_t *frame = l1_.find(page))
            return known(*frame, 0);
        if (const std::uint64_t *frame = l2_.find(page)) {
            l1_.fill(page, *frame);
            return known(*frame, 13);
        }
        auto &waiting = waiting_[page];
        waiting.push_back(result);
        if (waiting.size() == 1) {
            walks += 1;
            if (walks_.size() < 4)
                begin(page, now + 13);
            else
                queue_.push_back(page);
        }
    }

    void arrived(std::uint64_t page, std::uint64_t now) {
        Walk &walk = walks_[page];
        walk.loading = false;
        walk.due = now;
        walk.level -= 1;
        if (walk.level > 0) {
            walk.at = node(walk.level, page);
            pwc_[static_cast<std::size_t>(walk.level - 1)].fill(page >> (9 * walk.level), walk.at);
            return;
        }
        auto [found, fresh] = pages_.try_emplace(page, 0);
        if (fresh) {
            found->second = next_frame_++;
            faults += 1;
        }
        l1_.fill(page, found->second);
        l2_.fill(page, found->second);
        for (ambulator::Finished &result : waiting_[page]) {
            result.physical = found->second << 12 | (result.address & 0xfff);
            known_.emplace_back(fresh ? now + 1000 : now, result);
        }
        waiting_.erase(page);
        walks_.erase(page);
        if (!queue_.empty()) {
            begin(queue_.front(), now);
            queue_.erase(queue_.begin());
        }
    }

    void tick(std::uint64_t now) {
        for (auto &[page, walk] : walks_)
            if (!walk.loading && walk.due <= now) {
                const std::uint64_t index = page >> (9 * (walk.level - 1)) & 511;
                walk.loading = memory_.load(walk.at + 8 * index, page);
            }
        for (std::size_t at = 0; at < known_.size();)
            if (known_[at].first <= now) {
                done_.push_back(known_[at].second);
                known_[at] = known_.back();
                known_.pop_back();
            } else {
                ++at;
            }
    }
    std::size_t pending() const { return known_.size() + walks_.size() + queue_.size(); }
};

} // namespace stand_in

#endif
