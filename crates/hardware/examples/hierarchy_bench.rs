//! Sim-host nanoseconds per access of the hierarchy, by the level that serves it: `cargo run --release -p
//! ambulator-hardware --example hierarchy_bench [filter [accesses]]`.

use ambulator_base::{AccessKind, Cycle, PhysAddr, Random, Record, RecordKind, VirtAddr};
use ambulator_hardware::{
    CoreSpec, CoreWindow, DramModel, EntryLevel, Event, EventKind, Hierarchy, HierarchySpec, PrefetcherKind,
    Replacement, Served, SetArray,
};
use std::time::Instant;

const MEMORY: u64 = 128 << 30;

fn hierarchy(timing: bool) -> Hierarchy {
    Hierarchy::new(&HierarchySpec::default(), 1, 2000, MEMORY, timing)
}

/// Runs `step` with an index and the time; `step` returns when it is done. Prints the mean sim-host time.
fn measure(name: &str, n: u64, mut step: impl FnMut(u64, Cycle) -> Cycle) {
    if std::env::args().nth(1).is_some_and(|filter| !name.contains(&filter)) {
        return;
    }
    let mut best = f64::INFINITY;
    let (mut now, mut done) = (0, 0);
    for _ in 0..3 {
        let start = Instant::now();
        for i in 0..n {
            // About as many accesses in flight as a core has: time advances by a sixteenth of the latency.
            let ready = step(i, Cycle(now));
            done += ready.0 - now;
            now += (ready.0 - now) / 16 + 2;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / n as f64);
    }
    println!("{name:<44} {best:>8.2} ns   {:>8.1} cycles simulated", done as f64 / (3 * n) as f64);
}

/// A cheap pseudo-random line below `bound` (a power of two).
fn scatter(i: u64, bound: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) & (bound - 1)
}

