//! Traces as DynamoRIO wrote them, with the counts of its own tools; and traces written here from the
//! documented format, for what those do not have.

use super::entry::{kind, marker};
use crate::scratch::Scratch;
use crate::zip_stream::tests::archive;
use crate::*;
use ambulator_base::*;
use std::io::Write;
use std::path::Path;

/// The entries of a trace file.
#[derive(Clone, Default)]
struct File(Vec<u8>);

impl File {
    /// A file of x86-64 with these bits of the type beside.
    fn new(process: u64, thread: u64, bits: u64) -> File {
        File::default()
            .entry(kind::HEADER, 0, 6)
            .marker(marker::VERSION, 6)
            .marker(marker::FILETYPE, 0x40 | bits)
            .entry(kind::THREAD, 8, thread)
            .entry(kind::PID, 8, process)
            .marker(marker::PAGE_SIZE, 4096)
    }

    fn entry(mut self, kind: u16, size: u16, value: u64) -> File {
        self.0.extend(kind.to_le_bytes());
        self.0.extend(size.to_le_bytes());
        self.0.extend(value.to_le_bytes());
        self
    }

    fn marker(self, kind: u16, value: u64) -> File {
        self.entry(kind::MARKER, kind, value)
    }

    fn time(self, time: u64) -> File {
        self.marker(marker::TIMESTAMP, time)
    }

    fn encoded(self, pc: u64, bytes: &[u8], kind: u16) -> File {
        let all = bytes.chunks(8).fold(self, |all, part| {
            let mut value = [0; 8];
            value[..part.len()].copy_from_slice(part);
            all.entry(kind::ENCODING, part.len() as u16, u64::from_le_bytes(value))
        });
        all.entry(kind, bytes.len() as u16, pc)
    }

    fn end(self, thread: u64) -> Vec<u8> {
        self.entry(kind::THREAD_EXIT, 8, thread).entry(kind::FOOTER, 0, 0).0
    }
}

fn read(path: &Path) -> Result<Batch, SourceError> {
    let options = TraceOptions { implicit_maps: false, ..TraceOptions::default() };
    crate::tests::drained(&mut *open_trace(path, &options)?)
}

fn error(path: &Path) -> String {
    read(path).unwrap_err().message
}

fn record(pc: u64, va: u64, gap: u32, dep1: u16, size: u8, kind: RecordKind) -> Record {
    Record { pc: VirtAddr(pc), va: VirtAddr(va), gap, dep1, dep2: 0, size, kind }
}

fn real(name: &str) -> TraceSummary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamorio").join(name);
    let summary = info(&path, &TraceOptions::default()).unwrap();
    assert_eq!((summary.damage.clone(), summary.outside_mappings), (None, 0));
    summary
}

/// `reuse_offline.expect` of DynamoRIO says 229 accesses of the first, 173 of them of instructions. The
/// second is a zip archive of chunks of 20 instructions, with encodings.
#[test]
fn what_dynamorio_wrote_has_the_counts_of_its_tools() {
    let small = real("drmemtrace.small.x64.trace");
    assert_eq!((small.instructions, small.loads + small.stores), (173, 229 - 173));
    assert_eq!((small.format, small.branches, small.threads), (TraceFormat::DrMemTrace, 14, 1));
    let chunks = real("drmemtrace.allasm_x86_64.trace.zip");
    assert_eq!((chunks.compression, chunks.instructions, chunks.branches, chunks.taken), (Some("zip"), 133, 16, 15));
}

