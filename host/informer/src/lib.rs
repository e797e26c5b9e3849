//! client-go's informer pipeline in Rust: reflector, DeltaFIFO, indexer, shared informer, listeners.
//!
//! Used by Hark's host, and by itself by any program that wants what client-go promises its handlers: every change
//! of every object, in order per object, with a cache that is at least as new as the event. It knows nothing of
//! WebAssembly. The modules in the order of an event's way:
//!
//! | module | client-go's | |
//! | --- | --- | --- |
//! | [`client`], [`frame`], [`list_watch`] | rest, ListerWatcher | requests, and objects as their bytes arrive |
//! | [`reflector`], [`backoff`], [`status`] | Reflector | list, watch, and what to do when they fail |
//! | [`delta_fifo`], [`fifo`] | DeltaFIFO, FIFO | what happened to each key, until it is processed |
//! | [`controller`] | Controller, Informer | the process loop; an informer for one handler |
//! | [`indexer`] | Indexer | the cache |
//! | [`shared_informer`] | SharedIndexInformer, sharedProcessor | one informer for many, each told of every change |
//! | [`view`], [`filter`] | FilteringResourceEventHandler | who is told of what, and shown what of it |
//! | [`listener`], [`queue`], [`handler`] | processorListener | one handler's queue, retries, replays |
//! | [`factory`] | SharedInformerFactory | puts them together |
//!
//! Where it differs from client-go, the file of the module says so, with the rule it departs from.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use hark_informer::client::{Client, ClientOptions};
//! use hark_informer::factory::Factory;
//! use hark_informer::handler::{Delivery, EventHandler, HandleFuture, Outcome};
//! use hark_informer::listener::{Listener, ListenerConfig, Subscription, on_given_up};
//! use hark_informer::object::Ingest;
//! use hark_informer::resource::Selector;
//!
//! struct Print;
//!
//! impl EventHandler for Print {
//!     fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
//!         println!("{} {}", delivery.event.op(), delivery.event.key());
//!         Box::pin(async { Outcome::Ok })
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_options(ClientOptions::default()).await?;
//! let factory = Factory::new(client, Ingest::default(), tokio::runtime::Handle::current());
//! let maps = factory.informer(&Selector::new("v1", "ConfigMap"))?;
//! let maps = Subscription::to_everything("maps", 0, maps);
//! let listener = Listener::new(ListenerConfig::default(), on_given_up(|delivery, _| {
//!     eprintln!("given up: {}", delivery.event.key());
//! }));
//! listener.run(vec![Box::new(Print)], vec![maps]).await;
//! # Ok(())
//! # }
//! ```

pub mod backoff;
pub mod cache;
pub mod client;
pub mod controller;
pub mod delta_fifo;
pub mod factory;
pub mod fifo;
pub mod filter;
pub mod frame;
pub mod handler;
pub mod indexer;
pub mod list_watch;
pub mod listener;
mod namespaces;
pub mod object;
mod processor;
pub mod queue;
pub mod reflector;
mod replay;
pub mod resource;
pub mod shared_informer;
pub mod status;
pub mod view;

#[cfg(test)]
mod testing;
