//! Writes the initial inputs, one folder for each target: `seeds FOLDER`.

use ambulator_base::{
    Advice, MapKind, PageSize, PhysAddr, ProcessId, Protection, Record, RecordKind, VirtAddr, VmEvent,
};
use ambulator_simulator::spec::{PresetKind, presets};
use ambulator_simulator::{FUZZ_MACHINE_BYTES, fuzz_designs};
use ambulator_trace::{Compression, TraceFormat, TraceHeader, TraceWriter, TraceWriterSpec, foreign_sink};
use std::fs;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DATA: u64 = 0x10_0000_0000;

fn records(count: u64) -> Vec<Record> {
    (0..count)
        .map(|i| Record {
            pc: VirtAddr(0x40_0000 + i % 7 * 4),
            va: VirtAddr(DATA + i * 4096 * 37 % (4 << 20)),
            gap: (i % 5) as u32,
            dep1: u16::from(i > 3 && i % 3 == 0),
            size: 8,
            kind: if i % 4 == 0 { RecordKind::Store } else { RecordKind::Load },
            ..Record::default()
        })
        .collect()
}

fn events() -> Vec<VmEvent> {
    let (start, len) = (VirtAddr(DATA), 4 << 20);
    let code = VmEvent::Map {
        start: VirtAddr(0x40_0000),
        len: 4096,
        protection: Protection::READ_EXECUTE,
        kind: MapKind::File,
    };
    vec![
        code,
        VmEvent::Map { start, len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous },
        VmEvent::Advise { start, len, advice: Advice::Huge },
        VmEvent::Place { start, len: 1 << 20, at: PhysAddr(0x1234_5000), page: PageSize::SIZE_4K },
        VmEvent::Touch { start, len: 1 << 20, write: true },
        VmEvent::RegionBegin,
        VmEvent::Fork { child: ProcessId(1) },
        VmEvent::Switch { process: ProcessId(1), thread: 0 },
        VmEvent::Protect { start: VirtAddr(DATA + 8192), len: 8192, protection: Protection::READ },
        VmEvent::Unmap { start: VirtAddr(DATA + (1 << 20)), len: 65536 },
        VmEvent::Remap {
            old: VirtAddr(DATA + (2 << 20)),
            old_len: 65536,
            new: VirtAddr(DATA + (8 << 20)),
            new_len: 131_072,
        },
        VmEvent::Advise { start, len: 65536, advice: Advice::DontNeed },
        VmEvent::Brk { end: VirtAddr(DATA + (16 << 20)) },
        VmEvent::Exit { process: ProcessId(1) },
        VmEvent::Switch { process: ProcessId(0), thread: 0 },
        VmEvent::RegionEnd,
    ]
}

/// A trace with all events, `between` records after each.
fn trace(between: usize) -> Result<Vec<u8>> {
    let header = TraceHeader { places: true, ..TraceHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), header, &TraceWriterSpec::default())?;
    let mut records = records(20 * between as u64).into_iter();
    for event in events() {
        writer.event(event)?;
        for record in records.by_ref().take(between) {
            writer.push(&record)?;
        }
    }
    Ok(writer.finish()?)
}

