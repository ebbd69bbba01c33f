//! The bytes of the simulated machine.

use crate::huge_words;
use ambulator_base::{Archive, FRAME_BYTES, LINE_BYTES, PhysAddr, State, prefetch_sim_host};
use memmap2::MmapMut;

/// The largest memory of a simulated machine: 16 TiB.
pub const MAX_BYTES: u64 = 16 << 40;

/// Bytes of a slot number in the index.
const ENTRY: usize = 4;
/// Bytes of a frame and of a slot.
const FRAME: usize = FRAME_BYTES as usize;
/// The slot of all frames that were never written. It stays zero.
const UNTOUCHED: u32 = 0;

/// The slot that stores the bytes of a written frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct FrameSlot(u32);

/// Why a physical memory cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The size is invalid.
    #[error(
        "a physical memory cannot have {bytes} bytes: the size must be a positive multiple of 4096, at most 16 TiB"
    )]
    Size {
        /// The requested size.
        bytes: u64,
    },
    /// The operating system of the sim host refused the address space.
    #[error(
        "the operating system refused {bytes} bytes of address space for the simulated memory ({cause}): \
         raise the limit on address space (ulimit -v), or give the simulated machine less memory"
    )]
    AddressSpace {
        /// The requested size.
        bytes: u64,
        /// The operating system's error.
        cause: std::io::Error,
    },
}

/// Simulated physical memory, initially zero. Only frames that were written take memory of the sim host: 4
/// KiB each, plus 4 bytes in an index. (Both grow in pages of the sim host, 2 MiB if it has huge pages.)
///
/// Only translation structures live here. The data of simulated programs has addresses but no bytes.
///
/// Written frames lie densely in slots, in the order of their first write. An index maps a frame to its slot.
/// Table frames are scattered among data frames, typically one in 512. In one sparse mapping each of them
/// would cost the sim host a TLB miss and a page-table page; slots pack into its huge pages. Measured with
/// 32,768 written frames spread over 64 GiB (`examples/frames_bench.rs`): a dependent random read takes 150
/// ns in slots and 240 to 270 ns in a sparse mapping.
///
/// An address past the end violates an invariant of the caller and panics.
#[derive(Debug)]
pub struct PhysicalMemory {
    /// By frame: its slot as a little-endian `u32`, or [`UNTOUCHED`].
    index: MmapMut,
    /// By slot: its 4096 bytes.
    slots: MmapMut,
    /// The first slot that was never used.
    fresh: u32,
    /// Free slots below `fresh`. Their bytes are stale.
    spare: Vec<u32>,
}

fn reserve(bytes: u64, len: u64) -> Result<MmapMut, MemoryError> {
    let len = usize::try_from(len).map_err(|_| MemoryError::Size { bytes })?;
    huge_words::reserve(len).map_err(|cause| MemoryError::AddressSpace { bytes, cause })
}

