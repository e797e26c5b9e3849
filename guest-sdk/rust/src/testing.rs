//! A host for plugin authors' unit tests: handlers are called natively, by plain `cargo test`, with JSON
//! values. Not there inside Wasm. Invariant: what a handler sees here it would see in the real host too (the
//! cache is updated before the event; targets are read from the objects; sequence numbers rise).
//!
//! As in the real host, the description decides what reaches the plugin: an object that does not satisfy the
//! subscription's conditions is not there for it, an update that changes nothing of `changed` is none, and
//! handlers are handed the `fields` named. Not evaluated here, so that every object counts as selected:
//! namespaces, and namespace, label and field selectors. Nor are the real host's limits (time, memory, text),
//! merging, retries, and what the description proposes; several instances are several `Host`s. A plugin that keeps its
//! memory over a reload is tested in [`Host::stateful`].
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

mod checks;
mod filter;
pub(crate) mod imports;
mod pointer;
mod reload;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use self::filter::Filter;
use crate::log::Level;
use crate::{
    Added, DeleteReason, Deleted, Description, Failure, Outcome, Plugin, StartReason, Target, Updated,
};

/// A plugin `P` in a host of its own.
///
/// Every event answers what the handler answered, and ok if the description keeps it from the plugin. Nothing is
/// delivered again by itself: call the same event again after [`set_attempt`](Host::set_attempt) to see a retry.
///
/// # Panics
/// All functions that take an object, if the plugin's description is one that the real host would refuse.
#[derive(Debug)]
pub struct Host<P> {
    state: State,
    plugin: Option<P>,
    /// Makes the value of a plugin that keeps its memory, ahead of an event; none: the event makes it.
    begin: Option<fn(StartReason) -> Result<P, Failure>>,
    /// Why it is made then.
    reason: StartReason,
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
    /// What the description says, by subscription; none before the plugin was asked.
    filters: Option<Vec<Filter>>,
    /// Objects by subscription, namespace and name.
    cache: BTreeMap<(u32, String, String), Value>,
    not_synced: HashSet<u32>,
    sequence: u64,
    attempt: u32,
    /// What runs is no handler: there is no delivery.
    aside: bool,
    /// The plugin's cache is not filled yet, whatever is in it.
    cold: bool,
}

