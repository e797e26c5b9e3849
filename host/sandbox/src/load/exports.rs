//! Does a component export our handler, with our types?
//!
//! A step of `load`. Checked here rather than when it is first run, so that a plugin built against another
//! contract is refused as such. Invariant: exports beyond our world are ignored.

use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentInstance, ComponentItem};
use wasmtime::component::{Component, ComponentNamedList, Lift, Lower};

use super::LoadError;
use super::error::chain;
use crate::bindings::hark::plugin::plugin_types::{DeleteReason, Description, Failure, ObjectReference};
use crate::text;

/// The interface that makes a component a plugin.
pub(crate) const HANDLER: &str = "hark:plugin/handler@0.1.0";
/// Its functions.
pub(super) const FUNCTIONS: [&str; 4] = ["describe", "on-add", "on-update", "on-delete"];

type Answer = (Result<(), Failure>,);

/// Refuses a component that is no plugin of ours.
pub(super) fn check(engine: &Engine, component: &Component) -> Result<(), LoadError> {
    let ty = component.component_type();
    let Some(ComponentItem::ComponentInstance(handler)) =
        ty.get_export(engine, HANDLER).map(|found| found.ty)
    else {
        let exports = text::names(ty.exports(engine).map(|(name, _)| name));
        return Err(LoadError::NoHandler { exports });
    };
    let function = Checker { engine, component, handler };
    let problems = [
        function.check::<(), (Result<Description, String>,)>("describe"),
        function.check::<(u32, ObjectReference<'_>, &str, bool), Answer>("on-add"),
        function.check::<(u32, ObjectReference<'_>, &str, &str, bool), Answer>("on-update"),
        function.check::<(u32, ObjectReference<'_>, &str, DeleteReason), Answer>("on-delete"),
    ];
    let problems: Vec<_> = problems.into_iter().filter_map(Result::err).collect();
    if problems.is_empty() { Ok(()) } else { Err(LoadError::ExportType(problems)) }
}

struct Checker<'a> {
    engine: &'a Engine,
    component: &'a Component,
    handler: ComponentInstance,
}

impl Checker<'_> {
    fn check<Params, Return>(&self, name: &str) -> Result<(), String>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let found = self.handler.get_export(self.engine, name).map(|found| found.ty);
        let Some(ComponentItem::ComponentFunc(function)) = found else {
            return Err(format!("`{name}` is missing"));
        };
        self.same_type::<Params, Return>(&function).map_err(|error| format!("`{name}`: {}", chain(&error)))
    }

    /// The check that wasmtime itself makes once there is an instance. It is hidden from wasmtime's docs, so
    /// it may change with a version; ours is pinned.
    fn same_type<Params, Return>(&self, function: &ComponentFunc) -> wasmtime::Result<()>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        function.typecheck::<Params, Return>(&self.component.component_type().instance_type())
    }
}
