//! Changes objects on the API server, one after the other, and remembers what the server has.
//!
//! Mostly updates; of a hundred changes, two delete an object or make it again. Invariant: the same seed makes the
//! same changes; the view is what a list would show.

use anyhow::{Context, Result};
use hark_apiserver::Handle;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::ledger::{State, View};

/// Of a hundred changes of objects that are there, how many delete.
const DELETES: u32 = 1;

/// See the file's head.
pub struct Writer {
    rng: StdRng,
    objects: usize,
    view: View,
    /// Changes made.
    pub written: u64,
    /// The version of the last change.
    pub newest: u64,
}

impl Writer {
    /// Changes up to so many objects.
    pub fn new(objects: usize, seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            objects: objects.max(1),
            view: View::new(),
            written: 0,
            newest: 0,
        }
    }

    /// Makes one change.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn change(&mut self, server: &Handle) -> Result<()> {
        let name = format!("map-{}", self.rng.random_range(0..self.objects));
        let key = format!("default/{name}");
        let document = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"number": self.written.to_string(), "text": "a few words, so that there is something to copy"},
        });
        if !self.view.contains_key(&key) {
            self.view.insert(key, state(&server.create(document)?)?);
        } else if self.rng.random_range(0..100) < DELETES {
            server.delete(&document)?;
            self.view.remove(&key);
        } else {
            self.view.insert(key, state(&server.update(document)?)?);
        }
        self.written += 1;
        self.newest = server.revision();
        Ok(())
    }

    /// What the server has.
    pub fn view(&self) -> &View {
        &self.view
    }
}

fn state(document: &Value) -> Result<State> {
    let text =
        |name: &str| document["metadata"][name].as_str().with_context(|| format!("no {name}: {document}"));
    Ok(State { uid: text("uid")?.to_owned(), rv: text("resourceVersion")?.parse()? })
}
