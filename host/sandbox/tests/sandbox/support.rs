//! Guests in WebAssembly text, and the host's side of a test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use hark_informer::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
use hark_informer::filter::IndexPointer;
use hark_informer::handler::{Delivery, Event, EventHandler, Outcome};
use hark_informer::object::{Ingest, Object, ObjectKey};
use hark_sandbox::{
    Context, Engine, GuestLine, GuestLog, Limits, LoadError, LoadOptions, LogLevel, LogSource, Plugin,
    PluginHandler, Settings, StartError, StartReason, Usage,
};

// === guests ===

/// Where a guest's memory has what.
const ANSWER_OK: usize = 64;
const ANSWER_RETRY: usize = 96;
const ANSWER_PERMANENT: usize = 128;
const TEXTS: usize = 256;
const DESCRIPTION: usize = 1024;

/// Ends a handler with ok, retry ("try later", 1500 ms) and permanent ("never").
pub(crate) const OK: &str = "(i32.const 64)";
pub(crate) const RETRY: &str = "(i32.const 96)";
pub(crate) const PERMANENT: &str = "(i32.const 128)";
/// Ends `describe` with the description.
pub(crate) const DESCRIBED: &str = "(i32.const 1024)";

/// A plugin in WebAssembly text: what each function does, and what else the module has.
pub(crate) struct Guest {
    pub(crate) describe: String,
    pub(crate) add: String,
    pub(crate) update: String,
    pub(crate) delete: String,
    /// Imports, which come first in a module.
    pub(crate) imports: String,
    /// Data, functions, globals.
    pub(crate) extra: String,
    /// Pages of memory.
    pub(crate) pages: usize,
    /// What `describe` hands over.
    pub(crate) description: Vec<u8>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            describe: DESCRIBED.into(),
            add: OK.into(),
            update: OK.into(),
            delete: OK.into(),
            imports: String::new(),
            extra: String::new(),
            pages: 4,
            description: describe(&[Want::pods()]),
        }
    }
}

impl Guest {
    /// A plugin whose `on-add` does this.
    pub(crate) fn adding(add: &str) -> Self {
        Self { add: add.into(), ..Self::default() }
    }

    /// The module's text.
    pub(crate) fn text(&self) -> String {
        const HANDLER: &str = "hark:plugin/handler@0.1.0";
        let target = "(param $ns i32) (param $ns_len i32) (param $name i32) (param $name_len i32) \
                      (param $uid i32) (param $uid_len i32) (param $rv i32) (param $rv_len i32)";
        let object = "(param $object i32) (param $object_len i32)";
        let Self { describe, add, update, delete, imports, extra, pages, .. } = self;
        let answers = escape(&answers());
        let description = escape(&self.description);
        format!(
            r#"(module
                {imports}
                (memory (export "memory") {pages})
                (data (i32.const {ANSWER_OK}) "{answers}")
                (data (i32.const {DESCRIPTION}) "{description}")
                (global $heap (mut i32) (i32.const 65536))
                (func $realloc (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
                    (local $at i32)
                    (local.set $at (global.get $heap))
                    (global.set $heap (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
                    (local.get $at))
                (func $forget (global.set $heap (i32.const 65536)))
                (func $describe (export "{HANDLER}#describe") (result i32) {describe})
                (func $on_add (export "{HANDLER}#on-add") (param $sub i32) {target} {object} (param $initial i32) (result i32)
                    (call $forget) {add})
                (func $on_update (export "{HANDLER}#on-update") (param $sub i32) {target} {object}
                    (param $new i32) (param $new_len i32) (param $resync i32) (result i32)
                    (call $forget) {update})
                (func $on_delete (export "{HANDLER}#on-delete") (param $sub i32) {target} {object} (param $reason i32) (result i32)
                    (call $forget) {delete})
                {extra})"#
        )
    }

    pub(crate) fn load(&self) -> Plugin {
        load(&self.text()).unwrap_or_else(|error| panic!("{error}\n{}", self.text()))
    }
}

/// The three answers at their places, and the texts that they point to.
fn answers() -> Vec<u8> {
    let mut memory = vec![0; TEXTS - ANSWER_OK];
    let mut put = |at: usize, words: &[u32]| {
        for (index, word) in words.iter().enumerate() {
            let from = at - ANSWER_OK + 4 * index;
            memory[from..from + 4].copy_from_slice(&word.to_le_bytes());
        }
    };
    put(ANSWER_RETRY, &[1, 0, 256, 9, 1500]);
    put(ANSWER_PERMANENT, &[1, 1, 272, 5]);
    memory.extend_from_slice(b"try later.......never");
    memory
}

/// A subscription in a guest's description.
#[derive(Clone, Copy)]
pub(crate) struct Want<'a> {
    pub(crate) name: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespaces: &'a [&'a str],
    pub(crate) namespace_selector: &'a str,
    /// Pointer, number of the operator, values.
    pub(crate) conditions: &'a [(&'a str, u32, &'a [&'a str])],
    pub(crate) changed: &'a [&'a str],
    pub(crate) fields: &'a [&'a str],
    /// Name and pointer.
    pub(crate) indexes: &'a [(&'a str, &'a str)],
    pub(crate) resync_seconds: u32,
}

