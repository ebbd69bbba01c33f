//! The pages that a skipped part of a program touched, in the program's order of first touch.

use ambulator_base::{Advice, FRAME_BYTES, FRAME_SHIFT, VirtAddr, VmEvent};
use rustc_hash::FxHashMap;

/// log2 of the 4 KiB pages that one bitmap covers (2 MiB).
const REGION_SHIFT: u32 = 9;

/// Touch events above 1 TiB are not tracked page by page: no modelled machine has that much memory.
const LARGEST_TOUCH: u64 = 1 << 40;

/// Collects first touches of 4 KiB pages and coalesces ascending contiguous ones into [`VmEvent::Touch`]
/// runs.
///
/// Used where records are omitted (before a captured window, before a conversion's range), so that the OS
/// still sees the program's order of first touch.
#[derive(Debug, Default)]
pub struct FirstTouches {
    seen: FxHashMap<u64, [u64; 1 << (REGION_SHIFT - 6)]>,
    /// Pages touched before the latest fork and not written since: a write to one copies it, so it is
    /// recorded.
    shared: FxHashMap<u64, [u64; 1 << (REGION_SHIFT - 6)]>,
    pages: u64,
    /// The page touched last, and whether it was written.
    last: Option<(u64, bool)>,
    run: Option<(u64, u64, bool)>,
}

impl FirstTouches {
    /// Records an access of `bytes` at `va` (at most 4 KiB; pass a longer range page by page). Returns the
    /// run of earlier touches that it ends, which the caller must emit first.
    #[inline]
    pub fn touch(&mut self, va: VirtAddr, bytes: u64, write: bool) -> Option<VmEvent> {
        debug_assert!(bytes <= FRAME_BYTES, "{bytes} bytes may end more than one run");
        let first = va.0 >> FRAME_SHIFT;
        let last = va.0.saturating_add(bytes.max(1) - 1) >> FRAME_SHIFT;
        if first == last && (self.last == Some((first, true)) || self.last == Some((first, write))) {
            return None;
        }
        self.last = Some((last, write));
        let ended = self.touch_page(first, write);
        // A second page extends the first's run, or the first was already touched: at most one run ends.
        if last == first { ended } else { ended.or(self.touch_page(last, write)) }
    }

    fn touch_page(&mut self, page: u64, write: bool) -> Option<VmEvent> {
        let region = self.seen.entry(page >> REGION_SHIFT).or_default();
        let within = page & ((1 << REGION_SHIFT) - 1);
        let (word, bit) = ((within / 64) as usize, 1 << (within % 64));
        if region[word] & bit != 0 {
            return None;
        }
        if !write && self.shared.get(&(page >> REGION_SHIFT)).is_some_and(|region| region[word] & bit != 0) {
            return None;
        }
        region[word] |= bit;
        self.pages += 1;
        match &mut self.run {
            Some((_, end, kind)) if *end == page && *kind == write => {
                *end += 1;
                None
            }
            _ => {
                let ended = self.take_run();
                self.run = Some((page, page + 1, write));
                ended
            }
        }
    }

    /// Takes the pending run; call it before each VM event and at the end.
    pub fn take_run(&mut self) -> Option<VmEvent> {
        let run = self.run();
        self.run = None;
        run
    }

    /// The pending run.
    pub fn run(&self) -> Option<VmEvent> {
        self.run.map(|(start, end, write)| VmEvent::Touch {
            start: VirtAddr(start << FRAME_SHIFT),
            len: (end - start) << FRAME_SHIFT,
            write,
        })
    }

    /// Records a VM event: unmapped pages will be touched again, moved pages count as touched at their new
    /// address, and after a fork the first write to each page counts again. Returns the run to emit before
    /// the event.
    pub fn event(&mut self, event: &VmEvent) -> Option<VmEvent> {
        let run = self.take_run();
        self.last = None;
        match *event {
            VmEvent::Unmap { start, len }
            | VmEvent::Map { start, len, .. }
            | VmEvent::Advise { start, len, advice: Advice::DontNeed } => {
                self.clear(start.0, len, None);
            }
            VmEvent::Remap { old, old_len, new, new_len } => {
                if new != old {
                    self.clear(new.0, new_len, None);
                    self.clear(old.0, old_len, Some((new.0, new_len)));
                } else if new_len < old_len {
                    self.clear(old.0 + new_len, old_len - new_len, None);
                }
            }
            VmEvent::Touch { start, len, .. } if len <= LARGEST_TOUCH => self.mark(start.0, len),
            VmEvent::Fork { .. } => {
                for (region, bits) in self.seen.drain() {
                    let shared = self.shared.entry(region).or_default();
                    shared.iter_mut().zip(bits).for_each(|(shared, bits)| *shared |= bits);
                }
            }
            _ => {}
        }
        run
    }

