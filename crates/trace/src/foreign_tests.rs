//! ChampSim and lackey from hand-made bytes and real samples; bad input of every kind; conversion and
//! summaries.

use crate::scratch::Scratch;
use crate::tests::{drained, generated, written};
use crate::*;
use ambulator_base::*;
use proptest::prelude::*;
use std::path::Path;

fn plain() -> TraceOptions {
    TraceOptions { implicit_maps: false, ..TraceOptions::default() }
}

fn read(path: &Path, options: &TraceOptions) -> Result<Batch, SourceError> {
    drained(&mut *open_trace(path, options)?)
}

fn error(path: &Path) -> String {
    read(path, &TraceOptions::default()).err().unwrap().message
}

/// One ChampSim instruction.
fn instruction(ip: u64, branch: Option<bool>, to: &[u8], from: &[u8], stores: &[u64], loads: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&ip.to_le_bytes());
    bytes[8] = u8::from(branch.is_some());
    bytes[9] = u8::from(branch == Some(true));
    bytes[10..10 + to.len()].copy_from_slice(to);
    bytes[12..12 + from.len()].copy_from_slice(from);
    for (i, va) in stores.iter().enumerate() {
        bytes[16 + i * 8..24 + i * 8].copy_from_slice(&va.to_le_bytes());
    }
    for (i, va) in loads.iter().enumerate() {
        bytes[32 + i * 8..40 + i * 8].copy_from_slice(&va.to_le_bytes());
    }
    bytes
}

fn record(pc: u64, va: u64, gap: u32, dep1: u16, dep2: u16, size: u8, kind: RecordKind) -> Record {
    Record { pc: VirtAddr(pc), va: VirtAddr(va), gap, dep1, dep2, size, kind }
}

fn champsim_sample() -> (Vec<u8>, Vec<Record>) {
    use RecordKind::*;
    let bytes = [
        instruction(0x1000, None, &[1], &[], &[], &[0x8000]), // r1 <- [0x8000]
        instruction(0x1004, None, &[2], &[1], &[], &[]),      // r2 <- f(r1)
        instruction(0x1008, None, &[3], &[2], &[], &[0x903e]), // r3 <- [r2]: after the first load, 2 bytes to the line's end
        instruction(0x100c, None, &[25], &[3, 1], &[], &[]),   // flags <- r3, r1
        instruction(0x1010, Some(true), &[26], &[25, 26], &[], &[]), // taken: after both
        instruction(0x1100, None, &[4, 6], &[3, 6], &[0xa000], &[0xa000]), // a load and a store, r4, stack pointer
        instruction(0x1104, None, &[], &[6], &[0xb000], &[]),  // the stack pointer carries no dependence
        instruction(0x1108, Some(false), &[26], &[4], &[], &[]),
        instruction(0xffff_8000_0000_1000, None, &[], &[], &[], &[0xffff_8000_0000_2000]),
    ]
    .concat();
    let records = vec![
        record(0x1000, 0x8000, 0, 0, 0, 8, Load),
        record(0x1008, 0x903e, 1, 1, 0, 2, Load),
        record(0x1010, 0x1100, 1, 1, 2, 0, BranchTaken),
        // The second load waits for the first, so its users need not.
        record(0x1100, 0xa000, 0, 2, 0, 8, Load),
        record(0x1100, 0xa000, 0, 3, 0, 8, Store),
        record(0x1104, 0xb000, 0, 0, 0, 8, Store),
        record(0x1108, 0, 0, 3, 0, 0, BranchNotTaken),
        record(0x8000_0000_1000, 0x8000_0000_2000, 0, 0, 0, 8, Load),
    ];
    (bytes, records)
}

