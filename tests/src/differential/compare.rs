//! Compares what the listeners of both clients were told.
//!
//! Used by the player when a script is over. Per listener, key and segment (from one settling to the next) both
//! must have been told the same, in the same order; what may differ is a [`Rule`] each, applied one by one and
//! counted. Invariant: a rule changes nothing but what its words say, and only client-go's side, but for resyncs.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::event::{Event, State, Told};
use super::rules::{Rule, Tally};

/// What one client's listeners were told during a script.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    /// From settling to settling.
    pub segments: Vec<Segment>,
}

/// What was told between two settlings.
#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    /// By listener.
    pub told: BTreeMap<String, Vec<Event>>,
    /// Lists that the client asked for, streaming ones included, failed ones too.
    pub lists: usize,
}

/// What the comparer has to know of a script.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Listeners that asked for resyncs.
    pub resyncing: BTreeSet<String>,
    /// Segments whose settling had to be repeated, since somebody asked again meanwhile: not everybody has seen
    /// each state of the markers by itself, by which it is told that all was settled. Nothing else changes then.
    pub restless: BTreeSet<usize>,
    /// Those markers.
    pub markers: BTreeSet<String>,
    /// In the first segment, the list of the second resource was held back.
    pub held: bool,
    /// Hark serves a selector from a wider informer.
    pub wider: bool,
    /// client-go runs with its classic queue.
    pub classic: bool,
}

/// Where two traces differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// Which listener.
    pub listener: String,
    /// Which object.
    pub key: String,
    /// In which segment.
    pub segment: usize,
    /// What Hark told of it there.
    pub hark: Vec<Told>,
    /// What client-go told of it there.
    pub go: Vec<Told>,
    /// What is wrong.
    pub problem: String,
}

/// Compares two traces, and counts the known deviations.
///
/// # Errors
/// The first difference.
pub(super) fn compare(hark: &Trace, go: &Trace, facts: &Facts) -> Result<Tally, Box<Difference>> {
    let mut tally = Tally::default();
    for (listener, key) in listened(hark).union(&listened(go)) {
        let mut one =
            OneKey { facts, listener, key, hark: None, go: GoHandler::default(), carried: Vec::new() };
        let nothing = Segment::default();
        for number in 0..hark.segments.len().max(go.segments.len()) {
            let of = |trace: &Trace| trace.segments.get(number).unwrap_or(&nothing).clone();
            one.segment(number, &of(hark), &of(go), &mut tally)?;
        }
    }
    Ok(tally)
}

/// Every listener and key that a trace has.
fn listened(trace: &Trace) -> BTreeSet<(String, String)> {
    let told = trace.segments.iter().flat_map(|segment| &segment.told);
    told.flat_map(|(listener, events)| events.iter().map(|event| (listener.clone(), event.key.clone())))
        .collect()
}

/// One object as one listener of each client sees it.
struct OneKey<'a> {
    facts: &'a Facts,
    listener: &'a str,
    key: &'a str,
    /// The state that Hark's handler knows.
    hark: Option<State>,
    /// What client-go's handler knows.
    go: GoHandler,
    /// What Hark still owes of a segment in which it was held back.
    carried: Vec<Told>,
}

impl OneKey<'_> {
    fn segment(
        &mut self,
        number: usize,
        hark: &Segment,
        go: &Segment,
        tally: &mut Tally,
    ) -> Result<(), Box<Difference>> {
        let (hark_told, go_told) = (self.told(hark), self.told(go));
        let differs = |problem: String| {
            Box::new(Difference {
                listener: self.listener.to_owned(),
                key: self.key.to_owned(),
                segment: number,
                hark: hark_told.clone(),
                go: go_told.clone(),
                problem,
            })
        };
        let before = self.hark.clone();
        let resyncs = self.facts.resyncing.contains(self.listener);
        let ours = of_hark(&hark_told, &mut self.hark, resyncs, tally).map_err(&differs)?;
        let side = GoSide { resyncs, listed: go.lists > 0, facts: self.facts };
        let theirs = side.in_our_words(&go_told, &mut self.go, tally).map_err(&differs)?;
        let theirs = hold_back(self.facts.held && number == 0, theirs, &mut self.carried, tally);
        let theirs =
            if self.facts.wider { left_selector(&ours, theirs, before.clone(), tally) } else { theirs };
        if ours == theirs {
            return Ok(());
        }
        let restless = self.facts.restless.contains(&number) && self.facts.markers.contains(self.key);
        if restless && ours.last() == theirs.last() {
            return Ok(());
        }
        Err(differs("told differently".into()))
    }

    fn told(&self, segment: &Segment) -> Vec<Told> {
        let events = segment.told.get(self.listener).into_iter().flatten();
        events.filter(|event| event.key == self.key).map(|event| event.told.clone()).collect()
    }
}

/// What client-go's handler knows of one object.
#[derive(Default)]
struct GoHandler {
    /// The state shown; none after a delete.
    known: Option<State>,
    /// The last delete's.
    gone: Option<State>,
}

