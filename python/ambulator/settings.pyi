"""The settings of machines, as classes. Written by scripts/python-stubs.py."""

from typing import Literal

from ambulator._groups import Group

__all__ = [
    "Machine",
    "Core",
    "L1i",
    "L1d",
    "L2",
    "Llc",
    "Dram",
    "NodesNode1",
    "NodesNode2",
    "NodesNode3",
    "Nodes",
    "MmuL1d4k",
    "MmuL1d2m",
    "MmuL1d1g",
    "MmuL1i4k",
    "MmuL1i2m",
    "MmuL2Tlb",
    "MmuPwc",
    "MmuPrefetchQueue",
    "Mmu",
    "MemoryBuddy",
    "MemoryFragmentation",
    "MemoryPressure",
    "Memory",
    "KernelNuma",
    "Kernel",
    "Costs",
    "Energy",
    "Design",
    "Flattened",
    "Asap",
    "Dmt",
    "Hashed",
    "Ecpt",
    "MeHptCuckoo",
    "MeHpt",
    "Lvm",
    "Rmm",
    "DirectSegment",
    "ClusteredPageTable",
    "ClusteredTlb",
    "PomTlb",
    "Utopia",
    "Revelator",
    "SpecTlb",
    "CaPaging",
    "Spot",
    "TlbSequential",
    "TlbStride",
    "TlbDistance",
    "TlbAgile",
    "Midgard",
    "VirtualizationNested",
    "Virtualization",
    "Run",
    "Spec",
]

class Machine(Group):
    """The machine as a whole."""
    @property
    def clock_mhz(self) -> int:
        """The clock of the cores and caches.

        Unit: MHz. From 100 to 10000. Default: 2000.

        Source: LVM Table 1 (2 GHz).
        """
    @clock_mhz.setter
    def clock_mhz(self, value: int | str) -> None: ...
    @property
    def cores(self) -> int:
        """Cores, each with its own L1 and L2 caches, TLBs and walkers; 1 to 16.

        Unit: count. From 1 to 16. Default: 1.

        Source: our choice: one program on one core.
        """
    @cores.setter
    def cores(self, value: int | str) -> None: ...

class Core(Group):
    """Each core."""
    @property
    def width(self) -> int:
        """Maximum number of instructions dispatched, and committed, in a cycle.

        Unit: count. From 1 to 64. Default: 4.

        Source: LVM Table 1.
        """
    @width.setter
    def width(self, value: int | str) -> None: ...
    @property
    def rob(self) -> int:
        """Reorder buffer.

        Unit: entries. From 1 to 65536. Default: 224.

        Source: our choice: a server core of that width; no table states it.
        """
    @rob.setter
    def rob(self, value: int | str) -> None: ...
    @property
    def load_queue(self) -> int:
        """Load queue: loads from dispatch to commit.

        Unit: entries. From 1 to 65536. Default: 72.

        Source: our choice.
        """
    @load_queue.setter
    def load_queue(self, value: int | str) -> None: ...
    @property
    def store_queue(self) -> int:
        """Store queue: stores from dispatch until they are written to the first-level cache.

        Unit: entries. From 1 to 65536. Default: 56.

        Source: our choice.
        """
    @store_queue.setter
    def store_queue(self, value: int | str) -> None: ...
    @property
    def store_request(self) -> Literal["commit", "early"]:
        """When a store asks for its line. In both cases stores are written to the first-level cache in order,
        after they have committed, and hold their entries of the store queue until then.

        One of commit, early. Default: commit.

        Source: the default of cores, after Cebrian et al., MICRO 2020; ChampSim does the same.
        """
    @store_request.setter
    def store_request(self, value: Literal["commit", "early"]) -> None: ...
    @property
    def mispredict_penalty(self) -> int:
        """Cycles from the resolution of a mispredicted branch until the correct path dispatches.

        Unit: cycles. From 0 to 10000. Default: 15.

        Source: our choice.
        """
    @mispredict_penalty.setter
    def mispredict_penalty(self, value: int | str) -> None: ...
    @property
    def predictor(self) -> Literal["perfect", "bimodal", "gshare"]:
        """How branches are predicted.

        One of perfect, bimodal, gshare. Default: gshare.

        Source: our choice.
        """
    @predictor.setter
    def predictor(self, value: Literal["perfect", "bimodal", "gshare"]) -> None: ...
    @property
    def predictor_entries(self) -> int:
        """Counters of the branch predictor, a power of two.

        Unit: entries. From 1 to 16777216. Default: 16384.

        Source: our choice.
        """
    @predictor_entries.setter
    def predictor_entries(self, value: int | str) -> None: ...
    @property
    def forward_latency(self) -> int:
        """Latency of store-to-load forwarding: a load of an 8-byte word that an older store in the store queue
        writes gets its value this long after its issue, or after the store's data if that is later.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: our choice.
        """
    @forward_latency.setter
    def forward_latency(self, value: int | str) -> None: ...