#[test]
fn instructions_accesses_and_branches_become_records() {
    use RecordKind::*;
    let scratch = Scratch::new();
    let bytes = File::new(7, 7, 0)
        .time(1)
        .entry(kind::INSTR, 3, 0x1000)
        .entry(kind::INSTR, 4, 0x1003)
        .entry(kind::READ, 8, 0x8000)
        .entry(kind::WRITE, 100, 0x9000)
        .entry(kind::INSTR_UNTAKEN_JUMP, 2, 0x1007)
        .entry(kind::INSTR_TAKEN_JUMP, 2, 0x1009)
        .entry(kind::INSTR_CONDITIONAL_JUMP, 2, 0x2000)
        .entry(kind::INSTR_CONDITIONAL_JUMP, 2, 0x2002)
        .marker(marker::BRANCH_TARGET, 0x4000)
        .entry(kind::INSTR_INDIRECT_CALL, 2, 0x3000)
        .entry(kind::READ, 8, 0xa000)
        .entry(kind::INSTR_RETURN, 1, 0x4000)
        .entry(kind::FIRST_PREFETCH, 1, 0xb000)
        .entry(kind::INSTR, 2, 0x4001)
        .entry(kind::READ, 4, 0xc000)
        .entry(kind::INSTR_NO_FETCH, 2, 0x4001)
        .entry(kind::READ, 4, 0xc004)
        .marker(marker::SYSCALL_TRACE_START, 1)
        .entry(kind::INSTR, 2, 0xffff_8000_0000_0000)
        .entry(kind::READ, 2, 0xffff_8000_0000_0000)
        .marker(marker::SYSCALL_TRACE_END, 1)
        .entry(kind::INSTR, 3, 0x5000)
        .entry(kind::INSTR_BUNDLE, 2, 0x0402)
        .end(7);
    let all = read(&scratch.file("all.trace", &bytes)).unwrap();
    let expected = vec![
        record(0x1003, 0x8000, 1, 0, 8, Load),
        record(0x1003, 0x9000, 0, 0, 64, Store),
        record(0x1003, 0x9040, 0, 0, 36, Store),
        record(0x1007, 0, 0, 0, 0, BranchNotTaken),
        record(0x1009, 0x2000, 0, 0, 0, BranchTaken),
        record(0x2000, 0, 0, 0, 0, BranchNotTaken),
        record(0x2002, 0x3000, 0, 0, 0, BranchTaken),
        record(0x3000, 0xa000, 0, 0, 8, Load),
        record(0x3000, 0x4000, 0, 1, 0, BranchTaken),
        record(0x4001, 0xc000, 0, 0, 4, Load), // the return pays for one of the surplus records
        record(0x4001, 0xc004, 0, 0, 4, Load),
    ];
    assert_eq!(all.records, expected);
    let summary = info(&scratch.file("again.trace", &bytes), &TraceOptions::default()).unwrap();
    // Four surplus records take one gap before them and the three at the end.
    assert_eq!(summary.instructions, 12);
    assert!(summary.notes[0].starts_with("1 instructions of the kernel were left out"), "{:?}", summary.notes);
}

#[test]
fn encodings_give_dependences() {
    let scratch = Scratch::new();
    let load = [0x48, 0x8b, 0x03]; // mov rax, [rbx]
    let chase = [0x48, 0x8b, 0x00]; // mov rax, [rax]
    let test = [0x48, 0x85, 0xc0]; // test rax, rax
    let jump = [0x74, 0x0e]; // je +14
    let file = File::new(7, 7, 0x200)
        .time(1)
        .encoded(0x1000, &load, kind::INSTR)
        .entry(kind::READ, 8, 0x8000)
        .encoded(0x1003, &chase, kind::INSTR)
        .entry(kind::READ, 8, 0x9000)
        .encoded(0x1006, &test, kind::INSTR)
        .encoded(0x1009, &jump, kind::INSTR_UNTAKEN_JUMP)
        // The second time without an encoding.
        .entry(kind::INSTR, 3, 0x1003)
        .entry(kind::READ, 8, 0xa000);
    let records = read(&scratch.file("x86.trace", &file.clone().end(7))).unwrap().records;
    let found: Vec<_> = records.iter().map(|r| (r.va.0, r.dep1, r.dep2)).collect();
    assert_eq!(found, [(0x8000, 0, 0), (0x9000, 1, 0), (0x1019, 1, 0), (0xa000, 2, 0)]);
    // Another window may come much later.
    let windows = file.marker(marker::WINDOW_ID, 1).entry(kind::INSTR, 3, 0x1003).entry(kind::READ, 8, 0xb000);
    assert_eq!(read(&scratch.file("window.trace", &windows.end(7))).unwrap().records[4].dep1, 0);
    // regdeps: one destination (9), one source (8).
    let regdeps = File::new(7, 7, 0x2_0200)
        .time(1)
        .encoded(0x1000, &[0x11, 0, 0, 0, 8, 9, 8, 0], kind::INSTR)
        .entry(kind::READ, 8, 0x8000)
        .encoded(0x1008, &[0x11, 0, 0, 0, 8, 9, 9, 0], kind::INSTR)
        .entry(kind::READ, 8, 0x9000);
    assert_eq!(read(&scratch.file("regdeps.trace", &regdeps.end(7))).unwrap().records[1].dep1, 1);
}

