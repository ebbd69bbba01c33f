//! Compressed files, recognised by their first bytes, never by their names.

use crate::format;
use crate::open::TraceFormat;
use crate::zip_stream::ZipStream;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Greatest window of a zstd frame, as a power of two: 2 GiB, the format's own limit for `zstd --long`.
const MAX_ZSTD_WINDOW: u32 = 31;
/// Extensions of compressions that traces are not written in.
const OTHER_COMPRESSIONS: [&str; 11] = ["bz2", "bz", "lzma", "lz4", "lzo", "lz", "br", "z", "zip", "7z", "rar"];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// zstd.
    Zstd,
    /// lz4 frames. Only read.
    Lz4,
    /// Framed snappy. Only read.
    Snappy,
    /// The members of a zip archive, one after another. Only read.
    Zip,
}

impl Compression {
    /// Its name; `None` without compression.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Compression::None => return None,
            Compression::Gzip => "gzip",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
            Compression::Zip => "zip",
        })
    }

    /// The compression of a file that begins with `bytes`.
    pub fn of(bytes: &[u8]) -> Compression {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            Compression::Gzip
        } else if bytes.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Compression::Xz
        } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Compression::Zstd
        } else if bytes.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
            Compression::Lz4
        } else if bytes.starts_with(&[0xff, 6, 0, 0, b's', b'N']) {
            Compression::Snappy
        } else if bytes.starts_with(b"PK\x03\x04") {
            Compression::Zip
        } else {
            Compression::None
        }
    }

    /// The compression of a new trace of `format` that is to be called `to`: the one that the name's
    /// extension promises.
    ///
    /// # Errors
    /// A name that promises what the file would not be: a compression that is not written, any compression
    /// around our own format (which has its own), one that the format's own tools do not read, or another
    /// format.
    pub fn of_name(to: &Path, format: TraceFormat) -> Result<Compression, String> {
        let shown = to.display();
        let name = to.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        let compression = match extension {
            "gz" => Compression::Gzip,
            "xz" => Compression::Xz,
            "zst" | "zstd" => Compression::Zstd,
            other if OTHER_COMPRESSIONS.contains(&other) => {
                return Err(format!(
                    "{shown}: traces are not written with the compression `.{other}`; name the file .gz, .xz or .zst"
                ));
            }
            _ => Compression::None,
        };
        let inner = if compression == Compression::None { extension } else { stem.rsplit('.').next().unwrap_or(stem) };
        let name_says = match inner {
            "amb" => Some(TraceFormat::Ambulator),
            _ if inner.starts_with("champsim") => Some(TraceFormat::ChampSim),
            _ => None,
        };
        let gzip_only = match format {
            TraceFormat::DrMemTrace => Some("DynamoRIO"),
            TraceFormat::Gem5Packets | TraceFormat::Gem5Elastic => Some("gem5"),
            _ => None,
        };
        match (name_says, gzip_only) {
            (Some(TraceFormat::ChampSim), _) if format == TraceFormat::Ambulator => Err(format!(
                "{shown}: the name says ChampSim, and the format is Ambulator's: write `--format champsim`, or name the \
                 file .amb"
            )),
            (Some(TraceFormat::ChampSim), _)
                if format != TraceFormat::ChampSim && format != TraceFormat::CloudSuite =>
            {
                Err(format!("{shown}: the name says ChampSim, and the format is {format}: name the file otherwise"))
            }
            (Some(TraceFormat::Ambulator), _) if format != TraceFormat::Ambulator => Err(format!(
                "{shown}: the name says Ambulator's format, and the format is {format}: write `--format amb`, or name \
                 the file otherwise"
            )),
            _ if format == TraceFormat::Ambulator && compression != Compression::None => Err(format!(
                "{shown}: Ambulator's format has its own compression; name the file .amb, or write ChampSim's format \
                 with `--format champsim`"
            )),
            (_, Some(tool)) if !matches!(compression, Compression::None | Compression::Gzip) => {
                Err(format!("{shown}: {tool} does not read this compression; name the file .gz, or without one"))
            }
            _ => Ok(compression),
        }
    }
}

