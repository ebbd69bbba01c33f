//! Graphs from files: edge lists, Matrix Market, and the serialised graphs of the GAP benchmark suite.
//!
//! - Edge lists: one edge a line, two whole numbers and an optional weight, which is ignored; lines that
//!   begin with `#` or `%` are comments (SNAP's and KONECT's files).
//! - Matrix Market (`.mtx`): `%%MatrixMarket matrix coordinate` with any field and symmetry; entries are
//!   edges from row to column.
//! - GAP (`.sg`, `.wsg`; its `writer.h`): a byte that says whether the graph is directed, 8-byte numbers of
//!   stored edges and vertices, an 8-byte offset for each vertex and one more, then the neighbours of 4
//!   bytes, in a `.wsg` each with a weight of 4 bytes; a directed graph then repeats its edges as incoming
//!   edges.
//!
//! All are little-endian, and the first two may be compressed with gzip (`.gz`). Edges count as undirected,
//! like those of generated graphs: each is stored at both ends, and an undirected GAP graph lists each of its
//! edges once.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A graph's edges.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Vertices: one more than the greatest number.
    pub vertices: u64,
    /// Ends of each edge, in the file's order.
    pub edges: Vec<(u32, u32)>,
}

/// Loads the edges of a file; repeated calls share them.
///
/// # Errors
/// The file cannot be read, or has none of the formats; the error names the file, the line or byte, and the
/// fault.
pub fn load(path: &str) -> Result<Arc<Edges>, String> {
    static KNOWN: Mutex<Vec<(String, Arc<Edges>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, edges)) = known.iter().find(|(name, _)| name == path) {
        return Ok(Arc::clone(edges));
    }
    let edges = Arc::new(read(Path::new(path))?);
    known.push((path.to_owned(), Arc::clone(&edges)));
    Ok(edges)
}

fn read(path: &Path) -> Result<Edges, String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| format!("{name}: the graph cannot be opened: {e}"))?;
    let (stem, gzip) = match name.strip_suffix(".gz") {
        Some(stem) => (stem.to_owned(), true),
        None => (name.clone(), false),
    };
    let reader: Box<dyn Read> = if gzip { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
    let reader = BufReader::with_capacity(1 << 20, reader);
    let edges = if stem.ends_with(".sg") || stem.ends_with(".wsg") {
        gap(reader, stem.ends_with(".wsg"))
    } else if stem.ends_with(".mtx") {
        matrix_market(reader)
    } else {
        edge_list(reader)
    };
    let edges = edges.map_err(|what| format!("{name}: {what}"))?;
    if edges.edges.is_empty() {
        return Err(format!("{name}: the graph has no edges"));
    }
    Ok(edges)
}

/// Greatest vertex number: they are 32-bit.
const MOST: u64 = 1 << 31;

fn number(word: Option<&str>, line: usize, what: &str) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("line {line} has no {what}; an edge is two numbers"))?;
    let number: u64 =
        word.parse().map_err(|_| format!("line {line}: the {what} is `{word}`, which is not a whole number"))?;
    if number >= MOST {
        return Err(format!("line {line}: the {what} is {number}; vertices are numbered below 2^31"));
    }
    Ok(number)
}

fn each_line(reader: impl BufRead, mut take: impl FnMut(usize, &str) -> Result<(), String>) -> Result<(), String> {
    for (at, line) in reader.lines().enumerate() {
        let line = line.map_err(|e| format!("line {}: cannot be read: {e}", at + 1))?;
        take(at + 1, line.trim())?;
    }
    Ok(())
}

/// Reads an edge list.
///
/// # Errors
/// The line, what is wrong with it, and what would be right.
pub fn edge_list(reader: impl BufRead) -> Result<Edges, String> {
    let mut all = Edges::default();
    each_line(reader, |at, line| {
        if line.is_empty() || line.starts_with(['#', '%']) {
            return Ok(());
        }
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let (u, v) = (number(words.next(), at, "first vertex")?, number(words.next(), at, "second vertex")?);
        if let Some(weight) = words.next()
            && weight.parse::<f64>().is_err()
        {
            return Err(format!("line {at}: after the vertices comes `{weight}`, which is not a weight"));
        }
        all.vertices = all.vertices.max(u + 1).max(v + 1);
        all.edges.push((u as u32, v as u32));
        Ok(())
    })?;
    Ok(all)
}

