//! One dead letter: a line of JSON. Field names are part of what users are promised.
//!
//! Made where an event is given up, read by `hark dead-letters` and for a replay. Invariants: an object is kept for a
//! delete only, as the plugin was shown it, and of a Secret nothing but its name; what is read back was checked only
//! for being a letter, so whoever shows or uses a field treats it as foreign.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hark_informer::handler::{DeleteReason, Delivery, Event, Outcome};
use hark_informer::listener::{Lost, LostEvent, Obsolete};
use hark_informer::object::{Object, ObjectError, ObjectKey};
use hark_sandbox::{ContentHash, Description};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

/// Bytes of the largest object that is kept: what etcd holds at most, and some room. Of larger ones, the name is.
const OBJECT_MAX: usize = 2 << 20;

/// The outcome of what was never handed over.
const OVERSIZED: &str = "oversized";

/// Bytes of a message that are kept.
const MESSAGE_MAX: usize = 4096;

/// The version of a plugin that gave an event up.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The file's stem.
    pub(crate) plugin: String,
    pub(crate) hash: ContentHash,
    pub(crate) generation: u64,
    pub(crate) description: Arc<Description>,
}

/// See the file's head.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Letter {
    /// Twelve hexadecimal digits.
    pub(crate) id: String,
    /// When it was given up, RFC 3339.
    pub(crate) time: String,
    pub(crate) plugin: String,
    /// Of the plugin's file, and which of its versions since the host started.
    pub(crate) plugin_sha256: String,
    pub(crate) generation: u64,
    pub(crate) subscription: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) op: Op,
    /// `namespace/name`, or `name`.
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) rv: String,
    /// Of a delete.
    pub(crate) reason: Option<Reason>,
    /// At the last state.
    pub(crate) attempts: u32,
    /// Of the last attempt; `oversized` if there was none, since the object was too large.
    pub(crate) outcome: String,
    /// Null for Secrets, which it might quote.
    pub(crate) message: Option<String>,
    /// Of a delete: the last state, as the plugin was shown it.
    pub(crate) object: Option<Box<RawValue>>,
}

/// What the plugin was not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Op {
    Add,
    Update,
    Delete,
}

/// [`DeleteReason`], by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    Deleted,
    Unknown,
    Filtered,
    NamespaceLeft,
}

impl Letter {
    /// The letter of an event that was given up.
    pub(crate) fn new(worker: &Worker, delivery: &Delivery, outcome: &Outcome) -> Self {
        Self::of(worker, delivery, outcome.as_str(), outcome.message())
    }

    /// The letter of an event that was not handed over, since its object was too large.
    pub(crate) fn oversized(worker: &Worker, delivery: &Delivery, message: &str) -> Self {
        Self::of(worker, delivery, OVERSIZED, Some(message))
    }

    fn of(worker: &Worker, delivery: &Delivery, outcome: &str, message: Option<&str>) -> Self {
        let object = delivery.event.object();
        let number = usize::try_from(delivery.subscription).unwrap_or(usize::MAX);
        let subscription = worker.description.subscriptions.get(number);
        let text = |of: fn(&hark_sandbox::Subscription) -> &String| subscription.map(of).cloned();
        let mut letter = Self {
            id: new_id(),
            time: format!("{:.3}", jiff::Timestamp::now()),
            plugin: worker.plugin.clone(),
            plugin_sha256: worker.hash.to_string(),
            generation: worker.generation,
            subscription: text(|one| &one.name).unwrap_or_default(),
            api_version: text(|one| &one.api_version).unwrap_or_default(),
            kind: text(|one| &one.kind).unwrap_or_default(),
            op: Op::of(&delivery.event),
            key: object.key().to_string(),
            uid: object.uid().to_owned(),
            rv: object.resource_version().to_owned(),
            reason: None,
            attempts: delivery.attempt,
            outcome: outcome.to_owned(),
            message: None,
            object: None,
        };
        if !letter.is_secret() {
            letter.message = message.map(|message| head(message, MESSAGE_MAX).to_owned());
        }
        if let Event::Delete { object, reason } = &delivery.event {
            letter.reason = Some((*reason).into());
            letter.object = Some(letter.kept(object));
        }
        letter
    }

