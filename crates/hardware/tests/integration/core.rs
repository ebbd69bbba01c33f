//! The core's window: micro-programs with a known answer.

use ambulator_base::{AccessKind, Counters, Cycle, PhysAddr, Random, Record, RecordKind, VirtAddr};
use ambulator_hardware::{
    AddressMapping, AwaitedWalk, CoreCounters, CoreSpec, CoreWindow, DramModel, DramSpec, Event, EventKind, Hierarchy,
    HierarchySpec, InFlight, PredictorKind, Served, StoreRequest, WalkInFlight,
};

fn spec() -> CoreSpec {
    CoreSpec { width: 4, rob: 64, load_queue: 1000, store_queue: 1000, ..CoreSpec::default() }
}

fn load(i: u64) -> Record {
    Record { va: VirtAddr(i * 64), kind: RecordKind::Load, size: 8, ..Record::default() }
}

fn store(i: u64) -> Record {
    Record { kind: RecordKind::Store, ..load(i) }
}

/// When the events of the record that was dispatched last happened, and when its value was ready.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    issued: u64,
    asked: u64,
    value: u64,
}

/// Dispatches a record and carries out all events. Its address is translated at `translated`, or when it
/// issues if that is later, and its line arrives `latency` cycles after it asks for it.
fn carry_out(core: &mut CoreWindow, record: &Record, translated: u64, latency: u64) -> Times {
    let mut times = Times::default();
    let mut event = core.dispatch(record).or_else(|| core.take_event());
    while let Some(Event { at, place, kind }) = event {
        let mut flight = core.in_flight(place);
        let mut asked = Some(at);
        if kind == EventKind::Issue {
            (flight.issued, flight.translated) = (Cycle(at), Cycle(translated.max(at)));
            times.issued = at;
            asked = core.locate(place, &flight).then_some(flight.translated.0);
        }
        if let Some(asked) = asked {
            times.asked = asked;
            times.value = core.complete(place, Cycle(asked + latency), Served::Dram).0;
        }
        event = core.take_event();
    }
    times
}

/// Runs a record whose line arrives `latency` cycles after it asks for it; returns the cycle of its issue.
fn step(core: &mut CoreWindow, record: &Record, latency: u64) -> u64 {
    carry_out(core, record, 0, latency).issued
}

/// Within a few cycles (filling and draining of the pipeline).
fn about(found: u64, expected: u64) {
    assert!(found.abs_diff(expected) <= 4 + expected / 50, "{found} cycles, expected about {expected}");
}

#[test]
fn instructions_without_memory_flow_at_full_width() {
    for width in [1, 2, 4, 8] {
        let mut core = CoreWindow::new(&CoreSpec { width, ..spec() });
        for i in 0..100 {
            step(&mut core, &Record { gap: 79, ..load(i) }, 1);
        }
        assert_eq!(core.instructions(), 8000);
        about(core.retired_cycle().0, 8000 / u64::from(width));
    }
}

#[test]
fn a_pointer_chase_serialises_and_independent_misses_overlap() {
    let run = |dep1| {
        let mut core = CoreWindow::new(&CoreSpec { rob: 1000, ..spec() });
        (0..200).for_each(|i| {
            step(&mut core, &Record { dep1, ..load(i) }, 150);
        });
        core.retired_cycle().0
    };
    about(run(1), 200 * 150);
    about(run(2), 100 * 150);
    about(run(0), 200 / 4 + 150);
}

#[test]
fn the_reorder_buffer_bounds_the_misses_in_flight() {
    // A miss of 1000 cycles every 16 instructions, 64 entries: four misses at a time.
    let mut core = CoreWindow::new(&spec());
    (0..400).for_each(|i| {
        step(&mut core, &Record { gap: 15, ..load(i) }, 1000);
    });
    about(core.retired_cycle().0, 400 / 4 * 1000);
    let counters = core.counters();
    assert!(counters.stall_rob > 90_000, "{counters:?}");
    assert_eq!((counters.stall_load_queue, counters.stall_store_queue), (0, 0));
    // A gap longer than the reorder buffer prevents overlap.
    let mut core = CoreWindow::new(&spec());
    (0..100).for_each(|i| {
        step(&mut core, &Record { gap: 99, ..load(i) }, 1000);
    });
    // The 64 instructions after each miss dispatch during it.
    about(core.retired_cycle().0, 100 * 1000 + 100 * 36 / 4);
    // After so many of them, the reorder buffer bounds the misses in flight as before.
    let before = core.retired_cycle().0;
    (0..400).for_each(|i| {
        step(&mut core, &Record { gap: 15, ..load(i) }, 1000);
    });
    about(core.retired_cycle().0 - before, 400 / 4 * 1000);
}

