//! Objects that are larger than handlers may be handed ([`ListenerConfig::max_object`]): such states are left out.
//!
//! Used by `admission`, which decides what the queue takes in, and for redeliveries, under the listener's lock. Invariants: the queue holds no state that is too large; for an object whose present state is, there is a
//! [`Withheld`], which remembers what its handlers know of it; so they are told of every object what they would be told
//! if its large states had never been.
//!
//! | withheld | the event | becomes |
//! | --- | --- | --- |
//! | no | a state that fits | itself |
//! | no | a state that is too large | nothing: it is withheld, reported once, and counted |
//! | yes | a state that is too large | nothing, and is counted |
//! | yes, never told | a state that fits | an add |
//! | yes, told before | a state that fits | an update from what was told; an add for handlers that began since |
//! | yes, never told | delete | nothing |
//! | yes, told before | delete | a delete of what was told |
//!
//! A state that was told, but would be too large by now, since the limit was lowered or more is shown than before, is
//! replaced by its name ([`Object::name_only`]); so is the last state of a deletion.
//!
//! [`ListenerConfig::max_object`]: super::ListenerConfig::max_object

use std::collections::HashMap;
use std::sync::Arc;

use super::registrations::Registered;
use crate::handler::Event;
use crate::object::{Object, ObjectKey};
use crate::view::View;

/// An object whose present state is too large.
#[derive(Debug)]
pub(super) struct Withheld {
    /// The last state that was for the handlers; none: they know nothing of the object.
    told: Option<Arc<Object>>,
    /// Handlers that began afresh since, by a swap or a restart, do not know it.
    afresh: bool,
    reported: bool,
}

impl Withheld {
    /// Whether no handler knows the object.
    pub(super) fn is_unknown(&self) -> bool {
        self.told.is_none()
    }
}

/// What a registration shows, and how much of it it may.
#[derive(Clone, Copy)]
pub(super) struct Measure<'a> {
    pub(super) view: &'a View,
    /// Bytes; none: any number.
    pub(super) max: Option<usize>,
}

impl Measure<'_> {
    pub(super) fn fits(self, object: &Arc<Object>) -> bool {
        self.max.is_none_or(|max| self.view.shows_at_most(object, max))
    }

    /// The object, or its name where it is too large.
    pub(super) fn shrunk(self, object: Arc<Object>) -> Arc<Object> {
        if self.fits(&object) { object } else { Arc::new(object.name_only()) }
    }
}

/// What is left of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// To be queued.
    Event(Event),
    /// The same, and an earlier handler knows the object.
    Again(Event),
    /// Nothing, and nothing is missing.
    Nothing,
    /// It is too large; whether that is to be reported.
    TooLarge(bool),
}

/// The table in the head of this file.
pub(super) fn sift(withheld: &mut HashMap<ObjectKey, Withheld>, event: &Event, measure: Measure<'_>) -> Left {
    let key = event.key();
    match event {
        Event::Add { object, .. } if measure.fits(object) => {
            withheld.remove(key);
            Left::Event(event.clone())
        }
        Event::Add { .. } => withhold(withheld, key, None),
        Event::Update { old, new, resync } if measure.fits(new) => match withheld.remove(key) {
            None => {
                let old = measure.shrunk(old.clone());
                Left::Event(Event::Update { old, new: new.clone(), resync: *resync })
            }
            Some(before) => returned(before, new, measure),
        },
        Event::Update { resync: true, .. } if withheld.contains_key(key) => Left::Nothing,
        Event::Update { old, .. } => withhold(withheld, key, Some(measure.shrunk(old.clone()))),
        Event::Delete { object, reason } => match withheld.remove(key) {
            None => Left::Event(Event::Delete { object: measure.shrunk(object.clone()), reason: *reason }),
            Some(Withheld { told: None, .. }) => Left::Nothing,
            Some(Withheld { told: Some(object), afresh, .. }) => {
                let event = Event::Delete { object: measure.shrunk(object), reason: *reason };
                if afresh { Left::Again(event) } else { Left::Event(event) }
            }
        },
    }
}

/// A state that is too large came, and handlers know `told`, unless more is known of that.
fn withhold(withheld: &mut HashMap<ObjectKey, Withheld>, key: &ObjectKey, told: Option<Arc<Object>>) -> Left {
    let fresh = || Withheld { told, afresh: false, reported: false };
    let one = withheld.entry(key.clone()).or_insert_with(fresh);
    Left::TooLarge(!std::mem::replace(&mut one.reported, true))
}

/// An object was withheld, and has a state that fits again.
fn returned(before: Withheld, new: &Arc<Object>, measure: Measure<'_>) -> Left {
    let add = Event::Add { object: new.clone(), initial: false };
    match before.told {
        None => Left::Event(add),
        Some(_) if before.afresh => Left::Again(add),
        Some(told) if measure.view.is_change(&told, new) => {
            Left::Event(Event::Update { old: measure.shrunk(told), new: new.clone(), resync: false })
        }
        Some(_) => Left::Nothing,
    }
}

/// The same for events of one object that are queued already, and whether a handler knows it by then; what has been
/// withheld came after them. What is left out is put to `large`, with whether it is to be reported.
pub(super) fn sift_again(
    withheld: &mut HashMap<ObjectKey, Withheld>,
    key: &ObjectKey,
    events: Vec<(Event, bool)>,
    measure: Measure<'_>,
    large: &mut Vec<(Event, bool)>,
) -> Vec<Option<Event>> {
    let after = withheld.remove(key);
    let mut left = Vec::new();
    for (event, known) in events {
        left.push(match sift(withheld, &event, measure) {
            Left::Event(event) | Left::Again(event) => Some(event),
            Left::Nothing => None,
            Left::TooLarge(report) => {
                if let Some(one) = withheld.get_mut(key).filter(|one| known && one.is_unknown()) {
                    one.told = Some(Arc::new(event.object().name_only()));
                    one.afresh = true;
                }
                large.push((event, report));
                None
            }
        });
    }
    if let Some(after) = after {
        let told = withheld.remove(key).map_or(after.told, |before| before.told);
        withheld.insert(key.clone(), Withheld { told, ..after });
    }
    left
}

