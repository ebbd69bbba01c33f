//! The byte layouts: a row of a tag array (TAR), and the counters of a set filter (SF) (Utopia Sec. 5.2).
//!
//! A row is a cache line: a byte of metadata for each way, then the ways' tags, packed. For 16 ways and tags
//! of 23 bits that is 62 bytes. A line of a set filter has as many counters as fit; none crosses lines. A
//! counter counts 0 to `ways`, which takes one bit more than the paper's log2(ways) for a full set.

use ambulator_base::watch::{Meaning, Shape};
use ambulator_base::{LINE_BYTES, PhysAddr, mul_high};
use ambulator_hardware::matches;
use ambulator_os::PteFlags;

/// Bits of a line.
pub(crate) const LINE_BITS: u64 = LINE_BYTES * 8;
/// Bits of a way's metadata.
const METADATA_BITS: u64 = 8;

/// The way has a page.
pub(crate) const VALID: u8 = 1;
const WRITABLE: u8 = 2;
const EXECUTABLE: u8 = 4;
const USER: u8 = 8;
/// Accessed.
pub(crate) const ACCESSED: u8 = 16;
/// Dirty.
pub(crate) const DIRTY: u8 = 32;

/// The metadata of a page with these flags.
pub(crate) fn metadata(flags: PteFlags) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    VALID
        | bit(flags.writable, WRITABLE)
        | bit(flags.executable, EXECUTABLE)
        | bit(flags.user, USER)
        | bit(flags.accessed, ACCESSED)
        | bit(flags.dirty, DIRTY)
}

/// The flags of a page with this metadata.
pub(crate) fn flags(metadata: u8) -> PteFlags {
    PteFlags {
        writable: metadata & WRITABLE != 0,
        executable: metadata & EXECUTABLE != 0,
        user: metadata & USER != 0,
        accessed: metadata & ACCESSED != 0,
        dirty: metadata & DIRTY != 0,
        ranged: false,
    }
}

/// `bits` bits from bit `at` on of a line.
#[inline(always)]
fn field(words: &[u64; 8], at: u64, bits: u32) -> u64 {
    let (word, shift) = ((at / 64) as usize, at % 64);
    let high = words.get(word + 1).copied().unwrap_or(0);
    let wide = u128::from(words[word]) | u128::from(high) << 64;
    (wide >> shift) as u64 & ((1 << bits) - 1)
}

fn set_field(words: &mut [u64; 8], at: u64, bits: u32, value: u64) {
    let (word, shift) = ((at / 64) as usize, at % 64);
    let mask = u128::from((1u64 << bits) - 1) << shift;
    let high = words.get(word + 1).copied().unwrap_or(0);
    let wide = u128::from(words[word]) | u128::from(high) << 64;
    let wide = wide & !mask | (u128::from(value) << shift) & mask;
    words[word] = wide as u64;
    if let Some(high) = words.get_mut(word + 1) {
        *high = (wide >> 64) as u64;
    }
}

/// Bit `i` is set if way `i` of a row of the paper's shape (16 ways, tags of 23 bits) has that tag, valid or
/// not. The macro is unrolled, so the compiler knows the position of each tag.
#[inline(always)]
fn same_tags(words: &[u64; 8], tag: u64) -> u64 {
    macro_rules! tags {
        ($($way:literal)*) => { [$(field(words, 16 * METADATA_BITS + $way * 23, 23) as u32),*] };
    }
    u64::from(matches(&tags!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15), tag as u32))
}

/// The layout of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Ways of a set.
    pub(crate) ways: u32,
    /// Bits of a tag.
    pub(crate) tag_bits: u32,
}

