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
//! command started with, or starts another one, unless [`super::outputs`] takes it for the command's own; between two
//! changes of somebody else's only so many commands are ended ([`MOST_ENDED`], twice).

use super::outputs::Next;
use super::snapshot::Changes;

/// A build that is outdated again and again is left to finish after so many, or it would never show a result; and so are
/// all the repeats that follow.
const MOST_ENDED: u32 = 3;

/// Why a build runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// What has changed; nothing: Hark started, or the configuration is new.
    pub(super) changes: Changes,
    /// It is a repeat: all of it came while the build ran, so it may be its own.
    pub(super) repeat: bool,
}

/// Where a build stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The sources are as they were when it ran last.
    Idle,
    /// It is to run, and waits for its turn.
    Due(Cause),
    /// It is to run once more, for what may be its own: when nobody has changed anything for a while.
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
    /// These have outdated it, but it is left to finish; said once.
    LetFinish(Changes),
    /// Look at what changed while it ran.
    Look,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Machine {
    state: State,
    /// Commands that were ended since they were outdated: before one has finished that a change of somebody else's had
    /// started, and then among its repeats.
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
        let state = match (state, input) {
            (State::Running(cause), Input::Stop) => {
                return (State::Ending { cause, stop: true }, Action::End);
            }
            (State::Ending { cause, .. }, Input::Stop) => State::Ending { cause, stop: true },
            (State::Stopped, _) | (_, Input::Stop) => State::Stopped,
            (State::Idle, Input::Begin) => State::Due(Cause::default()),
            (State::Idle, Input::Changed(changes)) => {
                self.forget_ended();
                State::Due(Cause { changes, repeat: false })
            }
            (State::Resting(cause), Input::Changed(changes)) => {
                self.forget_ended();
                State::Due(joined(cause, changes))
            }
            (State::Due(cause), Input::Changed(changes)) => State::Due(joined(cause, changes)),
            (State::Resting(cause), Input::Rested) => State::Due(cause),
            (State::Due(cause), Input::Turn) => return (State::Running(cause), Action::Start),
            (State::Running(cause), Input::Changed(changes)) => return self.outdated(cause, changes),
            (State::Running(cause), Input::Ended) => {
                if !cause.repeat {
                    self.forget_ended();
                }
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

    /// A run that was a repeat stays one: whatever outdates it came while the build ran.
    fn outdated(&mut self, mut cause: Cause, changes: Changes) -> (State, Action) {
        if self.ended >= MOST_ENDED {
            let action = if self.told { Action::Nothing } else { Action::LetFinish(changes) };
            self.told = true;
            return (State::Running(cause), action);
        }
        self.ended += 1;
        cause.changes.extend(changes.clone());
        (State::Ending { cause, stop: false }, Action::EndOutdated(changes))
    }

    fn forget_ended(&mut self) {
        self.ended = 0;
        self.told = false;
    }
}

/// What was to run runs for this too, which is somebody else's.
fn joined(mut cause: Cause, changes: Changes) -> Cause {
    cause.changes.extend(changes);
    cause.repeat = false;
    cause
}

fn after(next: Next) -> State {
    let repeat = |changes| Cause { changes, repeat: true };
    match next {
        Next::Nothing | Next::GiveUp(_) => State::Idle,
        Next::Repeat(changes) => State::Due(repeat(changes)),
        Next::RepeatAfterRest(changes) => State::Resting(repeat(changes)),
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
            State::Resting(cause) => ("resting", Some(cause)),
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
        let own = if cause.is_some_and(|cause| cause.repeat) { " own" } else { "" };
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

    use Action::{End, EndOutdated, LetFinish, Look, Nothing, Start};
    use Input::{Begin, Ended, Looked, Rested, Stop, Turn};
    use Next::{GiveUp, Repeat, RepeatAfterRest};

    #[test]
    fn a_build_runs_at_the_start_and_when_its_sources_change() {
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Ended, Look, "over"),
            (Looked(Next::Nothing), Nothing, "idle"),
            (Turn, Nothing, "idle"),
            (changed("a"), Nothing, "due a"),
            (changed("b"), Nothing, "due a+b"),
            (Turn, Start, "running a+b"),
            (Turn, Nothing, "running a+b"),
            (Ended, Look, "over a+b"),
            (changed("c"), Nothing, "over a+b"),
            (Looked(Repeat(changes("c"))), Nothing, "due c own"),
            (Turn, Start, "running c own"),
            (Ended, Look, "over c own"),
            (Looked(Next::Nothing), Nothing, "idle"),
        ]);
    }

    #[test]
    fn what_is_outdated_is_ended_and_run_again_for_all_that_changed() {
        check(vec![
            (changed("a"), Nothing, "due a"),
            (Turn, Start, "running a"),
            (changed("b"), EndOutdated(changes("b")), "ending a+b"),
            (changed("c"), Nothing, "ending a+b"),
            (Turn, Nothing, "ending a+b"),
            (Ended, Look, "over early a+b"),
            (Looked(Next::Nothing), Nothing, "due a+b"),
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
            (Looked(Repeat(changes("out"))), Nothing, "due out own"),
            (changed("a"), Nothing, "due a+out"),
        ]);
    }

    /// A run that is outdated and ended.
    fn ended(
        running: &'static str,
        ending: &'static str,
        due: &'static str,
    ) -> Vec<(Input, Action, &'static str)> {
        let over = match ending {
            "ending a own" => "over early a own",
            _ => "over early a",
        };
        vec![
            (Turn, Start, running),
            (changed("a"), EndOutdated(changes("a")), ending),
            (Ended, Look, over),
            (Looked(Next::Nothing), Nothing, due),
        ]
    }

    #[test]
    fn one_that_is_outdated_each_time_is_left_to_finish_after_three_and_so_are_its_repeats() {
        let mut steps = vec![(changed("a"), Nothing, "due a")];
        for _ in 0..MOST_ENDED {
            steps.extend(ended("running a", "ending a", "due a"));
        }
        steps.extend([
            (Turn, Start, "running a"),
            (changed("a"), LetFinish(changes("a")), "running a"),
            (changed("a"), Nothing, "running a"),
            (Ended, Look, "over a"),
            (Looked(Repeat(changes("a"))), Nothing, "due a own"),
        ]);
        for _ in 0..MOST_ENDED {
            steps.extend(ended("running a own", "ending a own", "due a own"));
        }
        steps.extend([
            (Turn, Start, "running a own"),
            (changed("a"), LetFinish(changes("a")), "running a own"),
            (Ended, Look, "over a own"),
            (Looked(RepeatAfterRest(changes("a"))), Nothing, "resting a own"),
            (Rested, Nothing, "due a own"),
            (Turn, Start, "running a own"),
            (changed("a"), Nothing, "running a own"),
            (Ended, Look, "over a own"),
            (Looked(RepeatAfterRest(changes("a"))), Nothing, "resting a own"),
            // Somebody else's: all of it begins anew.
            (changed("a"), Nothing, "due a"),
        ]);
        steps.extend(ended("running a", "ending a", "due a"));
        check(steps);
    }

    #[test]
    fn a_repeat_waits_for_a_rest_and_what_changes_in_it_is_somebody_elses() {
        let resting = [
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Ended, Look, "over"),
            (Looked(RepeatAfterRest(changes("out"))), Nothing, "resting out own"),
            (Turn, Nothing, "resting out own"),
        ];
        let then = |steps: Vec<(Input, Action, &'static str)>| check([resting.to_vec(), steps].concat());
        then(vec![
            (Rested, Nothing, "due out own"),
            (Rested, Nothing, "due out own"),
            (Turn, Start, "running out own"),
            (Ended, Look, "over out own"),
            (Looked(GiveUp(changes("out"))), Nothing, "idle"),
            (Rested, Nothing, "idle"),
        ]);
        then(vec![(changed("a"), Nothing, "due a+out"), (Turn, Start, "running a+out")]);
        then(vec![(Stop, Nothing, "stopped"), (Rested, Nothing, "stopped")]);
    }

    #[test]
    fn it_stops_from_every_state_and_never_while_a_command_runs() {
        check(vec![(Stop, Nothing, "stopped"), (Begin, Nothing, "stopped")]);
        check(vec![(Begin, Nothing, "due"), (Stop, Nothing, "stopped"), (Turn, Nothing, "stopped")]);
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (Stop, End, "stopping"),
            (Stop, Nothing, "stopping"),
            (changed("a"), Nothing, "stopping"),
            (Ended, Nothing, "stopped"),
        ]);
        check(vec![
            (Begin, Nothing, "due"),
            (Turn, Start, "running"),
            (changed("a"), EndOutdated(changes("a")), "ending a"),
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