impl State {
    fn filter(&self, subscription: u32) -> Option<&Filter> {
        self.filters.as_ref()?.get(usize::try_from(subscription).ok()?)
    }
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
        let state = State { settings, attempt: 1, ..State::default() };
        Self { state, plugin: None, begin: None, reason: StartReason::First }
    }

    /// What the plugin says of itself, checked as the real host checks it.
    pub fn describe(&mut self) -> Result<Description, String> {
        let description = self.inside(|_| P::describe().map_err(|error| error.to_string()))?;
        checks::check(&description)?;
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

    /// An object changed. If only one of the two states satisfies the subscription's conditions, this is an add
    /// or a delete.
    pub fn update(&mut self, subscription: u32, old: &Value, new: &Value) -> Outcome {
        self.learn();
        match (self.accepts(subscription, old), self.accepts(subscription, new)) {
            (false, _) => self.added(subscription, new, false),
            (true, false) => self.deleted(subscription, old, DeleteReason::Filtered),
            (true, true) => self.updated(subscription, old, new, false),
        }
    }

    /// Nothing changed, and the resync period is over.
    pub fn resync(&mut self, subscription: u32, object: &Value) -> Outcome {
        self.learn();
        if !self.accepts(subscription, object) {
            return Ok(());
        }
        self.updated(subscription, object, object, true)
    }

    /// An object is gone.
    pub fn delete(&mut self, subscription: u32, object: &Value, reason: DeleteReason) -> Outcome {
        self.learn();
        if !self.accepts(subscription, object) {
            return Ok(());
        }
        self.deleted(subscription, object, reason)
    }

    /// Puts an object into the cache without an event, as if it had been handled earlier. One that does not
    /// satisfy the subscription's conditions is not put there.
    pub fn cache(&mut self, subscription: u32, object: &Value) {
        self.learn();
        if self.accepts(subscription, object) {
            self.state.cache.insert(key(subscription, object), object.clone());
        }
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
        self.reason = StartReason::Restart;
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

    /// Asks the plugin once what it wants. One that refuses to say gets every object whole, until its `start`
    /// has refused as well.
    fn learn(&mut self) {
        if self.state.filters.is_some() {
            return;
        }
        let lines = self.state.lines.len();
        let described = self.inside(|_| P::describe());
        // What it said meanwhile it did not say about an event.
        self.state.lines.truncate(lines);
        let Ok(description) = described else { return };
        let filters = checks::check(&description)
            .and_then(|()| description.subscriptions().iter().map(Filter::of).collect::<Result<_, _>>());
        match filters {
            Ok(filters) => self.state.filters = Some(filters),
            Err(problem) => panic!("a host would refuse the plugin's description: {problem}"),
        }
    }

    /// Whether an object is a subscription's, as far as conditions say.
    fn accepts(&self, subscription: u32, object: &Value) -> bool {
        self.state.filter(subscription).is_none_or(|filter| filter.accepts(object))
    }

    /// What is handed over of an object.
    fn text(&self, subscription: u32, object: &Value) -> String {
        self.state.filter(subscription).map_or_else(|| object.to_string(), |filter| filter.text(object))
    }

    fn added(&mut self, subscription: u32, object: &Value, initial: bool) -> Outcome {
        self.cache(subscription, object);
        if !self.accepts(subscription, object) {
            return Ok(());
        }
        let object_text = self.text(subscription, object);
        let event = Added { subscription, target: target(object), object: object_text, initial };
        self.deliver(|plugin| plugin.on_add(event))
    }

    fn updated(&mut self, subscription: u32, old: &Value, new: &Value, resync: bool) -> Outcome {
        self.cache(subscription, new);
        let filter = self.state.filter(subscription);
        if !resync && filter.is_some_and(|filter| !filter.is_change(old, new)) {
            return Ok(());
        }
        let event = Updated {
            subscription,
            target: target(new),
            old_object: self.text(subscription, old),
            object: self.text(subscription, new),
            resync,
        };
        self.deliver(|plugin| plugin.on_update(event))
    }

    fn deleted(&mut self, subscription: u32, object: &Value, reason: DeleteReason) -> Outcome {
        self.state.cache.remove(&key(subscription, object));
        let object_text = self.text(subscription, object);
        let event = Deleted { subscription, target: target(object), object: object_text, reason };
        self.deliver(|plugin| plugin.on_delete(event))
    }

    fn deliver(&mut self, handle: impl FnOnce(&mut P) -> Outcome) -> Outcome {
        self.state.sequence += 1;
        if let (None, Some(begin)) = (&self.plugin, self.begin) {
            let reason = self.reason;
            let plugin = self.aside(reason == StartReason::Restart, |_| begin(reason))?;
            self.plugin = Some(plugin);
        }
        self.inside(|plugin| match plugin {
            Some(plugin) => handle(plugin),
            empty => handle(empty.insert(P::start()?)),
        })
    }

    /// Runs plugin code that is no handler.
    fn aside<R>(&mut self, sees_cache: bool, run: impl FnOnce(&mut Option<P>) -> R) -> R {
        self.state.aside = true;
        self.state.cold = !sees_cache;
        let result = self.inside(run);
        self.state.aside = false;
        self.state.cold = false;
        result
    }

    /// Runs plugin code with this host's state behind the imports.
    fn inside<R>(&mut self, run: impl FnOnce(&mut Option<P>) -> R) -> R {
        CURRENT.set(std::mem::take(&mut self.state));
        let result = run(&mut self.plugin);
        self.state = CURRENT.take();
        result
    }
}

fn key(subscription: u32, object: &Value) -> (u32, String, String) {
    let Target { namespace, name, .. } = target(object);
    (subscription, namespace, name)
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