/// What a captured process leaves in memory when it dies, as the target `wire` takes it.
fn wire() -> Vec<u8> {
    use ambulator_trace::wire::{event_cells, record_cell, start_cell};
    let mut cells: Vec<[u64; 4]> = events().iter().take(2).flat_map(event_cells).collect();
    cells.push(start_cell());
    cells.extend(events().iter().skip(2).flat_map(event_cells));
    cells.extend(records(20).iter().map(record_cell));
    let in_ring = cells.len() as u64;
    cells.extend(records(10).iter().map(record_cell));
    let words = [1, 77, 1, 0, in_ring, DATA, 8192, 1, 10, 40];
    words.iter().chain(cells.as_flattened()).flat_map(|word| word.to_le_bytes()).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The first block of a file, as the target `block` takes it, and `machine` after the bytes that choose one.
fn block_of(file: &[u8]) -> Vec<u8> {
    let block = 16 + u32_at(file, 12) as usize + 8;
    let (payload, records, events) =
        (u32_at(file, block + 4) as usize, u32_at(file, block + 8), u32_at(file, block + 12));
    let mut out = vec![records as u8, (records >> 8) as u8, events as u8, (events >> 8) as u8];
    out.extend_from_slice(&file[block + 40..block + 40 + payload]);
    out
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    let put = |target: &str, name: String, bytes: &[u8]| -> Result<()> {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name), bytes)?)
    };
    for between in [0, 1, 8] {
        let file = trace(between)?;
        put("trace", format!("trace-{between}"), &file)?;
        put("header", format!("header-{between}"), &file[16..16 + u32_at(&file, 12) as usize])?;
        put("block", format!("block-{between}"), &block_of(&file))?;
        // A trace on each preset, with other settings each time.
        for (design, name) in fuzz_designs().into_iter().enumerate() {
            let mut choice: [u8; FUZZ_MACHINE_BYTES] = std::array::from_fn(|i| (design * (i + 3)) as u8);
            (choice[0], choice[1]) = (choice[0] & !8 | 128, design as u8);
            put("machine", format!("trace-{between}-{name}"), &[&choice[..], &block_of(&file)].concat())?;
        }
    }
    put("wire", "killed".into(), &wire())?;
    put("store", "cell".into(), b"{\"key\":\"k\",\"run\":{}}")?;
    // Operations on each preset and on some compositions.
    for (design, name) in fuzz_designs().into_iter().enumerate() {
        let word = |i: usize| (((i + 1) * (design + 3)).wrapping_mul(0x9e37_79b9) >> 13) as u8;
        let mut bytes: Vec<u8> = (0..FUZZ_MACHINE_BYTES + 400).map(word).collect();
        for (of, bit) in [("preset", 0), ("composition", 8)] {
            (bytes[0], bytes[1]) = (bytes[0] & !(8 | 128) | bit, design as u8);
            put("machine", format!("{of}-{name}"), &bytes)?;
        }
    }
    let lackey = "==1== banner\nI  04000870,3\n S 1ffeffe7e8,8\n L 1ffeffe7e0,8\n M 0042137c,4\n";
    put("lackey", "lackey".into(), lackey.as_bytes())?;
    put("open", "lackey".into(), lackey.as_bytes())?;
    let perf = "app 1/2 1.5: mem-loads: 7f0000001000 6810 |OP LOAD|LVL L1 hit| 401000\n";
    put("perf", "perf".into(), perf.as_bytes())?;
    let places = "page_size: 4096\naddress_mapping { virtual_address: 0x7f0000001000 physical_address: 0x12345000 }\n\
                  page_size: 1073741824 # huge\nvirtual_address: 1073741824\nphysical_address: 0x40000000\nphysical_address: 0\n";
    put("v2p", "v2p.textproto".into(), places.as_bytes())?;
    let load = [0x08, 1, 0x10, 1, 0x18, 0x80, 0x80, 1, 0x20, 8, 0x40, 0, 0x50, 0x80, 0x40, 0x58, 0x80, 0x20];
    put("gem5", "elastic".into(), &[&[0, load.len() as u8][..], &load].concat())?;
    let packet = [0x08, 9, 0x10, 1, 0x18, 0x80, 0x80, 1, 0x20, 8];
    put("gem5", "packets".into(), &[&[1, packet.len() as u8][..], &packet].concat())?;
    let entries =
        [(28u16, 2u16, 9u64), (47, 3, 0x038b48), (10, 3, 0x1000), (0, 8, 0x8000), (48, 2, 0x1003), (26, 0, 0)];
    // A place of a page, and a call of munmap.
    let markers =
        [(28u16, 15u16, 0x5000_0000u64), (28, 17, 0x8000), (28, 4, (1 << 32) + 11), (28, 6, 0x8000), (28, 6, 4096)];
    let entries = [&entries[..1], &markers, &[(28, 4, (1 << 32) + 11), (28, 7, 1)], &entries[1..]].concat();
    let drmemtrace: Vec<u8> = entries
        .iter()
        .flat_map(|(kind, size, value)| [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat())
        .collect();
    put("drmemtrace", "entries".into(), &drmemtrace)?;
    for (name, format, compression) in [
        ("champsim.raw", TraceFormat::ChampSim, Compression::None),
        ("champsim.gz", TraceFormat::ChampSim, Compression::Gzip),
        ("champsim.xz", TraceFormat::ChampSim, Compression::Xz),
        ("cloudsuite.zst", TraceFormat::CloudSuite, Compression::Zstd),
        ("drmemtrace.gz", TraceFormat::DrMemTrace, Compression::Gzip),
        ("gem5-elastic.gz", TraceFormat::Gem5Elastic, Compression::Gzip),
        ("gem5-packets.raw", TraceFormat::Gem5Packets, Compression::None),
    ] {
        let path = Path::new(&folder).join(name);
        let mut writer = foreign_sink(fs::File::create(&path)?, format, compression, false)?;
        for record in records(20) {
            writer.push(&record)?;
        }
        writer.finish()?;
        let bytes = fs::read(&path)?;
        fs::remove_file(&path)?;
        put("open", name.into(), &bytes)?;
        if name == "champsim.raw" {
            put("champsim", "raw".into(), &bytes)?;
        }
    }
    for kind in ["designs", "machines"] {
        for preset in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../presets").join(kind))? {
            let preset = preset?;
            put("spec", preset.file_name().to_string_lossy().into_owned(), &fs::read(preset.path())?)?;
        }
    }
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Workload) {
        put("program", preset.name.into(), preset.name.as_bytes())?;
    }
    for (program, settings) in
        [("gups", "footprint=8GiB"), ("bfs", "graph.kind=kronecker\ngraph.vertices=1Ki"), ("trace", "skip=1M")]
    {
        put("program", program.into(), format!("{program}\n{settings}\nseed=7").as_bytes())?;
    }
    let maps = "555555554000-555555556000 r--p 00000000 fe:01 123 /usr/bin/x\n7ffff0000000-7ffff0010000 rw-p 0 0:0 0\n\
                7ffff0010000-7ffff0011000 ---p 0 0:0 0\nffffffffff600000-ffffffffff601000 --xp 0 0:0 0 [vsyscall]\n";
    put("maps", "maps".into(), maps.as_bytes())?;
    for (name, option) in
        [("option", "mmu.l2_tlb.entries=4Ki"), ("size", "8GiB"), ("count", "1.5M"), ("key", "mmu.walk_entry")]
    {
        put("spec", name.into(), option.as_bytes())?;
    }
    Ok(())
}
