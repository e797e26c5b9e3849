//! Those who change objects on the server all the while, and write down what it did.
//!
//! Each has objects of its own, so that nobody comes between a question and its answer. Invariant: what is written down
//! was committed, in this order; a run whose writer was not answered is no run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::task::JoinSet;

use super::history::{Commit, History, Kind, Looks, Moment, Namespace, Place, now};

/// Objects of each writer.
const OBJECTS: usize = 9;

/// Changes of a writer before it rests.
const BURST: std::ops::Range<u32> = 1..40;

/// Between two changes of a burst, and how long it rests; in milliseconds.
const STEP: std::ops::Range<u64> = 2..25;
const REST: std::ops::Range<u64> = 50..900;

/// Of a hundred changes of objects that are there, how many delete, and how many make it again at once.
const DELETES: u32 = 12;

/// Writers that are at work.
pub struct Stream {
    writers: JoinSet<Result<()>>,
    stop: Arc<AtomicBool>,
    books: Books,
    client: Client,
}

/// The history while it is written. Cheap to clone; clones are the same books.
#[derive(Clone, Default)]
pub struct Books(Arc<Mutex<History>>);

/// One writer.
struct Writer {
    client: Client,
    books: Books,
    rng: StdRng,
    kind: Kind,
    /// What is there of its objects, with their uids.
    objects: Vec<(Place, Option<(String, Looks)>)>,
    number: u32,
}

impl Books {
    /// What is in them.
    pub fn open(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Makes the namespaces, and begins to change objects of each kind.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn start(client: Client, seed: u64) -> Result<Self> {
        let namespaces: Api<NamespaceObject> = Api::all(client.clone());
        for namespace in Namespace::ALL {
            let object = serde_json::from_value(json!({"metadata": {"name": namespace.name()}}))?;
            namespaces.create(&PostParams::default(), &object).await?;
        }
        let (books, stop) = (Books::default(), Arc::new(AtomicBool::new(false)));
        let mut writers = JoinSet::new();
        for (number, kind) in (0..).zip([Kind::ConfigMap, Kind::ConfigMap, Kind::ServiceAccount]) {
            let writer =
                Writer::new(&client, &books, seed.wrapping_mul(1000).wrapping_add(number), kind, number);
            writers.spawn(writer.run(stop.clone()));
        }
        Ok(Self { writers, stop, books, client })
    }

    /// What was written down so far.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Ends it, and makes one object more of each kind in each namespace, which every subscription in whose reach it
    /// is must be told of; gives their places.
    ///
    /// # Errors
    /// If the server refused anything.
    pub async fn stop(mut self) -> Result<Vec<Place>> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.writers.join_next().await {
            ended??;
        }
        let mut last = Vec::new();
        for kind in Kind::ALL {
            let mut writer = Writer::new(&self.client, &self.books, 0, kind, 9);
            for namespace in Namespace::ALL {
                let place = Place { kind, namespace, name: "last".into() };
                let looks = Looks { labelled: true, off: false, text: 1, more: 1 };
                writer.create(&place, looks).await?;
                last.push(place);
            }
        }
        Ok(last)
    }
}

impl Writer {
    fn new(client: &Client, books: &Books, seed: u64, kind: Kind, number: u64) -> Self {
        let place = |object: usize| Place {
            kind,
            namespace: Namespace::ALL[object % Namespace::ALL.len()],
            name: format!("object-{number}-{object}"),
        };
        Self {
            client: client.clone(),
            books: books.clone(),
            rng: StdRng::seed_from_u64(seed),
            kind,
            objects: (0..OBJECTS).map(|object| (place(object), None)).collect(),
            number: 0,
        }
    }

