//! Which packages need which, as the worlds in a core module say.
//!
//! A step of `worlds`, before anything else decodes them: wit-parser (0.254.2) puts packages in order, each after those
//! that it needs, and goes round for ever where they need each other. Invariant: finds every need that wit-parser
//! finds, by the same rule: an interface needs another whose type it uses under a name of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentEntityType, ComponentInstanceTypeId, ComponentType, ComponentTypeId,
};
use wasmparser::types::Types;
use wasmparser::{Validator, WasmFeatures};

/// Packages (`namespace:name@version`), and those that each needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs(BTreeMap<String, BTreeSet<String>>);

impl Needs {
    /// Adds what an encoded world says. What is not valid says nothing: nobody goes on with it.
    pub(super) fn add(&mut self, world: &[u8]) {
        let Ok(types) = Validator::new_with_features(WasmFeatures::all()).validate_all(world) else { return };
        // A world is the type of a component, within another that gives it its name.
        for place in 0..types.as_ref().component_type_count() {
            let ComponentAnyTypeId::Component(outer) = types.as_ref().component_any_type_at(place) else {
                continue;
            };
            for (name, item) in &types[outer].exports {
                if let ComponentEntityType::Component(world) = item.ty {
                    self.add_world(&types, &package_of(name).unwrap_or_default(), world);
                }
            }
        }
    }

    fn add_world(&mut self, types: &Types, package: &str, world: ComponentTypeId) {
        let mut uses = Uses { types, owners: HashMap::new() };
        let ComponentType { imports, exports, .. } = &types[world];
        for (name, item) in imports.iter().chain(exports) {
            let ComponentEntityType::Instance(interface) = item.ty else { continue };
            // One without a package is the world's own.
            let name = item.implements.as_ref().unwrap_or(name);
            let own = package_of(name).unwrap_or_else(|| package.to_owned());
            let others = uses.packages(&own, interface);
            self.need(package, [own.clone()].into_iter().chain(others.iter().cloned()));
            self.need(&own, others.into_iter());
        }
    }

    fn need(&mut self, package: &str, others: impl Iterator<Item = String>) {
        let others = others.filter(|other| other != package);
        self.0.entry(package.to_owned()).or_default().extend(others);
    }

    /// What is left when every package is taken away that needs none of those left: circles, and what needs them.
    /// There are at most a thousand or two, since a world may name no more interfaces.
    pub(super) fn circle(mut self) -> Vec<String> {
        loop {
            let names: BTreeSet<String> = self.0.keys().cloned().collect();
            self.0.retain(|_, others| others.iter().any(|other| names.contains(other)));
            if self.0.len() == names.len() {
                return self.0.into_keys().collect();
            }
        }
    }
}

/// Whose types are used by whom, in one world.
struct Uses<'a> {
    types: &'a Types,
    /// The package whose interface has a type.
    owners: HashMap<ComponentAnyTypeId, String>,
}

impl Uses<'_> {
    /// The packages whose types an interface uses; what is new in it belongs to its own from now on.
    fn packages(&mut self, own: &str, interface: ComponentInstanceTypeId) -> BTreeSet<String> {
        let mut others = BTreeSet::new();
        for item in self.types[interface].exports.values() {
            if let ComponentEntityType::Type { referenced, created } = item.ty {
                others.extend(self.owner(referenced));
                self.owners.insert(created, own.to_owned());
            }
        }
        others
    }

    /// The owner of a type, or of one that it is another name of.
    fn owner(&self, mut ty: ComponentAnyTypeId) -> Option<String> {
        loop {
            if let Some(owner) = self.owners.get(&ty) {
                return Some(owner.clone());
            }
            ty = self.types.as_ref().peel_alias(ty)?;
        }
    }
}

/// `wasi:io@0.2.0` of `wasi:io/poll@0.2.0`; none of a plain name.
fn package_of(interface: &str) -> Option<String> {
    let (package, rest) = interface.split_once('/')?;
    let version = rest.split_once('@').map(|(_, version)| format!("@{version}")).unwrap_or_default();
    package.contains(':').then(|| format!("{package}{version}"))
}
