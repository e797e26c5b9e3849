//! Can the encoder take a core module's worlds without running out of stack or time?
//!
//! A step of `componentize`, before the encoder sees the module. A stack that overflows takes the host with it,
//! whatever is caught. wit-parser and wit-component (0.254.2) go down once for each package that a package needs,
//! and for each type that a type is made of: round for ever where packages need each other (one wrong byte in a
//! package's name does that), and as deep as a file says where a type is another's name. Invariant: what passes has
//! packages in an order, types of a bounded depth, and a bounded number of exports, all sections and the adapter
//! together.

use std::collections::HashMap;

use wasmparser::{Parser, Payload};
use wit_parser::decoding::decode_world;
use wit_parser::{Handle, Resolve, Type, TypeDefKind, TypeId, WorldId, WorldItem};

use super::LoadError;
use super::componentize::is_world;
use super::packages::Needs;
use crate::text;

/// How deep types may be, in all worlds of a module together. A level costs the encoder a quarter of a KiB of stack;
/// WASI's own have 20.
const MAX_DEPTH: usize = 1000;

/// Functions that worlds may export, all together. The encoder looks at each as often as there are others: 2,000 take
/// it a second, 20,000 minutes. Our own world has 4.
const MAX_EXPORTS: usize = 2000;

/// Refuses modules (those that will be linked together) whose worlds the encoder cannot take.
pub(super) fn check<'a>(modules: impl Iterator<Item = &'a [u8]>) -> Result<(), LoadError> {
    let worlds: Vec<&[u8]> = modules.flat_map(worlds).collect();
    // First: decoding goes round in a circle, too. (How deep types are nested, `bounds` has looked at.)
    are_in_order(&worlds)?;
    let (mut deep, mut exported) = (0, 0);
    for world in worlds {
        // What cannot be read the encoder does not take, and it says what is wrong with it.
        if let Ok((resolve, world)) = decode_world(world) {
            deep += depth(&resolve);
            exported += exports(&resolve, world);
        }
    }
    if deep > MAX_DEPTH {
        let why = format!("the types of its world are more than {MAX_DEPTH} levels deep");
        return Err(LoadError::Componentize(why));
    }
    if exported > MAX_EXPORTS {
        let why = format!("its world exports {exported} functions, more than {MAX_EXPORTS}");
        return Err(LoadError::Componentize(why));
    }
    Ok(())
}

/// Refuses worlds whose packages need each other.
fn are_in_order(worlds: &[&[u8]]) -> Result<(), LoadError> {
    let mut needs = Needs::default();
    worlds.iter().for_each(|world| needs.add(world));
    let circle: Vec<String> = needs.circle().iter().map(|name| text::quoted(name)).collect();
    if circle.is_empty() {
        return Ok(());
    }
    let names = text::names(circle.iter().map(String::as_str)).join(", ");
    Err(LoadError::Componentize(format!("the packages of its world need each other in a circle: {names}")))
}

/// The worlds in a module's custom sections.
fn worlds(module: &[u8]) -> Vec<&[u8]> {
    let payloads = Parser::new(0).parse_all(module).map_while(Result::ok);
    payloads
        .filter_map(|payload| match payload {
            Payload::CustomSection(custom) if is_world(custom.name()) => Some(custom.data()),
            _ => None,
        })
        .collect()
}

/// The number of functions that a world exports.
fn exports(resolve: &Resolve, world: WorldId) -> usize {
    let count = |item: &WorldItem| match item {
        WorldItem::Interface { id, .. } => resolve.interfaces[*id].functions.len(),
        WorldItem::Function(_) => 1,
        WorldItem::Type { .. } => 0,
    };
    resolve.worlds[world].exports.values().map(count).sum()
}

/// Levels of the deepest type, or some number beyond [`MAX_DEPTH`].
fn depth(resolve: &Resolve) -> usize {
    let mut depths: HashMap<TypeId, usize> = HashMap::new();
    // A type mostly comes after those that it is made of: then the second round changes nothing.
    for _ in 0..=MAX_DEPTH {
        let mut changed = false;
        for (id, ty) in resolve.types.iter() {
            let below = parts(&ty.kind).into_iter().map(|part| depths.get(&part).copied().unwrap_or(0));
            let depth = 1 + below.max().unwrap_or(0);
            changed |= depths.insert(id, depth) != Some(depth);
        }
        let deepest = depths.values().copied().max().unwrap_or(0);
        if !changed || deepest > MAX_DEPTH {
            return deepest;
        }
    }
    MAX_DEPTH + 1
}

/// The types that a type is made of.
fn parts(kind: &TypeDefKind) -> Vec<TypeId> {
    let types: Vec<Option<Type>> = match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| Some(field.ty)).collect(),
        TypeDefKind::Tuple(tuple) => tuple.types.iter().copied().map(Some).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| case.ty).collect(),
        TypeDefKind::Result(result) => vec![result.ok, result.err],
        TypeDefKind::Map(key, value) => vec![Some(*key), Some(*value)],
        TypeDefKind::Future(inner) | TypeDefKind::Stream(inner) => vec![*inner],
        TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => return vec![*id],
        TypeDefKind::Option(inner)
        | TypeDefKind::List(inner)
        | TypeDefKind::FixedLengthList(inner, _)
        | TypeDefKind::Type(inner) => vec![Some(*inner)],
        TypeDefKind::Resource | TypeDefKind::Flags(_) | TypeDefKind::Enum(_) | TypeDefKind::Unknown => vec![],
    };
    let ids = types.into_iter().flatten().filter_map(|ty| match ty {
        Type::Id(id) => Some(id),
        _ => None,
    });
    ids.collect()
}