    async fn run(mut self, stop: Arc<AtomicBool>) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..self.rng.random_range(BURST) {
                self.change().await?;
                let step = self.rng.random_range(STEP);
                tokio::time::sleep(Duration::from_millis(step)).await;
            }
            let rest = self.rng.random_range(REST);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
        Ok(())
    }

    /// Does something to one of its objects.
    async fn change(&mut self) -> Result<()> {
        self.number += 1;
        let at = self.rng.random_range(0..self.objects.len());
        let Some((place, known)) = self.objects.get(at).cloned() else { return Ok(()) };
        let known = match known {
            None => Some(self.create_some(&place).await?),
            Some(_) if self.rng.random_range(0..100) < DELETES => {
                self.delete(&place).await?;
                None
            }
            Some(_) if self.rng.random_range(0..100) < DELETES => {
                self.delete(&place).await?;
                Some(self.create_some(&place).await?)
            }
            Some((_, looks)) => {
                let looks = self.other(looks);
                Some((self.update(&place, looks).await?, looks))
            }
        };
        if let Some((_, is)) = self.objects.get_mut(at) {
            *is = known;
        }
        Ok(())
    }

    async fn create_some(&mut self, place: &Place) -> Result<(String, Looks)> {
        let (labelled, off) = (self.rng.random_bool(0.7), self.rng.random_bool(0.2));
        let looks = Looks { labelled, off, text: self.number, more: self.number };
        Ok((self.create(place, looks).await?, looks))
    }

    /// Other looks, in one thing or two; never the same.
    fn other(&mut self, looks: Looks) -> Looks {
        match self.rng.random_range(0..10) {
            0 => Looks { labelled: !looks.labelled, ..looks },
            1 => Looks { off: !looks.off, text: self.number, ..looks },
            2..=4 => Looks { more: self.number, ..looks },
            _ => Looks { text: self.number, ..looks },
        }
    }

    fn api(&self, place: &Place) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", self.kind.name()));
        Api::namespaced_with(self.client.clone(), place.namespace.name(), &resource)
    }

    /// Gives the new object's uid.
    async fn create(&mut self, place: &Place, looks: Looks) -> Result<String> {
        let at = now();
        let made = self.api(place).create(&PostParams::default(), &self.object(place, looks)?).await;
        self.note(place, at, &made.with_context(|| format!("creating {place:?}"))?, looks)
    }

    async fn update(&mut self, place: &Place, looks: Looks) -> Result<String> {
        let (at, object) = (now(), self.object(place, looks)?);
        let made = self.api(place).replace(&place.name, &PostParams::default(), &object).await;
        self.note(place, at, &made.with_context(|| format!("updating {place:?}"))?, looks)
    }

    async fn delete(&mut self, place: &Place) -> Result<()> {
        let at = now();
        let gone = self.api(place).delete(&place.name, &DeleteParams::default()).await;
        gone.with_context(|| format!("deleting {place:?}"))?;
        let (_, known) = self.objects.iter().find(|(is, _)| is == place).context("an object of its own")?;
        let (uid, _) = known.clone().context("an object that is there")?;
        self.books.open().add(place, Commit { at, uid, state: None });
        Ok(())
    }

    fn note(&self, place: &Place, at: Moment, object: &DynamicObject, looks: Looks) -> Result<String> {
        let uid = object.metadata.uid.clone().context("a uid")?;
        let version = object.metadata.resource_version.as_deref().context("a version")?.parse()?;
        self.books.open().add(place, Commit { at, uid: uid.clone(), state: Some((version, looks)) });
        Ok(uid)
    }

    fn object(&self, place: &Place, looks: Looks) -> Result<DynamicObject> {
        let Looks { labelled, off, text, more } = looks;
        Ok(serde_json::from_value(json!({
            "apiVersion": "v1", "kind": self.kind.name(),
            "metadata": {
                "name": place.name,
                "labels": {"watch": if labelled { "yes" } else { "no" }, "phase": if off { "off" } else { "on" }},
                "annotations": {"text": text.to_string(), "more": more.to_string()},
            },
        }))?)
    }
}
