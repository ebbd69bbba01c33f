// Page walks of libambulator as a SimObject: an MMU model calls translate() in place of its own walker. It gives the
// time of a translation; the bytes of the program stay where gem5 has them.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef __AMBULATOR_AMBULATOR_WALKER_HH__
#define __AMBULATOR_AMBULATOR_WALKER_HH__

#include <memory>

#include "bridge.hpp"
#include "mem/packet.hh"
#include "mem/port.hh"
#include "params/AmbulatorWalker.hh"
#include "sim/clocked_object.hh"

namespace gem5
{

class AmbulatorWalker : public ClockedObject
{
  private:
    class WalkPort : public RequestPort
    {
      private:
        AmbulatorWalker &owner;

      public:
        WalkPort(const std::string &name, AmbulatorWalker &owner)
            : RequestPort(name), owner(owner)
        {}

      protected:
        bool recvTimingResp(PacketPtr pkt) override { return owner.answered(pkt); }
        void recvReqRetry() override { owner.blocked = false; owner.send(); }
    };

    struct State : public Packet::SenderState
    {
        ambulator::Bridge::Request request;
        explicit State(const ambulator::Bridge::Request &request) : request(request) {}
    };

    ambulator::Machine machine;
    ambulator::Bridge bridge;
    WalkPort port;
    RequestorID requestor;
    bool blocked = false;
    EventFunctionWrapper event;

    void work();
    void send();
    bool answered(PacketPtr pkt);
    void wake();

  public:
    explicit AmbulatorWalker(const AmbulatorWalkerParams &params);

    Port &getPort(const std::string &name, PortID id = InvalidPortID) override;

    // Translates an access that begins now; `done` is called when the translation is known. `pc` is the instruction
    // that makes the access (0: not known).
    void translate(Addr address, bool store, bool fetch, ambulator::Bridge::Done done, Addr pc = 0);
};

} // namespace gem5

#endif
