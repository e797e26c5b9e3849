//! The merge algebra: what two waiting events of one key come to. The table is in the head of [`crate::queue`].
//!
//! Used by the queue alone. Invariant: what a handler is told in the end is the same as by both events, but for
//! the states between; only an add that no handler saw goes away together with its delete, and an update that no
//! handler saw together with the one that takes it back.

use std::sync::Arc;

use crate::handler::Event;
use crate::object::Object;

pub(super) enum Merged {
    /// Both are this one.
    One(Event),
    /// They cancel each other.
    Nothing,
    /// Both stay, in their order.
    Two,
}

/// `last` waits (`known` to a handler or not), `next` comes.
pub(super) fn merge(
    last: &Event,
    known: bool,
    next: &Event,
    is_change: impl FnOnce(&Arc<Object>, &Arc<Object>) -> bool,
) -> Merged {
    match (last, next) {
        (Event::Add { initial, .. }, Event::Update { new, .. }) => {
            Merged::One(Event::Add { object: new.clone(), initial: *initial })
        }
        (Event::Update { old, resync: false, .. }, Event::Update { new, .. })
            if !known && !is_change(old, new) =>
        {
            Merged::Nothing
        }
        (Event::Update { old, .. }, Event::Update { new, .. }) => {
            Merged::One(Event::Update { old: old.clone(), new: new.clone(), resync: false })
        }
        (Event::Add { .. }, Event::Delete { .. }) if !known => Merged::Nothing,
        (Event::Add { .. } | Event::Update { .. }, Event::Delete { .. }) => Merged::One(next.clone()),
        _ => Merged::Two,
    }
}