#[test]
fn champsim_instructions_become_records() {
    let scratch = Scratch::new();
    let (bytes, records) = champsim_sample();
    let path = scratch.file("sample.trace", &bytes);
    assert_eq!(read(&path, &plain()).unwrap().records, records);
    // With synthesised mappings: text, data 0x8000 and 0x9000 share a region of 2 MiB; the kernel's
    // addresses another.
    let mapped = read(&path, &TraceOptions::default()).unwrap();
    assert_eq!(mapped.records, records);
    assert_eq!(mapped.events.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 7]);
    let small = TraceOptions { map_granularity: 4096, ..TraceOptions::default() };
    assert_eq!(read(&path, &small).unwrap().events.len(), 7);
    assert_eq!(info(&path, &TraceOptions::default()).unwrap().outside_mappings, 0);
}

#[test]
fn cloudsuite_instructions_are_of_processes() {
    let scratch = Scratch::new();
    let instruction = |ip: u64, asid: u8, branch: bool, store: u64, load: u64, to: u8, from: u8| {
        let mut bytes = [0; 96];
        bytes[..8].copy_from_slice(&ip.to_le_bytes());
        (bytes[8], bytes[9], bytes[13], bytes[17]) = (u8::from(branch), u8::from(branch), to, from);
        bytes[48..56].copy_from_slice(&store.to_le_bytes());
        bytes[80..88].copy_from_slice(&load.to_le_bytes());
        (bytes[88], bytes[89]) = (asid, asid);
        bytes
    };
    let bytes = [
        instruction(0x1000, 3, false, 0, 0x8000, 1, 0),
        instruction(0x1004, 3, false, 0x9000, 0xa000, 0, 1),
        instruction(0x1008, 5, false, 0, 0x8000, 2, 1),
        instruction(0x1010, 5, true, 0, 0, 26, 2),
        instruction(0x2000, 3, false, 0, 0xb000, 0, 1),
    ]
    .concat();
    let path = scratch.file("c.trace", &bytes);
    let all = read(&path, &plain()).unwrap();
    use RecordKind::*;
    let found: Vec<_> = all.records.iter().map(|r| (r.pc.0, r.va.0, r.dep1, r.kind)).collect();
    assert_eq!(
        found,
        [
            (0x1000, 0x8000, 0, Load),
            (0x1004, 0xa000, 1, Load),
            (0x1004, 0x9000, 2, Store),
            (0x1008, 0x8000, 0, Load),   // another process's registers
            (0x1010, 0, 1, BranchTaken), // where it goes is not known: another process comes next
            (0x2000, 0xb000, 0, Load),
        ]
    );
    let switch = |process| VmEvent::Switch { process: ProcessId(process), thread: 0 };
    assert_eq!(all.events, [(3, VmEvent::Fork { child: ProcessId(1) }), (3, switch(1)), (5, switch(0))]);
    let summary = info(&path, &TraceOptions::default()).unwrap();
    assert_eq!((summary.format, summary.processes, summary.outside_mappings), (TraceFormat::CloudSuite, 2, 0));
    assert!(
        error(&scratch.file("cut.trace", &bytes[..200])).contains("8 bytes at byte 192, where an instruction has 96")
    );
}

#[test]
fn compression_is_recognised_by_contents() {
    let scratch = Scratch::new();
    let (bytes, records) = champsim_sample();
    let raw = scratch.file("raw", &bytes);
    for (compression, packed) in [
        (Compression::Gzip, Some("gzip")),
        (Compression::Xz, Some("xz")),
        (Compression::Zstd, Some("zstd")),
        (Compression::None, None),
    ] {
        let (made, to) = (scratch.0.path().join("made"), scratch.0.path().join("misleading.amb"));
        let conversion = Conversion { format: TraceFormat::ChampSim, compression, ..Conversion::default() };
        convert(&raw, &made, &conversion).unwrap();
        std::fs::rename(&made, &to).unwrap();
        let summary = info(&to, &plain()).unwrap();
        assert_eq!((summary.compression, summary.format), (packed, TraceFormat::ChampSim));
        assert_eq!(read(&to, &plain()).unwrap().records.len(), records.len());
        if packed.is_some() {
            let whole = std::fs::read(&to).unwrap();
            let cut = scratch.file("cut", &whole[..whole.len() - 12]);
            let message = error(&cut);
            assert!(message.contains("cut") && message.contains("unpacked byte"), "{message}");
        }
    }
}