impl Want<'_> {
    pub(crate) fn pods() -> Self {
        Self {
            name: "pods",
            api_version: "v1",
            kind: "Pod",
            namespaces: &[],
            namespace_selector: "",
            conditions: &[],
            changed: &[],
            fields: &[],
            indexes: &[],
            resync_seconds: 0,
        }
    }
}

/// A description that proposes nothing.
pub(crate) fn describe(wants: &[Want<'_>]) -> Vec<u8> {
    propose(wants, [0; 4])
}

/// The memory of `result<description, string>`, laid out by the canonical ABI for its place. The proposal is four
/// words: two options of one byte each in the first, one in the second, then the option of a whole word.
pub(crate) fn propose(wants: &[Want<'_>], proposal: [u32; 4]) -> Vec<u8> {
    let mut memory = Memory { bytes: vec![0; 52] };
    let name = memory.text("test plugin");
    let version = memory.text("1.2.3");
    let records: Vec<u32> = wants.iter().flat_map(|want| memory.subscription(want)).collect();
    let subscriptions = memory.list(&records, wants.len());
    let head = [&name[..], &version, &subscriptions, &proposal, &[0, 0]].concat();
    // The discriminant is one word, the record follows.
    for (index, word) in (1..).zip(head) {
        memory.bytes[4 * index..4 * index + 4].copy_from_slice(&word.to_le_bytes());
    }
    memory.bytes
}

struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    /// The words of one subscription, and at their places what they point to.
    fn subscription(&mut self, want: &Want<'_>) -> Vec<u32> {
        let condition = |memory: &mut Self, (pointer, operator, values): &(&str, u32, &[&str])| {
            let (pointer, values) = (memory.text(pointer), memory.texts(values));
            [&pointer[..], &[*operator], &values].concat()
        };
        let conditions: Vec<u32> = want.conditions.iter().flat_map(|one| condition(self, one)).collect();
        let indexes: Vec<_> = want.indexes.iter().flat_map(|(name, pointer)| [*name, *pointer]).collect();
        let indexes: Vec<_> = indexes.into_iter().flat_map(|text| self.text(text)).collect();
        [
            self.text(want.name),
            self.text(want.api_version),
            self.text(want.kind),
            self.texts(want.namespaces),
            self.text(want.namespace_selector),
            self.text(""),
            self.text(""),
            self.list(&conditions, want.conditions.len()),
            self.texts(want.changed),
            self.texts(want.fields),
            self.list(&indexes, want.indexes.len()),
        ]
        .into_iter()
        .flatten()
        .chain([want.resync_seconds, 0, 0])
        .collect()
    }

    fn texts(&mut self, texts: &[&str]) -> [u32; 2] {
        let words: Vec<_> = texts.iter().flat_map(|text| self.text(text)).collect();
        self.list(&words, texts.len())
    }

    fn text(&mut self, text: &str) -> [u32; 2] {
        let at = self.align();
        self.bytes.extend_from_slice(text.as_bytes());
        [at, text.len() as u32]
    }

    fn list(&mut self, words: &[u32], length: usize) -> [u32; 2] {
        let at = self.align();
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        [at, length as u32]
    }

    fn align(&mut self) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        (DESCRIPTION + self.bytes.len()) as u32
    }
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\{byte:02x}");
        text
    })
}

