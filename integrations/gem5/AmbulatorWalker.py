# Page walks of libambulator as a SimObject.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
from m5.objects.ClockedObject import ClockedObject
from m5.params import *
from m5.proxy import *


class AmbulatorWalker(ClockedObject):
    type = "AmbulatorWalker"
    cxx_header = "ambulator/ambulator_walker.hh"
    cxx_class = "gem5::AmbulatorWalker"

    system = Param.System(Parent.any, "the system whose requestor it is")
    port = RequestPort("port of the page walks, to a cache or a crossbar")
    design = Param.String("radix", "a design preset or file")
    machine = Param.String("", "a machine preset or file; empty: the default")
    options = VectorParam.String([], "key=value settings, as of `ambulator run --set`")
    auto_map = Param.MemorySize("2MiB", "bytes mapped around an access outside all mappings")
    table_base = Param.Addr(0, "added to the addresses of table lines: where the memory system has room for them")
    room = Param.Unsigned(16, "requests that wait for the port")
