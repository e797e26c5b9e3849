//! All lives of all plugins: which versions there were, which line of the trace belongs to which life, and whether all of
//! it fits together.
//!
//! Invariant: every line of the trace is judged, and nothing but the trace, the log and the books of those who acted is
//! asked.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::account::{Account, Span, Version};
use super::config::Treatment;
use super::cover::Lax;
use super::history::{History, Moment};
use super::memory;
use super::news::{Arrival, Carried, News, What};
use super::plan::Plan;
use super::trials::{self, Trials, Tried};
use crate::ledger::Entry;
use crate::trace::Line;

/// What was done to the plugin of one name, and seen of it.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// What the operator's file says of it, from when on.
    pub treatments: Vec<(Moment, Treatment)>,
    /// When its file was put where there was none.
    pub added: Vec<Moment>,
    /// When which content was saved, by its hash; something else where only a part may have been seen.
    pub saves: Vec<(Moment, String)>,
    /// When waiting events of it may have been merged.
    pub lax: Lax,
    /// When it was seen to have been told everything, and which generation it was.
    pub settled: Vec<(Moment, u64)>,
    /// Whether its file lies there in the end.
    pub present: bool,
}

/// What all of those who acted wrote down.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// By the plugin's name.
    pub plugins: BTreeMap<String, Record>,
    /// Builds, by their contents' hash.
    pub plans: BTreeMap<String, Plan>,
}

/// What was judged, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Lives of plugins.
    pub lives: usize,
    /// Their versions.
    pub versions: usize,
    /// Attempts.
    pub attempts: u64,
    /// Events that ended well.
    pub done: u64,
    /// Versions that were rolled back.
    pub rollbacks: usize,
}

/// One life: its versions, and what it was told.
#[derive(Debug, Default)]
struct Life {
    arrivals: Vec<Arrival>,
    /// When its file was gone.
    stopped: Option<Moment>,
    lines: Vec<(Line, Span)>,
}

/// See the file's head. Gives what is wrong, in words.
///
/// # Errors
/// If the log or the trace is none of ours, so that nothing can be said.
pub fn judge(
    history: &History,
    records: &Records,
    news: &[News],
    trace: Vec<Line>,
) -> Result<(Judged, Vec<String>)> {
    let (mut judged, mut faults) = (Judged::default(), Vec::new());
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in trace {
        lines.entry(line.plugin.clone()).or_default().push(line);
    }
    let named = news.iter().map(|news| news.plugin.clone());
    let names: BTreeSet<String> = named.chain(lines.keys().cloned()).collect();
    for name in names {
        let record = records.plugins.get(&name).with_context(|| format!("{name} is no plugin of ours"))?;
        let own: Vec<News> = news.iter().filter(|news| news.plugin == name).cloned().collect();
        let lives = lives(&own, record, lines.remove(&name).unwrap_or_default())?;
        let count = lives.len();
        for (number, life) in (1..).zip(lives) {
            let (of, wrong) = judge_life(history, records, record, life, number == count)?;
            judged.add(of);
            faults
                .extend(wrong.into_iter().map(|fault| format!("{name}, life {number} of {count}: {fault}")));
        }
    }
    Ok((judged, faults))
}

impl Judged {
    fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.versions += other.versions;
        self.attempts += other.attempts;
        self.done += other.done;
        self.rollbacks += other.rollbacks;
    }
}

/// Divides a plugin's news and lines among its lives.
fn lives(news: &[News], record: &Record, lines: Vec<Line>) -> Result<Vec<Life>> {
    let mut lives = vec![Life::default()];
    for news in news {
        let Some(life) = lives.last_mut() else { break };
        match &news.what {
            What::Arrived(arrival) => life.arrivals.push(arrival.clone()),
            What::Stopped => {
                life.stopped = Some(news.at);
                lives.push(Life::default());
            }
        }
    }
    for line in lines {
        let to = line.ts.parse::<Timestamp>().with_context(|| line.ts.clone())?.as_microsecond();
        let span = Span { from: to - Moment::try_from(line.micros)?, to };
        let over =
            |life: &Life| life.stopped.is_some_and(|stopped| span.from >= begins_after(stopped, record));
        let at = lives.iter().take_while(|life| over(life)).count();
        let at = at.min(lives.len() - 1);
        if let Some(life) = lives.get_mut(at) {
            life.lines.push((line, span));
        }
    }
    lives.retain(|life| !life.arrivals.is_empty() || !life.lines.is_empty());
    Ok(lives)
}

/// The moment from which on events are the next life's: when the file came back. It may come while Hark is about to say
/// that it is gone.
fn begins_after(stopped: Moment, record: &Record) -> Moment {
    const ABOUT_TO: Moment = 1_500_000;
    let back = record.added.iter().copied().find(|added| *added >= stopped - ABOUT_TO);
    back.unwrap_or(Moment::MAX).max(stopped)
}

