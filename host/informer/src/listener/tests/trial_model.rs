//! Trials against a model: random scripts with bursts of breaks, and swaps with and without a trial. On trial one call is
//! under way at a time; nothing is begun once a trial has failed, nor is anything under way then; verdicts, letters and
//! quarantines follow from the ends of calls; and in the end the handlers have been told of the server's view.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

const MAX_ATTEMPTS: u32 = 3;

/// What a random script does next.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Remove(usize),
    /// From now on these objects break their handlers: a bit each.
    Break(u8),
    Run(u64),
    Swap(Begins),
    GoOn,
}

/// Handlers that begin.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Begins {
    on_swap: OnSwap,
    lanes: u64,
    trial: Option<NonZeroU32>,
}

fn begins() -> impl Strategy<Value = Begins> {
    let on_swap = prop_oneof![Just(OnSwap::Replay), Just(OnSwap::Continue)];
    (on_swap, 1..4_u64, 0..6_u32).prop_map(|(on_swap, lanes, attempts)| Begins {
        on_swap,
        lanes,
        trial: NonZeroU32::new(attempts),
    })
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0..8_usize;
    prop_oneof![
        8 => key.clone().prop_map(Act::Put),
        3 => key.prop_map(Act::Remove),
        1 => Just(Act::Break(0)),
        2 => Just(Act::Break(u8::MAX)),
        2 => any::<u8>().prop_map(Act::Break),
        6 => (0..3000_u64).prop_map(Act::Run),
        3 => begins().prop_map(Act::Swap),
        1 => Just(Act::GoOn),
    ]
}

/// What handlers and the observer saw, in order.
#[derive(Debug, Clone, PartialEq)]
enum Saw {
    /// A call began in this state.
    Begun(TrialState),
    /// It ended. The version is none for a delete.
    Ended {
        key: String,
        version: Option<String>,
        broke: bool,
    },
    GivenUp(String),
    Quarantined,
    Verdict(TrialVerdict),
    Swapped,
    GoOn,
}

#[derive(Default)]
struct Log(StdMutex<Vec<Saw>>);

impl Log {
    fn push(&self, saw: Saw) {
        self.0.lock().expect("log").push(saw);
    }
}

impl Observer for Log {
    fn given_up(&self, delivery: &Delivery, _: &Outcome) {
        self.push(Saw::GivenUp(delivery.event.key().to_string()));
    }

    fn health(&self, change: &HealthChange) {
        if matches!(change, HealthChange::Quarantined { .. }) {
            self.push(Saw::Quarantined);
        }
    }

    fn trial(&self, verdict: &TrialVerdict) {
        self.push(Saw::Verdict(verdict.clone()));
    }

    fn swapped(&self) {
        self.push(Saw::Swapped);
    }
}

struct Burst {
    listener: Listener,
    log: Arc<Log>,
    broken: Arc<StdMutex<u8>>,
    number: u64,
}

impl EventHandler for Burst {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            self.log.push(Saw::Begun(self.listener.trial()));
            // Longer in one lane than in another.
            tokio::time::sleep(Duration::from_millis(1 + self.number * 7)).await;
            let key = delivery.event.key();
            let bit: u32 = key.name().parse().expect("a number");
            let broke = *self.broken.lock().expect("broken") & (1 << bit) != 0;
            let version = match &delivery.event {
                Event::Delete { .. } => None,
                event => Some(event.object().resource_version().to_owned()),
            };
            self.log.push(Saw::Ended { key: key.to_string(), version, broke });
            if broke { Outcome::Timeout("slow".into()) } else { Outcome::Ok }
        })
    }
}

/// What follows from the ends of calls and the swaps alone.
#[derive(Default)]
struct Model {
    state: TrialState,
    /// Calls that have begun and not ended.
    under_way: usize,
    /// By object: breaks since it was last handled, and whether they were of a delete.
    breaks: BTreeMap<String, (u32, bool)>,
    /// Breaks of this trial.
    on_trial: Vec<String>,
    /// Whose events broke since the last answer; none in quarantine.
    broken: Option<BTreeSet<String>>,
    letters: Vec<String>,
    /// Attempts of trials that failed, 0 for those that were passed.
    verdicts: Vec<u32>,
    quarantines: usize,
}