/// Logs the text whose pointer and length are at a place.
pub(crate) fn log_at(place: u32) -> String {
    format!("(call $log (i32.const 2) (i32.load (i32.const {place})) (i32.load (i32.const {})))", place + 4)
}

/// Traps unless the byte at a place is so.
pub(crate) fn expect(place: u32, byte: u32) -> String {
    format!("(if (i32.ne (i32.load8_u (i32.const {place})) (i32.const {byte})) (then unreachable))")
}

// === the host's side ===

pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new().expect("an engine"))
}

pub(crate) fn load(text: &str) -> Result<Plugin, LoadError> {
    engine().load(text.as_bytes(), LoadOptions { allow_wat: true, ..LoadOptions::default() })
}

/// Remembers what was said.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<Line>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: LogLevel,
    pub(crate) source: LogSource,
    pub(crate) message: String,
    pub(crate) key: Option<String>,
    pub(crate) dropped: u64,
}

impl Lines {
    pub(crate) fn all(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, which are forgotten by this.
    pub(crate) fn take(&self) -> Vec<Line> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The messages of one source.
    pub(crate) fn of(&self, source: LogSource) -> Vec<String> {
        self.all().into_iter().filter(|line| line.source == source).map(|line| line.message).collect()
    }
}

impl GuestLog for Lines {
    fn line(&self, line: GuestLine<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Line {
            level: line.level,
            source: line.source,
            message: line.message.to_owned(),
            key: line.delivery.map(|delivery| delivery.event.key().to_string()),
            dropped: line.dropped,
        });
    }
}

/// An object, and the values under which an index files it.
type Filed = (Arc<Object>, Vec<String>);

/// A cache with one subscription, whose index `x` files objects by their filler.
#[derive(Default)]
pub(crate) struct Objects(pub(crate) Vec<Arc<Object>>);

impl Objects {
    /// The values of an index, by object.
    fn filed(&self, subscription: u32, index: &str) -> Result<Vec<Filed>, CacheProblem> {
        self.get(subscription, &ObjectKey::new("", ""))?;
        if index != "x" {
            return Err(CacheProblem::UnknownIndex);
        }
        let pointer: IndexPointer = "/x".parse().expect("a pointer");
        Ok(self.0.iter().map(|object| (object.clone(), pointer.values(object))).collect())
    }
}

/// At most `limit` of what comes after a place, and where to go on.
fn cut<T, K: PartialOrd>(
    all: Vec<T>,
    key: impl Fn(&T) -> K,
    after: Option<K>,
    limit: usize,
) -> (Vec<T>, bool) {
    let mut rest: Vec<T> =
        all.into_iter().filter(|one| after.as_ref().is_none_or(|after| key(one) > *after)).collect();
    let more = rest.len() > limit;
    rest.truncate(limit);
    (rest, more)
}

fn page(all: Vec<Arc<Object>>, after: Option<&ObjectKey>, limit: usize) -> CachePage {
    let (objects, more) = cut(all, |object| object.key().clone(), after.cloned(), limit);
    let next = objects.last().filter(|_| more).map(|object| object.key().clone());
    CachePage { objects, next }
}

impl CacheReader for Objects {
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        match subscription {
            0 => Ok(self.0.iter().find(|object| object.key() == key).cloned()),
            1 => Err(CacheProblem::NotSynced),
            _ => Err(CacheProblem::UnknownSubscription),
        }
    }

    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        self.get(subscription, &ObjectKey::new("", ""))?;
        let wanted = |object: &&Arc<Object>| namespace.is_empty() || object.key().namespace() == namespace;
        Ok(page(self.0.iter().filter(wanted).cloned().collect(), after, limit))
    }

    fn by_index(
        &self,
        subscription: u32,
        index: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        let filed = self.filed(subscription, index)?.into_iter();
        let wanted = filed.filter(|(_, values)| values.iter().any(|one| one == value));
        Ok(page(wanted.map(|(object, _)| object).collect(), after, limit))
    }

    fn index_values(
        &self,
        subscription: u32,
        index: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ValuePage, CacheProblem> {
        let filed = self.filed(subscription, index)?.into_iter();
        let all: BTreeSet<String> = filed.flat_map(|(_, values)| values).collect();
        let (values, more) = cut(all.into_iter().collect(), String::clone, after.map(str::to_owned), limit);
        let next = values.last().filter(|_| more).cloned();
        Ok(ValuePage { values, next })
    }
}

