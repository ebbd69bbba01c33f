//! Signatures of intervals: how soon a program returns to its pages, and where in memory it works. They take
//! the place of SimPoint's vectors of basic blocks (Sherwood et al., ASPLOS 2002), because what a page is
//! worth to a TLB does not show in code: a loop has the same blocks over a small array and over a large one.
//! Working sets as signatures are those of Dhodapkar and Smith (ISCA 2002).

use ambulator_base::{ProcessId, Record};
use std::ops::Range;

/// Bits of an offset in a page of 4 KiB, and of 2 MiB.
const SMALL: u32 = 12;
const LARGE: u32 = 21;
/// Bins of a histogram of reuse: the page of the access before; 1, 2 to 3, 4 to 7, ... other visits since the
/// last one; more than a table remembers, or never.
const REUSE: usize = 18;
/// Bins of 2 MiB regions, and of pages of code, by hash.
const REGIONS: usize = 32;
const CODE: usize = 16;
/// Pages that a table remembers: beyond the reach of any TLB.
const REMEMBERED: usize = 1 << 16;

/// Numbers of a signature.
pub(super) const LENGTH: usize = 2 * REUSE + REGIONS + CODE;
/// What they are of: each part counts for as much as the others, whatever its unit.
pub(super) const PARTS: [Range<usize>; 4] =
    [0..REUSE, REUSE..2 * REUSE, 2 * REUSE..2 * REUSE + REGIONS, 2 * REUSE + REGIONS..2 * REUSE + REGIONS + CODE];

/// A signature: events for each instruction.
pub(super) type Signature = [f32; LENGTH];

/// A place's hash: its upper bits are the best.
#[inline(always)]
fn hash(place: u64) -> u64 {
    place.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// When pages of one size were last visited. A visit ends with an access to another page.
#[derive(Debug)]
struct Visits {
    /// The page of the access before.
    current: u64,
    visits: u64,
    /// Page and time of its last visit, by the page's hash.
    table: Vec<(u64, u64)>,
}

impl Visits {
    fn new() -> Visits {
        Visits { current: u64::MAX, visits: 0, table: vec![(u64::MAX, 0); REMEMBERED] }
    }

    /// The bin of an access.
    #[inline(always)]
    fn bin(&mut self, page: u64) -> usize {
        if page == self.current {
            return 0;
        }
        self.current = page;
        self.visits += 1;
        let slot = &mut self.table[(hash(page) >> 48) as usize];
        let (before, last) = std::mem::replace(slot, (page, self.visits));
        if before == page { ((self.visits - last).ilog2() as usize + 1).min(REUSE - 2) } else { REUSE - 1 }
    }
}

/// Makes the signatures of a stream.
#[derive(Debug)]
pub(super) struct Signer {
    small: Visits,
    large: Visits,
    code: u64,
    /// Distinguishes the pages of processes.
    process: u64,
    counts: [u32; LENGTH],
}

impl Signer {
    pub fn new() -> Signer {
        Signer { small: Visits::new(), large: Visits::new(), code: u64::MAX, process: 0, counts: [0; LENGTH] }
    }

    /// The following records are of this process.
    pub fn switch(&mut self, process: ProcessId) {
        self.process = u64::from(process.0) << 52;
    }

    /// A record.
    #[inline(always)]
    pub fn record(&mut self, record: &Record) {
        let code = self.process ^ (record.pc.0 >> SMALL);
        if code != self.code {
            self.code = code;
            self.counts[2 * REUSE + REGIONS + (hash(code) >> 60) as usize] += 1;
        }
        if !record.is_data() {
            return;
        }
        self.counts[self.small.bin(self.process ^ (record.va.0 >> SMALL))] += 1;
        let region = self.process ^ (record.va.0 >> LARGE);
        let bin = self.large.bin(region);
        self.counts[REUSE + bin] += 1;
        if bin > 0 {
            self.counts[2 * REUSE + (hash(region) >> 59) as usize] += 1;
        }
    }

    /// The signature of the interval that ends here, of that many instructions; the next one begins.
    pub fn take(&mut self, instructions: u64) -> Signature {
        let counts = std::mem::replace(&mut self.counts, [0; LENGTH]);
        counts.map(|count| (f64::from(count) / instructions.max(1) as f64) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{RecordKind, VirtAddr};

    fn load(va: u64) -> Record {
        Record { pc: VirtAddr(0x40_0000), va: VirtAddr(va), size: 8, kind: RecordKind::Load, ..Record::default() }
    }

    fn signature(addresses: impl Iterator<Item = u64>) -> Signature {
        let mut signer = Signer::new();
        let mut count = 0;
        for va in addresses {
            signer.record(&load(va));
            count += 1;
        }
        signer.take(count)
    }

    #[test]
    fn the_histogram_is_that_of_visits_since_the_last_one() {
        // Round and round over five pages, two accesses each: every second access returns after five visits.
        let round = signature((0..1000).map(|i| (i / 2 % 5) << 12));
        assert!((round[0] - 0.5).abs() < 0.001, "{round:?}");
        assert!((round[3] - 0.495).abs() < 0.001, "4 to 7 visits: {round:?}");
        assert!((round[REUSE - 1] - 0.005).abs() < 0.001, "five first visits: {round:?}");
        // All of them are in one region of 2 MiB, which is entered once.
        assert!(
            (round[REUSE] - 0.999).abs() < 0.0011 && round[2 * REUSE..2 * REUSE + REGIONS].iter().sum::<f32>() < 0.002
        );
        assert!((round[..REUSE].iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_small_and_a_large_array_differ_by_reuse_alone() {
        let near = signature((0..20_000).map(|i| (i * 7919 % 16) << 12));
        let far = signature((0..20_000).map(|i| (i * 7919 % 8192) << 12));
        let mean = |of: &Signature| {
            let sum: f32 = of[1..REUSE].iter().sum();
            of[1..REUSE].iter().enumerate().map(|(bin, share)| bin as f32 * share).sum::<f32>() / sum
        };
        assert!(mean(&far) > mean(&near) + 5.0, "{} and {}", mean(&near), mean(&far));
        assert_eq!(PARTS.iter().map(Range::len).sum::<usize>(), LENGTH);
    }

    #[test]
    fn processes_have_pages_of_their_own() {
        let mut signer = Signer::new();
        for turn in 0..100u32 {
            signer.switch(ProcessId(turn % 2));
            signer.record(&load(0x1000));
        }
        let of = signer.take(100);
        assert!(of[0] == 0.0 && (of[2] - 0.98).abs() < 0.001, "each returns to its own: {of:?}");
    }
}
