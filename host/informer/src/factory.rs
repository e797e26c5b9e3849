//! Hands out shared informers: one for each selector, however many ask.
//!
//! Used by the host when a plugin's subscriptions are known. Invariant: informers are counted by their users;
//! the factory itself keeps none alive, so an informer stops when its last user leaves.

mod subscribe;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::Handle;

use crate::client::Client;
use crate::list_watch::ListWatch;
use crate::object::Ingest;
use crate::resource::Selector;
use crate::shared_informer::SharedInformer;

pub use self::subscribe::SubscriptionSpec;

/// See the file's head.
pub struct Factory {
    client: Client,
    ingest: Ingest,
    runtime: Handle,
    informers: Mutex<HashMap<Selector, Weak<SharedInformer>>>,
}

impl Factory {
    /// A factory whose informers speak through `client` and run on `runtime`.
    pub fn new(client: Client, ingest: Ingest, runtime: Handle) -> Self {
        Self { client, ingest, runtime, informers: Mutex::default() }
    }

    /// The informer for `selector`, started if nobody uses it yet.
    pub fn informer(&self, selector: &Selector) -> Arc<SharedInformer> {
        let mut informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(informer) = informers.get(selector).and_then(Weak::upgrade) {
            return informer;
        }
        let source = ListWatch::new(self.client.clone(), selector.clone(), self.ingest);
        let informer = Arc::new(SharedInformer::start(selector.clone(), Arc::new(source), &self.runtime));
        informers.retain(|_, informer| informer.strong_count() > 0);
        informers.insert(selector.clone(), Arc::downgrade(&informer));
        informer
    }

    /// The informers in use at present, in the order of their selectors.
    pub fn informers(&self) -> Vec<Arc<SharedInformer>> {
        let informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running: Vec<_> = informers.values().filter_map(Weak::upgrade).collect();
        running.sort_by(|a, b| a.selector().cmp(b.selector()));
        running
    }
}
