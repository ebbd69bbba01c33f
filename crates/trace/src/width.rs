//! Truncates addresses from formats that do not state a width.

/// Most bits that a virtual address has.
const MOST_BITS: u8 = 57;

/// Truncates addresses to a width and counts what is lost.
#[derive(Debug)]
pub(crate) struct Width {
    bits: u8,
    mask: u64,
    /// Addresses that had bits beyond the width.
    cut: u64,
    /// Accesses that ran past the last address.
    clipped: u64,
}

impl Width {
    pub(crate) fn new(bits: u8) -> Width {
        Width { bits, mask: (1 << bits) - 1, cut: 0, clipped: 0 }
    }

    /// Truncates an address. In a canonical kernel address all bits above the width equal the highest bit
    /// within it, so nothing is lost.
    #[inline]
    pub(crate) fn fit(&mut self, address: u64) -> u64 {
        let above = address >> self.bits;
        if above != 0 {
            let sign_extended = (address as i64) >> (self.bits - 1) == -1;
            self.cut += u64::from(!sign_extended);
        }
        address & self.mask
    }

    /// The first address beyond the width.
    pub(crate) fn limit(&self) -> u64 {
        self.mask + 1
    }

    /// How many of the `bytes` from `address` on lie within the width; `address` itself does.
    #[inline]
    pub(crate) fn clip(&mut self, address: u64, bytes: u64) -> u64 {
        let room = self.mask - address + 1;
        self.clipped += u64::from(bytes > room);
        bytes.min(room)
    }

    /// One sentence for each kind of loss so far.
    pub(crate) fn notes(&self, name: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cut > 0 {
            let more = match self.bits {
                MOST_BITS => String::new(),
                _ => format!(
                    "; to keep up to {MOST_BITS} bits, give `--va-bits {MOST_BITS}` to `ambulator trace`, or \
                     `--program-set va_bits={MOST_BITS}` to `run` and `compare`"
                ),
            };
            notes.push(format!(
                "{name}: addresses that had bits beyond the lowest {}, which were cut off: {}{more}",
                self.bits, self.cut
            ));
        }
        if self.clipped > 0 {
            notes.push(format!(
                "{name}: accesses that crossed the end of the address space of {} bits, and whose bytes beyond it \
                 were left out: {}",
                self.bits, self.clipped
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_lost_is_counted() {
        let mut width = Width::new(48);
        for (address, fitted) in [
            (0x7fff_ffff_ffff, 0x7fff_ffff_ffff),
            (0xffff_ffff_ffff, 0xffff_ffff_ffff),
            (0xffff_8000_0000_1000, 0x8000_0000_1000),
            (u64::MAX, 0xffff_ffff_ffff),
        ] {
            assert_eq!(width.fit(address), fitted);
        }
        assert_eq!((width.clip(0xffff_ffff_fff8, 8), width.notes("t")), (8, vec![]));
        // The second would be canonical in a wider address space.
        for address in [0x1_0000_0000_0000, 0xffff_7000_0000_0000, 0x01ff_8000_0000_0000] {
            width.fit(address);
        }
        assert_eq!(width.clip(0xffff_ffff_ffff, 8), 1);
        let notes = width.notes("t");
        assert!(notes[0].contains("cut off: 3;") && notes[0].contains("--va-bits 57"), "{notes:?}");
        assert!(notes[1].ends_with("left out: 1"), "{notes:?}");
        let mut widest = Width::new(57);
        assert_eq!(widest.fit(0xff00_7000_0000_0000), 0x100_7000_0000_0000);
        assert!(widest.notes("t").is_empty());
        widest.fit(1 << 60);
        assert!(!widest.notes("t")[0].contains("--va-bits"));
    }
}
