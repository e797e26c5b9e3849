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

/// What is wrong with the memory of these versions, each of which was to carry on that of its heir's number (from 0), and
/// which were told this.
pub fn faults(ran: &[Ran<'_>], of: &[usize], lines: &[(Line, Span)]) -> Vec<String> {
    let mut faults = Vec::new();
    // By version: the generations whose events its memory has, its own included.
    let mut shared: Vec<Vec<u64>> = Vec::new();
    for ((generation, now), of) in (1..).zip(ran).zip(of) {
        let before = ran.get(*of).filter(|_| generation > 1);
        let said = now.arrival.carried;
        if let Some(before) = before
            && expected(before, now).is_some_and(|expected| expected != said)
        {
            faults
                .push(format!("{:?} became {:?}, but the log says {:?}", before.plan, now.plan, now.arrival));
        }
        let mut has = Vec::new();
        if said == Carried::Kept {
            has = shared.get(*of).cloned().unwrap_or_default();
            faults.extend(miscounted(&has, now.arrival, lines));
        }
        has.push(generation);
        shared.push(has);
    }
    faults
}

/// Whether a memory that has the events of these generations has another number of them.
fn miscounted(has: &[u64], now: &Arrival, lines: &[(Line, Span)]) -> Option<String> {
    let lines = || lines.iter().map(|(line, _)| line).filter(|line| has.contains(&line.generation));
    let count = lines().filter(|line| line.outcome == "ok").count() as u64;
    // An instance that trapped has lost its memory.
    let lost = lines().any(|line| line.outcome == "trap");
    (!lost && count != now.restored).then(|| format!("{count} events were answered, but {now:?}"))
}

/// What is to become of the memory; none: an instance that trapped may not be there to save.
fn expected(before: &Ran<'_>, now: &Ran<'_>) -> Option<Carried> {
    if matches!(before.plan.mood, Mood::Traps(_)) {
        return None;
    }
    // What was not saved then is missing now, and nobody is to blame; to a replay that is all the same.
    let comes_back = now.arrival.back.is_some();
    Some(match (before.plan.memory, now.plan.memory) {
        (_, None) => Carried::Nothing,
        (Some(Memory::SaveFails), Some(_)) if comes_back && now.replays => Carried::Nothing,
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
    use super::super::news::Back;
    use super::*;

    #[test]
    fn what_is_expected_follows_from_both_versions() {
        use Memory::{Keeps, RestoreFails, SaveFails, SavesNothing};
        let plan = |memory| Plan {
            number: 1,
            watches: vec![],
            mood: Mood::Good,
            lingers: 0,
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
            begun_by_rollback: 0,
            back: None,
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
            assert_eq!(faults(&[before, now], &[0, 0], &[]).is_empty(), want == Carried::Nothing);
        }
    }
    #[test]
    fn what_comes_back_has_the_memory_of_what_was_good_without_what_came_between() {
        let plan = |mood| Plan {
            number: 1,
            watches: vec![],
            mood,
            lingers: 0,
            replays: Some(false),
            concurrency: None,
            memory: Some(Memory::Keeps),
        };
        let (good, bad) = (plan(Mood::Good), plan(Mood::Traps(1)));
        let arrival = |carried, restored, back: bool| Arrival {
            at: 0,
            hash: String::new(),
            subscriptions: None,
            carried,
            restored,
            begun_by_rollback: 0,
            back: back.then(|| Back { from: "b".into(), to: "a".into(), attempts: 1 }),
        };
        let line = |generation, outcome: &str| {
            (Line { generation, outcome: outcome.into(), ..Line::default() }, Span { from: 0, to: 0 })
        };
        // Two events before, one that broke, and one that whoever came back answered.
        let lines = [line(1, "ok"), line(1, "ok"), line(2, "trap"), line(3, "ok")];
        for (carried, restored, again, right) in [
            (Carried::Kept, 2, 3, true),
            (Carried::Kept, 3, 3, false),
            (Carried::Kept, 2, 2, false),
            (Carried::Afresh, 0, 1, false),
        ] {
            let all = [
                arrival(Carried::Nothing, 0, false),
                arrival(Carried::Kept, 2, false),
                arrival(carried, restored, true),
                arrival(Carried::Kept, again, false),
            ];
            let ran = |(arrival, plan)| Ran { arrival, plan, replays: false, instances: 1 };
            let ran: Vec<_> = all.iter().zip([&good, &bad, &good, &good]).map(ran).collect();
            let faults = faults(&ran, &[0, 0, 0, 2], &lines);
            assert_eq!(faults.is_empty(), right, "{carried:?} {restored} {again}: {faults:?}");
        }
    }
}