class L1i(Group):
    """First-level instruction cache of each core."""
    @property
    def bytes(self) -> int:
        """Capacity. For the last-level cache this is the share of one core; the total is cores times this. All
        caches of a machine have at most 16 GiB.

        Unit: bytes. From 64 to 1073741824. Default: 32768.

        Source: LVM Table 1.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity, 1 to 32. It need not be a power of two, but the number of sets must be (for the
        last-level cache: of one core's share; if the number of cores is not a power of two, the set is the
        line number modulo the number of sets).

        Unit: ways. From 1 to 32. Default: 8.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Round trip of a hit as the requester sees it: from issue at the core (or walker) to the arrival of the
        value, including the look-ups of the levels above. A DRAM access costs the last level's round trip
        plus DRAM's own time.

        Unit: cycles. From 1 to 10000. Default: 1.

        Source: LVM Table 1.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def mshrs(self) -> int:
        """Maximum number of outstanding misses (for the last level: for each core's share of it). Further misses
        wait.

        Unit: entries. From 1 to 1024. Default: 8.

        Source: our choice; no paper states it.
        """
    @mshrs.setter
    def mshrs(self, value: int | str) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Which line of a full set is evicted.

        One of lru, tree-plru, srrip, drrip, random. Default: lru.

        Source: our choice; no paper states it.
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...
    @property
    def prefetcher(self) -> Literal["none", "ip-stride", "stream"]:
        """The prefetcher that learns from this cache's accesses and fills it.

        One of none, ip-stride, stream. Default: none.

        Source: LVM Table 1 names none.
        """
    @prefetcher.setter
    def prefetcher(self, value: Literal["none", "ip-stride", "stream"]) -> None: ...
    @property
    def prefetch_degree(self) -> int:
        """Maximum number of prefetches that one access triggers.

        Unit: count. From 0 to 64. Default: 2.
        """
    @prefetch_degree.setter
    def prefetch_degree(self, value: int | str) -> None: ...
    @property
    def prefetch_distance(self) -> int:
        """How far ahead of the access prefetches reach: in strides (ip-stride) or lines (stream).

        Unit: count. From 0 to 64. Default: 8.
        """
    @prefetch_distance.setter
    def prefetch_distance(self, value: int | str) -> None: ...
    @property
    def prefetch_entries(self) -> int:
        """Instructions (ip-stride, a power of two) or runs (stream) that the prefetcher follows at a time.

        Unit: entries. From 0 to 65536. Default: 64.
        """
    @prefetch_entries.setter
    def prefetch_entries(self, value: int | str) -> None: ...

class L1d(Group):
    """First-level data cache of each core."""
    @property
    def bytes(self) -> int:
        """Capacity. For the last-level cache this is the share of one core; the total is cores times this. All
        caches of a machine have at most 16 GiB.

        Unit: bytes. From 64 to 1073741824. Default: 32768.

        Source: LVM Table 1.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity, 1 to 32. It need not be a power of two, but the number of sets must be (for the
        last-level cache: of one core's share; if the number of cores is not a power of two, the set is the
        line number modulo the number of sets).

        Unit: ways. From 1 to 32. Default: 8.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Round trip of a hit as the requester sees it: from issue at the core (or walker) to the arrival of the
        value, including the look-ups of the levels above. A DRAM access costs the last level's round trip
        plus DRAM's own time.

        Unit: cycles. From 1 to 10000. Default: 1.

        Source: LVM Table 1.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def mshrs(self) -> int:
        """Maximum number of outstanding misses (for the last level: for each core's share of it). Further misses
        wait.

        Unit: entries. From 1 to 1024. Default: 16.

        Source: our choice; no paper states it.
        """
    @mshrs.setter
    def mshrs(self, value: int | str) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Which line of a full set is evicted.

        One of lru, tree-plru, srrip, drrip, random. Default: lru.

        Source: our choice; no paper states it.
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...
    @property
    def prefetcher(self) -> Literal["none", "ip-stride", "stream"]:
        """The prefetcher that learns from this cache's accesses and fills it.

        One of none, ip-stride, stream. Default: none.

        Source: LVM Table 1 names none.
        """
    @prefetcher.setter
    def prefetcher(self, value: Literal["none", "ip-stride", "stream"]) -> None: ...
    @property
    def prefetch_degree(self) -> int:
        """Maximum number of prefetches that one access triggers.

        Unit: count. From 0 to 64. Default: 2.
        """
    @prefetch_degree.setter
    def prefetch_degree(self, value: int | str) -> None: ...
    @property
    def prefetch_distance(self) -> int:
        """How far ahead of the access prefetches reach: in strides (ip-stride) or lines (stream).

        Unit: count. From 0 to 64. Default: 8.
        """
    @prefetch_distance.setter
    def prefetch_distance(self, value: int | str) -> None: ...
    @property
    def prefetch_entries(self) -> int:
        """Instructions (ip-stride, a power of two) or runs (stream) that the prefetcher follows at a time.

        Unit: entries. From 0 to 65536. Default: 64.
        """
    @prefetch_entries.setter
    def prefetch_entries(self, value: int | str) -> None: ...

class L2(Group):
    """Second-level cache of each core."""
    @property
    def bytes(self) -> int:
        """Capacity. For the last-level cache this is the share of one core; the total is cores times this. All
        caches of a machine have at most 16 GiB.

        Unit: bytes. From 64 to 1073741824. Default: 1048576.

        Source: LVM Table 1.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity, 1 to 32. It need not be a power of two, but the number of sets must be (for the
        last-level cache: of one core's share; if the number of cores is not a power of two, the set is the
        line number modulo the number of sets).

        Unit: ways. From 1 to 32. Default: 8.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Round trip of a hit as the requester sees it: from issue at the core (or walker) to the arrival of the
        value, including the look-ups of the levels above. A DRAM access costs the last level's round trip
        plus DRAM's own time.

        Unit: cycles. From 1 to 10000. Default: 20.

        Source: LVM Table 1.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def mshrs(self) -> int:
        """Maximum number of outstanding misses (for the last level: for each core's share of it). Further misses
        wait.

        Unit: entries. From 1 to 1024. Default: 32.

        Source: our choice; no paper states it.
        """
    @mshrs.setter
    def mshrs(self, value: int | str) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Which line of a full set is evicted.

        One of lru, tree-plru, srrip, drrip, random. Default: lru.

        Source: our choice; no paper states it.
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...
    @property
    def prefetcher(self) -> Literal["none", "ip-stride", "stream"]:
        """The prefetcher that learns from this cache's accesses and fills it.

        One of none, ip-stride, stream. Default: none.

        Source: LVM Table 1 names none.
        """
    @prefetcher.setter
    def prefetcher(self, value: Literal["none", "ip-stride", "stream"]) -> None: ...
    @property
    def prefetch_degree(self) -> int:
        """Maximum number of prefetches that one access triggers.

        Unit: count. From 0 to 64. Default: 2.
        """
    @prefetch_degree.setter
    def prefetch_degree(self, value: int | str) -> None: ...
    @property
    def prefetch_distance(self) -> int:
        """How far ahead of the access prefetches reach: in strides (ip-stride) or lines (stream).

        Unit: count. From 0 to 64. Default: 8.
        """
    @prefetch_distance.setter
    def prefetch_distance(self, value: int | str) -> None: ...
    @property
    def prefetch_entries(self) -> int:
        """Instructions (ip-stride, a power of two) or runs (stream) that the prefetcher follows at a time.

        Unit: entries. From 0 to 65536. Default: 64.
        """
    @prefetch_entries.setter
    def prefetch_entries(self, value: int | str) -> None: ...

class Llc(Group):
    """Last-level cache, shared by all cores; `bytes` and `mshrs` are for each core."""
    @property
    def bytes(self) -> int:
        """Capacity. For the last-level cache this is the share of one core; the total is cores times this. All
        caches of a machine have at most 16 GiB.

        Unit: bytes. From 64 to 1073741824. Default: 2097152.

        Source: LVM Table 1.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity, 1 to 32. It need not be a power of two, but the number of sets must be (for the
        last-level cache: of one core's share; if the number of cores is not a power of two, the set is the
        line number modulo the number of sets).

        Unit: ways. From 1 to 32. Default: 16.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Round trip of a hit as the requester sees it: from issue at the core (or walker) to the arrival of the
        value, including the look-ups of the levels above. A DRAM access costs the last level's round trip
        plus DRAM's own time.

        Unit: cycles. From 1 to 10000. Default: 56.

        Source: LVM Table 1.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def mshrs(self) -> int:
        """Maximum number of outstanding misses (for the last level: for each core's share of it). Further misses
        wait.

        Unit: entries. From 1 to 1024. Default: 64.

        Source: our choice; no paper states it.
        """
    @mshrs.setter
    def mshrs(self, value: int | str) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Which line of a full set is evicted.

        One of lru, tree-plru, srrip, drrip, random. Default: lru.

        Source: our choice; no paper states it.
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...
    @property
    def prefetcher(self) -> Literal["none", "ip-stride", "stream"]:
        """The prefetcher that learns from this cache's accesses and fills it.

        One of none, ip-stride, stream. Default: none.

        Source: LVM Table 1 names none.
        """
    @prefetcher.setter
    def prefetcher(self, value: Literal["none", "ip-stride", "stream"]) -> None: ...
    @property
    def prefetch_degree(self) -> int:
        """Maximum number of prefetches that one access triggers.

        Unit: count. From 0 to 64. Default: 2.
        """
    @prefetch_degree.setter
    def prefetch_degree(self, value: int | str) -> None: ...
    @property
    def prefetch_distance(self) -> int:
        """How far ahead of the access prefetches reach: in strides (ip-stride) or lines (stream).

        Unit: count. From 0 to 64. Default: 8.
        """
    @prefetch_distance.setter
    def prefetch_distance(self, value: int | str) -> None: ...
    @property
    def prefetch_entries(self) -> int:
        """Instructions (ip-stride, a power of two) or runs (stream) that the prefetcher follows at a time.

        Unit: entries. From 0 to 65536. Default: 64.
        """
    @prefetch_entries.setter
    def prefetch_entries(self, value: int | str) -> None: ...

class Dram(Group):
    """Main memory's channels, banks and timings."""
    @property
    def model(self) -> Literal["banked", "fixed"]:
        """How main memory is modelled.

        One of banked, fixed. Default: banked.
        """
    @model.setter
    def model(self, value: Literal["banked", "fixed"]) -> None: ...
    @property
    def fixed_ns(self) -> float:
        """Latency of every access with `model = "fixed"`.

        Unit: ns. From 0.0 to 1000000.0. Default: 60.0.
        """
    @fixed_ns.setter
    def fixed_ns(self, value: float) -> None: ...
    @property
    def channels(self) -> int:
        """Independent channels, a power of two.

        Unit: count. From 1 to 64. Default: 4.

        Source: LVM Table 1.
        """
    @channels.setter
    def channels(self, value: int | str) -> None: ...
    @property
    def ranks(self) -> int:
        """Ranks of each channel, a power of two.

        Unit: count. From 1 to 16. Default: 1.

        Source: our choice.
        """
    @ranks.setter
    def ranks(self, value: int | str) -> None: ...
    @property
    def bank_groups(self) -> int:
        """Bank groups of each rank, a power of two.

        Unit: count. From 1 to 16. Default: 2.

        Source: our choice: LVM Table 1 says 8 banks.
        """
    @bank_groups.setter
    def bank_groups(self, value: int | str) -> None: ...
    @property
    def banks(self) -> int:
        """Banks of each bank group, a power of two.

        Unit: count. From 1 to 64. Default: 4.

        Source: our choice: LVM Table 1 says 8 banks.
        """
    @banks.setter
    def banks(self, value: int | str) -> None: ...
    @property
    def row_bytes(self) -> int:
        """Bytes of a row over all devices of a rank, a power of two.

        Unit: bytes. From 64 to 1048576. Default: 8192.

        Source: JESD79-4, eight x8 devices with 1 KiB pages.
        """
    @row_bytes.setter
    def row_bytes(self, value: int | str) -> None: ...
    @property
    def data_rate(self) -> int:
        """Transfers per second of the 8-byte data bus.

        Unit: MT/s. From 100 to 100000. Default: 3200.

        Source: LVM Table 1.
        """
    @data_rate.setter
    def data_rate(self, value: int | str) -> None: ...
    @property
    def mapping(self) -> Literal["ro-ba-ra-co-ch", "ro-ra-ba-ch-co", "ro-co-ra-ba-ch", "xor-bank", "hash-bank"]:
        """Which address bits select channel, rank, bank, row and column.

        One of ro-ba-ra-co-ch, ro-ra-ba-ch-co, ro-co-ra-ba-ch, xor-bank, hash-bank. Default: ro-ba-ra-co-ch.

        Source: our choice.
        """
    @mapping.setter
    def mapping(self, value: Literal["ro-ba-ra-co-ch", "ro-ra-ba-ch-co", "ro-co-ra-ba-ch", "xor-bank", "hash-bank"]) -> None: ...
    @property
    def page_policy(self) -> Literal["open", "closed"]:
        """What happens to a row after an access.

        One of open, closed. Default: open.

        Source: our choice.
        """
    @page_policy.setter
    def page_policy(self, value: Literal["open", "closed"]) -> None: ...
    @property
    def t_cl(self) -> int:
        """Read latency: column command to the first data.

        Unit: DRAM clocks. From 0 to 10000. Default: 22.

        Source: JESD79-4, DDR4-3200AA.
        """
    @t_cl.setter
    def t_cl(self, value: int | str) -> None: ...
    @property
    def t_cwl(self) -> int:
        """Write latency: column command to the first data.

        Unit: DRAM clocks. From 0 to 10000. Default: 16.

        Source: JESD79-4, DDR4-3200.
        """
    @t_cwl.setter
    def t_cwl(self, value: int | str) -> None: ...
    @property
    def t_rcd(self) -> int:
        """Activate to column command.

        Unit: DRAM clocks. From 0 to 10000. Default: 22.

        Source: JESD79-4, DDR4-3200AA.
        """
    @t_rcd.setter
    def t_rcd(self, value: int | str) -> None: ...
    @property
    def t_rp(self) -> int:
        """Precharge to activate.

        Unit: DRAM clocks. From 0 to 10000. Default: 22.

        Source: JESD79-4, DDR4-3200AA.
        """
    @t_rp.setter
    def t_rp(self, value: int | str) -> None: ...
    @property
    def t_ras(self) -> int:
        """Activate to precharge, minimum.

        Unit: DRAM clocks. From 0 to 10000. Default: 52.

        Source: JESD79-4, DDR4-3200 (32 ns).
        """
    @t_ras.setter
    def t_ras(self, value: int | str) -> None: ...
    @property
    def t_ccd_l(self) -> int:
        """Column command to column command in the same bank group.

        Unit: DRAM clocks. From 0 to 10000. Default: 8.

        Source: JESD79-4, DDR4-3200 (5 ns).
        """
    @t_ccd_l.setter
    def t_ccd_l(self, value: int | str) -> None: ...
    @property
    def t_rtp(self) -> int:
        """Read to precharge.

        Unit: DRAM clocks. From 0 to 10000. Default: 12.

        Source: JESD79-4, DDR4-3200 (7.5 ns).
        """
    @t_rtp.setter
    def t_rtp(self, value: int | str) -> None: ...
    @property
    def t_wr(self) -> int:
        """End of write data to precharge.

        Unit: DRAM clocks. From 0 to 10000. Default: 24.

        Source: JESD79-4, DDR4-3200 (15 ns).
        """
    @t_wr.setter
    def t_wr(self, value: int | str) -> None: ...
    @property
    def t_rrd_s(self) -> int:
        """Activate to activate in another bank group of the rank.

        Unit: DRAM clocks. From 0 to 10000. Default: 4.

        Source: JESD79-4, DDR4-3200 with 1 KiB pages (2.5 ns).
        """
    @t_rrd_s.setter
    def t_rrd_s(self, value: int | str) -> None: ...
    @property
    def t_rrd_l(self) -> int:
        """Activate to activate in the same bank group.

        Unit: DRAM clocks. From 0 to 10000. Default: 8.

        Source: JESD79-4, DDR4-3200 with 1 KiB pages (4.9 ns).
        """
    @t_rrd_l.setter
    def t_rrd_l(self, value: int | str) -> None: ...
    @property
    def t_wtr_s(self) -> int:
        """End of write data to a read's column command in another bank group.

        Unit: DRAM clocks. From 0 to 10000. Default: 4.

        Source: JESD79-4, DDR4-3200 (2.5 ns).
        """
    @t_wtr_s.setter
    def t_wtr_s(self, value: int | str) -> None: ...
    @property
    def t_wtr_l(self) -> int:
        """End of write data to a read's column command in the same bank group.

        Unit: DRAM clocks. From 0 to 10000. Default: 12.

        Source: JESD79-4, DDR4-3200 (7.5 ns).
        """
    @t_wtr_l.setter
    def t_wtr_l(self, value: int | str) -> None: ...
    @property
    def t_rtrs(self) -> int:
        """Time for which the bus is idle between data of two ranks, and between a read's data and a write's.

        Unit: DRAM clocks. From 0 to 10000. Default: 2.

        Source: JESD79-4, read to write: CL + 4 + 2 - CWL.
        """
    @t_rtrs.setter
    def t_rtrs(self, value: int | str) -> None: ...
    @property
    def t_faw_ns(self) -> float:
        """Window in which a rank can activate four rows.

        Unit: ns. From 0.0 to 1000000.0. Default: 21.0.

        Source: JESD79-4, DDR4-3200 with 1 KiB pages.
        """
    @t_faw_ns.setter
    def t_faw_ns(self, value: float) -> None: ...
    @property
    def t_refi_ns(self) -> float:
        """Average time between refreshes of a rank; 0 switches refresh off.

        Unit: ns. From 0.0 to 1000000.0. Default: 7800.0.

        Source: JESD79-4.
        """
    @t_refi_ns.setter
    def t_refi_ns(self, value: float) -> None: ...
    @property
    def t_rfc_ns(self) -> float:
        """Length of a refresh, in which the rank serves nothing and after which all its rows are closed.

        Unit: ns. From 0.0 to 1000000.0. Default: 350.0.

        Source: JESD79-4, 8 Gb devices.
        """
    @t_rfc_ns.setter
    def t_rfc_ns(self, value: float) -> None: ...
    @property
    def read_queue(self) -> int:
        """Requests of a channel among which its scheduler chooses, beside the writes of a batch: the oldest.

        Unit: count. From 1 to 4096. Default: 64.

        Source: ChampSim: a read queue of 64.
        """
    @read_queue.setter
    def read_queue(self, value: int | str) -> None: ...
    @property
    def write_queue(self) -> int:
        """Writes that wait in a channel, at most, those of a batch among them. Evicted lines, which keep an MSHR
        of the last level, copies of pages and zeroing wait for room.

        Unit: count. From 1 to 4096. Default: 64.

        Source: gem5, MemCtrl: a write buffer of 64.
        """
    @write_queue.setter
    def write_queue(self, value: int | str) -> None: ...
    @property
    def write_high(self) -> int:
        """Writes that wait in a channel when it releases a batch of them, although reads wait.

        Unit: count. From 1 to 4096. Default: 54.

        Source: gem5, MemCtrl: 85% of 64.
        """
    @write_high.setter
    def write_high(self, value: int | str) -> None: ...
    @property
    def write_low(self) -> int:
        """Writes that a batch leaves in the queue.

        Unit: count. From 0 to 4096. Default: 16.

        Source: our choice: gem5's 50% of 64, less the 16 of its least batch.
        """
    @write_low.setter
    def write_low(self, value: int | str) -> None: ...
    @property
    def write_idle(self) -> int:
        """A channel without other requests releases a batch when more writes than these wait.

        Unit: count. From 0 to 4096. Default: 32.

        Source: gem5, MemCtrl: 50% of 64.
        """
    @write_idle.setter
    def write_idle(self, value: int | str) -> None: ...
    @property
    def row_hit_cap(self) -> int:
        """Column commands to a row, from its activation on, after which a request for another row of the bank is
        not passed over any more.

        Unit: count. From 1 to 4096. Default: 16.

        Source: gem5, DRAMInterface: max_accesses_per_row.
        """
    @row_hit_cap.setter
    def row_hit_cap(self, value: int | str) -> None: ...
    @property
    def turn_cap(self) -> int:
        """Column commands in a row that all read one rank, or all write it: after so many, and when it has
        waited for as long as they take, the oldest request goes next, for which the bus must turn to the
        other direction or rank.

        Unit: count. From 1 to 65536. Default: 128.

        Source: our choice: more than three batches of writes, so that it helps only who would starve.
        """
    @turn_cap.setter
    def turn_cap(self, value: int | str) -> None: ...
    @property
    def controller_ns(self) -> float:
        """Latency that the controller, the PHY and the path from the last-level cache to memory add to each
        read.

        Unit: ns. From 0.0 to 1000000.0. Default: 10.0.

        Source: our choice.
        """
    @controller_ns.setter
    def controller_ns(self, value: float) -> None: ...

class NodesNode1(Group):
    """The second node."""
    @property
    def bytes(self) -> int:
        """Memory of the node, out of `memory.bytes`; 0 for no such node. The nodes' physical addresses follow
        one another, node 0 first.

        Unit: bytes. From 0 to 17592186044416. Default: 0.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def socket(self) -> int:
        """The socket to which the node is attached. Cores of other sockets reach it over the interconnect.

        Unit: number. From 0 to 3. Default: 0.
        """
    @socket.setter
    def socket(self, value: int | str) -> None: ...
    @property
    def slow(self) -> bool:
        """A slow tier: programs get it when faster nodes are low, and `kernel.numa` demotes pages to it.

        Default: False.
        """
    @slow.setter
    def slow(self, value: bool) -> None: ...
    @property
    def medium(self) -> Literal["dram", "persistent"]:
        """What the node is made of.

        One of dram, persistent. Default: dram.
        """
    @medium.setter
    def medium(self, value: Literal["dram", "persistent"]) -> None: ...
    @property
    def channels(self) -> int:
        """Channels of DRAM, a power of two; 0 for those of `dram.channels`.

        Unit: count. From 0 to 64. Default: 0.
        """
    @channels.setter
    def channels(self, value: int | str) -> None: ...
    @property
    def data_rate(self) -> int:
        """Transfers per second of a channel's data bus; 0 for `dram.data_rate`. Timings that the node does not
        give take as many ns as those of `dram`, and `dram.t_cwl` keeps its ratio to `t_cl`.

        Unit: MT/s. From 0 to 100000. Default: 0.
        """
    @data_rate.setter
    def data_rate(self, value: int | str) -> None: ...
    @property
    def t_cl(self) -> int:
        """Read latency of the DRAM; 0 for the time of `dram.t_cl`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_cl.setter
    def t_cl(self, value: int | str) -> None: ...
    @property
    def t_rcd(self) -> int:
        """Activate to column command; 0 for the time of `dram.t_rcd`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rcd.setter
    def t_rcd(self, value: int | str) -> None: ...
    @property
    def t_rp(self) -> int:
        """Precharge to activate; 0 for the time of `dram.t_rp`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rp.setter
    def t_rp(self, value: int | str) -> None: ...
    @property
    def t_ras(self) -> int:
        """Activate to precharge; 0 for the time of `dram.t_ras`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_ras.setter
    def t_ras(self, value: int | str) -> None: ...
    @property
    def read_ns(self) -> float:
        """Latency of a read of persistent memory.

        Unit: ns. From 0.0 to 1000000.0. Default: 305.0.

        Source: Izraelevitz et al. 2019: random loads of Optane.
        """
    @read_ns.setter
    def read_ns(self, value: float) -> None: ...
    @property
    def write_ns(self) -> float:
        """Latency of a write to persistent memory. No instruction waits for it; the copy of a page does.

        Unit: ns. From 0.0 to 1000000.0. Default: 94.0.

        Source: Yang et al., FAST 2020: a store and its write-back, Optane.
        """
    @write_ns.setter
    def write_ns(self, value: float) -> None: ...
    @property
    def read_gbs(self) -> float:
        """Bandwidth of persistent memory if it only reads.

        Unit: GB/s. From 0.01 to 10000.0. Default: 39.4.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @read_gbs.setter
    def read_gbs(self, value: float) -> None: ...
    @property
    def write_gbs(self) -> float:
        """Bandwidth of persistent memory if it only writes.

        Unit: GB/s. From 0.01 to 10000.0. Default: 13.9.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @write_gbs.setter
    def write_gbs(self, value: float) -> None: ...
    @property
    def link_ns(self) -> float:
        """Latency that the node's own link (such as CXL) adds to a read, there and back.

        Unit: ns. From 0.0 to 1000000.0. Default: 0.0.
        """
    @link_ns.setter
    def link_ns(self, value: float) -> None: ...
    @property
    def link_gbs(self) -> float:
        """Bandwidth of the node's own link in each direction; 0 for no bound.

        Unit: GB/s. From 0.0 to 10000.0. Default: 0.0.
        """
    @link_gbs.setter
    def link_gbs(self, value: float) -> None: ...

class NodesNode2(Group):
    """The third node."""
    @property
    def bytes(self) -> int:
        """Memory of the node, out of `memory.bytes`; 0 for no such node. The nodes' physical addresses follow
        one another, node 0 first.

        Unit: bytes. From 0 to 17592186044416. Default: 0.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def socket(self) -> int:
        """The socket to which the node is attached. Cores of other sockets reach it over the interconnect.

        Unit: number. From 0 to 3. Default: 0.
        """
    @socket.setter
    def socket(self, value: int | str) -> None: ...
    @property
    def slow(self) -> bool:
        """A slow tier: programs get it when faster nodes are low, and `kernel.numa` demotes pages to it.

        Default: False.
        """
    @slow.setter
    def slow(self, value: bool) -> None: ...
    @property
    def medium(self) -> Literal["dram", "persistent"]:
        """What the node is made of.

        One of dram, persistent. Default: dram.
        """
    @medium.setter
    def medium(self, value: Literal["dram", "persistent"]) -> None: ...
    @property
    def channels(self) -> int:
        """Channels of DRAM, a power of two; 0 for those of `dram.channels`.

        Unit: count. From 0 to 64. Default: 0.
        """
    @channels.setter
    def channels(self, value: int | str) -> None: ...
    @property
    def data_rate(self) -> int:
        """Transfers per second of a channel's data bus; 0 for `dram.data_rate`. Timings that the node does not
        give take as many ns as those of `dram`, and `dram.t_cwl` keeps its ratio to `t_cl`.

        Unit: MT/s. From 0 to 100000. Default: 0.
        """
    @data_rate.setter
    def data_rate(self, value: int | str) -> None: ...
    @property
    def t_cl(self) -> int:
        """Read latency of the DRAM; 0 for the time of `dram.t_cl`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_cl.setter
    def t_cl(self, value: int | str) -> None: ...
    @property
    def t_rcd(self) -> int:
        """Activate to column command; 0 for the time of `dram.t_rcd`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rcd.setter
    def t_rcd(self, value: int | str) -> None: ...
    @property
    def t_rp(self) -> int:
        """Precharge to activate; 0 for the time of `dram.t_rp`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rp.setter
    def t_rp(self, value: int | str) -> None: ...
    @property
    def t_ras(self) -> int:
        """Activate to precharge; 0 for the time of `dram.t_ras`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_ras.setter
    def t_ras(self, value: int | str) -> None: ...
    @property
    def read_ns(self) -> float:
        """Latency of a read of persistent memory.

        Unit: ns. From 0.0 to 1000000.0. Default: 305.0.

        Source: Izraelevitz et al. 2019: random loads of Optane.
        """
    @read_ns.setter
    def read_ns(self, value: float) -> None: ...
    @property
    def write_ns(self) -> float:
        """Latency of a write to persistent memory. No instruction waits for it; the copy of a page does.

        Unit: ns. From 0.0 to 1000000.0. Default: 94.0.

        Source: Yang et al., FAST 2020: a store and its write-back, Optane.
        """
    @write_ns.setter
    def write_ns(self, value: float) -> None: ...
    @property
    def read_gbs(self) -> float:
        """Bandwidth of persistent memory if it only reads.

        Unit: GB/s. From 0.01 to 10000.0. Default: 39.4.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @read_gbs.setter
    def read_gbs(self, value: float) -> None: ...
    @property
    def write_gbs(self) -> float:
        """Bandwidth of persistent memory if it only writes.

        Unit: GB/s. From 0.01 to 10000.0. Default: 13.9.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @write_gbs.setter
    def write_gbs(self, value: float) -> None: ...
    @property
    def link_ns(self) -> float:
        """Latency that the node's own link (such as CXL) adds to a read, there and back.

        Unit: ns. From 0.0 to 1000000.0. Default: 0.0.
        """
    @link_ns.setter
    def link_ns(self, value: float) -> None: ...
    @property
    def link_gbs(self) -> float:
        """Bandwidth of the node's own link in each direction; 0 for no bound.

        Unit: GB/s. From 0.0 to 10000.0. Default: 0.0.
        """
    @link_gbs.setter
    def link_gbs(self, value: float) -> None: ...

class NodesNode3(Group):
    """The fourth node."""
    @property
    def bytes(self) -> int:
        """Memory of the node, out of `memory.bytes`; 0 for no such node. The nodes' physical addresses follow
        one another, node 0 first.

        Unit: bytes. From 0 to 17592186044416. Default: 0.
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def socket(self) -> int:
        """The socket to which the node is attached. Cores of other sockets reach it over the interconnect.

        Unit: number. From 0 to 3. Default: 0.
        """
    @socket.setter
    def socket(self, value: int | str) -> None: ...
    @property
    def slow(self) -> bool:
        """A slow tier: programs get it when faster nodes are low, and `kernel.numa` demotes pages to it.

        Default: False.
        """
    @slow.setter
    def slow(self, value: bool) -> None: ...
    @property
    def medium(self) -> Literal["dram", "persistent"]:
        """What the node is made of.

        One of dram, persistent. Default: dram.
        """
    @medium.setter
    def medium(self, value: Literal["dram", "persistent"]) -> None: ...
    @property
    def channels(self) -> int:
        """Channels of DRAM, a power of two; 0 for those of `dram.channels`.

        Unit: count. From 0 to 64. Default: 0.
        """
    @channels.setter
    def channels(self, value: int | str) -> None: ...
    @property
    def data_rate(self) -> int:
        """Transfers per second of a channel's data bus; 0 for `dram.data_rate`. Timings that the node does not
        give take as many ns as those of `dram`, and `dram.t_cwl` keeps its ratio to `t_cl`.

        Unit: MT/s. From 0 to 100000. Default: 0.
        """
    @data_rate.setter
    def data_rate(self, value: int | str) -> None: ...
    @property
    def t_cl(self) -> int:
        """Read latency of the DRAM; 0 for the time of `dram.t_cl`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_cl.setter
    def t_cl(self, value: int | str) -> None: ...
    @property
    def t_rcd(self) -> int:
        """Activate to column command; 0 for the time of `dram.t_rcd`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rcd.setter
    def t_rcd(self, value: int | str) -> None: ...
    @property
    def t_rp(self) -> int:
        """Precharge to activate; 0 for the time of `dram.t_rp`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_rp.setter
    def t_rp(self, value: int | str) -> None: ...
    @property
    def t_ras(self) -> int:
        """Activate to precharge; 0 for the time of `dram.t_ras`.

        Unit: DRAM clocks. From 0 to 10000. Default: 0.
        """
    @t_ras.setter
    def t_ras(self, value: int | str) -> None: ...
    @property
    def read_ns(self) -> float:
        """Latency of a read of persistent memory.

        Unit: ns. From 0.0 to 1000000.0. Default: 305.0.

        Source: Izraelevitz et al. 2019: random loads of Optane.
        """
    @read_ns.setter
    def read_ns(self, value: float) -> None: ...
    @property
    def write_ns(self) -> float:
        """Latency of a write to persistent memory. No instruction waits for it; the copy of a page does.

        Unit: ns. From 0.0 to 1000000.0. Default: 94.0.

        Source: Yang et al., FAST 2020: a store and its write-back, Optane.
        """
    @write_ns.setter
    def write_ns(self, value: float) -> None: ...
    @property
    def read_gbs(self) -> float:
        """Bandwidth of persistent memory if it only reads.

        Unit: GB/s. From 0.01 to 10000.0. Default: 39.4.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @read_gbs.setter
    def read_gbs(self, value: float) -> None: ...
    @property
    def write_gbs(self) -> float:
        """Bandwidth of persistent memory if it only writes.

        Unit: GB/s. From 0.01 to 10000.0. Default: 13.9.

        Source: Izraelevitz et al. 2019: six interleaved Optane DIMMs.
        """
    @write_gbs.setter
    def write_gbs(self, value: float) -> None: ...
    @property
    def link_ns(self) -> float:
        """Latency that the node's own link (such as CXL) adds to a read, there and back.

        Unit: ns. From 0.0 to 1000000.0. Default: 0.0.
        """
    @link_ns.setter
    def link_ns(self, value: float) -> None: ...
    @property
    def link_gbs(self) -> float:
        """Bandwidth of the node's own link in each direction; 0 for no bound.

        Unit: GB/s. From 0.0 to 10000.0. Default: 0.0.
        """
    @link_gbs.setter
    def link_gbs(self, value: float) -> None: ...

class Nodes(Group):
    """Memory nodes: sockets' memories and slow tiers."""
    @property
    def core_sockets(self) -> list[int]:
        """The socket of each core, in the cores' order; empty: consecutive cores, evenly over the sockets that
        have a node.

        Unit: list. Default: [].
        """
    @core_sockets.setter
    def core_sockets(self, value: list[int]) -> None: ...
    @property
    def interconnect_ns(self) -> float:
        """Latency that the interconnect of the sockets (such as UPI) adds to a read, there and back.

        Unit: ns. From 0.0 to 1000000.0. Default: 136.0.

        Source: Mitosis (ASPLOS 2020): 580 cycles against 280, at 2.2 GHz.
        """
    @interconnect_ns.setter
    def interconnect_ns(self, value: float) -> None: ...
    @property
    def interconnect_gbs(self) -> float:
        """Bandwidth of the interconnect from any socket to any other, in each direction; 0 for no bound.

        Unit: GB/s. From 0.0 to 10000.0. Default: 11.0.

        Source: Mitosis (ASPLOS 2020): 11 GB/s.
        """
    @interconnect_gbs.setter
    def interconnect_gbs(self, value: float) -> None: ...
    @property
    def node1(self) -> NodesNode1:
        """The second node."""
    @property
    def node2(self) -> NodesNode2:
        """The third node."""
    @property
    def node3(self) -> NodesNode3:
        """The fourth node."""

class MmuL1d4k(Group):
    """L1 data TLB for 4 KiB pages (and for sizes below 2 MiB, a 4 KiB entry at a time)."""
    @property
    def entries(self) -> int:
        """Entries; 0 omits the TLB.

        Unit: entries. From 0 to 1048576. Default: 64.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class MmuL1d2m(Group):
    """L1 data TLB for 2 MiB pages."""
    @property
    def entries(self) -> int:
        """Entries; 0 omits the TLB.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class MmuL1d1g(Group):
    """L1 data TLB for 1 GiB pages."""
    @property
    def entries(self) -> int:
        """Entries; 0 omits the TLB.

        Unit: entries. From 0 to 1048576. Default: 4.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 0.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class MmuL1i4k(Group):
    """L1 instruction TLB for 4 KiB pages."""
    @property
    def entries(self) -> int:
        """Entries; 0 omits the TLB.

        Unit: entries. From 0 to 1048576. Default: 64.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class MmuL1i2m(Group):
    """L1 instruction TLB for 2 MiB pages."""
    @property
    def entries(self) -> int:
        """Entries; 0 omits the TLB.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class MmuL2Tlb(Group):
    """The second-level TLB."""
    @property
    def organization(self) -> Literal["unified", "split"]:
        """Whether page sizes share one array.

        One of unified, split. Default: split.

        Source: LVM Table 1 (split).
        """
    @organization.setter
    def organization(self, value: Literal["unified", "split"]) -> None: ...
    @property
    def entries(self) -> int:
        """Entries for 4 KiB pages (unified: for 4 KiB and 2 MiB pages); 0 omits the array.

        Unit: entries. From 0 to 1048576. Default: 2048.

        Source: LVM Table 1.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity of that array; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 16.

        Source: LVM Table 1.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def entries_2m(self) -> int:
        """Entries for 2 MiB pages when split.

        Unit: entries. From 0 to 1048576. Default: 2048.

        Source: LVM Table 1.
        """
    @entries_2m.setter
    def entries_2m(self, value: int | str) -> None: ...
    @property
    def ways_2m(self) -> int:
        """Associativity for 2 MiB pages; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 16.

        Source: LVM Table 1.
        """
    @ways_2m.setter
    def ways_2m(self, value: int | str) -> None: ...
    @property
    def entries_1g(self) -> int:
        """Entries for 1 GiB pages; 0 omits the array.

        Unit: entries. From 0 to 1048576. Default: 16.

        Source: ME-HPT Table III.
        """
    @entries_1g.setter
    def entries_1g(self, value: int | str) -> None: ...
    @property
    def ways_1g(self) -> int:
        """Associativity for 1 GiB pages; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: ME-HPT Table III.
        """
    @ways_1g.setter
    def ways_1g(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of a look-up, hit or miss, counted from the L1 TLB's miss.

        Unit: cycles. From 0 to 10000. Default: 12.

        Source: ME-HPT Table III, Utopia Table 1 (12 cycles).
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...

class MmuPwc(Group):
    """The page-walk caches of tree-shaped tables."""
    @property
    def pde_entries(self) -> int:
        """Entries for page-directory entries, each covering 2 MiB; 0 omits the level.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: LVM Table 1.
        """
    @pde_entries.setter
    def pde_entries(self, value: int | str) -> None: ...
    @property
    def pdpte_entries(self) -> int:
        """Entries for page-directory-pointer entries, each covering 1 GiB; 0 omits the level.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: LVM Table 1.
        """
    @pdpte_entries.setter
    def pdpte_entries(self, value: int | str) -> None: ...
    @property
    def pml4e_entries(self) -> int:
        """Entries for PML4 entries, each covering 512 GiB; 0 omits the level.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: LVM Table 1.
        """
    @pml4e_entries.setter
    def pml4e_entries(self, value: int | str) -> None: ...
    @property
    def pml5e_entries(self) -> int:
        """Entries for PML5 entries, each covering 256 TiB; 0 omits the level. Four-level tables do not use it.

        Unit: entries. From 0 to 1048576. Default: 32.

        Source: our choice: as for the other levels.
        """
    @pml5e_entries.setter
    def pml5e_entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity of each level; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 0.

        Source: our choice: LVM Table 1 names none.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of the parallel look-up, which every walk pays, hit or miss.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: LVM Table 1.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...

class MmuPrefetchQueue(Group):
    """The queue of translations that a TLB prefetcher has brought."""
    @property
    def entries(self) -> int:
        """Translations that the queue holds, fully associative, first in first out.

        Unit: entries. From 1 to 4096. Default: 64.

        Source: Vavouliotis et al., ISCA 2021 (64); Kandiraju and Sivasubramaniam, ISCA 2002, has 16.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of a look-up, after an L2 TLB miss and before the walk.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: Vavouliotis et al., ISCA 2021 (2).
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def walkers(self) -> int:
        """Page walkers of the core that prefetch walks may hold at once; the others are left to TLB misses.

        Unit: count. From 1 to 64. Default: 2.

        Source: our choice: half of the walkers, because walks for TLB misses go first.
        """
    @walkers.setter
    def walkers(self, value: int | str) -> None: ...
    @property
    def pending(self) -> int:
        """Prefetch walks of the core in flight, those that wait for a walker included. What is proposed beyond
        that is dropped.

        Unit: count. From 1 to 64. Default: 16.

        Source: our choice: four misses' worth of proposals.
        """
    @pending.setter
    def pending(self, value: int | str) -> None: ...

class Mmu(Group):
    """TLBs and page walkers of each core."""
    @property
    def l1d_4k(self) -> MmuL1d4k:
        """L1 data TLB for 4 KiB pages (and for sizes below 2 MiB, a 4 KiB entry at a time)."""
    @property
    def l1d_2m(self) -> MmuL1d2m:
        """L1 data TLB for 2 MiB pages."""
    @property
    def l1d_1g(self) -> MmuL1d1g:
        """L1 data TLB for 1 GiB pages."""
    @property
    def l1i_4k(self) -> MmuL1i4k:
        """L1 instruction TLB for 4 KiB pages."""
    @property
    def l1i_2m(self) -> MmuL1i2m:
        """L1 instruction TLB for 2 MiB pages."""
    @property
    def l1_latency(self) -> int:
        """Cycles of an L1 TLB look-up. One cycle of it overlaps the indexing of the L1 cache, so the usual 1
        delays nothing.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: Utopia Table 1 (1), ME-HPT Table III (2).
        """
    @l1_latency.setter
    def l1_latency(self, value: int | str) -> None: ...
    @property
    def l2_tlb(self) -> MmuL2Tlb:
        """The second-level TLB."""
    @property
    def walkers(self) -> int:
        """Maximum number of concurrent page walks of a core. Further walks wait for one of them to end.

        Unit: count. From 1 to 64. Default: 4.

        Source: ME-HPT Table III (4).
        """
    @walkers.setter
    def walkers(self, value: int | str) -> None: ...
    @property
    def walk_entry(self) -> Literal["l1", "l2", "llc"]:
        """The cache level at which walk accesses enter the hierarchy.

        One of l1, l2, llc. Default: l2.

        Source: LVM Sec. 7.2: L2, with L1 as a study.
        """
    @walk_entry.setter
    def walk_entry(self, value: Literal["l1", "l2", "llc"]) -> None: ...
    @property
    def va_bits(self) -> int:
        """Bits of a virtual address: 48 (four levels in a page table with levels) or 57 (five levels).

        Unit: count. From 48 to 57. Default: 48.

        Source: Intel SDM volume 3, chapter 4.
        """
    @va_bits.setter
    def va_bits(self, value: int | str) -> None: ...
    @property
    def pwc(self) -> MmuPwc:
        """The page-walk caches of tree-shaped tables."""
    @property
    def prefetch_queue(self) -> MmuPrefetchQueue:
        """The queue of translations that a TLB prefetcher has brought."""
    @property
    def perfect(self) -> bool:
        """Every translation is known at once and costs nothing: the perfect TLB that papers compare with.

        Default: False.

        Source: Utopia Sec. 7 (P-TLB).
        """
    @perfect.setter
    def perfect(self, value: bool) -> None: ...

class MemoryBuddy(Group):
    """The buddy allocator."""
    @property
    def max_order(self) -> int:
        """The number of orders, as Linux's MAX_ORDER before 6.4: 11 has blocks of 4 KiB (order 0) to 4 MiB
        (order 10), 20 has blocks up to 2 GiB (order 19).

        Unit: count. From 1 to 30. Default: 11.

        Source: Linux include/linux/mmzone.h.
        """
    @max_order.setter
    def max_order(self, value: int | str) -> None: ...
    @property
    def reserve_low(self) -> int:
        """The lowest frames, which are never allocated (firmware, the kernel image): 256 is the first MiB.

        Unit: count. From 0 to 1048576. Default: 256.
        """
    @reserve_low.setter
    def reserve_low(self, value: int | str) -> None: ...
    @property
    def block_order(self) -> Literal["address", "lifo"]:
        """Which free block of an order is allocated first.

        One of address, lifo. Default: address.

        Source: our choice; Linux mm/page_alloc.c has lists, last in, first out.
        """
    @block_order.setter
    def block_order(self, value: Literal["address", "lifo"]) -> None: ...

class MemoryFragmentation(Group):
    """How fragmented memory is before programs start."""
    @property
    def fmfi(self) -> float:
        """The free memory fragmentation index to reach at `order`, 0 (all free memory serves a request) to 1
        (none).

        Unit: ratio. From 0.0 to 1.0. Default: 0.0.

        Source: ME-HPT Table III has 0.7; LVM section 7.3 has 0.8 to 0.9.
        """
    @fmfi.setter
    def fmfi(self, value: float) -> None: ...
    @property
    def order(self) -> int:
        """The buddy order of `fmfi`: 9 is 2 MiB.

        Unit: count. From 1 to 29. Default: 9.
        """
    @order.setter
    def order(self, value: int | str) -> None: ...
    @property
    def free_share(self) -> float:
        """Share of all frames that is free afterwards, 0 to 1.

        Unit: ratio. From 0.0 to 1.0. Default: 1.0.
        """
    @free_share.setter
    def free_share(self, value: float) -> None: ...
    @property
    def grain(self) -> int:
        """The order of the aligned parts of a broken block that are taken, below `order`: 0 takes single frames
        at random and leaves hardly any contiguous run, 6 leaves runs of 256 KiB.

        Unit: count. From 0 to 28. Default: 0.

        Source: LVM Figure 3: 256 KiB runs are 30% of free memory in fragmented data centres.
        """
    @grain.setter
    def grain(self, value: int | str) -> None: ...

class MemoryPressure(Group):
    """How much memory is in use before programs start."""
    @property
    def pressure(self) -> float:
        """Share of all frames, 0 to 1, that other programs hold. They are chosen at random from the free frames
        before the run.

        Unit: ratio. From 0.0 to 1.0. Default: 0.0.

        Source: Revelator section 5.1: p = M / P.
        """
    @pressure.setter
    def pressure(self, value: float) -> None: ...

class Memory(Group):
    """Main memory's size and state, as the operating system sees them."""
    @property
    def bytes(self) -> int:
        """Physical memory, for data and translation structures alike.

        Unit: bytes. From 16777216 to 17592186044416. Default: 137438953472.

        Source: LVM Table 1 (128 GB).
        """
    @bytes.setter
    def bytes(self, value: int | str) -> None: ...
    @property
    def buddy(self) -> MemoryBuddy:
        """The buddy allocator."""
    @property
    def fragmentation(self) -> MemoryFragmentation:
        """How fragmented memory is before programs start."""
    @property
    def pressure(self) -> MemoryPressure:
        """How much memory is in use before programs start."""

class KernelNuma(Group):
    """Memory nodes: policies, demotion, balancing."""
    @property
    def policy(self) -> Literal["local", "interleave", "bind", "preferred"]:
        """From which nodes programs get their pages.

        One of local, interleave, bind, preferred. Default: local.

        Source: Linux: MPOL_DEFAULT.
        """
    @policy.setter
    def policy(self, value: Literal["local", "interleave", "bind", "preferred"]) -> None: ...
    @property
    def nodes(self) -> list[int]:
        """The nodes of `policy`, by number.

        Unit: list. Default: [].
        """
    @nodes.setter
    def nodes(self, value: list[int]) -> None: ...
    @property
    def table_policy(self) -> Literal["local", "interleave", "node"]:
        """In which nodes page tables and other structures of translation lie. Structures reserved at boot are in
        the first node that has room for them.

        One of local, interleave, node. Default: local.

        Source: Linux: the node of the faulting core.
        """
    @table_policy.setter
    def table_policy(self, value: Literal["local", "interleave", "node"]) -> None: ...
    @property
    def table_node(self) -> int:
        """The node of `table_policy = "node"`.

        Unit: number. From 0 to 3. Default: 0.
        """
    @table_node.setter
    def table_node(self, value: int | str) -> None: ...
    @property
    def demotion(self) -> bool:
        """Whether pages that were not accessed lately move to a slow tier when a fast node is low.

        Default: False.

        Source: Linux: numa/demotion_enabled.
        """
    @demotion.setter
    def demotion(self, value: bool) -> None: ...
    @property
    def balancing(self) -> Literal["none", "hint-faults", "accessed-bits"]:
        """How the kernel finds pages to move to a nearer or faster node.

        One of none, hint-faults, accessed-bits. Default: none.

        Source: Linux: numa_balancing.
        """
    @balancing.setter
    def balancing(self, value: Literal["none", "hint-faults", "accessed-bits"]) -> None: ...
    @property
    def scan_period(self) -> int:
        """Cycles between two scans of `balancing`.

        Unit: cycles. From 1000 to 1099511627776. Default: 20000000.

        Source: our choice: 10 ms at 2 GHz, for short runs; Linux's least is 1 s.
        """
    @scan_period.setter
    def scan_period(self, value: int | str) -> None: ...
    @property
    def scan_pages(self) -> int:
        """Base pages of a scan.

        Unit: count. From 1 to 1073741824. Default: 65536.

        Source: Linux: numa_balancing_scan_size_mb 256.
        """
    @scan_pages.setter
    def scan_pages(self, value: int | str) -> None: ...
    @property
    def hot_threshold(self) -> int:
        """Cycles from the scan of a page in a slow tier to its fault, up to which it counts as hot.

        Unit: cycles. From 1 to 1099511627776. Default: 20000000.

        Source: Linux: hot_threshold_ms, one least scan period.
        """
    @hot_threshold.setter
    def hot_threshold(self, value: int | str) -> None: ...
    @property
    def hot_scans(self) -> int:
        """Adjacent scans that find a page of a slow tier accessed, after which it is hot (`accessed-bits`).

        Unit: count. From 1 to 200. Default: 2.

        Source: our choice.
        """
    @hot_scans.setter
    def hot_scans(self, value: int | str) -> None: ...
    @property
    def promotion_pages(self) -> int:
        """Base pages that may be promoted from slow tiers in a scan period; 0 for no limit.

        Unit: count. From 0 to 1073741824. Default: 0.

        Source: Linux: numa_balancing_promote_rate_limit_MBps, 64 GiB/s.
        """
    @promotion_pages.setter
    def promotion_pages(self, value: int | str) -> None: ...
    @property
    def huge_migration(self) -> Literal["whole", "split"]:
        """How huge pages move between nodes.

        One of whole, split. Default: whole.

        Source: Linux: whole, where THP migration is built in.
        """
    @huge_migration.setter
    def huge_migration(self, value: Literal["whole", "split"]) -> None: ...

class Kernel(Group):
    """The operating system: page sizes, promotion, swap."""
    @property
    def page_size_policy(self) -> Literal["never", "always", "madvise", "khugepaged", "reservation"]:
        """The use of pages larger than 4 KiB for anonymous memory.

        One of never, always, madvise, khugepaged, reservation. Default: never.

        Source: LVM Sec. 6.3 (4KB and THP).
        """
    @page_size_policy.setter
    def page_size_policy(self, value: Literal["never", "always", "madvise", "khugepaged", "reservation"]) -> None: ...
    @property
    def gigantic_pages(self) -> bool:
        """1 GiB pages for aligned gigabytes of anonymous VMAs, if the allocator has such blocks
        (`memory.buddy.max_order` of at least 19).

        Default: False.

        Source: our choice: off, as in the papers.
        """
    @gigantic_pages.setter
    def gigantic_pages(self, value: bool) -> None: ...
    @property
    def promotion_threshold(self) -> float:
        """Share of a reserved 2 MiB that must be in use before it is promoted.

        Unit: ratio. From 0.0 to 1.0. Default: 0.3.

        Source: Revelator Table 1 (30%).
        """
    @promotion_threshold.setter
    def promotion_threshold(self, value: float) -> None: ...
    @property
    def huge_share(self) -> float:
        """Share of huge pages for which the allocation may succeed, to model memory that is more fragmented than
        the allocator's. The address of a page determines whether it is one of them.

        Unit: ratio. From 0.0 to 1.0. Default: 1.0.

        Source: Revelator Sec. 6.3 (0.7 to 0.8 under low, 0.1 to 0.2 under high fragmentation).
        """
    @huge_share.setter
    def huge_share(self, value: float) -> None: ...
    @property
    def huge_limit(self) -> int:
        """Number of huge pages that the kernel hands out in a run, the first that ask for one; 0 for no limit.

        Unit: count. From 0 to 1073741824. Default: 0.

        Source: our choice: no limit; Utopia Sec. 7 gives its baselines 512 pages of 2 MiB.
        """
    @huge_limit.setter
    def huge_limit(self, value: int | str) -> None: ...
    @property
    def huge_allocation(self) -> Literal["free-block", "compaction"]:
        """What a huge page costs beyond a fault with a base page and its zeroing.

        One of free-block, compaction. Default: free-block.

        Source: Linux: `defrag=never` does not compact memory at a fault.
        """
    @huge_allocation.setter
    def huge_allocation(self, value: Literal["free-block", "compaction"]) -> None: ...
    @property
    def zeroing(self) -> Literal["memory", "cycles-only"]:
        """Where the zeroes of fresh pages go in the region of interest. Applies to a hypervisor too.

        One of memory, cycles-only. Default: memory.

        Source: our choice: non-temporal stores, as FreeBSD's pagezero on amd64; Linux's `rep stos` leaves a
        part in the caches.
        """
    @zeroing.setter
    def zeroing(self, value: Literal["memory", "cycles-only"]) -> None: ...
    @property
    def copying(self) -> Literal["memory", "free"]:
        """What the background copy of a migrated page takes in the region of interest.

        One of memory, free. Default: memory.

        Source: our choice: Utopia Sec. 5.5 has a page copied while the program runs, and names no bandwidth.
        """
    @copying.setter
    def copying(self, value: Literal["memory", "free"]) -> None: ...
    @property
    def khugepaged_period(self) -> int:
        """Cycles between two rounds of the promotion daemon.

        Unit: cycles. From 1 to 1000000000000. Default: 20000000.

        Source: our choice: 10 ms at 2 GHz, so that runs of milliseconds see it; Linux scans every 10 s.
        """
    @khugepaged_period.setter
    def khugepaged_period(self, value: int | str) -> None: ...
    @property
    def khugepaged_pages(self) -> int:
        """Base pages that a round of the promotion daemon scans.

        Unit: count. From 512 to 1073741824. Default: 4096.

        Source: Linux: pages_to_scan 4096.
        """
    @khugepaged_pages.setter
    def khugepaged_pages(self, value: int | str) -> None: ...
    @property
    def khugepaged_max_none(self) -> int:
        """Base pages that may be missing when the daemon promotes a 2 MiB page.

        Unit: count. From 0 to 511. Default: 511.

        Source: Linux: max_ptes_none 511.
        """
    @khugepaged_max_none.setter
    def khugepaged_max_none(self, value: int | str) -> None: ...
    @property
    def swap_bytes(self) -> int:
        """Swap space. Without swap (0), running out of memory is an outcome of the run.

        Unit: bytes. From 0 to 17592186044416. Default: 0.

        Source: our choice.
        """
    @swap_bytes.setter
    def swap_bytes(self, value: int | str) -> None: ...
    @property
    def reclaim_pages(self) -> int:
        """Pages that one round of reclaim tries to free.

        Unit: count. From 1 to 1048576. Default: 32.

        Source: Linux: SWAP_CLUSTER_MAX 32.
        """
    @reclaim_pages.setter
    def reclaim_pages(self, value: int | str) -> None: ...
    @property
    def watermark_min(self) -> float:
        """Share of all frames below which a fault reclaims before it allocates a frame, while swap has room.
        Reclaim itself may need the rest for the tables of huge pages that it splits. Without swap there are
        no watermarks.

        Unit: ratio. From 0.0 to 0.5. Default: 0.001.

        Source: our choice: Linux keeps 0.03% at 128 GiB and 1.5% at 64 MiB.
        """
    @watermark_min.setter
    def watermark_min(self, value: float) -> None: ...
    @property
    def watermark_low(self) -> float:
        """Share of all frames below which background reclaim starts. Unlike a fault it does not wait for swap.

        Unit: ratio. From 0.0 to 0.5. Default: 0.002.

        Source: Linux: watermark_scale_factor, 0.1% above the one below.
        """
    @watermark_low.setter
    def watermark_low(self, value: float) -> None: ...
    @property
    def watermark_high(self) -> float:
        """Free share of all frames at which background reclaim stops.

        Unit: ratio. From 0.0 to 0.5. Default: 0.003.

        Source: Linux: watermark_scale_factor, 0.1% above the one below.
        """
    @watermark_high.setter
    def watermark_high(self, value: float) -> None: ...
    @property
    def asid_bits(self) -> int:
        """Bits of the identifiers by which a core tells address spaces apart. A core that has run more address
        spaces than it has identifiers takes back the one that it gave first, and its TLBs lose the entries of
        that address space. What several cores share tells all live address spaces apart.

        Unit: count. From 1 to 14. Default: 12.

        Source: x86-64 PCID: 12 bits.
        """
    @asid_bits.setter
    def asid_bits(self, value: int | str) -> None: ...
    @property
    def flush_ceiling(self) -> int:
        """Number of pages above which a TLB shootdown flushes the entire address space instead of single pages.

        Unit: count. From 0 to 1048576. Default: 33.

        Source: Linux: tlb_single_page_flush_ceiling 33.
        """
    @flush_ceiling.setter
    def flush_ceiling(self, value: int | str) -> None: ...
    @property
    def numa(self) -> KernelNuma:
        """Memory nodes: policies, demotion, balancing."""

class Costs(Group):
    """The cost of the operating system's work."""
    @property
    def fault(self) -> int:
        """Entry, exit and bookkeeping of a page fault, including the allocation of one base frame and one table
        entry.

        Unit: cycles. From 0 to 10000000000. Default: 1000.

        Source: our choice: a minor fault of Linux is about 0.5 us without zeroing.
        """
    @fault.setter
    def fault(self, value: int | str) -> None: ...
    @property
    def zero_4k(self) -> int:
        """Zeroing a 4 KiB frame.

        Unit: cycles. From 0 to 10000000000. Default: 512.

        Source: our choice: 8 bytes a cycle.
        """
    @zero_4k.setter
    def zero_4k(self, value: int | str) -> None: ...
    @property
    def zero_2m(self) -> int:
        """Zeroing a 2 MiB page.

        Unit: cycles. From 0 to 10000000000. Default: 262144.

        Source: our choice: 8 bytes a cycle.
        """
    @zero_2m.setter
    def zero_2m(self, value: int | str) -> None: ...
    @property
    def copy_4k(self) -> int:
        """Copying a 4 KiB frame (copy-on-write, promotion, migration).

        Unit: cycles. From 0 to 10000000000. Default: 1024.

        Source: our choice: 4 bytes a cycle.
        """
    @copy_4k.setter
    def copy_4k(self, value: int | str) -> None: ...
    @property
    def syscall(self) -> int:
        """Entry, exit and VMA work of a system call.

        Unit: cycles. From 0 to 10000000000. Default: 500.

        Source: our choice.
        """
    @syscall.setter
    def syscall(self, value: int | str) -> None: ...
    @property
    def hypercall(self) -> int:
        """A hypercall: exit of the virtual machine and entry, without the hypervisor's work.

        Unit: cycles. From 0 to 10000000000. Default: 1500.

        Source: our choice: a VM exit and entry is about 0.7 us.
        """
    @hypercall.setter
    def hypercall(self, value: int | str) -> None: ...
    @property
    def table_entry(self) -> int:
        """Changing or removing one table entry as part of a larger action (unmap, protect, fork, promotion).

        Unit: cycles. From 0 to 10000000000. Default: 20.

        Source: our choice.
        """
    @table_entry.setter
    def table_entry(self, value: int | str) -> None: ...
    @property
    def lock_hold(self) -> int:
        """How long an action on a page table holds the lock of the part that it changes, in addition to the
        table's own work. Other cores that need the same lock wait.

        Unit: cycles. From 0 to 10000000000. Default: 100.

        Source: our choice: 50 ns of a minor fault.
        """
    @lock_hold.setter
    def lock_hold(self, value: int | str) -> None: ...
    @property
    def invalidate(self) -> int:
        """Invalidating a page, or an address space, in the core's own TLBs: all that a TLB shootdown costs on a
        machine with one core.

        Unit: cycles. From 0 to 10000000000. Default: 200.

        Source: our choice: INVLPG and its caller, about 0.1 us.
        """
    @invalidate.setter
    def invalidate(self, value: int | str) -> None: ...
    @property
    def shootdown(self) -> int:
        """A TLB shootdown, at the initiating core, if there are others.

        Unit: cycles. From 0 to 10000000000. Default: 2000.

        Source: our choice: IPI and wait, about 1 us.
        """
    @shootdown.setter
    def shootdown(self, value: int | str) -> None: ...
    @property
    def shootdown_core(self) -> int:
        """A TLB shootdown, for each other core; the initiator waits for them.

        Unit: cycles. From 0 to 10000000000. Default: 500.

        Source: our choice.
        """
    @shootdown_core.setter
    def shootdown_core(self, value: int | str) -> None: ...
    @property
    def context_switch(self) -> int:
        """A context switch to another process.

        Unit: cycles. From 0 to 10000000000. Default: 2000.

        Source: our choice: about 1 us.
        """
    @context_switch.setter
    def context_switch(self, value: int | str) -> None: ...
    @property
    def swap_out(self) -> int:
        """Writing a page to swap, as seen by the process that waits for the frame.

        Unit: cycles. From 0 to 10000000000. Default: 20000.

        Source: our choice: 10 us, an NVMe write with its queue.
        """
    @swap_out.setter
    def swap_out(self, value: int | str) -> None: ...
    @property
    def swap_in(self) -> int:
        """Reading a page from swap.

        Unit: cycles. From 0 to 10000000000. Default: 100000.

        Source: our choice: 50 us, an NVMe read.
        """
    @swap_in.setter
    def swap_in(self, value: int | str) -> None: ...
    @property
    def allocate_4k(self) -> int:
        """Allocating 4 KiB contiguous bytes at 0.7 FMFI. This and the following four sizes are measured; sizes
        between them are interpolated on logarithmic scales.

        Unit: cycles. From 0 to 10000000000. Default: 4000.

        Source: ME-HPT Sec. III.
        """
    @allocate_4k.setter
    def allocate_4k(self, value: int | str) -> None: ...
    @property
    def allocate_8k(self) -> int:
        """Allocating 8 KiB contiguous bytes at 0.7 FMFI.

        Unit: cycles. From 0 to 10000000000. Default: 5000.

        Source: ME-HPT Sec. III.
        """
    @allocate_8k.setter
    def allocate_8k(self, value: int | str) -> None: ...
    @property
    def allocate_1m(self) -> int:
        """Allocating 1 MiB contiguous bytes at 0.7 FMFI.

        Unit: cycles. From 0 to 10000000000. Default: 750000.

        Source: ME-HPT Sec. III.
        """
    @allocate_1m.setter
    def allocate_1m(self, value: int | str) -> None: ...
    @property
    def allocate_8m(self) -> int:
        """Allocating 8 MiB contiguous bytes at 0.7 FMFI.

        Unit: cycles. From 0 to 10000000000. Default: 13000000.

        Source: ME-HPT Sec. III.
        """
    @allocate_8m.setter
    def allocate_8m(self, value: int | str) -> None: ...
    @property
    def allocate_64m(self) -> int:
        """Allocating 64 MiB contiguous bytes at 0.7 FMFI.

        Unit: cycles. From 0 to 10000000000. Default: 120000000.

        Source: ME-HPT Sec. III.
        """
    @allocate_64m.setter
    def allocate_64m(self, value: int | str) -> None: ...
    @property
    def allocate_64m_fails_above(self) -> float:
        """FMFI above which an allocation of 64 MiB or more fails.

        Unit: ratio. From 0.0 to 1.0. Default: 0.7.

        Source: ME-HPT Sec. III.
        """
    @allocate_64m_fails_above.setter
    def allocate_64m_fails_above(self, value: float) -> None: ...

class Energy(Group):
    """Energies of events, for an estimate of energy."""
    @property
    def instruction(self) -> float:
        """An instruction, without its memory accesses.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 900.0.

        Source: our choice: about 4 W at 2.9 GHz and 1.5 instructions a cycle; Horowitz, ISSCC 2014, has 70 pJ
        for a simple core.
        """
    @instruction.setter
    def instruction(self, value: float) -> None: ...
    @property
    def l1(self) -> float:
        """An access to an L1 cache.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 20.0.

        Source: Horowitz, ISSCC 2014: 20 pJ for 8 bytes of 32 KB.
        """
    @l1.setter
    def l1(self, value: float) -> None: ...
    @property
    def l2(self) -> float:
        """An access to an L2 cache: a line.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 200.0.

        Source: our choice: twice Horowitz's 100 pJ for 8 bytes of 1 MB, for a line.
        """
    @l2.setter
    def l2(self, value: float) -> None: ...
    @property
    def llc(self) -> float:
        """An access to the last-level cache: a line, and its transfer.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 400.0.

        Source: our choice: twice the L2's.
        """
    @llc.setter
    def llc(self, value: float) -> None: ...
    @property
    def dram_activate(self) -> float:
        """Opening and closing a row of DRAM: in all devices of a rank, beyond standby.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 4200.0.

        Source: Micron TN-40-07: 8 devices x 1.2 V x (IDD0 57 mA x 46.25 ns - IDD3N 52 mA x 32.5 ns - IDD2N 37
        mA x 13.75 ns).
        """
    @dram_activate.setter
    def dram_activate(self, value: float) -> None: ...
    @property
    def dram_read(self) -> float:
        """Reading a line from an open row, without its transfer.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 2784.0.

        Source: Micron TN-40-07: 8 devices x 1.2 V x (IDD4R 168 mA - IDD3N 52 mA) x 2.5 ns.
        """
    @dram_read.setter
    def dram_read(self, value: float) -> None: ...
    @property
    def dram_write(self) -> float:
        """Writing a line to an open row, without its transfer.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 2352.0.

        Source: Micron TN-40-07: 8 devices x 1.2 V x (IDD4W 150 mA - IDD3N 52 mA) x 2.5 ns.
        """
    @dram_write.setter
    def dram_write(self, value: float) -> None: ...
    @property
    def dram_bus(self) -> float:
        """A line on the data bus: drivers and termination.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 1756.0.

        Source: JESD79-4: 34 ohm drivers; our choice: 48 ohm terminations; 8 x (64 data + 16 strobe lines) x
        half of (1.2 V)^2 / 82 ohm x 0.3125 ns.
        """
    @dram_bus.setter
    def dram_bus(self, value: float) -> None: ...
    @property
    def dram_refresh(self) -> float:
        """A refresh of a rank, beyond standby.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 840280.0.

        Source: Micron TN-40-07: 8 devices x 350 ns x (1.2 V x (IDD5B 250 mA - IDD3N 52 mA) + 2.5 V x (IPP5B
        28 mA - IPP3N 3 mA)).
        """
    @dram_refresh.setter
    def dram_refresh(self, value: float) -> None: ...
    @property
    def l1_tlb(self) -> float:
        """A look-up of the L1 TLBs.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 3.0.

        Source: our choice: a small array of 64 entries.
        """
    @l1_tlb.setter
    def l1_tlb(self, value: float) -> None: ...
    @property
    def l2_tlb(self) -> float:
        """A look-up of the L2 TLB, of the lookaside, or of the prefetch queue.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 15.0.

        Source: our choice: 16 KB, between the L1 cache and the L1 TLB.
        """
    @l2_tlb.setter
    def l2_tlb(self, value: float) -> None: ...
    @property
    def walk_cache(self) -> float:
        """A look-up of a walker's caches.

        Unit: pJ. From 0.0 to 1000000000.0. Default: 3.0.

        Source: our choice: as the L1 TLB.
        """
    @walk_cache.setter
    def walk_cache(self, value: float) -> None: ...
    @property
    def core_static(self) -> float:
        """Static power of a core and its caches.

        Unit: mW. From 0.0 to 1000000000.0. Default: 1500.0.

        Source: our choice.
        """
    @core_static.setter
    def core_static(self, value: float) -> None: ...
    @property
    def rank_static(self) -> float:
        """Background power of a rank of DRAM: active standby.

        Unit: mW. From 0.0 to 1000000000.0. Default: 559.2.

        Source: Micron TN-40-07: 8 devices x (IDD3N 52 mA x 1.2 V + IPP3N 3 mA x 2.5 V).
        """
    @rank_static.setter
    def rank_static(self, value: float) -> None: ...

class Design(Group):
    """The translation design: the contents of each socket."""
    @property
    def page_table(self) -> Literal["radix", "flattened", "asap", "dmt", "ideal", "hashed", "ecpt", "me-hpt", "lvm", "clustered-page-table"]:
        """The page table.

        One of radix, flattened, asap, dmt, ideal, hashed, ecpt, me-hpt, lvm, clustered-page-table. Default:
        radix.
        """
    @page_table.setter
    def page_table(self, value: Literal["radix", "flattened", "asap", "dmt", "ideal", "hashed", "ecpt", "me-hpt", "lvm", "clustered-page-table"]) -> None: ...
    @property
    def lookaside(self) -> Literal["none", "rmm", "direct-segment", "clustered-tlb", "pom-tlb", "utopia"]:
        """What is probed with the L2 TLB, or right after it.

        One of none, rmm, direct-segment, clustered-tlb, pom-tlb, utopia. Default: none.
        """
    @lookaside.setter
    def lookaside(self, value: Literal["none", "rmm", "direct-segment", "clustered-tlb", "pom-tlb", "utopia"]) -> None: ...
    @property
    def second_lookaside(self) -> Literal["none", "rmm", "direct-segment", "clustered-tlb", "pom-tlb", "utopia"]:
        """Another lookaside, for pages that the first does not hold: both are probed, and the first is believed.

        One of none, rmm, direct-segment, clustered-tlb, pom-tlb, utopia. Default: none.
        """
    @second_lookaside.setter
    def second_lookaside(self, value: Literal["none", "rmm", "direct-segment", "clustered-tlb", "pom-tlb", "utopia"]) -> None: ...
    @property
    def speculation(self) -> Literal["none", "revelator", "spec-tlb", "spot", "perfect-speculation"]:
        """What issues speculative fetches on an L2 TLB miss.

        One of none, revelator, spec-tlb, spot, perfect-speculation. Default: none.
        """
    @speculation.setter
    def speculation(self, value: Literal["none", "revelator", "spec-tlb", "spot", "perfect-speculation"]) -> None: ...
    @property
    def tlb_prefetch(self) -> Literal["none", "tlb-sequential", "tlb-stride", "tlb-distance", "tlb-h2", "tlb-agile"]:
        """What prefetches translations after an L2 TLB miss.

        One of none, tlb-sequential, tlb-stride, tlb-distance, tlb-h2, tlb-agile. Default: none.
        """
    @tlb_prefetch.setter
    def tlb_prefetch(self, value: Literal["none", "tlb-sequential", "tlb-stride", "tlb-distance", "tlb-h2", "tlb-agile"]) -> None: ...
    @property
    def placement(self) -> Literal["buddy", "trace", "rmm", "utopia", "revelator", "ca-paging"]:
        """Where the kernel places pages.

        One of buddy, trace, rmm, utopia, revelator, ca-paging. Default: buddy.
        """
    @placement.setter
    def placement(self, value: Literal["buddy", "trace", "rmm", "utopia", "revelator", "ca-paging"]) -> None: ...
    @property
    def front_side(self) -> Literal["none", "midgard"]:
        """What translates before the caches.

        One of none, midgard. Default: none.
        """
    @front_side.setter
    def front_side(self, value: Literal["none", "midgard"]) -> None: ...

class Flattened(Group):
    """Settings of flattened page tables.

    Source: Park et al., Every Walk's a Hit, ASPLOS 2022.
    """
    @property
    def merge_upper(self) -> bool:
        """Merge L4 and L3.

        Default: True.

        Source: LVM Section 7.5.3.
        """
    @merge_upper.setter
    def merge_upper(self, value: bool) -> None: ...
    @property
    def merge_lower(self) -> bool:
        """Merge L2 and L1.

        Default: True.

        Source: LVM Section 7.5.3.
        """
    @merge_lower.setter
    def merge_lower(self, value: bool) -> None: ...
    @property
    def large_pages(self) -> Literal["replicated", "unmerged"]:
        """How merged L2+L1 nodes represent 2 MiB pages.

        One of replicated, unmerged. Default: replicated.

        Source: our choice.
        """
    @large_pages.setter
    def large_pages(self, value: Literal["replicated", "unmerged"]) -> None: ...

class Asap(Group):
    """Settings of ASAP.

    Source: Margaritov et al., Prefetched Address Translation, MICRO 2019.
    """
    @property
    def range_registers(self) -> int:
        """Range registers, each for the runs of one VMA; the largest VMAs get them.

        Unit: entries. From 0 to 256. Default: 16.

        Source: our choice: the paper has 8 to 16.
        """
    @range_registers.setter
    def range_registers(self, value: int | str) -> None: ...
    @property
    def prefetch_pl1(self) -> bool:
        """Prefetch the entry of the last level (PL1).

        Default: True.

        Source: ASAP, P1.
        """
    @prefetch_pl1.setter
    def prefetch_pl1(self, value: bool) -> None: ...
    @property
    def prefetch_pl2(self) -> bool:
        """Prefetch the entry of the level above the last (PL2).

        Default: True.

        Source: ASAP, P1+P2.
        """
    @prefetch_pl2.setter
    def prefetch_pl2(self, value: bool) -> None: ...
    @property
    def filter(self) -> bool:
        """Do not prefetch entries that the walk skips, or loads first, thanks to the page-walk caches.

        Default: False.

        Source: our choice: the paper prefetches on every TLB miss.
        """
    @filter.setter
    def filter(self, value: bool) -> None: ...
    @property
    def min_vma(self) -> int:
        """The smallest VMA whose tables are contiguous.

        Unit: bytes. From 4096 to 144115188075855872. Default: 4194304.

        Source: our choice: one PL1 table is contiguous anyhow.
        """
    @min_vma.setter
    def min_vma(self, value: int | str) -> None: ...

class Dmt(Group):
    """Settings of DMT.

    Source: Zhang et al., Direct Memory Translation for Virtualized Clouds, ASPLOS 2024.
    """
    @property
    def registers(self) -> int:
        """Registers with mappings from VMAs to TEAs; the largest VMAs get them.

        Unit: entries. From 0 to 256. Default: 16.

        Source: DMT: 16, as HPL_SEG_LIMIT in the authors' kernel.
        """
    @registers.setter
    def registers(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles to compare an address with all registers and to compute the addresses of its entries.

        Unit: cycles. From 0 to 100. Default: 1.

        Source: our choice.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def min_vma(self) -> int:
        """The smallest VMA that has a TEA.

        Unit: bytes. From 4096 to 144115188075855872. Default: 67108864.

        Source: HPL_VMA_THRESHOLD in the authors' kernel (64 MiB).
        """
    @min_vma.setter
    def min_vma(self, value: int | str) -> None: ...
    @property
    def bubbles(self) -> float:
        """The largest share of a TEA's tables that belong to no VMA, where VMAs share the TEA.

        Unit: ratio. From 0.0 to 1.0. Default: 0.02.

        Source: HPL_MERGE_THRESHOLD in the authors' kernel (98% occupied).
        """
    @bubbles.setter
    def bubbles(self, value: float) -> None: ...
    @property
    def switch_cycles(self) -> int:
        """Cycles to save or to restore a register at a context switch.

        Unit: cycles. From 0 to 10000. Default: 3.

        Source: our choice: three words of a register each.
        """
    @switch_cycles.setter
    def switch_cycles(self, value: int | str) -> None: ...
    @property
    def paravirtual(self) -> bool:
        """The page tables of a guest ask the hypervisor for contiguous host memory (pvDMT), so that a walk loads
        their entries without translating the address of the entry.

        Default: False.

        Source: DMT: KVM_HC_ALLOC_TEA in the authors' kernel.
        """
    @paravirtual.setter
    def paravirtual(self, value: bool) -> None: ...
    @property
    def gteas(self) -> int:
        """TEAs of a guest that the hypervisor backs with contiguous memory at once: slots of its table.

        Unit: entries. From 0 to 128. Default: 16.

        Source: DMT: TEA_MAX_CNT in the authors' kernel.
        """
    @gteas.setter
    def gteas(self, value: int | str) -> None: ...

class Hashed(Group):
    """Settings of the hashed page table.

    Source: Huck and Hays, ISCA 1993; Yaniv and Tsafrir, SIGMETRICS 2016.
    """
    @property
    def initial_bytes(self) -> int:
        """Bytes of an empty table: a power of two of at least 4 KiB.

        Unit: bytes. From 4096 to 1099511627776. Default: 4096.

        Source: our choice: a frame.
        """
    @initial_bytes.setter
    def initial_bytes(self, value: int | str) -> None: ...
    @property
    def load_limit(self) -> float:
        """Occupancy at which the table is resized.

        Unit: ratio. From 0.0 to 0.9. Default: 0.6.

        Source: ME-HPT Sec. VI: ECPT's 0.6.
        """
    @load_limit.setter
    def load_limit(self, value: float) -> None: ...
    @property
    def hash_latency(self) -> int:
        """Cycles that the hash function takes at the start of a walk.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: ME-HPT Table III.
        """
    @hash_latency.setter
    def hash_latency(self, value: int | str) -> None: ...

class Ecpt(Group):
    """Settings of elastic cuckoo page tables.

    Source: Skarlatos et al., Elastic Cuckoo Page Tables, ASPLOS 2020.
    """
    @property
    def ways(self) -> int:
        """Ways of each page size's table.

        Unit: ways. From 2 to 4. Default: 3.

        Source: ME-HPT Sec. VI.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def initial_bytes(self) -> int:
        """Initial bytes of each way, and its minimum.

        Unit: bytes. From 4096 to 1073741824. Default: 8192.

        Source: ME-HPT Table III: 128 entries of 64 bytes.
        """
    @initial_bytes.setter
    def initial_bytes(self, value: int | str) -> None: ...
    @property
    def upsize_at(self) -> float:
        """Occupancy above which the table doubles.

        Unit: ratio. From 0.0 to 0.9. Default: 0.6.

        Source: ME-HPT Table III.
        """
    @upsize_at.setter
    def upsize_at(self, value: float) -> None: ...
    @property
    def downsize_at(self) -> float:
        """Occupancy below which the table halves.

        Unit: ratio. From 0.0 to 0.45. Default: 0.2.

        Source: ME-HPT Table III.
        """
    @downsize_at.setter
    def downsize_at(self, value: float) -> None: ...
    @property
    def rehash_slots(self) -> int:
        """Slots by which rehash pointers advance with each slot inserted or removed.

        Unit: count. From 1 to 1048576. Default: 2.

        Source: our choice: the least that is done before the next upsize is due.
        """
    @rehash_slots.setter
    def rehash_slots(self, value: int | str) -> None: ...
    @property
    def max_reinsertions(self) -> int:
        """Slots that one insertion may displace before the table grows instead.

        Unit: count. From 1 to 1048576. Default: 128.

        Source: our choice: the paper names no bound.
        """
    @max_reinsertions.setter
    def max_reinsertions(self, value: int | str) -> None: ...
    @property
    def hash(self) -> Literal["crc-mixed", "crc", "city"]:
        """Hash functions of the ways.

        One of crc-mixed, crc, city. Default: crc-mixed.

        Source: ME-HPT Table III: CRC; the mixer is our choice.
        """
    @hash.setter
    def hash(self, value: Literal["crc-mixed", "crc", "city"]) -> None: ...
    @property
    def hash_latency(self) -> int:
        """Cycles of hashing at the start of a walk.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: ME-HPT Table III.
        """
    @hash_latency.setter
    def hash_latency(self, value: int | str) -> None: ...
    @property
    def cwt_ways(self) -> int:
        """Ways of the cuckoo walk tables.

        Unit: ways. From 2 to 4. Default: 2.

        Source: ME-HPT Table III.
        """
    @cwt_ways.setter
    def cwt_ways(self, value: int | str) -> None: ...
    @property
    def cwt_entries(self) -> int:
        """Initial slots of each way of the cuckoo walk tables: a power of two.

        Unit: entries. From 128 to 1048576. Default: 128.

        Source: ME-HPT Table III.
        """
    @cwt_entries.setter
    def cwt_entries(self, value: int | str) -> None: ...
    @property
    def pmd_cwc_entries(self) -> int:
        """Entries of the PMD's cuckoo walk cache, fully associative; 0 for no such cache.

        Unit: entries. From 0 to 256. Default: 16.

        Source: ME-HPT Table III.
        """
    @pmd_cwc_entries.setter
    def pmd_cwc_entries(self, value: int | str) -> None: ...
    @property
    def pud_cwc_entries(self) -> int:
        """Entries of the PUD's cuckoo walk cache, fully associative; 0 for no such cache.

        Unit: entries. From 0 to 256. Default: 2.

        Source: ME-HPT Table III.
        """
    @pud_cwc_entries.setter
    def pud_cwc_entries(self, value: int | str) -> None: ...
    @property
    def cwc_latency(self) -> int:
        """Cycles of a look-up in the cuckoo walk caches.

        Unit: cycles. From 0 to 10000. Default: 4.

        Source: ME-HPT Table III.
        """
    @cwc_latency.setter
    def cwc_latency(self, value: int | str) -> None: ...

class MeHptCuckoo(Group):
    """The settings shared with ECPT."""
    @property
    def ways(self) -> int:
        """Ways of each page size's table.

        Unit: ways. From 2 to 4. Default: 3.

        Source: ME-HPT Sec. VI.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def initial_bytes(self) -> int:
        """Initial bytes of each way, and its minimum.

        Unit: bytes. From 4096 to 1073741824. Default: 8192.

        Source: ME-HPT Table III: 128 entries of 64 bytes.
        """
    @initial_bytes.setter
    def initial_bytes(self, value: int | str) -> None: ...
    @property
    def upsize_at(self) -> float:
        """Occupancy above which the table doubles.

        Unit: ratio. From 0.0 to 0.9. Default: 0.6.

        Source: ME-HPT Table III.
        """
    @upsize_at.setter
    def upsize_at(self, value: float) -> None: ...
    @property
    def downsize_at(self) -> float:
        """Occupancy below which the table halves.

        Unit: ratio. From 0.0 to 0.45. Default: 0.2.

        Source: ME-HPT Table III.
        """
    @downsize_at.setter
    def downsize_at(self, value: float) -> None: ...
    @property
    def rehash_slots(self) -> int:
        """Slots by which rehash pointers advance with each slot inserted or removed.

        Unit: count. From 1 to 1048576. Default: 2.

        Source: our choice: the least that is done before the next upsize is due.
        """
    @rehash_slots.setter
    def rehash_slots(self, value: int | str) -> None: ...
    @property
    def max_reinsertions(self) -> int:
        """Slots that one insertion may displace before the table grows instead.

        Unit: count. From 1 to 1048576. Default: 128.

        Source: our choice: the paper names no bound.
        """
    @max_reinsertions.setter
    def max_reinsertions(self, value: int | str) -> None: ...
    @property
    def hash(self) -> Literal["crc-mixed", "crc", "city"]:
        """Hash functions of the ways.

        One of crc-mixed, crc, city. Default: crc-mixed.

        Source: ME-HPT Table III: CRC; the mixer is our choice.
        """
    @hash.setter
    def hash(self, value: Literal["crc-mixed", "crc", "city"]) -> None: ...
    @property
    def hash_latency(self) -> int:
        """Cycles of hashing at the start of a walk.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: ME-HPT Table III.
        """
    @hash_latency.setter
    def hash_latency(self, value: int | str) -> None: ...
    @property
    def cwt_ways(self) -> int:
        """Ways of the cuckoo walk tables.

        Unit: ways. From 2 to 4. Default: 2.

        Source: ME-HPT Table III.
        """
    @cwt_ways.setter
    def cwt_ways(self, value: int | str) -> None: ...
    @property
    def cwt_entries(self) -> int:
        """Initial slots of each way of the cuckoo walk tables: a power of two.

        Unit: entries. From 128 to 1048576. Default: 128.

        Source: ME-HPT Table III.
        """
    @cwt_entries.setter
    def cwt_entries(self, value: int | str) -> None: ...
    @property
    def pmd_cwc_entries(self) -> int:
        """Entries of the PMD's cuckoo walk cache, fully associative; 0 for no such cache.

        Unit: entries. From 0 to 256. Default: 16.

        Source: ME-HPT Table III.
        """
    @pmd_cwc_entries.setter
    def pmd_cwc_entries(self, value: int | str) -> None: ...
    @property
    def pud_cwc_entries(self) -> int:
        """Entries of the PUD's cuckoo walk cache, fully associative; 0 for no such cache.

        Unit: entries. From 0 to 256. Default: 2.

        Source: ME-HPT Table III.
        """
    @pud_cwc_entries.setter
    def pud_cwc_entries(self, value: int | str) -> None: ...
    @property
    def cwc_latency(self) -> int:
        """Cycles of a look-up in the cuckoo walk caches.

        Unit: cycles. From 0 to 10000. Default: 4.

        Source: ME-HPT Table III.
        """
    @cwc_latency.setter
    def cwc_latency(self, value: int | str) -> None: ...

class MeHpt(Group):
    """Settings of memory-efficient hashed page tables.

    Source: Stojkovic et al., Memory-Efficient Hashed Page Tables, HPCA 2023.
    """
    @property
    def cuckoo(self) -> MeHptCuckoo:
        """The settings shared with ECPT."""
    @property
    def l2p(self) -> bool:
        """Ways consist of chunks listed in the L2P table; without it each way is one block.

        Default: True.

        Source: ME-HPT Sec. IV-A.
        """
    @l2p.setter
    def l2p(self, value: bool) -> None: ...
    @property
    def dynamic_chunks(self) -> bool:
        """Chunk sizes change as a way grows; without it all are of `fixed_chunk_bytes`.

        Default: True.

        Source: ME-HPT Sec. IV-B.
        """
    @dynamic_chunks.setter
    def dynamic_chunks(self, value: bool) -> None: ...
    @property
    def in_place(self) -> bool:
        """Ways are resized in place, unless their chunk size changes.

        Default: True.

        Source: ME-HPT Sec. IV-C.
        """
    @in_place.setter
    def in_place(self, value: bool) -> None: ...
    @property
    def per_way(self) -> bool:
        """Ways are resized one by one.

        Default: True.

        Source: ME-HPT Sec. IV-D.
        """
    @per_way.setter
    def per_way(self, value: bool) -> None: ...
    @property
    def one_way_at_a_time(self) -> bool:
        """Of ways that are resized one by one, the next begins when the last is done; without it each begins
        when it is full or empty, also beside others.

        Default: True.

        Source: ME-HPT Sec. IV-D: "only one way at a time".
        """
    @one_way_at_a_time.setter
    def one_way_at_a_time(self, value: bool) -> None: ...
    @property
    def chunk_bytes(self) -> list[int]:
        """Chunk sizes, smallest first.

        Unit: bytes. Default: [8192, 1048576, 8388608, 67108864].

        Source: ME-HPT Sec. V-B.
        """
    @chunk_bytes.setter
    def chunk_bytes(self, value: list[int]) -> None: ...
    @property
    def fixed_chunk_bytes(self) -> int:
        """The chunk size of tables whose chunk sizes do not change.

        Unit: bytes. From 4096 to 1073741824. Default: 1048576.

        Source: ME-HPT Fig. 15: ME-HPT 1MB.
        """
    @fixed_chunk_bytes.setter
    def fixed_chunk_bytes(self, value: int | str) -> None: ...
    @property
    def l2p_entries(self) -> int:
        """Entries of the L2P table for each way and page size.

        Unit: entries. From 1 to 1024. Default: 32.

        Source: ME-HPT Table III.
        """
    @l2p_entries.setter
    def l2p_entries(self, value: int | str) -> None: ...
    @property
    def l2p_latency(self) -> int:
        """Cycles of a shift, an access of the L2P table and a mask. A walk pays the part that exceeds the
        latency of the walk caches; the kernel pays all of it for each slot that an insertion displaces.

        Unit: cycles. From 0 to 10000. Default: 4.

        Source: ME-HPT Table III, Sec. V-D.
        """
    @l2p_latency.setter
    def l2p_latency(self, value: int | str) -> None: ...
    @property
    def l2p_entry_switch(self) -> int:
        """Cycles of a context switch to save or restore one L2P entry in use.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: our choice: a load and a store of a cached word.
        """
    @l2p_entry_switch.setter
    def l2p_entry_switch(self, value: int | str) -> None: ...

class Lvm(Group):
    """Settings of learned page tables.

    Source: Learned Virtual Memory, MICRO 2025.
    """
    @property
    def x1(self) -> int:
        """Weight of the index's depth in the cost model.

        Unit: count. From 0 to 10000. Default: 10.

        Source: LVM Sec. 5.1.
        """
    @x1.setter
    def x1(self, value: int | str) -> None: ...
    @property
    def x2(self) -> int:
        """Weight of the index's bytes.

        Unit: count. From 0 to 10000. Default: 5.

        Source: LVM Sec. 5.1.
        """
    @x2.setter
    def x2(self, value: int | str) -> None: ...
    @property
    def x3(self) -> int:
        """Weight of collisions times the accesses of each.

        Unit: count. From 0 to 10000. Default: 200.

        Source: LVM Sec. 5.1.
        """
    @x3.setter
    def x3(self, value: int | str) -> None: ...
    @property
    def gap_permille(self) -> int:
        """Slots of a gapped table for each thousand pages (`ga_scale`).

        Unit: count. From 1000 to 1900. Default: 1300.

        Source: LVM Sec. 5.1: 1.3.
        """
    @gap_permille.setter
    def gap_permille(self, value: int | str) -> None: ...
    @property
    def max_extra(self) -> int:
        """Lines that a search may read beyond the predicted one (`C_err`).

        Unit: count. From 1 to 3. Default: 3.

        Source: LVM Sec. 4.3.3; 3 is our choice.
        """
    @max_extra.setter
    def max_extra(self, value: int | str) -> None: ...
    @property
    def insertion_pages(self) -> int:
        """Least growth of a segment in 4 KiB pages (the minimum insertion distance).

        Unit: pages. From 512 to 1073741824. Default: 16384.

        Source: LVM Sec. 5.1: 64 MB.
        """
    @insertion_pages.setter
    def insertion_pages(self, value: int | str) -> None: ...
    @property
    def plan_ahead(self) -> int:
        """Pages of an announced area for which the index makes room ahead of time, for each mapped page of the
        area (plus the minimum insertion distance); 0 makes room only for mapped pages.

        Unit: pages. From 0 to 1073741824. Default: 64.

        Source: LVM Sec. 4.3.4: page tables are built ahead of time; how far is our choice.
        """
    @plan_ahead.setter
    def plan_ahead(self, value: int | str) -> None: ...
    @property
    def segment_gap_pages(self) -> int:
        """Unmapped 4 KiB pages that separate two segments.

        Unit: pages. From 512 to 1073741824. Default: 16384.

        Source: our choice: 64 MiB, beyond which an insertion is not near the edge.
        """
    @segment_gap_pages.setter
    def segment_gap_pages(self, value: int | str) -> None: ...
    @property
    def divide_by_page_size(self) -> bool:
        """Whether segments are also divided where the page size changes, if the cost model prefers that. Without
        it, segments are for address-space randomisation alone, and an even division separates the sizes.

        Default: True.

        Source: LVM Sec. 5.2 has segments for ASLR alone; true is our choice, nearer to Table 2's index sizes.
        """
    @divide_by_page_size.setter
    def divide_by_page_size(self, value: bool) -> None: ...
    @property
    def max_table_bytes(self) -> int:
        """The most contiguous bytes of a gapped table.

        Unit: bytes. From 4096 to 1099511627776. Default: 1099511627776.

        Source: our choice: as the allocator permits; LVM Sec. 7.3 limits it to 256 KiB.
        """
    @max_table_bytes.setter
    def max_table_bytes(self, value: int | str) -> None: ...
    @property
    def max_level_bytes(self) -> int:
        """The most bytes of a node's children.

        Unit: bytes. From 1048576 to 1073741824. Default: 4194304.

        Source: our choice: bounds the index of any address space.
        """
    @max_level_bytes.setter
    def max_level_bytes(self, value: int | str) -> None: ...
    @property
    def lwc_entries(self) -> int:
        """Entries of the LVM walk cache, fully associative; 0 for no such cache.

        Unit: entries. From 0 to 256. Default: 16.

        Source: LVM Table 1.
        """
    @lwc_entries.setter
    def lwc_entries(self, value: int | str) -> None: ...
    @property
    def lwc_latency(self) -> int:
        """Cycles of a look-up in it.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: LVM Sec. 7.4: 2 cycles for look-up and calculation together; one for each is our choice.
        """
    @lwc_latency.setter
    def lwc_latency(self, value: int | str) -> None: ...
    @property
    def evaluation_latency(self) -> int:
        """Cycles of a model's calculation: a multiplication and an addition.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: LVM Sec. 7.4: 2 cycles for look-up and calculation together; one for each is our choice.
        """
    @evaluation_latency.setter
    def evaluation_latency(self, value: int | str) -> None: ...

class Rmm(Group):
    """Settings of redundant memory mappings.

    Source: Karakostas et al., Redundant Memory Mappings, ISCA 2015.
    """
    @property
    def entries(self) -> int:
        """Entries of the range TLB.

        Unit: entries. From 1 to 4096. Default: 32.

        Source: RMM Sec. 4.1 and 8.1 (32).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of a look-up, in parallel with the L2 TLB.

        Unit: cycles. From 0 to 10000. Default: 7.

        Source: RMM Sec. 4.1 (about 7, as the L2 TLB).
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def mru_pointer(self) -> bool:
        """Whether a pointer to the most recently used range is tried before all ranges are searched. It saves
        energy, not time.

        Default: True.

        Source: RMM Sec. 4.1, Optimization.
        """
    @mru_pointer.setter
    def mru_pointer(self, value: bool) -> None: ...
    @property
    def curve(self) -> bool:
        """Whether the range TLB also counts the hits that tables of 1 to 128 entries would have had
        (`lookaside.curve`).

        Default: False.

        Source: RMM Fig. 7.
        """
    @curve.setter
    def curve(self, value: bool) -> None: ...
    @property
    def threshold(self) -> int:
        """The fewest pages of a range, and of a request placed eagerly.

        Unit: count. From 2 to 1048576. Default: 8.

        Source: RMM Sec. 5.1 (8).
        """
    @threshold.setter
    def threshold(self, value: int | str) -> None: ...
    @property
    def eager_bits(self) -> bool:
        """Whether pages of ranges are accessed and dirty from the start.

        Default: True.

        Source: RMM Sec. 6, Accessed & Dirty bits.
        """
    @eager_bits.setter
    def eager_bits(self, value: bool) -> None: ...
    @property
    def enable_above_bytes(self) -> int:
        """The hardware uses ranges once this much memory is mapped; 0 for always.

        Unit: bytes. From 0 to 144115188075855872. Default: 0.

        Source: RMM Sec. 6, TLB friendly workloads.
        """
    @enable_above_bytes.setter
    def enable_above_bytes(self, value: int | str) -> None: ...
    @property
    def fragmentation_limit(self) -> float:
        """Highest unusable free space index at which requests are placed eagerly.

        Unit: ratio. From 0.0 to 1.0. Default: 0.5.

        Source: RMM Fig. 5 names a threshold and no value: our choice.
        """
    @fragmentation_limit.setter
    def fragmentation_limit(self, value: float) -> None: ...
    @property
    def fragmentation_order(self) -> int:
        """Order of the blocks for that index; at most the order of the largest block.

        Unit: count. From 0 to 29. Default: 9.

        Source: our choice: 2 MiB.
        """
    @fragmentation_order.setter
    def fragmentation_order(self, value: int | str) -> None: ...
    @property
    def reserved_bytes(self) -> int:
        """Contiguous memory that is set aside at boot, before memory is fragmented, and given to eager requests
        in order until it is used up. Rounded down to pages of 2 MiB; 0 for none.

        Unit: bytes. From 0 to 1099511627776. Default: 0.

        Source: Utopia Sec. 7 gives RMM 1 GiB from the get-go; RMM has none.
        """
    @reserved_bytes.setter
    def reserved_bytes(self, value: int | str) -> None: ...
    @property
    def join_blocks(self) -> bool:
        """Whether to prefer a block contiguous with the previous one.

        Default: False.

        Source: RMM Sec. 5.2, the first optimization, not in its prototype.
        """
    @join_blocks.setter
    def join_blocks(self, value: bool) -> None: ...
    @property
    def cut_blocks(self) -> bool:
        """Whether a request that is not a power of two is cut from a larger block, whose rest is freed.

        Default: False.

        Source: RMM Sec. 5.2, the second optimization, not in its prototype.
        """
    @cut_blocks.setter
    def cut_blocks(self, value: bool) -> None: ...

class DirectSegment(Group):
    """Settings of direct segments.

    Source: Basu et al., Efficient Virtual Memory for Big Memory Servers, ISCA 2013.
    """
    @property
    def latency(self) -> int:
        """Cycles of the comparison, counted from the L1 TLB miss.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: Basu et al., ISCA 2013: with the L1 TLB; one cycle more is our choice.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def threshold(self) -> int:
        """The fewest pages of the segment.

        Unit: count. From 2 to 1048576. Default: 8.

        Source: RMM Sec. 5.1 (8).
        """
    @threshold.setter
    def threshold(self, value: int | str) -> None: ...
    @property
    def eager_bits(self) -> bool:
        """Whether pages of the segment are accessed and dirty from the start.

        Default: True.

        Source: RMM Sec. 6, Accessed & Dirty bits.
        """
    @eager_bits.setter
    def eager_bits(self, value: bool) -> None: ...
    @property
    def enable_above_bytes(self) -> int:
        """The operating system sets the registers once this much memory is mapped; 0 for always.

        Unit: bytes. From 0 to 144115188075855872. Default: 0.

        Source: RMM Sec. 6, TLB friendly workloads.
        """
    @enable_above_bytes.setter
    def enable_above_bytes(self, value: int | str) -> None: ...

class ClusteredPageTable(Group):
    """Settings of the clustered page table.

    Source: Talluri, Hill and Khalidi, A New Page Table for 64-bit Address Spaces, SOSP 1995.
    """
    @property
    def block_pages(self) -> int:
        """Consecutive pages whose entries one node holds: a power of two, 1 to 256.

        Unit: pages. From 1 to 256. Default: 16.

        Source: Talluri et al., SOSP 1995: sixteen.
        """
    @block_pages.setter
    def block_pages(self, value: int | str) -> None: ...
    @property
    def initial_buckets(self) -> int:
        """Buckets of an empty table, for each page size: a power of two, 512 (4 KiB) to 134217728 (1 GiB).

        Unit: count. From 512 to 134217728. Default: 512.

        Source: our choice: a frame.
        """
    @initial_buckets.setter
    def initial_buckets(self, value: int | str) -> None: ...
    @property
    def load_limit(self) -> float:
        """Nodes for each bucket above which the number of buckets doubles: 0.1 to 16.

        Unit: ratio. From 0.1 to 16.0. Default: 1.0.

        Source: our choice: the bucket's first node is mostly the one wanted.
        """
    @load_limit.setter
    def load_limit(self, value: float) -> None: ...
    @property
    def hash_latency(self) -> int:
        """Cycles that the hash function takes at the start of a walk.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: ME-HPT Table III.
        """
    @hash_latency.setter
    def hash_latency(self, value: int | str) -> None: ...

class ClusteredTlb(Group):
    """Settings of the clustered TLB.

    Source: Pham et al., Increasing TLB Reach by Exploiting Clustering, HPCA 2014.
    """
    @property
    def entries(self) -> int:
        """Entries, fully associative.

        Unit: entries. From 1 to 65536. Default: 512.

        Source: RMM Sec. 8.1 (512).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of a look-up, in parallel with the L2 TLB.

        Unit: cycles. From 0 to 10000. Default: 7.

        Source: RMM Sec. 4.1 (about 7, as the L2 TLB).
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...

class PomTlb(Group):
    """Settings of the part-of-memory TLB.

    Source: Ryoo et al., Rethinking TLB Designs in Virtualized Environments, ISCA 2017.
    """
    @property
    def entries(self) -> int:
        """Entries.

        Unit: entries. From 4 to 67108864. Default: 65536.

        Source: Utopia Table 1 (64K).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Its associativity.

        Unit: ways. From 4 to 16. Default: 8.

        Source: Utopia Table 1 (8).
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Replacement policy within a set.

        One of lru, tree-plru, srrip, drrip, random. Default: drrip.

        Source: Utopia Table 1 (DRRIP).
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...

class Utopia(Group):
    """Settings of Utopia.

    Source: Kanellopoulos et al., Utopia, MICRO 2023.
    """
    @property
    def segments(self) -> list[str]:
        """The RestSegs, one to eight: size, page size and ways of each, such as `512MiB/4KiB/16`.

        Unit: size/page/ways. Default: ['512MiB/4KiB/16', '512MiB/2MiB/16'].

        Source: Utopia Table 1.
        """
    @segments.setter
    def segments(self, value: list[str]) -> None: ...
    @property
    def hash(self) -> Literal["modulo", "prime-displacement", "xor", "mersenne"]:
        """How page numbers are mapped to sets.

        One of modulo, prime-displacement, xor, mersenne. Default: modulo.

        Source: Utopia Sec. 5.2 (modulo).
        """
    @hash.setter
    def hash(self, value: Literal["modulo", "prime-displacement", "xor", "mersenne"]) -> None: ...
    @property
    def replacement(self) -> Literal["lru", "tree-plru", "srrip", "drrip", "random"]:
        """Replacement policy within a set.

        One of lru, tree-plru, srrip, drrip, random. Default: drrip.

        Source: Utopia Table 1 (DRRIP).
        """
    @replacement.setter
    def replacement(self, value: Literal["lru", "tree-plru", "srrip", "drrip", "random"]) -> None: ...
    @property
    def free_way(self) -> Literal["scattered", "first"]:
        """Which free way of its set a page takes.

        One of scattered, first. Default: scattered.

        Source: our choice: scattered; Utopia Sec. 5.6 has any free way.
        """
    @free_way.setter
    def free_way(self, value: Literal["scattered", "first"]) -> None: ...
    @property
    def frame_order(self) -> Literal["set-major", "way-major"]:
        """Where the ways of a RestSeg lie in its memory.

        One of set-major, way-major. Default: set-major.

        Source: Utopia Sec. 5.2 (set-major: base + set * ways + way).
        """
    @frame_order.setter
    def frame_order(self, value: Literal["set-major", "way-major"]) -> None: ...
    @property
    def fault_allocation(self) -> bool:
        """Whether page faults allocate in RestSegs.

        Default: True.

        Source: Utopia Sec. 5.5.
        """
    @fault_allocation.setter
    def fault_allocation(self, value: bool) -> None: ...
    @property
    def fault_eviction(self) -> bool:
        """Whether a page fault whose set is full evicts a page of the set to the FlexSeg. If not, the faulting
        page goes to the FlexSeg, and only migrations evict.

        Default: True.

        Source: Utopia Sec. 5.6 (a full set evicts).
        """
    @fault_eviction.setter
    def fault_eviction(self, value: bool) -> None: ...
    @property
    def migration(self) -> bool:
        """Whether pages with frequent and costly walks migrate into RestSegs.

        Default: True.

        Source: Utopia Sec. 5.5.
        """
    @migration.setter
    def migration(self, value: bool) -> None: ...
    @property
    def largest_migration(self) -> int:
        """The largest pages that migrate. Accesses to a page wait while it is copied, 512 times as long for 2
        MiB as for 4 KiB.

        Unit: bytes. From 4096 to 1073741824. Default: 4096.

        Source: our choice: Sec. 5.5 names no limit, but copies of 2 MiB are not the negligible cost of Sec.
        8.4.
        """
    @largest_migration.setter
    def largest_migration(self, value: int | str) -> None: ...
    @property
    def frequency_threshold(self) -> int:
        """Walks after which a page migrates, if they were costly enough; 1 to 7.

        Unit: count. From 1 to 7. Default: 7.

        Source: our choice: the counter's maximum; the paper has a register, no number.
        """
    @frequency_threshold.setter
    def frequency_threshold(self, value: int | str) -> None: ...
    @property
    def cost_threshold(self) -> int:
        """Loads from DRAM by a page's walks after which it migrates, if it is walked often enough; 0 to 15.

        Unit: count. From 0 to 15. Default: 15.

        Source: our choice: the counter's maximum; the paper has a register, no number.
        """
    @cost_threshold.setter
    def cost_threshold(self, value: int | str) -> None: ...
    @property
    def restrictive_only(self) -> bool:
        """Whether there is no FlexSeg: pages that do not fit into a RestSeg are swapped out.

        Default: False.

        Source: Utopia Fig. 6.
        """
    @restrictive_only.setter
    def restrictive_only(self, value: bool) -> None: ...
    @property
    def fill_l2(self) -> bool:
        """Whether translations found in a RestSeg also fill the L2 TLB.

        Default: True.

        Source: our choice: it fills both levels, as any other.
        """
    @fill_l2.setter
    def fill_l2(self, value: bool) -> None: ...
    @property
    def sf_cache_bytes(self) -> int:
        """The cache of set filters; 0 for no such cache.

        Unit: bytes. From 0 to 16384. Default: 2048.

        Source: Utopia Table 1.
        """
    @sf_cache_bytes.setter
    def sf_cache_bytes(self, value: int | str) -> None: ...
    @property
    def tar_cache_bytes(self) -> int:
        """The cache of tag arrays; 0 for no such cache.

        Unit: bytes. From 0 to 16384. Default: 2048.

        Source: Utopia Table 1.
        """
    @tar_cache_bytes.setter
    def tar_cache_bytes(self, value: int | str) -> None: ...
    @property
    def perfect_walks(self) -> bool:
        """Whether RestSeg walks load nothing and take no time: the bound of what their caches could give.

        Default: False.

        Source: our choice: off; a bound, not the paper's hardware.
        """
    @perfect_walks.setter
    def perfect_walks(self, value: bool) -> None: ...
    @property
    def cache_latency(self) -> int:
        """Cycles of a look-up in either cache.

        Unit: cycles. From 0 to 10000. Default: 2.

        Source: Utopia Table 1.
        """
    @cache_latency.setter
    def cache_latency(self, value: int | str) -> None: ...

class Revelator(Group):
    """Settings of Revelator.

    Source: Kanellopoulos et al., Revelator, 2025.
    """
    @property
    def tiers(self) -> int:
        """Hash functions, tried in order: 1 to 8.

        Unit: count. From 1 to 8. Default: 6.

        Source: Revelator Table 1 (6).
        """
    @tiers.setter
    def tiers(self, value: int | str) -> None: ...
    @property
    def taken(self) -> float:
        """Share of all frames that hashing treats as allocated although they are free: emulates higher memory
        pressure.

        Unit: ratio. From 0.0 to 1.0. Default: 0.0.

        Source: Revelator Sec. 6.3 (memory pressure).
        """
    @taken.setter
    def taken(self, value: float) -> None: ...
    @property
    def hashable(self) -> float:
        """Share of pages that hashing may place; the others go wherever the buddy allocator has room.

        Unit: ratio. From 0.0 to 1.0. Default: 1.0.

        Source: Revelator Sec. 6.3 (0.7 to 0.8 at low, 0.1 to 0.2 at high pressure).
        """
    @hashable.setter
    def hashable(self, value: float) -> None: ...
    @property
    def hashable_nodes(self) -> float:
        """Share of last-level table nodes that hashing may place.

        Unit: ratio. From 0.0 to 1.0. Default: 1.0.

        Source: Revelator Sec. 5.2 (likelier than pages) without a number; Fig. 15 suggests 0.47 at high
        pressure.
        """
    @hashable_nodes.setter
    def hashable_nodes(self, value: float) -> None: ...
    @property
    def data(self) -> bool:
        """Whether data lines are predicted.

        Default: True.

        Source: Revelator Sec. 5.3.
        """
    @data.setter
    def data(self, value: bool) -> None: ...
    @property
    def table(self) -> bool:
        """Whether last-level table lines are predicted, and its nodes placed by hash; only for radix tables.

        Default: True.

        Source: Revelator Sec. 5.2.
        """
    @table.setter
    def table(self, value: bool) -> None: ...
    @property
    def nested(self) -> bool:
        """Whether, in a virtual machine, lines of the hypervisor's table are predicted too; only for radix
        tables.

        Default: False.

        Source: ours: Revelator Sec. 7.3 leaves it open.
        """
    @nested.setter
    def nested(self, value: bool) -> None: ...
    @property
    def filter(self) -> Literal["adaptive", "none", "perfect"]:
        """The degree filter: which candidates are not fetched.

        One of adaptive, none, perfect. Default: adaptive.

        Source: Revelator Sec. 5.3.2, Fig. 16.
        """
    @filter.setter
    def filter(self, value: Literal["adaptive", "none", "perfect"]) -> None: ...
    @property
    def wrong_data_cost(self) -> float:
        """What a wrong data line costs other accesses while buses are idle: the adaptive filter fetches a
        candidate if it expects to save more.

        Unit: cycles. From 0.0 to 100000.0. Default: 45.0.

        Source: our choice: measured, 43 (BFS, DLRM 46) to 99 (GUPS, whose buses are busy) on the paper's
        machine; Revelator Sec. 5.3.2 has no number.
        """
    @wrong_data_cost.setter
    def wrong_data_cost(self, value: float) -> None: ...
    @property
    def wrong_entry_cost(self) -> float:
        """What a wrong line of the last-level table costs other accesses while buses are idle.

        Unit: cycles. From 0.0 to 100000.0. Default: 65.0.

        Source: our choice: with 45, BC fetches two lines of the table for each miss, and loses 7% by it;
        Revelator Sec. 5.3.2 has no number.
        """
    @wrong_entry_cost.setter
    def wrong_entry_cost(self, value: float) -> None: ...
    @property
    def line_latency(self) -> float:
        """The most that the adaptive filter expects a right data line to save: its latency from main memory.

        Unit: cycles. From 0.0 to 100000.0. Default: 150.0.

        Source: our choice: the path through the caches and a row miss of DDR4-2400 at 2.9 GHz, about 150.
        """
    @line_latency.setter
    def line_latency(self, value: float) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles from the L2 TLB miss to the issue of the candidates.

        Unit: cycles. From 0 to 100. Default: 1.

        Source: our choice: a hash in one cycle.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def confine(self) -> bool:
        """Whether only frames of the process are fetched.

        Default: False.

        Source: ours: the paper does not confine.
        """
    @confine.setter
    def confine(self, value: bool) -> None: ...
    @property
    def confine_latency(self) -> int:
        """Cycles to check the owner of a frame in confined speculation.

        Unit: cycles. From 0 to 100. Default: 4.

        Source: our choice.
        """
    @confine_latency.setter
    def confine_latency(self, value: int | str) -> None: ...

class SpecTlb(Group):
    """Settings of the SpecTLB.

    Source: Barr et al., SpecTLB, ISCA 2011.
    """
    @property
    def entries(self) -> int:
        """Entries.

        Unit: entries. From 1 to 1048576. Default: 64.

        Source: Revelator Sec. 6.3 (64; Large-SpecTLB 1024).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity.

        Unit: ways. From 1 to 64. Default: 4.

        Source: Revelator Table 1 (4).
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles of a look-up.

        Unit: cycles. From 0 to 100. Default: 4.

        Source: Revelator Table 1 (4).
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...

class CaPaging(Group):
    """Settings of contiguity-aware paging.

    Source: Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020.
    """
    @property
    def cluster_order(self) -> int:
        """The order of the clusters that the contiguity map has; at most that of the allocator's largest block.

        Unit: count. From 9 to 29. Default: 10.

        Source: MAX_ORDER of the authors' kernel: blocks of order 10, 4 MiB.
        """
    @cluster_order.setter
    def cluster_order(self, value: int | str) -> None: ...
    @property
    def sub_vmas(self) -> int:
        """The most offsets of a VMA; then the oldest is replaced.

        Unit: count. From 1 to 4096. Default: 64.

        Source: SUB_VMA_TOTAL in the authors' kernel (64).
        """
    @sub_vmas.setter
    def sub_vmas(self, value: int | str) -> None: ...
    @property
    def replace_base(self) -> bool:
        """Whether the rest of a VMA is placed again if the frame for a base page is taken, not only for a huge
        page.

        Default: True.

        Source: our choice: false in the authors' kernel, which is meant for huge pages.
        """
    @replace_base.setter
    def replace_base(self, value: bool) -> None: ...

class Spot(Group):
    """Settings of SpOT.

    Source: Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020.
    """
    @property
    def entries(self) -> int:
        """Entries of the prediction table.

        Unit: entries. From 1 to 65536. Default: 32.

        Source: SpOT (32), not verified in its text.
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity.

        Unit: ways. From 1 to 64. Default: 4.

        Source: SpOT (4), not verified in its text.
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def latency(self) -> int:
        """Cycles from the L2 TLB miss to the predicted address.

        Unit: cycles. From 0 to 100. Default: 1.

        Source: our choice: a subtraction.
        """
    @latency.setter
    def latency(self, value: int | str) -> None: ...
    @property
    def confidence(self) -> int:
        """The confidence, of 0 to 3, from which on an entry predicts. New entries have 1.

        Unit: count. From 0 to 3. Default: 2.

        Source: SpOT: a 2-bit counter that predicts above 1.
        """
    @confidence.setter
    def confidence(self, value: int | str) -> None: ...
    @property
    def keep_confident(self) -> bool:
        """Whether an entry with confidence is never replaced: a new one waits until one of its set is wrong
        often enough.

        Default: True.

        Source: a public implementation, which cites page 521 of the paper.
        """
    @keep_confident.setter
    def keep_confident(self, value: bool) -> None: ...
    @property
    def marked_only(self) -> bool:
        """Whether the table gets only translations with the contiguity bit.

        Default: True.

        Source: SpOT: the contiguity bit filters.
        """
    @marked_only.setter
    def marked_only(self, value: bool) -> None: ...
    @property
    def contiguity_pages(self) -> int:
        """Pages with the same offset from which on the operating system sets the contiguity bit.

        Unit: count. From 1 to 1073741824. Default: 32.

        Source: SpOT (32), not verified in its text.
        """
    @contiguity_pages.setter
    def contiguity_pages(self, value: int | str) -> None: ...
    @property
    def flush_cycles(self) -> int:
        """Cycles of a pipeline flush after a wrong prediction.

        Unit: cycles. From 0 to 1000. Default: 20.

        Source: SpOT (20), not verified in its text.
        """
    @flush_cycles.setter
    def flush_cycles(self, value: int | str) -> None: ...

class TlbSequential(Group):
    """Settings of sequential TLB prefetching.

    Source: Vanderwiel and Lilja, ACM Computing Surveys 2000; Kandiraju and Sivasubramaniam, ISCA 2002 (SP).
    """
    @property
    def degree(self) -> int:
        """Pages that are prefetched after the one that missed.

        Unit: 4 KiB pages. From 1 to 8. Default: 1.

        Source: Kandiraju and Sivasubramaniam, ISCA 2002 (1).
        """
    @degree.setter
    def degree(self, value: int | str) -> None: ...
    @property
    def both_sides(self) -> bool:
        """As many pages before it are prefetched too.

        Default: False.

        Source: Vavouliotis et al., ISCA 2021: STP has both sides, SP has not.
        """
    @both_sides.setter
    def both_sides(self, value: bool) -> None: ...

class TlbStride(Group):
    """Settings of stride TLB prefetching.

    Source: Kandiraju and Sivasubramaniam, ISCA 2002 (ASP); Vavouliotis et al., ISCA 2021 (MASP).
    """
    @property
    def entries(self) -> int:
        """Rows of the table, one for each instruction.

        Unit: entries. From 1 to 65536. Default: 64.

        Source: Vavouliotis et al., ISCA 2021 (64).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity of the table; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: Vavouliotis et al., ISCA 2021 (4).
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def confirmations(self) -> int:
        """How often in a row a stride must be found again before it is used.

        Unit: count. From 0 to 15. Default: 2.

        Source: Vavouliotis et al., ISCA 2021 (2).
        """
    @confirmations.setter
    def confirmations(self, value: int | str) -> None: ...
    @property
    def modified(self) -> bool:
        """Does not wait for confirmations, and uses the stride before the new one too.

        Default: False.

        Source: Vavouliotis et al., ISCA 2021 (MASP).
        """
    @modified.setter
    def modified(self, value: bool) -> None: ...

class TlbDistance(Group):
    """Settings of distance TLB prefetching.

    Source: Kandiraju and Sivasubramaniam, Going the Distance for TLB Prefetching, ISCA 2002.
    """
    @property
    def entries(self) -> int:
        """Rows of the table, one for each distance.

        Unit: entries. From 1 to 65536. Default: 64.

        Source: Vavouliotis et al., ISCA 2021 (64).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity of the table; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: Vavouliotis et al., ISCA 2021 (4).
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...
    @property
    def slots(self) -> int:
        """Distances that a row holds.

        Unit: count. From 1 to 8. Default: 2.

        Source: Kandiraju and Sivasubramaniam, ISCA 2002 (2).
        """
    @slots.setter
    def slots(self, value: int | str) -> None: ...

class TlbAgile(Group):
    """Settings of agile TLB prefetching.

    Source: Vavouliotis et al., Exploiting Page Table Locality for Agile TLB Prefetching, ISCA 2021 (ATP,
    SBFP).
    """
    @property
    def free(self) -> Literal["sampled", "all", "none"]:
        """Which translations of a walk's line go into the prefetch queue.

        One of sampled, all, none. Default: sampled.

        Source: Vavouliotis et al., ISCA 2021: SBFP is "sampled".
        """
    @free.setter
    def free(self, value: Literal["sampled", "all", "none"]) -> None: ...
    @property
    def free_threshold(self) -> int:
        """Uses of a free distance above which its translations go into the prefetch queue.

        Unit: count. From 0 to 1023. Default: 100.

        Source: Vavouliotis et al., ISCA 2021 (100, of 10-bit counters).
        """
    @free_threshold.setter
    def free_threshold(self, value: int | str) -> None: ...
    @property
    def sampler_entries(self) -> int:
        """Pages that the sampler watches.

        Unit: entries. From 1 to 4096. Default: 64.

        Source: Vavouliotis et al., ISCA 2021 (64).
        """
    @sampler_entries.setter
    def sampler_entries(self, value: int | str) -> None: ...
    @property
    def fake_entries(self) -> int:
        """Pages of each fake prefetch queue.

        Unit: entries. From 1 to 4096. Default: 16.

        Source: Vavouliotis et al., ISCA 2021 (16).
        """
    @fake_entries.setter
    def fake_entries(self, value: int | str) -> None: ...
    @property
    def entries(self) -> int:
        """Rows of the table of strides, one for each instruction.

        Unit: entries. From 1 to 65536. Default: 64.

        Source: Vavouliotis et al., ISCA 2021 (64).
        """
    @entries.setter
    def entries(self, value: int | str) -> None: ...
    @property
    def ways(self) -> int:
        """Associativity of that table; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: Vavouliotis et al., ISCA 2021 (4).
        """
    @ways.setter
    def ways(self, value: int | str) -> None: ...

class Midgard(Group):
    """Settings of Midgard.

    Source: Gupta et al., Rebooting Virtual Memory with Midgard, ISCA 2021.
    """
    @property
    def l1_entries(self) -> int:
        """Pages of the first-level VMA look-aside buffer, looked up in parallel with the L1 cache's index.

        Unit: entries. From 1 to 4096. Default: 64.

        Source: Midgard Sec. 5 (as the L1 TLB).
        """
    @l1_entries.setter
    def l1_entries(self, value: int | str) -> None: ...
    @property
    def l1_ways(self) -> int:
        """Its associativity; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: Midgard Sec. 5.
        """
    @l1_ways.setter
    def l1_ways(self, value: int | str) -> None: ...
    @property
    def l2_entries(self) -> int:
        """Areas of the second-level VMA look-aside buffer, fully associative.

        Unit: entries. From 1 to 4096. Default: 16.

        Source: Midgard Sec. 5 (16).
        """
    @l2_entries.setter
    def l2_entries(self, value: int | str) -> None: ...
    @property
    def l2_latency(self) -> int:
        """Cycles of a look-up in the second-level buffer.

        Unit: cycles. From 0 to 10000. Default: 3.

        Source: Midgard Sec. 5 (3).
        """
    @l2_latency.setter
    def l2_latency(self, value: int | str) -> None: ...
    @property
    def mlb_entries(self) -> int:
        """Pages of a look-aside buffer after the last-level cache (the MLB); 0 for no such buffer.

        Unit: entries. From 0 to 1048576. Default: 0.

        Source: our choice: none; Midgard Sec. 5 has it as an option.
        """
    @mlb_entries.setter
    def mlb_entries(self, value: int | str) -> None: ...
    @property
    def walker_nearer(self) -> int:
        """Cycles that a load of the page walker saves because the walker stands at the last-level cache: what is
        left of that cache's latency, which is a round trip from the core, is the look-up. 0 for a walker at
        the core.

        Unit: cycles. From 0 to 10000. Default: 20.

        Source: Midgard Sec. 4: the walker is at the last level; LVM Table 1's L2 latency, the way to it.
        """
    @walker_nearer.setter
    def walker_nearer(self, value: int | str) -> None: ...

class VirtualizationNested(Group):
    """The hardware of the second stage (`mode = "nested"`)."""
    @property
    def tlb_entries(self) -> int:
        """Entries of the nested TLB, which holds guest-physical to host-physical translations; 0 omits it.

        Unit: entries. From 0 to 1048576. Default: 64.

        Source: our choice: Revelator Sec. 5.5 names no size.
        """
    @tlb_entries.setter
    def tlb_entries(self, value: int | str) -> None: ...
    @property
    def tlb_ways(self) -> int:
        """Associativity of the nested TLB; 0 is fully associative.

        Unit: ways. From 0 to 256. Default: 4.

        Source: our choice.
        """
    @tlb_ways.setter
    def tlb_ways(self, value: int | str) -> None: ...
    @property
    def tlb_latency(self) -> int:
        """Cycles of a nested TLB look-up.

        Unit: cycles. From 0 to 10000. Default: 1.

        Source: our choice.
        """
    @tlb_latency.setter
    def tlb_latency(self, value: int | str) -> None: ...

class Virtualization(Group):
    """Virtual machines."""
    @property
    def mode(self) -> Literal["none", "nested", "ideal-shadow"]:
        """Whether programs run in a virtual machine, and how its memory is translated.

        One of none, nested, ideal-shadow. Default: none.

        Source: Revelator Sec. 7.3.
        """
    @mode.setter
    def mode(self, value: Literal["none", "nested", "ideal-shadow"]) -> None: ...
    @property
    def hypervisor_page(self) -> Literal["4KiB", "2MiB"]:
        """The size of the pages with which the hypervisor backs guest memory (`mode = "nested"`).

        One of 4KiB, 2MiB. Default: 4KiB.

        Source: Revelator Sec. 7.3.
        """
    @hypervisor_page.setter
    def hypervisor_page(self, value: Literal["4KiB", "2MiB"]) -> None: ...
    @property
    def hypervisor_table(self) -> Literal["radix", "flattened", "asap", "dmt", "ideal", "hashed", "ecpt", "me-hpt", "lvm", "clustered-page-table"]:
        """The hypervisor's page table (`mode = "nested"`); the guest's is `design.page_table`. Both use the
        settings of their designs.

        One of radix, flattened, asap, dmt, ideal, hashed, ecpt, me-hpt, lvm, clustered-page-table. Default:
        radix.

        Source: Revelator Sec. 7.3 (radix).
        """
    @hypervisor_table.setter
    def hypervisor_table(self, value: Literal["radix", "flattened", "asap", "dmt", "ideal", "hashed", "ecpt", "me-hpt", "lvm", "clustered-page-table"]) -> None: ...
    @property
    def nested(self) -> VirtualizationNested:
        """The hardware of the second stage (`mode = "nested"`)."""

class Run(Group):
    """The run."""
    @property
    def seed(self) -> int:
        """The seed of all random choices: the program's data, fragmentation, hash functions, replacement.

        Unit: seed. Default: 1.
        """
    @seed.setter
    def seed(self, value: int | str) -> None: ...
    @property
    def instructions(self) -> int:
        """Measured instructions on each core, after warm-up; a program that ends earlier ends the run.

        Unit: instructions. From 1 to 1125899906842624. Default: 20000000.

        Source: our choice: minutes of the papers' 300M to 1G in seconds.
        """
    @instructions.setter
    def instructions(self, value: int | str) -> None: ...
    @property
    def warmup(self) -> int:
        """Instructions that each core runs in the program's region of interest before counting begins (with
        `run.spread_threads`, the program's cores on average, those without a thread included).

        Unit: instructions. From 0 to 1125899906842624. Default: 2000000.

        Source: our choice.
        """
    @warmup.setter
    def warmup(self, value: int | str) -> None: ...
    @property
    def warmup_mode(self) -> Literal["timing", "functional"]:
        """Whether time is simulated in the warm-up. Without, TLBs, walk caches, caches, prefetchers, branch
        predictors and page tables are warmed all the same. For the kernel's daemons an instruction then takes
        a cycle, so khugepaged has promoted fewer pages when the measured region begins.

        One of timing, functional. Default: timing.
        """
    @warmup_mode.setter
    def warmup_mode(self, value: Literal["timing", "functional"]) -> None: ...
    @property
    def warmup_timing(self) -> int:
        """With `run.warmup_mode = "functional"`: the last instructions of the warm-up, in which time is
        simulated nevertheless. They fill the core's window, main memory's queues and banks, and what a design
        learns from latencies.

        Unit: instructions. From 0 to 1125899906842624. Default: 100000.

        Source: our choice: several times what main memory's queues and a speculator's running means of 64
        walks need.
        """
    @warmup_timing.setter
    def warmup_timing(self, value: int | str) -> None: ...
    @property
    def interval(self) -> int:
        """Instructions, all cores together, after which the result's `series` has a point of every counter: what
        the counters have added since the last one. 0 for no series. After 4096 points, intervals are twice as
        long.

        Unit: instructions. From 0 to 1125899906842624. Default: 0.

        Source: our choice.
        """
    @interval.setter
    def interval(self, value: int | str) -> None: ...
    @property
    def sampling(self) -> Literal["none", "windows", "phases"]:
        """Which parts of the measured region are measured. Counters are then those of the windows, or with
        phases, estimates for the region, and every number has a 95% interval.

        One of none, windows, phases. Default: none.

        Source: windows: SMARTS (Wunderlich et al., ISCA 2003), Sec. 3; phases: SimPoint (Sherwood et al.,
        ASPLOS 2002), with pages instead of basic blocks.
        """
    @sampling.setter
    def sampling(self, value: Literal["none", "windows", "phases"]) -> None: ...
    @property
    def sample_period(self) -> int:
        """With `run.sampling`: instructions of each core from the begin of a window to the begin of the next
        one; with phases, for each interval that is measured.

        Unit: instructions. From 10000 to 1125899906842624. Default: 10000000.

        Source: our choice: 100 windows in 1G instructions.
        """
    @sample_period.setter
    def sample_period(self, value: int | str) -> None: ...
    @property
    def sample_window(self) -> int:
        """With `run.sampling`: measured instructions of each core in a window, or the length of an interval. A
        window ends within some hundred instructions after it.

        Unit: instructions. From 1000 to 1125899906842624. Default: 100000.

        Source: our choice: long beside what is under way at its ends; SMARTS has 1000 without main memory's
        queues.
        """
    @sample_window.setter
    def sample_window(self, value: int | str) -> None: ...
    @property
    def sample_timing(self) -> int:
        """With `run.sampling`: instructions of each core before a window with time, which are not measured. They
        fill the core's window, main memory's queues and banks, and what a design learns from latencies.

        Unit: instructions. From 0 to 1125899906842624. Default: 50000.

        Source: our choice: half of `run.warmup_timing`; SMARTS has 2000 to 4000 without main memory's queues.
        """
    @sample_timing.setter
    def sample_timing(self, value: int | str) -> None: ...
    @property
    def sample_warming(self) -> int:
        """With `run.sampling`: instructions of each core before these that warm everything without time: TLBs,
        walk caches, caches, prefetchers, branch predictors. What comes before, from the last window's end on,
        is skipped: pages are mapped, and nothing else happens. 0 skips nothing.

        Unit: instructions. From 0 to 1125899906842624. Default: 0.

        Source: our choice: warming that never ends has no bias (SMARTS Sec. 4.3).
        """
    @sample_warming.setter
    def sample_warming(self, value: int | str) -> None: ...
    @property
    def sample_phases(self) -> int:
        """With `run.sampling = "phases"`: the most phases that are told apart. There are fewer if the program
        has fewer, or if a phase had less than three measured intervals in the mean.

        Unit: count. From 1 to 100. Default: 10.

        Source: SimPoint (Sherwood et al., ASPLOS 2002), Sec. 4: 1 to 10.
        """
    @sample_phases.setter
    def sample_phases(self, value: int | str) -> None: ...
    @property
    def profile(self) -> int:
        """Rows of the result's `profile`, which says which mappings of the program and which of its instructions
        cause page walks and page faults: the mappings and the instructions with the most cycles of both. 0
        for no profile.

        Unit: count. From 0 to 10000. Default: 0.

        Source: our choice.
        """
    @profile.setter
    def profile(self, value: int | str) -> None: ...
    @property
    def populate(self) -> bool:
        """Whether pages that a program touches before its region of interest are mapped when the region begins.
        Otherwise memory is as after boot, and the region takes the faults itself.

        Default: True.

        Source: our choice; Utopia's runs begin without (Fig. 19: RestSegs fill up in a few epochs).
        """
    @populate.setter
    def populate(self, value: bool) -> None: ...
    @property
    def advise_huge(self) -> bool:
        """Whether programs request huge pages (`MADV_HUGEPAGE`) wherever they map 2 MiB or more, as glibc does
        with its tunable `glibc.malloc.hugetlb=1`. `kernel.page_size_policy = "madvise"` needs these requests;
        captured programs contain their own.

        Default: False.

        Source: our choice: programs as they come do not ask.
        """
    @advise_huge.setter
    def advise_huge(self, value: bool) -> None: ...
    @property
    def mode(self) -> Literal["timing", "functional"]:
        """Whether time is simulated.

        One of timing, functional. Default: timing.
        """
    @mode.setter
    def mode(self, value: Literal["timing", "functional"]) -> None: ...
    @property
    def oracle(self) -> bool:
        """Whether every translation is compared with the kernel's page state.

        Default: True.
        """
    @oracle.setter
    def oracle(self, value: bool) -> None: ...
    @property
    def census(self) -> bool:
        """Whether to measure, at the end of the run, how regular and how contiguous the address spaces are, and
        how often their pages would collide in a hash table: the measures that begin with `census_`. It takes
        a second or two for each 10 GiB mapped.

        Default: False.

        Source: LVM Sec. 3.1, 7.3; RMM Table 2.
        """
    @census.setter
    def census(self, value: bool) -> None: ...
    @property
    def time_slice(self) -> int:
        """Time slice of round-robin multiprogramming: the instructions after which a core with several programs
        switches context to its next program.

        Unit: instructions. From 1000 to 1125899906842624. Default: 1000000.

        Source: our choice: about a millisecond, between Linux's least and usual slices.
        """
    @time_slice.setter
    def time_slice(self, value: int | str) -> None: ...
    @property
    def spread_threads(self) -> bool:
        """Whether the threads of one program run on several cores: thread `t` on core `t` modulo `machine.cores`
        (in a mix, each program has an equal share of the cores). Otherwise each core runs its own program,
        with its threads in the order of the program's stream.

        Default: False.
        """
    @spread_threads.setter
    def spread_threads(self, value: bool) -> None: ...

class Spec(Group):
    """Everything that defines a run, except its program. The defaults are the machine of LVM Table 1 with a
    radix table.
    """
    @property
    def machine(self) -> Machine:
        """The machine as a whole."""
    @property
    def core(self) -> Core:
        """Each core."""
    @property
    def l1i(self) -> L1i:
        """First-level instruction cache of each core."""
    @property
    def l1d(self) -> L1d:
        """First-level data cache of each core."""
    @property
    def l2(self) -> L2:
        """Second-level cache of each core."""
    @property
    def llc(self) -> Llc:
        """Last-level cache, shared by all cores; `bytes` and `mshrs` are for each core."""
    @property
    def dram(self) -> Dram:
        """Main memory's channels, banks and timings."""
    @property
    def nodes(self) -> Nodes:
        """Memory nodes: sockets' memories and slow tiers."""
    @property
    def mmu(self) -> Mmu:
        """TLBs and page walkers of each core."""
    @property
    def memory(self) -> Memory:
        """Main memory's size and state, as the operating system sees them."""
    @property
    def kernel(self) -> Kernel:
        """The operating system: page sizes, promotion, swap."""
    @property
    def costs(self) -> Costs:
        """The cost of the operating system's work."""
    @property
    def energy(self) -> Energy:
        """Energies of events, for an estimate of energy."""
    @property
    def design(self) -> Design:
        """The translation design: the contents of each socket."""
    @property
    def flattened(self) -> Flattened:
        """Settings of flattened page tables.

        Source: Park et al., Every Walk's a Hit, ASPLOS 2022.
        """
    @property
    def asap(self) -> Asap:
        """Settings of ASAP.

        Source: Margaritov et al., Prefetched Address Translation, MICRO 2019.
        """
    @property
    def dmt(self) -> Dmt:
        """Settings of DMT.

        Source: Zhang et al., Direct Memory Translation for Virtualized Clouds, ASPLOS 2024.
        """
    @property
    def hashed(self) -> Hashed:
        """Settings of the hashed page table.

        Source: Huck and Hays, ISCA 1993; Yaniv and Tsafrir, SIGMETRICS 2016.
        """
    @property
    def ecpt(self) -> Ecpt:
        """Settings of elastic cuckoo page tables.

        Source: Skarlatos et al., Elastic Cuckoo Page Tables, ASPLOS 2020.
        """
    @property
    def me_hpt(self) -> MeHpt:
        """Settings of memory-efficient hashed page tables.

        Source: Stojkovic et al., Memory-Efficient Hashed Page Tables, HPCA 2023.
        """
    @property
    def lvm(self) -> Lvm:
        """Settings of learned page tables.

        Source: Learned Virtual Memory, MICRO 2025.
        """
    @property
    def rmm(self) -> Rmm:
        """Settings of redundant memory mappings.

        Source: Karakostas et al., Redundant Memory Mappings, ISCA 2015.
        """
    @property
    def direct_segment(self) -> DirectSegment:
        """Settings of direct segments.

        Source: Basu et al., Efficient Virtual Memory for Big Memory Servers, ISCA 2013.
        """
    @property
    def clustered_page_table(self) -> ClusteredPageTable:
        """Settings of the clustered page table.

        Source: Talluri, Hill and Khalidi, A New Page Table for 64-bit Address Spaces, SOSP 1995.
        """
    @property
    def clustered_tlb(self) -> ClusteredTlb:
        """Settings of the clustered TLB.

        Source: Pham et al., Increasing TLB Reach by Exploiting Clustering, HPCA 2014.
        """
    @property
    def pom_tlb(self) -> PomTlb:
        """Settings of the part-of-memory TLB.

        Source: Ryoo et al., Rethinking TLB Designs in Virtualized Environments, ISCA 2017.
        """
    @property
    def utopia(self) -> Utopia:
        """Settings of Utopia.

        Source: Kanellopoulos et al., Utopia, MICRO 2023.
        """
    @property
    def revelator(self) -> Revelator:
        """Settings of Revelator.

        Source: Kanellopoulos et al., Revelator, 2025.
        """
    @property
    def spec_tlb(self) -> SpecTlb:
        """Settings of the SpecTLB.

        Source: Barr et al., SpecTLB, ISCA 2011.
        """
    @property
    def ca_paging(self) -> CaPaging:
        """Settings of contiguity-aware paging.

        Source: Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020.
        """
    @property
    def spot(self) -> Spot:
        """Settings of SpOT.

        Source: Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020.
        """
    @property
    def tlb_sequential(self) -> TlbSequential:
        """Settings of sequential TLB prefetching.

        Source: Vanderwiel and Lilja, ACM Computing Surveys 2000; Kandiraju and Sivasubramaniam, ISCA 2002
        (SP).
        """
    @property
    def tlb_stride(self) -> TlbStride:
        """Settings of stride TLB prefetching.

        Source: Kandiraju and Sivasubramaniam, ISCA 2002 (ASP); Vavouliotis et al., ISCA 2021 (MASP).
        """
    @property
    def tlb_distance(self) -> TlbDistance:
        """Settings of distance TLB prefetching.

        Source: Kandiraju and Sivasubramaniam, Going the Distance for TLB Prefetching, ISCA 2002.
        """
    @property
    def tlb_agile(self) -> TlbAgile:
        """Settings of agile TLB prefetching.

        Source: Vavouliotis et al., Exploiting Page Table Locality for Agile TLB Prefetching, ISCA 2021 (ATP,
        SBFP).
        """
    @property
    def midgard(self) -> Midgard:
        """Settings of Midgard.

        Source: Gupta et al., Rebooting Virtual Memory with Midgard, ISCA 2021.
        """
    @property
    def virtualization(self) -> Virtualization:
        """Virtual machines."""
    @property
    def run(self) -> Run:
        """The run."""
