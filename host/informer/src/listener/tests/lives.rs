//! What the handlers of a random script are asked besides events, and a plain statement of what that may be.
//!
//! Used by the [model](super::model). A handler's life is `restore? forget? (event | synced)* save? stop`; one that never took over has but the stop; whether others
//! go on from where it left off follows from what was saved, and from who failed.

use proptest::prelude::*;

use super::*;
use crate::handler::{Legacy, NothingNeeded, Stop};

/// What a generation of handlers saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Leaves {
    #[default]
    Memory,
    NothingNeeded,
    Nothing,
}

/// How a generation of handlers takes what it is asked: which lane cannot save, which cannot restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Temper {
    leaves: Leaves,
    save_fails: Option<usize>,
    restore_fails: Option<usize>,
}

/// Whose memories a swap is to pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Predecessor,
    /// So many that are given.
    Given(usize),
}

pub(super) fn temper() -> impl Strategy<Value = Temper> {
    let leaves = prop_oneof![
        3 => Just(Leaves::Memory),
        1 => Just(Leaves::NothingNeeded),
        1 => Just(Leaves::Nothing),
    ];
    let fails = || proptest::option::weighted(0.2, 0..3_usize);
    (leaves, fails(), fails()).prop_map(|(leaves, save_fails, restore_fails)| Temper {
        leaves,
        save_fails,
        restore_fails,
    })
}

pub(super) fn from() -> impl Strategy<Value = From> {
    prop_oneof![4 => Just(From::Predecessor), 1 => (1..4_usize).prop_map(From::Given)]
}

/// A swap, and what it came to: none if it was overtaken.
pub(super) type Swapped = (From, OnSwap, Option<SwapReport>);

/// What a handler was asked, and whether it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Restore(bool),
    Forget,
    Event,
    Synced,
    Save(bool),
    Stop(Stop),
}

/// What a handler saves: whose it is.
struct Memory {
    generation: usize,
    lane: usize,
}

struct Generation {
    temper: Temper,
    /// Some lane was given something.
    inherits: bool,
    /// By lane.
    lives: Vec<Vec<Asked>>,
}

/// The lives of all handlers, by generation, from 0.
#[derive(Clone, Default)]
pub(super) struct Lives(Arc<StdMutex<Vec<Generation>>>);

/// One handler's.
pub(super) struct Life {
    all: Lives,
    generation: usize,
    lane: usize,
}

impl Lives {
    /// Another generation, of so many handlers.
    pub(super) fn begin(&self, temper: Temper, lanes: usize) -> Vec<Life> {
        let mut all = self.0.lock().expect("lives");
        let generation = all.len();
        all.push(Generation { temper, inherits: false, lives: vec![Vec::new(); lanes] });
        (0..lanes).map(|lane| Life { all: self.clone(), generation, lane }).collect()
    }

    pub(super) fn given(&self, from: From) -> Inherit {
        let memory = |lane| -> Option<Legacy> { Some(Arc::new(Memory { generation: usize::MAX, lane })) };
        match from {
            From::Predecessor => Inherit::Predecessor,
            From::Given(count) => Inherit::Given((0..count).map(memory).collect()),
        }
    }

    /// Checks the swaps, in the order in which they were asked for, each to the next generation, and every life, given how
    /// often everything was told again since a handler broke. Gives the generations, from 0, that began afresh.
    pub(super) fn check(&self, swaps: &[Swapped], restarts: u64) -> Result<Vec<usize>, String> {
        let all = self.0.lock().expect("lives");
        let (mut in_place, mut fresh) = (0, vec![0]);
        for (next, (from, on_swap, report)) in (1..).zip(swaps) {
            let Some(report) = report else {
                let passed_over = all[next].lives.iter().all(|life| *life == [Asked::Stop(Stop::Unused)]);
                passed_over
                    .then_some(())
                    .ok_or_else(|| format!("{next}, overtaken: {:?}", all[next].lives))?;
                continue;
            };
            let want = expected(&all[in_place], &all[next], *from, *on_swap);
            let is = summary(&report.hand_over, in_place)?;
            if is != want {
                return Err(format!(
                    "{in_place} to {next}, {from:?}, {on_swap:?}: {is}, not {want}: {report:?}"
                ));
            }
            check_forgotten(&all[next], is).map_err(|what| format!("{next}: {what}"))?;
            if *on_swap == OnSwap::Replay || is == "fell back" {
                fresh.push(next);
            }
            in_place = next;
        }
        for (number, generation) in all.iter().enumerate() {
            let overtaken = number > 0 && swaps[number - 1].2.is_none();
            let why = match number {
                _ if overtaken => continue,
                last if last == in_place => Stop::Closed,
                _ => Stop::Replaced,
            };
            for (lane, life) in generation.lives.iter().enumerate() {
                check_life(life, why).map_err(|what| format!("{number}.{lane} {what}: {life:?}"))?;
            }
        }
        check_synced(&all, swaps, &fresh, restarts)?;
        Ok(fresh)
    }
}

/// Whether the generation's handlers go on from where others left off, going by who failed.
fn expected(old: &Generation, new: &Generation, from: From, on_swap: OnSwap) -> &'static str {
    let failed =
        |generation: &Generation, what| generation.lives.iter().flatten().any(|asked| *asked == what);
    let (left, leaves) = match from {
        From::Predecessor if failed(old, Asked::Save(false)) => return "fell back",
        From::Predecessor => (old.lives.len(), old.temper.leaves),
        From::Given(count) => (count, Leaves::Memory),
    };
    let lanes = new.lives.len();
    if leaves == Leaves::Memory && left != lanes {
        return "fell back";
    }
    let asks = leaves != Leaves::Nothing || on_swap == OnSwap::Continue;
    if asks && new.temper.restore_fails.is_some_and(|lane| lane < lanes) {
        return "fell back";
    }
    if leaves == Leaves::Memory { "kept" } else { "nothing" }
}

