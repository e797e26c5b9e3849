//! What a reflector needs of the store that it fills.
//!
//! Implemented by [`DeltaFifo`]; tests implement it with a recorder. Invariant: one reflector writes a store,
//! and nobody else does.

use std::future::Future;
use std::sync::Arc;

use crate::delta_fifo::DeltaFifo;
use crate::object::Object;

/// Where a reflector puts what it hears (client-go's `ReflectorStore`).
pub trait ReflectorStore: Send + Sync {
    /// The watch reported an object as added. Waits while the store is full.
    fn add(&self, object: Arc<Object>) -> impl Future<Output = ()> + Send;
    /// The watch reported an object as modified. Waits while the store is full.
    fn update(&self, object: Arc<Object>) -> impl Future<Output = ()> + Send;
    /// The watch reported an object as deleted. Waits while the store is full.
    fn delete(&self, object: Arc<Object>) -> impl Future<Output = ()> + Send;
    /// A list: from now on there is this, and nothing else.
    fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str);
    /// Nothing happened up to this version.
    fn bookmark(&self, resource_version: &str);
}

impl ReflectorStore for DeltaFifo {
    async fn add(&self, object: Arc<Object>) {
        Self::add(self, object).await;
    }

    async fn update(&self, object: Arc<Object>) {
        Self::update(self, object).await;
    }

    async fn delete(&self, object: Arc<Object>) {
        Self::delete(self, object).await;
    }

    fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        Self::replace(self, objects, resource_version);
    }

    fn bookmark(&self, resource_version: &str) {
        Self::bookmark(self, resource_version);
    }
}
