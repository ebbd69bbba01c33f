//! The members of a zip archive as one stream, in the order in which they were written.
//!
//! Read from the members' own headers and not from the directory at the end, so it needs no seeking and no
//! memory. drmemtrace splits long traces so, into members `chunk.0000` and on; each continues the one before.

use flate2::{Crc, bufread::DeflateDecoder};
use std::io::{self, BufRead, Read, Take};

const MEMBER: u32 = u32::from_le_bytes(*b"PK\x03\x04");
const DIRECTORY: u32 = u32::from_le_bytes(*b"PK\x01\x02");
const DIRECTORY_END: u32 = u32::from_le_bytes(*b"PK\x05\x06");
const LONG_DIRECTORY_END: u32 = u32::from_le_bytes(*b"PK\x06\x06");
const DESCRIPTOR: u32 = u32::from_le_bytes(*b"PK\x07\x08");
/// Flag of a member whose checksum and sizes come after its contents.
const SIZES_AFTER: u16 = 1 << 3;
const ENCRYPTED: u16 = 1;

/// The archive between two reads.
enum State<R> {
    Between(R),
    Stored(Take<R>),
    Deflated(DeflateDecoder<R>),
    /// After the last member, or after an error.
    Ended,
}

/// The header of the member that is being read.
#[derive(Default)]
struct Member {
    name: String,
    flags: u16,
    checksum: u32,
}

/// The contents of an archive's members, one after another.
pub(crate) struct ZipStream<R> {
    state: State<R>,
    member: Member,
    seen: Crc,
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn word(inner: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    inner.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

impl<R: BufRead> ZipStream<R> {
    /// Reads the archive that begins here.
    pub(crate) fn new(inner: R) -> ZipStream<R> {
        ZipStream { state: State::Between(inner), member: Member::default(), seen: Crc::new() }
    }

    /// Opens the next member; `Ended` behind the last.
    fn next_member(&mut self, mut inner: R) -> io::Result<State<R>> {
        match word(&mut inner)? {
            MEMBER => {}
            DIRECTORY | DIRECTORY_END | LONG_DIRECTORY_END => return Ok(State::Ended),
            other => return Err(bad(format!("a member of the zip archive begins with {other:#010x}"))),
        }
        let mut header = [0; 26];
        inner.read_exact(&mut header)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (flags, method, packed) = (short(2), short(4), long(14));
        let mut name = vec![0; usize::from(short(22))];
        inner.read_exact(&mut name)?;
        io::copy(&mut inner.by_ref().take(u64::from(short(24))), &mut io::sink())?;
        let name: String = String::from_utf8_lossy(&name).escape_debug().collect();
        self.member = Member { name, flags, checksum: long(10) };
        self.seen = Crc::new();
        let name = &self.member.name;
        match method {
            _ if flags & ENCRYPTED != 0 => Err(bad(format!("the member {name} of the zip archive is encrypted"))),
            0 if flags & SIZES_AFTER != 0 || packed == u32::MAX => {
                Err(bad(format!("the member {name} of the zip archive is stored without its size; deflate it")))
            }
            0 => Ok(State::Stored(inner.take(u64::from(packed)))),
            8 => Ok(State::Deflated(DeflateDecoder::new(inner))),
            _ => Err(bad(format!(
                "the member {name} of the zip archive has compression method {method}; 0 (stored) and 8 (deflate) are \
                 read"
            ))),
        }
    }

    /// Checks what came out of the member that has ended.
    fn end_member(&mut self, mut inner: R) -> io::Result<State<R>> {
        let mut checksum = self.member.checksum;
        if self.member.flags & SIZES_AFTER != 0 {
            checksum = word(&mut inner)?;
            if checksum == DESCRIPTOR {
                checksum = word(&mut inner)?;
            }
            // Two sizes, of four bytes each or, in long archives, of eight.
            inner.read_exact(&mut [0; 8])?;
            if !inner.fill_buf()?.starts_with(b"P") {
                inner.read_exact(&mut [0; 8])?;
            }
        }
        if checksum != self.seen.sum() {
            return Err(bad(format!("the member {} of the zip archive fails its checksum", self.member.name)));
        }
        Ok(State::Between(inner))
    }
}

impl<R: BufRead> Read for ZipStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            // After an error the stream has ended.
            self.state = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(inner) => self.next_member(inner)?,
                State::Stored(mut contents) => match contents.read(buffer)? {
                    0 if contents.limit() > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    0 => self.end_member(contents.into_inner())?,
                    count => {
                        self.seen.update(&buffer[..count]);
                        self.state = State::Stored(contents);
                        return Ok(count);
                    }
                },
                State::Deflated(mut contents) => match contents.read(buffer)? {
                    0 => self.end_member(contents.into_inner())?,
                    count => {
                        self.seen.update(&buffer[..count]);
                        self.state = State::Deflated(contents);
                        return Ok(count);
                    }
                },
            };
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flate2::write::DeflateEncoder;
    use std::io::Write;

    /// An archive of these members; `after`: with sizes behind the contents.
    pub(crate) fn archive(members: &[&[u8]], deflate: bool, after: bool) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, contents) in members.iter().enumerate() {
            let mut packer = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(contents).unwrap();
            let packed = if deflate { packer.finish().unwrap() } else { contents.to_vec() };
            let mut crc = Crc::new();
            crc.update(contents);
            let sizes: Vec<u8> =
                [crc.sum(), packed.len() as u32, contents.len() as u32].iter().flat_map(|n| n.to_le_bytes()).collect();
            let name = format!("chunk.{number:04}");
            all.extend(b"PK\x03\x04\x14\x00");
            all.extend([if after { 8 } else { 0 }, 0, if deflate { 8 } else { 0 }, 0, 0, 0, 0, 0]);
            all.extend(if after { &[0; 12][..] } else { &sizes });
            all.extend([name.len() as u8, 0, 3, 0]);
            all.extend(name.as_bytes());
            all.extend([1, 2, 3]);
            all.extend(&packed);
            if after {
                all.extend(b"PK\x07\x08");
                all.extend(&sizes);
            }
        }
        all.extend(b"PK\x01\x02 and the directory");
        all
    }

    #[test]
    fn members_are_one_stream_and_damage_is_an_error() {
        let (one, two) = (vec![7; 100_000], b"the end".to_vec());
        for (deflate, after) in [(true, false), (true, true), (false, false)] {
            let bytes = archive(&[&one, &[], &two], deflate, after);
            let mut all = Vec::new();
            ZipStream::new(&bytes[..]).read_to_end(&mut all).unwrap();
            assert!(all == [&one[..], &two[..]].concat(), "{deflate} {after}");
            for length in 0..bytes.len() - 27 {
                assert!(ZipStream::new(&bytes[..length]).read_to_end(&mut Vec::new()).is_err(), "{length}");
                if length > 300 && !deflate {
                    break;
                }
            }
        }
        let mut bytes = archive(&[&two], false, false);
        *bytes.iter_mut().find(|byte| **byte == b'e').unwrap() ^= 1;
        let error = ZipStream::new(&bytes[..]).read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("chunk.0000") || error.contains("checksum"), "{error}");
        let error = ZipStream::new(&archive(&[&two], false, true)[..]).read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("chunk.0000 of the zip archive is stored without its size"), "{error}");
    }
}
