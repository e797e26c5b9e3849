//! The model test: random scripts must leave every handler with the server's view.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::lives::{Asked, From, Life, Lives, Temper, from, temper};
use super::*;
use crate::handler::{AsideFuture, Legacy, Stop};
use crate::testing::object_with;

/// Bytes that handlers are handed at most, where there is a limit.
const MAX: usize = 500;

/// What a random script does next.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    /// The same, with more than [`MAX`] bytes.
    PutLarge(usize),
    Remove(usize),
    /// A deletion and a re-creation of which only the outcome is seen.
    Recreate(usize),
    /// A deletion that only a relist notices.
    Lose(usize),
    Sync,
    /// Another generation of handlers, so many, which may be waited for, and on trial.
    Swap {
        on_swap: OnSwap,
        lanes: usize,
        from: From,
        temper: Temper,
        wait: bool,
        trial: Option<NonZeroU32>,
    },
    /// After a trial that failed.
    GoOn,
    /// From now on every event breaks its handler, or no longer so.
    Break(bool),
    /// Lets the handler work for a while.
    Run(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0..6_usize;
    prop_oneof![
        8 => key.clone().prop_map(Act::Put),
        4 => key.clone().prop_map(Act::PutLarge),
        4 => key.clone().prop_map(Act::Remove),
        2 => key.clone().prop_map(Act::Recreate),
        2 => key.prop_map(Act::Lose),
        1 => Just(Act::Sync),
        2 => swap(),
        1 => Just(Act::GoOn),
        2 => any::<bool>().prop_map(Act::Break),
        6 => (0..1500_u64).prop_map(Act::Run),
    ]
}

fn swap() -> impl Strategy<Value = Act> {
    let on_swap = prop_oneof![Just(OnSwap::Replay), Just(OnSwap::Continue)];
    let trial = (0..4_u32).prop_map(NonZeroU32::new);
    let parts = (on_swap, 1..4_usize, from(), temper(), proptest::bool::weighted(0.7), trial);
    parts.prop_map(|(on_swap, lanes, from, temper, wait, trial)| Act::Swap {
        on_swap,
        lanes,
        from,
        temper,
        wait,
        trial,
    })
}

/// The server's side of a script: object key to uid and version.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, (u32, u32)>,
    large: BTreeSet<String>,
    clock: u32,
}

