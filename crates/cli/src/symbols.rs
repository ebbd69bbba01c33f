//! Where instructions are in the source: by the symbols and the debug information of the files that were
//! mapped when they ran.

use addr2line::Loader;
use ambulator_experiments::advice::Place;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;

/// Files with their symbols, opened as they are asked for.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<String, Option<Binary>>,
}

impl Symbols {
    /// The place of a byte of a file; `None` if the file is not there, or has no symbol for it.
    pub fn place(&mut self, file: &str, offset: u64) -> Option<Place> {
        let binary = self.files.entry(file.to_owned()).or_insert_with(|| Binary::open(file));
        binary.as_ref()?.place(offset)
    }
}

/// A part of a file that is mapped, and its address.
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
}

/// An executable or a library.
struct Binary {
    loader: Loader,
    segments: Vec<Segment>,
    /// Functions that it exports: address, bytes, name. They remain in a file without other symbols.
    exported: Vec<(u64, u64, String)>,
}

impl Binary {
    fn open(path: &str) -> Option<Binary> {
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, bytes) = segment.file_range();
            Segment { offset, bytes, address: segment.address() }
        };
        let function = |symbol: object::Symbol<'_, '_>| {
            let named = symbol.kind() == SymbolKind::Text && symbol.size() > 0;
            named.then(|| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))).flatten()
        };
        Some(Binary {
            loader: Loader::new(path).ok()?,
            segments: file.segments().map(segment).collect(),
            exported: file.dynamic_symbols().filter_map(function).collect(),
        })
    }

    fn place(&self, offset: u64) -> Option<Place> {
        let holds = |segment: &&Segment| segment.offset <= offset && offset - segment.offset < segment.bytes;
        let segment = self.segments.iter().find(holds)?;
        let address = segment.address + (offset - segment.offset);
        let mut place = self.in_source(address).unwrap_or_default();
        if place.function.is_empty() {
            let exported = || self.exported.iter().find(|(at, bytes, _)| *at <= address && address - at < *bytes);
            let symbol = self.loader.find_symbol(address).or_else(|| Some(exported()?.2.as_str()));
            place.function =
                symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned()).unwrap_or_default();
        }
        (place != Place::default()).then_some(place)
    }

    /// By debug information: the innermost function, where one is inlined into another.
    fn in_source(&self, address: u64) -> Option<Place> {
        let mut frames = self.loader.find_frames(address).ok()?;
        let frame = frames.next().ok()??;
        let function = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
        let (source, line) = frame.location.map_or((None, None), |location| (location.file, location.line));
        Some(Place {
            function: function.unwrap_or_default(),
            source: source.unwrap_or_default().to_owned(),
            line: line.unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose place in this program is asked for.
    #[inline(never)]
    fn landmark() -> u64 {
        std::hint::black_box(7)
    }

    /// The file and the byte of it that is mapped at an address of this process.
    fn mapped_at(address: u64) -> (String, u64) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let offset = number(words.nth(1)?)?;
            let (start, end) = (number(start)?, number(end)?);
            (start..end).contains(&address).then(|| Some((words.nth(2)?.to_owned(), address - start + offset)))?
        });
        found.expect("code is mapped from a file")
    }

    #[test]
    fn a_function_of_this_program_is_found_with_its_file_and_line() {
        assert_eq!(landmark(), 7);
        let (file, offset) = mapped_at(landmark as *const () as u64);
        let mut symbols = Symbols::default();
        let place = symbols.place(&file, offset).unwrap();
        assert!(place.function.ends_with("landmark") || place.function.contains("black_box"), "{place:?}");
        assert!(place.line > 0 && place.source.ends_with(".rs"), "{place:?}");
    }

    #[test]
    fn what_is_no_binary_or_not_there_has_no_place() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.place("/does/not/exist", 0), None);
        assert_eq!(symbols.place("/proc/self/maps", 0), None);
        assert_eq!(symbols.place("/proc/self/exe", u64::MAX), None);
    }
}