#[test]
fn load_and_store_queues_bound_loads_and_stores() {
    let mut core = CoreWindow::new(&CoreSpec { rob: 1000, load_queue: 10, ..spec() });
    (0..400).for_each(|i| {
        step(&mut core, &load(i), 500);
    });
    about(core.retired_cycle().0, 400 / 10 * 500);
    assert!(core.counters().stall_load_queue > 19_000);
    // Stores commit at once but occupy the store queue until their line is owned.
    let mut core = CoreWindow::new(&CoreSpec { rob: 1000, store_queue: 10, ..spec() });
    (0..400).for_each(|i| {
        step(&mut core, &store(i), 500);
    });
    about(core.retired_cycle().0 + 500, 400 / 10 * 500);
    assert!(core.counters().stall_store_queue > 18_000);
    assert_eq!(core.counters().stall_rob, 0);
}

#[test]
fn stores_do_not_delay_commit() {
    let mut core = CoreWindow::new(&spec());
    (0..100).for_each(|i| {
        step(&mut core, &store(i), 10_000);
    });
    assert!(core.retired_cycle().0 < 100);
}

const REQUESTS: [StoreRequest; 2] = [StoreRequest::Commit, StoreRequest::Early];

/// A store whose address is translated at `translated`, and whose line arrives 100 cycles after it asks.
/// Returns the cycles in which it dispatched and asked.
fn translated_store(core: &mut CoreWindow, i: u64, translated: u64) -> (u64, u64) {
    let times = carry_out(core, &store(i), translated, 100);
    (times.issued, times.asked)
}

#[test]
fn a_store_behind_a_long_load_asks_for_its_line_when_the_load_commits() {
    let asks = REQUESTS.map(|store_request| {
        let mut core = CoreWindow::new(&CoreSpec { store_request, ..spec() });
        step(&mut core, &load(0), 500);
        // The second commits with the first, the third waits for its translation, the fourth for the third.
        [0, 0, 700, 20].map(|translated| translated_store(&mut core, 1, translated).1)
    });
    assert_eq!(asks, [[500, 500, 700, 700], [0, 0, 700, 20]]);
}

#[test]
fn stores_commit_at_full_width() {
    for store_request in REQUESTS {
        let mut core = CoreWindow::new(&CoreSpec { store_request, ..spec() });
        for i in 0..400 {
            step(&mut core, &Record { gap: 7, ..store(i) }, 1);
        }
        about(core.retired_cycle().0, 400 * 8 / 4);
    }
}

#[test]
fn a_store_commits_when_its_walk_ends_also_if_that_is_later_than_was_said() {
    for (store_request, waited) in REQUESTS.into_iter().flat_map(|request| [(request, false), (request, true)]) {
        let mut core = CoreWindow::new(&CoreSpec { store_request, ..spec() });
        let Some(Event { at, place, .. }) = core.dispatch(&store(0)) else { panic!("it issues at once") };
        let walk = AwaitedWalk::new(&WalkInFlight {
            table: None,
            after: 0,
            on_walker: true,
            number: 1,
            others: false,
            waited,
        });
        let flight = InFlight { issued: Cycle(at), translated: Cycle(100), walk, ..core.in_flight(place) };
        assert!(!core.locate(place, &flight));
        if waited {
            // Nobody knows when it ends before it has a walker.
            assert_eq!(core.take_event(), None);
            core.translated_later(place, Cycle(70));
        }
        assert_eq!(core.take_event(), Some(Event { at: 100, place, kind: EventKind::Ask }));
        core.ask_later(place, Cycle(150));
        assert_eq!(core.take_event(), Some(Event { at: 150, place, kind: EventKind::Ask }));
        // Asking at commit, there is one more event.
        if !core.asks_now(place, Cycle(150)) {
            assert_eq!(core.take_event(), Some(Event { at: 150, place, kind: EventKind::Ask }));
            assert!(core.asks_now(place, Cycle(150)));
        }
        assert_eq!(core.complete(place, Cycle(900), Served::Dram), Cycle(at));
        assert_eq!(core.retired_cycle(), Cycle(150));
    }
}

