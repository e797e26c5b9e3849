//! Changes of WebAssembly files that keep their form, so that what reads them gets past the first section.
//!
//! Invariant: lengths are right again after every change, unless it is a change of lengths.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::bytes::{Edit, edit, edited, leb128};

const HEADER: usize = 8;

/// One change of a file.
#[derive(Debug, Clone)]
pub enum Cut {
    /// Of its bytes, wherever.
    Raw(Edit),
    /// Of one section's content. Of a section with a file in it (a nested module, the type of a world) a section
    /// of that, so many levels down as there are places.
    Within(Vec<Index>, Edit),
    /// A section is gone.
    Drop(Index),
    /// A section is there twice.
    Twice(Index),
    /// Two sections have changed places.
    Swap(Index, Index),
    /// A section has another number.
    Renumber(Index, u8),
    /// A section's length is another than it has, or is written in so many bytes.
    Resize(Index, i16, usize),
    /// A section of the other file comes in.
    Borrow(Index, Index),
    /// A custom section comes in.
    Custom(Index, String, Vec<u8>),
}

/// A file that was changed.
#[derive(Clone)]
pub struct Mutated {
    /// Which of the files it was made of.
    pub from: String,
    /// What was done to it.
    pub cuts: Vec<Cut>,
    /// What came out.
    pub bytes: Vec<u8>,
}

impl AsRef<[u8]> for Mutated {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Mutated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes) after {:#?}", self.from, self.bytes.len(), self.cuts)
    }
}

/// Any change.
pub fn cut() -> impl Strategy<Value = Cut> {
    let place = any::<Index>;
    let names =
        prop::sample::select(vec!["component-type", "component-type:x", "name", "producers", "dylink.0", ""]);
    prop_oneof![
        3 => edit().prop_map(Cut::Raw),
        12 => (prop::collection::vec(place(), 1..4), edit()).prop_map(|(path, edit)| Cut::Within(path, edit)),
        1 => place().prop_map(Cut::Drop),
        1 => place().prop_map(Cut::Twice),
        1 => (place(), place()).prop_map(|(one, other)| Cut::Swap(one, other)),
        1 => (place(), any::<u8>()).prop_map(|(at, number)| Cut::Renumber(at, number)),
        1 => (place(), any::<i16>(), 1_usize..=10).prop_map(|(at, by, width)| Cut::Resize(at, by, width)),
        1 => (place(), place()).prop_map(|(from, to)| Cut::Borrow(from, to)),
        1 => (place(), names, prop::collection::vec(any::<u8>(), 0..32))
            .prop_map(|(at, name, content)| Cut::Custom(at, name.to_owned(), content)),
    ]
}

/// One of these files, named, after up to so many changes (often one, sometimes none).
pub fn mutated(files: Vec<(String, Vec<u8>)>, most: usize) -> impl Strategy<Value = Mutated> {
    let cuts =
        prop_oneof![2 => prop::collection::vec(cut(), 1..=1), 1 => prop::collection::vec(cut(), 0..=most)];
    (any::<Index>(), any::<Index>(), cuts).prop_map(move |(one, other, cuts)| {
        let (from, whole) = &files[one.index(files.len())];
        let (_, other) = &files[other.index(files.len())];
        let bytes = cuts.iter().fold(whole.clone(), |bytes, cut| apply(bytes, other, cut));
        Mutated { from: from.clone(), cuts, bytes }
    })
}

/// The sections of a file, each a number and a content; none if it has not the form.
pub fn sections(bytes: &[u8]) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut rest = bytes.strip_prefix(b"\0asm")?.get(4..)?;
    let mut all = Vec::new();
    while let Some((number, after)) = rest.split_first() {
        let (length, width) = read_leb128(after)?;
        let content = after.get(width..width.checked_add(length)?)?;
        all.push((*number, content.to_vec()));
        rest = &after[width + length..];
    }
    Some(all)
}

fn read_leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let width = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let value = bytes[..width].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, width))
}

fn joined(header: &[u8], sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = header.to_vec();
    for (number, content) in sections {
        out.push(*number);
        out.extend(leb128(content.len() as u64, 1));
        out.extend_from_slice(content);
    }
    out
}

