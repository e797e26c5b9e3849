//! Random worlds: ours, and interfaces with functions and types of every kind beside it.
//!
//! Invariant: the text is right WIT, so whatever is made of it must load but for its imports.

use proptest::prelude::*;
use proptest::sample::Index;
use wit_component::StringEncoding;
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

/// A world in WIT, and whether it imports what no host has.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) text: String,
    pub(super) imports: bool,
}

/// A type where it is used. A place in the list of those defined before names one of them.
#[derive(Debug, Clone)]
enum Type {
    Plain(&'static str),
    Defined(Index),
    List(Box<Self>),
    Option(Box<Self>),
    Result(Option<Box<Self>>, Option<Box<Self>>),
    Tuple(Vec<Self>),
}

/// A type where it is defined.
#[derive(Debug, Clone)]
enum Definition {
    Record(Vec<Type>),
    Variant(Vec<Option<Type>>),
    Enum(usize),
    Flags(usize),
    Alias(Type),
    Resource(Vec<Type>),
}

#[derive(Debug, Clone)]
struct Interface {
    types: Vec<Definition>,
    functions: Vec<(Vec<Type>, Option<Type>)>,
}

/// Any world that includes ours.
pub(super) fn world() -> impl Strategy<Value = World> {
    let interfaces = prop::collection::vec((interface(), 0_u8..3), 0..4);
    (interfaces, prop::collection::vec(one_type(), 0..3)).prop_map(|(interfaces, bare)| {
        let mut text = String::from("package test:guest;\n");
        let mut world = String::from("world test {\n include hark:plugin/plugin@0.1.0;\n");
        for (number, (interface, direction)) in interfaces.iter().enumerate() {
            text += &written(number, interface);
            world += match direction {
                0 => " import",
                1 => " export",
                _ => continue,
            };
            world += &format!(" i{number};\n");
        }
        for (number, ty) in bare.iter().enumerate() {
            world += &format!(" export f{number}: func(a: {}) -> u8;\n", used(ty, 0));
        }
        let imports = interfaces.iter().any(|(one, direction)| *direction == 0 && one.is_needed());
        World { text: text + &world + "}\n", imports }
    })
}

impl World {
    /// A module that has the world's imports and exports, and the world itself in a section.
    pub(super) fn module(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        resolve.push_path("../../wit").expect("our contract");
        let package = resolve
            .push_str("test.wit", &self.text)
            .unwrap_or_else(|error| panic!("{error:?}\n{}", self.text));
        let world = resolve.select_world(&[package], Some("test:guest/test")).expect("the world");
        let mut module =
            wit_component::dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .expect("embeds");
        module
    }
}

impl Interface {
    /// Whether a guest that imports it needs something of the host: types alone need nothing.
    fn is_needed(&self) -> bool {
        !self.functions.is_empty() || self.types.iter().any(|ty| matches!(ty, Definition::Resource(_)))
    }
}

fn one_type() -> impl Strategy<Value = Type> {
    let plain = vec!["bool", "u8", "s16", "u32", "s64", "f32", "f64", "char", "string"];
    let leaf = prop_oneof![
        2 => prop::sample::select(plain).prop_map(Type::Plain),
        1 => any::<Index>().prop_map(Type::Defined),
    ];
    leaf.prop_recursive(4, 12, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let maybe = || prop::option::of(boxed.clone());
        prop_oneof![
            boxed.clone().prop_map(Type::List),
            boxed.clone().prop_map(Type::Option),
            (maybe(), maybe()).prop_map(|(ok, error)| Type::Result(ok, error)),
            prop::collection::vec(inner, 1..4).prop_map(Type::Tuple),
        ]
    })
}

fn interface() -> impl Strategy<Value = Interface> {
    let types = || prop::collection::vec(one_type(), 1..5);
    let definition = prop_oneof![
        types().prop_map(Definition::Record),
        prop::collection::vec(prop::option::of(one_type()), 1..5).prop_map(Definition::Variant),
        (1_usize..300).prop_map(Definition::Enum),
        (1_usize..=32).prop_map(Definition::Flags),
        one_type().prop_map(Definition::Alias),
        types().prop_map(Definition::Resource),
    ];
    let function = (prop::collection::vec(one_type(), 0..18), prop::option::of(one_type()));
    (prop::collection::vec(definition, 0..8), prop::collection::vec(function, 0..5))
        .prop_map(|(types, functions)| Interface { types, functions })
}

fn written(number: usize, interface: &Interface) -> String {
    let mut text = format!("interface i{number} {{\n");
    for (place, definition) in interface.types.iter().enumerate() {
        text += &defined(place, definition);
    }
    let known = interface.types.len();
    for (place, (parameters, result)) in interface.functions.iter().enumerate() {
        let result = result.as_ref().map(|ty| format!(" -> {}", used(ty, known))).unwrap_or_default();
        text += &format!(" g{place}: func({}){result};\n", named(parameters, known));
    }
    text + "}\n"
}

/// The definition of a type, which may use those before it.
fn defined(place: usize, definition: &Definition) -> String {
    let cases = |count: usize| (0..count).map(|case| format!("c{case}")).collect::<Vec<_>>().join(", ");
    match definition {
        Definition::Record(types) => format!(" record t{place} {{ {} }}\n", named(types, place)),
        Definition::Variant(types) => {
            let case = |ty: &Option<Type>| {
                ty.as_ref().map(|ty| format!("({})", used(ty, place))).unwrap_or_default()
            };
            let cases: Vec<_> = types.iter().enumerate().map(|(n, ty)| format!("c{n}{}", case(ty))).collect();
            format!(" variant t{place} {{ {} }}\n", cases.join(", "))
        }
        Definition::Enum(count) => format!(" enum t{place} {{ {} }}\n", cases(*count)),
        Definition::Flags(count) => format!(" flags t{place} {{ {} }}\n", cases(*count)),
        Definition::Alias(ty) => format!(" type t{place} = {};\n", used(ty, place)),
        Definition::Resource(types) => {
            format!(" resource t{place} {{ constructor({}); m: func() -> u32; }}\n", named(types, place))
        }
    }
}

fn named(types: &[Type], known: usize) -> String {
    let fields: Vec<_> =
        types.iter().enumerate().map(|(n, ty)| format!("f{n}: {}", used(ty, known))).collect();
    fields.join(", ")
}

/// A type by its name, where so many are defined.
fn used(ty: &Type, known: usize) -> String {
    let or_none = |ty: &Option<Box<Type>>| ty.as_ref().map_or("_".to_owned(), |ty| used(ty, known));
    match ty {
        Type::Plain(name) => (*name).to_owned(),
        Type::Defined(_) if known == 0 => "u16".to_owned(),
        Type::Defined(at) => format!("t{}", at.index(known)),
        Type::List(inner) => format!("list<{}>", used(inner, known)),
        Type::Option(inner) => format!("option<{}>", used(inner, known)),
        Type::Result(None, None) => "result".to_owned(),
        Type::Result(Some(ok), None) => format!("result<{}>", used(ok, known)),
        Type::Result(ok, error) => format!("result<{}, {}>", or_none(ok), or_none(error)),
        Type::Tuple(types) => {
            let types: Vec<_> = types.iter().map(|ty| used(ty, known)).collect();
            format!("tuple<{}>", types.join(", "))
        }
    }
}