fn thread(process: u64, thread: u64, loads: &[(u64, u64)]) -> Vec<u8> {
    loads
        .iter()
        .fold(File::new(process, thread, 0), |file, (time, va)| {
            file.time(*time).entry(kind::INSTR, 4, 0x1000).entry(kind::READ, 8, *va)
        })
        .end(thread)
}

#[test]
fn threads_run_in_the_order_of_their_timestamps() {
    let scratch = Scratch::new();
    let folder = scratch.0.path().join("drmemtrace.app.70.1234.dir");
    std::fs::create_dir_all(folder.join("trace")).unwrap();
    let one = thread(70, 70, &[(10, 0x10000), (20, 0x20000), (50, 0x50000)]);
    let two = thread(70, 71, &[(15, 0x15000), (30, 0x30000), (40, 0x40000)]);
    let other = thread(80, 80, &[(45, 0x45000)]);
    std::fs::write(folder.join("trace/a.trace.zip"), archive(&[&one[..50], &one[50..]], true, false)).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&two).unwrap();
    std::fs::write(folder.join("trace/b.trace.lz4"), lz4.finish().unwrap()).unwrap();
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(&other).unwrap();
    std::fs::write(folder.join("trace/c.trace.sz"), snappy.into_inner().unwrap()).unwrap();
    std::fs::write(folder.join("trace/cpu_schedule.bin.zip"), b"not a thread").unwrap();
    let all = read(&folder).unwrap();
    let order: Vec<u64> = all.records.iter().map(|record| record.va.0 >> 12).collect();
    assert_eq!(order, [0x10, 0x15, 0x20, 0x30, 0x40, 0x45, 0x50]);
    let switch = |process, thread| VmEvent::Switch { process: ProcessId(process), thread };
    assert_eq!(
        all.events,
        [
            (0, VmEvent::Fork { child: ProcessId(1) }),
            (1, switch(0, 1)),
            (2, switch(0, 0)),
            (3, switch(0, 1)),
            (5, switch(1, 0)),
            (6, switch(0, 0)),
        ]
    );
    let summary = info(&folder, &TraceOptions::default()).unwrap();
    assert_eq!((summary.threads, summary.processes, summary.program.name.as_str()), (3, 2, "app"));
    assert_eq!(summary.outside_mappings, 0);
    let mapping = "page_size: 4096\nvirtual_address: 0x10000\nphysical_address: 0x7000\n";
    std::fs::write(folder.join("v2p.textproto"), mapping).unwrap();
    assert_eq!(info(&folder, &TraceOptions::default()).unwrap().physical.unwrap().pages, 1);
    let page = PageSize::SIZE_4K;
    let place = VmEvent::Place { start: VirtAddr(0x10000), len: 4096, at: PhysAddr(0x7000), page };
    assert_eq!(read(&folder).unwrap().events[1], (0, place), "before the first record");
    let input = folder.join("trace/a.trace.zip");
    let message = convert(&folder, &input, &Conversion { format: TraceFormat::ChampSim, ..Conversion::default() });
    assert!(message.unwrap_err().message.contains("a.trace.zip"), "no file of the trace is overwritten");
    assert_eq!(read(&folder).unwrap().records.len(), 7);
    // A file that is damaged is named, with the place.
    std::fs::write(folder.join("trace/b.trace.lz4"), &two[..two.len() - 5]).unwrap();
    let message = error(&folder);
    let place = two.len() - 12;
    assert!(message.contains("b.trace.lz4: the trace is cut short: 7 bytes at byte "), "{message}");
    assert!(message.contains(&place.to_string()), "{message}");
}