impl PhysicalMemory {
    /// A memory of `bytes` bytes, all zero.
    ///
    /// # Errors
    /// `bytes` is 0, not a multiple of 4 KiB or above [`MAX_BYTES`], or the sim host has no address space
    /// left.
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        if bytes == 0 || !bytes.is_multiple_of(FRAME_BYTES) || bytes > MAX_BYTES {
            return Err(MemoryError::Size { bytes });
        }
        let index = reserve(bytes, bytes / FRAME_BYTES * ENTRY as u64)?;
        let slots = reserve(bytes, bytes + FRAME_BYTES)?;
        Ok(PhysicalMemory { index, slots, fresh: UNTOUCHED + 1, spare: Vec::new() })
    }

    /// The size in bytes.
    pub fn bytes(&self) -> u64 {
        (self.index.len() / ENTRY) as u64 * FRAME_BYTES
    }

    /// Bytes of sim-host memory in use: 4 KiB for each frame written and not zeroed entirely since.
    pub fn touched_bytes(&self) -> u64 {
        u64::from(self.fresh - 1 - self.spare.len() as u32) * FRAME_BYTES
    }

    #[inline(always)]
    fn slot(&self, frame: usize) -> u32 {
        let entry = &self.index[frame * ENTRY..frame * ENTRY + ENTRY];
        u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
    }

    fn set_slot(&mut self, frame: usize, slot: u32) {
        self.index[frame * ENTRY..frame * ENTRY + ENTRY].copy_from_slice(&slot.to_le_bytes());
    }

    /// The offset of `at` in the slots, for reading.
    #[inline(always)]
    fn place(&self, at: PhysAddr) -> usize {
        self.slot(at.pfn().0 as usize) as usize * FRAME + at.0 as usize % FRAME
    }

    /// The offset of `at` in the slots, for writing. Its frame gets a slot if it has none.
    #[inline(always)]
    fn place_to_write(&mut self, at: PhysAddr) -> usize {
        let frame = at.pfn().0 as usize;
        let slot = self.slot(frame);
        let slot = if slot == UNTOUCHED { self.touch(frame) } else { slot };
        slot as usize * FRAME + at.0 as usize % FRAME
    }

    #[cold]
    #[inline(never)]
    fn touch(&mut self, frame: usize) -> u32 {
        let slot = match self.spare.pop() {
            Some(slot) => {
                self.slots[slot as usize * FRAME..][..FRAME].fill(0);
                slot
            }
            None => {
                let slot = self.fresh;
                // 2^32 slots are 16 TiB.
                self.fresh = slot.checked_add(1).unwrap_or_else(|| unreachable!("more than 2^32 slots"));
                slot
            }
        };
        self.set_slot(frame, slot);
        slot
    }

    /// Reads the little-endian word at `at`, which is aligned to 8 bytes.
    #[inline(always)]
    pub fn read(&self, at: PhysAddr) -> u64 {
        debug_assert!(at.0.is_multiple_of(8), "{at:?} is not aligned to 8 bytes");
        let place = self.place(at);
        self.word(place)
    }

    #[inline(always)]
    fn word(&self, place: usize) -> u64 {
        let b = &self.slots[place..place + 8];
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
    }

    /// Writes the little-endian word at `at`, which is aligned to 8 bytes.
    #[inline(always)]
    pub fn write(&mut self, at: PhysAddr, value: u64) {
        debug_assert!(at.0.is_multiple_of(8), "{at:?} is not aligned to 8 bytes");
        let place = self.place_to_write(at);
        self.slots[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Sets `bits` in the word at `at`, which is aligned to 8 bytes (such as accessed and dirty bits).
    #[inline(always)]
    pub fn set_bits(&mut self, at: PhysAddr, bits: u64) {
        debug_assert!(at.0.is_multiple_of(8), "{at:?} is not aligned to 8 bytes");
        let place = self.place_to_write(at);
        let value = self.word(place) | bits;
        self.slots[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Reads the eight words of the 64-byte line around `at`.
    #[inline]
    pub fn line(&self, at: PhysAddr) -> [u64; 8] {
        self.read_words(PhysAddr(at.0 & !(LINE_BYTES - 1)))
    }

    /// Reads `N` words from `at` on, aligned to their total size: 1, 2, 4 or 8 words.
    #[inline]
    pub fn read_words<const N: usize>(&self, at: PhysAddr) -> [u64; N] {
        debug_assert!(at.0.is_multiple_of(8 * N as u64), "{at:?} is not aligned to {N} words");
        let place = self.place(at);
        let (words, _) = self.slots[place..place + 8 * N].as_chunks::<8>();
        std::array::from_fn(|i| u64::from_le_bytes(words[i]))
    }

    /// Writes `N` words from `at` on, aligned as for [`PhysicalMemory::read_words`].
    #[inline]
    pub fn write_words<const N: usize>(&mut self, at: PhysAddr, words: &[u64; N]) {
        debug_assert!(at.0.is_multiple_of(8 * N as u64), "{at:?} is not aligned to {N} words");
        let place = self.place_to_write(at);
        for (to, word) in self.slots[place..place + 8 * N].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
    }

    /// Zeroes `[from, from + bytes)`. A frame that is zeroed entirely gives up its slot; one that was never
    /// written costs nothing.
    pub fn zero(&mut self, from: PhysAddr, bytes: u64) {
        let (mut at, end) = (from.0, from.0 + bytes);
        assert!(end <= self.bytes(), "zeroing {from:?} to {end:#x} goes beyond the memory's {:#x} bytes", self.bytes());
        while at < end {
            let within = (at % FRAME_BYTES) as usize;
            let part = (end - at).min((FRAME - within) as u64) as usize;
            let frame = PhysAddr(at).pfn().0 as usize;
            let slot = self.slot(frame);
            if slot != UNTOUCHED {
                if part == FRAME {
                    self.set_slot(frame, UNTOUCHED);
                    self.spare.push(slot);
                } else {
                    self.slots[slot as usize * FRAME + within..][..part].fill(0);
                }
            }
            at += part as u64;
        }
    }

    /// Copies `bytes` bytes from `from` to `to`. The ranges may overlap, as for `memmove`.
    pub fn copy(&mut self, from: PhysAddr, to: PhysAddr, bytes: u64) {
        let ends = from.0.max(to.0) + bytes;
        assert!(ends <= self.bytes(), "copying {bytes} bytes from {from:?} to {to:?} goes beyond the memory");
        let mut done = 0;
        while done < bytes {
            let left = bytes - done;
            // Each part lies within one frame on both sides. A copy upwards runs backwards from the end, as
            // the ranges may overlap.
            let (offset, part) = if to <= from {
                let room = |at: u64| FRAME_BYTES - at % FRAME_BYTES;
                (done, left.min(room(from.0 + done)).min(room(to.0 + done)))
            } else {
                let room = |end: u64| (end - 1) % FRAME_BYTES + 1;
                let part = left.min(room(from.0 + left)).min(room(to.0 + left));
                (left - part, part)
            };
            self.copy_within_frames(from.offset(offset), to.offset(offset), part as usize);
            done += part;
        }
    }

    fn copy_within_frames(&mut self, from: PhysAddr, to: PhysAddr, part: usize) {
        if self.slot(from.pfn().0 as usize) == UNTOUCHED {
            self.zero(to, part as u64);
            return;
        }
        let (from, to) = (self.place(from), self.place_to_write(to));
        self.slots.copy_within(from..from + part, to);
    }

    /// Prefetches the word at `at` into the sim host's cache (simulator speed only).
    #[inline(always)]
    pub fn prefetch(&self, at: PhysAddr) {
        let word = &self.slots[self.place(at)];
        prefetch_sim_host(word);
    }

    /// Assigns a slot to the frame of `at`, as its first write would. The frame keeps it until it is zeroed
    /// entirely.
    pub fn assign_slot(&mut self, at: PhysAddr) -> FrameSlot {
        FrameSlot((self.place_to_write(at) / FRAME) as u32)
    }

    /// As [`PhysicalMemory::prefetch`], for a caller that knows the frame's slot: it does not wait for the
    /// index. A stale slot costs speed only.
    #[inline(always)]
    pub fn prefetch_slot(&self, at: PhysAddr, slot: FrameSlot) {
        prefetch_sim_host(&self.index[at.pfn().0 as usize * ENTRY]);
        prefetch_sim_host(&self.slots[slot.0 as usize * FRAME + at.0 as usize % FRAME]);
    }
}

/// The frames that were written with their slots, and the bytes of the slots.
impl State for PhysicalMemory {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let frames = self.index.len() / ENTRY;
        archive.equal(frames, "the size of physical memory");
        let used = |memory: &PhysicalMemory| (0..frames).filter(|frame| memory.slot(*frame) != UNTOUCHED).collect();
        let written: Vec<usize> = used(self);
        let mut places: Vec<(u64, u32)> = written.iter().map(|frame| (*frame as u64, self.slot(*frame))).collect();
        places.state(archive);
        self.fresh.state(archive);
        self.spare.state(archive);
        if archive.loads() {
            written.into_iter().for_each(|frame| self.set_slot(frame, UNTOUCHED));
            let fits = |&(frame, slot): &(u64, u32)| (frame as usize) < frames && slot < self.fresh;
            if archive.failed() || self.fresh == 0 || self.fresh as usize > frames + 1 || !places.iter().all(fits) {
                self.fresh = UNTOUCHED + 1;
                return archive.fail("the frames of physical memory are wrong");
            }
            places.into_iter().for_each(|(frame, slot)| self.set_slot(frame as usize, slot));
        }
        let slots = FRAME..self.fresh as usize * FRAME;
        self.slots[slots].chunks_mut(FRAME).for_each(|slot| archive.raw(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_sizes_are_rejected_with_a_sentence() {
        for bytes in [0, 1, 4095, 4097, MAX_BYTES + 4096, u64::MAX] {
            let message = PhysicalMemory::new(bytes).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains(&bytes.to_string()) && message.contains("4096"), "{message}");
        }
        assert_eq!(PhysicalMemory::new(4096).unwrap().bytes(), 4096);
        assert_eq!(PhysicalMemory::new(MAX_BYTES).unwrap().bytes(), MAX_BYTES);
    }

    #[test]
    fn unwritten_memory_is_zero_and_takes_no_memory() {
        let mut memory = PhysicalMemory::new(1 << 40).unwrap();
        assert_eq!(memory.read(PhysAddr((1 << 40) - 8)), 0);
        assert_eq!(memory.line(PhysAddr(1 << 39)), [0; 8]);
        memory.zero(PhysAddr(0), 1 << 30);
        memory.copy(PhysAddr(0), PhysAddr(1 << 35), 1 << 20);
        assert_eq!(memory.touched_bytes(), 0);
        memory.write(PhysAddr((1 << 40) - 8), 7);
        memory.prefetch(PhysAddr((1 << 40) - 8));
        memory.write_words(PhysAddr(32), &[1, 2, 3, 4]);
        assert_eq!((memory.read(PhysAddr(48)), memory.read_words::<2>(PhysAddr(48))), (3, [3, 4]));
        memory.zero(PhysAddr(0), 4096);
        assert_eq!((memory.read(PhysAddr((1 << 40) - 8)), memory.touched_bytes()), (7, 4096));
    }

    #[test]
    fn a_frame_keeps_its_slot_until_it_is_zeroed_entirely() {
        let mut memory = PhysicalMemory::new(64 << 20).unwrap();
        let slot = memory.assign_slot(PhysAddr(4096));
        memory.write(PhysAddr(4104), 9);
        memory.prefetch_slot(PhysAddr(4104), slot);
        assert_eq!((memory.assign_slot(PhysAddr(8184)), memory.read(PhysAddr(4104))), (slot, 9));
        memory.zero(PhysAddr(4096), 4096);
        memory.write(PhysAddr(8192), 1);
        assert_ne!(memory.assign_slot(PhysAddr(4096)), slot, "the next frame has taken the slot");
        memory.prefetch_slot(PhysAddr(4104), slot);
    }

    #[test]
    fn a_slot_is_reused_after_zeroing_and_is_clean() {
        let mut memory = PhysicalMemory::new(64 << 20).unwrap();
        for frame in 0..1024 {
            memory.write(PhysAddr(frame * 4096 + 8), !0);
        }
        memory.zero(PhysAddr(4096), 1022 * 4096);
        assert_eq!(memory.touched_bytes(), 2 * 4096);
        memory.write(PhysAddr(40 << 20), 5);
        assert_eq!(memory.read(PhysAddr((40 << 20) + 8)), 0, "a reused slot has its old bytes");
        assert_eq!(memory.read(PhysAddr(8)), !0);
    }

    #[test]
    #[should_panic]
    fn reading_past_the_end_panics() {
        PhysicalMemory::new(8192).unwrap().read(PhysAddr(8192));
    }

    /// Bytes of the memory under test: few frames, so that operations overlap.
    const SMALL: u64 = 8 * 4096;

    #[derive(Clone, Debug)]
    enum Op {
        Write(u64, u64),
        SetBits(u64, u64),
        Zero(u64, u64),
        Copy(u64, u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let word = 0..SMALL / 8;
        prop_oneof![
            (word.clone(), any::<u64>()).prop_map(|(at, value)| Op::Write(at, value)),
            (word.clone(), any::<u64>()).prop_map(|(at, value)| Op::SetBits(at, value)),
            (word.clone(), word.clone()).prop_map(|(a, b)| Op::Zero(a.min(b), a.max(b) - a.min(b))),
            (word.clone(), word.clone(), word).prop_map(|(a, b, n)| Op::Copy(a, b, n.min(SMALL / 8 - a.max(b)))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_as_an_array_of_words(ops in prop::collection::vec(op(), 1..60)) {
            let mut memory = PhysicalMemory::new(SMALL).unwrap();
            let mut model = vec![0u64; (SMALL / 8) as usize];
            for op in ops {
                match op {
                    Op::Write(at, value) => {
                        memory.write(PhysAddr(at * 8), value);
                        model[at as usize] = value;
                    }
                    Op::SetBits(at, bits) => {
                        memory.set_bits(PhysAddr(at * 8), bits);
                        model[at as usize] |= bits;
                    }
                    Op::Zero(at, n) => {
                        memory.zero(PhysAddr(at * 8), n * 8);
                        model[at as usize..(at + n) as usize].fill(0);
                    }
                    Op::Copy(from, to, n) => {
                        memory.copy(PhysAddr(from * 8), PhysAddr(to * 8), n * 8);
                        model.copy_within(from as usize..(from + n) as usize, to as usize);
                    }
                }
                for (i, line) in model.chunks(8).enumerate() {
                    prop_assert_eq!(&memory.line(PhysAddr(i as u64 * 64 + 24))[..], line);
                    prop_assert_eq!(memory.read(PhysAddr(i as u64 * 64 + 40)), line[5]);
                }
            }
        }
    }
}
