//! An in-memory Kubernetes API server, for `hark dev` and for tests.
//!
//! It speaks the wire protocol of a kube-apiserver closely enough for kubectl and for informers: discovery,
//! lists with consistent pages, watches with bookmarks and streaming lists, server-side printing, all kinds of
//! patch, optimistic concurrency, namespaces that take their contents with them, and custom resources. It has no
//! controllers, no scheduler, no authentication and no persistence; and it fails on demand, see [`Faults`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = hark_apiserver::Server::start(hark_apiserver::Config::default()).await?;
//! server.write_kubeconfig("kubeconfig".as_ref())?;
//! server.create(serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"k": "v"},
//! }))?;
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Where to start reading: `server.rs` accepts, `service.rs` answers reads, `changes.rs` answers writes,
//! `store.rs` holds everything, `watch.rs` tells of it.

mod accept;
mod body;
mod changes;
mod columns;
mod crd;
mod defaults;
mod delete;
mod direct;
mod discovery;
mod events;
mod faults;
mod fields;
mod history;
mod jsonpath;
mod kubeconfig;
mod list;
mod lists;
mod managed;
mod namespaces;
mod object;
mod openapi;
mod options;
mod patch;
mod path;
mod protobuf;
mod refusals;
mod registry;
mod resources;
mod reviews;
mod scale;
mod schema;
mod selectors;
mod server;
mod service;
mod status;
mod store;
mod strategic;
mod table;
mod validate;
mod version;
mod watch;
mod write;

pub use faults::{Failure, Faults, LastWords, RequestInfo};
pub use refusals::Refusals;
pub use server::{Config, Handle, Server, StartError};
pub use status::{ApiError, Cause, GroupResource, Status};