#[test]
fn a_written_champsim_trace_reads_back_equal() {
    let scratch = Scratch::new();
    let mut batch = generated(1);
    for record in &mut batch.records {
        // ChampSim cannot express sizes that cross a line, or a pc of 0.
        record.va.0 &= (1 << 40) - 8;
        record.va.0 |= 1 << 39;
    }
    batch.events.clear();
    let ours = scratch.file("ours.amb", &written(&batch, &[]));
    let theirs = scratch.0.path().join("theirs.trace");
    let conversion = Conversion { format: TraceFormat::ChampSim, reader: plain(), ..Conversion::default() };
    let report = convert(&ours, &theirs, &conversion).unwrap();
    assert_eq!((report.records, report.left_out), (batch.records.len() as u64, 0));
    let instructions: u64 = batch.records.iter().map(Record::instructions).sum();
    assert_eq!(report.bytes, 64 * instructions);
    let mut expected = batch.records;
    for i in 0..expected.len() {
        // A dependence on something that is not a load cannot be expressed either.
        let producer = i.checked_sub(usize::from(expected[i].dep1)).map(|p| expected[p].kind);
        if expected[i].dep1 > 0 && producer != Some(RecordKind::Load) {
            expected[i].dep1 = 0;
        }
    }
    assert_eq!(read(&theirs, &plain()).unwrap().records, expected);
}

#[test]
fn lackey_lines_become_records() {
    use RecordKind::*;
    let scratch = Scratch::new();
    let text = "==7== Lackey\nI  00001000,3\nI  00001003,4\n L 1ffeffe7e0,8\nI  00001007,2\n M \
    00008000,4\nI  00001009,1\nI  \
                0000100a,1\n S 0000803c,8\nI  0000100b,9\n S 00009000,100\n==7== done\n";
    let path = scratch.file("sample.txt", text.as_bytes());
    let expected = [
        record(0x1003, 0x1f_feff_e7e0, 1, 0, 0, 8, Load),
        record(0x1007, 0x8000, 0, 0, 0, 4, Load),
        record(0x1007, 0x8000, 0, 0, 0, 4, Store),
        record(0x100a, 0x803c, 0, 0, 0, 8, Store), // one of two: the instruction between pays for the read-modify-write
        record(0x100b, 0x9000, 0, 0, 0, 64, Store),
        record(0x100b, 0x9040, 0, 0, 0, 36, Store),
    ];
    assert_eq!(read(&path, &plain()).unwrap().records, expected);
    let message = error(&scratch.file("bad.txt", text.replace(" M 0000", " X 0000").as_bytes()));
    assert!(message.contains("line 6 (byte 71) is \" X 00008000,4\""), "{message}");
    let message = error(&scratch.file("long.txt", &[b"I  1,2\n".as_slice(), &[b'x'; 9000]].concat()));
    assert!(message.contains("line 2 (byte 7)"), "{message}");
}

#[test]
fn a_real_lackey_sample_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/true.lackey");
    let summary = info(&path, &TraceOptions::default()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count() as u64;
    assert_eq!(summary.format, TraceFormat::Lackey);
    assert_eq!(summary.loads, lines(" L") + lines(" M"));
    assert_eq!(summary.stores, lines(" S") + lines(" M"));
    // Instructions after the last record are not counted.
    assert!(summary.instructions <= lines("I") && summary.instructions + 10 > lines("I"), "{}", summary.instructions);
    assert_eq!((summary.damage, summary.outside_mappings), (None, 0));
}

#[test]
fn the_captured_trace_is_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb");
    let summary = info(&path, &TraceOptions::default()).unwrap();
    assert_eq!((summary.instructions, summary.region_instructions), (7_000_003, 7_000_003));
    assert_eq!((summary.damage, summary.outside_mappings, summary.notes), (None, 0, vec![]));
    assert_eq!(summary.blocks, summary.blocks_good);
    assert!(summary.bytes_per_access < 1.5 && summary.dependent * 2 > summary.records);
    let lines = head(&path, &TraceOptions::default(), 3).unwrap().lines;
    assert!(lines.iter().filter(|line| matches!(line, HeadLine::Record(_))).count() == 3);
    assert!(lines[0].to_string().starts_with("map "), "{}", lines[0]);
}

