//! Between the generated bindings and a [`Plugin`]: makes the plugin's value, converts what goes in and out.
//! Reached through [`export!`](crate::export) only. Invariant: the value is made once per instance, before its
//! first event, and is never borrowed twice, since the host does not re-enter.

mod description;
pub(crate) mod lifecycle;

use std::cell::RefCell;

use crate::bindings::exports::hark::plugin::handler as wit;
use crate::bindings::hark::plugin::plugin_types::RetryRequest;
use crate::{Added, DeleteReason, Deleted, Failure, Outcome, Plugin, Target, Updated};

/// Where the one value of a plugin lives. `export!` puts it into a thread-local of the author's crate, which
/// a generic static could not be.
#[derive(Debug)]
pub struct Slot<P>(RefCell<Option<P>>);

impl<P: Plugin> Slot<P> {
    /// A slot without a value yet.
    #[expect(clippy::new_without_default, reason = "only ever made by `export!`, in a const")]
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Puts a value into it.
    pub(crate) fn put(&self, plugin: P) {
        *self.0.borrow_mut() = Some(plugin);
    }

    /// Runs something on the value; none if there is none.
    pub(crate) fn ask<R>(&self, ask: impl FnOnce(&mut P) -> R) -> Option<R> {
        self.0.borrow_mut().as_mut().map(ask)
    }

    /// Runs a handler on the value, which is made first if there is none.
    pub fn with(&self, handle: impl FnOnce(&mut P) -> Outcome) -> Outcome {
        let mut slot = self.0.borrow_mut();
        match &mut *slot {
            Some(plugin) => handle(plugin),
            empty => handle(empty.insert(P::start()?)),
        }
    }
}

/// The type that `export!` makes in the author's crate: names the plugin, and finds its value.
pub trait Exported {
    /// The author's type.
    type Plugin: Plugin;

    /// Runs a handler on the plugin's value.
    fn with(handle: impl FnOnce(&mut Self::Plugin) -> Outcome) -> Outcome;
}

impl<E: Exported> wit::Guest for E {
    fn describe() -> Result<wit::Description, String> {
        crate::log::catch_panics();
        E::Plugin::describe().map(Into::into).map_err(|error| error.to_string())
    }

    fn on_add(
        subscription: u32,
        target: wit::ObjectReference,
        object: String,
        initial: bool,
    ) -> Result<(), wit::Failure> {
        let event = Added { subscription, target: target.into(), object, initial };
        handle::<E>(|plugin| plugin.on_add(event))
    }

    fn on_update(
        subscription: u32,
        target: wit::ObjectReference,
        old_object: String,
        object: String,
        resync: bool,
    ) -> Result<(), wit::Failure> {
        let event = Updated { subscription, target: target.into(), old_object, object, resync };
        handle::<E>(|plugin| plugin.on_update(event))
    }

    fn on_delete(
        subscription: u32,
        target: wit::ObjectReference,
        object: String,
        reason: wit::DeleteReason,
    ) -> Result<(), wit::Failure> {
        let event = Deleted { subscription, target: target.into(), object, reason: reason.into() };
        handle::<E>(|plugin| plugin.on_delete(event))
    }
}

fn handle<E: Exported>(handler: impl FnOnce(&mut E::Plugin) -> Outcome) -> Result<(), wit::Failure> {
    crate::log::catch_panics();
    E::with(handler).map_err(Into::into)
}

impl From<wit::ObjectReference> for Target {
    fn from(target: wit::ObjectReference) -> Self {
        let wit::ObjectReference { namespace, name, uid, resource_version } = target;
        Self { namespace, name, uid, resource_version }
    }
}

impl From<wit::DeleteReason> for DeleteReason {
    fn from(reason: wit::DeleteReason) -> Self {
        match reason {
            wit::DeleteReason::Deleted => Self::Deleted,
            wit::DeleteReason::Unknown => Self::Unknown,
            wit::DeleteReason::Filtered => Self::Filtered,
            wit::DeleteReason::NamespaceLeft => Self::NamespaceLeft,
            wit::DeleteReason::Other => Self::Other,
        }
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry { message, after } => {
                // 0 would mean "the host's own back-off", so a wait that was asked for is at least 1 ms.
                let wait =
                    |after: std::time::Duration| u32::try_from(after.as_millis()).unwrap_or(u32::MAX).max(1);
                Self::Retry(RetryRequest { message, after_ms: after.map_or(0, wait) })
            }
            Failure::Permanent { message } => Self::Permanent(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::Described;

    thread_local! {
        static STARTS: Cell<u32> = const { Cell::new(0) };
    }

    /// Fails to start the first time.
    struct Stubborn;

    impl Plugin for Stubborn {
        fn describe() -> Described {
            Err("not today".into())
        }

        fn start() -> Result<Self, Failure> {
            STARTS.set(STARTS.get() + 1);
            if STARTS.get() == 1 { Err(Failure::retry("too early")) } else { Ok(Self) }
        }
    }

    #[test]
    fn a_value_is_made_once_and_asked_for_again_after_a_failure() {
        let slot = Slot::<Stubborn>::new();
        assert_eq!(slot.with(|_| Ok(())), Err(Failure::retry("too early")));
        assert_eq!(slot.with(|_| Ok(())), Ok(()));
        assert_eq!(slot.with(|_| Err(Failure::permanent("no"))), Err(Failure::permanent("no")));
        assert_eq!(STARTS.get(), 2);
    }

    #[test]
    fn a_wait_that_was_asked_for_is_never_the_host_s_own_back_off() {
        let after_ms = |failure: Failure| match failure.into() {
            wit::Failure::Retry(request) => Some(request.after_ms),
            wit::Failure::Permanent(_) => None,
        };
        assert_eq!(after_ms(Failure::retry("x")), Some(0));
        assert_eq!(after_ms(Failure::retry_after("x", Duration::ZERO)), Some(1));
        assert_eq!(after_ms(Failure::retry_after("x", Duration::from_secs(3))), Some(3000));
        assert_eq!(after_ms(Failure::retry_after("x", Duration::MAX)), Some(u32::MAX));
        assert_eq!(after_ms(Failure::permanent("x")), None);
    }
}
