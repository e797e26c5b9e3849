//! The course of a build: where it stands, and what it writes, brought together; without processes, files or the clock.
//!
//! Used by [`super::builder`], which does what it says, and by the model of [`super::outputs`]. Invariant: whatever is told
//! of changes is told once: to [`super::outputs`], as somebody else's or as what came while the build ran, and then to
//! [`super::state`].

use std::collections::BTreeSet;

use super::outputs::{Next, Outputs, Ran, Verdict};
use super::snapshot::Changes;
use super::state::{Action, Input, Machine, State};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Course {
    machine: Machine,
    outputs: Outputs,
}

impl Course {
    pub(super) fn new() -> Self {
        Self { machine: Machine::new(), outputs: Outputs::default() }
    }

    pub(super) fn state(&self) -> &State {
        self.machine.state()
    }

    /// Something has happened: what is to be done.
    pub(super) fn step(&mut self, input: Input) -> Action {
        self.machine.step(input)
    }

    /// Whether what changes now is somebody else's. Then it is told once and done with; otherwise it is told again when
    /// the command has ended.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state(), State::Idle | State::Due(_) | State::Resting(_))
    }

    /// A look has found changes. Gives what has happened by that, if anything.
    pub(super) fn found(&mut self, changes: Changes) -> Option<Input> {
        if self.is_at_rest() {
            self.outputs.changed_at_rest(&changes);
            return Some(Input::Changed(changes));
        }
        let outdating = match self.state() {
            State::Running(_) => self.outputs.outdates(&changes),
            _ => Changes::default(),
        };
        (!outdating.is_empty()).then_some(Input::Changed(outdating))
    }

    /// The command has ended; these have changed since it began. `well`: it did what it should. What follows is to be
    /// told to [`Course::step`].
    pub(super) fn over(&mut self, changes: &Changes, well: bool) -> Verdict {
        match self.machine.state() {
            State::Over { cause, early: false } => {
                self.outputs.done(changes, Ran { repeat: cause.repeat, well })
            }
            _ => {
                self.outputs.ended_early(changes);
                Verdict { learned: BTreeSet::new(), taken_back: BTreeSet::new(), next: Next::Nothing }
            }
        }
    }
}
