//! One client on its own stage: what the player drives, Hark and client-go alike.
//!
//! Used by the player. Invariant: a position in the books is taken only when everything before it has been
//! told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::timeout;

use super::client_go::{ClientGo, Process};
use super::compare::{Segment, Trace};
use super::event::{Event, State, Told};
use super::hark::Hark;
use super::recorder::{Book, Recorder};
use super::script::{Absence, Ending, Script, Setup};
use super::stage::Stage;

/// The longest that anything is waited for: three steps of the longest back-off.
const LIMIT: Duration = Duration::from_secs(180);

/// The period of listeners that ask for resyncs: the shortest that client-go grants (R-RP-1).
const PERIOD: Duration = Duration::from_secs(1);

/// The listener that is there from the start.
pub(super) const FIRST: &str = "first";

/// Which client.
pub(super) enum Client {
    Hark(Hark),
    Go(ClientGo),
}

/// See the file's head.
pub(super) struct Actor {
    pub(super) stage: Stage,
    client: Client,
    recorder: Arc<Recorder>,
    positions: Vec<Position>,
}

/// How far the books were when everything was settled.
pub(super) struct Position {
    /// Events of each listener.
    told: BTreeMap<String, usize>,
    /// Lists asked for.
    lists: usize,
}

impl Position {
    /// What a listener was told since.
    fn of<'a>(&self, book: &'a Book, listener: &str) -> &'a [Event] {
        let since = self.told.get(listener).copied().unwrap_or_default();
        book.told.get(listener).map_or(&[][..], |events| &events[since..])
    }
}

impl Actor {
    /// A client on a fresh stage; Hark if no process is given. With `held`, the second resource is held back.
    pub(super) async fn start(script: &Script, process: Option<(&str, &Arc<Process>)>) -> Result<Self> {
        let Setup { selects, resyncs, lanes, held, .. } = &script.setup;
        let wider = script.setup.is_wider();
        let stage = Stage::new(&script.setup).await?;
        if held.is_some() {
            stage.hold_first_list();
        }
        let recorder = Arc::new(Recorder::default());
        let (url, resources, book) = (stage.server.url(), stage.resources, Arc::clone(&recorder));
        let first = (FIRST, resyncs.then_some(PERIOD));
        let client = match process {
            None => {
                let mut hark = Hark::start(&url, resources, *selects, wider, book).await?;
                hark.listen(first.0, first.1, (*lanes).max(1));
                Client::Hark(hark)
            }
            Some((name, process)) => {
                Client::Go(ClientGo::start(process, name, &url, resources, *selects, first, book).await?)
            }
        };
        Ok(Self { stage, client, recorder, positions: Vec::new() })
    }

