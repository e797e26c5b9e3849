//! One store with one instance in it: the only place that calls into a guest.
//!
//! Used by `plugin` (to describe), `starting` (ahead of events) and `handler` (for events, and between them). Invariants:
//! a store is made only in here, with its
//! caps and clocks set before any guest code runs; every call takes the instance away and gives it back only with an
//! answer, so that after an error, or when the call is abandoned, nobody has an instance that could be entered again.

mod lifecycle;

use std::sync::Arc;

use hark_informer::cache::CacheReader;
use hark_informer::handler::{DeleteReason, Delivery, Event};
use hark_informer::object::Object;
use wasmtime::{Store, UpdateDeadline};

use crate::bindings::hark::plugin::plugin_types as wit;
use crate::context::Context;
use crate::core_dump::CoreDump;
use crate::deadline::Deadline;
use crate::entry::Entry;
use crate::guest::Guest;
use crate::limits::Limits;
use crate::outcome::Fault;
use crate::output::Output;
use crate::plugin::Plugin;
use crate::state::GuestState;

/// A running guest. It changes hands several times with each event, so it is no more than a pointer.
pub(crate) struct Instance(Box<Parts>);

/// What a running guest is made of.
struct Parts {
    store: Store<GuestState>,
    guest: Guest,
    deadline: Arc<Deadline>,
    /// Events that it has answered.
    events: u64,
    /// What it was made for, or called for last, is over: the next call has a budget of its own.
    rested: bool,
    /// It was given what an instance before it saved.
    restored: bool,
}

/// What a guest is started for.
pub(crate) enum Purpose {
    /// To describe itself, once.
    Describe,
    /// To handle events, with this cache; none: it is given one later.
    Events(Option<Arc<dyn CacheReader>>),
}

/// A call that gave no answer: why, where, and the store in which it happened, which only a core dump may be made of.
pub(crate) struct Broken {
    error: wasmtime::Error,
    entry: Entry,
    store: Store<GuestState>,
}

impl Instance {
    /// Makes one, which may run code of the guest's; on the budget of what it is made for.
    pub(crate) async fn make(
        plugin: &Plugin,
        context: &Context,
        output: &Arc<Output>,
        purpose: Purpose,
    ) -> Result<Self, Broken> {
        let deadline = Arc::new(Deadline::new(&context.limits, &context.usage, plugin.ticker()));
        let mut store = store(plugin, context, output, purpose, &deadline);
        match deadline.watch(plugin.exports().instantiate(&mut store)).await {
            Ok(guest) => {
                let parts = Parts { store, guest, deadline, events: 0, rested: false, restored: false };
                Ok(Self(Box::new(parts)))
            }
            Err(error) => Err(Broken { error, entry: Entry::Instance, store }),
        }
    }

    /// Asks the guest what it is, which ends the instance.
    pub(crate) async fn describe(mut self) -> Result<Result<wit::Description, String>, Broken> {
        self.prepare(None);
        let call = self.0.guest.handler.call_describe(&mut self.0.store);
        let answer = self.0.deadline.watch(call).await;
        answer.map_err(|error| self.broken(error, Entry::Describe))
    }

    /// Hands an event to the guest, and gives back the instance with its answer.
    pub(crate) async fn handle(
        mut self,
        delivery: &Delivery,
    ) -> Result<(Self, Result<(), wit::Failure>), Broken> {
        self.prepare(Some(delivery));
        match self.call(delivery).await {
            Ok(answer) => {
                self.0.events += 1;
                Ok((self, answer))
            }
            Err(error) => Err(self.broken(error, Entry::Event)),
        }
    }

    async fn call(&mut self, delivery: &Delivery) -> wasmtime::Result<Result<(), wit::Failure>> {
        let Parts { store, guest, deadline, .. } = &mut *self.0;
        let handler = &guest.handler;
        let (number, target) = (delivery.subscription, reference(delivery.event.object()));
        match &delivery.event {
            Event::Add { object, initial } => {
                deadline.watch(handler.call_on_add(store, number, target, object.json(), *initial)).await
            }
            Event::Update { old, new, resync } => {
                let call = handler.call_on_update(store, number, target, old.json(), new.json(), *resync);
                deadline.watch(call).await
            }
            Event::Delete { object, reason } => {
                let call =
                    handler.call_on_delete(store, number, target, object.json(), delete_reason(*reason));
                deadline.watch(call).await
            }
        }
    }

    /// Events that it has answered.
    pub(crate) fn events(&self) -> u64 {
        self.0.events
    }

    /// Bytes of its linear memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.store.data().limiter.memory()
    }

    /// What it was made for is over: the next call has a budget of its own.
    pub(crate) fn rests(mut self) -> Self {
        self.0.rested = true;
        self
    }

    /// From now on it sees what its plugin has of the cluster.
    pub(crate) fn sees(&mut self, cache: &Arc<dyn CacheReader>) {
        self.0.store.data_mut().cache.get_or_insert_with(|| Arc::clone(cache));
    }

    fn prepare(&mut self, delivery: Option<&Delivery>) {
        // Where it was made for this call, the budget goes on.
        match std::mem::take(&mut self.0.rested) {
            true => self.0.deadline.begin_event(),
            false => self.0.deadline.begin_call(),
        }
        self.0.store.data_mut().delivery = delivery.cloned();
        // The epoch went on since the last call; without this the call would begin with a break.
        self.0.store.set_epoch_deadline(1);
    }

    fn broken(self, error: wasmtime::Error, entry: Entry) -> Broken {
        Broken { error, entry, store: self.0.store }
    }
}

impl Broken {
    /// What happened.
    pub(crate) fn fault(&self, limits: &Limits) -> Fault {
        Fault::of(&self.error, limits, self.store.engine().get_max_wasm_stack(), self.entry)
    }

    /// What remained of the guest, if the engine keeps that and the guest's own code broke off.
    pub(crate) fn into_core_dump(self) -> Option<CoreDump> {
        CoreDump::of(self.error, self.store)
    }
}

/// A store with its caps and clocks.
fn store(
    plugin: &Plugin,
    context: &Context,
    output: &Arc<Output>,
    purpose: Purpose,
    deadline: &Arc<Deadline>,
) -> Store<GuestState> {
    let limits = &context.limits;
    let bytes = match purpose {
        Purpose::Describe => limits.describe,
        Purpose::Events(_) => limits.call_bytes,
    };
    let state = GuestState::new(context, output, purpose, Arc::clone(deadline));
    let mut store = Store::new(plugin.exports().engine(), state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(bytes);
    // Each resource of the host's has an entry in the store's table, which has room for `handles`, and at most two
    // handles while it is lent out.
    store.set_max_component_handles(limits.handles.saturating_mul(2));
    store.call_hook(|store, hook| {
        store.data().deadline.calls().passes(hook);
        Ok(())
    });
    store.epoch_deadline_callback(|store| {
        store.data().deadline.tick()?;
        // A break for the host: the event's budget, or a shutdown, may end the call here.
        Ok(UpdateDeadline::Yield(1))
    });
    store.set_epoch_deadline(1);
    store
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