impl Server {
    fn act(&mut self, informer: &SharedInformer, act: &Act) {
        self.clock += 1;
        let now = self.clock;
        let name = |key: &usize| format!("n/{key}");
        let state =
            |key: &str, (uid, version): (u32, u32)| object(key, &uid.to_string(), &version.to_string());
        match act {
            Act::Put(key) => {
                let key = name(key);
                let next = self.objects.get(&key).map_or((now, now), |(uid, _)| (*uid, now));
                self.large.remove(&key);
                process(informer, DeltaKind::Updated, &state(&key, next), false);
                self.objects.insert(key, next);
            }
            Act::PutLarge(key) => {
                let key = name(key);
                let next = self.objects.get(&key).map_or((now, now), |(uid, _)| (*uid, now));
                let filler = format!(r#""x":"{}""#, "x".repeat(MAX));
                let large = object_with(&key, &next.0.to_string(), &now.to_string(), &filler);
                process(informer, DeltaKind::Updated, &large, false);
                self.large.insert(key.clone());
                self.objects.insert(key, next);
            }
            Act::Recreate(key) => {
                let key = name(key);
                self.large.remove(&key);
                process(informer, DeltaKind::Replaced, &state(&key, (now, now)), false);
                self.objects.insert(key, (now, now));
            }
            Act::Remove(key) | Act::Lose(key) => {
                let key = name(key);
                self.large.remove(&key);
                if let Some((uid, version)) = self.objects.remove(&key) {
                    let lost = matches!(act, Act::Lose(_));
                    let last = if lost { version } else { now };
                    process(informer, DeltaKind::Deleted, &state(&key, (uid, last)), lost);
                }
            }
            Act::Sync | Act::GoOn | Act::Swap { .. } | Act::Break(_) | Act::Run(_) => {}
        }
    }
}

/// Fails now and then, in every way but for good, and while `broken` says so always, so that quarantines come.
fn moody(seed: u32, broken: Arc<StdMutex<bool>>) -> Script {
    let mut state = seed;
    Box::new(move |_| {
        if *broken.lock().expect("broken") {
            return Outcome::Trap("broken".into());
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match state >> 28 {
            0..=2 => retry(),
            3 => Outcome::Trap("mood".into()),
            _ => Outcome::Ok,
        }
    })
}

/// Restarts of handlers are told apart below this; swaps above.
const RESTARTS: u32 = 100_000;

/// Checks one key's events against what may be told of one object: no state twice, none out of order, updates
/// from the state told before, deletes of a uid that was told or `tried`. `fresh` generations begin with any state,
/// and so does what follows a restart.
fn check_key(
    events: &[(u32, Event)],
    tried: &[(u32, Event)],
    fresh: &[u32],
) -> Result<Option<(String, String)>, String> {
    let mut known: Option<Arc<Object>> = None;
    let mut generation = 0;
    for (of, event) in events {
        let replayed = fresh.iter().any(|start| (generation + 1..=*of).contains(&(start * RESTARTS)))
            || generation % RESTARTS != of % RESTARTS;
        generation = *of;
        let (new, bad) = match event {
            Event::Add { object, .. } => (Some(object.clone()), known.is_some() && !replayed),
            Event::Update { old, new, .. } => {
                let follows = known.as_ref().is_some_and(|known| {
                    known.resource_version() == old.resource_version() && known.uid() == new.uid()
                });
                (Some(new.clone()), !follows)
            }
            Event::Delete { object, .. } => {
                let was_tried = tried.iter().any(|(_, event)| event.object().uid() == object.uid());
                let was_told = known.as_ref().is_some_and(|known| known.uid() == object.uid());
                (None, !(was_told || known.is_none() && was_tried))
            }
        };
        let version = |object: &Object| object.resource_version().parse::<u32>().unwrap_or_default();
        let backwards =
            matches!((&known, &new), (Some(known), Some(new)) if !replayed && version(new) <= version(known));
        if bad || backwards {
            return Err(format!("{event:?} after {known:?} in generation {of} of {events:?}"));
        }
        known = new;
    }
    Ok(known.map(|object| (object.uid().to_owned(), object.resource_version().to_owned())))
}

/// A handler of a lane that looks whether another one has its key at the moment, or had it before.
struct Lane {
    inner: Recorder,
    number: usize,
    keys: Arc<StdMutex<Keys>>,
    listener: Listener,
    generation: u32,
    max_object: Option<usize>,
    life: Life,
}

/// Of one generation: keys being handled, each key's lane, and what went wrong.
#[derive(Default)]
struct Keys {
    busy: BTreeSet<ObjectKey>,
    lanes: BTreeMap<ObjectKey, usize>,
    problem: Option<String>,
}

impl EventHandler for Lane {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let key = delivery.event.key();
            self.life.ask(Asked::Event);
            {
                let mut keys = self.keys.lock().expect("keys");
                let lane = *keys.lanes.entry(key.clone()).or_insert(self.number);
                let bytes = delivery.event.object().json().len();
                if self.max_object.is_some_and(|max| bytes > max) {
                    keys.problem = Some(format!("{key} has {bytes} bytes"));
                }
                if !keys.busy.insert(key.clone()) || lane != self.number {
                    keys.problem = Some(format!("{key} is in lane {lane} and {}", self.number));
                }
            }
            let restarts = u32::try_from(self.listener.stats().restarts).expect("not so many");
            self.inner.generation = self.generation * RESTARTS + restarts;
            // Longer in one lane than in another.
            tokio::time::sleep(Duration::from_millis(self.number as u64 * 5)).await;
            let outcome = self.inner.handle(delivery).await;
            self.keys.lock().expect("keys").busy.remove(key);
            outcome
        })
    }

    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        Box::pin(self.life.save())
    }

    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        Box::pin(self.life.restore(legacy))
    }

    fn synced<'a>(&'a mut self, _: u32) -> AsideFuture<'a, ()> {
        Box::pin(async {
            self.life.ask(Asked::Synced);
            if self.listener.stats().in_flight > 0 || !self.listener.subscription_has_synced("pods") {
                self.keys.lock().expect("keys").problem = Some("told of the sync too early".into());
            }
            tokio::time::sleep(Duration::from_millis(self.number as u64 * 2)).await;
        })
    }

    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        Box::pin(async move {
            self.life.ask(Asked::Stop(why));
            tokio::time::sleep(Duration::from_millis(self.number as u64)).await;
        })
    }
}

