//! The section of a trace that names parts of the address space: files that were mapped.

use crate::format::{u32_at, u64_at};
use crate::varint::{self, Cursor};
use ambulator_base::{NamedRange, VirtAddr};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const NAMES_MAGIC: [u8; 4] = *b"ANAM";
/// The most bytes of the names' body.
const MAX_BODY: usize = 8 << 20;
/// Bytes of the section besides its body.
const AROUND: usize = 16;

/// The most bytes of the section.
pub(crate) const MAX_SECTION: u64 = (MAX_BODY + AROUND) as u64;

/// Encodes the section; names that would make it too large are left out. Empty without names.
pub(crate) fn encode(names: &[NamedRange]) -> Vec<u8> {
    let mut body = Vec::new();
    for range in names {
        let before = body.len();
        varint::put(&mut body, range.start.0);
        varint::put(&mut body, range.len);
        varint::put(&mut body, range.file_offset.map_or(0, |offset| offset.saturating_add(1)));
        varint::put(&mut body, range.name.len() as u64);
        body.extend_from_slice(range.name.as_bytes());
        if body.len() > MAX_BODY {
            body.truncate(before);
            break;
        }
    }
    if body.is_empty() {
        return body;
    }
    let mut out = NAMES_MAGIC.to_vec();
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.extend(xxh3_64(&out).to_le_bytes());
    out
}

/// Decodes the section at the beginning of `bytes`, and returns it with the bytes after it; no names if there
/// is none, or it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> (Vec<NamedRange>, &[u8]) {
    match section(bytes) {
        Some((body, rest)) => (ranges(body).unwrap_or_default(), rest),
        None => (Vec::new(), bytes),
    }
}

/// The body of a sound section, and what follows it.
fn section(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.strip_prefix(&NAMES_MAGIC)?;
    let end = u32_at(bytes, 4) as usize + AROUND - 8;
    let (content, rest) = bytes.split_at_checked(end)?;
    let (sum, rest) = rest.split_at_checked(8)?;
    (u64_at(sum, 0) == xxh3_64(content)).then(|| (&content[8..], rest))
}

fn ranges(body: &[u8]) -> Option<Vec<NamedRange>> {
    let (mut cursor, mut names) = (Cursor::new(body), Vec::new());
    while cursor.remaining() > 0 {
        let (start, len) = (cursor.value()?, cursor.value()?);
        start.checked_add(len)?;
        let file_offset = cursor.value()?.checked_sub(1);
        let bytes = usize::try_from(cursor.value()?).ok()?;
        let name = std::str::from_utf8(cursor.take(bytes)?).ok()?.to_owned();
        names.push(NamedRange { start: VirtAddr(start), len, name, file_offset });
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<NamedRange> {
        let range = |start, name: &str, file_offset| NamedRange {
            start: VirtAddr(start),
            len: 0x2000,
            name: name.into(),
            file_offset,
        };
        vec![range(0x40_0000_0000, "/usr/bin/sort", Some(0)), range(1 << 40, "a table, \u{e9}", None)]
    }

    #[test]
    fn names_come_back_and_damage_takes_them_but_nothing_else() {
        assert!(encode(&[]).is_empty());
        let mut bytes = encode(&names());
        bytes.extend(b"rest");
        assert_eq!(decode(&bytes), (names(), &b"rest"[..]));
        for at in 0..bytes.len() - 4 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged).0, [], "byte {at}");
            assert_eq!(decode(&bytes[..at]).0, [], "cut at {at}");
        }
    }

    #[test]
    fn too_many_names_are_left_out() {
        let long = NamedRange { name: "x".repeat(MAX_BODY / 2), ..names()[0].clone() };
        let (kept, _) = decode(&encode(&[long.clone(), long.clone()])).clone();
        assert_eq!(kept.len(), 1);
    }
}
