//! Simulator speed of page tables: `cargo run --release -p ambulator-designs --example table_bench [GiB
//! mapped]`.
//!
//! Prints the nanoseconds that this machine takes for each map (ascending, 4 KiB), software look-up, walk
//! (random addresses, a port without caches) and walk after a prefetch, for every page table of the
//! catalogue.

use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, Pfn, PhysAddr, ProcessId, Protection, Random, VirtAddr};
use ambulator_conformance::TestBed;
use ambulator_designs::catalogue;
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served, TableRegisters, WalkOutcome};
use ambulator_os::{Mapping, PteFlags};
use ambulator_sockets::Socket;
use std::hint::black_box;
use std::time::Instant;

/// A port with fixed latency, for the simulator's own time.
struct TrivialPort<'a>(&'a mut PhysicalMemory);

impl MemoryPort for TrivialPort<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        Loaded { value: self.0.read(at), ready: now.after(20), served: Served::L2 }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        LoadedLine { words: self.0.line(at), ready: now.after(20), served: Served::L2 }
    }

    fn fetch(&mut self, _at: PhysAddr, now: Cycle) -> Cycle {
        now.after(20)
    }

    fn update(&mut self, at: PhysAddr, bits: u64, _now: Cycle) {
        self.0.set_bits(at, bits);
    }
}

const START: u64 = 0x5555_4000_0000;
const LOOKS: u64 = 1 << 21;
/// Walks between a prefetch and its use.
const AHEAD: usize = 16;

/// Nanoseconds per operation.
fn each(from: Instant, count: u64) -> f64 {
    from.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn main() {
    let gib: u64 = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 64,
        Some(Ok(gib)) if (1..=1024).contains(&gib) => gib,
        Some(_) => {
            eprintln!("the argument is the number of GiB to map, 1 to 1024");
            std::process::exit(2);
        }
    };
    let pages = gib << 18;
    println!(
        "{pages} pages of 4 KiB; nanoseconds on this machine\n{:<10} {:>8} {:>8} {:>8} {:>12} {:>8}",
        "table", "map", "lookup", "walk", "prefetched", "unmap"
    );
    for name in catalogue().filling(Socket::PageTable).map(|design| design.name) {
        let mut parts = catalogue().build(&catalogue().choice(name));
        let mut bed = match TestBed::new((gib << 30) * 2) {
            Ok(bed) => bed,
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        };
        let table = parts.translations.new_process(ProcessId(0), Asid(1), &mut bed.os());
        let Ok(mut table) = table else {
            eprintln!("{name}: no memory for an empty table");
            std::process::exit(1);
        };
        let page = |i: u64| Page::containing(VirtAddr(START + i * 4096), PageSize::SIZE_4K);
        table.vma_added(VirtAddr(START), gib << 30, &mut bed.os());
        let flags = PteFlags::user(Protection::READ_WRITE);

        // As in the kernel: a frame of data, then its entry.
        let from = Instant::now();
        for i in 0..pages {
            let mut os = bed.os();
            let frame = os.frames.allocate(0).unwrap_or(Pfn(0));
            let mapping = Mapping { page: page(i), frame, flags };
            if table.map(mapping, &mut os).is_err() {
                eprintln!("{name}: no memory for page {i}");
                std::process::exit(1);
            }
        }
        let with_frames = each(from, pages);
        let from = Instant::now();
        let mut scratch = ambulator_memory::BuddyAllocator::new(&ambulator_memory::BuddySpec::default(), pages * 2);
        for _ in 0..pages {
            black_box(scratch.allocate(0));
        }
        let map = with_frames - each(from, pages);

        let mut random = Random::new(1);
        let from = Instant::now();
        for _ in 0..LOOKS {
            let va = VirtAddr(START + random.below(gib << 30));
            black_box(table.lookup(va, &bed.memory));
        }
        let lookup = each(from, LOOKS);

        let mut walker = (parts.new_walker)(0);
        walker.load_registers(Asid(1), &TableRegisters(table.registers()));
        let mut walk = |va: VirtAddr, now: u64, memory: &mut PhysicalMemory| {
            let walk = walker.walk(va, AccessKind::Load, Cycle(now), &mut TrivialPort(memory));
            assert!(matches!(walk.outcome, WalkOutcome::Mapped(_)));
        };
        let from = Instant::now();
        for i in 0..LOOKS {
            let va = VirtAddr(START + random.below(gib << 30));
            walk(va, i * 100, &mut bed.memory);
        }
        let plain = each(from, LOOKS);
        let mut ahead = [VirtAddr(START); AHEAD];
        let from = Instant::now();
        for i in 0..LOOKS {
            let va = VirtAddr(START + random.below(gib << 30));
            table.prefetch_sim_host(va, &bed.memory);
            let va = std::mem::replace(&mut ahead[i as usize % AHEAD], va);
            walk(va, (LOOKS + i) * 100, &mut bed.memory);
        }
        let prefetched = each(from, LOOKS);

        let from = Instant::now();
        for i in 0..pages {
            black_box(table.unmap(page(i), &mut bed.os()));
        }
        let unmap = each(from, pages);
        println!("{name:<10} {map:>8.1} {lookup:>8.1} {plain:>8.1} {prefetched:>12.1} {unmap:>8.1}",);
        table.destroy(&mut bed.os());
    }
}
