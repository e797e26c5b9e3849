//! A host for plugin authors' unit tests: handlers are called natively, by plain `cargo test`, with JSON
//! values. Not there inside Wasm. Invariant: what a handler sees here it would see in the real host too (the
//! cache is updated before the event; targets are read from the objects; sequence numbers rise).
//!
//! ```
//! use hark_guest::testing::Host;
//! use hark_guest::{Added, Described, Failure, Outcome, Plugin, Subscription, log};
//! use serde_json::json;
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     fn describe() -> Described {
//!         Ok(hark_guest::description!().watch(Subscription::new("pods", "v1", "Pod")))
//!     }
//!     fn start() -> Result<Self, Failure> {
//!         Ok(Self)
//!     }
//!     fn on_add(&mut self, event: Added) -> Outcome {
//!         log::info!("hello {}", event.target());
//!         Ok(())
//!     }
//! }
//!
//! let mut host = Host::<Greeter>::new();
//! host.add(0, &json!({"metadata": {"namespace": "default", "name": "web"}})).unwrap();
//! assert_eq!(host.take_lines(), ["hello default/web"]);
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::log::Level;
use crate::{Added, DeleteReason, Deleted, Description, Outcome, Plugin, Target, Updated};

/// A plugin `P` in a host of its own.
///
/// Every event answers what the handler answered. Nothing is delivered again by itself: call the same event
/// again after [`set_attempt`](Host::set_attempt) to see a retry.
#[derive(Debug)]
pub struct Host<P> {
    state: State,
    plugin: Option<P>,
}

/// One line that the plugin wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub level: Level,
    /// Its text.
    pub message: String,
}

/// What the imports read and write while a handler runs.
#[derive(Debug, Default)]
struct State {
    settings: serde_json::Map<String, Value>,
    lines: Vec<Line>,
    /// JSON texts by subscription, namespace and name.
    cache: BTreeMap<(u32, String, String), String>,
    not_synced: HashSet<u32>,
    sequence: u64,
    attempt: u32,
}

thread_local! {
    /// The state of the host whose plugin is running on this thread.
    static CURRENT: RefCell<State> = RefCell::default();
}

impl<P: Plugin> Host<P> {
    /// A host in which nothing is set.
    #[expect(clippy::new_without_default, reason = "a host is made on purpose")]
    pub fn new() -> Self {
        Self::with_settings(serde_json::json!({}))
    }

    /// A host with this table of settings.
    ///
    /// # Panics
    /// If `settings` is not a JSON object.
    pub fn with_settings(settings: Value) -> Self {
        let Value::Object(settings) = settings else { panic!("settings are a table, not `{settings}`") };
        Self { state: State { settings, attempt: 1, ..State::default() }, plugin: None }
    }

    /// What the plugin says of itself, checked as the real host checks it.
    pub fn describe(&mut self) -> Result<Description, String> {
        let description = self.inside(|_| P::describe().map_err(|error| error.to_string()))?;
        check(&description)?;
        Ok(description)
    }

    /// An object was created.
    pub fn add(&mut self, subscription: u32, object: &Value) -> Outcome {
        self.added(subscription, object, false)
    }

    /// An object existed when the subscription began.
    pub fn add_initial(&mut self, subscription: u32, object: &Value) -> Outcome {
        self.added(subscription, object, true)
    }

    /// An object changed.
    pub fn update(&mut self, subscription: u32, old: &Value, new: &Value) -> Outcome {
        self.updated(subscription, old, new, false)
    }

    /// Nothing changed, and the resync period is over.
    pub fn resync(&mut self, subscription: u32, object: &Value) -> Outcome {
        self.updated(subscription, object, object, true)
    }

    /// An object is gone.
    pub fn delete(&mut self, subscription: u32, object: &Value, reason: DeleteReason) -> Outcome {
        let target = target(object);
        self.state.cache.remove(&(subscription, target.namespace.clone(), target.name.clone()));
        let event = Deleted { subscription, target, object: object.to_string(), reason };
        self.deliver(|plugin| plugin.on_delete(event))
    }

    /// Puts an object into the cache without an event, as if it had been handled earlier.
    pub fn cache(&mut self, subscription: u32, object: &Value) {
        let Target { namespace, name, .. } = target(object);
        self.state.cache.insert((subscription, namespace, name), object.to_string());
    }

    /// Lets the cache answer that this subscription's first list is not there yet.
    pub fn set_not_synced(&mut self, subscription: u32) {
        self.state.not_synced.insert(subscription);
    }

    /// What [`delivery::attempt`](crate::delivery::attempt) answers for the events that follow.
    pub fn set_attempt(&mut self, attempt: u32) {
        self.state.attempt = attempt;
    }