impl Registered {
    pub(super) fn measure(&self, max: Option<usize>) -> Measure<'_> {
        Measure { view: &self.view, max }
    }

    /// The cursor has come by an object: none if it is withheld, with whether that is to be reported; else whether an
    /// earlier handler knows it, which is `shown` by what the cursor knows.
    pub(super) fn read(
        &mut self,
        object: &Arc<Object>,
        shown: bool,
        max: Option<usize>,
    ) -> Result<bool, bool> {
        let before = self.withheld.remove(object.key());
        if self.measure(max).fits(object) {
            return Ok(shown && before.is_none_or(|before| !before.is_unknown()));
        }
        let (told, reported) = match before {
            Some(before) => (before.told, before.reported),
            // It was told, and nothing came that was too large since: the limit is another one.
            None => (Some(Arc::new(object.name_only())), false),
        };
        let now = Withheld { told: told.filter(|_| shown), afresh: true, reported: true };
        self.withheld.insert(object.key().clone(), now);
        Err(!reported)
    }

    /// An event came that is the cursor's to find; `known` if an earlier handler knows its object. What that was last
    /// told is gone by the time the cursor comes by.
    pub(super) fn pass_by(&mut self, event: &Event, known: bool, max: Option<usize>) {
        match event {
            Event::Update { old, new, .. } if known && !self.measure(max).fits(new) => {
                let told = Some(self.measure(max).shrunk(old.clone()));
                let fresh = || Withheld { told, afresh: true, reported: false };
                self.withheld.entry(event.key().clone()).or_insert_with(fresh);
            }
            Event::Delete { .. } => {
                self.withheld.remove(event.key());
            }
            Event::Add { .. } | Event::Update { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::DeleteReason;
    use crate::testing::object_with;

    const MAX: usize = 500;

    fn state(version: u32, is_large: bool) -> Arc<Object> {
        let filler = if is_large { format!(r#""x":"{}""#, "x".repeat(MAX)) } else { String::new() };
        object_with("n/a", "u", &version.to_string(), &filler)
    }

    /// What is left of events, by versions; a capital letter is a large state.
    fn left(events: &[(&str, bool)]) -> Vec<String> {
        let (view, mut withheld) = (View::of_everything(), HashMap::new());
        let mut present = state(0, false);
        let mut said = Vec::new();
        for (version, (op, is_large)) in (1..).zip(events) {
            let now = state(version, *is_large);
            let event = match *op {
                "add" => Event::Add { object: now.clone(), initial: false },
                "update" => Event::Update { old: present.clone(), new: now.clone(), resync: false },
                "resync" => Event::Update { old: present.clone(), new: present.clone(), resync: true },
                _ => Event::Delete { object: now.clone(), reason: DeleteReason::Unknown },
            };
            if *op != "resync" {
                present = now;
            }
            let measure = Measure { view: &view, max: Some(MAX) };
            said.push(match sift(&mut withheld, &event, measure) {
                Left::Event(event) => told(&event),
                Left::Again(event) => format!("again {}", told(&event)),
                Left::Nothing => "-".into(),
                Left::TooLarge(report) => if report { "reported" } else { "left out" }.into(),
            });
        }
        said
    }

    fn told(event: &Event) -> String {
        let name = if event.object().json().contains("apiVersion") { "" } else { "?" };
        let version = event.object().resource_version();
        match event {
            Event::Update { old, .. } => format!("update {}->{version}{name}", old.resource_version()),
            _ => format!("{} {version}{name}", event.op()),
        }
    }

    #[test]
    fn large_states_are_left_out_as_the_table_says() {
        let (small, large) = (false, true);
        type Case<'a> = (&'a [(&'a str, bool)], &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            (&[("add", small), ("update", small), ("delete", small)], &["add 1", "update 1->2", "delete 3"]),
            (&[("add", large), ("update", large), ("update", small)], &["reported", "left out", "add 3"]),
            (&[("add", large), ("resync", large), ("delete", small)], &["reported", "-", "-"]),
            (
                &[("add", small), ("update", large), ("update", large), ("update", small)],
                &["add 1", "reported", "left out", "update 1->4"],
            ),
            (&[("add", small), ("update", large), ("delete", large)], &["add 1", "reported", "delete 1"]),
            (
                &[("add", small), ("update", large), ("update", small), ("update", large), ("delete", small)],
                &["add 1", "reported", "update 1->3", "reported", "delete 3"],
            ),
            (&[("add", large), ("delete", small), ("add", small)], &["reported", "-", "add 3"]),
            (&[("add", small), ("delete", large)], &["add 1", "delete 2"]),
        ];
        for (events, want) in cases {
            assert_eq!(left(events), *want, "{events:?}");
        }
    }

    #[test]
    fn of_a_state_that_is_too_large_by_now_the_name_is_told() {
        let (view, mut withheld) = (View::of_everything(), HashMap::new());
        let measure = Measure { view: &view, max: Some(MAX) };
        let (old, new) = (state(1, true), state(2, false));
        let update = Event::Update { old, new, resync: false };
        let Left::Event(Event::Update { old, .. }) = sift(&mut withheld, &update, measure) else { panic!() };
        let want = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","resourceVersion":"1","uid":"u"}}"#;
        assert_eq!(old.json(), want);
    }
}
