//! The oracle finds corrupted tables and forgotten shootdowns.

use crate::spec::{SpecRequest, load};
use crate::{Machine, SharedStream, Stop};
use ambulator_base::{
    AccessKind, Batch, MapKind, ProgramIdentity, Protection, Record, RecordKind, RecordSource, SourceError, VirtAddr,
    VmEvent,
};

const CODE: VirtAddr = VirtAddr(0x40_0000);
const DATA: VirtAddr = VirtAddr(0x10_0000_0000);
/// Loads of the first page, and the instructions before each: enough for the walk of the previous load to
/// end.
const FIRST: u64 = 4;
const GAP: u32 = 4000;

/// Touches two pages, loads the first some times, and then (in a batch of its own) accesses the page `then`.
struct TwoPages {
    then: VirtAddr,
    kind: RecordKind,
    done: u32,
}

impl RecordSource for TwoPages {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity::default()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        self.done += 1;
        match self.done {
            1 => {
                let map = |start, len, protection, kind| VmEvent::Map { start, len, protection, kind };
                batch.push_event(map(CODE, 4096, Protection::READ_EXECUTE, MapKind::File));
                batch.push_event(map(DATA, 8192, Protection::READ_WRITE, MapKind::Anonymous));
                batch.push_event(VmEvent::Touch { start: CODE, len: 4096, write: false });
                batch.push_event(VmEvent::Touch { start: DATA, len: 8192, write: true });
                batch.push_event(VmEvent::RegionBegin);
                // From the second on, the MMU serves loads from its recent translation.
                for _ in 0..FIRST {
                    batch.records.push(Record { pc: CODE, va: DATA, size: 8, gap: GAP, ..Record::default() });
                }
            }
            2 => batch.records.push(Record {
                pc: CODE,
                va: self.then,
                size: 8,
                gap: GAP,
                kind: self.kind,
                ..Record::default()
            }),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs the first batch, applies `harm` to the machine, and runs the second.
fn harmed(design: &str, then: VirtAddr, harm: impl Fn(&mut Machine)) -> Result<bool, Stop> {
    harmed_before(RecordKind::Load, design, then, harm)
}

fn harmed_before(kind: RecordKind, design: &str, then: VirtAddr, harm: impl Fn(&mut Machine)) -> Result<bool, Stop> {
    let options = ["memory.bytes=64MiB", "run.warmup=0"].map(str::to_owned).to_vec();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    let spec = load(&request).expect("a spec").spec;
    let stream = SharedStream::new(Box::new(TwoPages { then, kind, done: 0 }), 1);
    let mut machine = Machine::new(&spec, vec![(stream, 0)]).expect("a machine");
    while machine.hw.cores[0].executed < FIRST * u64::from(GAP + 1) {
        machine.advance(1)?;
    }
    harm(&mut machine);
    machine.advance(100)
}

/// Points the leaf entry of the second data page at another frame.
fn redirect_second_page(machine: &mut Machine) {
    let process = machine.hw.cores[0].process;
    let second = DATA.offset(4096);
    let frame = machine.os.kernel().page_state(process, second).frame().0;
    // The table lies somewhere in the first megabytes: its entry is the only word with the frame's number.
    let entry = (0..(64 << 20) / 8)
        .map(|word| ambulator_base::PhysAddr(word * 8))
        .find(|at| {
            let value = machine.os.kernel().memory.read(*at);
            value & 1 == 1 && (value >> 12) & 0xff_ffff_ffff == frame
        })
        .expect("the entry is in memory");
    let value = machine.os.kernel().memory.read(entry);
    machine.os.kernel_mut().memory.write(entry, value ^ (1 << 14));
}

#[test]
fn an_intact_run_ends() {
    assert_eq!(harmed("radix", DATA.offset(4096), |_| {}), Ok(false));
}

#[test]
fn a_corrupted_entry_stops_the_run_and_the_error_lists_the_steps() {
    for design in ["radix", "ideal", "asap"] {
        let Err(Stop::Failed(message)) = harmed(design, DATA.offset(4096), redirect_second_page) else {
            panic!("{design}: the oracle found nothing");
        };
        assert!(message.contains("0x1000001000"), "{design}: the address: {message}");
        assert!(message.contains("the kernel has frame"), "{design}: the page state: {message}");
        assert!(
            message.contains("load of ") && message.contains("Sec.") && message.contains("ended with Mapped"),
            "{design}: the steps: {message}"
        );
    }
}

#[test]
fn a_guests_corrupted_entry_stops_the_run_and_the_error_lists_the_steps() {
    let Err(Stop::Failed(message)) = harmed("nested", DATA.offset(4096), redirect_second_page) else {
        panic!("the wrong frame was used")
    };
    assert!(message.contains("the kernel has frame"), "the page state: {message}");
    assert!(message.matches("at guest-physical 0x").count() > 0 && message.contains("ended with Mapped"), "{message}");
}

#[test]
fn a_forgotten_shootdown_is_found_at_the_next_use() {
    let failed = harmed("radix", DATA, |machine| {
        let process = machine.hw.cores[0].process;
        let gone = VmEvent::Unmap { start: DATA, len: 4096 };
        machine.os.kernel_mut().event(process, &gone).expect("an unmap");
        // The kernel's shootdown is lost.
        machine.os.kernel_mut().take_shootdowns(&mut Vec::new());
    });
    let Err(Stop::Failed(message)) = failed else { panic!("the stale entry was used") };
    assert!(message.contains("the kernel has no page there"), "{message}");
}

#[test]
fn recalled_translations_are_checked_like_all_others() {
    let recalls = |machine: &Machine| machine.hw.cores[0].mmu.counters.l1d_tlb_hits;
    let stop = |kind, event: VmEvent| {
        let failed = harmed_before(kind, "radix", DATA, |machine| {
            assert!(recalls(machine) >= FIRST - 1, "the page is in the TLB");
            let checked = machine.checker.checked();
            assert!(checked >= FIRST, "{checked} checks of {FIRST} loads");
            let process = machine.hw.cores[0].process;
            // The kernel acts without a shootdown: the MMU's TLBs and recent translations are stale.
            machine.os.kernel_mut().event(process, &event).expect("an event");
            machine.os.kernel_mut().take_shootdowns(&mut Vec::new());
        });
        let Err(Stop::Failed(message)) = failed else { panic!("a stale translation was used after {event:?}") };
        message
    };
    let unmapped = stop(RecordKind::Load, VmEvent::Unmap { start: DATA, len: 4096 });
    assert!(unmapped.contains("the kernel has no page there"), "{unmapped}");
    let moved = VmEvent::Remap { old: DATA, old_len: 4096, new: DATA.offset(1 << 30), new_len: 4096 };
    assert!(stop(RecordKind::Load, moved).contains("the kernel has no page there"));
}

#[test]
fn the_checkers_cached_state_ends_with_the_next_change() {
    let request = SpecRequest { design: Some("radix".into()), ..SpecRequest::default() };
    let mut spec = load(&request).expect("a spec").spec;
    spec.memory.bytes = 64 << 20;
    let stream = SharedStream::new(Box::new(TwoPages { then: DATA, kind: RecordKind::Load, done: 0 }), 1);
    let mut machine = Machine::new(&spec, vec![(stream, 0)]).expect("a machine");
    while machine.hw.cores[0].executed == 0 {
        machine.advance(1).expect("a run");
    }
    let process = machine.hw.cores[0].process;
    let Machine { os, checker, .. } = &mut machine;
    let at = os.kernel().page_state(process, DATA).frame().start();
    let store = AccessKind::Store;
    assert!(checker.matches_kernel(os, process, DATA, at, store));
    assert!(checker.matches_kernel(os, process, DATA, at, store), "and again, from the cache");
    assert!(!checker.matches_kernel(os, process, DATA, at.offset(4096), store), "another frame");
    let protect = VmEvent::Protect { start: DATA, len: 4096, protection: Protection::READ };
    os.kernel_mut().event(process, &protect).expect("an event");
    assert!(!checker.matches_kernel(os, process, DATA, at, store), "no longer writable");
    assert!(checker.matches_kernel(os, process, DATA, at, AccessKind::Load));
    let other = os.kernel_mut().fork(process).expect("a child");
    os.kernel_mut().event(other, &VmEvent::Unmap { start: DATA, len: 4096 }).expect("an event");
    assert!(!checker.matches_kernel(os, other, DATA, at, AccessKind::Load), "another process");
    os.kernel_mut().event(other, &VmEvent::Exit { process: other }).expect("an event");
    assert!(!checker.matches_kernel(os, other, DATA, at, AccessKind::Load), "none at all");
}
