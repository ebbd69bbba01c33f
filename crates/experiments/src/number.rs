//! Human-readable numbers.

/// Bytes with a binary suffix and at most one decimal.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value >= 100.0 || value.fract().abs() < 0.05 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A count with a decimal suffix: 1234567 is `1.23 M`.
pub fn count(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", short(scaled))
}

/// A number of things: `1 cell`, `2 cells`.
pub fn numbered(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// A span of wall-clock time of the simulator.
pub fn seconds(value: f64) -> String {
    if value < 60.0 {
        format!("{value:.1} s")
    } else if value < 3600.0 {
        format!("{:.0} min {:.0} s", (value / 60.0).floor(), value % 60.0)
    } else {
        format!("{:.0} h {:.0} min", (value / 3600.0).floor(), (value % 3600.0 / 60.0).floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_read_well() {
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(1.5 * 1048576.0), "1.5 MiB");
        assert_eq!(count(1_234_567.0), "1.23 M");
        assert_eq!(count(9999.0), "9999");
        assert_eq!(short(0.5), "0.50");
        assert_eq!([59.0, 61.0, 3599.0, 7380.0].map(seconds), ["59.0 s", "1 min 1 s", "59 min 59 s", "2 h 3 min"]);
    }
}
