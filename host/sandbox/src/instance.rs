//! One store with one instance in it: the only file that calls into a guest.
//!
//! Used by `plugin` (to describe) and `handler` (for events). Invariant: a store is made only in here, with
//! its caps and clocks set before any guest code runs; after an error or an abandoned call its owner drops it.

use std::sync::Arc;
use std::time::Instant;

use hark_informer::cache::CacheReader;
use hark_informer::handler::{DeleteReason, Delivery, Event};
use hark_informer::object::Object;
use wasmtime::{Store, UpdateDeadline};

use crate::bindings::Plugin as Guest;
use crate::bindings::hark::plugin::plugin_types as wit;
use crate::context::Context;
use crate::deadline::Deadline;
use crate::output::Output;
use crate::plugin::Plugin;
use crate::state::GuestState;

/// Bytes that a guest may hand to the host in one call: two of the largest objects. Held only during the call.
const CALL_BYTES: usize = 8 << 20;
/// Live handles: WASI resources as the guest counts them.
const HANDLES: usize = 8192;

/// A running guest.
pub(crate) struct Instance {
    store: Store<GuestState>,
    guest: Guest,
    deadline: Arc<Deadline>,
}

impl Instance {
    /// Starts a guest, which may run code of its own. It must be done by `ends`.
    pub(crate) async fn start(
        plugin: &Plugin,
        context: &Context,
        output: &Arc<Output>,
        cache: Option<Arc<dyn CacheReader>>,
        ends: Instant,
    ) -> wasmtime::Result<Self> {
        let deadline = Arc::new(Deadline::new(context.limits.deadline, ends));
        let state = GuestState::new(context, output, cache, Arc::clone(&deadline));
        let mut store = Store::new(plugin.pre().engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(CALL_BYTES);
        store.set_max_component_handles(HANDLES);
        store.epoch_deadline_callback(|store| {
            store.data().deadline.tick()?;
            // A break for the host: the event's budget, or a shutdown, may end the call here.
            Ok(UpdateDeadline::Yield(1))
        });
        store.set_epoch_deadline(1);
        let guest = deadline.watch(plugin.pre().instantiate_async(&mut store)).await?;
        Ok(Self { store, guest, deadline })
    }

    /// Asks the guest what it is.
    pub(crate) async fn describe(
        &mut self,
        ends: Instant,
    ) -> wasmtime::Result<Result<wit::Description, String>> {
        self.prepare(None, ends);
        self.deadline.watch(self.guest.hark_plugin_handler().call_describe(&mut self.store)).await
    }

    /// Hands an event to the guest.
    pub(crate) async fn handle(
        &mut self,
        delivery: &Delivery,
        ends: Instant,
    ) -> wasmtime::Result<Result<(), wit::Failure>> {
        self.prepare(Some(delivery), ends);
        let (store, handler) = (&mut self.store, self.guest.hark_plugin_handler());
        let (number, target) = (delivery.subscription, reference(delivery.event.object()));
        match &delivery.event {
            Event::Add { object, initial } => {
                self.deadline.watch(handler.call_on_add(store, number, target, object.json(), *initial)).await
            }
            Event::Update { old, new, resync } => {
                let call = handler.call_on_update(store, number, target, old.json(), new.json(), *resync);
                self.deadline.watch(call).await
            }
            Event::Delete { object, reason } => {
                let call =
                    handler.call_on_delete(store, number, target, object.json(), delete_reason(*reason));
                self.deadline.watch(call).await
            }
        }
    }

    fn prepare(&mut self, delivery: Option<&Delivery>, ends: Instant) {
        self.deadline.start(ends);
        self.store.data_mut().delivery = delivery.cloned();
        // The epoch went on since the last call; without this the call would begin with a break.
        self.store.set_epoch_deadline(1);
    }
}

fn reference(object: &Object) -> wit::ObjectReference<'_> {
    wit::ObjectReference {
        namespace: object.key().namespace(),
        name: object.key().name(),
        uid: object.uid(),
        resource_version: object.resource_version(),
    }
}

fn delete_reason(reason: DeleteReason) -> wit::DeleteReason {
    match reason {
        DeleteReason::Deleted => wit::DeleteReason::Deleted,
        DeleteReason::Unknown => wit::DeleteReason::Unknown,
        DeleteReason::Filtered => wit::DeleteReason::Filtered,
        DeleteReason::NamespaceLeft => wit::DeleteReason::NamespaceLeft,
    }
}
