//! An array of numbers that is read and written from its begin to its end, again and again: in memory, or in a
//! temporary file with one window of it in memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// Numbers in ascending order of use.
pub(crate) struct Scratch {
    len: usize,
    /// The part at hand: all of it if there is no file.
    window: Vec<f32>,
    begin: usize,
    width: usize,
    file: Option<File>,
    /// What the windows from this one on hold: they have not been written since the last fill.
    unwritten: (usize, f32),
    failed: Option<std::io::Error>,
}

impl Scratch {
    /// `len` numbers in memory.
    pub fn in_memory(len: usize, value: f32) -> Scratch {
        let window = vec![value; len];
        Scratch { len, window, begin: 0, width: len.max(1), file: None, unwritten: (0, value), failed: None }
    }

    /// `len` numbers in a temporary file (in the folder that `TMPDIR` names), with windows of `width` in memory.
    pub fn in_file(len: usize, value: f32, width: usize) -> Scratch {
        let mut scratch = Scratch::in_memory(width.min(len), value);
        (scratch.len, scratch.width) = (len, width);
        match tempfile::tempfile() {
            Ok(file) => scratch.file = Some(file),
            Err(error) => scratch.failed = Some(error),
        }
        scratch
    }

    /// How many numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number at `index`.
    #[inline(always)]
    pub fn at(&mut self, index: usize) -> &mut f32 {
        let mut within = index.wrapping_sub(self.begin);
        if within >= self.window.len() {
            self.go_to(index);
            within = index - self.begin;
        }
        &mut self.window[within]
    }

    /// Sets all numbers.
    pub fn fill(&mut self, value: f32) {
        self.unwritten = (0, value);
        self.begin = 0;
        self.window.resize(self.width.min(self.len), value);
        self.window.fill(value);
    }

    /// Why a window could not be read or written.
    pub fn failure(&mut self) -> Option<String> {
        let error = self.failed.take()?;
        let folder = std::env::temp_dir();
        Some(format!(
            "the temporary file below {} for numbers of {} vertices cannot be used: {error}; set TMPDIR to a folder \
             with room for {} MiB",
            folder.display(),
            self.len,
            (self.len * 4) >> 20
        ))
    }

    #[cold]
    fn go_to(&mut self, index: usize) {
        if let Err(error) = self.exchange(index) {
            self.failed.get_or_insert(error);
        }
    }

    fn exchange(&mut self, index: usize) -> std::io::Result<()> {
        let (from, to) = (self.begin / self.width, index / self.width);
        let bytes: Vec<u8> = self.window.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.begin = to * self.width;
        self.window.resize(self.width.min(self.len - self.begin), 0.0);
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start((from * self.width * 4) as u64))?;
        file.write_all(&bytes)?;
        self.unwritten.0 = self.unwritten.0.max(from + 1);
        if to >= self.unwritten.0 {
            self.window.fill(self.unwritten.1);
            return Ok(());
        }
        let mut bytes = vec![0; self.window.len() * 4];
        file.seek(SeekFrom::Start((self.begin * 4) as u64))?;
        file.read_exact(&mut bytes)?;
        for (number, bytes) in self.window.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_holds_what_memory_holds(
            len in 1usize..200, width in 1usize..50, passes in prop::collection::vec((any::<bool>(), 0usize..200), 1..8)
        ) {
            let (mut file, mut memory) = (Scratch::in_file(len, 0.5, width), vec![0.5f32; len]);
            for (pass, (fill, until)) in passes.into_iter().enumerate() {
                if fill {
                    file.fill(pass as f32);
                    memory.fill(pass as f32);
                }
                for (i, one) in memory.iter_mut().enumerate().take(until) {
                    prop_assert_eq!(*file.at(i), *one);
                    *file.at(i) += i as f32;
                    *one += i as f32;
                }
            }
            prop_assert!(file.failure().is_none());
        }
    }
}