#[test]
fn physical_addresses_are_reported() {
    let scratch = Scratch::new();
    let file = (0..600u64).fold(File::new(7, 7, 0).time(1).entry(kind::INSTR, 4, 0x40_0000), |file, page| {
        let va = 0x4000_0000 + (page << 12);
        let pa = if page < 512 { 0x20_0000 + (page << 12) } else { (page * 3) << 20 };
        file.marker(marker::PHYSICAL_ADDRESS, pa).marker(marker::VIRTUAL_ADDRESS, va).entry(kind::READ, 8, va)
    });
    let physical = info(&scratch.file("all.trace", &file.end(7)), &TraceOptions::default()).unwrap().physical.unwrap();
    assert_eq!((physical.pages, physical.moved, physical.longest_run), (600, 0, 512));
    assert_eq!((physical.runs, physical.huge_regions, physical.regions), (89, 1, 2));
}

#[test]
fn physical_addresses_are_places_that_come_before_their_pages() {
    let scratch = Scratch::new();
    let at = |file: File, va, pa| file.marker(marker::PHYSICAL_ADDRESS, pa).marker(marker::VIRTUAL_ADDRESS, va);
    let file = at(File::new(7, 7, 0).time(1).entry(kind::INSTR, 4, 0x40_0000), 0x1008, 0x20_0008);
    let file = at(file.entry(kind::READ, 8, 0x1008), 0x1000, 0x20_0000).entry(kind::READ, 8, 0x1000);
    let file = at(file, 0x1000, 0x30_0000).entry(kind::WRITE, 8, 0x1000);
    // Too many bits: no place.
    let bytes = at(file, 0x2000, 1 << 60).entry(kind::READ, 8, 0x2000).end(7);
    let all = read(&scratch.file("all.trace", &bytes)).unwrap();
    let page = PageSize::SIZE_4K;
    let place = |at| VmEvent::Place { start: VirtAddr(0x1000), len: 4096, at: PhysAddr(at), page };
    assert_eq!(all.events, [(0, place(0x20_0000)), (2, place(0x30_0000))], "what is known is not said again");
}

/// Calls of system calls (by number) and of functions (by the list), their arguments and results.
#[test]
fn recorded_calls_become_mappings() {
    let call = |file: File, id: u64, arguments: &[u64], result: u64| {
        let file = arguments.iter().fold(file.marker(marker::FUNC_ID, id), |f, a| f.marker(marker::FUNC_ARG, *a));
        file.marker(marker::FUNC_ID, id).marker(marker::FUNC_RETVAL, result)
    };
    let system = |number: u64| (1 << 32) + number;
    let file = File::new(7, 7, 0).time(1).entry(kind::INSTR, 4, 0x40_0000).entry(kind::READ, 8, 0x40_0000);
    // mmap: fixed; not fixed, so without an address; failed; and of a library, whose result is the address.
    let file = call(file, system(9), &[0x1000_0000, 0x2800, 3, 0x32, u64::MAX, 0], 1);
    let file = call(file, system(9), &[0, 0x2000, 3, 0x22, u64::MAX, 0], 1);
    let file = call(file, system(9), &[0x5000_0000, 0x2000, 3, 0x32, u64::MAX, 0], 0);
    let file = call(file, 4, &[0, 0x4000, 3, 2, 5, 0], 0x2000_0000);
    let file = file.entry(kind::READ, 8, 0x1000_2000).entry(kind::READ, 8, 0x2000_1000);
    // munmap, madvise, mremap to an address, brk twice; read has nothing to do with it.
    let file = call(file, system(11), &[0x1000_1000, 0x1000], 1);
    let file = call(file, system(28), &[0x2000_0000, 0x4000, 14], 1);
    let file = call(file, system(25), &[0x2000_0000, 0x4000, 0x8000, 3, 0x3000_0000], 1);
    let file = call(call(file, system(12), &[0x6000_0000], 1), system(12), &[0x6000_3000], 1);
    let file = call(file, system(0), &[3, 0x1000_0000, 8], 1);
    let bytes = file.entry(kind::READ, 8, 0x3000_7000).end(7);
    let scratch = Scratch::new();
    let folder = scratch.0.path().join("a.dir");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.trace"), bytes).unwrap();
    std::fs::write(folder.join("funclist.log"), "# ids\n3,1,0x7f00,libc.so.6!malloc\n4,6,0x7f10,libc.so.6!mmap64\n")
        .unwrap();
    let options = TraceOptions { map_granularity: 4096, ..TraceOptions::default() };
    let all = crate::tests::drained(&mut *open_trace(&folder, &options).unwrap()).unwrap();
    let shown: Vec<(u32, String)> = all
        .events
        .iter()
        .map(|(at, event)| {
            let text = match event {
                VmEvent::Map { start, len, kind, .. } => format!("map {start} {len:#x} {kind:?}"),
                VmEvent::Unmap { start, len } => format!("unmap {start} {len:#x}"),
                VmEvent::Advise { start, len, advice } => format!("advise {start} {len:#x} {advice:?}"),
                other => format!("{other:?}"),
            };
            (*at, text)
        })
        .collect();
    let expected = [
        (0, "map 0x400000 0x1000 File"),
        (1, "map 0x10000000 0x3000 Anonymous"),
        (1, "map 0x20000000 0x4000 File"),
        (3, "unmap 0x10001000 0x1000"),
        (3, "advise 0x20000000 0x4000 Huge"),
        (3, "unmap 0x20000000 0x4000"),
        (3, "map 0x30000000 0x8000 Anonymous"),
        (3, "map 0x60000000 0x3000 Heap"),
    ];
    assert_eq!(shown, expected.map(|(at, text)| (at, text.to_owned())));
    let summary = info(&folder, &options).unwrap();
    assert_eq!(summary.outside_mappings, 0);
    let notes = summary.notes.join("\n");
    assert!(notes.contains("7 changes of the address space are derived from recorded calls"), "{notes}");
    assert!(notes.contains("1 recorded calls of mmap or mremap have no address"), "{notes}");
    // Without synthesised mappings nothing is mapped.
    assert!(read(&folder).unwrap().events.is_empty());
}

