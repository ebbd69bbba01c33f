//! The slots of each kind of table.

use super::HEADERS;
use ambulator_base::watch::{Meaning, Shape};
use ambulator_base::{PageSize, PhysAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_structures::pte::Pte;

/// A kind of slot: words in memory that are empty or belong to a key.
pub(crate) trait Slot {
    /// Its words.
    type Words: Copy;
    /// Its size in bytes, which is also its alignment.
    const BYTES: u64;
    /// An empty slot.
    const EMPTY: Self::Words;

    /// The key of the words; `None` if the slot is empty.
    fn key(words: &Self::Words) -> Option<u64>;
    /// Reads the slot at `at`.
    fn read(memory: &PhysicalMemory, at: PhysAddr) -> Self::Words;
    /// Writes the slot at `at`.
    fn write(memory: &mut PhysicalMemory, at: PhysAddr, words: &Self::Words);
}

/// A page table's slot: a cache line with the entries of eight consecutive pages (ME-HPT Sec. II-B:
/// page-table entry clustering). Its key, the first page's number divided by eight, is stored in unused bits
/// of the entries (compaction).
///
/// Each of the eight entries holds six bits of the key in bits 52 to 57, 48 in all. A 57-bit address needs
/// 42. Bits 9 to 11 and 58 to 62 stay free. A slot is empty if none of its entries is present.
pub(crate) struct Cluster;

const TAG_BITS: u32 = 6;
const TAG_SHIFT: u32 = 52;
const TAG: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;

impl Cluster {
    /// Pages of a slot.
    pub(crate) const PAGES: u64 = 8;

    /// The words of a slot of `key` without pages.
    pub(crate) fn of_key(key: u64) -> [u64; 8] {
        std::array::from_fn(|word| (key >> (TAG_BITS * word as u32) << TAG_SHIFT) & TAG)
    }

    /// The key in the tags, even if no entry is present.
    #[inline(always)]
    fn tag(words: &[u64; 8]) -> u64 {
        let part = |word: usize| ((words[word] & TAG) >> TAG_SHIFT) << (TAG_BITS * word as u32);
        (part(0) | part(1)) | (part(2) | part(3)) | (part(4) | part(5)) | (part(6) | part(7))
    }

    /// Whether the words belong to `key`.
    #[inline(always)]
    pub(crate) fn is_of(words: &[u64; 8], key: u64) -> bool {
        Self::tag(words) == key
    }

    /// The entry of page number `page` of the slot, without the tag; `None` if it is not present.
    #[inline(always)]
    pub(crate) fn entry(words: &[u64; 8], page: usize) -> Option<Pte> {
        let pte = Pte(words[page] & !TAG);
        pte.present().then_some(pte)
    }

    /// A word of a slot with its entry replaced; the tag stays.
    #[inline(always)]
    pub(crate) fn with_entry(word: u64, pte: Pte) -> u64 {
        (word & TAG) | (pte.0 & !TAG)
    }
}

impl Slot for Cluster {
    type Words = [u64; 8];
    const BYTES: u64 = 64;
    const EMPTY: [u64; 8] = [0; 8];

    #[inline(always)]
    fn key(words: &[u64; 8]) -> Option<u64> {
        let any = words.iter().fold(0, |any, word| any | word) & Pte::PRESENT != 0;
        any.then(|| Self::tag(words))
    }

    #[inline(always)]
    fn read(memory: &PhysicalMemory, at: PhysAddr) -> [u64; 8] {
        memory.read_words(at)
    }

    #[inline(always)]
    fn write(memory: &mut PhysicalMemory, at: PhysAddr, words: &[u64; 8]) {
        memory.write_words(at, words);
    }
}

/// A slot of a cuckoo walk table: its key and a header for each of 64 consecutive sections of memory.
///
/// Word 0 is the key plus one. Words 1 to 3 are bit planes: header `n` is bit `n` of each. Three bits
/// suffice, since a section that is one page has no smaller pages.
pub(crate) struct Headers;

/// The pages of a section, which is 2 MiB in the walk table for PMDs and 1 GiB in the one for PUDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u8);

impl Header {
    /// Nothing is mapped.
    pub(crate) const NONE: Header = Header(0);
    /// Bit: the section has 4 KiB pages.
    pub(crate) const SMALL: u8 = 1;
    /// Bit: the section, of 1 GiB, has 2 MiB pages.
    pub(crate) const LARGE: u8 = 2;

    /// The section is one page, and its entry is in this way of its table.
    pub(crate) fn page_in(way: usize) -> Header {
        Header(4 + way as u8)
    }

    /// The way of the section's entry, if it is one page.
    #[inline(always)]
    pub(crate) fn way(self) -> Option<usize> {
        self.0.checked_sub(4).map(usize::from)
    }
}

impl Headers {
    /// The words of a slot of `key` whose sections are all empty.
    pub(crate) fn of_key(key: u64) -> [u64; 4] {
        [key + 1, 0, 0, 0]
    }

    /// The header of a section, by its number within the slot.
    #[inline(always)]
    pub(crate) fn get(words: &[u64; 4], section: u64) -> Header {
        let bit = |plane: usize| (words[plane] >> section & 1) as u8;
        Header(bit(1) | bit(2) << 1 | bit(3) << 2)
    }

    /// Sets a header.
    pub(crate) fn set(words: &mut [u64; 4], section: u64, header: Header) {
        for (plane, word) in words[1..].iter_mut().enumerate() {
            *word = *word & !(1 << section) | u64::from(header.0 >> plane & 1) << section;
        }
    }

    /// Whether all sections are empty.
    pub(crate) fn is_empty(words: &[u64; 4]) -> bool {
        words[1] | words[2] | words[3] == 0
    }

    /// Whether `which` holds for the header of any of `count` sections from `first` on.
    pub(crate) fn any(words: &[u64; 4], first: u64, count: u64, which: impl Fn(Header) -> bool) -> bool {
        debug_assert!(first + count <= HEADERS);
        (first..first + count).any(|section| which(Headers::get(words, section)))
    }
}

impl Slot for Headers {
    type Words = [u64; 4];
    const BYTES: u64 = 32;
    const EMPTY: [u64; 4] = [0; 4];

    #[inline(always)]
    fn key(words: &[u64; 4]) -> Option<u64> {
        words[0].checked_sub(1)
    }

    #[inline(always)]
    fn read(memory: &PhysicalMemory, at: PhysAddr) -> [u64; 4] {
        memory.read_words(at)
    }

    #[inline(always)]
    fn write(memory: &mut PhysicalMemory, at: PhysAddr, words: &[u64; 4]) {
        memory.write_words(at, words);
    }
}

impl Header {
    /// In words.
    pub(crate) fn text(self) -> String {
        match (self.way(), self.0) {
            (Some(way), _) => format!("one page, in way {way}"),
            (None, 0) => "nothing mapped".to_owned(),
            (None, Header::SMALL) => "4 KiB pages".to_owned(),
            (None, Header::LARGE) => "2 MiB pages".to_owned(),
            _ => "4 KiB and 2 MiB pages".to_owned(),
        }
    }
}

/// A slot that a walk probes, for a watch.
#[derive(Clone, Copy)]
pub(crate) struct Probe {
    /// Which way, of how many.
    pub(crate) way: usize,
    pub(crate) ways: usize,
    /// Which slot of the way, of how many.
    pub(crate) slot: u64,
    pub(crate) slots: u64,
}

impl Probe {
    fn shape(self, found: bool) -> Shape {
        let Probe { way, ways, slot, slots } = self;
        Shape::Bucket { way: way as u64, ways: ways as u64, bucket: slot, buckets: slots, found }
    }
}

/// What a slot of a page table is to the search for `wanted`, of which the page has number `page`.
pub(crate) fn cluster_meaning(words: &[u64; 8], wanted: u64, page: usize, size: PageSize, at: Probe) -> Meaning {
    let way = at.way;
    let meaning = Meaning::new(
        format!("slot of way {way} of the table of {size} pages: entries of eight pages"),
        "ME-HPT Sec. II-B: page-table entry clustering and compaction",
    )
    .address("key wanted", wanted)
    .shape(at.shape(Cluster::key(words) == Some(wanted)));
    let meaning = match Cluster::key(words) {
        None => return meaning.field("key", "the slot is empty"),
        Some(key) => meaning.address("key", key),
    };
    let entries: u64 = words.iter().map(|word| word & Pte::PRESENT).sum();
    let meaning = meaning.field("present entries", entries);
    match Cluster::entry(words, page).filter(|_| Cluster::is_of(words, wanted)) {
        Some(pte) => meaning.field("entry of the page", page).fields(pte.fields()).touches([page]),
        None => meaning.field("found", false),
    }
}

/// What a slot of a cuckoo walk table is to the search for `wanted`.
pub(crate) fn headers_meaning(words: &[u64; 4], first: usize, wanted: u64, table: &str, at: Probe) -> Meaning {
    let way = at.way;
    let source = "ME-HPT Sec. II-B; Skarlatos et al., ASPLOS 2020";
    let meaning = Meaning::new(format!("slot of way {way} of the {table} walk table: headers of 64 sections"), source)
        .address("key wanted", wanted)
        .shape(at.shape(Headers::key(words) == Some(wanted)))
        .touches(first..first + 4);
    match Headers::key(words) {
        None => meaning.field("key", "the slot is empty"),
        Some(key) => meaning
            .address("key", key)
            .field("sections with pages", (words[1] | words[2] | words[3]).count_ones())
            .field("found", key == wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_belongs_to_one_key_only() {
        for key in [0, 0x2aa_aaaa_aaaa, (1 << 42) - 1] {
            let words = Cluster::of_key(key);
            assert!(Cluster::is_of(&words, key), "{key:#x}");
            for bit in 0..42 {
                assert!(!Cluster::is_of(&words, key ^ (1 << bit)), "{key:#x}, bit {bit}");
            }
        }
    }
}