#[test]
fn who_has_joined_a_walk_asks_after_all_others_of_its_cycle_and_commits_when_the_walk_ends() {
    for store_request in REQUESTS {
        let mut core = CoreWindow::new(&CoreSpec { store_request, ..spec() });
        let mut place = |record: Record| core.dispatch(&record).expect("it issues at once").place;
        let (joins, walks) = (place(store(0)), place(load(100)));
        let walk = WalkInFlight { table: None, after: 0, on_walker: true, number: 1, others: false, waited: false };
        let walk = AwaitedWalk::new(&walk);
        assert!(!core.locate_hit(joins, true, Cycle(1), PhysAddr(0), (Cycle(100), true)));
        let flight = InFlight { translated: Cycle(100), walk, ..core.in_flight(walks) };
        assert!(!core.locate(walks, &flight));
        // The walk is late.
        for told in [100, 150] {
            assert_eq!(core.take_event(), Some(Event { at: told, place: walks, kind: EventKind::Ask }));
            assert_eq!(core.take_event(), Some(Event { at: told, place: joins, kind: EventKind::Join }));
            if told == 100 {
                [walks, joins].iter().for_each(|place| core.ask_later(*place, Cycle(150)));
            }
        }
        assert_eq!(core.retired_cycle(), Cycle(0), "the store waits for the walk");
        core.asks_now(joins, Cycle(150));
        assert_eq!(core.retired_cycle(), Cycle(150));
    }
}

#[test]
fn a_full_store_queue_stalls_dispatch_until_the_line_of_its_oldest_store_arrives() {
    let dispatched = REQUESTS.map(|store_request| {
        let mut core = CoreWindow::new(&CoreSpec { store_queue: 2, store_request, ..spec() });
        step(&mut core, &load(0), 500);
        let dispatched = [1, 2, 3, 4].map(|i| translated_store(&mut core, i, 0).0);
        assert!(core.counters().stall_store_queue >= dispatched[3] - 2, "{:?}", core.counters());
        dispatched
    });
    // Stores leave one a cycle: after the load with their lines there, or 100 cycles later.
    assert_eq!(dispatched, [[0, 0, 600, 601], [0, 0, 501, 502]]);
}

#[test]
fn a_store_that_waits_for_its_line_forwards_its_value() {
    for (store_request, drained) in REQUESTS.into_iter().zip([600, 501]) {
        let mut core = CoreWindow::new(&CoreSpec { store_request, forward_latency: 4, ..spec() });
        step(&mut core, &load(0), 500);
        translated_store(&mut core, 5, 0);
        for (at, forwarded) in [(10, true), (drained - 1, true), (drained, false)] {
            core.stall_front(Cycle(at));
            let value = carry_out(&mut core, &load(5), 0, 50).value;
            assert_eq!(value - at, if forwarded { 4 } else { 50 }, "{store_request:?} at {at}");
        }
        assert_eq!(core.counters().forwards, 2);
    }
}

#[test]
fn dependences_refer_to_the_right_record() {
    let mut core = CoreWindow::new(&CoreSpec { rob: 1000, ..spec() });
    step(&mut core, &load(0), 700);
    step(&mut core, &load(1), 900);
    core.dispatch(&Record { kind: RecordKind::Fetch, ..Record::default() });
    assert_eq!(step(&mut core, &Record { dep1: 3, ..load(2) }, 1), 700);
    assert_eq!(step(&mut core, &Record { dep1: 3, dep2: 4, ..load(3) }, 1), 900);
    assert_eq!(step(&mut core, &Record { dep1: 2, ..load(3) }, 1), 701);
    assert!(core.counters().wait_dependences > 2000);
    // Far beyond the reorder buffer everything has committed.
    assert!(step(&mut core, &Record { dep1: u16::MAX, ..load(4) }, 1) < 10);
}