/// Hark's side without resyncs, each of which must be one; what is told must follow from what was.
fn of_hark(
    told: &[Told],
    known: &mut Option<State>,
    resyncs: bool,
    tally: &mut Tally,
) -> Result<Vec<Told>, String> {
    let mut events = Vec::new();
    for told in told {
        let follows = match told {
            Told::Add { .. } => known.is_none(),
            Told::Update { old, .. } => known.as_ref() == Some(old),
            Told::Delete { state, .. } => known.as_ref().is_some_and(|known| known.uid == state.uid),
        };
        if !follows {
            return Err(format!("Hark: {told} does not follow from {}", shown(known.as_ref())));
        }
        match told {
            Told::Update { old, new, resync } if old == new || *resync => {
                if !(resyncs && *resync && old == new) {
                    return Err(format!("Hark: {told} is no resync that was asked for"));
                }
                tally.count(Rule::ResyncTiming);
            }
            Told::Update { new, .. } if known.as_ref().is_some_and(|known| known.uid != new.uid) => {
                return Err(format!("Hark: {told} is of two incarnations"));
            }
            _ => events.push(told.clone()),
        }
        *known = after(told);
    }
    Ok(events)
}

/// What is known of client-go's side of a segment.
struct GoSide<'a> {
    resyncs: bool,
    listed: bool,
    facts: &'a Facts,
}

impl GoSide<'_> {
    /// What Hark would have told.
    fn in_our_words(
        &self,
        told: &[Told],
        handler: &mut GoHandler,
        tally: &mut Tally,
    ) -> Result<Vec<Told>, String> {
        let mut events = Vec::new();
        let GoHandler { known, gone } = handler;
        for told in told {
            match told {
                Told::Update { old, new, .. } if old == new && known.as_ref() == Some(old) => {
                    tally.count(self.unchanged(told)?);
                }
                Told::Update { old, new, .. } if old.uid != new.uid && known.as_ref() == Some(old) => {
                    tally.count(Rule::Recreated);
                    events.push(Told::Delete { state: old.clone(), unknown: true });
                    events.push(Told::Add { state: new.clone(), initial: false });
                }
                // The same once more would be no deletion of what was never shown.
                Told::Delete { state, .. } if known.is_none() && gone.as_ref() != Some(state) => {
                    if self.facts.classic {
                        return Err(format!("client-go: {told} of what was never shown"));
                    }
                    tally.count(Rule::NeverShown);
                }
                Told::Delete { state, unknown: false } => match known {
                    // Takes a loss, of which there are none where a wider informer serves.
                    Some(shown) if shown.uid != state.uid && !self.facts.wider => {
                        tally.count(Rule::OtherIncarnation);
                        events.push(Told::Delete { state: shown.clone(), unknown: true });
                    }
                    _ => events.push(told.clone()),
                },
                _ => events.push(told.clone()),
            }
            *known = after(told);
            if let Told::Delete { state, .. } = told {
                *gone = Some(state.clone());
            }
        }
        Ok(events)
    }

    /// Why an update of nothing may be.
    fn unchanged(&self, told: &Told) -> Result<Rule, String> {
        match self {
            Self { resyncs: true, .. } => Ok(Rule::ResyncTiming),
            Self { listed: true, .. } => Ok(Rule::UnchangedRelist),
            _ => Err(format!("client-go: {told} without a list or a resync")),
        }
    }
}

/// [`Rule::LeftSelector`]: a deletion of ours that has the state known before stands for theirs of the same
/// incarnation.
fn left_selector(ours: &[Told], theirs: Vec<Told>, before: Option<State>, tally: &mut Tally) -> Vec<Told> {
    let mut known = before;
    let mut told = Vec::new();
    for (place, their) in theirs.into_iter().enumerate() {
        let our = ours.get(place);
        let left = match (our, &their) {
            (Some(Told::Delete { state, unknown: false }), Told::Delete { state: gone, .. }) => {
                known.as_ref() == Some(state) && gone.uid == state.uid && our != Some(&their)
            }
            _ => false,
        };
        if left {
            tally.count(Rule::LeftSelector);
        }
        known = our.and_then(after);
        told.push(our.filter(|_| left).cloned().unwrap_or(their));
    }
    told
}

/// [`Rule::HeldBack`]: what was told while Hark held back comes at the head of what follows, and what was told of
/// an object of the first list is one initial add of its last state by then, or nothing.
fn hold_back(holding: bool, told: Vec<Told>, carried: &mut Vec<Told>, tally: &mut Tally) -> Vec<Told> {
    if !holding {
        return std::mem::take(carried).into_iter().chain(told).collect();
    }
    let is_new = |told: &Told| matches!(told, Told::Add { initial: false, .. });
    let (listed, new) = told.split_at(told.iter().position(is_new).unwrap_or(told.len()));
    if listed.len() > 1 {
        tally.count(Rule::HeldBack);
    }
    let last = listed.last().and_then(after).map(|state| Told::Add { state, initial: true });
    *carried = last.into_iter().chain(new.iter().cloned()).collect();
    Vec::new()
}

fn after(told: &Told) -> Option<State> {
    match told {
        Told::Add { state, .. } | Told::Update { new: state, .. } => Some(state.clone()),
        Told::Delete { .. } => None,
    }
}

fn shown(state: Option<&State>) -> String {
    state.map_or_else(|| "nothing".into(), ToString::to_string)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listener, key, segment, problem, .. } = self;
        writeln!(f, "{key}, listener {listener}, segment {segment}: {problem}")?;
        for (who, told) in [("Hark", &self.hark), ("client-go", &self.go)] {
            let told: Vec<String> = told.iter().map(ToString::to_string).collect();
            writeln!(f, "  {who:9}: [{}]", told.join("; "))?;
        }
        Ok(())
    }
}