    /// Distinct pages touched so far, pages touched again after an unmap counted again.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    fn mark(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        for page in start >> FRAME_SHIFT..=start.saturating_add(len - 1) >> FRAME_SHIFT {
            let region = self.seen.entry(page >> REGION_SHIFT).or_default();
            let within = page & ((1 << REGION_SHIFT) - 1);
            let (word, bit) = ((within / 64) as usize, 1 << (within % 64));
            self.pages += u64::from(region[word] & bit == 0);
            region[word] |= bit;
        }
    }

    /// Forgets the touched pages of a range; with `moved_to`, marks those that fit at their new address.
    fn clear(&mut self, start: u64, len: u64, moved_to: Option<(u64, u64)>) {
        if len == 0 {
            return;
        }
        let (first, last) = (start >> FRAME_SHIFT, start.saturating_add(len - 1) >> FRAME_SHIFT);
        // Unmapped pages are no longer shared; moved pages count as touched at their new address.
        if !self.shared.is_empty() {
            let shared: Vec<u64> = self.shared.keys().copied().collect();
            for region in shared {
                let from = first.max(region << REGION_SHIFT);
                for page in from..(last + 1).min((region + 1) << REGION_SHIFT) {
                    let within = page & ((1 << REGION_SHIFT) - 1);
                    let bits = self.shared.entry(region).or_default();
                    let (word, bit) = ((within / 64) as usize, 1 << (within % 64));
                    if bits[word] & bit != 0 {
                        bits[word] &= !bit;
                        if moved_to.is_some() {
                            self.seen.entry(region).or_default()[word] |= bit;
                        }
                    }
                }
            }
        }
        // A huge range with few touched regions must not cost one step per page.
        let mut regions: Vec<u64> = if (last - first) >> REGION_SHIFT < self.seen.len() as u64 {
            (first >> REGION_SHIFT..=last >> REGION_SHIFT).collect()
        } else {
            self.seen.keys().copied().collect()
        };
        regions.sort_unstable();
        let mut moved = Vec::new();
        for region in regions {
            let Some(bits) = self.seen.get_mut(&region) else {
                continue;
            };
            for within in 0..1u64 << REGION_SHIFT {
                let page = (region << REGION_SHIFT) + within;
                let (word, bit) = ((within / 64) as usize, 1 << (within % 64));
                if (first..=last).contains(&page) && bits[word] & bit != 0 {
                    bits[word] &= !bit;
                    moved.push(page - first);
                }
            }
        }
        if let Some((to, bytes)) = moved_to {
            for offset in moved {
                if offset << FRAME_SHIFT < bytes {
                    self.mark(to + (offset << FRAME_SHIFT), 1);
                    self.pages -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(start: u64, pages: u64, write: bool) -> VmEvent {
        VmEvent::Touch { start: VirtAddr(start << 12), len: pages << 12, write }
    }

    #[test]
    fn ascending_first_touches_coalesce_and_repeats_are_dropped() {
        let mut touches = FirstTouches::default();
        for page in [10, 11, 10, 12] {
            assert_eq!(touches.touch(VirtAddr(page << 12), 8, true), None);
        }
        assert_eq!(touches.touch(VirtAddr(5 << 12), 8, true), Some(touch(10, 3, true)));
        assert_eq!(touches.touch(VirtAddr((6 << 12) - 4), 8, true), None);
        assert_eq!(touches.touch(VirtAddr(7 << 12), 8, false), Some(touch(5, 2, true)));
        assert_eq!(touches.take_run(), Some(touch(7, 1, false)));
        assert_eq!(touches.pages(), 6);
    }

    #[test]
    fn unmapped_pages_are_touched_again_and_moved_pages_are_not() {
        let mut touches = FirstTouches::default();
        for page in 16..20 {
            touches.touch(VirtAddr(page << 12), 1, true);
        }
        let unmap = VmEvent::Unmap { start: VirtAddr(16 << 12), len: 4096 };
        assert_eq!(touches.event(&unmap), Some(touch(16, 4, true)));
        touches.touch(VirtAddr(16 << 12), 1, true);
        let remap =
            VmEvent::Remap { old: VirtAddr(17 << 12), old_len: 3 << 12, new: VirtAddr(1 << 40), new_len: 8 << 12 };
        assert_eq!(touches.event(&remap), Some(touch(16, 1, true)));
        assert_eq!(touches.touch(VirtAddr((1 << 40) + 4096), 1, true), None);
        assert_eq!(touches.take_run(), None, "the page moved with its contents");
        touches.touch(VirtAddr(18 << 12), 1, true);
        assert_eq!(touches.take_run(), Some(touch(18, 1, true)));
    }

    #[test]
    fn after_a_fork_first_writes_count_again_and_reads_do_not() {
        let mut touches = FirstTouches::default();
        for page in 16..20 {
            touches.touch(VirtAddr(page << 12), 1, true);
        }
        let fork = VmEvent::Fork { child: ambulator_base::ProcessId(1) };
        assert_eq!(touches.event(&fork), Some(touch(16, 4, true)));
        touches.touch(VirtAddr(16 << 12), 1, false);
        assert_eq!(touches.take_run(), None, "a read of a present page is not recorded");
        touches.touch(VirtAddr(16 << 12), 1, true);
        touches.touch(VirtAddr(16 << 12), 1, true);
        assert_eq!(touches.take_run(), Some(touch(16, 1, true)), "its first write after the fork is");
        touches.event(&VmEvent::Unmap { start: VirtAddr(17 << 12), len: 4096 });
        touches.touch(VirtAddr(17 << 12), 1, false);
        assert_eq!(touches.take_run(), Some(touch(17, 1, false)));
        touches.touch(VirtAddr(30 << 12), 1, false);
        assert_eq!(touches.take_run(), Some(touch(30, 1, false)));
    }

    #[test]
    fn a_range_of_the_whole_address_space_is_cheap() {
        let mut touches = FirstTouches::default();
        touches.touch(VirtAddr(1 << 12), 1, true);
        touches.event(&VmEvent::Unmap { start: VirtAddr(0), len: 1 << 57 });
        touches.touch(VirtAddr(1 << 12), 1, true);
        assert_eq!(touches.take_run(), Some(touch(1, 1, true)));
    }
}
