// See ptw.h. The machine's settings come from the environment:
//
//   AMBULATOR_DESIGN   a design preset or file, such as lvm; AMBULATOR_MACHINE likewise
//   AMBULATOR_SPEC     a spec in TOML
//   AMBULATOR_SET      key=value texts, separated by semicolons, such as "memory.bytes=4GiB;mmu.walkers=2"
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "ptw.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace
{
// What all walkers of a simulation share.
struct Shared {
  uint32_t cores = 1;
  std::weak_ptr<ambulator::Machine> machine;
};

Shared& shared()
{
  static Shared state;
  return state;
}

std::string variable(const char* name)
{
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

std::shared_ptr<ambulator::Machine> machine_of_all()
{
  if (auto made = shared().machine.lock())
    return made;
  ambulator::Config config;
  config.machine = variable("AMBULATOR_MACHINE");
  config.design = variable("AMBULATOR_DESIGN");
  config.spec = variable("AMBULATOR_SPEC");
  std::istringstream settings{variable("AMBULATOR_SET")};
  for (std::string setting; std::getline(settings, setting, ';');)
    config.options.push_back(setting);
  config.cores = shared().cores;
  // ChampSim has the TLBs, and its traces say nothing of mappings.
  config.flags = AMBULATOR_HOST_TLBS;
  config.auto_map = 1ull << 21;
  try {
    auto made = std::make_shared<ambulator::Machine>(config);
    shared().machine = made;
    std::printf("[PTW] libambulator %s: design %s on machine %s, %u cores\n", ambulator_version(), made->info().design, made->info().machine,
                config.cores);
    return made;
  } catch (const ambulator::Error& error) {
    std::fprintf(stderr, "[PTW] %s\n", error.what());
    std::exit(1);
  }
}

uint64_t line_of(uint64_t address) { return address >> LOG2_BLOCK_SIZE; }
} // namespace

PageTableWalker::PageTableWalker(champsim::ptw_builder b)
    : champsim::operable(b.m_clock_period), upper_levels(b.m_uls), lower_level(b.m_ll), cpu(b.m_cpu), NAME(b.m_name),
      MSHR_SIZE(b.m_mshr_size.value_or(static_cast<uint32_t>(std::lround(b.m_mshr_factor * static_cast<double>(std::size(upper_levels)))))),
      MAX_READ(b.m_max_tag_check.value_or(champsim::bandwidth::maximum_type{b.scaled_by_ul_size(b.m_bandwidth_factor)})),
      MAX_FILL(b.m_max_fill.value_or(champsim::bandwidth::maximum_type{b.scaled_by_ul_size(b.m_bandwidth_factor)}))
{
  shared().cores = std::max(shared().cores, cpu + 1);
}

void PageTableWalker::prepare()
{
  machine = machine_of_all();
  engine = std::make_unique<ambulator::Engine>(*machine, cpu, static_cast<ambulator::Memory&>(*this));
  va_mask = (1ull << machine->info().va_bits) - 1;
}

auto PageTableWalker::packet(uint64_t address, access_type type) const -> request_type
{
  request_type made;
  made.address = champsim::address{address};
  made.v_address = champsim::address{address};
  made.cpu = cpu;
  made.is_translated = true;
  made.type = type;
  return made;
}

bool PageTableWalker::load(std::uint64_t address, std::uint64_t token)
{
  // One request for a line at a time: its answer is for all who wait for the line.
  const auto found = tokens.find(line_of(address));
  if (found == std::end(tokens) && !lower_level->add_rq(packet(address, access_type::TRANSLATION)))
    return false;
  tokens[line_of(address)].push_back(token);
  return true;
}

bool PageTableWalker::fetch(std::uint64_t address, bool /*data*/)
{
  auto made = packet(address, access_type::PREFETCH);
  made.response_requested = false;
  return lower_level->add_pq(made);
}

bool PageTableWalker::write(std::uint64_t address)
{
  auto made = packet(address, access_type::WRITE);
  made.response_requested = false;
  return lower_level->add_wq(made);
}

long PageTableWalker::operate()
{
  const auto now = static_cast<uint64_t>(current_time.time_since_epoch() / clock_period);
  long progress = 0;
  if (!engine)
    prepare();

  try {
    for (const response_type& answer : lower_level->returned) {
      auto found = tokens.find(line_of(answer.address.to<uint64_t>()));
      if (found == std::end(tokens))
        continue;
      const std::vector<uint64_t> arrived = std::move(found->second);
      tokens.erase(found);
      for (uint64_t token : arrived)
        engine->arrived(token, now);
      ++progress;
    }
    lower_level->returned.clear();

    engine->tick(now);

    auto& known = engine->done();
    champsim::bandwidth fill{MAX_FILL};
    auto next = std::begin(known);
    for (; next != std::end(known) && fill.has_remaining(); ++next) {
      auto found = waiting.find(next->tag);
      const request_type& request = found->second.request;
      const champsim::address page{next->physical & ~static_cast<uint64_t>(PAGE_SIZE - 1)};
      if (found->second.answers != nullptr)
        found->second.answers->emplace_back(request.address, request.v_address, page, request.pf_metadata, request.instr_depend_on_me);
      waiting.erase(found);
      fill.consume();
      ++progress;
    }
    known.erase(std::begin(known), next);

    champsim::bandwidth read{MAX_READ};
    for (channel_type* upper : upper_levels) {
      while (!std::empty(upper->RQ) && read.has_remaining() && std::size(waiting) < MSHR_SIZE) {
        const request_type& request = upper->RQ.front();
        const uint64_t tag = next_tag++;
        const bool store = request.type == access_type::RFO || request.type == access_type::WRITE;
        const uint64_t address = request.address.to<uint64_t>() & va_mask;
        const uint64_t pc = request.ip.to<uint64_t>();
        waiting.emplace(tag, Waiting{request, request.response_requested ? &upper->returned : nullptr});
        upper->RQ.pop_front();
        engine->start(tag, address, store ? AMBULATOR_STORE : AMBULATOR_LOAD, now, pc);
        read.consume();
        ++progress;
      }
    }
  } catch (const ambulator::Error& error) {
    std::fprintf(stderr, "[PTW] %s\n", error.what());
    std::exit(1);
  }
  // The operating system may work for long while nothing else moves: that is no deadlock.
  return progress + (engine->pending() > 0 ? 1 : 0);
}

void PageTableWalker::begin_phase()
{
  for (channel_type* upper : upper_levels) {
    upper->roi_stats = {};
    upper->sim_stats = {};
  }
  if (machine && cpu == 0)
    machine->reset_counters();
  reported = false;
}

void PageTableWalker::end_phase(unsigned /*cpu_index*/)
{
  if (!machine || cpu != 0 || reported)
    return;
  reported = true;
  for (const ambulator_counter& counter : machine->counters())
    if (counter.value != 0)
      std::printf("[PTW] %s %llu %s\n", counter.name, static_cast<unsigned long long>(counter.value), counter.unit);
}

// LCOV_EXCL_START
void PageTableWalker::print_deadlock()
{
  for (const auto& [tag, entry] : waiting)
    std::printf("[%s] waits for a translation of %llx\n", NAME.c_str(), static_cast<unsigned long long>(entry.request.address.to<uint64_t>()));
}
// LCOV_EXCL_STOP
