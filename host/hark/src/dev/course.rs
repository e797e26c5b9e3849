//! The course of a build: where it stands, and what it writes, brought together; without processes, files or the clock.
//!
//! Used by [`super::builder`], which does what it says, and by the model of [`super::outputs`]. Invariant: whatever is told
//! of changes is told once: to [`super::outputs`], as somebody else's or as what came while the build ran, and then to
//! [`super::state`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::outputs::{Meanwhile, Next, Outputs, Ran, Verdict};
use super::snapshot::Changes;
use super::state::{Action, Input, Machine, State};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Course {
    machine: Machine,
    outputs: Outputs,
    patience: Patience,
}

/// How often the patience is doubled, at most: 16 minutes are enough for any build of a plugin.
const MOST_DOUBLED: u32 = 4;

/// How long a command may run on although something has changed that is not known to be its own doing: it may hang.
#[derive(Debug)]
struct Patience {
    least: Duration,
    /// Of the commands that ended by themselves.
    longest: Duration,
    /// Commands that were ended for it, since one has ended by itself. Each doubles it: a build that takes longer than
    /// ever, and writes among its sources, comes to its end all the same. Up to [`MOST_DOUBLED`]: one that hangs must not be
    /// waited for for hours.
    spent: u32,
}

impl Course {
    /// `least`: the patience, if no command runs longer than half of it.
    pub(super) fn new(least: Duration) -> Self {
        let patience = Patience { least, longest: Duration::ZERO, spent: 0 };
        Self { machine: Machine::new(), outputs: Outputs::default(), patience }
    }

    pub(super) fn state(&self) -> &State {
        self.machine.state()
    }

    /// Something has happened: what is to be done.
    pub(super) fn step(&mut self, input: Input) -> Action {
        let action = self.machine.step(input);
        if matches!(action, Action::EndOverdue(_)) {
            self.patience.spent += 1;
        }
        action
    }

    /// How long the command may run on, from its start, after something has changed that is not known to be its own.
    pub(super) fn patience(&self) -> Duration {
        let Patience { least, longest, spent } = self.patience;
        least.max(longest.saturating_mul(2)).saturating_mul(1 << spent.min(MOST_DOUBLED))
    }

    /// Whether what changes now is somebody else's. Then it is told once and done with; otherwise it is told again when
    /// the command has ended.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state(), State::Idle | State::Due(_) | State::Resting(_))
    }

    /// A look has found changes. Gives what has happened by that, if anything. `ran`: for so long the command has run.
    pub(super) fn found(&mut self, changes: Changes, ran: Duration) -> Option<Input> {
        if self.is_at_rest() {
            self.outputs.changed_at_rest(&changes);
            return Some(Input::Changed(changes));
        }
        if !matches!(self.state(), State::Running(_)) {
            return None;
        }
        let Meanwhile { mut outdating, doubtful } = self.outputs.meanwhile(&changes);
        let is_outdated = !outdating.is_empty();
        if is_outdated && !self.machine.lets_finish() {
            return Some(Input::Changed(outdating));
        }
        if ran >= self.patience() {
            outdating.extend(doubtful);
            return (!outdating.is_empty()).then_some(Input::Overdue(outdating));
        }
        if is_outdated {
            return Some(Input::Changed(outdating));
        }
        (!doubtful.is_empty()).then_some(Input::Doubtful(doubtful))
    }

    /// The command has ended, after so long; these have changed since it began. `well`: it did what it should. What
    /// follows is to be told to [`Course::step`].
    pub(super) fn over(&mut self, changes: &Changes, well: bool, ran: Duration) -> Verdict {
        match self.machine.state() {
            State::Over { cause, early: false } => {
                self.patience.longest = self.patience.longest.max(ran);
                self.patience.spent = 0;
                self.outputs.done(changes, Ran { kind: cause.kind, well })
            }
            _ => {
                self.outputs.ended_early(changes);
                Verdict { learned: BTreeSet::new(), taken_back: BTreeSet::new(), next: Next::Nothing }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_secs(60);

    fn written(name: &str) -> Changes {
        let mut changes = Changes::default();
        changes.modified.insert(name.into());
        changes
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn started() -> Course {
        let mut course = Course::new(LEAST);
        course.step(Input::Begin);
        assert_eq!(course.step(Input::Turn), Action::Start);
        course
    }

    /// Something changes when it has run for so long: what is done.
    fn change(course: &mut Course, changes: &Changes, ran: u64) -> Action {
        let input = course.found(changes.clone(), seconds(ran)).expect("something has happened");
        course.step(input)
    }

    /// The command was ended, and runs again.
    fn again(course: &mut Course, changes: &Changes, ran: u64) {
        assert_eq!(course.step(Input::Ended), Action::Look);
        let verdict = course.over(changes, false, seconds(ran));
        course.step(Input::Looked(verdict.next));
        assert_eq!(course.step(Input::Turn), Action::Start);
    }

    #[test]
    fn a_build_that_hangs_is_ended_for_each_save_however_often_that_file_has_changed_in_runs() {
        let (mut course, save) = (started(), written("a"));
        for _ in 0..2 {
            assert_eq!(change(&mut course, &save, 4), Action::EndOutdated(save.clone()));
            again(&mut course, &save, 4);
        }
        // Now it may be its own, and each run that is ended for it has twice the time.
        for time in [60, 120, 240] {
            assert_eq!(course.patience(), seconds(time));
            assert_eq!(change(&mut course, &save, 4), Action::Doubt(save.clone()));
            assert_eq!(change(&mut course, &save, time - 1), Action::Nothing);
            assert_eq!(change(&mut course, &save, time), Action::EndOverdue(save.clone()));
            again(&mut course, &save, time);
        }
    }

    #[test]
    fn one_that_is_left_to_finish_is_ended_when_it_has_had_its_time_and_so_for_new_files() {
        let (mut course, save) = (started(), written("a"));
        let new = Changes { added: ["new".into()].into(), ..Changes::default() };
        course.outputs.changed_at_rest(&save);
        for _ in 0..3 {
            assert_eq!(change(&mut course, &save, 70), Action::EndOutdated(save.clone()));
            again(&mut course, &save, 70);
        }
        assert_eq!(change(&mut course, &save, 4), Action::LetFinish(save.clone()));
        assert_eq!(change(&mut course, &save, 60), Action::EndOverdue(save.clone()));
        again(&mut course, &save, 60);
        assert_eq!(change(&mut course, &new, 119), Action::Doubt(new.clone()));
        assert_eq!(change(&mut course, &new, 120), Action::EndOverdue(new.clone()));
    }

    #[test]
    fn the_patience_is_twice_the_longest_run_and_only_of_those_that_were_not_ended() {
        let mut course = started();
        for (ran, patience) in [(20, 60), (100, 200), (50, 200)] {
            course.step(Input::Ended);
            let verdict = course.over(&Changes::default(), true, seconds(ran));
            course.step(Input::Looked(verdict.next));
            assert_eq!(course.patience(), seconds(patience));
            change(&mut course, &written("a"), 0);
            course.step(Input::Turn);
        }
        let new = Changes { added: ["new".into()].into(), ..Changes::default() };
        assert_eq!(change(&mut course, &new, 500), Action::EndOverdue(new.clone()));
        again(&mut course, &new, 500);
        assert_eq!(course.patience(), seconds(400));
        course.step(Input::Ended);
        course.over(&Changes::default(), true, seconds(1));
        assert_eq!(course.patience(), seconds(200), "one has ended by itself");
    }
}