#[test]
fn files_that_are_not_traces_are_refused_with_a_reason() {
    let scratch = Scratch::new();
    assert!(error(&scratch.0.path().join("missing.amb")).contains("cannot be opened"));
    assert!(error(scratch.0.path()).contains("is a directory without files of a drmemtrace trace"));
    assert!(error(&scratch.file("empty", b"")).contains("is empty"));
    assert!(
        error(&scratch.file("elf", b"\x7fELF\x02\x01\x01 and so on")).contains("begins with the bytes 7f 45 4c 46")
    );
    assert!(error(&scratch.file("short", b"AMBTR")).contains("cut short"));
    let (bytes, _) = champsim_sample();
    let message = error(&scratch.file("cut.trace", &bytes[..150]));
    assert!(message.contains("22 bytes at byte 128"), "{message}");
    let mut damaged = bytes.clone();
    damaged[64 * 3 + 8] = 7;
    let message = error(&scratch.file("damaged.trace", &damaged));
    assert!(message.contains("instruction 3 at byte 192") && message.contains("is_branch is 7"), "{message}");
    let wrong = TraceOptions { map_granularity: 3000, va_bits: 99, ..TraceOptions::default() };
    assert_eq!(wrong.validate("trace").len(), 2);
    assert!(open_trace(scratch.0.path(), &wrong).err().unwrap().message.contains("trace.map_granularity"));
    #[cfg(unix)]
    assert!(error(Path::new("/dev/null")).contains("not a regular file"));
}

#[test]
fn a_converted_range_keeps_events_and_first_touches() {
    let scratch = Scratch::new();
    let batch = generated(1);
    let from = scratch.file("from.amb", &written(&batch, &[VmEvent::RegionBegin]));
    let to = scratch.0.path().join("to.amb");
    let conversion = Conversion { range: 20_000..20_010, ..Conversion::default() };
    let report = convert(&from, &to, &conversion).unwrap();
    assert_eq!(report.records, 10);
    let part = read(&to, &plain()).unwrap();
    assert_eq!(part.records.len(), 10);
    assert!(part.records.iter().enumerate().all(|(i, r)| usize::from(r.dep1) <= i), "no dependence crosses the cut");
    assert_eq!(part.records[5].va, batch.records[20_005].va);
    assert_eq!(part.events[0], (0, VmEvent::RegionBegin));
    assert!(part.events.iter().all(|(at, _)| *at == 0));
    let touched: u64 =
        part.events.iter().map(|(_, e)| if let VmEvent::Touch { len, .. } = e { len >> 12 } else { 0 }).sum();
    let mut pages: Vec<u64> = batch.records[..20_000].iter().map(|r| r.va.vpn().0).collect();
    pages.push(0x401);
    pages.extend([17, 5017, 10017, 15017]);
    // An access may reach into the next page.
    pages.extend(batch.records[..20_000].iter().map(|r| r.va.offset(7).vpn().0));
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(touched, pages.len() as u64);
}

#[test]
fn impossible_conversions_are_refused_and_leave_nothing() {
    let scratch = Scratch::new();
    let from = scratch.file("from.amb", &written(&generated(0), &[]));
    let message = |to: &Path, conversion: &Conversion| convert(&from, to, conversion).unwrap_err().message;
    assert!(message(&from, &Conversion::default()).contains("this file is an input"));
    let nowhere = scratch.0.path().join("no/such/directory.amb");
    assert!(message(&nowhere, &Conversion::default()).contains("cannot be written"));
    let to = scratch.0.path().join("to");
    let lackey = Conversion { format: TraceFormat::Lackey, ..Conversion::default() };
    assert!(message(&to, &lackey).contains("only read"));
    let mut damaged = std::fs::read(&from).unwrap();
    damaged[100] ^= 1;
    let damaged = scratch.file("damaged.amb", &damaged);
    assert!(convert(&damaged, &to, &Conversion::default()).unwrap_err().message.contains("block 0 at byte"));
    assert!(std::fs::read_dir(&scratch.0).unwrap().count() == 2, "only the two inputs are there");
    let summary = info(&damaged, &plain()).unwrap();
    assert!(summary.damage.unwrap().contains("damaged") && summary.blocks_good == Some(0));
}

