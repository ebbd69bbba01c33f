//! The byte layouts: models of the index, and entries of gapped page tables.

use ambulator_base::watch::{Field, Meaning, Shape, Step};
use ambulator_base::{PageSize, State};
use ambulator_structures::pte::Pte;

/// Fractional bits of a model's parameters: 44.20 fixed point (LVM Sec. 4.5).
pub(crate) const FRACTION: u32 = 20;
/// Bytes of a node: slope and intercept.
pub(crate) const NODE_BYTES: u64 = 16;
/// The bit of the slope's word that marks a leaf. Slopes are below 2, so all upper bits are unused.
const LEAF: u64 = 1 << 63;

/// A linear model: a node of the index.
///
/// An internal node's output is the number of a child in the next level's array; a leaf's is the number of an
/// 8-byte slot of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Node {
    /// Output for each page, in units of 2^-20; never negative.
    pub(crate) slope: i64,
    /// Output at the segment's first page, in units of 2^-20.
    pub(crate) intercept: i64,
    /// Whether the output is a slot.
    pub(crate) leaf: bool,
}

impl Node {
    /// The leaf of an unmapped part of the address space: it has no table.
    pub(crate) const EMPTY: Node = Node { slope: 0, intercept: 0, leaf: true };

    /// The two words in memory.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.slope as u64 | if self.leaf { LEAF } else { 0 }, self.intercept as u64]
    }

    /// The node of two words in memory.
    #[inline(always)]
    pub(crate) fn of_words([slope, intercept]: [u64; 2]) -> Node {
        Node { slope: (slope & !LEAF) as i64, intercept: intercept as i64, leaf: slope & LEAF != 0 }
    }

    /// Whether it is [`Node::EMPTY`].
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self == Node::EMPTY
    }

    /// The model's output for a page, counted from its segment's start: one multiplication, one addition, in
    /// 64 bits.
    #[inline(always)]
    pub(crate) fn predict(self, page: u64) -> u64 {
        (self.slope.wrapping_mul(page as i64).wrapping_add(self.intercept) >> FRACTION) as u64
    }
}

impl Node {
    /// The first page for which an internal node's model gives `output`, or more: where a child begins.
    pub(crate) fn first_page(self, output: u64) -> u64 {
        let above = ((output << FRACTION) as i64).wrapping_sub(self.intercept);
        (above as u64).div_ceil(self.slope as u64)
    }
}

impl Node {
    /// Its parameters.
    fn fields(self) -> [Field; 3] {
        let number = |value: i64| value as f64 / f64::from(1 << FRACTION);
        [
            Field { name: "slope".into(), value: number(self.slope).into() },
            Field { name: "intercept".into(), value: number(self.intercept).into() },
            Field { name: "leaf".into(), value: self.leaf.into() },
        ]
    }

    /// Adds its parameters to a step for a watch.
    pub(crate) fn fields_of(self, mut step: Step) -> Step {
        step.fields.extend(self.fields());
        step
    }

    /// Its line, and what it predicts for a key.
    pub(crate) fn shape(self, key: u64) -> Shape {
        let number = |value: i64| value as f64 / f64::from(1 << FRACTION);
        let (slope, intercept) = (number(self.slope), number(self.intercept));
        Shape::Model { slope, intercept, key, output: self.predict(key), leaf: self.leaf }
    }
}

/// What a line of models is, of which the walker uses number `used`.
pub(crate) fn models(words: &[u64; 8], used: usize, level: usize, key: u64) -> Meaning {
    let node = Node::of_words([words[2 * used], words[2 * used + 1]]);
    Meaning::new(format!("four models of level {level}"), "LVM Sec. 4.2.1, 4.5: 44.20 fixed point, Fig. 7")
        .field("model used", used)
        .fields(node.fields())
        .shape(node.shape(key))
        .touches([2 * used, 2 * used + 1])
}

/// What a line of a gapped page table is to the search for a page, whose predicted slot is given; `step`
/// lines were read before it.
pub(crate) fn entries(words: &[u64; 8], page: u64, predicted: u64, step: usize) -> Meaning {
    let name = match step {
        0 => "line of a gapped page table, as predicted".to_owned(),
        step => format!("line of a gapped page table, {step}. beyond the predicted one"),
    };
    let mut meaning = Meaning::new(name, "LVM Sec. 4.2.2, 4.4").field("slot predicted", predicted % 8);
    for (slot, &word) in words.iter().enumerate() {
        let text = if word & Pte::PRESENT == 0 {
            "gap".to_owned()
        } else {
            let one = if is_of(word, page) { ", the one" } else { "" };
            format!("tag {:#x}, {}, frame {:#x}{one}", tag_of(word), size_of(word), pte_of(word).frame().0)
        };
        meaning = meaning.field(format!("slot {slot}"), text);
    }
    let found = words.iter().position(|&word| is_of(word, page));
    let tag = |&word: &u64| (word & Pte::PRESENT != 0).then(|| tag_of(word));
    meaning = meaning.touches(found).shape(Shape::Gapped {
        slots: words.iter().map(tag).collect(),
        predicted: predicted % 8,
        found: found.map(|slot| slot as u64),
        beyond: step as u64,
    });
    match found.map(|slot| words[slot]) {
        Some(word) => meaning.fields(pte_of(word).fields()),
        None => meaning.field("found", false),
    }
}

/// Bits of the page number in an entry.
pub(crate) const TAG_BITS: u32 = 12;
const TAG_LOW: u64 = 0x3f << 46;
const TAG_HIGH: u64 = 0x3f << 57;
const ORDER_SHIFT: u32 = 52;
const ORDER: u64 = 0x1f << ORDER_SHIFT;
const OWN_BITS: u64 = TAG_LOW | TAG_HIGH | ORDER;

/// The tag of a page's number.
#[inline(always)]
fn tag(number: u64) -> u64 {
    (number & 0x3f) << 46 | (number >> 6 & 0x3f) << 57
}

/// The word of a slot: the architecture's entry with the page's size (log2 of its 4 KiB frames, bits 52 to
/// 56) and the low 12 bits of its number (bits 46 to 51 and 57 to 62). The size may be any power of two of
/// frames.
#[inline(always)]
pub(crate) fn entry(pte: Pte, page: u64, order: u32) -> u64 {
    (pte.0 & !OWN_BITS) | u64::from(order) << ORDER_SHIFT | tag(page >> order)
}

/// log2 of the frames of an entry's page.
#[inline(always)]
pub(crate) fn order_of(word: u64) -> u32 {
    ((word & ORDER) >> ORDER_SHIFT) as u32
}

/// The low bits of the page number in an entry.
#[inline(always)]
pub(crate) fn tag_of(word: u64) -> u64 {
    (word & TAG_LOW) >> 46 | (word & TAG_HIGH) >> 57 << 6
}

/// The architecture's part of an entry.
#[inline(always)]
pub(crate) fn pte_of(word: u64) -> Pte {
    Pte(word & !OWN_BITS)
}

/// Whether a slot holds the entry of the page that contains the 4 KiB page with this number.
#[inline(always)]
pub(crate) fn is_of(word: u64, page: u64) -> bool {
    word & Pte::PRESENT != 0 && (word & (TAG_LOW | TAG_HIGH)) == tag(page >> order_of(word))
}

/// The size of an entry's page.
#[inline(always)]
pub(crate) fn size_of(word: u64) -> PageSize {
    PageSize::from_shift(12 + order_of(word))
}
