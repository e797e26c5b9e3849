//! Quarantine against a model: random scripts with bursts of breaks. Nothing is begun in quarantine, one event at a
//! time is a probe, the states follow from what was answered, and exactly what broke too often is given up.

use std::collections::BTreeMap;

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
    ]
}

/// What handlers and the observer saw, in order.
#[derive(Debug, Clone, PartialEq)]
enum Saw {
    /// A call began in this state, with so many others under way.
    Begun(HealthState, usize),
    /// It ended.
    Ended {
        key: String,
        delete: bool,
        broke: bool,
    },
    GivenUp(String),
    Changed(HealthChange),
}

type Log = Arc<StdMutex<Vec<Saw>>>;

struct Noted(Log);

impl Observer for Noted {
    fn given_up(&self, delivery: &Delivery, _: &Outcome) {
        self.0.lock().expect("log").push(Saw::GivenUp(delivery.event.key().to_string()));
    }

    fn health(&self, change: &HealthChange) {
        self.0.lock().expect("log").push(Saw::Changed(change.clone()));
    }
}

struct Burst {
    listener: Listener,
    log: Log,
    broken: Arc<StdMutex<u8>>,
    number: u64,
}

impl EventHandler for Burst {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let (health, stats) = (self.listener.health(), self.listener.stats());
            self.log.lock().expect("log").push(Saw::Begun(health.state, stats.in_flight));
            // Longer in one lane than in another.
            tokio::time::sleep(Duration::from_millis(1 + self.number * 7)).await;
            let key = delivery.event.key().to_string();
            let bit: u32 = delivery.event.key().name().parse().expect("a number");
            let broke = *self.broken.lock().expect("broken") & (1 << bit) != 0;
            let delete = matches!(delivery.event, Event::Delete { .. });
            self.log.lock().expect("log").push(Saw::Ended { key, delete, broke });
            if broke { Outcome::Timeout("slow".into()) } else { Outcome::Ok }
        })
    }
}

/// What follows from the ends of calls alone: the letters, and how often quarantine began.
#[derive(Default)]
struct Model {
    /// By object: breaks since it was last handled, and whether they were of a delete.
    breaks: BTreeMap<String, (u32, bool)>,
    letters: Vec<String>,
    /// Whose events broke since the last answer; none in quarantine.
    broken: Option<std::collections::BTreeSet<String>>,
    quarantines: usize,
}

impl Model {
    fn of(log: &[Saw], quarantine_after: usize) -> Self {
        let mut model = Self { broken: Some(Default::default()), ..Self::default() };
        for saw in log {
            if let Saw::Ended { key, delete, broke } = saw {
                model.ended(key, *delete, *broke, quarantine_after);
            }
        }
        model
    }

    fn ended(&mut self, key: &str, delete: bool, broke: bool, quarantine_after: usize) {
        if !broke {
            self.breaks.remove(key);
            self.broken = Some(Default::default());
            return;
        }
        let (breaks, of_delete) = self.breaks.remove(key).unwrap_or_default();
        let breaks = if delete && !of_delete { 1 } else { breaks + 1 };
        if breaks == MAX_ATTEMPTS {
            self.letters.push(key.to_owned());
        } else {
            self.breaks.insert(key.to_owned(), (breaks, delete));
        }
        let Some(broken) = &mut self.broken else { return };
        broken.insert(key.to_owned());
        if broken.len() >= quarantine_after {
            self.broken = None;
            self.quarantines += 1;
        }
    }
}

fn check(log: &[Saw], quarantine_after: usize) -> Result<(), String> {
    for saw in log {
        match saw {
            Saw::Begun(HealthState::Quarantined, _) => return Err(format!("begun in quarantine: {log:?}")),
            Saw::Begun(HealthState::Probing, under_way) if *under_way != 1 => {
                return Err(format!("{under_way} probes at a time: {log:?}"));
            }
            _ => {}
        }
    }
    let model = Model::of(log, quarantine_after);
    let letters: Vec<&String> =
        log.iter().filter_map(|saw| if let Saw::GivenUp(key) = saw { Some(key) } else { None }).collect();
    let is_quarantine = |saw: &&Saw| matches!(saw, Saw::Changed(HealthChange::Quarantined { .. }));
    let quarantines = log.iter().filter(is_quarantine).count();
    if letters.iter().copied().eq(&model.letters) && quarantines == model.quarantines {
        return Ok(());
    }
    let (want, begun) = (&model.letters, model.quarantines);
    Err(format!("{letters:?} are given up, not {want:?}; {quarantines} quarantines, not {begun}: {log:?}"))
}

fn run_script(acts: &[Act], lanes: u64, config: ListenerConfig) -> Result<(), String> {
    let quarantine_after = config.quarantine_after.unwrap_or(usize::MAX);
    paused()?.block_on(async {
        let (log, pods, broken) = (Log::default(), informer("Pod"), Arc::new(StdMutex::new(0_u8)));
        let listener = Listener::new(config, Arc::new(Noted(log.clone())));
        let lane = |number| -> Box<dyn EventHandler> {
            Box::new(Burst { listener: listener.clone(), log: log.clone(), broken: broken.clone(), number })
        };
        synced(&pods);
        start(&listener, (0..lanes).map(lane).collect(), &pods);
        let mut there = std::collections::BTreeSet::new();
        for (version, act) in (1..).zip(acts) {
            match act {
                Act::Put(key) => {
                    there.insert(*key);
                    put(&pods, &format!("n/{key}"), "u", version);
                }
                Act::Remove(key) if there.remove(key) => remove(&pods, &format!("n/{key}"), "u", version),
                Act::Remove(_) => {}
                Act::Break(bits) => *broken.lock().expect("broken") = *bits,
                Act::Run(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            }
        }
        *broken.lock().expect("broken") = 0;
        settle(&listener).await;
        if !listener.has_synced() {
            return Err("everything is handled, but it has not synced".into());
        }
        check(&log.lock().expect("log"), quarantine_after)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn states_and_letters_follow_from_the_answers(
        acts in proptest::collection::vec(act(), 0..80),
        lanes in 1..4_u64,
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
        if let Err(problem) = run_script(&acts, lanes, config) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