impl Row {
    /// Bits of a row, which must fit into a line.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.ways) * (u64::from(self.tag_bits) + METADATA_BITS)
    }

    fn tag_at(self, way: u32) -> u64 {
        u64::from(self.ways) * METADATA_BITS + u64::from(way) * u64::from(self.tag_bits)
    }

    /// The metadata of a way.
    #[inline]
    pub(crate) fn metadata(self, words: &[u64; 8], way: u32) -> u8 {
        (words[way as usize / 8] >> (way % 8 * 8)) as u8
    }

    /// The way with a tag.
    #[inline]
    pub(crate) fn find(self, words: &[u64; 8], tag: u64) -> Option<u32> {
        let mut same = match (self.ways, self.tag_bits) {
            (16, 23) => same_tags(words, tag),
            _ => (0..self.ways)
                .map(|way| u64::from(field(words, self.tag_at(way), self.tag_bits) == tag) << way)
                .fold(0, |same, bit| same | bit),
        };
        while same != 0 {
            let way = same.trailing_zeros();
            if self.metadata(words, way) & VALID != 0 {
                return Some(way);
            }
            same &= same - 1;
        }
        None
    }

    /// What the row of a set of a tag array is to the search for a tag.
    pub(crate) fn meaning(self, words: &[u64; 8], wanted: u64, [set, sets]: [u64; 2]) -> Meaning {
        let name = format!("row of the tag array (TAR): {} ways", self.ways);
        let mut meaning = Meaning::new(name, "Utopia Sec. 5.2").address("tag wanted", wanted);
        let valid = (0..self.ways).filter(|way| self.metadata(words, *way) & VALID != 0);
        meaning = meaning.field("valid ways", valid.count());
        for way in 0..self.ways {
            let (metadata, tag) = (self.metadata(words, way), field(words, self.tag_at(way), self.tag_bits));
            if metadata & VALID != 0 {
                let one = if tag == wanted { ", the one" } else { "" };
                meaning = meaning.field(format!("way {way}"), format!("tag {tag:#x}{one}"));
            }
        }
        let found = self.find(words, wanted);
        let used = (0..self.ways).map(|way| self.metadata(words, way) & VALID != 0).collect();
        let way = found.map(u64::from);
        meaning = meaning.shape(Shape::Ways { set, sets, ways: u64::from(self.ways), first: 0, used, way });
        if let Some(way) = found {
            // The way's metadata and its tag.
            let bits = [u64::from(way) * METADATA_BITS, self.tag_at(way)];
            let mut touched = bits.map(|bit| (bit / 64) as usize).to_vec();
            touched.dedup();
            meaning = meaning.touches(touched);
        }
        match found.map(|way| flags(self.metadata(words, way))) {
            Some(flags) => meaning
                .field("writable", flags.writable)
                .field("executable", flags.executable)
                .field("accessed", flags.accessed)
                .field("dirty", flags.dirty),
            None => meaning.field("found", false),
        }
    }

    /// Writes a way.
    pub(crate) fn write(self, words: &mut [u64; 8], way: u32, metadata: u8, tag: u64) {
        set_field(words, u64::from(way) * METADATA_BITS, 8, u64::from(metadata));
        set_field(words, self.tag_at(way), self.tag_bits, tag);
    }

    /// The address of the word with a way's metadata in a row at `at`, and the metadata's bit position in the
    /// word.
    pub(crate) fn metadata_word(self, at: PhysAddr, way: u32) -> (PhysAddr, u32) {
        (at.offset(u64::from(way / 8) * 8), way % 8 * 8)
    }
}

/// The layout of a set filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Bits of a counter.
    bits: u32,
    /// Counters of a line, and 2^64 divided by that, rounded up, for division by multiplication.
    per_line: u64,
    reciprocal: u64,
}

impl Filter {
    /// Counters from 0 to `ways`.
    pub(crate) fn new(ways: u32) -> Filter {
        let bits = 32 - ways.leading_zeros();
        let per_line = LINE_BITS / u64::from(bits);
        Filter { bits, per_line, reciprocal: u64::MAX / per_line + 1 }
    }

    /// The line of a set's counter, and the counter's number in it.
    #[inline(always)]
    fn place(self, set: u64) -> (u64, u64) {
        let line = mul_high(set, self.reciprocal);
        (line, set - line * self.per_line)
    }

    /// The bit at which a set's counter begins in its line.
    #[inline(always)]
    fn at(self, set: u64) -> u64 {
        self.place(set).1 * u64::from(self.bits)
    }

    /// Bytes of a filter of `sets` counters.
    pub(crate) fn bytes(self, sets: u64) -> u64 {
        sets.div_ceil(self.per_line) * LINE_BYTES
    }

    /// The line of a set's counter in a filter at `at`.
    #[inline]
    pub(crate) fn line(self, at: PhysAddr, set: u64) -> PhysAddr {
        at.offset(self.place(set).0 * LINE_BYTES)
    }

