//! Tables in a memory that runs out.

use super::model::Process;
use super::{Options, Summary, TestBed};
use ambulator_base::{Asid, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, Protection, Random, VirtAddr};
use ambulator_os::{Footprint, MapError, Mapping, PteFlags};
use ambulator_sockets::DesignParts;

/// The least memory that is tried: what the allocator reserves, and 512 KiB.
const LEAST: u64 = 3 << 19;
/// The most memory that is tried for a table to begin in.
const MOST: u64 = 64 << 20;
/// Maps after which memory must have run out.
const MANY: u64 = 1 << 20;
/// Failures that are looked at.
const FAILURES: u64 = 24;
/// Pages that are looked up after a failure.
const LOOKUPS: usize = 64;

pub fn run(make: &mut dyn FnMut() -> DesignParts, options: &Options, summary: &mut Summary) -> Result<(), String> {
    let mut bytes = LEAST;
    loop {
        let mut bed = TestBed::new(bytes)?;
        let mut parts = make();
        if !parts.boot.into_iter().all(|boot| boot(&mut bed.frames)) && bytes < MOST {
            bytes *= 2;
            continue;
        }
        let free = bed.frames.free_frames();
        match parts.translations.new_process(ProcessId(0), Asid(1), &mut bed.os()) {
            Ok(translations) => return exhaust(Process::new(translations, Asid(1)), bed, free, options, summary),
            Err(MapError::NoMemory { .. }) if bytes < MOST => {
                if bed.frames.free_frames() != free {
                    return Err(format!(
                        "a table that found no memory to begin in kept {} frames",
                        free - bed.frames.free_frames()
                    ));
                }
                bytes *= 2;
            }
            Err(error) => {
                return Err(format!("no table in {bytes} bytes of memory: {error:?}"));
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
        if attempt == MANY {
            return Err(format!(
                "{MANY} pages over the whole address space fit a table into {} bytes of memory",
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
                        "a map of {page:?} that found no memory changed free frames and footprint from {before:?} to {after:?}"
                    ));
                }
                process.check_lookup(start, &bed)?;
                let from = random.below(1 << options.va_bits);
                let some = process.pages.range(from..).take(LOOKUPS);
                for va in some.map(|(&va, _)| VirtAddr(va)).collect::<Vec<_>>() {
                    process.check_lookup(va, &bed)?;
                }
            }
            Err(error) => return Err(format!("map of {page:?}: {error:?}")),
        }
    }
    for mapping in std::mem::take(&mut process.pages).into_values() {
        let said = process.translations.unmap(mapping.page, &mut bed.os());
        if said != Some(mapping) {
            return Err(format!("unmap after memory ran out says {said:?}, and it must be {mapping:?}"));
        }
    }
    process.translations.destroy(&mut bed.os());
    if bed.frames.free_frames() != free {
        return Err(format!(
            "after memory ran out and the table went, {} of {free} frames are free",
            bed.frames.free_frames()
        ));
    }
    Ok(())
}