/// A script that is under way.
struct Play {
    told: Told,
    tried: Told,
    pods: Arc<SharedInformer>,
    listener: Listener,
    /// By generation.
    keys: Vec<Arc<StdMutex<Keys>>>,
    lives: Lives,
    broken: Arc<StdMutex<bool>>,
    server: Server,
    seed: u32,
    max_object: Option<usize>,
    is_synced: bool,
    swaps: Vec<(From, OnSwap, tokio::task::JoinHandle<Option<SwapReport>>)>,
}

impl Play {
    fn new(config: ListenerConfig, seed: u32) -> Self {
        Self {
            told: Told::default(),
            tried: Told::default(),
            pods: informer("Pod"),
            max_object: config.max_object,
            listener: Listener::new(config, Arc::new(())),
            keys: Vec::new(),
            lives: Lives::default(),
            broken: Arc::default(),
            server: Server::default(),
            seed,
            is_synced: false,
            swaps: Vec::new(),
        }
    }

    /// The next generation of handlers.
    fn handlers(&mut self, lanes: usize, temper: Temper) -> Vec<Box<dyn EventHandler>> {
        let keys = Arc::new(StdMutex::new(Keys::default()));
        self.keys.push(keys.clone());
        let generation = u32::try_from(self.keys.len()).expect("not so many");
        let lane = |(number, life)| -> Box<dyn EventHandler> {
            let seed = self.seed + generation + 100 * u32::try_from(number).unwrap_or_default();
            let script = moody(seed, self.broken.clone());
            let (told, tried) = (self.told.clone(), self.tried.clone());
            Box::new(Lane {
                inner: Recorder { generation, told, script, tried },
                number,
                keys: keys.clone(),
                listener: self.listener.clone(),
                generation,
                max_object: self.max_object,
                life,
            })
        };
        self.lives.begin(temper, lanes).into_iter().enumerate().map(lane).collect()
    }

