//! Exact comparison of numbers as JSON writes them.
//!
//! Used by conditions and by the comparison of values. Invariant: no digit is lost. A resourceVersion-like
//! 64-bit integer, or a quantity with 30 digits, is never rounded through a float; `1`, `1.0` and `10e-1` are
//! the same number.

use std::cmp::Ordering;

/// Exponents that a number may be written with. Beyond it, the text is not taken for a number.
const MAX_EXPONENT: i64 = 1_000_000_000;

/// A number: 0.DIGITS × 10^magnitude, DIGITS being `whole` followed by `fraction`, the first of them not zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    magnitude: i64,
}

impl<'a> Number<'a> {
    /// Reads a number by JSON's grammar; None for anything else (`+1`, `01`, `.5`, `NaN`, `1Gi`).
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (text.get(..at)?, parse_exponent(text.get(at + 1..)?)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !is_digits(whole) || leading_zero || !fraction.is_none_or(is_digits) {
            return None;
        }
        Some(Self::normalized(negative, whole.as_bytes(), fraction.unwrap_or_default().as_bytes(), exponent))
    }

    fn normalized(negative: bool, whole: &'a [u8], fraction: &'a [u8], exponent: i64) -> Self {
        let whole = strip_zeros(whole);
        let significant = if whole.is_empty() { strip_zeros(fraction) } else { fraction };
        let point =
            if whole.is_empty() { -length(fraction.len() - significant.len()) } else { length(whole.len()) };
        let magnitude = if whole.is_empty() && significant.is_empty() { 0 } else { exponent + point };
        Self { negative, whole, fraction: significant, magnitude }
    }

    fn is_zero(self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    fn sign(self) -> i8 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn digit(self, index: usize) -> u8 {
        let digit = match index.checked_sub(self.whole.len()) {
            None => self.whole.get(index),
            Some(index) => self.fraction.get(index),
        };
        digit.copied().unwrap_or(b'0')
    }

    fn compare_sizes(self, other: Self) -> Ordering {
        let digits = (self.whole.len() + self.fraction.len()).max(other.whole.len() + other.fraction.len());
        self.magnitude
            .cmp(&other.magnitude)
            .then_with(|| (0..digits).map(|at| self.digit(at)).cmp((0..digits).map(|at| other.digit(at))))
    }
}

impl Ord for Number<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| match self.sign() {
            0 => Ordering::Equal,
            1.. => self.compare_sizes(*other),
            _ => other.compare_sizes(*self),
        })
    }
}

impl PartialOrd for Number<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number<'_> {}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value = if is_digits(digits) { text.parse::<i64>().ok()? } else { return None };
    (-MAX_EXPONENT..=MAX_EXPONENT).contains(&value).then_some(value)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn strip_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Number<'_> {
        Number::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn numbers_of_one_value_are_equal_however_written() {
        let classes: [&[&str]; 6] = [
            &["0", "-0", "0.0", "0e9", "-0.00E-3"],
            &["1", "1.0", "10e-1", "0.1e1", "100E-2", "1e0", "1e+0"],
            &["-1", "-1.000", "-0.01e2"],
            &["18446744073709551615", "1844674407370955161.5e1"],
            &["18446744073709551616"],
            &["0.0000001", "1e-7", "0.01e-5"],
        ];
        for (at, class) in classes.iter().enumerate() {
            for a in *class {
                for (other_at, other) in classes.iter().enumerate() {
                    for b in *other {
                        assert_eq!(number(a) == number(b), at == other_at, "{a} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn order_is_by_value_and_exact_at_64_bits() {
        let rising = [
            "-1e300",
            "-9223372036854775808",
            "-9223372036854775807",
            "-10",
            "-9.5",
            "-0.001",
            "0",
            "0.001",
            "0.0011",
            "9",
            "9.5",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551614",
            "18446744073709551615",
            "1e300",
        ];
        for (at, a) in rising.iter().enumerate() {
            for (other, b) in rising.iter().enumerate() {
                assert_eq!(number(a).cmp(&number(b)), at.cmp(&other), "{a} {b}");
            }
        }
    }

    #[test]
    fn what_json_does_not_call_a_number_is_none() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-01",
            ".5",
            "5.",
            "1e",
            "1e+",
            "1e1.5",
            "0x1",
            "NaN",
            "1Gi",
            "1 ",
            " 1",
            "1,0",
            "--1",
            "1e1000000001",
            "1e99999999999999999999",
            "٣",
        ] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn order_agrees_with_integers(a in any::<i64>(), b in any::<i64>(), zeros in 0_usize..4) {
            let left = format!("{a}.{}", "0".repeat(zeros + 1));
            let right = format!("{b}{}e-{zeros}", "0".repeat(zeros));
            let right = if b == 0 { "0".to_owned() } else { right };
            prop_assert_eq!(number(&left).cmp(&number(&right)), a.cmp(&b));
        }

        #[test]
        fn order_agrees_with_floats(a in prop::num::f64::NORMAL, b in prop::num::f64::NORMAL) {
            let (left, right) = (format!("{a:e}"), format!("{b}"));
            prop_assert_eq!(number(&left).partial_cmp(&number(&right)), a.partial_cmp(&b));
        }

        #[test]
        fn no_text_panics(text in "[-+.0-9eE]{0,20}") {
            let _ = Number::parse(&text);
        }
    }
}