impl Model {
    fn of(log: &[Saw], mut swaps: VecDeque<Begins>, quarantine_after: usize) -> Result<Self, String> {
        let mut model = Self { broken: Some(BTreeSet::new()), ..Self::default() };
        for saw in log {
            match saw {
                Saw::Begun(state) if *state != model.state || *state == TrialState::Failed => {
                    return Err(format!("begun in {state:?}, which is to be {:?}", model.state));
                }
                Saw::Begun(TrialState::OnTrial { .. }) if model.under_way > 0 => {
                    return Err("begun on trial while another one is under way".into());
                }
                Saw::Begun(_) => model.under_way += 1,
                Saw::Ended { .. } if model.state == TrialState::Failed => {
                    return Err("ended after the trial failed".into());
                }
                Saw::Ended { key, broke: false, .. } => model.answered(key),
                Saw::Ended { key, version, broke: true } => {
                    model.broke(key, version.is_none(), quarantine_after);
                }
                Saw::Swapped => model.swapped(swaps.pop_front().ok_or("no such swap")?),
                Saw::GoOn => {
                    model.state = TrialState::Settled;
                    model.on_trial.clear();
                }
                _ => {}
            }
        }
        Ok(model)
    }

    fn answered(&mut self, key: &str) {
        self.under_way -= 1;
        self.breaks.remove(key);
        self.broken = Some(BTreeSet::new());
        if let TrialState::OnTrial { .. } = self.state {
            self.state = TrialState::Settled;
            self.on_trial.clear();
            self.verdicts.push(0);
        }
    }

    fn broke(&mut self, key: &str, delete: bool, quarantine_after: usize) {
        self.under_way -= 1;
        let spared = self.state != TrialState::Settled;
        let (breaks, of_delete) = self.breaks.remove(key).unwrap_or_default();
        let breaks = if delete && !of_delete { 1 } else { breaks + 1 };
        if breaks >= MAX_ATTEMPTS && !spared {
            self.letters.push(key.to_owned());
        } else {
            self.breaks.insert(key.to_owned(), (breaks, delete));
        }
        if let Some(broken) = &mut self.broken {
            broken.insert(key.to_owned());
            if broken.len() >= quarantine_after && !spared {
                self.broken = None;
                self.quarantines += 1;
            }
        }
        if spared {
            self.on_trial.push(key.to_owned());
        }
        if let TrialState::OnTrial { broke, of } = &mut self.state {
            *broke += 1;
            if *broke == of.get() {
                self.verdicts.push(*broke);
                self.state = TrialState::Failed;
            }
        }
    }

    fn swapped(&mut self, begins: Begins) {
        for key in self.on_trial.drain(..) {
            if let Some((breaks, _)) = self.breaks.get_mut(&key) {
                *breaks = breaks.saturating_sub(1);
            }
        }
        if begins.on_swap == OnSwap::Replay {
            self.breaks.clear();
        }
        self.broken = Some(BTreeSet::new());
        self.state = begins.trial.map_or(TrialState::Settled, |of| TrialState::OnTrial { broke: 0, of });
    }
}

fn check(log: &[Saw], swaps: VecDeque<Begins>, quarantine_after: usize) -> Result<(), String> {
    let model = Model::of(log, swaps, quarantine_after).map_err(|problem| format!("{problem}: {log:?}"))?;
    let (mut letters, mut verdicts, mut quarantines) = (Vec::new(), Vec::new(), 0);
    for saw in log {
        match saw {
            Saw::GivenUp(key) => letters.push(key.clone()),
            Saw::Quarantined => quarantines += 1,
            Saw::Verdict(TrialVerdict::Passed) => verdicts.push(0),
            Saw::Verdict(TrialVerdict::Failed { attempts, .. }) => verdicts.push(*attempts),
            _ => {}
        }
    }
    let saw = (letters, verdicts, quarantines);
    let want = (model.letters, model.verdicts, model.quarantines);
    if saw == want { Ok(()) } else { Err(format!("{saw:?}, not {want:?}: {log:?}")) }
}

/// The last state of each object that was answered, but for those that are gone.
fn view(log: &[Saw]) -> BTreeMap<String, String> {
    let mut view = BTreeMap::new();
    for saw in log {
        match saw {
            Saw::Ended { key, version: Some(version), broke: false } => {
                view.insert(key.clone(), version.clone());
            }
            Saw::Ended { key, version: None, broke: false } => {
                view.remove(key);
            }
            _ => {}
        }
    }
    view
}