    /// Whether it is client-go.
    fn name(&self) -> &'static str {
        match self.client {
            Client::Hark(_) => "Hark",
            Client::Go(_) => "client-go",
        }
    }

    async fn until(&self, what: &str, mut is_so: impl FnMut(&Book) -> bool) -> Result<()> {
        let wanted = self.recorder.until(|book| !book.errors.is_empty() || is_so(book));
        let waited = timeout(LIMIT, wanted).await;
        waited.with_context(|| format!("{} did not {what}", self.name()))?;
        let errors = self.recorder.read(|book| book.errors.clone());
        if !errors.is_empty() {
            bail!("{}: {}", self.name(), errors.join("; "));
        }
        Ok(())
    }

    /// Waits until every informer has a watch open.
    pub(super) async fn watched(&self) -> Result<()> {
        let wanted = self.stage.resources.len();
        let waited = timeout(LIMIT, self.stage.server.faults().watched(wanted)).await;
        waited.with_context(|| format!("{} did not come back to watch", self.name()))
    }

    /// Waits until these listeners were told of the markers, after a position: versions come again when a
    /// backup was restored.
    pub(super) async fn told(
        &self,
        listeners: &[String],
        markers: &[(String, String)],
        since: &Position,
    ) -> Result<()> {
        let was_told = |book: &Book, listener: &str, (key, version): &(String, String)| {
            since.of(book, listener).iter().rev().any(|event| {
                event.key == *key && event.after().is_some_and(|state| state.version == *version)
            })
        };
        self.until("tell of a marker", |book| {
            listeners.iter().all(|listener| markers.iter().all(|marker| was_told(book, listener, marker)))
        })
        .await
    }

    /// Waits until a listener knows all there is. An initial add is read from the cache when its turn comes, so
    /// what changes before may be part of it.
    pub(super) async fn knows_all(&self, listener: &str, selects: bool) -> Result<()> {
        let all = self.stage.objects(selects)?;
        let all: BTreeMap<String, State> = all.into_iter().map(|(key, held)| (key, held.state)).collect();
        self.until("tell the first listener of everything", |book| view(book, listener) == all).await
    }

    /// Waits until the marker of the first resource is in the cache; Hark's listener is not told of it while
    /// it is held back.
    pub(super) async fn cached(&self, markers: &[(String, String)]) -> Result<()> {
        let Some(marker) = markers.first() else { return Ok(()) };
        let Client::Hark(hark) = &self.client else {
            let from_the_start = Position { told: BTreeMap::new(), lists: 0 };
            return self.told(&[FIRST.to_owned()], std::slice::from_ref(marker), &from_the_start).await;
        };
        // The cache tells nobody when it changes.
        let look = async {
            while !hark.caches(&marker.0, &marker.1) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LIMIT, look).await.context("Hark did not have a marker in its cache")
    }

    /// Ends every watch, and keeps what comes then waiting.
    pub(super) async fn cut_off(&self, absence: Absence) {
        self.stage.hold();
        match absence {
            Absence::Held(ending) => self.stage.end_watches(ending),
            Absence::Refused => {
                // Nothing more is said on the connections, which end one after the other from here on.
                self.stage.end_watches(Ending::Broken);
                self.stage.server.faults().refuse_connections().await;
                self.stage.server.faults().kill_connections();
            }
        }
    }

    /// Adds a listener and waits until it has been told of what the first one knows.
    pub(super) async fn join(&mut self, listener: &str, resyncs: bool, lanes: usize) -> Result<()> {
        let resync = resyncs.then_some(PERIOD);
        match &mut self.client {
            Client::Hark(hark) => hark.listen(listener, resync, lanes),
            Client::Go(go) => go.listen(listener, resync).await?,
        }
        let known = self.recorder.read(|book| view(book, FIRST).len());
        self.until("tell a late listener of everything", |book| view(book, listener).len() >= known).await
    }

    /// Removes a listener.
    pub(super) async fn leave(&mut self, listener: &str) -> Result<()> {
        match &mut self.client {
            Client::Hark(hark) => hark.leave(listener).await,
            Client::Go(go) => {
                let wanted = self.stage.resources.len();
                go.leave(listener).await?;
                self.until("remove a listener", |book| book.left.get(listener) == Some(&wanted)).await?;
            }
        }
        Ok(())
    }

    /// Waits until these listeners have had a resync of every object that they know.
    pub(super) async fn resynced(&self, listeners: &[String]) -> Result<()> {
        let from = self.position();
        self.until("resync every object", |book| {
            listeners.iter().all(|listener| {
                let events = from.of(book, listener);
                let has = |key: &String| events.iter().any(|event| event.key == *key && event.is_unchanged());
                view(book, listener).keys().all(has)
            })
        })
        .await
    }

    /// How far the books are now.
    pub(super) fn position(&self) -> Position {
        let told = self.recorder.read(|book| {
            book.told.iter().map(|(listener, events)| (listener.clone(), events.len())).collect()
        });
        Position { told, lists: self.stage.requests().1 }
    }

    /// Everything has been told up to here.
    pub(super) fn settled(&mut self) {
        self.positions.push(self.position());
    }

    /// Whether every listener and the cache have what the server has.
    ///
    /// # Errors
    /// What is not so.
    pub(super) async fn agrees_with_server(&self, selects: bool, listeners: &[String]) -> Result<()> {
        let wanted = self.stage.objects(selects)?;
        let cached = match &self.client {
            Client::Hark(hark) => hark.cache(FIRST)?,
            Client::Go(go) => go.cache().await?,
        };
        if cached != wanted {
            bail!("{}'s cache is not what the server has:\n  {cached:?}\n  {wanted:?}", self.name());
        }
        let states: BTreeMap<String, State> =
            wanted.into_iter().map(|(key, held)| (key, held.state)).collect();
        for listener in listeners {
            let known = self.recorder.read(|book| view(book, listener));
            if known != states {
                bail!("{}'s {listener} does not know what the server has", self.name());
            }
        }
        Ok(())
    }

    /// What its listeners were told, with incarnations named.
    pub(super) fn trace(&self) -> Trace {
        let (mut segments, mut before) = (Vec::new(), Position { told: BTreeMap::new(), lists: 0 });
        for position in self.positions.iter().chain([&self.position()]) {
            let told = position.told.iter().map(|(listener, end)| {
                let begin = before.told.get(listener).copied().unwrap_or_default();
                let events = self.recorder.read(|book| book.told[listener][begin..*end].to_vec());
                (listener.clone(), events.iter().map(|event| self.named(event)).collect())
            });
            segments.push(Segment { told: told.collect(), lists: position.lists - before.lists });
            before = Position { told: position.told.clone(), lists: position.lists };
        }
        Trace { segments }
    }

    fn named(&self, event: &Event) -> Event {
        let named = |state: &State| self.stage.named(state);
        let told = match &event.told {
            Told::Add { state, initial } => Told::Add { state: named(state), initial: *initial },
            Told::Update { old, new, resync } => {
                Told::Update { old: named(old), new: named(new), resync: *resync }
            }
            Told::Delete { state, unknown } => Told::Delete { state: named(state), unknown: *unknown },
        };
        Event { key: event.key.clone(), told }
    }

    /// Ends the client and then its server.
    pub(super) async fn stop(self) -> Result<()> {
        match self.client {
            Client::Hark(hark) => hark.stop().await,
            Client::Go(go) => go.stop().await?,
        }
        // Nothing is left to be answered well.
        drop(self.stage);
        Ok(())
    }
}

/// What a listener knows by what it was told.
fn view(book: &Book, listener: &str) -> BTreeMap<String, State> {
    let mut view = BTreeMap::new();
    for event in book.told.get(listener).into_iter().flatten() {
        match event.after() {
            Some(state) => view.insert(event.key.clone(), state.clone()),
            None => view.remove(&event.key),
        };
    }
    view
}