#[test]
fn a_stopped_conversion_says_so_and_leaves_nothing() {
    let scratch = Scratch::new();
    let from = scratch.file("from.amb", &written(&generated(0), &[]));
    let conversion = Conversion { stop: std::sync::Arc::new(true.into()), ..Conversion::default() };
    let message = convert(&from, &scratch.0.path().join("to.amb"), &conversion).unwrap_err().message;
    assert!(message.contains("interrupted"), "{message}");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_conversion_follows_links_and_keeps_devices() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let from = scratch.file("from.amb", &written(&generated(0), &[]));
    let real = scratch.file("real.amb", b"what was there before");
    let (link, null) = (scratch.0.path().join("link.amb"), scratch.0.path().join("null.amb"));
    symlink("real.amb", &link).unwrap();
    symlink("/dev/null", &null).unwrap();
    let report = convert(&from, &link, &Conversion::default()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().len(), report.bytes);
    assert_eq!(convert(&from, &null, &Conversion::default()).unwrap().bytes, report.bytes);
    assert!(std::fs::symlink_metadata(&null).unwrap().is_symlink());
    #[cfg(target_os = "linux")]
    {
        let message = convert(&from, Path::new("/dev/full"), &Conversion::default()).unwrap_err().message;
        assert!(message.contains("/dev/full") && message.contains("No space left"), "{message}");
    }
}

#[test]
fn addresses_of_57_bits_are_kept_or_their_loss_is_reported() {
    let scratch = Scratch::new();
    let (wide, only_wide) = (0x12_3400_0000_8000u64, 1u64 << 52);
    let bytes =
        [instruction(0x1000, None, &[], &[], &[], &[wide]), instruction(0x1004, None, &[], &[], &[only_wide], &[])]
            .concat();
    let champsim = scratch.file("wide.trace", &bytes);
    let lackey = scratch.file("wide.lackey", b"I  1000,4\n L 12340000008000,8\nI  1004,4\n S 10000000000000,8\n");
    for path in [&champsim, &lackey] {
        let addresses = |va_bits, to: &str| {
            let to = scratch.0.path().join(to);
            let reader = TraceOptions { va_bits, ..TraceOptions::default() };
            let report = convert(path, &to, &Conversion { reader: reader.clone(), ..Conversion::default() }).unwrap();
            assert_eq!(info(path, &reader).unwrap().warnings, report.notes);
            assert_eq!(head(path, &reader, 9).unwrap().notes, report.notes);
            let records = read(&to, &plain()).unwrap().records;
            (records.iter().map(|record| record.va.0).collect::<Vec<_>>(), report.notes)
        };
        assert_eq!(addresses(57, "whole.amb"), (vec![wide, only_wide], vec![]));
        // An address that truncates to 0 is still an access.
        let (cut, notes) = addresses(48, "cut.amb");
        assert_eq!(cut, [wide & ((1 << 48) - 1), 0]);
        assert!(notes.len() == 1 && notes[0].contains("beyond the lowest 48, which were cut off: 2;"), "{notes:?}");
    }
}

