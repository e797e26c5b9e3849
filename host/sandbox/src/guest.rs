//! What a component exports of our world, found once when it is loaded, and what an instance of it has of that.
//!
//! Made by `load`, kept by `Plugin`, called by `instance` alone. Invariant: whether a plugin has a lifecycle is found out
//! once, and what it costs is paid by those that have one.

use std::sync::Arc;

use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::bindings::exports::hark::plugin::handler;
use crate::bindings::stateful::exports::hark::plugin::lifecycle;
use crate::state::GuestState;

/// A component that is linked, and where its exports are.
pub(crate) struct Exports {
    pre: InstancePre<GuestState>,
    handler: handler::GuestIndices,
    lifecycle: Option<lifecycle::GuestIndices>,
}

/// The exports of one instance.
pub(crate) struct Guest {
    pub(crate) handler: handler::Guest,
    /// Shared, so that an instance is as small without it.
    pub(crate) lifecycle: Option<Arc<lifecycle::Guest>>,
}

impl Exports {
    /// `stateful`: it exports `lifecycle`.
    pub(crate) fn new(pre: InstancePre<GuestState>, stateful: bool) -> wasmtime::Result<Self> {
        let handler = handler::GuestIndices::new(&pre)?;
        let lifecycle = stateful.then(|| lifecycle::GuestIndices::new(&pre)).transpose()?;
        Ok(Self { pre, handler, lifecycle })
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    pub(crate) fn has_lifecycle(&self) -> bool {
        self.lifecycle.is_some()
    }

    /// An instance, whose start functions run.
    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Guest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let handler = self.handler.load(&mut *store, &instance)?;
        let lifecycle =
            self.lifecycle.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?;
        Ok(Guest { handler, lifecycle: lifecycle.map(Arc::new) })
    }
}