    /// The counter of a set in its line.
    #[inline]
    pub(crate) fn count(self, words: &[u64; 8], set: u64) -> u64 {
        field(words, self.at(set), self.bits)
    }

    /// What a line of the filter is to a walk of a set.
    pub(crate) fn meaning(self, words: &[u64; 8], set: u64) -> Meaning {
        Meaning::new(
            format!("line of the set filter (SF): {} counters of {} bits", self.per_line, self.bits),
            "Utopia Sec. 5.2",
        )
        .field("counter", self.place(set).1)
        .field("pages of the set", self.count(words, set))
        .shape(Shape::Counter { index: self.place(set).1, counters: self.per_line, value: self.count(words, set) })
        .touches([(self.at(set) / 64) as usize])
    }

    /// Sets the counter of a set in its line.
    pub(crate) fn set_count(self, words: &mut [u64; 8], set: u64, count: u64) {
        set_field(words, self.at(set), self.bits, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_tags_of_23_bits_fit_62_bytes_and_are_distinguished() {
        let row = Row { ways: 16, tag_bits: 23 };
        assert_eq!(row.bits(), 62 * 8);
        let mut words = [0; 8];
        let tag = |way: u64| (way * 0x5_1f37 + 7) & 0x7f_ffff;
        for way in 0..16 {
            row.write(
                &mut words,
                way,
                metadata(PteFlags { writable: way % 2 == 0, ..PteFlags::default() }),
                tag(u64::from(way)),
            );
        }
        for way in 0..16 {
            assert_eq!(row.find(&words, tag(u64::from(way))), Some(way));
            assert_eq!(flags(row.metadata(&words, way)).writable, way % 2 == 0);
        }
        // Other shapes are searched the same way.
        let other = Row { ways: 12, tag_bits: 31 };
        let mut wide = [0; 8];
        (0..12).for_each(|way| other.write(&mut wide, way, VALID, tag(u64::from(way)) << 8 | 1));
        assert!((0..12).all(|way| other.find(&wide, tag(u64::from(way)) << 8 | 1) == Some(way)));
        row.write(&mut words, 7, 0, 0);
        assert_eq!((row.find(&words, tag(7)), row.find(&words, tag(8))), (None, Some(8)));
        // A way that holds nothing has a tag, too: that of a page which is elsewhere.
        assert_eq!(row.find(&words, 0), None);
        other.write(&mut wide, 3, 0, 0);
        assert_eq!(other.find(&wide, 0), None);
        assert_eq!(row.metadata_word(PhysAddr(0x1000), 11), (PhysAddr(0x1008), 24));
    }

    #[test]
    fn a_tag_counts_to_its_last_bit_and_only_in_a_way_that_is_valid() {
        for (ways, tag_bits) in [(16, 23), (12, 31), (4, 28), (1, 36)] {
            let row = Row { ways, tag_bits };
            assert_eq!(row.find(&[0; 8], 0), None, "an empty row holds no page, not even the one whose tag is 0");
            let tag = 0x5_1f37_2b6d & ((1 << tag_bits) - 1);
            for way in 0..ways {
                let mut words = [0; 8];
                row.write(&mut words, way, VALID, tag);
                assert_eq!(row.find(&words, tag), Some(way));
                for bit in 0..tag_bits {
                    assert_eq!(row.find(&words, tag ^ 1 << bit), None, "{ways} ways, way {way}, bit {bit}");
                }
                row.write(&mut words, way, !VALID, tag);
                assert_eq!(row.find(&words, tag), None, "{ways} ways: way {way} is not valid");
            }
        }
    }

    #[test]
    fn counters_of_a_full_set_fit_and_lie_in_one_line() {
        let filter = Filter::new(16);
        assert_eq!((filter.bits, filter.per_line, filter.bytes(8192)), (5, 102, 81 * 64));
        let mut words = [0; 8];
        for set in 0..102 {
            filter.set_count(&mut words, set, set % 17);
        }
        for set in 0..102 {
            assert_eq!(filter.count(&words, set), set % 17);
        }
        assert_eq!(filter.line(PhysAddr(0), 102), PhysAddr(64));
        for set in (0..1 << 26).step_by(977) {
            assert_eq!(filter.place(set), (set / 102, set % 102));
        }
        assert_eq!(Filter::new(4).bits, 3);
    }
}
