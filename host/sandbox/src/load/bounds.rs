//! Is a file built so that reading it would cost the host more than the file is worth?
//!
//! The first step of `load` that looks into a file, before anything that parses types or compiles. Three things grow
//! beyond all measure from a few kilobytes: types in types, which every reader of them recurses into (a stack that
//! overflows ends the process, and no panic is caught); components in components; and instances, since wasmtime
//! compiles a component with all the instances of its parts written out. Invariant: nothing in here recurses.

use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, Instance, Parser, Payload,
};

use super::LoadError;
use super::nesting::is_nested_deeper;

/// Types that may be in each other. All of WASI's command world has 32 in one section. A level takes up to 4 KB of
/// stack (measured, unoptimized), and compiling threads have 2 MiB.
const TYPES: usize = 256;
/// Components in each other: composed ones have three or four.
const DEPTH: usize = 64;
/// Instances of core modules and of components, all together. A store has 256 core instances at most.
const INSTANCES: u64 = 4096;

/// The custom sections of a core module that the component encoder decodes.
const WORLD: &str = "component-type";

/// Refuses a component or a core module whose parts are out of all bounds. What cannot be read is none of these: the
/// parser will say what is wrong with it.
pub(super) fn check(bytes: &[u8]) -> Result<(), LoadError> {
    match Walk::default().file(bytes, true) {
        Err(Stop::Bound(error)) => Err(error),
        Ok(()) | Err(Stop::Unreadable) => Ok(()),
    }
}

/// Why the walk through a file ends early.
enum Stop {
    Bound(LoadError),
    Unreadable,
}

impl From<BinaryReaderError> for Stop {
    fn from(_: BinaryReaderError) -> Self {
        Self::Unreadable
    }
}

/// The components and modules that are being walked through, the innermost last.
#[derive(Default)]
struct Walk(Vec<Part>);

enum Part {
    Module,
    Component(Component),
}

#[derive(Default)]
struct Component {
    /// How many instances one of it comes to, itself included.
    instances: u64,
    /// The same of each component in its index space; none where only an instantiation tells which it is.
    components: Vec<Option<u64>>,
}

impl Walk {
    /// Walks through a file; with `worlds` also through what a module says of its own type.
    fn file(&mut self, bytes: &[u8], worlds: bool) -> Result<(), Stop> {
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::Version { encoding: Encoding::Module, .. } => self.enter(Part::Module)?,
                Payload::Version { encoding: Encoding::Component, .. } => {
                    self.enter(Part::Component(Component { instances: 1, ..Component::default() }))?;
                }
                Payload::End(_) => self.leave(),
                Payload::ComponentTypeSection(types) => {
                    if is_nested_deeper(bytes.get(types.range()).unwrap_or_default(), TYPES) {
                        return Err(Stop::Bound(LoadError::TooDeep(TYPES)));
                    }
                }
                Payload::CustomSection(custom) if worlds && custom.name().starts_with(WORLD) => {
                    match Self::default().file(custom.data(), false) {
                        Err(Stop::Unreadable) | Ok(()) => {}
                        Err(stop) => return Err(stop),
                    }
                }
                section => self.section(section)?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, part: Part) -> Result<(), Stop> {
        self.0.push(part);
        if self.0.len() > DEPTH { Err(Stop::Bound(LoadError::TooDeep(DEPTH))) } else { Ok(()) }
    }

    fn leave(&mut self) {
        if let Some(Part::Component(inner)) = self.0.pop()
            && let Some(Part::Component(outer)) = self.0.last_mut()
        {
            outer.components.push(Some(inner.instances));
        }
    }

