//! Page tables that run out of memory.

use super::model::Process;
use super::{Options, Summary, TestBed};
use ambulator_base::{Asid, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, Protection, Random, VirtAddr};
use ambulator_os::{Footprint, MapError, Mapping, PteFlags};
use ambulator_sockets::DesignParts;

/// The smallest memory tried: the frames that the allocator reserves, and 512 KiB.
const SMALLEST: u64 = 3 << 19;
/// The largest memory tried for an empty table.
const LARGEST: u64 = 64 << 20;
/// Attempts after which memory must have run out.
const MAX_ATTEMPTS: u64 = 1 << 20;
/// Failures to check.
const FAILURES: u64 = 24;
/// Pages looked up after a failure.
const LOOKUPS: usize = 64;

pub fn run(make: &mut dyn FnMut() -> DesignParts, options: &Options, summary: &mut Summary) -> Result<(), String> {
    let mut bytes = SMALLEST;
    loop {
        let mut bed = TestBed::new(bytes).map_err(|error| error.to_string())?;
        let mut parts = make();
        if !parts.boot.into_iter().all(|boot| boot(&mut bed.frames)) && bytes < LARGEST {
            bytes *= 2;
            continue;
        }
        let free = bed.frames.free_frames();
        match parts.translations.new_process(ProcessId(0), Asid(1), &mut bed.os()) {
            Ok(translations) => return exhaust(Process::new(translations, Asid(1)), bed, free, options, summary),
            Err(MapError::NoMemory { .. }) if bytes < LARGEST => {
                if bed.frames.free_frames() != free {
                    return Err(format!(
                        "a table that could not be created leaked {} frames",
                        free - bed.frames.free_frames()
                    ));
                }
                bytes *= 2;
            }
            Err(error) => {
                return Err(format!("no table fits into {bytes} bytes of memory: {error:?}"));
            }
        }
    }
}

fn exhaust(
    mut process: Process,
    mut bed: TestBed,
    free: u64,
    options: &Options,
    summary: &mut Summary,
) -> Result<(), String> {
    let mut random = Random::for_purpose(options.seed, "scarce");
    let pages = 1u64 << (options.va_bits - 12);
    let mut failures = 0;
    for attempt in 0.. {
        if failures == FAILURES {
            break;
        }
        if attempt == MAX_ATTEMPTS {
            return Err(format!(
                "{MAX_ATTEMPTS} pages over the whole address space fit into a table in {} bytes of memory",
                bed.memory.bytes()
            ));
        }
        let start = VirtAddr(random.below(pages) << 12);
        let page = Page { start, size: PageSize::SIZE_4K };
        if process.overlaps(page) {
            continue;
        }
        let mapping =
            Mapping { page, frame: Pfn(random.below(1 << 32)), flags: PteFlags::user(Protection::READ_WRITE) };
        let before = (bed.frames.free_frames(), process.translations.footprint());
        match process.translations.map(mapping, &mut bed.os()) {
            Ok(()) => {
                process.pages.insert(start.0, mapping);
                summary.maps += 1;
            }
            Err(MapError::NoMemory { .. }) => {
                failures += 1;
                summary.failures += 1;
                let after = (bed.frames.free_frames(), process.translations.footprint());
                let held = |(free, footprint): (u64, Footprint)| free + footprint.bytes / FRAME_BYTES;
                let same = before.0 == after.0 || (options.resizes_on_failure && options.exact_footprint);
                if !same || held(before) != held(after) || before.1.entries != after.1.entries {
                    return Err(format!(
                        "a map of {page:?} without memory changed free frames and footprint from {before:?} to \
                         {after:?}"
                    ));
                }
                process.check_lookup(start, &bed)?;
                let from = random.below(1 << options.va_bits);
                let sample = process.pages.range(from..).take(LOOKUPS);
                for va in sample.map(|(&va, _)| VirtAddr(va)).collect::<Vec<_>>() {
                    process.check_lookup(va, &bed)?;
                }
            }
            Err(error) => return Err(format!("map of {page:?}: {error:?}")),
        }
    }
    for mapping in std::mem::take(&mut process.pages).into_values() {
        let found = process.translations.unmap(mapping.page, &mut bed.os());
        if found != Some(mapping) {
            return Err(format!("unmap after memory ran out returned {found:?} instead of {mapping:?}"));
        }
    }
    process.translations.destroy(&mut bed.os());
    if bed.frames.free_frames() != free {
        return Err(format!(
            "after memory ran out and the table was destroyed, only {} of {free} frames are free",
            bed.frames.free_frames()
        ));
    }
    Ok(())
}