/// What it says, if it is about memories of that generation, each of its own lane.
fn summary(hand_over: &HandOver, from: usize) -> Result<&'static str, String> {
    let HandOver::Kept(kept) = hand_over else {
        return Ok(if matches!(hand_over, HandOver::Nothing) { "nothing" } else { "fell back" });
    };
    for (lane, memory) in kept.iter().enumerate() {
        let memory = memory.as_ref().and_then(|memory| memory.downcast_ref::<Memory>());
        let is = memory.map(|memory| (memory.generation, memory.lane));
        if is != Some((from, lane)) && is != Some((usize::MAX, lane)) {
            return Err(format!("{is:?} was passed on from {from} to lane {lane}"));
        }
    }
    Ok("kept")
}

/// What was restored is forgotten if another lane could not restore, and never else.
fn check_forgotten(generation: &Generation, came_to: &str) -> Result<(), String> {
    for life in &generation.lives {
        let forgot = life.contains(&Asked::Forget);
        if forgot && came_to != "fell back" {
            return Err(format!("it was {came_to}, and forgotten: {life:?}"));
        }
        let restored = life.first() == Some(&Asked::Restore(true));
        if came_to == "fell back" && restored && generation.inherits && !forgot {
            return Err(format!("it begins afresh with what it restored: {life:?}"));
        }
    }
    Ok(())
}

fn check_life(life: &[Asked], why: Stop) -> Result<(), &'static str> {
    let mut steps = life.iter().copied().peekable();
    let restored = steps.next_if(|asked| matches!(asked, Asked::Restore(_)));
    if steps.next_if_eq(&Asked::Forget).is_some() && restored != Some(Asked::Restore(true)) {
        return Err("forgets what it never restored");
    }
    while steps.next_if(|asked| matches!(asked, Asked::Event | Asked::Synced)).is_some() {}
    steps.next_if(|asked| matches!(asked, Asked::Save(_)));
    if steps.next() != Some(Asked::Stop(why)) || steps.next().is_some() {
        return Err("does not end as it should");
    }
    Ok(())
}

/// From each fresh start to the next one, handlers are told at most once, unless a handler that broke had everything
/// told again; and in the end they have been told.
fn check_synced(all: &[Generation], swaps: &[Swapped], fresh: &[usize], restarts: u64) -> Result<(), String> {
    let took_over = |number: usize| number == 0 || swaps[number - 1].2.is_some();
    let told = |number: usize| {
        let count = |life: &Vec<Asked>| life.iter().filter(|asked| **asked == Asked::Synced).count();
        let counts: Vec<usize> = all[number].lives.iter().map(count).collect();
        let same = counts.iter().all(|count| *count == counts[0]);
        same.then_some(counts[0]).ok_or_else(|| format!("{number}: lanes are told {counts:?} times"))
    };
    for (place, first) in fresh.iter().enumerate() {
        let next = fresh.get(place + 1).copied().unwrap_or(all.len());
        let mut times = 0;
        for number in (*first..next).filter(|number| took_over(*number)) {
            times += told(number)?;
        }
        if next == all.len() && times == 0 || restarts == 0 && times > 1 {
            return Err(format!("from generation {first} on, handlers were told {times} times of the sync"));
        }
    }
    Ok(())
}

impl Life {
    pub(super) fn ask(&self, asked: Asked) {
        self.all.0.lock().expect("lives")[self.generation].lives[self.lane].push(asked);
    }

    fn temper(&self) -> Temper {
        self.all.0.lock().expect("lives")[self.generation].temper
    }

    /// Takes a while, as another handler's does; in some lanes a failure is a panic.
    async fn can(&self, fails: Option<usize>) -> Result<(), String> {
        tokio::time::sleep(Duration::from_millis(self.lane as u64 * 3)).await;
        match fails == Some(self.lane) {
            false => Ok(()),
            true if self.lane == 1 => panic!("it cannot"),
            true => Err("it cannot".into()),
        }
    }

    pub(super) async fn save(&self) -> Result<Option<Legacy>, String> {
        let Temper { leaves, save_fails, .. } = self.temper();
        self.ask(Asked::Save(save_fails != Some(self.lane)));
        self.can(save_fails).await?;
        let left: Option<Legacy> = match leaves {
            Leaves::Memory => Some(Arc::new(Memory { generation: self.generation, lane: self.lane })),
            Leaves::NothingNeeded => Some(Arc::new(NothingNeeded)),
            Leaves::Nothing => None,
        };
        Ok(left)
    }

    /// With nothing where it has been given something before, it forgets that.
    pub(super) async fn restore(&self, legacy: Option<Legacy>) -> Result<(), String> {
        let again = !self.all.0.lock().expect("lives")[self.generation].lives[self.lane].is_empty();
        if again && legacy.is_none() {
            self.ask(Asked::Forget);
            return Ok(());
        }
        self.all.0.lock().expect("lives")[self.generation].inherits |= legacy.is_some();
        let fails = self.temper().restore_fails;
        self.ask(Asked::Restore(fails != Some(self.lane)));
        self.can(fails).await
    }
}
