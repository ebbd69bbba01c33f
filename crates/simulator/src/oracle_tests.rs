//! The oracle catches what it is there for: broken bytes and forgotten shootdowns.

use crate::spec::{SpecRequest, load};
use crate::{Machine, SharedStream, Stop};
use ambulator_base::{
    Batch, MapKind, ProgramIdentity, Protection, Record, RecordSource, SourceError, VirtAddr, VmEvent,
};

const CODE: VirtAddr = VirtAddr(0x40_0000);
const DATA: VirtAddr = VirtAddr(0x10_0000_0000);

/// Touches two pages, loads the first, and then (in a batch of its own) loads the page `then`.
struct TwoPages {
    then: VirtAddr,
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
                batch.records.push(Record { pc: CODE, va: DATA, size: 8, ..Record::default() });
            }
            2 => batch.records.push(Record { pc: CODE, va: self.then, size: 8, ..Record::default() }),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs the first batch, lets `harm` at the machine, and runs the second.
fn harmed(design: &str, then: VirtAddr, harm: impl Fn(&mut Machine)) -> Result<bool, Stop> {
    let options = ["memory.bytes=64MiB", "run.warmup=0"].map(str::to_owned).to_vec();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    let spec = load(&request).expect("a spec").spec;
    let stream = SharedStream::new(Box::new(TwoPages { then, done: 0 }), 1);
    let mut machine = Machine::new(&spec, vec![(stream, 0)]).expect("a machine");
    while machine.hw.cores[0].executed == 0 {
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
    // The table's bytes lie somewhere in the first megabytes: the entry is the one word that names the frame.
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
fn without_harm_the_run_ends() {
    assert_eq!(harmed("radix", DATA.offset(4096), |_| {}), Ok(false));
}

#[test]
fn a_broken_entry_stops_the_run_and_tells_the_steps() {
    for design in ["radix", "ideal", "asap"] {
        let Err(Stop::Failed(message)) = harmed(design, DATA.offset(4096), redirect_second_page) else {
            panic!("{design}: the oracle said nothing");
        };
        assert!(message.contains("0x1000001000"), "{design}: the address: {message}");
        assert!(message.contains("the kernel has frame"), "{design}: the truth: {message}");
        assert!(message.contains("read 0x") && message.contains("came to Mapped"), "{design}: the steps: {message}");
    }
}

#[test]
fn a_guests_broken_entry_stops_the_run_and_tells_the_steps() {
    let Err(Stop::Failed(message)) = harmed("nested", DATA.offset(4096), redirect_second_page) else {
        panic!("the wrong frame was used")
    };
    assert!(message.contains("the kernel has frame"), "the truth: {message}");
    assert!(message.matches("at guest-physical 0x").count() > 0 && message.contains("came to Mapped"), "{message}");
}

#[test]
fn a_forgotten_shootdown_is_found_at_the_next_use() {
    let failed = harmed("radix", DATA, |machine| {
        let process = machine.hw.cores[0].process;
        let gone = VmEvent::Unmap { start: DATA, len: 4096 };
        machine.os.kernel_mut().event(process, &gone).expect("an unmap");
        // The kernel asked for a shootdown; it is lost on its way.
        machine.os.kernel_mut().take_shootdowns(&mut Vec::new());
    });
    let Err(Stop::Failed(message)) = failed else { panic!("the stale entry was used") };
    assert!(message.contains("the kernel has no page there"), "{message}");
}
