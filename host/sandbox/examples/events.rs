//! What it costs to hand an event to a plugin that does nothing with it: the host's share, and wasmtime's.
//!
//! `cargo run --release -p hark-sandbox --example events`, or with the plugin's file, which must take an add of any object.
//! Nanoseconds an event: the least and the median of many stretches.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use hark_informer::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
use hark_informer::handler::{Delivery, Event, EventHandler, Outcome};
use hark_informer::object::{Ingest, Object, ObjectKey};
use hark_sandbox::{
    Context, Engine, GuestLine, GuestLog, Limits, LoadOptions, Plugin, PluginHandler, Settings, StartReason,
    Usage,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const STRETCHES: usize = 100;
const EVENTS: u32 = 10_000;

/// A plugin whose handlers answer at once.
const GUEST: &str = r#"(module
    (memory (export "memory") 2)
    (global $heap (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
        (local $at i32)
        (local.set $at (global.get $heap))
        (global.set $heap (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
        (local.get $at))
    (func (export "hark:plugin/handler@0.1.0#describe") (result i32) unreachable)
    (func (export "hark:plugin/handler@0.1.0#on-add")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
        (global.set $heap (i32.const 65536))
        (i32.const 64))
    (func (export "hark:plugin/handler@0.1.0#on-update")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)
    (func (export "hark:plugin/handler@0.1.0#on-delete")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable))"#;

const OBJECT: &str =
    r#"{"metadata":{"namespace":"default","name":"one","uid":"u-1","resourceVersion":"7"},"data":{"a":"b"}}"#;

fn main() -> Result<(), Failure> {
    let engine = Engine::new()?;
    let content = match std::env::args().nth(1) {
        Some(file) => std::fs::read(file)?,
        None => GUEST.into(),
    };
    let plugin = engine.load(&content, LoadOptions { allow_wat: true, ..LoadOptions::default() })?;
    let mut handler = handler(plugin);
    let object = Object::parse(OBJECT, None, Ingest::default())?;
    let event = Event::Add { object, initial: false };
    let delivery = Delivery { subscription: 0, sequence: 1, attempt: 1, arrived: SystemTime::now(), event };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut nanos: Vec<u128> = Vec::with_capacity(STRETCHES);
    for _ in 0..STRETCHES {
        nanos.push(runtime.block_on(stretch(&mut handler, &delivery))?);
    }
    nanos.sort_unstable();
    println!("{} ns at least, {} ns in the middle", nanos[0], nanos[STRETCHES / 2]);
    Ok(())
}

fn handler(plugin: Plugin) -> PluginHandler {
    let context = Context {
        settings: Arc::new(Settings::default()),
        limits: Limits::default(),
        log: Arc::new(Silence),
        usage: Arc::new(Usage::default()),
        core_dumps: None,
    };
    PluginHandler::new(plugin, context, Arc::new(Nothing), None, StartReason::First)
}

/// Nanoseconds an event.
async fn stretch(handler: &mut PluginHandler, delivery: &Delivery) -> Result<u128, Failure> {
    let begun = Instant::now();
    for _ in 0..EVENTS {
        match handler.handle(delivery).await {
            Outcome::Ok => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok(begun.elapsed().as_nanos() / u128::from(EVENTS))
}

struct Silence;

impl GuestLog for Silence {
    fn line(&self, _: GuestLine<'_>) {}
}

/// The cache of a plugin without subscriptions.
struct Nothing;

impl CacheReader for Nothing {
    fn get(&self, _: u32, _: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        Err(CacheProblem::UnknownSubscription)
    }

    fn list(&self, _: u32, _: &str, _: Option<&ObjectKey>, _: usize) -> Result<CachePage, CacheProblem> {
        Err(CacheProblem::UnknownSubscription)
    }

    fn by_index(
        &self,
        _: u32,
        _: &str,
        _: &str,
        _: Option<&ObjectKey>,
        _: usize,
    ) -> Result<CachePage, CacheProblem> {
        Err(CacheProblem::UnknownSubscription)
    }

    fn index_values(&self, _: u32, _: &str, _: Option<&str>, _: usize) -> Result<ValuePage, CacheProblem> {
        Err(CacheProblem::UnknownSubscription)
    }
}