/// A plugin at work.
pub(crate) struct Host {
    pub(crate) handler: PluginHandler,
    pub(crate) lines: Arc<Lines>,
    pub(crate) usage: Arc<Usage>,
}

impl Host {
    pub(crate) fn new(plugin: Plugin) -> Self {
        Self::with(plugin, Limits::default(), Objects::default())
    }

    pub(crate) fn with(plugin: Plugin, limits: Limits, objects: impl CacheReader + 'static) -> Self {
        let (context, lines) = context(limits);
        let usage = Arc::clone(&context.usage);
        Self {
            handler: PluginHandler::new(plugin, context, Arc::new(objects), None, StartReason::First),
            lines,
            usage,
        }
    }

    /// A version of a plugin with `lifecycle`, started ahead for this reason.
    pub(crate) async fn started(
        plugin: Plugin,
        limits: Limits,
        reason: StartReason,
    ) -> Result<Self, StartError> {
        let (context, lines) = context(limits);
        let usage = Arc::clone(&context.usage);
        let started = plugin.start(&context, reason).await?;
        let cache = Arc::new(Objects::default());
        Ok(Self { handler: PluginHandler::new(plugin, context, cache, Some(started), reason), lines, usage })
    }

    /// What the guest has said since it was asked last, and what the host said of it.
    pub(crate) fn said(&self) -> (Vec<String>, Vec<String>) {
        let lines = self.lines.take().into_iter();
        let (host, guest): (Vec<_>, Vec<_>) = lines.partition(|line| line.source == LogSource::Host);
        (
            guest.into_iter().map(|line| line.message).collect(),
            host.into_iter().map(|line| line.message).collect(),
        )
    }

    pub(crate) async fn handle(&mut self, event: Event) -> Outcome {
        let delivery = delivery(event);
        self.handler.handle(&delivery).await
    }

    pub(crate) async fn add(&mut self) -> Outcome {
        self.handle(add("a")).await
    }

    /// The next event after a fault finds an instance that works, and whose memory is fresh.
    pub(crate) async fn recovers(&mut self) {
        assert_eq!(self.handle(delete("a")).await, Outcome::Ok);
        assert_eq!(self.lines.of(LogSource::Host), [""; 0], "the outcome says it all");
    }
}

pub(crate) fn context(limits: Limits) -> (Context, Arc<Lines>) {
    let lines = Arc::new(Lines::default());
    let table = serde_json::json!({"channel": "#ops", "n": 3});
    let settings = table.as_object().cloned().map(Settings::new).unwrap_or_default();
    let (settings, usage) = (Arc::new(settings), Arc::default());
    (Context { settings, limits, log: lines.clone(), usage, core_dumps: None }, lines)
}

pub(crate) fn short() -> Limits {
    Limits { deadline: Some(Duration::from_millis(50)), ..Limits::default() }
}

pub(crate) fn object(namespace: &str, name: &str, filler: usize) -> Arc<Object> {
    let filler = "x".repeat(filler);
    let text = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"u-{name}","resourceVersion":"7"}},"x":"{filler}"}}"#
    );
    Object::parse(&text, None, Ingest::default()).expect("an object")
}

pub(crate) fn add(name: &str) -> Event {
    Event::Add { object: object("n", name, 0), initial: true }
}

pub(crate) fn delete(name: &str) -> Event {
    Event::Delete { object: object("n", name, 0), reason: hark_informer::handler::DeleteReason::Unknown }
}

pub(crate) fn delivery(event: Event) -> Delivery {
    Delivery {
        subscription: 0,
        sequence: 41,
        attempt: 2,
        arrived: UNIX_EPOCH + Duration::from_millis(12_345),
        event,
    }
}