#[test]
fn accesses_end_where_the_address_space_does() {
    let scratch = Scratch::new();
    let path = scratch.file("end.lackey", b"I  1000,4\n L ffffffffffffffff,8\n M ffffffffffc0,100\n");
    let all = read(&path, &TraceOptions::default()).unwrap();
    let accesses: Vec<_> = all.records.iter().map(|record| (record.va.0, record.size)).collect();
    assert_eq!(accesses, [(0xffff_ffff_ffff, 1), (0xffff_ffff_ffc0, 64), (0xffff_ffff_ffc0, 64)]);
    for (_, event) in &all.events {
        assert!(matches!(event, VmEvent::Map { start, len, .. } if start.0 + len <= 1 << 48), "{event:?}");
    }
    let notes = info(&path, &TraceOptions::default()).unwrap().warnings;
    assert!(notes.len() == 1 && notes[0].ends_with("left out: 2"), "{notes:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let device = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let spec = TraceWriterSpec::default();
    let written = TraceWriter::new(std::io::BufWriter::new(device), TraceHeader::default(), &spec)
        .and_then(|writer| writer.finish().map(|_| ()));
    let message = written.unwrap_err().message;
    assert!(message.contains("No space left"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_bytes_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..600), pick in 0usize..9) {
        let prefix: &[u8] = [b"".as_slice(), b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"AMBTRACE\x01\0\0\0", b"I  1,1\n", b"PK\x03\x04", b"\x04\x22\x4d\x18", b"\xff\x06\0\0sNaPpY"][pick];
        let bytes = [prefix, &bytes].concat();
        fuzz_trace(&bytes);
        fuzz_open(&bytes);
        fuzz_champsim(&bytes);
        fuzz_lackey(&bytes);
        fuzz_drmemtrace(&bytes);
        fuzz_gem5(&bytes);
        fuzz_perf(&bytes);
    }

    #[test]
    fn mutated_traces_of_other_formats_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0usize..8) {
        let (champsim, _) = champsim_sample();
        let text = b"I  00001000,3\n L 1ffeffe7e0,8\nI  00001007,2\n M 00008000,4\n".to_vec();
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamorio");
        let mut bytes = match which {
            0 => champsim,
            1 => text,
            2 => zstd::bulk::compress(&champsim, 3).unwrap(),
            3 => std::fs::read(real.join("drmemtrace.allasm_x86_64.trace.zip")).unwrap(),
            4 => std::fs::read(real.join("drmemtrace.small.x64.trace")).unwrap(),
            5 => b"gem5\x06\x18\x05 \xc0\x01\x08\x01\x10\x01\x18\x80\x80\x01 \x08".to_vec(),
            6 => b"app 1/1 1.000: mem-loads: 7f0000001000 1 |OP LOAD| 401000\napp 1/2 1.1: s: 12 34567\n".to_vec(),
            _ => zstd::bulk::compress(&text, 3).unwrap(),
        };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fuzz_open(&bytes);
    }
}

#[test]
fn a_new_traces_name_decides_its_compression_or_is_refused() {
    let scratch = Scratch::new();
    let (bytes, records) = champsim_sample();
    let from = scratch.file("from.trace", &bytes);
    let champsim = Conversion { format: TraceFormat::ChampSim, ..Conversion::default() };
    for (name, compression) in [
        ("a.champsim.gz", Compression::Gzip),
        ("a.XZ", Compression::Xz),
        ("a.zst", Compression::Zstd),
        ("a", Compression::None),
    ] {
        assert_eq!(Compression::of_name(Path::new(name), TraceFormat::ChampSim), Ok(compression), "{name}");
        let to = scratch.0.path().join(name);
        convert(&from, &to, &Conversion { compression, ..champsim.clone() }).unwrap();
        assert_eq!(Compression::of(&std::fs::read(&to).unwrap()), compression, "{name}");
        assert_eq!(read(&to, &plain()).unwrap().records.len(), records.len(), "{name}");
    }
    let refused = |name: &str, format| {
        let to = scratch.0.path().join(name);
        let message = convert(&from, &to, &Conversion { format, ..Conversion::default() }).unwrap_err().message;
        assert!(!to.exists() && message.contains(name), "{message}");
        message
    };
    assert!(refused("b.bz2", TraceFormat::ChampSim).contains("name the file .gz, .xz or .zst"));
    assert!(refused("b.xz", TraceFormat::Ambulator).contains("has its own compression"));
    assert!(refused("b.champsimtrace.xz", TraceFormat::Ambulator).contains("write `--format champsim`"));
    assert!(refused("b.amb", TraceFormat::ChampSim).contains("write `--format amb`"));
}