    async fn act(&mut self, act: &Act) {
        self.server.act(&self.pods, act);
        match act {
            Act::Sync if !self.is_synced => {
                self.is_synced = true;
                synced(&self.pods);
            }
            Act::Swap { on_swap, lanes, from, temper, wait, trial } => {
                let inherit = self.lives.given(*from);
                let handlers = self.handlers(*lanes, *temper);
                let joined = vec![subscription("pods", 0, &self.pods)];
                let swap = Swap { inherit, trial: *trial, ..Swap::new(handlers, joined, *on_swap) };
                let swapped = tokio::spawn(self.listener.swap(swap));
                if *wait {
                    // Its result is taken in the end.
                    while !swapped.is_finished() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                self.swaps.push((*from, *on_swap, swapped));
            }
            Act::GoOn => self.listener.go_on(),
            Act::Break(is_so) => *self.broken.lock().expect("broken") = *is_so,
            Act::Run(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            _ => {}
        }
    }

    /// Lets everything come to rest, and to its end, and looks at the handlers. Gives the generations that began afresh.
    async fn finish(&mut self, task: tokio::task::JoinHandle<Ended>) -> Result<Vec<u32>, String> {
        *self.broken.lock().expect("broken") = false;
        if !self.is_synced {
            synced(&self.pods);
        }
        // Even good ones break now and then, and may fail their trial by that.
        let overruling = tokio::spawn(overrule(self.listener.clone()));
        settle(&self.listener).await;
        overruling.abort();
        if !self.listener.has_synced() {
            return Err("everything is handled, but it has not synced".into());
        }
        let mut swapped = Vec::new();
        for (from, on_swap, swap) in self.swaps.drain(..) {
            swapped.push((from, on_swap, swap.await.map_err(|error| error.to_string())?));
        }
        self.check_withheld()?;
        self.listener.close();
        task.await.map_err(|error| error.to_string())?;
        for keys in &self.keys {
            keys.lock().expect("keys").problem.take().map_or(Ok(()), Err)?;
        }
        let fresh = self.lives.check(&swapped, self.listener.stats().restarts)?;
        Ok(fresh.into_iter().skip(1).map(|number| u32::try_from(number + 1).expect("not so many")).collect())
    }

    /// What handlers can be told of.
    fn tellable(&self) -> BTreeMap<String, (String, String)> {
        let objects = self.server.objects.iter();
        objects
            .filter(|(key, _)| self.max_object.is_none() || !self.server.large.contains(*key))
            .map(|(key, (uid, version))| (key.clone(), (uid.to_string(), version.to_string())))
            .collect()
    }

    fn check_withheld(&self) -> Result<(), String> {
        let (is, want) = (self.listener.stats().withheld, self.server.objects.len() - self.tellable().len());
        if is == want { Ok(()) } else { Err(format!("{want} are too large, not {is}")) }
    }

    /// Whether what handlers were told makes sense, key by key, and ends in what the server has.
    fn check_view(&self, fresh: &[u32]) -> Result<(), String> {
        let mut by_key: BTreeMap<String, Vec<(u32, Event)>> = BTreeMap::new();
        for (generation, event) in self.told.lock().expect("told").iter() {
            by_key.entry(event.key().to_string()).or_default().push((*generation, event.clone()));
        }
        let mut view = BTreeMap::new();
        for (key, events) in by_key {
            if let Some((uid, version)) = check_key(&events, &self.tried.lock().expect("tried"), fresh)? {
                view.insert(key, (uid, version));
            }
        }
        let want = self.tellable();
        // Of what is too large, an earlier state of the same object may be known.
        view.retain(|key, (uid, _)| {
            let is = self.server.objects.get(key).is_some_and(|(is, _)| is.to_string() == *uid);
            want.contains_key(key) || !is
        });
        if view == want { Ok(()) } else { Err(format!("the handler sees {view:?}, the server has {want:?}")) }
    }
}

fn run_script(acts: &[Act], config: ListenerConfig, seed: u32) -> Result<(), String> {
    paused()?.block_on(async {
        let mut play = Play::new(config, seed);
        let handlers = play.handlers(2, Temper::default());
        let task = start(&play.listener, handlers, &play.pods);
        for act in acts {
            play.act(act).await;
        }
        let fresh = play.finish(task).await?;
        play.check_view(&fresh)
    })
}

/// Has events handed over whatever a trial says.
async fn overrule(listener: Listener) {
    loop {
        listener.go_on();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Delivery contract 1, 3, 4, 6, 7, 8, 10 together: whatever happens, and whenever the handler is replaced,
    /// each object's events make sense in their order, and in the end the handler sees what the server has; so too
    /// through bursts of breaks, and the quarantines that they bring on (design section 5).
    #[test]
    fn every_script_ends_in_the_servers_view(
        acts in proptest::collection::vec(act(), 0..60),
        bound in prop_oneof![Just(1_usize), Just(3), Just(10_000)],
        latest in any::<bool>(),
        replays in any::<bool>(),
        quarantine_after in prop_oneof![Just(None), (1..4_usize).prop_map(Some)],
        max_object in prop_oneof![Just(None), Just(Some(MAX))],
        seed in any::<u16>(),
    ) {
        let merge = if latest { Merge::Latest } else { Merge::All };
        let on_restart = if replays { OnRestart::Replay } else { OnRestart::Continue };
        let config = ListenerConfig {
            bound,
            merge,
            on_restart,
            quarantine_after,
            max_object,
            max_attempts: u32::MAX,
            ..Default::default()
        };
        if let Err(problem) = run_script(&acts, config, u32::from(seed)) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
