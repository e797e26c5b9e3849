//! What a delta does to the cache, and what it means to a handler.
//!
//! Used by informers' process functions: first [`store`], then [`events`]. Pure but for the cache. Invariant:
//! whoever is told all events of a key in order, each computed from what it knew before, ends up knowing what
//! the cache has.

use std::sync::Arc;

use crate::delta_fifo::{Delta, DeltaKind};
use crate::handler::{DeleteReason, Event};
use crate::indexer::Indexer;
use crate::object::Object;

/// Brings a delta into the cache, and gives what was there. A text that the cache has is not written again. One
/// that differs is, even at the same version, as after a restored backup whose versions came again.
pub(crate) fn store(indexer: &Indexer, delta: &Delta) -> Option<Arc<Object>> {
    let object = &delta.object;
    match delta.kind {
        // A tombstone's state is an old one: it says nothing of the version reached (R-IX-9).
        DeltaKind::Deleted if delta.final_state_unknown => indexer.remove(object.key()),
        DeltaKind::Deleted => indexer.remove_object(object),
        _ => match indexer.get(object.key()) {
            Some(known) if same_state(&known, object) && known.json() == object.json() => Some(known),
            _ => indexer.upsert(object.clone()),
        },
    }
}

/// What a delta means to somebody who knows the object as `known`, in order: none, one or two events.
///
/// Presence decides between add and update (R-PD-1); a state that is known already is no event, but for a resync
/// (delivery contract 5); another uid under the same name is a delete and an add (contract 7); what was never
/// known is not deleted (contract 6).
pub(crate) fn events(
    known: Option<&Arc<Object>>,
    delta: &Delta,
    initial: bool,
) -> impl Iterator<Item = Event> + use<> {
    let object = delta.object.clone();
    let pair = match (known.cloned(), delta.kind) {
        (None, DeltaKind::Deleted) => [None, None],
        (None, _) => [Some(Event::Add { object, initial }), None],
        (Some(old), DeltaKind::Deleted) => [Some(deletion(old, delta)), None],
        (Some(old), kind) if same_state(&old, &object) => {
            let resync = kind == DeltaKind::Sync;
            [resync.then_some(Event::Update { old, new: object, resync }), None]
        }
        (Some(old), _) if old.uid() == object.uid() => {
            [Some(Event::Update { old, new: object, resync: false }), None]
        }
        (Some(old), _) => [
            Some(Event::Delete { object: old, reason: DeleteReason::Unknown }),
            Some(Event::Add { object, initial: false }),
        ],
    };
    pair.into_iter().flatten()
}

/// Of an object known as `old`. If the deletion is of a later one of that name, the known one went unseen.
fn deletion(old: Arc<Object>, delta: &Delta) -> Event {
    let same = old.uid() == delta.object.uid();
    let reason =
        if delta.final_state_unknown || !same { DeleteReason::Unknown } else { DeleteReason::Deleted };
    Event::Delete { object: if same { delta.object.clone() } else { old }, reason }
}

fn same_state(a: &Object, b: &Object) -> bool {
    a.uid() == b.uid() && a.resource_version() == b.resource_version()
}
