//! Where a build stands, and what follows: the state machine of [`super::builder`], without processes or files.
//!
//! ```text
//!            changes                turn                    ends             looked
//!    Idle ───────────────► Due ───────────────► Running ───────────► Over ───────────► Idle, or Due
//!                           ▲                     │ outdated          ▲
//!                           │                     ▼           ends    │
//!                           └──── after Over    Ending ───────────────┘
//!    any ── stop ──► Stopped, by way of Ending if a command runs
//! ```
//!
//! Invariants: one command runs at a time, and none while its group is not empty; a change is either part of what a
//! command started with, or starts another one.

use super::snapshot::Changes;

/// A build that is outdated again and again is left to finish after so many, or it would never show a result.
const MOST_ENDED: u32 = 3;

/// Why a build runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// What has changed; nothing: Hark started, or the configuration is new.
    pub(super) changes: Changes,
    /// All of it came while the build ran, so it may be its own.
    pub(super) own: bool,
}

/// Where a build stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The sources are as they were when it ran last.
    Idle,
    /// It is to run, and waits for its turn.
    Due(Cause),
    /// Its command runs.
    Running(Cause),
    /// Its command is outdated, or Hark stops: it is being ended.
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
    /// No other build runs.
    Turn,
    /// The command has ended, and every process of its group.
    Ended,
    /// What changed while it ran, as far as that is a reason to run again.
    Looked(Option<Changes>),
    /// Hark stops, or the configuration has the build no more.
    Stop,
}

