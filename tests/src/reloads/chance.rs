//! Random builds, configurations and steps.
//!
//! Invariant: the same seed gives the same ones; numbers of builds are given by whoever asks.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::config::Treatment;
use super::history::{Kind, Namespace};
use super::plan::{Memory, Mood, Part, Plan, Watch};

/// What is done to a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another build is saved, which wants the same or something else.
    Save,
    /// Two builds, one soon after the other.
    SaveTwice,
    /// A content is saved that cannot take over.
    Spoil(Fault),
    /// A build is saved that breaks at every event.
    Break(Then),
    /// An earlier build is saved again.
    Revert,
    /// The same content is saved again.
    Touch,
    /// The file goes, and comes back before anybody minds.
    Blink,
    /// The file goes, and comes back after the plugin was stopped.
    Remove,
    /// The file gets another name.
    Rename,
    /// The operator treats it in another way.
    Configure,
    /// The operator writes something wrong, then what was there before.
    Misconfigure,
}

/// What is wrong with a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is in it.
    Empty,
    /// It is no module.
    Text,
    /// It is the first half of one.
    Half,
    /// It is a component of another world.
    OtherWorld,
    /// It refuses to describe itself.
    Refuses,
    /// It traps while it describes itself.
    Breaks,
}

/// What is done after a build was saved that breaks at every event: before it takes over, while it is on trial, while the
/// last good one comes back, or when all of that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing, until what must come of it has.
    Waits,
    /// Another build is saved, which is good.
    Saves,
    /// The build that ran before is saved again.
    Reverts,
    /// The operator changes a setting that nobody reads.
    Sets,
    /// The file goes, and the same comes back after the plugin was stopped.
    Goes,
}

/// How a content is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Written elsewhere, then renamed over the file.
    Renamed,
    /// Into the file, at once.
    InPlace,
    /// Into the file, with a rest in the middle; in milliseconds.
    Halves(u64),
}

/// A mistake in the operator's file; another one for each number.
pub fn mistake(rng: &mut StdRng, number: u32) -> String {
    match rng.random_range(0..4) {
        0 => format!("[plugins.some]\nonreload{number} = 1"),
        1 => format!("[defaults]\non_reload = \"perhaps-{number}\""),
        2 => format!("[defaults]\nconcurrency = {}", 1000 + number),
        _ => format!("[plugins.{number}"),
    }
}

/// What is done next.
pub fn step(rng: &mut StdRng) -> Step {
    const FAULTS: [Fault; 6] =
        [Fault::Empty, Fault::Text, Fault::Half, Fault::OtherWorld, Fault::Refuses, Fault::Breaks];
    match rng.random_range(0..100) {
        0..=31 => Step::Save,
        32..=38 => Step::SaveTwice,
        39..=49 => Step::Spoil(FAULTS.choose(rng).copied().unwrap_or(Fault::Text)),
        50..=64 => Step::Break(then(rng)),
        65..=73 => Step::Revert,
        74..=76 => Step::Touch,
        77..=79 => Step::Blink,
        80..=83 => Step::Remove,
        84..=86 => Step::Rename,
        87..=97 => Step::Configure,
        _ => Step::Misconfigure,
    }
}

/// What is done after a bad build was saved; most often nothing, so that what follows finds it rolled back.
fn then(rng: &mut StdRng) -> Then {
    match rng.random_range(0..10) {
        0..=5 => Then::Waits,
        6 => Then::Saves,
        7 => Then::Reverts,
        8 => Then::Sets,
        _ => Then::Goes,
    }
}

/// How a plugin is treated when Hark begins: with rollback, more often than not.
pub fn treatment_at_first(seed: u64) -> Treatment {
    let mut rng = StdRng::seed_from_u64(seed);
    Treatment {
        rollback: if rng.random_bool(0.7) { rollback(&mut rng) } else { None },
        ..Treatment::default()
    }
}

fn rollback(rng: &mut StdRng) -> Option<u32> {
    [1, 3].choose(rng).copied()
}

/// How it is saved.
pub fn how(rng: &mut StdRng) -> How {
    match rng.random_range(0..10) {
        0..=4 => How::Renamed,
        5..=7 => How::InPlace,
        _ => How::Halves(rng.random_range(1..150)),
    }
}

/// Another build after `before`, if there is one: most often wanting the same.
pub fn plan(rng: &mut StdRng, number: u32, before: Option<&Plan>) -> Plan {
    let mut watches = before.map(|before| before.watches.clone()).unwrap_or_default();
    if watches.is_empty() {
        watches.push(watch(rng, "first"));
    } else if rng.random_bool(0.5) {
        change(rng, &mut watches);
    }
    let mood = match rng.random_range(0..10) {
        0..=7 => Mood::Good,
        8 => Mood::Traps(rng.random_range(6..40)),
        _ => Mood::Retries(rng.random_range(2..30)),
    };
    let replays = [None, Some(false), Some(false), Some(true)].choose(rng).copied().flatten();
    let concurrency = rng.random_bool(0.3).then(|| rng.random_range(1..4));
    Plan { number, watches, mood, lingers: 0, replays, concurrency, memory: memory(rng, before) }
}

/// The same, breaking at every event.
pub fn bad_plan(rng: &mut StdRng, number: u32, before: &Plan) -> Plan {
    Plan { mood: Mood::Traps(1), ..plan(rng, number, Some(before)) }
}