#[test]
fn a_range_that_the_trace_does_not_have_is_refused_or_noted() {
    let scratch = Scratch::new();
    let (bytes, records) = champsim_sample();
    let (from, to) = (scratch.file("from.trace", &bytes), scratch.0.path().join("to.amb"));
    let part = |range| convert(&from, &to, &Conversion { range, ..Conversion::default() });
    let all = records.len() as u64;
    for (range, sentence) in [
        (all..u64::MAX, "has 8 records, so nothing is left after the first 8"),
        (1000..2000, "has 8 records, so nothing is left after the first 1000"),
        (3..3, "keep at least 1"),
    ] {
        let message = part(range).unwrap_err().message;
        assert!(message.contains(sentence), "{message}");
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "only the input is there");
    }
    let report = part(all - 2..all + 8).unwrap();
    assert_eq!(report.records, 2);
    assert!(report.notes[0].contains("ends after 8 records, so 2 were kept of the 10 asked for"), "{:?}", report.notes);
    assert_eq!(part(0..u64::MAX).unwrap().notes, Vec::<String>::new());
}

#[test]
fn a_long_zstd_window_is_read_or_named() {
    use std::io::Write;
    let scratch = Scratch::new();
    let (bytes, records) = champsim_sample();
    let mut packer = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    packer.window_log(28).unwrap();
    packer.write_all(&bytes).unwrap();
    let packed = packer.finish().unwrap();
    assert_eq!(read(&scratch.file("long.zst", &packed), &plain()).unwrap().records, records);
    // A window of 4 GiB: 2^(10 + 22) bytes.
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let message = error(&scratch.file("longer.zst", &[&magic[..], &[0, 22 << 3], &[0; 20]].concat()));
    assert!(message.contains("needs a window of 4096 MiB in memory, and at most 2048 MiB are supported"), "{message}");
    assert!(
        message.contains("longer.zst") && message.contains("--long=31") && !message.contains("damaged"),
        "{message}"
    );
    // As a second frame, it is found later.
    let second = [&packed[..], &magic, &[0, 22 << 3], &[0; 20]].concat();
    let message = error(&scratch.file("second.zst", &second));
    assert!(message.contains("at most 2048 MiB are supported") && !message.contains("damaged"), "{message}");
}

#[test]
fn a_program_is_not_a_trace() {
    let this = std::env::current_exe().unwrap();
    for path in [this.as_path(), Path::new("/bin/ls")] {
        let message = info(path, &TraceOptions::default()).unwrap_err().message;
        assert!(
            message.contains("is not a trace of a known format: it begins with the bytes 7f 45 4c 46"),
            "{message}"
        );
    }
}

#[test]
fn options_for_foreign_formats_are_refused_for_our_own() {
    let scratch = Scratch::new();
    let ours = scratch.file("ours.amb", &written(&generated(0), &[]));
    for (options, key) in [
        (TraceOptions { va_bits: 57, ..TraceOptions::default() }, "omit va_bits"),
        (TraceOptions { map_granularity: 4096, ..TraceOptions::default() }, "omit map_granularity"),
    ] {
        let message = read(&ours, &options).unwrap_err().message;
        assert!(message.contains("is an Ambulator trace") && message.contains(key), "{message}");
    }
    let both = TraceOptions { map_granularity: 4096, ..plain() };
    assert!(both.validate("trace")[0].to_string().contains("`trace.implicit_maps` is false"));
}

#[test]
fn a_trace_that_is_cut_short_while_it_is_read_is_an_error() {
    let scratch = Scratch::new();
    let ours = scratch.file("ours.amb", &written(&generated(0), &[]));
    // More than is read ahead.
    let load = instruction(0x40_1000, None, &[1], &[2], &[], &[0x8000]);
    let theirs = scratch.file("theirs.champsim", &load.repeat(50_000));
    for path in [ours, theirs] {
        let mut source = open_trace(&path, &plain()).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
        let mut batch = Batch::default();
        let error = loop {
            match source.fill(&mut batch) {
                Ok(true) => {}
                Ok(false) => panic!("{}: the end came without an error", path.display()),
                Err(error) => break error.message,
            }
        };
        assert!(error.contains("cut short while it was read"), "{error}");
    }
}
