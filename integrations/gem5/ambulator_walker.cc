// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "ambulator_walker.hh"

#include "base/logging.hh"
#include "mem/request.hh"
#include "sim/system.hh"

namespace gem5
{

namespace
{

ambulator::Config
configuration(const AmbulatorWalkerParams &params)
{
    ambulator::Config config;
    config.design = params.design;
    config.machine = params.machine;
    config.options = params.options;
    config.auto_map = params.auto_map;
    return config;
}

constexpr unsigned LINE_BYTES = 64;

} // namespace

AmbulatorWalker::AmbulatorWalker(const AmbulatorWalkerParams &params)
    : ClockedObject(params), machine(configuration(params)),
      bridge(machine, 0, params.table_base, params.room), port(params.name + ".port", *this),
      requestor(params.system->getRequestorId(this)), event([this] { work(); }, params.name + ".work")
{}

Port &
AmbulatorWalker::getPort(const std::string &name, PortID id)
{
    return name == "port" ? port : ClockedObject::getPort(name, id);
}

void
AmbulatorWalker::translate(Addr address, bool store, bool fetch, ambulator::Bridge::Done done, Addr pc)
{
    const std::uint32_t access = fetch ? AMBULATOR_FETCH : store ? AMBULATOR_STORE : AMBULATOR_LOAD;
    try {
        bridge.translate(address, access, curCycle(), std::move(done), pc);
    } catch (const ambulator::Error &error) {
        fatal("%s: %s", name(), error.what());
    }
    wake();
}

void
AmbulatorWalker::wake()
{
    if (!event.scheduled())
        schedule(event, clockEdge(Cycles(1)));
}

void
AmbulatorWalker::work()
{
    bridge.tick(curCycle());
    send();
    if (bridge.busy() || bridge.front())
        wake();
}

void
AmbulatorWalker::send()
{
    while (!blocked && bridge.front()) {
        // Writes of accessed bits are reads here: the bytes are the library's.
        const ambulator::Bridge::Request &request = *bridge.front();
        RequestPtr made = std::make_shared<Request>(request.address & ~Addr(LINE_BYTES - 1), LINE_BYTES, 0, requestor);
        PacketPtr pkt = new Packet(made, MemCmd::ReadReq);
        pkt->allocate();
        pkt->pushSenderState(new State(request));
        if (!port.sendTimingReq(pkt)) {
            delete pkt->popSenderState();
            delete pkt;
            blocked = true;
            return;
        }
        bridge.pop();
    }
}

bool
AmbulatorWalker::answered(PacketPtr pkt)
{
    std::unique_ptr<State> state(dynamic_cast<State *>(pkt->popSenderState()));
    delete pkt;
    bridge.answer(state->request, curCycle());
    wake();
    return true;
}

} // namespace gem5
