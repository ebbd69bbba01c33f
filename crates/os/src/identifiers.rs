//! The identifiers by which each core tells address spaces apart, as x86-64's PCIDs.
//!
//! A core has few of them, and gives them to the address spaces that it runs. When it has given them all, it
//! takes back the one that it gave first, as Linux does, and the TLBs of the core lose the entries of that
//! address space. Structures hold entries by [`Asid`], which no two live processes share; so a structure that
//! several cores share, such as a TLB in main memory, never confuses two of them, and an entry there outlives
//! the identifier of a core.

use ambulator_base::{Asid, State};
use std::collections::VecDeque;

/// For each core, the address spaces that have one of its identifiers.
#[derive(State)]
pub(crate) struct Identifiers {
    /// Identifiers of a core.
    #[state(skip)]
    most: usize,
    /// By core: in the order in which they were given.
    given: Vec<VecDeque<Asid>>,
}

impl Identifiers {
    /// Identifiers of `bits` bits. The kernel itself has one of them.
    pub fn new(bits: u32) -> Identifiers {
        Identifiers { most: (1 << bits) - 1, given: Vec::new() }
    }

    /// A core runs an address space. Returns the one that has lost its identifier on this core for it, if one
    /// has.
    pub fn run(&mut self, core: usize, asid: Asid) -> Option<Asid> {
        if self.given.len() <= core {
            self.given.resize_with(core + 1, VecDeque::new);
        }
        let given = &mut self.given[core];
        if given.contains(&asid) {
            return None;
        }
        let lost = if given.len() >= self.most { given.pop_front() } else { None };
        given.push_back(asid);
        lost
    }

    /// An address space has ended: its identifiers are free on all cores.
    pub fn release(&mut self, asid: Asid) {
        for given in &mut self.given {
            given.retain(|other| *other != asid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_takes_back_the_identifier_that_it_gave_first() {
        let mut two_bits = Identifiers::new(2);
        let mut run = |core, asid| two_bits.run(core, Asid(asid)).map(|lost| lost.0);
        for asid in [7, 8, 9, 7] {
            assert_eq!(run(0, asid), None, "three address spaces have one each");
        }
        assert_eq!(run(1, 5), None, "another core has its own");
        assert_eq!((run(0, 5), run(0, 7)), (Some(7), Some(8)));
        two_bits.release(Asid(9));
        assert_eq!(two_bits.run(0, Asid(10)), None, "that of an address space that has ended is free");
        assert_eq!(two_bits.run(0, Asid(11)), Some(Asid(5)));
    }
}