/// Reads a Matrix Market file.
///
/// # Errors
/// As [`edge_list`].
pub fn matrix_market(reader: impl BufRead) -> Result<Edges, String> {
    let mut all = Edges::default();
    let (mut entries, mut header) = (None, false);
    each_line(reader, |at, line| {
        if at == 1 {
            let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
            header =
                words.len() >= 5 && words[0] == "%%matrixmarket" && words[1] == "matrix" && words[2] == "coordinate";
            if !header {
                return Err(format!(
                    "line 1 is `{line}`; a sparse matrix begins with `%%MatrixMarket matrix coordinate ...`"
                ));
            }
            return Ok(());
        }
        if line.is_empty() || line.starts_with('%') {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let Some(left) = &mut entries else {
            let (rows, columns) =
                (number(words.next(), at, "count of rows")?, number(words.next(), at, "count of columns")?);
            let count = words.next().and_then(|word| word.parse::<u64>().ok());
            let count = count.ok_or_else(|| format!("line {at} must have rows, columns and entries"))?;
            all.vertices = rows.max(columns);
            entries = Some(count);
            return Ok(());
        };
        if *left == 0 {
            return Err(format!("line {at} is an excess entry"));
        }
        *left -= 1;
        let (row, column) = (number(words.next(), at, "row")?, number(words.next(), at, "column")?);
        if row == 0 || column == 0 || row > all.vertices || column > all.vertices {
            return Err(format!("line {at}: row {row}, column {column}; both must be 1 to {}", all.vertices));
        }
        all.edges.push((row as u32 - 1, column as u32 - 1));
        Ok(())
    })?;
    match entries {
        None => Err("the line with rows, columns and entries is missing".into()),
        Some(0) => Ok(all),
        Some(left) => Err(format!("the file ends {left} entries early")),
    }
}

/// Reads one of GAP's serialised graphs.
///
/// # Errors
/// The byte at which the file ends early or is invalid.
pub fn gap(mut reader: impl Read, weighted: bool) -> Result<Edges, String> {
    let mut at = 0u64;
    let mut take = |bytes: &mut [u8], what: &str| {
        reader.read_exact(bytes).map_err(|e| format!("byte {at}: {what} cannot be read: {e}"))?;
        at += bytes.len() as u64;
        Ok::<(), String>(())
    };
    let mut flag = [0];
    take(&mut flag, "the flag that says whether the graph is directed")?;
    if flag[0] > 1 {
        return Err(format!("byte 0 is {}; GAP's graphs begin with 0 (undirected) or 1 (directed)", flag[0]));
    }
    let mut word = [0; 8];
    let mut count = |what: &str| {
        take(&mut word, what)?;
        u64::try_from(i64::from_le_bytes(word)).map_err(|_| format!("{what} is negative"))
    };
    let stored = count("the number of edges")?;
    let vertices = count("the number of vertices")?;
    if vertices == 0 || vertices > MOST || stored > u64::from(u32::MAX) {
        return Err(format!(
            "{vertices} vertices and {stored} edges: the limits are 2^31 and 2^32, and at least one vertex"
        ));
    }
    let mut offsets = Vec::new();
    for _ in 0..=vertices {
        let offset = count("an offset")?;
        if offset > stored || offsets.last().is_some_and(|last| offset < *last) {
            return Err(format!("offset {} is {offset}; offsets ascend to {stored}", offsets.len()));
        }
        offsets.push(offset);
    }
    if offsets.last() != Some(&stored) || offsets[0] != 0 {
        return Err(format!("the offsets must go from 0 to {stored}"));
    }
    let mut all = Edges { vertices, edges: Vec::new() };
    let mut entry = vec![0; if weighted { 8 } else { 4 }];
    for (u, ends) in offsets.windows(2).enumerate() {
        for _ in ends[0]..ends[1] {
            take(&mut entry, "a neighbour")?;
            let v = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            if u64::from(v) >= vertices {
                return Err(format!("a neighbour of vertex {u} is {v}, and there are {vertices} vertices"));
            }
            // An undirected graph holds each edge at both ends.
            if flag[0] == 1 || u as u32 <= v {
                all.edges.push((u as u32, v));
            }
        }
    }
    Ok(all)
}

/// Feeds any bytes to all three readers and returns; fuzzers and property tests call it.
pub fn fuzz_graph(bytes: &[u8]) {
    for read in [edge_list(bytes), matrix_market(bytes), gap(bytes, false), gap(bytes, true)] {
        match read {
            Ok(edges) => assert!(edges.edges.iter().all(|(u, v)| u64::from(*u.max(v)) < edges.vertices)),
            Err(what) => assert!(!what.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edge_lists_and_matrices_are_read() {
        let text = "# a comment\n0 1\n1\t2 0.5\n\n% another\n7,3\n";
        assert_eq!(edge_list(text.as_bytes()).unwrap(), Edges { vertices: 8, edges: vec![(0, 1), (1, 2), (7, 3)] });
        let text = "%%MatrixMarket matrix coordinate pattern symmetric\n% c\n5 5 2\n1 2\n5 5\n";
        assert_eq!(matrix_market(text.as_bytes()).unwrap(), Edges { vertices: 5, edges: vec![(0, 1), (4, 4)] });
    }

    #[test]
    fn gaps_graphs_are_read() {
        for (directed, weighted) in [(0u8, false), (0, true), (1, false)] {
            // 0 - 1, 0 - 2 (undirected: at both ends).
            let lists: [&[u32]; 3] = if directed == 1 { [&[1, 2], &[], &[]] } else { [&[1, 2], &[0], &[0]] };
            let stored: usize = lists.iter().map(|list| list.len()).sum();
            let mut bytes = vec![directed];
            bytes.extend((stored as i64).to_le_bytes());
            bytes.extend(3i64.to_le_bytes());
            let mut offset = 0i64;
            bytes.extend(offset.to_le_bytes());
            for list in lists {
                offset += list.len() as i64;
                bytes.extend(offset.to_le_bytes());
            }
            for v in lists.concat() {
                bytes.extend(v.to_le_bytes());
                if weighted {
                    bytes.extend(9u32.to_le_bytes());
                }
            }
            assert_eq!(gap(bytes.as_slice(), weighted).unwrap(), Edges { vertices: 3, edges: vec![(0, 1), (0, 2)] });
            let cut = gap(&bytes[..bytes.len() - 1], weighted).unwrap_err();
            assert!(cut.contains("a neighbour cannot be read"), "{cut}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        let error = |text: &str| edge_list(text.as_bytes()).unwrap_err();
        assert!(error("0 1\n2\n").contains("line 2 has no second vertex"));
        assert!(error("a b\n").contains("line 1: the first vertex is `a`"));
        assert!(error("0 99999999999\n").contains("below 2^31"));
        assert!(error("0 1 heavy\n").contains("`heavy`, which is not a weight"));
        let error = |text: &str| matrix_market(text.as_bytes()).unwrap_err();
        assert!(error("1 2\n").contains("%%MatrixMarket"));
        assert!(error("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 0.5\n").contains("1 entries early"));
        assert!(
            error("%%MatrixMarket matrix coordinate real general\n3 3 1\n4 1 0.5\n").contains("both must be 1 to 3")
        );
        assert!(gap(&[2u8; 40][..], false).unwrap_err().contains("byte 0 is 2"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[0-9 \n#%a-z.]{0,200}") {
            fuzz_graph(&bytes);
            fuzz_graph(text.as_bytes());
            fuzz_graph(format!("%%MatrixMarket matrix coordinate real general\n{text}").as_bytes());
        }
    }
}