fn apply(bytes: Vec<u8>, other: &[u8], cut: &Cut) -> Vec<u8> {
    match cut {
        Cut::Raw(edit) => edited(bytes, edit),
        Cut::Within(path, edit) => within(bytes, path, edit),
        // What has no sections any more stays as it is.
        _ => match sections(&bytes) {
            Some(sections) if !sections.is_empty() => rearranged(&bytes[..HEADER], sections, other, cut),
            _ => bytes,
        },
    }
}

fn rearranged(header: &[u8], mut all: Vec<(u8, Vec<u8>)>, other: &[u8], cut: &Cut) -> Vec<u8> {
    let count = all.len();
    match cut {
        Cut::Drop(at) => drop(all.remove(at.index(count))),
        Cut::Twice(at) => all.insert(at.index(count), all[at.index(count)].clone()),
        Cut::Swap(one, other) => all.swap(one.index(count), other.index(count)),
        Cut::Renumber(at, number) => all[at.index(count)].0 = *number,
        Cut::Borrow(from, to) => {
            let foreign = sections(other).unwrap_or_default();
            let borrowed = foreign.get(from.index(foreign.len().max(1))).cloned();
            all.splice(to.index(count)..to.index(count), borrowed);
        }
        Cut::Custom(at, name, content) => {
            let mut section = leb128(name.len() as u64, 1);
            section.extend_from_slice(name.as_bytes());
            section.extend_from_slice(content);
            all.insert(at.index(count), (0, section));
        }
        Cut::Resize(at, by, width) => return resized(header, &all, at.index(count), *by, *width),
        Cut::Raw(_) | Cut::Within(..) => {}
    }
    joined(header, &all)
}

fn resized(header: &[u8], all: &[(u8, Vec<u8>)], at: usize, by: i16, width: usize) -> Vec<u8> {
    let mut out = joined(header, &all[..at]);
    let (number, content) = &all[at];
    let length = (content.len() as u64).saturating_add_signed(by.into());
    out.push(*number);
    out.extend(leb128(length, width));
    out.extend_from_slice(content);
    out.extend_from_slice(&joined(&[], &all[at + 1..]));
    out
}

/// Edits the content of a section, or goes down into the file in it.
fn within(bytes: Vec<u8>, path: &[Index], edit: &Edit) -> Vec<u8> {
    let Some((at, deeper)) = path.split_first() else { return edited(bytes, edit) };
    let Some(mut all) = sections(&bytes).filter(|all| !all.is_empty()) else { return edited(bytes, edit) };
    let count = all.len();
    let content = &mut all[at.index(count)].1;
    let inner = content.windows(4).take(64).position(|magic| magic == b"\0asm");
    let old = std::mem::take(content);
    *content = match inner {
        Some(start) if !deeper.is_empty() => {
            let mut new = old[..start].to_vec();
            new.extend(within(old[start..].to_vec(), deeper, edit));
            new
        }
        _ => edited(old, edit),
    };
    joined(&bytes[..HEADER], &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &[u8] = b"\0asm\x0d\0\x01\0\x01\x0b\0asm\x01\0\0\0\x00\x01x\x00\x02\x01y";

    #[test]
    fn sections_are_split_and_joined() {
        let all = sections(NESTED).expect("the form");
        assert_eq!(
            all.iter().map(|(number, content)| (*number, content.len())).collect::<Vec<_>>(),
            [(1, 11), (0, 2)]
        );
        assert_eq!(joined(&NESTED[..HEADER], &all), NESTED);
        assert_eq!(sections(&NESTED[..20]), None);
    }

    proptest! {
        #[test]
        fn a_change_within_keeps_the_form(path in prop::collection::vec(any::<Index>(), 1..4), edit in edit()) {
            let changed = within(NESTED.to_vec(), &path, &edit);
            prop_assert!(sections(&changed).is_some(), "{changed:?}");
        }

        #[test]
        fn every_change_can_be_made_of_anything(cuts in prop::collection::vec(cut(), 0..6)) {
            let bytes = cuts.iter().fold(NESTED.to_vec(), |bytes, cut| apply(bytes, NESTED, cut));
            prop_assert!(bytes.len() < 2 << 20, "{}", bytes.len());
        }
    }
}