/// Most often as the build before.
fn memory(rng: &mut StdRng, before: Option<&Plan>) -> Option<Memory> {
    let had = before.and_then(|before| before.memory);
    match rng.random_range(0..12) {
        0 => Some(Memory::SaveFails),
        1 => Some(Memory::SavesNothing),
        2 => Some(Memory::RestoreFails),
        3 => None,
        4..=5 => Some(Memory::Keeps),
        _ => had.map(|_| Memory::Keeps),
    }
}

/// A subscription is added, removed, renamed, or changed.
fn change(rng: &mut StdRng, watches: &mut Vec<Watch>) {
    const NAMES: [&str; 4] = ["first", "second", "third", "fourth"];
    let free: Vec<&str> =
        NAMES.iter().copied().filter(|name| watches.iter().all(|watch| watch.name != *name)).collect();
    let at = rng.random_range(0..watches.len());
    match (rng.random_range(0..10), free.choose(rng)) {
        (0..=1, Some(name)) if watches.len() < 3 => {
            let added = watch(rng, name);
            watches.insert(at, added);
        }
        (2, _) if watches.len() > 1 => drop(watches.remove(at)),
        (3, Some(name)) => {
            if let Some(watch) = watches.get_mut(at) {
                watch.name = (*name).to_owned();
            }
        }
        (4, _) => {
            if let Some(before) = watches.get_mut(at) {
                *before = watch(rng, &before.name.clone());
            }
        }
        (5, _) => watches.reverse(),
        _ => {
            if let Some(watch) = watches.get_mut(at) {
                listen_otherwise(rng, watch);
            }
        }
    }
}

/// What of the same objects is told and handed over.
fn listen_otherwise(rng: &mut StdRng, watch: &mut Watch) {
    const PARTS: [&[Part]; 4] = [&[], &[Part::Text], &[Part::More], &[Part::Text, Part::More]];
    let mut parts = || PARTS.choose(rng).copied().unwrap_or_default().to_vec();
    (watch.changed, watch.fields) = (parts(), parts());
    watch.resync = if rng.random_bool(0.2) { 10 } else { 0 };
}

fn watch(rng: &mut StdRng, name: &str) -> Watch {
    const CHOICES: [&[Namespace]; 6] = [
        &[],
        &[],
        &[Namespace::A],
        &[Namespace::A, Namespace::B],
        &[Namespace::B, Namespace::C],
        &[Namespace::C],
    ];
    let namespaces = CHOICES.choose(rng).copied().unwrap_or_default().to_vec();
    let kind = Kind::ALL.choose(rng).copied().unwrap_or(Kind::ConfigMap);
    let mut watch = Watch {
        name: name.to_owned(),
        kind,
        namespaces,
        labelled: rng.random_bool(0.3),
        unless_off: rng.random_bool(0.3),
        changed: vec![],
        fields: vec![],
        resync: 0,
    };
    if rng.random_bool(0.4) {
        listen_otherwise(rng, &mut watch);
    }
    watch
}

/// Another treatment, in the setting that nobody reads and most often in one thing more.
pub fn treatment(rng: &mut StdRng, before: Treatment) -> Treatment {
    let mut after = Treatment { setting: before.setting + 1, ..before };
    match rng.random_range(0..10) {
        0..=2 => after.replays = [None, Some(false), Some(true)].choose(rng).copied().flatten(),
        3..=4 => after.concurrency = [None, Some(1), Some(2), Some(3)].choose(rng).copied().flatten(),
        5 => after.latest = !before.latest,
        6 => after.queue = if before.queue.is_some() { None } else { Some(rng.random_range(1..20)) },
        7..=8 => after.rollback = if before.rollback.is_some() { None } else { rollback(rng) },
        _ => {}
    }
    after
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn plans_have_different_names_and_whatever_can_change_does() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut plan_before, mut kept, mut moods) = (plan(&mut rng, 0, None), 0, BTreeSet::new());
        for number in 1..500 {
            let next = plan(&mut rng, number, Some(&plan_before));
            let names: BTreeSet<&str> = next.watches.iter().map(|watch| watch.name.as_str()).collect();
            assert!(names.len() == next.watches.len() && !names.is_empty() && names.len() <= 3);
            let stays = |watch: &Watch| plan_before.watches.iter().any(|before| before.is_kept_as(watch));
            kept += usize::from(next.watches.iter().all(stays));
            moods.insert(format!("{:?}", next.mood).split('(').next().map(str::to_owned));
            plan_before = next;
        }
        assert!((250..450).contains(&kept), "{kept}");
        assert_eq!(moods.len(), 3);
    }

    #[test]
    fn every_step_and_every_way_comes_up_and_a_treatment_changes() {
        let mut rng = StdRng::seed_from_u64(2);
        let steps: BTreeSet<String> = (0..2000).map(|_| format!("{:?}", step(&mut rng))).collect();
        assert_eq!(steps.len(), 9 + 6 + 5);
        let mut before = Treatment::default();
        for _ in 0..100 {
            let after = treatment(&mut rng, before);
            assert_ne!(after, before);
            before = after;
        }
        let ways = (0..100).map(|_| format!("{:?}", how(&mut rng)).split('(').next().map(str::to_owned));
        assert_eq!(ways.collect::<BTreeSet<_>>().len(), 3);
    }
}
