//! Does a component export our handler, with our types? And `lifecycle`, if it has that?
//!
//! A step of `load`. Checked here rather than when it is first run, so that a plugin built against another
//! contract is refused as such. Invariant: exports beyond our worlds are ignored.

use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentInstance, ComponentItem};
use wasmtime::component::{Component, ComponentNamedList, Lift, Lower};

use super::LoadError;
use super::error::chain;
use crate::bindings::hark::plugin::plugin_types::{DeleteReason, Description, Failure, ObjectReference};
use crate::bindings::stateful::exports::hark::plugin::lifecycle::{SavedState, StartReason, StopReason};
use crate::text;

/// The interface that makes a component a plugin.
pub(crate) const HANDLER: &str = "hark:plugin/handler@0.1.0";
/// Its functions.
pub(super) const FUNCTIONS: [&str; 4] = ["describe", "on-add", "on-update", "on-delete"];

/// The interface that a plugin may export beside it.
pub(crate) const LIFECYCLE: &str = "hark:plugin/lifecycle@0.1.0";
/// Its functions.
pub(super) const LIFECYCLE_FUNCTIONS: [&str; 5] = ["start", "stop", "save", "restore", "synced"];

type Answer = (Result<(), Failure>,);
type Done = (Result<(), String>,);

/// Refuses a component that is no plugin of ours; says whether it has a lifecycle.
pub(super) fn check(engine: &Engine, component: &Component) -> Result<bool, LoadError> {
    check_handler(engine, component)?;
    check_lifecycle(engine, component)
}

fn check_handler(engine: &Engine, component: &Component) -> Result<(), LoadError> {
    let ty = component.component_type();
    let Some(ComponentItem::ComponentInstance(interface)) =
        ty.get_export(engine, HANDLER).map(|found| found.ty)
    else {
        let exports = text::names(ty.exports(engine).map(|(name, _)| name));
        return Err(LoadError::NoHandler { exports });
    };
    let function = Checker { engine, component, interface };
    let problems = [
        function.check::<(), (Result<Description, String>,)>("describe"),
        function.check::<(u32, ObjectReference<'_>, &str, bool), Answer>("on-add"),
        function.check::<(u32, ObjectReference<'_>, &str, &str, bool), Answer>("on-update"),
        function.check::<(u32, ObjectReference<'_>, &str, DeleteReason), Answer>("on-delete"),
    ];
    none_of(problems).map_err(LoadError::ExportType)
}

fn check_lifecycle(engine: &Engine, component: &Component) -> Result<bool, LoadError> {
    let ty = component.component_type();
    let Some(found) = ty.get_export(engine, LIFECYCLE) else { return Ok(false) };
    let ComponentItem::ComponentInstance(interface) = found.ty else {
        return Err(LoadError::LifecycleType(vec!["it is no interface".into()]));
    };
    let function = Checker { engine, component, interface };
    let problems = [
        function.check::<(StartReason,), Done>("start"),
        function.check::<(StopReason,), ()>("stop"),
        function.check::<(), (Result<Option<SavedState>, String>,)>("save"),
        function.check::<(&SavedState,), Done>("restore"),
        function.check::<(u32,), ()>("synced"),
    ];
    none_of(problems).map_err(LoadError::LifecycleType)?;
    Ok(true)
}

/// All that is wrong.
fn none_of<const N: usize>(problems: [Result<(), String>; N]) -> Result<(), Vec<String>> {
    let problems: Vec<_> = problems.into_iter().filter_map(Result::err).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

struct Checker<'a> {
    engine: &'a Engine,
    component: &'a Component,
    interface: ComponentInstance,
}

impl Checker<'_> {
    fn check<Params, Return>(&self, name: &str) -> Result<(), String>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let found = self.interface.get_export(self.engine, name).map(|found| found.ty);
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