    /// Whether it is about a Secret, of whose contents nothing is kept.
    ///
    /// A subscription may name the kind or the plural resource; of whatever group, a thing of that name is no
    /// letter's business.
    fn is_secret(&self) -> bool {
        ["secret", "secrets"].iter().any(|name| self.kind.eq_ignore_ascii_case(name))
    }

    /// What is kept of an object.
    fn kept(&self, object: &Object) -> Box<RawValue> {
        if !self.is_secret() && object.json().len() <= OBJECT_MAX {
            // A line is one line: outside of strings, where none may be, a line break is white space.
            let line = object.json().replace(['\n', '\r'], " ");
            if let Ok(raw) = RawValue::from_string(line) {
                return raw;
            }
        }
        self.name_only(object)
    }

    fn name_only(&self, object: &Object) -> Box<RawValue> {
        let mut metadata = json!({
            "name": object.key().name(), "uid": object.uid(), "resourceVersion": object.resource_version(),
        });
        if !object.key().namespace().is_empty() {
            metadata["namespace"] = object.key().namespace().into();
        }
        let name = json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata});
        serde_json::value::to_raw_value(&name).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// What is to be delivered again.
    ///
    /// # Errors
    /// If a delete has no object, or one that is none.
    pub(crate) fn lost(&self) -> Result<Lost, ObjectError> {
        let key = self.object_key();
        let event = match self.op {
            Op::Add => LostEvent::Add,
            Op::Update => LostEvent::Update,
            Op::Delete => {
                let json = self.object.as_ref().map_or("null", |object| object.get());
                let object = Object::restore(key.clone(), &self.uid, &self.rv, json)?;
                LostEvent::Delete { object, reason: self.reason.unwrap_or(Reason::Unknown).into() }
            }
        };
        Ok(Lost { key, uid: self.uid.clone(), event })
    }

    /// The object's key.
    pub(crate) fn object_key(&self) -> ObjectKey {
        let (namespace, name) = self.key.split_once('/').unwrap_or(("", &self.key));
        ObjectKey::new(namespace, name)
    }
}

impl Op {
    fn of(event: &Event) -> Self {
        match event {
            Event::Add { .. } => Self::Add,
            Event::Update { .. } => Self::Update,
            Event::Delete { .. } => Self::Delete,
        }
    }

    /// `add`, `update` or `delete`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl From<DeleteReason> for Reason {
    fn from(reason: DeleteReason) -> Self {
        match reason {
            DeleteReason::Deleted => Self::Deleted,
            DeleteReason::Unknown => Self::Unknown,
            DeleteReason::Filtered => Self::Filtered,
            DeleteReason::NamespaceLeft => Self::NamespaceLeft,
        }
    }
}

impl From<Reason> for DeleteReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Deleted => Self::Deleted,
            Reason::Unknown => Self::Unknown,
            Reason::Filtered => Self::Filtered,
            Reason::NamespaceLeft => Self::NamespaceLeft,
        }
    }
}

/// Why there is nothing left to tell, for people.
pub(crate) fn obsolete(why: Obsolete) -> &'static str {
    match why {
        Obsolete::Gone => "the object is gone, and its delete was an event of its own",
        Obsolete::Replaced => "another object has its name now",
        Obsolete::Back => "the object is there again",
    }
}

/// Twelve hexadecimal digits that no other letter has, but by a chance of one in many millions.
fn new_id() -> String {
    // Each state has random keys of its own.
    let random = RandomState::new().hash_one(jiff::Timestamp::now().as_nanosecond());
    format!("{:012x}", random >> 16)
}