#[test]
fn bad_files_are_refused_with_name_and_place() {
    let scratch = Scratch::new();
    let good = File::new(7, 7, 0).time(1).entry(kind::INSTR, 4, 0x1000);
    let message = |file: File| error(&scratch.file("bad.trace", &file.0));
    assert!(message(good.clone()).contains("bad.trace: the trace is cut short: it ends at byte 96 without a footer"));
    assert!(
        message(good.clone().entry(60, 0, 0))
            .contains("the entry at byte 96 has the type 60, which no version up to 7")
    );
    assert!(message(good.clone().marker(marker::PAGE_SIZE, 5000)).contains("byte 96 says pages of 5000 bytes"));
    assert!(message(good.clone().entry(kind::ENCODING, 9, 0)).contains("byte 96 has 9 bytes of an encoding"));
    assert!(message(good.clone().entry(kind::INSTR_BUNDLE, 9, 0)).contains("is a bundle of 9 instructions"));
    assert!(message(good.marker(marker::VERSION, 8)).contains("says version 8; versions 1 to 7 are read"));
    let newer = File::default().entry(kind::HEADER, 0, 8).entry(kind::THREAD, 8, 1);
    assert!(message(newer).contains("the entry at byte 0 says version 8"));
    let empty = scratch.0.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(error(&empty).contains("empty: is a directory without files of a drmemtrace trace"));
    std::fs::create_dir(empty.join("raw")).unwrap();
    assert!(error(&empty).contains("`drraw2trace -indir "));
    std::fs::write(empty.join("x.trace"), b"nothing of the kind").unwrap();
    assert!(error(&empty).contains("x.trace: is not a trace file of drmemtrace: it begins with the bytes 6e 6f"));
}

#[test]
fn a_32_bit_tracer_writes_shorter_entries() {
    let scratch = Scratch::new();
    let mut bytes = Vec::new();
    for entry in thread(7, 7, &[(1, 0x8000)]).chunks(12) {
        bytes.extend(&entry[..8]);
    }
    let records = read(&scratch.file("short.trace", &bytes)).unwrap().records;
    assert_eq!(records, [record(0x1000, 0x8000, 0, 0, 8, RecordKind::Load)]);
}

#[test]
fn a_converted_trace_is_the_same_stream() {
    let scratch = Scratch::new();
    let from = scratch.file("a.trace", &thread(70, 70, &[(10, 0x10000), (20, 0x20000)]));
    let to = scratch.0.path().join("to.amb");
    convert(&from, &to, &Conversion::default()).unwrap();
    let source =
        |path: &Path| crate::tests::drained(&mut *open_trace(path, &TraceOptions::default()).unwrap()).unwrap();
    assert_eq!(source(&to), source(&from));
}
