//! Sizes and counts with suffixes: `2MiB`, `20M`, `1_000`.

pub(crate) use ambulator_base::show_size;

/// The suffixes that a setting accepts, by its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suffixes {
    /// Bytes: powers of 1024.
    Size,
    /// Occurrences, instructions, cycles: `K`, `M`, `G` are powers of 1000, `Ki`, `Mi`, `Gi` of 1024.
    Count,
    /// Entries and ways: as counts, but a plain `K` is ambiguous, so it is rejected.
    Entries,
    /// Seeds, rates, everything else: digits only.
    Plain,
}

impl Suffixes {
    /// The suffixes that settings of `unit` accept.
    pub(crate) fn of_unit(unit: &str) -> Suffixes {
        match unit {
            "bytes" => Suffixes::Size,
            "count" | "instructions" | "cycles" | "events" | "pages" | "frames" | "accesses" | "records" => {
                Suffixes::Count
            }
            "entries" | "ways" => Suffixes::Entries,
            _ => Suffixes::Plain,
        }
    }

    /// Reads `text`.
    pub(crate) fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Suffixes::Size => parse_size(text),
            Suffixes::Count => parse_count(text),
            Suffixes::Entries => parse(text, entries_factor),
            Suffixes::Plain => parse(text, |suffix| match suffix {
                "" => Ok(1),
                _ => Err(format!("`{suffix}` is not accepted here: this setting takes a number without a suffix")),
            }),
        }
    }
}

/// Bytes from text: a number, with `_` allowed between digits, and one of `B`, `KiB`, `MiB`, `GiB`, `TiB` (or
/// `K`, `M`, `G`, `T`, which mean the same powers of 1024, as on Linux's command line). `KB`, `MB`, `GB`,
/// `TB` are rejected, because they are ambiguous.
///
/// ```
/// use ambulator_simulator::spec::parse_size;
/// assert_eq!(parse_size("2MiB"), Ok(2 << 20));
/// assert_eq!(parse_size("1.5G"), Ok(3 << 29));
/// assert!(parse_size("8GB").is_err());
/// ```
///
/// # Errors
/// A sentence that says what is wrong and what is valid.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse(text, size_factor)
}

/// A count from text: a number, with `_` allowed between digits, and `K`, `M`, `G` (or `B`) or `T` for powers
/// of 1000, `Ki`, `Mi`, `Gi`, `Ti` for powers of 1024.
///
/// ```
/// use ambulator_simulator::spec::parse_count;
/// assert_eq!(parse_count("20M"), Ok(20_000_000));
/// assert_eq!(parse_count("128Ki"), Ok(131_072));
/// ```
///
/// # Errors
/// A sentence that says what is wrong and what is valid.
pub fn parse_count(text: &str) -> Result<u64, String> {
    parse(text, count_factor)
}

/// Parses a number and its suffix, whose factor `factor` returns.
fn parse(text: &str, factor: impl Fn(&str) -> Result<u64, String>) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '_' || c == '.')).unwrap_or(text.len());
    let (number, suffix) = (&text[..end], text[end..].trim());
    if !number.starts_with(|c: char| c.is_ascii_digit())
        || number.ends_with(['_', '.'])
        || number.matches('.').count() > 1
    {
        return Err(format!("`{text}` is not a number; write digits and a suffix, such as `64`, `1_000` or `2Mi`"));
    }
    let factor = u128::from(factor(suffix)?);
    let digits: String = number.chars().filter(|&c| c != '_').collect();
    let (whole, part) = digits.split_once('.').unwrap_or((&digits, ""));
    let too_big = || format!("`{text}` is more than 2^64 - 1");
    if part.len() > 12 {
        return Err(format!("`{text}` has more than 12 digits after the point"));
    }
    let whole: u128 = whole.parse().map_err(|_| too_big())?;
    let mut value = whole.checked_mul(factor).ok_or_else(too_big)?;
    if !part.is_empty() {
        let scale = 10u128.pow(part.len() as u32);
        let scaled = part.parse::<u128>().map_err(|_| too_big())? * factor;
        if !scaled.is_multiple_of(scale) {
            return Err(format!("`{text}` is not a whole number"));
        }
        value = value.checked_add(scaled / scale).ok_or_else(too_big)?;
    }
    u64::try_from(value).map_err(|_| too_big())
}

fn size_factor(suffix: &str) -> Result<u64, String> {
    match suffix {
        "" | "B" => Ok(1),
        "K" | "k" | "KiB" | "Ki" => Ok(1 << 10),
        "M" | "MiB" | "Mi" => Ok(1 << 20),
        "G" | "GiB" | "Gi" => Ok(1 << 30),
        "T" | "TiB" | "Ti" => Ok(1 << 40),
        "KB" | "kB" | "MB" | "GB" | "TB" => Err(format!(
            "`{suffix}` could mean a power of 1000 or of 1024; write `{}iB` for 1024",
            suffix[..1].to_uppercase()
        )),
        _ => Err(format!("`{suffix}` is not a suffix of sizes; the suffixes are B, KiB, MiB, GiB, TiB")),
    }
}

fn count_factor(suffix: &str) -> Result<u64, String> {
    match suffix {
        "" => Ok(1),
        "K" | "k" => Ok(1_000),
        "M" => Ok(1_000_000),
        "G" | "B" => Ok(1_000_000_000),
        "T" => Ok(1_000_000_000_000),
        "Ki" => Ok(1 << 10),
        "Mi" => Ok(1 << 20),
        "Gi" => Ok(1 << 30),
        "Ti" => Ok(1 << 40),
        _ => Err(format!(
            "`{suffix}` is not a suffix of counts; the suffixes are K, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti (powers of 1024)"
        )),
    }
}

fn entries_factor(suffix: &str) -> Result<u64, String> {
    match suffix {
        "K" | "k" | "M" | "G" => Err(format!(
            "`{suffix}` could mean a power of 1000 or of 1024; entries take `{}i`, a power of 1024, or digits only",
            suffix.to_uppercase()
        )),
        "" | "Ki" | "Mi" | "Gi" => count_factor(suffix),
        _ => Err(format!("`{suffix}` is not a suffix of entries; the suffixes are Ki, Mi, Gi (powers of 1024)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4KiB", 4096),
            ("4K", 4096),
            (" 8 GiB ", 8 << 30),
            ("1_000B", 1000),
            ("0.5MiB", 1 << 19),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert!(parse_size("8GB").unwrap_err().contains("`GiB`"));
        assert!(parse_size("8 parsecs").unwrap_err().contains("B, KiB, MiB"));
        assert!(parse_size("0.3B").unwrap_err().contains("whole"));
        assert!(parse_size("99999999TiB").unwrap_err().contains("2^64"));
        for bad in ["", "-1", "_1", "1_", "1.", "1.2.3", "KiB", "é"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_are_powers_of_1000_without_an_i() {
        for (text, count) in [("20M", 20_000_000), ("1.5G", 1_500_000_000), ("64Ki", 65536), ("1_000", 1000)] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        assert!(parse_count("20MiB").unwrap_err().contains("suffix of counts"));
        assert_eq!(Suffixes::Entries.parse("128Ki"), Ok(131_072));
        assert!(Suffixes::Entries.parse("128K").unwrap_err().contains("`Ki`"));
        assert!(Suffixes::Plain.parse("3K").is_err());
    }

    #[test]
    fn shown_sizes_read_back() {
        for bytes in [0, 1, 1023, 1024, 1536, 2 << 20, 128 << 30, u64::MAX, 1 << 63] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
    }
}
