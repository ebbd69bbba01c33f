//! Prints nanoseconds (of the sim host) per operation of the allocator and of simulated memory. Run it in
//! release: `cargo run --release -p ambulator-memory --example frames_bench`.

use ambulator_base::{Pfn, PhysAddr, Random};
use ambulator_memory::{BuddyAllocator, BuddySpec, FragmentSpec, PhysicalMemory, PressureSpec, fragment, press};
use std::time::Instant;

/// Runs `work` and prints its time, in total or per operation.
fn timed<T>(what: &str, operations: u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = std::hint::black_box(work());
    let nanoseconds = start.elapsed().as_nanos() as f64;
    if operations == 1 {
        println!("{what:<58} {:>9.2} ms", nanoseconds / 1e6);
    } else {
        println!("{what:<58} {:>9.2} ns", nanoseconds / operations as f64);
    }
    result
}

fn allocator(max_order: u32) {
    const FRAMES: u64 = 32 << 20;
    let spec = BuddySpec { max_order, ..BuddySpec::default() };
    println!("allocator, 128 GiB, max_order {max_order}");
    let mut frames = timed("  construct", 1, || BuddyAllocator::new(&spec, FRAMES));
    let n = 16 << 20;
    timed("  allocate(0), fresh memory", n, || (0..n).for_each(|_| assert!(frames.allocate(0).is_some())));
    timed("  free(0), ascending", n, || (0..n).for_each(|i| frames.free(Pfn(256 + i), 0)));
    timed("  allocate(9)", 16384, || (0..16384).for_each(|_| assert!(frames.allocate(9).is_some())));
    timed("  free(9)", 16384, || (1..16384).for_each(|i| frames.free(Pfn(i << 9), 9)));
    let mut random = Random::new(1);
    let places: Vec<Pfn> = (0..4 << 20).map(|_| Pfn(random.below(FRAMES))).collect();
    let n = places.len() as u64;
    let mut got: Vec<Pfn> = Vec::with_capacity(places.len());
    timed("  allocate_at(0), random", n, || got.extend(places.iter().filter(|p| frames.allocate_at(**p, 0))));
    timed("  is_free, random", n, || places.iter().filter(|p| frames.is_free(**p)).count());
    timed("  is_block_free(9), random", n, || {
        places.iter().filter(|p| frames.is_block_free(Pfn(p.0 >> 9 << 9), 9)).count()
    });
    timed("  free(0), random", got.len() as u64, || got.iter().for_each(|p| frames.free(*p, 0)));
    for fmfi in [0.7, 1.0] {
        let spec = FragmentSpec { fmfi, free_share: 0.5, ..FragmentSpec::default() };
        let mut worn = frames.clone();
        let report = timed("  fragment", 1, || fragment(&mut worn, &spec, &mut random));
        println!("    requested {fmfi} at 0.5 free, reached {:.5} at {:.5} free", report.fmfi[9], report.free_share);
        let n = worn.free_frames();
        timed("  contiguity", 1, || worn.contiguity());
        timed("  allocate(0), all free frames of fragmented memory", n, || {
            (0..n).for_each(|_| assert!(worn.allocate(0).is_some()))
        });
    }
    let mut worn = frames.clone();
    timed("  press to 0.8", 1, || press(&mut worn, &PressureSpec { pressure: 0.8 }, &mut random));
}

fn memory(written: u64, total: u64) {
    println!("memory, {written} written frames spread over {} GiB", total >> 30);
    let mut memory = match PhysicalMemory::new(total) {
        Ok(memory) => memory,
        Err(error) => return println!("{error}"),
    };
    let apart = total / written;
    timed("  first write of a frame, and 511 more words", written, || {
        for frame in 0..written {
            (0..512).for_each(|word| memory.write(PhysAddr(frame * apart + word * 8), word << 40));
        }
    });
    let mut random = Random::new(1);
    let places: Vec<PhysAddr> =
        (0..1 << 22).map(|_| PhysAddr(random.below(written) * apart + random.below(512) * 8)).collect();
    let n = places.len() as u64;
    timed("  read, random, independent", n, || places.iter().fold(0u64, |sum, p| sum ^ memory.read(*p)));
    timed("  read, random, dependent", n, || {
        places.iter().fold(0u64, |sum, p| memory.read(PhysAddr(p.0 ^ (sum >> 40 & 1) << 3)))
    });
    timed("  read, random, dependent, prefetched 8 ahead", n, || {
        places.iter().zip(&places[8..]).fold(0u64, |sum, (p, ahead)| {
            memory.prefetch(*ahead);
            memory.read(PhysAddr(p.0 ^ (sum >> 40 & 1) << 3))
        })
    });
    timed("  set_bits, random", n, || places.iter().for_each(|p| memory.set_bits(*p, 1 << 5)));
}

fn main() {
    allocator(11);
    allocator(20);
    memory(32768, 64 << 30);
    memory(4096, 8 << 30);
    memory(16, 1 << 30);
}
