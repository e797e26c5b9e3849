//! Whether a plugin's memory was carried from version to version as it should, and whether it is what it should be: the
//! number of events that it answered.
//!
//! Invariant: what is expected follows from the builds and their treatment alone, not from what Hark says.

use super::account::Span;
use super::news::{Arrival, Carried};
use super::plan::{Memory, Mood, Plan};
use crate::trace::Line;

/// A version that ran.
pub struct Ran<'a> {
    /// What the log says of it.
    pub arrival: &'a Arrival,
    /// Its build.
    pub plan: &'a Plan,
    /// It is to begin with a replay, whatever becomes of the memory.
    pub replays: bool,
    /// How many instances it has.
    pub instances: usize,
}

/// What is wrong with the memory of these versions, which were told this.
pub fn faults(ran: &[Ran<'_>], lines: &[(Line, Span)]) -> Vec<String> {
    let mut faults = Vec::new();
    // The first generation of those that have a memory in common.
    let mut since = 1;
    for (generation, two) in (2..).zip(ran.windows(2)) {
        let [before, now] = two else { continue };
        let said = now.arrival.carried;
        if expected(before, now).is_some_and(|expected| expected != said) {
            faults
                .push(format!("{:?} became {:?}, but the log says {:?}", before.plan, now.plan, now.arrival));
        }
        if said != Carried::Kept {
            since = generation;
            continue;
        }
        let shared = |line: &&(Line, Span)| (since..generation).contains(&line.0.generation);
        let count = lines.iter().filter(shared).filter(|(line, _)| line.outcome == "ok").count() as u64;
        // An instance that trapped has lost its memory.
        let lost = lines.iter().filter(shared).any(|(line, _)| line.outcome == "trap");
        if !lost && count != now.arrival.restored {
            faults.push(format!("{count} events were answered, but {:?}", now.arrival));
        }
    }
    faults
}

/// What is to become of the memory; none: an instance that trapped may not be there to save.
fn expected(before: &Ran<'_>, now: &Ran<'_>) -> Option<Carried> {
    if matches!(before.plan.mood, Mood::Traps(_)) {
        return None;
    }
    Some(match (before.plan.memory, now.plan.memory) {
        (_, None) => Carried::Nothing,
        (None, Some(_)) if now.replays => Carried::Nothing,
        (None, Some(_)) | (Some(Memory::SaveFails), Some(_)) => Carried::Afresh,
        (Some(Memory::SavesNothing), Some(_)) => Carried::Nothing,
        (Some(_), Some(_)) if before.instances != now.instances => Carried::Afresh,
        (Some(_), Some(Memory::RestoreFails)) => Carried::Afresh,
        (Some(_), Some(_)) => Carried::Kept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_follows_from_both_versions() {
        use Memory::{Keeps, RestoreFails, SaveFails, SavesNothing};
        let plan = |memory| Plan {
            number: 1,
            watches: vec![],
            mood: Mood::Good,
            replays: None,
            concurrency: None,
            memory,
        };
        let arrival = Arrival {
            at: 0,
            hash: String::new(),
            subscriptions: None,
            carried: Carried::Nothing,
            restored: 0,
        };
        for (before, now, replays, instances, want) in [
            (None, None, false, 1, Carried::Nothing),
            (Some(Keeps), None, false, 1, Carried::Nothing),
            (None, Some(Keeps), true, 1, Carried::Nothing),
            (None, Some(Keeps), false, 1, Carried::Afresh),
            (Some(SaveFails), Some(Keeps), true, 1, Carried::Afresh),
            (Some(SavesNothing), Some(RestoreFails), false, 1, Carried::Nothing),
            (Some(Keeps), Some(Keeps), false, 2, Carried::Afresh),
            (Some(Keeps), Some(RestoreFails), false, 1, Carried::Afresh),
            (Some(Keeps), Some(SaveFails), true, 1, Carried::Kept),
        ] {
            let (old, new) = (plan(before), plan(now));
            let before = Ran { arrival: &arrival, plan: &old, replays: false, instances: 1 };
            let now = Ran { arrival: &arrival, plan: &new, replays, instances };
            assert_eq!(expected(&before, &now), Some(want), "{old:?} {new:?}");
            assert_eq!(faults(&[before, now], &[]).is_empty(), want == Carried::Nothing);
        }
    }
}