#[test]
fn mispredictions_stop_dispatch_until_the_branch_is_resolved() {
    let branches = 1000u64;
    let run = |predictor, deps: u16| {
        let mut core = CoreWindow::new(&CoreSpec { predictor, mispredict_penalty: 15, ..spec() });
        let mut random = 0x1234_5678_9abc_def1u64;
        for i in 0..branches {
            step(&mut core, &load(i), 30);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let kind = if random >> 63 == 0 { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
            core.dispatch(&Record { gap: 6, dep1: deps, kind, ..load(0) });
        }
        (core.retired_cycle().0, core.counters())
    };
    let (perfect, counters) = run(PredictorKind::Perfect, 0);
    assert_eq!((counters.branches, counters.mispredictions), (branches, 0));
    about(perfect, branches / 8 * 30); // the reorder buffer holds 8 rounds of 8 instructions
    let (free, counters) = run(PredictorKind::Gshare, 0);
    let wrong = counters.mispredictions;
    assert!((400..600).contains(&wrong), "outcomes are random, {wrong} of {branches} mispredicted");
    assert!(free > wrong * 16 && counters.stall_branch >= wrong * 15, "{free} cycles, {counters:?}");
    let (after_loads, _) = run(PredictorKind::Gshare, 1);
    assert!(after_loads > free + wrong * 25, "{after_loads} against {free}");
}

#[test]
fn serialising_events_drain_the_window_and_cost_their_length() {
    let mut core = CoreWindow::new(&spec());
    step(&mut core, &load(0), 500);
    core.serialize(1000);
    let now = core.now().0;
    assert!((1500..1505).contains(&now), "{now}");
    assert!(step(&mut core, &load(1), 1) >= 1500);
    assert_eq!(core.counters().serializations, 1);
    assert!(core.counters().stall_serialize >= 1490);
    // A fault between dispatch and completion: the record completes after the fault.
    let Event { place, .. } = core.dispatch(&load(2)).expect("nothing else is pending");
    core.serialize(2000);
    let issued = core.now();
    let flight = InFlight { issued, translated: issued, ..core.in_flight(place) };
    assert!(core.locate(place, &flight));
    core.complete(place, issued.after(10), Served::L1);
    assert!(core.retired_cycle().0 >= issued.0 + 10 && issued.0 >= 3500);
}

#[test]
fn a_front_end_stall_delays_later_instructions() {
    let mut core = CoreWindow::new(&spec());
    step(&mut core, &load(0), 1);
    core.stall_front(Cycle(300));
    assert_eq!(core.now(), Cycle(300));
    assert_eq!(step(&mut core, &load(1), 1), 300);
    core.stall_front(Cycle(200));
    assert!(step(&mut core, &load(2), 1) <= 301);
    let stalled = core.counters().stall_front;
    assert!((298..=300).contains(&stalled), "{stalled}");
}

/// A load whose data arrive after `data` cycles, at an address that is verified after `verified` cycles; then
/// a load that depends on it, and one that does not. When each of them issues, and when all have committed.
fn verified_load(data: u64, verified: u64, flushes: bool) -> (u64, u64, u64) {
    let mut core = CoreWindow::new(&spec());
    let Event { place, at, .. } = core.dispatch(&load(0)).expect("nothing else is pending");
    let issued = Cycle(at);
    let flight = InFlight { issued, translated: issued, verified: Cycle(at + verified), ..core.in_flight(place) };
    if flushes {
        core.flush(Cycle(at + verified));
    }
    assert!(core.locate(place, &flight));
    core.complete(place, issued.after(data), Served::L1);
    let dependent = step(&mut core, &Record { dep1: 1, ..load(1) }, 1);
    let other = step(&mut core, &load(2), 1);
    (dependent - at, other - at, core.retired_cycle().0 - at)
}

#[test]
fn a_load_with_an_address_to_verify_gives_its_value_early_and_commits_late() {
    let (dependent, other, committed) = verified_load(10, 500, false);
    about(dependent, 10);
    assert!(other <= 12, "{other}");
    assert!(committed >= 500, "nothing commits before the walk has verified the address: {committed}");
    // Data that arrive after the walk: the same as without.
    let (dependent, _, committed) = verified_load(700, 500, false);
    about(dependent, 700);
    about(committed, 701);
    // A flush: what is younger dispatches after the walk.
    let (dependent, other, _) = verified_load(10, 500, true);
    assert!(dependent >= 500 && other >= 500, "{dependent}, {other}");
}

#[test]
fn a_load_takes_its_value_from_the_store_before_it() {
    let mut core = CoreWindow::new(&CoreSpec { forward_latency: 4, ..spec() });
    step(&mut core, &store(5), 400);
    let times = carry_out(&mut core, &load(5), 0, 400);
    assert_eq!(times.value, times.issued + 4);
    assert_eq!(core.counters().forwards, 1);
    // Another word of the line does not forward, nor does a store that has drained.
    step(&mut core, &Record { va: VirtAddr(5 * 64 + 8), ..load(5) }, 400);
    core.serialize(1000);
    step(&mut core, &load(5), 400);
    assert_eq!(core.counters().forwards, 1);
}

#[test]
fn the_gap_of_a_fetch_takes_dispatch_slots_like_that_of_a_load() {
    let fetch = |gap| Record { gap, kind: RecordKind::Fetch, ..Record::default() };
    let mut core = CoreWindow::new(&spec());
    core.dispatch(&fetch(400));
    assert_eq!(core.instructions(), 400);
    about(core.now().0, 100);
    step(&mut core, &load(0), 1);
    assert_eq!(core.instructions(), 401);
    about(core.retired_cycle().0, 100);
    // After a long load, no more of them dispatch than the reorder buffer has room for.
    let mut full = CoreWindow::new(&spec());
    step(&mut full, &load(0), 500);
    for _ in 0..10 {
        full.dispatch(&fetch(10));
    }
    about(full.now().0, 500 + (100 - u64::from(spec().rob)) / 4);
    // A fetch record without a gap takes no time.
    let before = full.retired_cycle();
    full.dispatch(&fetch(0));
    assert_eq!(full.retired_cycle(), before);
}

#[test]
fn counters_restart_and_time_continues() {
    let mut core = CoreWindow::new(&spec());
    (0..100).for_each(|i| {
        step(&mut core, &Record { gap: 9, ..load(i) }, 1);
    });
    let before = core.retired_cycle().0;
    core.reset_counters();
    (0..100).for_each(|i| {
        step(&mut core, &Record { gap: 9, ..load(i) }, 1);
    });
    let counters = core.counters();
    assert_eq!((counters.instructions, counters.loads), (1000, 100));
    assert_eq!(counters.cycles, core.retired_cycle().0 - before);
    about(counters.cycles, 250);
}

/// Carries out an event of a load whose virtual address is its physical one.
fn access(core: &mut CoreWindow, h: &mut Hierarchy, event: Event) {
    let flight = core.in_flight(event.place);
    let issued = Cycle(event.at);
    assert!(core.locate(event.place, &InFlight { issued, translated: issued, ..flight }));
    let done = h.access(0, PhysAddr(flight.record.va.0), AccessKind::Load, flight.record.pc, issued);
    core.complete(event.place, done.ready, done.served);
}

/// The window and the hierarchy together: misses overlap up to the MSHRs, whatever the window would allow.
#[test]
fn independent_misses_overlap_up_to_the_mshrs() {
    let run = |mshrs, dep1| {
        let mut spec = HierarchySpec {
            dram: DramSpec { model: DramModel::Fixed, fixed_ns: 72.0, ..DramSpec::default() },
            ..HierarchySpec::default()
        };
        spec.l1d.mshrs = mshrs;
        let mut h = Hierarchy::new(&spec, 1, 2000, 1 << 36, true);
        let mut core = CoreWindow::new(&CoreSpec { rob: 256, ..CoreSpec::default() });
        for i in 0..320 {
            let record = Record { dep1, ..load(i * 64) };
            while core.plan(&record).is_none_or(|dispatched| core.next_event() <= dispatched.0) {
                let event = core.take_event().expect("an event is pending");
                access(&mut core, &mut h, event);
            }
            if let Some(event) = core.dispatch(&record) {
                access(&mut core, &mut h, event);
            }
        }
        while let Some(event) = core.take_event() {
            access(&mut core, &mut h, event);
        }
        core.retired_cycle().0
    };
    about(run(16, 1), 320 * 200);
    about(run(16, 0), 320 / 16 * 200);
    about(run(4, 0), 320 / 4 * 200);
    about(run(1, 0), 320 * 200);
}

/// Loads that find no MSHR are sent first come, first served, and not before a line that is late has freed one.
#[test]
fn loads_wait_for_an_mshr_until_the_line_that_holds_it_has_come() {
    let mut spec = HierarchySpec {
        dram: DramSpec { channels: 1, t_refi_ns: 0.0, mapping: AddressMapping::RoRaBaChCo, ..DramSpec::default() },
        ..HierarchySpec::default()
    };
    spec.l1d.mshrs = 1;
    let mut h = Hierarchy::new(&spec, 2, 2000, 1 << 36, true);
    let mut core = CoreWindow::new(&CoreSpec::default());
    // Another core has opened a row. Its reads of that row come before the first load of another row of the bank.
    h.fetch(1, PhysAddr(0), false, Cycle(0));
    let dispatch = |core: &mut CoreWindow, line: u64| {
        let event = core.dispatch(&Record { va: VirtAddr(line), ..load(0) }).unwrap();
        let (at, issued) = (PhysAddr(line), Cycle(event.at + 1000));
        let flight = InFlight { issued, at, translated: issued, ..core.in_flight(event.place) };
        assert!(core.locate(event.place, &flight));
        (event.place, flight.of_one_page())
    };
    let ask =
        |h: &mut Hierarchy, at: PhysAddr, now: u64| h.try_access(0, at, AccessKind::Load, VirtAddr(0), Cycle(now));
    let row = 8192 * 4 * 8;
    let (_, first) = dispatch(&mut core, row);
    let told = ask(&mut h, first.at, 1000).unwrap().ready;
    for line in 1..8 {
        h.fetch(1, PhysAddr(64 * line), false, Cycle(990));
    }
    for line in [1 << 30, 2 << 30] {
        let (place, flight) = dispatch(&mut core, line);
        core.stall(place, flight, Cycle(1000), None, ask(&mut h, flight.at, 1000).unwrap_err());
    }
    assert!(
        h.is_in_first_level(0, first.at) && ask(&mut h, first.at.offset(8), 1001).is_ok(),
        "its line is on its way"
    );
    let came = h.arrival(0, first.at, false, told);
    assert!(came.0 > told.0 + 30, "told {}, and came at {}", told.0, came.0);
    // They ask at the told time, again when the line has come, and then one after the other.
    let mut sent = Vec::new();
    let mut asked = Vec::new();
    while let Some(event) = core.take_event() {
        if event.kind != EventKind::Admit {
            continue;
        }
        asked.push(event.at);
        while let Some(stalled) = core.first_stalled() {
            match ask(&mut h, stalled.flight.at, event.at) {
                Err(free) => {
                    core.stay_stalled(None, free);
                    break;
                }
                Ok(found) => {
                    sent.push((stalled.flight.at.0, event.at, found.ready.0));
                    core.admitted(stalled.flight.at, found, false);
                }
            }
        }
    }
    let [(second, at, ready), (third, later, _)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((second, third, asked.len()), (1 << 30, 2 << 30, 3), "{asked:?}");
    // MSHRs are counted by four cycles.
    assert!(
        asked[0].abs_diff(told.0) < 4 && at.abs_diff(came.0) < 4 && later.abs_diff(ready) < 4,
        "{asked:?} {sent:?}"
    );
    assert!(!core.has_stalled());
}

/// The sum of a cycle stack.
fn stack(counters: &CoreCounters) -> u64 {
    let parts = CoreCounters::DEFS.iter().zip(counters.values());
    parts.filter(|(def, _)| def.name.starts_with("stack_")).map(|(_, value)| value).sum()
}

#[test]
fn the_cycle_stack_says_what_the_oldest_instruction_waited_for() {
    let most = |part: u64, counters: &CoreCounters| {
        assert!(part * 20 > counters.cycles * 19, "{part} of {counters:?}");
        assert_eq!(stack(counters), counters.cycles, "{counters:?}");
    };
    // A pointer chase waits for memory, whatever else there is.
    let mut core = CoreWindow::new(&spec());
    (0..200).for_each(|i| {
        step(&mut core, &Record { dep1: 1, ..load(i) }, 300);
    });
    most(core.counters().stack_dram, &core.counters());
    // Independent misses do so too: the reorder buffer is full.
    let mut core = CoreWindow::new(&spec());
    (0..400).for_each(|i| {
        step(&mut core, &Record { gap: 15, ..load(i) }, 1000);
    });
    most(core.counters().stack_dram, &core.counters());
    // Of a miss and its translation, each gets its part.
    let mut core = CoreWindow::new(&spec());
    for i in 0..100 {
        let now = core.retired_cycle().0;
        carry_out(&mut core, &Record { dep1: 1, ..load(i) }, now + 200, 600);
    }
    let counters = core.counters();
    about(counters.stack_walk_joined, 100 * 200);
    about(counters.stack_dram, 100 * 600);
    assert_eq!(stack(&counters), counters.cycles);
    // A store queue full of stores that wait for their lines.
    let mut core = CoreWindow::new(&CoreSpec { rob: 1000, store_queue: 10, ..spec() });
    (0..400).for_each(|i| {
        step(&mut core, &store(i), 500);
    });
    most(core.counters().stack_stores, &core.counters());
    // The kernel, instruction fetch.
    let mut core = CoreWindow::new(&spec());
    (0..50).for_each(|_| core.serialize(1000));
    most(core.counters().stack_os, &core.counters());
    for i in 0..50 {
        core.stall_front(Cycle(core.now().0 + 500));
        step(&mut core, &load(i), 1);
    }
    about(core.counters().stack_front, 50 * 500);
    // Nothing of these.
    let mut core = CoreWindow::new(&spec());
    (0..100).for_each(|i| {
        step(&mut core, &Record { gap: 79, ..load(i) }, 1);
    });
    most(core.counters().stack_base, &core.counters());
}

/// Carries out an event, which takes a random time, and checks that it is not earlier than the last one.
fn carry_out_in_order(core: &mut CoreWindow, event: Event, random: &mut Random, last: &mut u64) {
    let Event { at, place, kind } = event;
    assert!(at >= *last, "{event:?} after {last}");
    *last = at;
    let mut flight = core.in_flight(place);
    let mut asks = kind == EventKind::Ask;
    if kind == EventKind::Issue {
        let translated = Cycle(at + [0, 7, 150][random.below(3) as usize]);
        (flight.issued, flight.translated) = (Cycle(at), translated);
        asks = core.locate(place, &flight);
    }
    if asks {
        let level = random.below(3) as usize;
        let served = [Served::L1, Served::Llc, Served::Dram][level];
        core.complete(place, Cycle(at + [4, 40, 400][level]), served);
    }
}

#[test]
fn events_and_dispatches_happen_in_the_order_of_their_times() {
    use RecordKind::{BranchTaken, Fetch, Load, Store};
    let mut random = Random::new(3);
    for store_request in REQUESTS {
        let spec = CoreSpec { store_request, rob: 48, load_queue: 9, store_queue: 6, ..spec() };
        let (mut core, mut last) = (CoreWindow::new(&spec), 0);
        for _ in 0..20_000 {
            let kind = [Load, Load, Store, BranchTaken, Fetch][random.below(5) as usize];
            let (dep1, dep2) = (random.below(12) as u16, random.below(30) as u16);
            let record = Record { kind, dep1, dep2, gap: random.below(9) as u32, ..load(random.below(12)) };
            while core.plan(&record).is_none_or(|dispatched| core.next_event() <= dispatched.0) {
                let event = core.take_event().expect("the record waits for an event");
                carry_out_in_order(&mut core, event, &mut random, &mut last);
            }
            if let Some(event) = core.dispatch(&record) {
                carry_out_in_order(&mut core, event, &mut random, &mut last);
            }
        }
        while let Some(event) = core.take_event() {
            carry_out_in_order(&mut core, event, &mut random, &mut last);
        }
        let counters = core.counters();
        assert_eq!(stack(&counters), counters.cycles, "{counters:?}");
        assert!(counters.loads > 7000 && counters.stores > 3500 && counters.forwards > 100, "{counters:?}");
        assert!(
            counters.cycles >= last && counters.stall_load_queue > 0 && counters.stall_store_queue > 0,
            "{counters:?}"
        );
    }
}