    /// Drops the plugin's value, as the host does after a trap: the next event starts a fresh one.
    pub fn restart(&mut self) {
        self.plugin = None;
    }

    /// The lines written so far, which are forgotten by this.
    pub fn take_log(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.state.lines)
    }

    /// The same, without their levels.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.take_log().into_iter().map(|line| line.message).collect()
    }

    /// The plugin's value, if an event has made it.
    pub fn plugin(&self) -> Option<&P> {
        self.plugin.as_ref()
    }

    fn added(&mut self, subscription: u32, object: &Value, initial: bool) -> Outcome {
        self.cache(subscription, object);
        let event = Added { subscription, target: target(object), object: object.to_string(), initial };
        self.deliver(|plugin| plugin.on_add(event))
    }

    fn updated(&mut self, subscription: u32, old: &Value, new: &Value, resync: bool) -> Outcome {
        self.cache(subscription, new);
        let event = Updated {
            subscription,
            target: target(new),
            old_object: old.to_string(),
            object: new.to_string(),
            resync,
        };
        self.deliver(|plugin| plugin.on_update(event))
    }

    fn deliver(&mut self, handle: impl FnOnce(&mut P) -> Outcome) -> Outcome {
        self.state.sequence += 1;
        self.inside(|plugin| match plugin {
            Some(plugin) => handle(plugin),
            empty => handle(empty.insert(P::start()?)),
        })
    }

    /// Runs plugin code with this host's state behind the imports.
    fn inside<R>(&mut self, run: impl FnOnce(&mut Option<P>) -> R) -> R {
        CURRENT.set(std::mem::take(&mut self.state));
        let result = run(&mut self.plugin);
        self.state = CURRENT.take();
        result
    }
}

/// What an object says about itself; what is absent is empty.
fn target(object: &Value) -> Target {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    Target {
        namespace: field("namespace"),
        name: field("name"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
    }
}

/// The rules of the contract's `description` that can be checked without a cluster.
fn check(description: &Description) -> Result<(), String> {
    let subscriptions = description.subscriptions();
    if subscriptions.is_empty() || subscriptions.len() > 64 {
        return Err(format!("{} subscriptions, where 1 to 64 are allowed", subscriptions.len()));
    }
    let mut names = HashSet::new();
    for subscription in subscriptions {
        let name = subscription.name();
        if name.is_empty() || subscription.api_version.is_empty() || subscription.kind.is_empty() {
            return Err(format!("subscription `{name}` lacks its name, api-version or kind"));
        }
        if !names.insert(name) {
            return Err(format!("two subscriptions are named `{name}`"));
        }
    }
    Ok(())
}

/// The fake host's half of [`host`](crate::host).
pub(crate) mod imports {
    use super::{CURRENT, Level, Line, Value};
    use crate::cache::Error;

    pub(crate) fn log(level: Level, line: &str) {
        let line = Line { level, message: line.to_owned() };
        CURRENT.with_borrow_mut(|state| state.lines.push(line));
    }

    pub(crate) fn setting(key: &str) -> Option<String> {
        CURRENT.with_borrow(|state| {
            state.settings.get(key).map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        })
    }

    pub(crate) fn settings() -> String {
        CURRENT.with_borrow(|state| Value::Object(state.settings.clone()).to_string())
    }

    pub(crate) fn sequence() -> u64 {
        CURRENT.with_borrow(|state| state.sequence)
    }

    pub(crate) fn attempt() -> u32 {
        CURRENT.with_borrow(|state| state.attempt)
    }

    pub(crate) fn arrived_ms() -> u64 {
        0
    }

    pub(crate) fn cache_get(subscription: u32, namespace: &str, name: &str) -> Result<Option<String>, Error> {
        CURRENT.with_borrow(|state| {
            if state.not_synced.contains(&subscription) {
                return Err(Error::NotSynced);
            }
            Ok(state.cache.get(&(subscription, namespace.to_owned(), name.to_owned())).cloned())
        })
    }

    pub(crate) fn cache_page(
        subscription: u32,
        namespace: &str,
        after: &str,
        limit: u32,
    ) -> Result<(Vec<String>, String), Error> {
        CURRENT.with_borrow(|state| {
            if state.not_synced.contains(&subscription) {
                return Err(Error::NotSynced);
            }
            let wanted = |(number, space, _): &&(u32, String, String)| {
                *number == subscription && (namespace.is_empty() || space == namespace)
            };
            let skip: usize = after.parse().unwrap_or(0);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let keys: Vec<_> = state.cache.keys().filter(wanted).skip(skip).collect();
            let next = if keys.len() > limit { (skip + limit).to_string() } else { String::new() };
            Ok((keys.iter().take(limit).map(|key| state.cache[*key].clone()).collect(), next))
        })
    }
}