fn judge_life(
    history: &History,
    records: &Records,
    record: &Record,
    mut life: Life,
    is_last: bool,
) -> Result<(Judged, Vec<String>)> {
    let tallies = trials::tallies(&life.lines, life.arrivals.len());
    life.lines.retain(|(line, _)| is_ours(line));
    let ran = ran(records, record, &life)?;
    let mut trials = Trials::new(record);
    for (ran, tally) in ran.iter().zip(tallies) {
        let rollback = treatment(record, ran.arrival.at).rollback;
        let instances = if ran.plan.memory.is_some() { ran.instances } else { 0 };
        trials.enter(&Tried { arrival: ran.arrival, rollback, instances }, tally);
    }
    let (mut faults, memory_of) = trials.end(life.stopped.is_some());
    faults.extend(memory::faults(&ran, &memory_of, &life.lines));
    let versions = versions(records, record, &life, &mut faults)?;
    let mut account = Account::new(history, &versions, &record.lax);
    let mut late = 0;
    for (line, span) in &life.lines {
        late += usize::from(life.stopped.is_some_and(|stopped| span.from > stopped));
        account.enter(&line.subscription, &entry(line), *span);
    }
    // Each instance may have had an event in its hands.
    let instances = life.arrivals.last().map_or(1, |arrival| instances(records, record, arrival));
    if late > instances {
        faults.push(format!("{late} events after its file was gone"));
    }
    let judged = Judged {
        lives: 1,
        versions: versions.len(),
        attempts: account.attempts,
        done: account.done,
        rollbacks: life.arrivals.iter().filter(|arrival| arrival.back.is_some()).count(),
    };
    if life.stopped.is_none() && is_last && !record.present {
        faults.push("it was not stopped, although its file is gone".into());
    }
    faults.extend(if life.stopped.is_none() { account.settled() } else { account.over() });
    Ok((judged, faults))
}

/// Whether an event is of an object of the suite: the server has others.
fn is_ours(line: &Line) -> bool {
    let name = line.key.rsplit('/').next().unwrap_or_default();
    line.key.starts_with("reloads-") && (name.starts_with("object-") || name == "last")
}

/// The versions of a life as their memory sees them.
fn ran<'a>(records: &'a Records, record: &Record, life: &'a Life) -> Result<Vec<memory::Ran<'a>>> {
    let of = |arrival: &'a Arrival| {
        let plan = plan(records, arrival).with_context(|| format!("the log says {arrival:?}"))?;
        let replays = treatment(record, arrival.at).replays.or(plan.replays).unwrap_or(true);
        Ok(memory::Ran { arrival, plan, replays, instances: instances(records, record, arrival) })
    };
    life.arrivals.iter().map(of).collect()
}

/// The versions of a life, by the log.
fn versions(
    records: &Records,
    record: &Record,
    life: &Life,
    faults: &mut Vec<String>,
) -> Result<Vec<Version>> {
    let mut versions: Vec<Version> = Vec::new();
    for (generation, arrival) in (1..).zip(&life.arrivals) {
        let plan = plan(records, arrival).with_context(|| format!("the log says {arrival:?}"))?;
        let treatment = treatment(record, arrival.at);
        let replays =
            treatment.replays.or(plan.replays).unwrap_or(true) || arrival.carried == Carried::Afresh;
        let until = life.stopped.unwrap_or(Moment::MAX);
        let settled = |(at, of): &&(Moment, u64)| *of == generation && (arrival.at..until).contains(at);
        let settled = record.settled.iter().find(settled).map(|(at, _)| *at);
        let version = Version { watches: plan.watches.clone(), replays, since: arrival.at, settled };
        if let Some(before) = versions.last() {
            faults.extend(wrong_change(before, &version, arrival));
        }
        versions.push(version);
    }
    Ok(versions)
}

/// Whether the log tells of other numbers of subscriptions that were kept, added and removed than the versions have.
fn wrong_change(before: &Version, now: &Version, arrival: &Arrival) -> Option<String> {
    let said = arrival.subscriptions?;
    let lacks = |version: &Version, watch| !version.watches.iter().any(|other| other.is_kept_as(watch));
    let added = now.watches.iter().filter(|watch| lacks(before, watch)).count();
    let removed = before.watches.iter().filter(|watch| lacks(now, watch)).count();
    (said != [now.watches.len() - added, added, removed].map(|count| count as u64))
        .then(|| format!("{before:?} became {now:?}, but the log says {arrival:?}"))
}

fn plan<'a>(records: &'a Records, arrival: &Arrival) -> Option<&'a Plan> {
    let (hash, plan) = records.plans.range(arrival.hash.clone()..).next()?;
    hash.starts_with(&arrival.hash).then_some(plan)
}

fn treatment(record: &Record, at: Moment) -> Treatment {
    let then = record.treatments.iter().rev().find(|(from, _)| *from <= at);
    then.map(|(_, treatment)| *treatment).unwrap_or_default()
}

fn instances(records: &Records, record: &Record, arrival: &Arrival) -> usize {
    let proposed = plan(records, arrival).and_then(|plan| plan.concurrency);
    let count = treatment(record, arrival.at).concurrency.or(proposed).unwrap_or(1);
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn entry(line: &Line) -> Entry<'_> {
    Entry {
        plugin: &line.plugin,
        generation: line.generation,
        op: &line.op,
        key: &line.key,
        uid: &line.uid,
        rv: &line.rv,
        old_rv: line.old_rv.as_deref(),
        attempt: line.attempt,
        initial: line.initial,
        resync: line.resync,
        outcome: &line.outcome,
        seq: line.seq,
    }
}

#[cfg(test)]
mod tests;
