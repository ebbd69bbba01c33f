//! What `fuzz/` runs for minutes, run for moments: every entry point on random bytes and on mutated good
//! input.

use ambulator_base::{Advice, Counters, MapKind, ProcessId, Protection, Random, Record, RecordKind, VirtAddr, VmEvent};
use ambulator_os::KernelCounters;
use ambulator_simulator::{FUZZ_MACHINE_BYTES, fuzz_designs, fuzz_machine, spec};
use ambulator_trace::{
    TraceHeader, TraceWriter, TraceWriterSpec, fuzz_block, fuzz_champsim, fuzz_drmemtrace, fuzz_gem5, fuzz_header,
    fuzz_lackey, fuzz_open, fuzz_perf, fuzz_trace, fuzz_v2p,
};

const DATA: u64 = 0x10_0000_0000;

/// A process that forks, whose child exits while it runs, as captured programs do.
fn trace() -> Vec<u8> {
    let (start, len) = (VirtAddr(DATA), 4 << 20);
    let map = |start: VirtAddr, len, protection, kind| VmEvent::Map { start, len, protection, kind };
    let events = [
        map(VirtAddr(0x40_0000), 4096, Protection::READ_EXECUTE, MapKind::File),
        map(start, len, Protection::READ_WRITE, MapKind::Anonymous),
        VmEvent::Advise { start, len, advice: Advice::Huge },
        VmEvent::Touch { start, len: 1 << 20, write: true },
        VmEvent::RegionBegin,
        VmEvent::Fork { child: ProcessId(1) },
        VmEvent::Switch { process: ProcessId(1), thread: 0 },
        VmEvent::Unmap { start: VirtAddr(DATA + (1 << 20)), len: 65536 },
        VmEvent::Exit { process: ProcessId(1) },
        VmEvent::Switch { process: ProcessId(0), thread: 0 },
        VmEvent::Remap {
            old: VirtAddr(DATA + (2 << 20)),
            old_len: 65536,
            new: VirtAddr(DATA + (8 << 20)),
            new_len: 131_072,
        },
        VmEvent::Advise { start, len: 65536, advice: Advice::DontNeed },
        VmEvent::RegionEnd,
    ];
    let mut writer = TraceWriter::new(Vec::new(), TraceHeader::default(), &TraceWriterSpec::default()).unwrap();
    for (i, event) in events.into_iter().enumerate() {
        let set_up = i < 5;
        let exits = matches!(event, VmEvent::Exit { .. });
        writer.event(event).unwrap();
        for j in 0..if set_up || exits { 0 } else { 4 } {
            let record = Record {
                pc: VirtAddr(0x40_0000 + 4 * j),
                va: VirtAddr(DATA + (i as u64 * 37 + j) % 256 * 4096),
                gap: j as u32,
                size: 8,
                kind: if j == 0 { RecordKind::Store } else { RecordKind::Load },
                ..Record::default()
            };
            writer.push(&record).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The trace's one block as `fuzz_block` takes it: counts of records and events, then the payload.
fn block(file: &[u8]) -> Vec<u8> {
    let at = 16 + u32_at(file, 12) + 8;
    let counts = [&file[at + 8..at + 10], &file[at + 12..at + 14]].concat();
    [&counts, &file[at + 40..at + 40 + u32_at(file, at + 4)]].concat()
}

fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let len = bytes.len() as u64;
        let at = random.below(len.max(1)) as usize;
        match random.below(5) {
            _ if bytes.is_empty() => bytes.push(random.next_u64() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.next_u64() as u8),
            _ => {
                let from = random.below(len) as usize;
                let piece = bytes[from..(from + 8).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn parsers_survive_random_bytes_and_mutated_files() {
    let mut random = Random::for_purpose(1, "fuzz smoke");
    let file = trace();
    let lackey = b"I  04000870,3\n S 1ffeffe7e8,8\n L 1ffeffe7e0,8\n M 0042137c,4\n".to_vec();
    let (header, block) = (file[16..16 + u32_at(&file, 12)].to_vec(), block(&file));
    let foreign = [fuzz_open, fuzz_champsim, fuzz_lackey, fuzz_drmemtrace, fuzz_gem5, fuzz_perf];
    for target in foreign.into_iter().chain([fuzz_trace, fuzz_header, fuzz_block]) {
        for seed in [&file, &lackey, &header, &block] {
            target(seed);
            for _ in 0..400 {
                target(&mutate(seed, &mut random));
            }
        }
        for _ in 0..400 {
            let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
            target(&bytes);
        }
    }
}

#[test]
fn the_places_of_pages_survive_mutated_text() {
    let mut random = Random::for_purpose(6, "fuzz smoke");
    let text = b"# from a run\npage_size: 4096\naddress_mapping { virtual_address: 0x7f0000001000 physical_address: 0x12345000 }\n\
        page_size: 2097152\nvirtual_address: 1073741824\nphysical_address: 0x40000000\nphysical_address: 0\n";
    for _ in 0..2000 {
        fuzz_v2p(&mutate(text, &mut random));
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        fuzz_v2p(&bytes);
    }
}

#[test]
fn specs_survive_mutated_presets() {
    let mut random = Random::for_purpose(2, "fuzz smoke");
    let texts = [
        include_str!("../../../../presets/machines/lvm-table1.toml"),
        include_str!("../../../../presets/designs/l2tlb-128k.toml"),
        "mmu.l2_tlb.entries=4Ki",
        "1.5GiB",
    ];
    for text in texts {
        spec::fuzz_spec(text);
        for _ in 0..40 {
            spec::fuzz_spec(&String::from_utf8_lossy(&mutate(text.as_bytes(), &mut random)));
        }
    }
}

#[test]
fn settings_of_programs_survive_mutations() {
    let mut random = Random::for_purpose(6, "fuzz smoke");
    let texts = [
        "gups\nfootprint=8GiB\nseed=7",
        "bfs\ngraph.kind=kronecker\ngraph.vertices=1Ki\nproperty.heap=glibc",
        "trace\nskip=1M",
        "graphbig-bfs",
    ];
    for text in texts {
        spec::fuzz_program(text);
        for _ in 0..100 {
            spec::fuzz_program(&String::from_utf8_lossy(&mutate(text.as_bytes(), &mut random)));
        }
    }
}

/// Bytes for [`fuzz_machine`]: what chooses the machine, and what is its program.
fn machine(how: u8, which: u8, random: &mut Random, program: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..FUZZ_MACHINE_BYTES).map(|_| random.next_u64() as u8).collect();
    (bytes[0], bytes[1]) = (how, which);
    bytes.extend(program);
    bytes
}

fn random_bytes(count: usize, random: &mut Random) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

const NESTED: u8 = 4;
const COMPOSED: u8 = 8;
const TRACE: u8 = 128;

#[test]
fn machines_survive_mutated_traces() {
    let mut random = Random::for_purpose(3, "fuzz smoke");
    let block = block(&trace());
    for which in 0..fuzz_designs().len() {
        let how = random.next_u64() as u8 & !COMPOSED | TRACE;
        let seed = machine(how, which as u8, &mut random, &block);
        fuzz_machine(&seed);
        let (choice, program) = seed.split_at(FUZZ_MACHINE_BYTES);
        fuzz_machine(&[choice, &mutate(program, &mut random)].concat());
    }
}

/// What programs of random operations are for, with how often it happened.
fn events(kernel: &KernelCounters) -> [(&'static str, u64); 10] {
    [
        ("huge pages", kernel.faults_2m),
        ("copies on write", kernel.copies_on_write),
        ("pages that their last owner writes", kernel.reuses_on_write),
        ("splits of huge pages", kernel.demotions),
        ("reservations", kernel.reservations),
        ("migrations into segments", kernel.migrations_in),
        ("migrations out of segments", kernel.migrations_out),
        ("pages written to swap", kernel.swap_outs),
        ("pages read from swap", kernel.swap_ins),
        ("identifiers that went to other address spaces", kernel.asid_recycles),
    ]
}

/// Every preset natively and, where it can, in a virtual machine, with other numbers of cores and identifiers
/// each time: once, then again with other programs until each of [`events`] has happened. The rarest, a migration
/// into a segment, takes a few rounds of all presets.
#[test]
fn machines_of_every_preset_survive_random_programs() {
    const ROUNDS: u32 = 12;
    let mut random = Random::for_purpose(4, "fuzz smoke");
    let mut kernel = KernelCounters::default();
    let missing = |kernel: &KernelCounters| events(kernel).into_iter().find(|event| event.1 == 0);
    for _ in 0..ROUNDS {
        let mut nested_runs = 0;
        for (which, design) in fuzz_designs().into_iter().enumerate() {
            for nested in [0, NESTED] {
                let how = random.next_u64() as u8 & !(COMPOSED | NESTED | TRACE) | nested;
                let program = random_bytes(320, &mut random);
                let run = fuzz_machine(&machine(how, which as u8, &mut random, &program));
                assert!(run.is_some() || nested > 0, "{design} has no machine");
                let Some(run) = run else { continue };
                assert!(run.checked > 0, "{design}: the oracle checked nothing");
                nested_runs += u32::from(nested > 0);
                kernel.add(&run.kernel);
            }
        }
        assert!(nested_runs > 30, "{nested_runs} virtual machines");
        if missing(&kernel).is_none() {
            return;
        }
    }
    panic!("no {} in {ROUNDS} rounds of every preset", missing(&kernel).expect("checked above").0);
}

#[test]
fn machines_of_composed_designs_survive_random_programs() {
    let mut random = Random::for_purpose(5, "fuzz smoke");
    for _ in 0..16 {
        let how = random.next_u64() as u8 & !TRACE | COMPOSED;
        let program = random_bytes(320, &mut random);
        let which = random.next_u64() as u8;
        fuzz_machine(&machine(how, which, &mut random, &program));
    }
}