/// The bytes of history that the zstd frame at the beginning of `bytes` needs for its decompression.
fn zstd_window(bytes: &[u8]) -> Option<u64> {
    // Zstandard's format (RFC 8878), section 3.1.1.1: magic number, descriptor, then the window's descriptor
    // or, for a single segment, the identifier of a dictionary and the size of the contents.
    let descriptor = *bytes.get(4)?;
    if descriptor & 0x20 == 0 {
        let window = *bytes.get(5)?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut contents = [0; 8];
    contents[..size].copy_from_slice(bytes.get(at..at + size)?);
    Some(u64::from_le_bytes(contents) + if size == 2 { 256 } else { 0 })
}

/// Says that a zstd frame's window is too large.
fn window_too_large(name: &str, window: Option<u64>) -> String {
    let needed = window.map_or_else(String::new, |bytes| format!(" of {} MiB", bytes.div_ceil(1 << 20)));
    format!(
        "{name}: its zstd compression needs a window{needed} in memory, and at most {} MiB are supported; compress it \
         again with a smaller one (`zstd --long={MAX_ZSTD_WINDOW}` or less)",
        1 << (MAX_ZSTD_WINDOW - 20)
    )
}

/// A window of a file's decompressed contents, with the offset for error messages.
pub(crate) struct Unpacked {
    name: String,
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Decompressed bytes consumed so far.
    pub(crate) offset: u64,
    pub(crate) compression: Compression,
    /// Bytes of history that the first zstd frame needs.
    zstd_window: Option<u64>,
}

impl Unpacked {
    /// Decompresses `source`; `name` names it in errors.
    pub(crate) fn new(source: impl Read + Send + 'static, name: &str) -> Result<Unpacked, String> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let head = source.fill_buf().map_err(|e| format!("{name}: cannot be read: {e}"))?;
        let compression = Compression::of(head);
        let zstd_window = if compression == Compression::Zstd { zstd_window(head) } else { None };
        if zstd_window.is_some_and(|window| window > 1 << MAX_ZSTD_WINDOW) {
            return Err(window_too_large(name, zstd_window));
        }
        let inner: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(source),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(source)),
            Compression::Zstd => {
                let decoder = zstd::stream::Decoder::with_buffer(source).and_then(|mut decoder| {
                    decoder.window_log_max(MAX_ZSTD_WINDOW)?;
                    Ok(decoder)
                });
                Box::new(decoder.map_err(|e| format!("{name}: cannot be decompressed: {e}"))?)
            }
            Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(source)),
            Compression::Snappy => Box::new(snap::read::FrameDecoder::new(source)),
            Compression::Zip => Box::new(ZipStream::new(source)),
        };
        Ok(Unpacked {
            name: name.to_owned(),
            inner,
            buffer: vec![0; 1 << 16],
            begin: 0,
            end: 0,
            offset: 0,
            compression,
            zstd_window,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes at hand without consuming them: at least `wanted` (at most 64 KiB) unless the
    /// contents end before.
    pub(crate) fn peek(&mut self, wanted: usize) -> Result<&[u8], String> {
        while self.end - self.begin < wanted {
            if self.buffer.len() - self.begin < wanted {
                self.buffer.copy_within(self.begin..self.end, 0);
                self.end -= self.begin;
                self.begin = 0;
            }
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.to_string().contains("memory") => return Err(self.lacks_memory(&e)),
                Err(e) => {
                    let at = self.offset + (self.end - self.begin) as u64;
                    let packed = if self.compression == Compression::None { "" } else { " unpacked" };
                    return Err(format!(
                        "{}: cannot be read beyond{packed} byte {at}: {e}; the file is damaged or cut short there",
                        self.name
                    ));
                }
            }
        }
        Ok(&self.buffer[self.begin..self.end])
    }

    /// Says that the sim host has too little memory to decompress the file: it is not damaged.
    fn lacks_memory(&self, error: &io::Error) -> String {
        // zstd's name for a frame that needs more than the limit: a later frame, as the first was checked.
        if error.to_string().contains("requires too much memory") {
            return window_too_large(&self.name, None);
        }
        let window = self.zstd_window.map_or_else(String::new, |bytes| format!(" (a window of {bytes} bytes)"));
        format!(
            "{}: cannot be decompressed in this machine's memory: {error}{window}; free some, or decompress the file first",
            self.name
        )
    }

    /// Consumes `count` bytes of what [`Unpacked::peek`] showed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.begin += count;
        self.offset += count as u64;
    }
}

/// A writer that compresses at the compression's default level.
pub(crate) fn packing<W: io::Write + 'static>(out: W, compression: Compression) -> io::Result<Box<dyn Finish>> {
    Ok(match compression {
        Compression::None => Box::new(io::BufWriter::new(out)),
        Compression::Gzip => Box::new(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
        Compression::Xz => Box::new(liblzma::write::XzEncoder::new(out, 6)),
        Compression::Zstd => Box::new(zstd::stream::Encoder::new(out, 9)?),
        Compression::Lz4 | Compression::Snappy | Compression::Zip => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this compression is only read"));
        }
    })
}

/// A writer that must be finished explicitly.
pub(crate) trait Finish: io::Write {
    /// Writes everything still buffered.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: io::Write> Finish for io::BufWriter<W> {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        io::Write::flush(&mut *self)
    }
}

impl<W: io::Write> Finish for flate2::write::GzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flate2::write::GzEncoder::finish(*self).and_then(|mut out| out.flush())
    }
}

impl<W: io::Write> Finish for liblzma::write::XzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        liblzma::write::XzEncoder::finish(*self).and_then(|mut out| out.flush())
    }
}

impl<W: io::Write> Finish for zstd::stream::Encoder<'static, W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        zstd::stream::Encoder::finish(*self).and_then(|mut out| out.flush())
    }
}

/// Whether a file that begins with `bytes` has our format.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(&format::MAGIC) || (bytes.len() >= 4 && format::MAGIC.starts_with(bytes))
}