/// What is to be done then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Start the command.
    Start,
    /// End the command: these have outdated it; none: it is not wanted any more.
    End(Option<Changes>),
    /// It is outdated, but left to finish; said once a run.
    LetFinish,
    /// Look at what changed while it ran.
    Look,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Machine {
    state: State,
    /// Commands in a row that were ended since they were outdated.
    ended: u32,
    /// It was said that the command may finish.
    told: bool,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { state: State::Idle, ended: 0, told: false }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// What follows.
    pub(super) fn step(&mut self, input: Input) -> Action {
        let state = std::mem::replace(&mut self.state, State::Stopped);
        let (state, action) = self.next(state, input);
        self.state = state;
        action
    }

    fn next(&mut self, state: State, input: Input) -> (State, Action) {
        match (state, input) {
            (State::Running(cause), Input::Stop) => (State::Ending { cause, stop: true }, Action::End(None)),
            (State::Ending { cause, .. }, Input::Stop) => {
                (State::Ending { cause, stop: true }, Action::Nothing)
            }
            (State::Stopped, _) | (_, Input::Stop) => (State::Stopped, Action::Nothing),
            (State::Idle, Input::Begin) => (State::Due(Cause::default()), Action::Nothing),
            (State::Idle, Input::Changed(changes)) => {
                (State::Due(Cause { changes, own: false }), Action::Nothing)
            }
            (State::Due(mut cause), Input::Changed(changes)) => {
                cause.changes.extend(changes);
                cause.own = false;
                (State::Due(cause), Action::Nothing)
            }
            (State::Due(cause), Input::Turn) => {
                self.told = false;
                (State::Running(cause), Action::Start)
            }
            (State::Running(cause), Input::Changed(changes)) => self.outdated(cause, changes),
            (State::Running(cause), Input::Ended) => {
                self.ended = 0;
                (State::Over { cause, early: false }, Action::Look)
            }
            (State::Ending { stop: true, .. }, Input::Ended) => (State::Stopped, Action::Nothing),
            (State::Ending { cause, stop: false }, Input::Ended) => {
                (State::Over { cause, early: true }, Action::Look)
            }
            (State::Over { cause, early: true }, Input::Looked(_)) => (State::Due(cause), Action::Nothing),
            (State::Over { .. }, Input::Looked(Some(changes))) => {
                (State::Due(Cause { changes, own: true }), Action::Nothing)
            }
            (State::Over { .. }, Input::Looked(None)) => (State::Idle, Action::Nothing),
            // Whatever else comes, comes too late or too early to mean anything.
            (state, _) => (state, Action::Nothing),
        }
    }

    fn outdated(&mut self, mut cause: Cause, changes: Changes) -> (State, Action) {
        if self.ended >= MOST_ENDED {
            let action = if self.told { Action::Nothing } else { Action::LetFinish };
            self.told = true;
            return (State::Running(cause), action);
        }
        self.ended += 1;
        cause.changes.extend(changes.clone());
        cause.own = false;
        (State::Ending { cause, stop: false }, Action::End(Some(changes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(name: &str) -> Changes {
        let mut changes = Changes::default();
        changes.modified.insert(name.into());
        changes
    }

    fn changed(name: &str) -> Input {
        Input::Changed(changes(name))
    }

    /// The state's name and what it runs or is to run for.
    fn shown(machine: &Machine) -> String {
        let (name, cause) = match machine.state() {
            State::Idle => ("idle", None),
            State::Due(cause) => ("due", Some(cause)),
            State::Running(cause) => ("running", Some(cause)),
            State::Ending { cause, stop: false } => ("ending", Some(cause)),
            State::Ending { cause, stop: true } => ("stopping", Some(cause)),
            State::Over { cause, early: false } => ("over", Some(cause)),
            State::Over { cause, early: true } => ("over early", Some(cause)),
            State::Stopped => ("stopped", None),
        };
        let names: Vec<String> = cause
            .iter()
            .flat_map(|cause| cause.changes.paths())
            .map(|path| path.display().to_string())
            .collect();
        let own = if cause.is_some_and(|cause| cause.own) { " own" } else { "" };
        format!("{name} {}{own}", names.join("+")).trim_end().to_owned()
    }

    /// Each step with the action and the state that must follow.
    fn check(steps: Vec<(Input, Action, &str)>) {
        let mut machine = Machine::new();
        for (place, (input, action, state)) in steps.into_iter().enumerate() {
            assert_eq!(machine.step(input.clone()), action, "step {place}, {input:?}");
            assert_eq!(shown(&machine), state, "step {place}, {input:?}");
        }
    }

    use Action::{End, LetFinish, Look, Nothing, Start};
    use Input::{Begin, Ended, Looked, Stop, Turn};

    #[test]
    fn a_build_runs_at_the_start_and_when_its_sources_change() {
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Ended, Look, "over"),
            (Looked(None), Nothing, "idle"),
            (Turn, Nothing, "idle"),
            (changed("a"), Nothing, "due a"),
            (changed("b"), Nothing, "due a+b"),
            (Turn, Start, "running a+b"),
            (Turn, Nothing, "running a+b"),
            (Ended, Look, "over a+b"),
            (changed("c"), Nothing, "over a+b"),
            (Looked(Some(changes("c"))), Nothing, "due c own"),
            (Turn, Start, "running c own"),
            (Ended, Look, "over c own"),
            (Looked(None), Nothing, "idle"),
        ]);
    }

    #[test]
    fn what_is_outdated_is_ended_and_run_again_for_all_that_changed() {
        check(vec![
            (changed("a"), Nothing, "due a"),
            (Turn, Start, "running a"),
            (changed("b"), End(Some(changes("b"))), "ending a+b"),
            (changed("c"), Nothing, "ending a+b"),
            (Turn, Nothing, "ending a+b"),
            (Ended, Look, "over early a+b"),
            (Looked(None), Nothing, "due a+b"),
            (Turn, Start, "running a+b"),
            (Ended, Look, "over a+b"),
        ]);
    }

    #[test]
    fn a_build_that_waits_for_its_turn_for_its_own_outputs_is_somebody_elses_if_more_changes() {
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Ended, Look, "over"),
            (Looked(Some(changes("out"))), Nothing, "due out own"),
            (changed("a"), Nothing, "due a+out"),
        ]);
    }

    #[test]
    fn one_that_is_outdated_each_time_is_left_to_finish_after_three() {
        let mut steps = vec![(changed("a"), Nothing, "due a")];
        for _ in 0..MOST_ENDED {
            steps.extend([
                (Turn, Start, "running a"),
                (changed("a"), End(Some(changes("a"))), "ending a"),
                (Ended, Look, "over early a"),
                (Looked(None), Nothing, "due a"),
            ]);
        }
        steps.extend([
            (Turn, Start, "running a"),
            (changed("a"), LetFinish, "running a"),
            (changed("a"), Nothing, "running a"),
            (Ended, Look, "over a"),
            (Looked(Some(changes("a"))), Nothing, "due a own"),
            (Turn, Start, "running a own"),
            (changed("b"), End(Some(changes("b"))), "ending a+b"),
        ]);
        check(steps);
    }

    #[test]
    fn it_stops_from_every_state_and_never_while_a_command_runs() {
        check(vec![(Stop, Nothing, "stopped"), (Begin, Nothing, "stopped")]);
        check(vec![(Begin, Nothing, "due"), (Stop, Nothing, "stopped"), (Turn, Nothing, "stopped")]);
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Stop, End(None), "stopping"),
            (Stop, Nothing, "stopping"),
            (changed("a"), Nothing, "stopping"),
            (Ended, Nothing, "stopped"),
        ]);
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (changed("a"), End(Some(changes("a"))), "ending a"),
            (Stop, Nothing, "stopping a"),
            (Ended, Nothing, "stopped"),
        ]);
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Ended, Look, "over"),
            (Stop, Nothing, "stopped"),
        ]);
    }
}
