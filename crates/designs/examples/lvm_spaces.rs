//! Cost of a learned page table for pathological address spaces: `cargo run --release -p ambulator-designs
//! --example lvm_spaces`.
//!
//! For each address space: pages, bytes of index and tables per page (and those of radix), levels of models,
//! rebuilds and retrained leaves, the mean and the maximum of loads per walk with an empty walk cache, and
//! the time to map all pages on this machine.

use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, Pfn, PhysAddr, ProcessId, Protection, Random, VirtAddr};
use ambulator_conformance::TestBed;
use ambulator_designs::catalogue;
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Invalidation, Loaded, LoadedLine, MemoryPort, Served, TableRegisters};
use ambulator_os::{Mapping, PageTable, PteFlags};
use comfy_table::Table;
use std::time::Instant;

/// A port without latency.
struct Free<'a>(&'a mut PhysicalMemory);

impl MemoryPort for Free<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        Loaded { value: self.0.read(at), ready: now, served: Served::L2 }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        LoadedLine { words: self.0.line(at), ready: now, served: Served::L2 }
    }

    fn fetch(&mut self, _at: PhysAddr, now: Cycle) -> Cycle {
        now
    }

    fn update(&mut self, at: PhysAddr, bits: u64, _now: Cycle) {
        self.0.set_bits(at, bits);
    }
}

/// Counters by name.
#[derive(Default)]
struct Seen(Vec<(String, u64)>);

impl ambulator_base::CounterSink for Seen {
    fn counter(&mut self, prefix: &str, def: &'static ambulator_base::CounterDef, value: u64) {
        self.0.push((format!("{prefix}.{}", def.name), value));
    }
}

impl Seen {
    fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(own, _)| own.ends_with(name)).map_or(0, |(_, value)| *value)
    }
}

fn fill(name: &str, pages: &[u64], bed: &mut TestBed) -> Result<Box<dyn PageTable>, String> {
    let table = catalogue().build(&catalogue().choice(name)).translations.tables.new_table(
        ProcessId(0),
        Asid(1),
        &mut bed.os(),
    );
    let mut table = table.map_err(|error| format!("{error:?}"))?;
    for (at, &page) in pages.iter().enumerate() {
        let page = Page { start: VirtAddr(page << 12), size: PageSize::SIZE_4K };
        let flags = PteFlags { accessed: true, ..PteFlags::user(Protection::READ_WRITE) };
        let mapping = Mapping { page, frame: Pfn(at as u64), flags };
        table.map(mapping, &mut bed.os()).map_err(|error| format!("{page:?}: {error:?}"))?;
    }
    Ok(table)
}

fn main() -> Result<(), String> {
    let base = 1u64 << 30;
    let mut random = Random::new(9);
    let mut anywhere: Vec<u64> = (0..2000).map(|_| random.below(1 << 35)).collect();
    anywhere.sort_unstable();
    anywhere.dedup();
    let spaces: Vec<(&str, Vec<u64>)> = vec![
        ("a million contiguous pages", (0..1 << 20).map(|i| base + i).collect()),
        ("every second page", (0..1 << 19).map(|i| base + 2 * i).collect()),
        ("random pages of 128 TiB", anywhere),
        ("one page per gigabyte", (0..1000).map(|i| base + (i << 18)).collect()),
        ("a comb: 3 pages of each 100", (0..200_000).map(|i| base + i / 3 * 100 + i % 3).collect()),
        ("growing down", (0..1 << 20).map(|i| base - i).collect()),
        ("a million areas of one page, 3 apart", (0..1_000_000).map(|i| base + 3 * i + i % 2).collect()),
    ];
    let mut shown = Table::new();
    shown.set_header([
        "address space",
        "pages",
        "bytes per page",
        "radix",
        "index bytes",
        "levels",
        "built",
        "retrained",
        "loads per walk",
        "most",
        "time (s)",
    ]);
    for (name, pages) in spaces {
        let bed = || TestBed::new(64 << 30).map_err(|error| error.to_string());
        let (mut own, mut other) = (bed()?, bed()?);
        let began = Instant::now();
        let table = fill("lvm", &pages, &mut own)?;
        let seconds = began.elapsed().as_secs_f64();
        let radix = fill("radix", &pages, &mut other)?;
        let mut walker = (catalogue().build(&catalogue().choice("lvm")).new_walker)(0);
        walker.load_registers(Asid(1), &TableRegisters(table.registers()));
        let (mut loads, mut most) = (0, 0);
        for &page in &pages {
            walker.invalidate(Invalidation::All);
            let walk = walker.walk(VirtAddr(page << 12), AccessKind::Load, Cycle(0), &mut Free(&mut own.memory));
            loads += u64::from(walk.accesses);
            most = most.max(walk.accesses);
        }
        let mut seen = Seen::default();
        table.report("t", &mut seen);
        let each = |bytes: u64| format!("{:.1}", bytes as f64 / pages.len() as f64);
        shown.add_row([
            name.to_owned(),
            pages.len().to_string(),
            each(table.footprint().bytes),
            each(radix.footprint().bytes),
            seen.get("lvm.index_bytes").to_string(),
            seen.get("lvm.depth").to_string(),
            seen.get("lvm.rebuilds").to_string(),
            seen.get("lvm.retrains").to_string(),
            each(loads),
            most.to_string(),
            format!("{seconds:.2}"),
        ]);
    }
    println!("{shown}");
    Ok(())
}