fn main() {
    let pc = VirtAddr(0x40_0000);
    let n = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    let mut h = hierarchy(true);
    measure("L1 hits", 4 * n, |i, now| h.access(0, PhysAddr(i * 8 % 16384), AccessKind::Load, pc, now).ready);
    let mut h = hierarchy(true);
    measure("L2 hits (512 KiB)", n, |i, now| {
        h.access(0, PhysAddr(64 * scatter(i, 8192)), AccessKind::Load, pc, now).ready
    });
    let mut h = Hierarchy::new(&HierarchySpec::default(), 4, 2000, MEMORY, true);
    measure("LLC hits (4 MiB of 8 MiB)", n, |i, now| {
        h.access(0, PhysAddr(64 * scatter(i, 65536)), AccessKind::Load, pc, now).ready
    });
    for (name, kind, cores) in [
        ("random loads, 8 GiB", AccessKind::Load, 1),
        ("random stores, 8 GiB", AccessKind::Store, 1),
        ("random stores, 8 GiB, 16 cores' LLC", AccessKind::Store, 16),
    ] {
        let mut h = Hierarchy::new(&HierarchySpec::default(), cores, 2000, MEMORY, true);
        measure(name, n, |i, now| h.access(0, PhysAddr(64 * scatter(i, 1 << 27)), kind, pc, now).ready);
    }
    for policy in [Replacement::TreePlru, Replacement::Srrip, Replacement::Drrip, Replacement::Random] {
        let mut spec = HierarchySpec::default();
        spec.llc.replacement = policy;
        let mut h = Hierarchy::new(&spec, 1, 2000, MEMORY, true);
        measure(&format!("random loads, LLC {policy:?}"), n, |i, now| {
            h.access(0, PhysAddr(64 * scatter(i, 1 << 27)), AccessKind::Load, pc, now).ready
        });
    }
    let mut spec = HierarchySpec::default();
    spec.dram.model = DramModel::Fixed;
    let mut h = Hierarchy::new(&spec, 1, 2000, MEMORY, true);
    measure("random loads, fixed DRAM", n, |i, now| {
        h.access(0, PhysAddr(64 * scatter(i, 1 << 27)), AccessKind::Load, pc, now).ready
    });
    let mut h = hierarchy(true);
    measure("random walker loads into L2", n, |i, now| {
        h.access_table(0, PhysAddr(64 * scatter(i, 1 << 27)), false, EntryLevel::L2, now).ready
    });
    let mut h = hierarchy(true);
    measure("streaming loads, 8 bytes", 4 * n, |i, now| {
        h.access(0, PhysAddr(i * 8 % MEMORY), AccessKind::Load, pc, now).ready
    });
    let mut spec = HierarchySpec::default();
    spec.l1d.prefetcher = PrefetcherKind::IpStride;
    spec.l2.prefetcher = PrefetcherKind::Stream;
    let mut h = Hierarchy::new(&spec, 1, 2000, MEMORY, true);
    measure("streaming loads with prefetchers", 4 * n, |i, now| {
        h.access(0, PhysAddr(i * 8 % MEMORY), AccessKind::Load, pc, now).ready
    });
    for kind in [AccessKind::Load, AccessKind::Store] {
        let mut h = hierarchy(false);
        measure(&format!("functional, random {kind:?}s, 8 GiB"), n, |i, now| {
            h.access(0, PhysAddr(64 * scatter(i, 1 << 27)), kind, pc, now);
            now
        });
    }
    let mut h = hierarchy(false);
    measure("functional, L1 hits", 4 * n, |i, now| {
        h.access(0, PhysAddr(i * 8 % 16384), AccessKind::Load, pc, now);
        now
    });

    let mut core = CoreWindow::new(&CoreSpec::default());
    let record = Record { gap: 4, kind: RecordKind::Load, size: 8, ..Record::default() };
    measure("core window, load that hits", 4 * n, |i, now| {
        run(&mut core, &Record { va: VirtAddr(i * 8), ..record }, |_, asked| asked.after(1));
        now
    });
    let mut core = CoreWindow::new(&CoreSpec::default());
    measure("core window, load and store that miss", n, |i, now| {
        let load = Record { va: VirtAddr(scatter(i, 1 << 27) * 64), ..record };
        run(&mut core, &load, |_, asked| asked.after(200));
        run(&mut core, &Record { kind: RecordKind::Store, dep1: 1, ..load }, |_, asked| asked.after(1));
        now
    });
    let mut core = CoreWindow::new(&CoreSpec::default());
    let mut h = hierarchy(true);
    measure("window and hierarchy, GUPS load and store", n, |i, now| {
        let load = Record { va: VirtAddr(scatter(i, 1 << 27) * 64), ..record };
        for record in [load, Record { kind: RecordKind::Store, dep1: 1, ..load }] {
            run(&mut core, &record, |record, asked| {
                let kind = if record.kind == RecordKind::Store { AccessKind::Store } else { AccessKind::Load };
                h.access(0, PhysAddr(record.va.0), kind, pc, asked).ready
            });
        }
        now
    });

    let mut random = Random::new(1);
    for (name, sets, ways, keys) in [
        ("SetArray look-up hit, 16 x 4", 16, 4, 48),
        ("SetArray look-up hit, 128 x 12", 128, 12, 1024),
        ("SetArray look-up hit, 1 x 64", 1, 64, 60),
        ("SetArray look-up miss and insert, 128 x 12", 128, 12, 1 << 40),
    ] {
        let mut array = SetArray::new(sets, ways, Replacement::Lru);
        measure(name, n, |_, now| {
            let key = random.below(keys);
            let set = key as usize % sets;
            if array.lookup(set, key).is_none() {
                array.insert(set, key, key);
            }
            now
        });
    }
}

/// Dispatches a record, after the events before it; `access` returns when a line arrives.
fn run(core: &mut CoreWindow, record: &Record, mut access: impl FnMut(&Record, Cycle) -> Cycle) {
    let mut carry_out = |core: &mut CoreWindow, event: Event| {
        let mut flight = core.in_flight(event.place);
        if event.kind == EventKind::Issue {
            (flight.issued, flight.translated) = (Cycle(event.at), Cycle(event.at));
            if !core.locate(event.place, &flight) {
                return;
            }
        }
        core.complete(event.place, access(&flight.record, Cycle(event.at)), Served::Dram);
    };
    while core.plan(record).is_none_or(|dispatched| core.next_event() <= dispatched.0) {
        let Some(event) = core.take_event() else { return };
        carry_out(core, event);
    }
    if let Some(event) = core.dispatch(record) {
        carry_out(core, event);
    }
}
