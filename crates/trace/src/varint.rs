//! Variable-length integers: seven bits a byte, least significant first, the top bit set on all bytes but the
//! last.

/// Appends `value`: 1 to 10 bytes.
#[inline(always)]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put`] would append.
#[inline(always)]
pub(crate) fn len(value: u64) -> u32 {
    (70 - (value | 1).leading_zeros()) / 7
}

/// Maps small magnitudes of either sign to small values.
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline(always)]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads varints ([`put`]) and single bytes from a slice; `None` if the slice ends early or a value has more
/// than 64 bits.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    #[inline(always)]
    pub(crate) fn value(&mut self) -> Option<u64> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.long_value(first)
    }

    #[inline(always)]
    fn long_value(&mut self, first: u8) -> Option<u64> {
        // Most long values (random 64-bit deltas) have eight more bytes after them: one load finds the end.
        if let Some(word) = self.bytes.first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                let mut rest = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
                // Removes the eighth bit of each byte: in pairs, then quadruples, then the whole word.
                rest = (rest & 0x007f_007f_007f_007f) | ((rest & 0x7f00_7f00_7f00_7f00) >> 1);
                rest = (rest & 0x0000_3fff_0000_3fff) | ((rest & 0x3fff_0000_3fff_0000) >> 2);
                rest = (rest & 0x0fff_ffff) | ((rest & 0x0fff_ffff_0000_0000) >> 4);
                self.bytes = &self.bytes[bits as usize / 8..];
                return Some(u64::from(first & 0x7f) | (rest << 7));
            }
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back(values in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 0..100)) {
            let mut bytes = Vec::new();
            let mut expected = 0;
            for &value in &values {
                put(&mut bytes, value);
                expected += len(value) as usize;
                prop_assert_eq!(bytes.len(), expected);
                prop_assert_eq!(zigzag(unzigzag(value)), value);
            }
            let mut cursor = Cursor::new(&bytes);
            for &value in &values {
                prop_assert_eq!(cursor.value(), Some(value));
            }
            prop_assert_eq!(cursor.value(), None);
        }
    }

    #[test]
    fn overlong_values_are_refused() {
        assert_eq!(Cursor::new(&[0xff; 11]).value(), None);
        assert_eq!(Cursor::new(&[0x80, 0x80]).value(), None);
        let mut too_large = [0xff; 10];
        too_large[9] = 2;
        assert_eq!(Cursor::new(&too_large).value(), None);
    }
}
