//! Redelivery against a model: random scripts with a handler that gives up and mends; in the end every letter is
//! replayed, and the handler must see what the server has.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a random script does next.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Remove(usize),
    Recreate(usize),
    /// The handler breaks at one event in so many; 0: at none.
    Break(u32),
    /// Another handler, by a swap.
    Swap(OnSwap),
    /// The letter of this number, modulo how many there are.
    Replay(usize),
    Run(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0..3_usize;
    prop_oneof![
        8 => key.clone().prop_map(Act::Put),
        3 => key.clone().prop_map(Act::Remove),
        2 => key.prop_map(Act::Recreate),
        3 => (0..4_u32).prop_map(Act::Break),
        1 => Just(Act::Swap(OnSwap::Replay)),
        1 => Just(Act::Swap(OnSwap::Continue)),
        6 => any::<usize>().prop_map(Act::Replay),
        8 => (0..1500_u64).prop_map(Act::Run),
    ]
}

/// Letters, as somebody keeps them.
type Letters = Arc<StdMutex<Vec<Lost>>>;

fn letter(delivery: &Delivery) -> Lost {
    let object = delivery.event.object();
    let event = match &delivery.event {
        Event::Add { .. } => LostEvent::Add,
        Event::Update { .. } => LostEvent::Update,
        Event::Delete { object, reason } => LostEvent::Delete { object: object.clone(), reason: *reason },
    };
    Lost { key: object.key().clone(), uid: object.uid().into(), event }
}

/// Everything that one script has in hand.
struct World {
    pods: Arc<SharedInformer>,
    listener: Listener,
    told: Told,
    letters: Letters,
    /// 1 in so many breaks.
    broken: Arc<StdMutex<u32>>,
    objects: BTreeMap<String, (u32, u32)>,
    clock: u32,
}

impl World {
    fn new(config: ListenerConfig) -> Self {
        let letters = Letters::default();
        let kept = letters.clone();
        let keep = move |delivery: &Delivery, _: &Outcome| {
            kept.lock().expect("letters").push(letter(delivery));
        };
        Self {
            pods: informer("Pod"),
            listener: Listener::new(config, on_given_up(keep)),
            told: Told::default(),
            letters,
            broken: Arc::default(),
            objects: BTreeMap::new(),
            clock: 0,
        }
    }

    fn handler(&self) -> Box<dyn EventHandler> {
        let (broken, mut count) = (self.broken.clone(), 0_u32);
        scripted(&self.told, move |_| {
            count += 1;
            let every = *broken.lock().expect("broken");
            if every > 0 && count.is_multiple_of(every) { Outcome::Trap("boom".into()) } else { Outcome::Ok }
        })
    }

    fn change(&mut self, act: &Act) {
        self.clock += 1;
        let now = self.clock;
        let name = |key: &usize| format!("n/{key}");
        match act {
            Act::Put(key) => {
                let uid = self.objects.get(&name(key)).map_or(now, |(uid, _)| *uid);
                put(&self.pods, &name(key), &uid.to_string(), now);
                self.objects.insert(name(key), (uid, now));
            }
            Act::Recreate(key) => {
                let object = object(&name(key), &now.to_string(), &now.to_string());
                process(&self.pods, DeltaKind::Replaced, &object, false);
                self.objects.insert(name(key), (now, now));
            }
            Act::Remove(key) => {
                if let Some((uid, _)) = self.objects.remove(&name(key)) {
                    remove(&self.pods, &name(key), &uid.to_string(), now);
                }
            }
            _ => {}
        }
    }

    /// Replays a letter; those that nothing became of stay.
    fn replay(&self, number: usize) -> Result<(), String> {
        let lost = {
            let mut letters = self.letters.lock().expect("letters");
            if letters.is_empty() {
                return Ok(());
            }
            let place = number % letters.len();
            letters.remove(place)
        };
        match self.listener.redeliver("pods", &lost) {
            Redelivered::Queued { .. } | Redelivered::Obsolete(_) => Ok(()),
            Redelivered::Busy => {
                self.letters.lock().expect("letters").push(lost);
                Ok(())
            }
            other => Err(format!("{other:?} for {lost:?}")),
        }
    }

