// A page-table walker for ChampSim with the operating system and the MMU of libambulator behind it: any design of
// Ambulator. It stands in for ChampSim's own inc/ptw.h (see build.sh) and has the same interface to the rest.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef PTW_H
#define PTW_H

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ambulator_engine.hpp>

#include "address.h"
#include "bandwidth.h"
#include "champsim.h"
#include "channel.h"
#include "operable.h"
#include "ptw_builder.h"

class PageTableWalker : public champsim::operable, private ambulator::Memory
{
  using channel_type = champsim::channel;
  using request_type = typename channel_type::request_type;
  using response_type = typename channel_type::response_type;

  struct Waiting {
    request_type request;
    std::deque<response_type>* answers;
  };

  std::vector<channel_type*> upper_levels;
  channel_type* lower_level;
  uint32_t cpu;

  // Made with the first request, when all walkers of the simulation are known.
  std::shared_ptr<ambulator::Machine> machine;
  std::unique_ptr<ambulator::Engine> engine;
  uint64_t va_mask = 0;
  uint64_t next_tag = 0;
  std::unordered_map<uint64_t, Waiting> waiting;              // by tag
  std::unordered_map<uint64_t, std::vector<uint64_t>> tokens; // by line
  bool reported = false;

  void prepare();
  request_type packet(uint64_t address, access_type type) const;

  bool load(std::uint64_t address, std::uint64_t token) override;
  bool fetch(std::uint64_t address, bool data) override;
  bool write(std::uint64_t address) override;

public:
  const std::string NAME;
  const uint32_t MSHR_SIZE;
  champsim::bandwidth::maximum_type MAX_READ, MAX_FILL;

  explicit PageTableWalker(champsim::ptw_builder builder);

  long operate() final;
  void begin_phase() final;
  void end_phase(unsigned cpu_index) final;
  void print_deadlock() final;
};

#endif
