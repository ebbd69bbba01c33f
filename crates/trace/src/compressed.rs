//! Compressed files, recognised by their first bytes, never by their names.

use crate::format;
use std::io::{self, BufRead, BufReader, Read};

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
}

impl Compression {
    /// The compression of a file that begins with `bytes`.
    pub fn of(bytes: &[u8]) -> Compression {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            Compression::Gzip
        } else if bytes.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Compression::Xz
        } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Compression::Zstd
        } else {
            Compression::None
        }
    }
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
}

impl Unpacked {
    /// Decompresses `source`; `name` names it in errors.
    pub(crate) fn new(source: impl Read + Send + 'static, name: &str) -> Result<Unpacked, String> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let head = source.fill_buf().map_err(|e| format!("{name}: cannot be read: {e}"))?;
        let compression = Compression::of(head);
        let inner: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(source),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(source)),
            Compression::Zstd => Box::new(
                zstd::stream::Decoder::with_buffer(source)
                    .map_err(|e| format!("{name}: cannot be decompressed: {e}"))?,
            ),
        };
        Ok(Unpacked {
            name: name.to_owned(),
            inner,
            buffer: vec![0; 1 << 16],
            begin: 0,
            end: 0,
            offset: 0,
            compression,
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
