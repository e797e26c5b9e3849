//! Handlers take the place of others, between two deliveries; and all that a listener has had go with its end.
//!
//! Used by the loop of `run`, which does nothing else meanwhile: events may be offered, and wait. In this order:
//!
//! | step | if it fails |
//! | --- | --- |
//! | the old handlers save, all at once | the new ones begin afresh, with a replay, unless they need nothing |
//! | the new ones restore, all at once | those that did restore forget it; all begin afresh, with a replay |
//! | the new ones are the listener's, with their subscriptions, and what waits is theirs | |
//! | the old ones stop, all at once, and are dropped | said in the log |
//!
//! If the listener is closed before the third step, the old handlers stay, and all stop with the listener; draining
//! waits for the swap. Invariant: each handler that got here is told to stop, once, unless it is abandoned with the
//! future of `run`.

use super::Listener;
use super::config::Ended;
use super::lanes::Lanes;
use super::metrics::Aside;
use super::state::AskedSwap;
use super::swap::{Failure, FellBack, HandOver, Inherit, OnSwap, Swap, SwapReport, divide, is_something};
use crate::handler::{Legacy, Stop};

/// What old handlers leave.
struct Left {
    /// What they saved; see [`SwapReport::saved`].
    saved: Vec<Option<Legacy>>,
    /// What is to be passed on.
    estate: Result<Vec<Option<Legacy>>, FellBack>,
}

impl Listener {
    /// Puts other handlers in the place of the old ones, which have no delivery; gives those that are the listener's then.
    pub(super) async fn hand_over(&self, mut old: Lanes, asked: AskedSwap) -> Lanes {
        let AskedSwap { swap, report } = asked;
        let Swap { handlers, subscriptions, on_swap, inherit, config, trial } = swap;
        let _busy = self.shared.aside(Aside::HandOver);
        let mut new = Lanes::new(handlers);
        let left = self.ask_to_save(&mut old, inherit).await;
        let hand_over = match left.estate {
            Ok(estate) if !self.shared.is_closing() => self.pass_on(&mut new, &estate, on_swap).await,
            Ok(_) => HandOver::Nothing,
            Err(why) => HandOver::FellBack(why),
        };
        if self.shared.is_closing() {
            // Whoever asked hears that it did not come about.
            self.shared.pass_over(new.into_handlers());
            return old;
        }
        let on_swap = if matches!(hand_over, HandOver::FellBack(_)) { OnSwap::Replay } else { on_swap };
        let passed_over = self.shared.take_over(new.len(), config, trial);
        let registrations = self.shared.resubscribe(subscriptions, on_swap);
        tokio::join!(self.stop(old, Stop::Replaced), self.stop(Lanes::new(passed_over), Stop::Unused));
        // The one who asked may have stopped waiting; the swap stands all the same.
        let _ = report.send(SwapReport { hand_over, saved: left.saved, ..registrations });
        new
    }

    async fn ask_to_save(&self, old: &mut Lanes, inherit: Inherit) -> Left {
        let is_needed = match inherit {
            Inherit::Given(given) => return Left { saved: Vec::new(), estate: Ok(given) },
            Inherit::Predecessor => true,
            Inherit::Nothing => false,
        };
        let answers = old.ask(self.call(), |_, handler| handler.save()).await;
        let answers: Vec<_> = answers.into_iter().map(Result::flatten).collect();
        let failure = first_failure(&answers);
        let saved: Vec<Option<Legacy>> = answers.into_iter().map(|answer| answer.ok().flatten()).collect();
        let estate = match failure {
            Some(failure) if is_needed => Err(FellBack::Save(failure)),
            Some(failure) => {
                tracing::warn!(
                    "a handler cannot say what it leaves, which the next ones have no use for: {failure}"
                );
                Ok(Vec::new())
            }
            None if is_needed => Ok(saved.clone()),
            None => Ok(Vec::new()),
        };
        Left { saved, estate }
    }

    async fn pass_on(&self, new: &mut Lanes, estate: &[Option<Legacy>], on_swap: OnSwap) -> HandOver {
        let shares = match divide(estate, new.len()) {
            Ok(shares) => shares,
            Err(why) => return HandOver::FellBack(why),
        };
        let answers = new.ask(self.call(), |lane, handler| match shares.get(lane).cloned().flatten() {
            // It begins afresh anyway.
            None if on_swap == OnSwap::Replay => Box::pin(async { Ok(()) }),
            share => handler.restore(share),
        });
        let answers: Vec<_> = answers.await.into_iter().map(Result::flatten).collect();
        let Some(failure) = first_failure(&answers) else {
            let kept = shares.iter().any(is_something);
            return if kept { HandOver::Kept(shares) } else { HandOver::Nothing };
        };
        let has_restored = |lane| {
            answers.get(lane).is_some_and(Result::is_ok) && shares.get(lane).is_some_and(Option::is_some)
        };
        let forget = new.ask(self.call(), |lane, handler| {
            if has_restored(lane) { handler.restore(None) } else { Box::pin(async { Ok(()) }) }
        });
        // They are told of everything again, whatever they say.
        forget.await;
        HandOver::FellBack(FellBack::Restore(failure))
    }

    /// The loop is over: its handlers go, and those that were to take their place.
    pub(super) async fn stop_all(&self, lanes: Lanes, ended: Ended) {
        let _busy = self.shared.aside(Aside::Stop);
        let why = match ended {
            Ended::Closed { .. } => Stop::Closed,
            Ended::Drained { .. } => Stop::Drained,
        };
        let others = Lanes::new(self.shared.passed_over());
        tokio::join!(self.stop(lanes, why), self.stop(others, Stop::Unused));
    }

    /// Tells handlers to stop, all at once, and drops them. They have no delivery.
    pub(super) async fn stop(&self, mut lanes: Lanes, why: Stop) {
        lanes.tell(self.call(), "stop", |_, handler| handler.stop(why)).await;
    }
}

fn first_failure<T>(answers: &[Result<T, String>]) -> Option<Failure> {
    let failed = |(lane, answer): (usize, &Result<T, String>)| {
        let message = answer.as_ref().err()?.clone();
        Some(Failure { lane, lanes: answers.len(), message })
    };
    answers.iter().enumerate().find_map(failed)
}
