//! A line of a shard: a row with a checksum in front, itself one flat JSON object:
//! `{"xxh3":"0123456789abcdef","cell":"...",...}`. The checksum is that of the text of the object without it.

use crate::row::Row;
use xxhash_rust::xxh3::xxh3_64;

const BEGIN: &str = "{\"xxh3\":\"";
const NEXT: &str = "\",\"cell\":\"";

/// A row as a line with its checksum and its newline.
pub(crate) fn line_of(row: &Row) -> Vec<u8> {
    // A map with text keys is JSON.
    summed(&serde_json::to_string(row).unwrap_or_default())
}

/// The line of a row's text: with its checksum and its newline.
pub(crate) fn summed(text: &str) -> Vec<u8> {
    let rest = text.strip_prefix('{').unwrap_or(text);
    format!("{BEGIN}{:016x}\",{rest}\n", xxh3_64(text.as_bytes())).into_bytes()
}

/// The text of a line's row and its key, if the line, without its newline, is undamaged. Otherwise what is
/// wrong with it.
pub(crate) fn check(line: &[u8]) -> Result<(String, &str), &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not text")?;
    let Some((sum, rest)) = line.strip_prefix(BEGIN).and_then(|rest| Some((rest.get(..16)?, rest.get(16..)?))) else {
        return Err("it is incomplete, or something else than a cell");
    };
    let Some(key) = rest.strip_prefix(NEXT).and_then(|rest| rest.split('"').next()) else {
        return Err("it is incomplete, or something else than a cell");
    };
    let text = format!("{{{}", rest.get(2..).unwrap_or_default());
    if u64::from_str_radix(sum, 16) != Ok(xxh3_64(text.as_bytes())) {
        return Err("its checksum does not fit: it has been damaged or edited");
    }
    Ok((text, key))
}

/// The row of an undamaged line.
pub(crate) fn read(line: &[u8]) -> Result<Row, &'static str> {
    let (text, _) = check(line)?;
    serde_json::from_str(&text).map_err(|_| "it is not a JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{CellInfo, row_of};
    use ambulator_simulator::RunResult;

    #[test]
    fn every_changed_byte_is_noticed() {
        let info = CellInfo { cell: "0a1b".into(), ..CellInfo::default() };
        let row = row_of(&info, &RunResult { ipc: 0.1 + 0.2, ..RunResult::default() });
        let line = line_of(&row);
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(check(line).unwrap().1, "0a1b");
        assert_eq!(read(line).unwrap(), row);
        for at in 0..line.len() {
            let mut edited = line.to_vec();
            edited[at] = if edited[at] == b'1' { b'2' } else { b'1' };
            assert!(read(&edited).is_err(), "byte {at}");
            assert!(read(&line[..at]).is_err(), "cut at {at}");
        }
    }
}
