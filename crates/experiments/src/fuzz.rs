//! Entry points for fuzzing: any text must give a result or an error, never a panic or a hang.

use crate::layout::{parse_maps, report};
use crate::row::{row_of, run_of};
use crate::store::line;
use serde_json::Value;

/// Pages of an address space up to which it is measured as well: page tables are built for them.
const MOST_PAGES: u64 = 64;

/// Reads `text` as a copy of `/proc/PID/maps`. It returns for any text.
pub fn fuzz_maps(text: &str) {
    let areas = match parse_maps("maps", text) {
        Ok(areas) => areas,
        Err(error) => return assert!(error.starts_with("maps:")),
    };
    for area in &areas {
        assert!(area.start < area.end && area.rights < 8, "{area:?}");
    }
    assert!(areas.windows(2).all(|pair| pair[0].end <= pair[1].start));
    let pages: u64 = areas.iter().map(|area| area.end - area.start).sum();
    if pages <= MOST_PAGES {
        let report = report(&areas, None);
        assert!(report.ranges <= report.areas && report.resident_pages <= pages);
    }
}

/// Reads `bytes` as the lines of a store, each as it is, and then as the text of a row with the right
/// checksum. A row that is read must give the line that was read, and a run of it the same run. It returns
/// for any bytes.
pub fn fuzz_store(bytes: &[u8]) {
    for text in bytes.split(|byte| *byte == b'\n') {
        let summed = String::from_utf8(text.to_vec()).map(|text| line::summed(&text)).unwrap_or_default();
        for text in [text, summed.strip_suffix(b"\n").unwrap_or(&summed)] {
            let Ok(row) = line::read(text) else { continue };
            let written = line::line_of(&row);
            let again = line::read(&written[..written.len() - 1]).expect("what was written is read");
            assert_eq!(again, row);
            if let Ok((info, run)) = run_of(&row, Value::Null) {
                let (back, _) = run_of(&row_of(&info, &run), Value::Null).expect("a row of a run is one");
                assert_eq!(back, info);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::CellInfo;
    use ambulator_base::Random;

    /// `bytes` with one to four of them changed, taken from `likely` or removed.
    fn mutated(bytes: &[u8], likely: &[u8], random: &mut Random) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.next_u64() as u8,
                1 => bytes[at] = likely[random.below(likely.len() as u64) as usize],
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    }

    #[test]
    fn stores_survive_mutations() {
        let mut random = Random::for_purpose(1, "fuzz store");
        let run = ambulator_simulator::RunResult { design: "radix".into(), ipc: 0.1, ..Default::default() };
        let row = row_of(&CellInfo { cell: "a key".into(), ..CellInfo::default() }, &run);
        let (line, text) = (line::line_of(&row), serde_json::to_vec(&row).unwrap());
        assert_eq!(line::read(&line[..line.len() - 1]).as_ref(), Ok(&row));
        for _ in 0..400 {
            for bytes in [&line[..], &text] {
                fuzz_store(&mutated(bytes, b"0.-e{}\"\n", &mut random));
            }
        }
    }

    #[test]
    fn maps_survive_mutations() {
        let mut random = Random::for_purpose(1, "fuzz maps");
        let maps = "555555554000-555555556000 r--p 00000000 fe:01 123 /usr/bin/x\n\
                    7ffff0000000-7ffff0010000 rw-p 00000000 00:00 0\n7ffff0010000-7ffff0011000 ---p 0 00:00 0\n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        fuzz_maps(maps);
        for _ in 0..400 {
            let bytes = mutated(maps.as_bytes(), b"0f-\n rx", &mut random);
            fuzz_maps(&String::from_utf8_lossy(&bytes));
        }
    }
}