    /// A section of the innermost part that has to do with components and instances.
    fn section(&mut self, section: Payload<'_>) -> Result<(), Stop> {
        if let Payload::ComponentAliasSection(aliases) = section {
            for alias in aliases {
                self.alias(alias?);
            }
            return Ok(());
        }
        let Some(Part::Component(component)) = self.0.last_mut() else { return Ok(()) };
        match section {
            Payload::InstanceSection(instances) => {
                for instance in instances {
                    if let Instance::Instantiate { .. } = instance? {
                        component.holds(1)?;
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        component.instantiates(component_index)?;
                    }
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports {
                    if let ComponentTypeRef::Component(_) = import?.ty {
                        component.components.push(None);
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Component {
                        component.components.push(component.known(export.index));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn alias(&mut self, alias: ComponentAlias<'_>) {
        let known = match alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => None,
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                let place = usize::try_from(count).ok().and_then(|count| self.0.len().checked_sub(1 + count));
                match place.and_then(|place| self.0.get(place)) {
                    Some(Part::Component(outer)) => outer.known(index),
                    _ => None,
                }
            }
            _ => return,
        };
        if let Some(Part::Component(component)) = self.0.last_mut() {
            component.components.push(known);
        }
    }
}

impl Component {
    fn known(&self, index: u32) -> Option<u64> {
        usize::try_from(index).ok().and_then(|index| self.components.get(index).copied().flatten())
    }

    /// With an unknown component, instances could multiply unseen; no toolchain makes such a thing.
    fn instantiates(&mut self, index: u32) -> Result<(), Stop> {
        self.holds(self.known(index).ok_or(Stop::Bound(LoadError::UnknownComponent))?)
    }

    fn holds(&mut self, more: u64) -> Result<(), Stop> {
        self.instances = self.instances.saturating_add(more);
        if self.instances > INSTANCES {
            Err(Stop::Bound(LoadError::TooManyInstances(INSTANCES)))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<(), LoadError> {
        check(&wat::parse_str(text).expect("sound text"))
    }

    /// Levels of components, each of which begins the one before it twice.
    fn levels(count: usize) -> String {
        let level = |n: usize| {
            format!(
                "(component $c{} (alias outer 1 $c{n} (component $inner))
                    (instance (instantiate $inner)) (instance (instantiate $inner)))",
                n + 1
            )
        };
        let all: String = (0..count).map(level).collect();
        format!("(component (component $c0) {all} (instance (instantiate $c{count})))")
    }

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).expect("short");
        // A number of five bytes, as long as it may be.
        let byte = |shift: u32| u8::try_from(length >> shift & 0x7f).expect("seven bits");
        let length = [byte(0) | 0x80, byte(7) | 0x80, byte(14) | 0x80, byte(21) | 0x80, byte(28)];
        [&[id], &length[..], content].concat()
    }

    /// A component with types in each other, of one kind.
    fn types(kind: u8, depth: usize) -> Vec<u8> {
        let content = [&[1][..], &[kind, 1, 1].repeat(depth), &[kind, 0]].concat();
        [b"\0asm\x0d\0\x01\0", &section(7, &content)[..]].concat()
    }

    #[test]
    fn instances_are_counted_as_they_multiply() {
        // 2^12 - 1 at the eleventh level, and the outermost.
        assert_eq!(text(&levels(11)), Ok(()));
        assert_eq!(text(&levels(12)), Err(LoadError::TooManyInstances(INSTANCES)));
        assert_eq!(text(&levels(60)), Err(LoadError::TooManyInstances(INSTANCES)));
        let many = "(core instance (instantiate $m))".repeat(5000);
        let component = format!("(component (core module $m) {many})");
        assert_eq!(text(&component), Err(LoadError::TooManyInstances(INSTANCES)));
    }

    #[test]
    fn a_component_that_is_not_known_is_not_instantiated() {
        let import = "(component (import \"c\" (component $c)) (instance (instantiate $c)))";
        assert_eq!(text(import), Err(LoadError::UnknownComponent));
        let export = "(component
            (component $a (component $b) (export \"b\" (component $b)))
            (instance $i (instantiate $a)) (alias export $i \"b\" (component $b))
            (instance (instantiate $b)))";
        assert_eq!(text(export), Err(LoadError::UnknownComponent));
        assert_eq!(text("(component (import \"c\" (component)))"), Ok(()), "not used");
        let known = "(component (component $a) (export $b \"b\" (component $a)) (instance (instantiate $b)))";
        assert_eq!(text(known), Ok(()));
    }

    #[test]
    fn components_in_each_other_are_counted() {
        let nested = |depth: usize| "(component ".repeat(depth) + &")".repeat(depth);
        assert_eq!(text(&nested(DEPTH)), Ok(()));
        assert_eq!(text(&nested(DEPTH + 1)), Err(LoadError::TooDeep(DEPTH)));
    }

    #[test]
    fn types_in_each_other_are_counted_in_components_and_in_what_a_module_says_of_itself() {
        for kind in [0x41, 0x42] {
            for (depth, want) in [(TYPES - 1, Ok(())), (TYPES, Err(LoadError::TooDeep(TYPES)))] {
                let component = types(kind, depth);
                assert_eq!(check(&component), want);
                let nested = [b"\0asm\x0d\0\x01\0", &section(4, &component)[..]].concat();
                assert_eq!(check(&nested), want);
                let named = [b"\x10component-type:x", &component[..]].concat();
                let module = [b"\0asm\x01\0\0\0", &section(0, &named)[..]].concat();
                assert_eq!(check(&module), want);
            }
        }
        assert_eq!(check(&types(0x41, 300_000)), Err(LoadError::TooDeep(TYPES)));
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_parser() {
        let whole = wat::parse_str(levels(3)).expect("sound text");
        for end in 0..whole.len() {
            assert_eq!(check(&whole[..end]), Ok(()));
        }
    }
}