    async fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Put(_) | Act::Remove(_) | Act::Recreate(_) => self.change(act),
            Act::Break(every) => *self.broken.lock().expect("broken") = *every,
            Act::Swap(on_swap) => {
                let joined = vec![subscription("pods", 0, &self.pods)];
                self.listener
                    .swap(Swap::new(vec![self.handler()], joined, *on_swap))
                    .await
                    .ok_or("no swap")?;
            }
            Act::Replay(number) => self.replay(*number)?,
            Act::Run(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
        }
        Ok(())
    }

    /// Mends the handler and replays every letter.
    async fn finish(&self) -> Result<(), String> {
        *self.broken.lock().expect("broken") = 0;
        settle(&self.listener).await;
        let letters = self.letters.lock().expect("letters").len();
        for _ in 0..letters {
            self.replay(0)?;
            settle(&self.listener).await;
        }
        let left = self.letters.lock().expect("letters").len();
        if left == 0 { Ok(()) } else { Err(format!("{left} letters cannot be replayed")) }
    }

    /// The handler's view, if what it was told makes sense: of one object, no older state after a newer one, and no
    /// state after its delete.
    fn view(&self) -> Result<BTreeMap<String, (u32, u32)>, String> {
        let number = |text: &str| text.parse::<u32>().unwrap_or_default();
        let (mut view, mut newest) = (BTreeMap::new(), BTreeMap::<u32, u32>::new());
        for (_, event) in self.told.lock().expect("told").iter() {
            let (object, key) = (event.object(), event.key().to_string());
            let (uid, version) = (number(object.uid()), number(object.resource_version()));
            if newest.insert(uid, version).is_some_and(|before| before > version) {
                return Err(format!("{event:?} is older than what was told before"));
            }
            match event {
                Event::Delete { .. } => {
                    // Of two objects of one name, both gone, the deletes come as their letters are replayed; that of
                    // the later one ends both, since an earlier one's may be obsolete by then.
                    if view.get(&key).is_some_and(|(there, _)| *there <= uid) {
                        view.remove(&key);
                    }
                    newest.insert(uid, u32::MAX - 1);
                }
                Event::Add { .. } | Event::Update { .. } => {
                    view.insert(key, (uid, version));
                }
            }
        }
        Ok(view)
    }
}

fn run_script(acts: &[Act], config: ListenerConfig) -> Result<(), String> {
    paused()?.block_on(async {
        let mut world = World::new(config);
        synced(&world.pods);
        start(&world.listener, vec![world.handler()], &world.pods);
        tokio::time::sleep(Duration::from_millis(1)).await;
        for act in acts {
            world.act(act).await?;
        }
        world.finish().await?;
        let view = world.view()?;
        if view == world.objects {
            Ok(())
        } else {
            Err(format!("the handler sees {view:?}, the server has {:?}", world.objects))
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Delivery contract 1, 8 and 9: whatever was given up, and whenever it is replayed, each object's states come in
    /// their order, and once every letter is replayed to a handler that works, it sees what the server has.
    #[test]
    fn replayed_letters_leave_the_servers_view(
        acts in proptest::collection::vec(act(), 0..60),
        bound in prop_oneof![Just(1_usize), Just(3), Just(10_000)],
        latest in any::<bool>(),
        replays in any::<bool>(),
        max_attempts in 1..3_u32,
        quarantine_after in prop_oneof![Just(None), (1..3_usize).prop_map(Some)],
    ) {
        let merge = if latest { Merge::Latest } else { Merge::All };
        let on_restart = if replays { OnRestart::Replay } else { OnRestart::Continue };
        let config =
            ListenerConfig { bound, merge, on_restart, max_attempts, quarantine_after, ..Default::default() };
        if let Err(problem) = run_script(&acts, config) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
