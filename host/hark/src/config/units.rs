//! Sizes and durations as people write them.
//!
//! Used by the configuration's reader. Invariant: a number without a unit is refused, since nobody can tell
//! what it counts.

use std::time::Duration;

/// `512B`, `64KiB`, `64MiB`, `1GiB`, and the decimal `kB`, `MB`, `GB`; in bytes.
pub(crate) fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let factor: usize = match unit {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    usize::try_from(number).ok()?.checked_mul(factor)
}

/// `250ms`, `1s`, `5m`, `1h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_need_a_number_and_a_known_unit() {
        assert_eq!(bytes("64MiB"), Some(64 << 20));
        assert_eq!(bytes("10 kB"), Some(10_000));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7200)));
        for wrong in
            ["", "64", "MiB", "-1MiB", "1.5MiB", "1mib", "99999999999999999999B", "18446744073709551615GiB"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        for wrong in ["", "1", "s", "1d", "-1s", "18446744073709551615h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
