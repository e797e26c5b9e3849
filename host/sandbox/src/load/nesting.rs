//! How deep are the types of components and instances declared within each other?
//!
//! Asked by `bounds`, before any parser of types sees the file. wasmparser (0.254.2) reads a component's or an
//! instance's type that is declared within another by calling itself, as deep as the file says, and refuses depths only
//! afterwards. Three bytes make a level. Invariant: reads what wasmparser reads, but for nesting, for which it keeps a
//! list: neighbours are no levels, however many.

use wasmparser::{
    BinaryReader, ComponentAlias, ComponentExternName, ComponentImport, ComponentType, ComponentTypeRef,
    CoreType, FromReader,
};

/// What was read.
enum Read {
    /// Something without declarations of its own.
    Whole,
    /// The beginning of a type with so many declarations.
    Opens(u32),
}

/// Whether the types of a section have more than so many levels. Ends at what is no type: so does every other reader.
pub(super) fn is_nested_deeper(section: &[u8], most: usize) -> bool {
    let mut reader = BinaryReader::new(section, 0);
    // For each open type how many declarations are still to come; the section itself comes first.
    let mut open = Vec::from_iter(reader.read_var_u32());
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        match if open.len() == 1 { read_type(&mut reader) } else { read_declaration(&mut reader) } {
            // The section itself is no type.
            Some(Read::Opens(_)) if open.len() > most => return true,
            Some(Read::Opens(declarations)) => open.push(declarations),
            Some(Read::Whole) => {}
            None => return false,
        }
    }
    false
}

fn read_type(reader: &mut BinaryReader<'_>) -> Option<Read> {
    const COMPONENT: u8 = 0x41;
    const INSTANCE: u8 = 0x42;
    if matches!(reader.clone().read_u8().ok()?, COMPONENT | INSTANCE) {
        reader.read_u8().ok()?;
        return reader.read_var_u32().ok().map(Read::Opens);
    }
    whole::<ComponentType<'_>>(reader)
}

fn read_declaration(reader: &mut BinaryReader<'_>) -> Option<Read> {
    match reader.read_u8().ok()? {
        0x00 => whole::<CoreType<'_>>(reader),
        0x01 => read_type(reader),
        0x02 => whole::<ComponentAlias<'_>>(reader),
        0x03 => whole::<ComponentImport<'_>>(reader),
        0x04 => {
            whole::<ComponentExternName<'_>>(reader)?;
            whole::<ComponentTypeRef>(reader)
        }
        _ => None,
    }
}

fn whole<'a, T: FromReader<'a>>(reader: &mut BinaryReader<'a>) -> Option<Read> {
    reader.read::<T>().ok().map(|_| Read::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section with one type of this many levels, each of which has some other declaration first.
    fn nested(kind: u8, levels: usize) -> Vec<u8> {
        // Two declarations: the type `string`, and the next level.
        [&[1][..], &[kind, 2, 0x01, 0x73, 0x01].repeat(levels - 1), &[kind, 0]].concat()
    }

    #[test]
    fn levels_are_counted() {
        for kind in [0x41, 0x42] {
            assert!(!is_nested_deeper(&nested(kind, 100), 100));
            assert!(is_nested_deeper(&nested(kind, 101), 100));
            assert!(is_nested_deeper(&nested(kind, 1_000_000), 100));
        }
    }

    #[test]
    fn neighbours_are_no_levels() {
        let types = [&[0xc8, 1][..], &[0x42, 0].repeat(200)].concat();
        assert!(!is_nested_deeper(&types, 1));
        // A component's type with 100 declarations, each an empty instance's type.
        let types = [&[1, 0x41, 100][..], &[0x01, 0x42, 0].repeat(100)].concat();
        assert!(!is_nested_deeper(&types, 2) && is_nested_deeper(&types, 1));
        // A record with a field of the name `A`, which is written 01 41, in each of 100 types.
        let types = [&[100][..], &[0x72, 1, 1, 0x41, 0x73].repeat(100)].concat();
        assert!(!is_nested_deeper(&types, 0));
    }

    #[test]
    fn what_is_no_type_ends_it() {
        let deep = nested(0x41, 200);
        for types in [&[][..], &[1], &[1, 0x41], &[1, 0x41, 1], &[1, 0x41, 1, 0x09]] {
            assert!(!is_nested_deeper(types, 1), "{types:?}");
        }
        assert!(!is_nested_deeper(&[&[2, 0x09][..], &deep].concat(), 100));
    }
}