/// The first bytes of a text, cut between characters.
fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn worker(kind: &str) -> Worker {
        let subscription = hark_sandbox::Subscription {
            name: "things".into(),
            api_version: "v1".into(),
            kind: kind.into(),
            namespaces: Vec::new(),
            namespace_selector: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            filter: Default::default(),
            indexes: Vec::new(),
            resync: None,
            extra: Vec::new(),
        };
        let description = Description { subscriptions: vec![subscription], ..Description::default() };
        let hash = ContentHash::of(b"code");
        Worker { plugin: "p".into(), hash, generation: 3, description: Arc::new(description) }
    }

    fn object(json: &str) -> Arc<Object> {
        Object::restore(ObjectKey::new("n", "a"), "u", "7", json).expect("an object")
    }

    fn letter(kind: &str, event: Event, message: &str) -> Letter {
        let delivery =
            Delivery { subscription: 0, sequence: 1, attempt: 4, arrived: SystemTime::UNIX_EPOCH, event };
        Letter::new(&worker(kind), &delivery, &Outcome::Trap(message.into()))
    }

    fn delete(json: &str) -> Event {
        Event::Delete { object: object(json), reason: DeleteReason::NamespaceLeft }
    }

    /// As it is read back.
    fn written(letter: &Letter) -> Letter {
        let line = serde_json::to_string(letter).expect("JSON");
        assert!(!line.contains('\n'), "one line: {line}");
        serde_json::from_str(&line).expect("a letter")
    }

    #[test]
    fn a_delete_comes_back_as_it_was_kept() {
        let letter = written(&letter("Pod", delete("{\n \"data\": \"a\\nb\"\r\n}"), "boom"));
        assert_eq!((letter.op, letter.reason, letter.attempts), (Op::Delete, Some(Reason::NamespaceLeft), 4));
        assert_eq!((letter.plugin.as_str(), letter.generation, letter.id.len()), ("p", 3, 12));
        assert_eq!((letter.key.as_str(), letter.message.as_deref()), ("n/a", Some("boom")));
        let Lost { key, uid, event } = letter.lost().expect("an event");
        assert_eq!((key, uid.as_str()), (ObjectKey::new("n", "a"), "u"));
        let LostEvent::Delete { object, reason } = event else { panic!("{event:?}") };
        assert_eq!(
            (object.uid(), object.resource_version(), reason),
            ("u", "7", DeleteReason::NamespaceLeft)
        );
        assert_eq!(object.json(), "{  \"data\": \"a\\nb\"  }", "line breaks between tokens are spaces");
    }

    #[test]
    fn an_add_has_no_object_and_ids_differ() {
        let add = || Event::Add { object: object("{\"data\":1}"), initial: true };
        let (one, two) = (letter("Pod", add(), "boom"), letter("Pod", add(), "boom"));
        assert!(one.object.is_none() && written(&one).object.is_none());
        assert!(matches!(one.lost().expect("an event").event, LostEvent::Add));
        assert_ne!(one.id, two.id);
    }

    #[test]
    fn of_secrets_nothing_but_the_name_is_kept_however_the_kind_is_written() {
        for kind in ["Secret", "secrets", "SECRETS"] {
            let letter = written(&letter(kind, delete("{\"data\":{\"p\":\"hunter2\"}}"), "saw hunter2"));
            assert!(!serde_json::to_string(&letter).expect("JSON").contains("hunter2"), "{letter:?}");
            let LostEvent::Delete { object, .. } = letter.lost().expect("an event").event else { panic!() };
            assert!(object.json().contains(r#""name":"a""#), "{object:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_cut() {
        let large = format!("{{\"data\":\"{}\"}}", "x".repeat(OBJECT_MAX));
        let letter = letter("Pod", delete(&large), &"é".repeat(MESSAGE_MAX));
        assert!(letter.object.expect("its name").get().len() < 200);
        assert_eq!(letter.message.expect("its beginning"), "é".repeat(MESSAGE_MAX / 2));
    }

    #[test]
    fn what_was_too_large_to_be_handed_over_has_its_word_and_no_attempt() {
        let event = Event::Add { object: object("{}"), initial: true };
        let delivery =
            Delivery { subscription: 0, sequence: 1, attempt: 0, arrived: SystemTime::UNIX_EPOCH, event };
        let letter = written(&Letter::oversized(&worker("Pod"), &delivery, "too large"));
        assert_eq!((letter.outcome.as_str(), letter.attempts), ("oversized", 0));
        assert_eq!(letter.message.as_deref(), Some("too large"));
        assert!(matches!(letter.lost().expect("an event").event, LostEvent::Add));
    }

    #[test]
    fn a_delete_without_an_object_is_an_error() {
        let mut letter = letter("Pod", delete("{}"), "");
        for object in [None, RawValue::from_string("7".into()).ok()] {
            letter.object = object;
            assert!(letter.lost().is_err());
        }
    }
}
