//! Which imports of a component does the host not have? All of them, by name.
//!
//! A step of `load`. wasmtime tells only of the first one, and an author wants the list. Invariant: agrees
//! with the linker, since it is the linker that is asked.

use wasmtime::Engine;
use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{Component, Linker, ResourceType};

use super::LoadError;
use crate::state::GuestState;
use crate::text;

/// The versions that the host serves: a guest built against another patch version of the same is served too.
const SERVED: [(&str, &str, &str); 2] = [("hark:", "0.1.", "0.1.0"), ("wasi:", "0.2.", "0.2.12")];

/// Refuses a component with imports that the host does not have.
pub(super) fn check(
    engine: &Engine,
    linker: &Linker<GuestState>,
    component: &Component,
) -> Result<(), LoadError> {
    let mut host = Probe::new(linker);
    let mut unmet = Vec::new();
    for (name, import) in component.component_type().imports(engine) {
        match import.ty {
            ComponentItem::ComponentInstance(interface) => host.missing(engine, name, &interface, &mut unmet),
            ComponentItem::Type(_) => {}
            _ if host.has(None, name) => {}
            _ => unmet.push(name.to_owned()),
        }
    }
    match text::names(unmet.iter().map(String::as_str)) {
        names if names.is_empty() => Ok(()),
        names => Err(LoadError::UnmetImports(names)),
    }
}

/// A copy of the linker in which names are tried out: one that can be defined was not there.
struct Probe(Linker<GuestState>);

impl Probe {
    fn new(linker: &Linker<GuestState>) -> Self {
        let mut copy = linker.clone();
        copy.allow_shadowing(false);
        Self(copy)
    }

    /// Adds what the host lacks of an interface: the interface, or single functions of it.
    fn missing(
        &mut self,
        engine: &Engine,
        name: &str,
        interface: &ComponentInstance,
        unmet: &mut Vec<String>,
    ) {
        let items: Vec<_> = interface.exports(engine).map(|(item, found)| (item, found.ty)).collect();
        // Types alone need nothing from a host.
        if items.iter().all(|(_, ty)| matches!(ty, ComponentItem::Type(_))) {
            return;
        }
        let served = served_name(name);
        if !self.has(None, &served) {
            unmet.push(name.to_owned());
            return;
        }
        for (item, ty) in items {
            // A resource may be another interface's, under this one's name; then the host has it there.
            if matches!(ty, ComponentItem::ComponentFunc(_)) && !self.has(Some(&served), item) {
                unmet.push(format!("{name}#{item}"));
            }
        }
    }

    /// Whether a name is defined. Asking defines it in this copy, so a name is asked for only once.
    fn has(&mut self, interface: Option<&str>, name: &str) -> bool {
        let mut place = self.0.root();
        if let Some(interface) = interface {
            match place.into_instance(interface) {
                Ok(inner) => place = inner,
                Err(_) => return false,
            }
        }
        place.resource(name, ResourceType::host::<()>(), |_, _| Ok(())).is_err()
    }
}

/// The name under which the host serves an interface: with its own patch version.
fn served_name(name: &str) -> String {
    let served = SERVED.iter().find_map(|(namespace, track, own)| {
        let (interface, version) = name.split_once('@')?;
        (name.starts_with(namespace) && version.starts_with(track)).then(|| format!("{interface}@{own}"))
    });
    served.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn patch_versions_are_served_alike() {
        let cases = [
            ("wasi:io/poll@0.2.0", "wasi:io/poll@0.2.12"),
            ("wasi:io/poll@0.3.0", "wasi:io/poll@0.3.0"),
            ("hark:plugin/log@0.1.4", "hark:plugin/log@0.1.0"),
            ("other:io/poll@0.2.0", "other:io/poll@0.2.0"),
            ("wasi:io/poll", "wasi:io/poll"),
        ];
        for (name, want) in cases {
            assert_eq!(served_name(name), want);
        }
    }

    #[test]
    fn the_probe_knows_what_is_linked() {
        let mut linker = Linker::new(&Engine::default());
        host::add_to_linker(&mut linker).expect("links");
        let mut probe = Probe::new(&linker);
        for interface in ["hark:plugin/cache@0.1.0", "wasi:cli/environment@0.2.12", "wasi:sockets/tcp@0.2.12"]
        {
            assert!(probe.has(None, interface), "{interface}");
        }
        assert!(probe.has(Some("hark:plugin/cache@0.1.0"), "list-objects"));
        assert!(!probe.has(Some("hark:plugin/cache@0.1.0"), "by-uid"));
        assert!(!probe.has(None, "wasi:http/types@0.2.12"));
    }
}
