//! Where a build stands, and what follows: the state machine of [`super::builder`], without processes or files.
//!
//! ```text
//!            changes                turn                    ends             looked
//!    Idle ───────────────► Due ───────────────► Running ───────────► Over ───────────► Idle, Due or Resting
//!                          ▲ ▲                    │ outdated          ▲
//!      changes, or rested  │ │                    ▼           ends    │
//!    Resting ──────────────┘ └─── after Over    Ending ───────────────┘
//!    any ── stop ──► Stopped, by way of Ending if a command runs
//! ```
//!
//! Invariants: one command runs at a time, and none while its group is not empty; a change is either part of what a
//! command started with, or starts another one, unless [`super::outputs`] takes it for the command's own; only so many
//! commands in a row are ended before they have had their time ([`MOST_ENDED`]).

#[cfg(test)]
mod tests;

use super::outputs::{Kind, Next};
use super::snapshot::Changes;

/// A build that is outdated again and again is left to finish after so many, or it would never show a result: until its
/// patience is over ([`super::course`]).
const MOST_ENDED: u32 = 3;

/// Why a build runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// What has changed; nothing: Hark started, the configuration is new, or it is a confirmation. In a repeat all of it
    /// came while the build ran, so it may be its own.
    pub(super) changes: Changes,
    pub(super) kind: Kind,
}

/// Where a build stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The sources are as they were when it ran last.
    Idle,
    /// It is to run, and waits for its turn.
    Due(Cause),
    /// It is to run once more, for what may be its own, or is to be made sure of: when nobody has changed anything for a
    /// while.
    Resting(Cause),
    /// Its command runs.
    Running(Cause),
    /// Its command is outdated, or is not wanted any more: it is being ended.
    Ending { cause: Cause, stop: bool },
    /// Its command has ended; what changed meanwhile is not known yet. `early`: it was outdated, so it is due again.
    Over { cause: Cause, early: bool },
    /// For good.
    Stopped,
}

/// What can happen to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// It is to run although nothing has changed.
    Begin,
    /// Sources have changed. While the command runs: those that outdate it.
    Changed(Changes),
    /// The command may have done these itself.
    Doubtful(Changes),
    /// The command has had its time, and these have changed in it: what outdates it, and what is doubtful.
    Overdue(Changes),
    /// The rest is over, and nothing has changed in it.
    Rested,
    /// No other build runs.
    Turn,
    /// The command has ended, and every process of its group.
    Ended,
    /// What follows from what changed while it ran.
    Looked(Next),
    /// Hark stops, or the configuration has the build no more.
    Stop,
}

/// What is to be done then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Start the command.
    Start,
    /// End the command: it is not wanted any more.
    End,
    /// End the command: these have outdated it.
    EndOutdated(Changes),
    /// End the command: it was left to finish although these have changed, and has had its time.
    EndOverdue(Changes),
    /// These have outdated it, but it is left to finish; said once a run.
    LetFinish(Changes),
    /// These have changed, and it goes on, since they may be its own; said once a run.
    Doubt(Changes),
    /// Look at what changed while it ran.
    Look,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Machine {
    state: State,
    /// Commands that were ended since they were outdated: since the last one that was not, or a change while none ran.
    ended: u32,
    /// It was said that the command that runs is left to finish; that it may have done something itself.
    told: (bool, bool),
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { state: State::Idle, ended: 0, told: (false, false) }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Whether the command that runs is left to finish when it is outdated.
    pub(super) fn lets_finish(&self) -> bool {
        self.ended >= MOST_ENDED
    }

    /// What follows.
    pub(super) fn step(&mut self, input: Input) -> Action {
        let state = std::mem::replace(&mut self.state, State::Stopped);
        let (state, action) = self.next(state, input);
        self.state = state;
        action
    }

    fn next(&mut self, state: State, input: Input) -> (State, Action) {
        let state = match (state, input) {
            (State::Running(cause), Input::Stop) => {
                return (State::Ending { cause, stop: true }, Action::End);
            }
            (State::Ending { cause, .. }, Input::Stop) => State::Ending { cause, stop: true },
            (State::Stopped, _) | (_, Input::Stop) => State::Stopped,
            (State::Idle, Input::Begin) => State::Due(Cause::default()),
            (State::Idle, Input::Changed(changes)) => {
                self.ended = 0;
                State::Due(Cause { changes, kind: Kind::Change })
            }
            (State::Resting(cause), Input::Changed(changes)) => {
                self.ended = 0;
                State::Due(joined(cause, changes))
            }
            (State::Due(cause), Input::Changed(changes)) => State::Due(joined(cause, changes)),
            (State::Resting(cause), Input::Rested) => State::Due(cause),
            (State::Due(cause), Input::Turn) => {
                self.told = (false, false);
                return (State::Running(cause), Action::Start);
            }
            (State::Running(cause), Input::Changed(changes)) => return self.outdated(cause, changes),
            (State::Running(cause), Input::Doubtful(changes)) => {
                let told = std::mem::replace(&mut self.told.1, true);
                let action = if told { Action::Nothing } else { Action::Doubt(changes) };
                return (State::Running(cause), action);
            }
            (State::Running(cause), Input::Overdue(changes)) => {
                return (ending(cause, changes.clone()), Action::EndOverdue(changes));
            }
            (State::Running(cause), Input::Ended) => {
                self.ended = 0;
                return (State::Over { cause, early: false }, Action::Look);
            }
            (State::Ending { stop: true, .. }, Input::Ended) => State::Stopped,
            (State::Ending { cause, stop: false }, Input::Ended) => {
                return (State::Over { cause, early: true }, Action::Look);
            }
            (State::Over { cause, early: true }, Input::Looked(_)) => State::Due(cause),
            (State::Over { .. }, Input::Looked(next)) => after(next),
            // Whatever else comes, comes too late or too early to mean anything.
            (state, _) => state,
        };
        (state, Action::Nothing)
    }

    fn outdated(&mut self, cause: Cause, changes: Changes) -> (State, Action) {
        if self.lets_finish() {
            let told = std::mem::replace(&mut self.told.0, true);
            let action = if told { Action::Nothing } else { Action::LetFinish(changes) };
            return (State::Running(cause), action);
        }
        self.ended += 1;
        (ending(cause, changes.clone()), Action::EndOutdated(changes))
    }
}

/// A run that was a repeat, or a confirmation, stays one: whatever outdates it came while the build ran.
fn ending(mut cause: Cause, changes: Changes) -> State {
    cause.changes.extend(changes);
    State::Ending { cause, stop: false }
}

/// What was to run runs for this too, which is somebody else's.
fn joined(mut cause: Cause, changes: Changes) -> Cause {
    cause.changes.extend(changes);
    cause.kind = Kind::Change;
    cause
}

fn after(next: Next) -> State {
    let repeat = |changes| Cause { changes, kind: Kind::Repeat };
    match next {
        Next::Nothing | Next::GiveUp(_) => State::Idle,
        Next::Repeat(changes) => State::Due(repeat(changes)),
        Next::RepeatAfterRest(changes) => State::Resting(repeat(changes)),
        Next::Confirm => State::Resting(Cause { changes: Changes::default(), kind: Kind::Confirmation }),
    }
}
