//! Changes of a file's bytes that know nothing of its form.
//!
//! Invariant: an edit can be made of any bytes, empty ones too, and grows them by [`GROWTH`] at most.

use proptest::prelude::*;
use proptest::sample::Index;

/// The most bytes that one edit adds: enough for what goes deep to go too deep.
const GROWTH: usize = 128 << 10;

/// Bytes, shown as Rust writes them.
#[derive(Clone)]
pub struct Bytes(pub Vec<u8>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// One change.
#[derive(Debug, Clone)]
pub enum Edit {
    /// One bit is the other.
    Flip(Index, u8),
    /// One byte is another.
    Set(Index, u8),
    /// Some bytes come in between.
    Insert(Index, Vec<u8>),
    /// Some bytes are gone.
    Remove(Index, u8),
    /// Some bytes are there so many times more: mostly once, sometimes as if nested without end.
    Repeat(Index, u8, u16),
    /// Some bytes are those from elsewhere.
    Copy(Index, Index, u8),
    /// The rest is gone.
    Truncate(Index),
    /// A number in LEB128 stands here, as long as it may be or longer.
    Number(Index, u64, usize),
}

/// Any edit.
pub fn edit() -> impl Strategy<Value = Edit> {
    let few = || prop_oneof![1_u8..8, any::<u8>()];
    let number = prop_oneof![0_u64..300, Just(u64::from(u32::MAX)), Just(1 << 20), any::<u64>()];
    let times = prop_oneof![3 => Just(1_u16), 1 => 2_u16..50, 1 => any::<u16>()];
    prop_oneof![
        4 => (any::<Index>(), 0_u8..8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        1 => (any::<Index>(), prop::collection::vec(any::<u8>(), 1..16)).prop_map(|(at, new)| Edit::Insert(at, new)),
        1 => (any::<Index>(), few()).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => (any::<Index>(), few(), times).prop_map(|(at, count, times)| Edit::Repeat(at, count, times)),
        1 => (any::<Index>(), any::<Index>(), few()).prop_map(|(at, from, count)| Edit::Copy(at, from, count)),
        1 => any::<Index>().prop_map(Edit::Truncate),
        1 => (any::<Index>(), number, 1_usize..=10).prop_map(|(at, number, width)| Edit::Number(at, number, width)),
    ]
}

/// The bytes after an edit.
pub fn edited(mut bytes: Vec<u8>, edit: &Edit) -> Vec<u8> {
    if bytes.is_empty() {
        bytes.push(0);
    }
    let place = |at: &Index| at.index(bytes.len());
    match edit {
        Edit::Flip(at, bit) => {
            let at = place(at);
            bytes[at] ^= 1 << (bit % 8);
        }
        Edit::Set(at, byte) => {
            let at = place(at);
            bytes[at] = *byte;
        }
        Edit::Insert(at, new) => {
            let at = place(at);
            bytes.splice(at..at, new.iter().copied());
        }
        Edit::Remove(at, count) => {
            let range = range(place(at), *count, bytes.len());
            bytes.drain(range);
        }
        Edit::Repeat(at, count, times) => {
            let range = range(place(at), *count, bytes.len());
            let times = usize::from(*times).min(GROWTH / range.len().max(1));
            let again = bytes[range.clone()].repeat(times);
            bytes.splice(range.end..range.end, again);
        }
        Edit::Copy(at, from, count) => {
            let from = range(place(from), *count, bytes.len());
            let to = range(place(at), *count, bytes.len());
            let copied = bytes[from].to_vec();
            bytes.splice(to, copied);
        }
        Edit::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        Edit::Number(at, number, width) => {
            let at = place(at);
            let end = bytes.len().min(at + 1);
            bytes.splice(at..end, leb128(*number, *width));
        }
    }
    bytes
}

/// A number in LEB128 of at least `width` bytes, of which the last ones may say nothing.
pub(crate) fn leb128(mut number: u64, width: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 && out.len() + 1 >= width {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

fn range(at: usize, count: u8, length: usize) -> std::ops::Range<usize> {
    at..length.min(at + usize::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_every_width() {
        assert_eq!(leb128(0, 1), [0]);
        assert_eq!(leb128(300, 1), [0xac, 2]);
        assert_eq!(leb128(1, 4), [0x81, 0x80, 0x80, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_edited(bytes in prop::collection::vec(any::<u8>(), 0..20), edit in edit()) {
            let length = bytes.len();
            prop_assert!(edited(bytes, &edit).len() <= length + 1 + GROWTH);
        }
    }
}