struct Script {
    listener: Listener,
    pods: Arc<SharedInformer>,
    log: Arc<Log>,
    broken: Arc<StdMutex<u8>>,
    swaps: VecDeque<Begins>,
    there: BTreeMap<String, String>,
}

impl Script {
    fn handlers(&self, lanes: u64) -> Vec<Box<dyn EventHandler>> {
        let lane = |number| -> Box<dyn EventHandler> {
            let (listener, log, broken) = (self.listener.clone(), self.log.clone(), self.broken.clone());
            Box::new(Burst { listener, log, broken, number })
        };
        (0..lanes).map(lane).collect()
    }

    async fn act(&mut self, version: u32, act: &Act) -> Result<(), String> {
        match act {
            Act::Put(key) => {
                let key = format!("n/{key}");
                put(&self.pods, &key, "u", version);
                self.there.insert(key, version.to_string());
            }
            Act::Remove(key) => {
                let key = format!("n/{key}");
                if self.there.remove(&key).is_some() {
                    remove(&self.pods, &key, "u", version);
                }
            }
            Act::Break(bits) => *self.broken.lock().expect("broken") = *bits,
            Act::Run(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            Act::Swap(begins) => {
                self.swaps.push_back(*begins);
                let (handlers, joined) =
                    (self.handlers(begins.lanes), vec![subscription("pods", 0, &self.pods)]);
                let swap = Swap::new(handlers, joined, begins.on_swap);
                let swap = self.listener.swap(Swap { trial: begins.trial, ..swap });
                swap.await.ok_or("no swap")?;
            }
            Act::GoOn => self.go_on(),
        }
        Ok(())
    }

    fn go_on(&self) {
        if self.listener.trial() == TrialState::Failed {
            self.log.push(Saw::GoOn);
        }
        self.listener.go_on();
    }
}

fn run_script(acts: &[Act], first: Begins, config: ListenerConfig) -> Result<(), String> {
    let quarantine_after = config.quarantine_after.unwrap_or(usize::MAX);
    paused()?.block_on(async {
        let (log, pods) = (Arc::new(Log::default()), informer("Pod"));
        let listener = Listener::new(config, log.clone());
        synced(&pods);
        let mut script = Script {
            listener: listener.clone(),
            pods: pods.clone(),
            log: log.clone(),
            broken: Arc::default(),
            swaps: VecDeque::from([first]),
            there: BTreeMap::new(),
        };
        log.push(Saw::Swapped);
        if let Some(attempts) = first.trial {
            listener.put_on_trial(attempts);
        }
        start(&listener, script.handlers(first.lanes), &pods);
        for (version, act) in (1..).zip(acts) {
            script.act(version, act).await?;
        }
        *script.broken.lock().expect("broken") = 0;
        // What is under way may still fail the trial.
        tokio::time::sleep(Duration::from_secs(1)).await;
        script.go_on();
        settle(&listener).await;
        if !listener.has_synced() {
            return Err("everything is handled, but it has not synced".into());
        }
        let log = log.0.lock().expect("log").clone();
        let (mut told, mut there) = (view(&log), script.there);
        for saw in &log {
            // What was given up, nobody was told of.
            if let Saw::GivenUp(key) = saw {
                told.remove(key);
                there.remove(key);
            }
        }
        if told != there {
            return Err(format!("the handlers were told {told:?}, the server has {there:?}: {log:?}"));
        }
        check(&log, script.swaps, quarantine_after)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_and_letters_follow_from_the_answers(
        acts in proptest::collection::vec(act(), 0..80),
        first in begins(),
        latest in any::<bool>(),
        replays in any::<bool>(),
        quarantine_after in prop_oneof![Just(None), (1..4_usize).prop_map(Some)],
    ) {
        let merge = if latest { Merge::Latest } else { Merge::All };
        let on_restart = if replays { OnRestart::Replay } else { OnRestart::Continue };
        let config = ListenerConfig {
            merge,
            on_restart,
            quarantine_after,
            max_attempts: MAX_ATTEMPTS,
            ..Default::default()
        };
        if let Err(problem) = run_script(&acts, first, config) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
