//! Text that users give as files, of bounded size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text file of at most `most` bytes. A longer one, such as an endless device, is not read to its
/// end.
///
/// # Errors
/// The file cannot be read, is longer, or is not UTF-8. The error's text fits after `NAME cannot be read: `.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has more than {} MiB, the most that is read", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 text (byte {at} is not)"))
    })
}

/// `text` for a message: with its middle left out if it is long, and without control characters.
///
/// ```
/// assert_eq!(ambulator_base::excerpt("mmu.pwc"), "mmu.pwc");
/// assert!(ambulator_base::excerpt(&"x".repeat(100_000)).len() < 150);
/// ```
pub fn excerpt(text: &str) -> String {
    /// Longer names are no typing errors.
    const MOST: usize = 100;
    const SHOWN: usize = 40;
    let plain = |part: String| part.replace(char::is_control, "\u{fffd}");
    let count = text.chars().count();
    if count <= MOST {
        return plain(text.to_owned());
    }
    let (begin, end) = (text.chars().take(SHOWN).collect(), text.chars().skip(count - SHOWN).collect());
    format!("{}... ({count} characters) ...{}", plain(begin), plain(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "a".repeat(1 << 20)).unwrap();
        assert_eq!(read_text(&path, 1 << 20).unwrap().len(), 1 << 20);
        assert!(read_text(&path, (1 << 20) - 1).unwrap_err().to_string().contains("more than 0 MiB"));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert!(read_text(&path, 10).unwrap_err().to_string().contains("byte 2 is not"));
    }

    #[cfg(unix)]
    #[test]
    fn endless_devices_are_refused() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let error = read_text(Path::new(device), 1 << 20).unwrap_err();
            assert_eq!(error.to_string(), "it has more than 1 MiB, the most that is read", "{device}");
        }
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt("a\u{1b}[31mb"), "a\u{fffd}[31mb");
        let long = excerpt(&"é".repeat(5000));
        assert!(long.contains("5000 characters") && long.chars().count() < 120, "{long}");
    }
}
