//! The heartbeat of the manager's loop: asked for from outside, answered by the loop when it next turns.
//!
//! `/livez` holds the [`Pulse`], the manager the [`Heart`]. Invariants: any number of questions at one moment cost
//! the loop one turn; neither side ever waits for the other without a limit.

use std::time::Duration;

use tokio::sync::watch;

/// How long the loop may take to answer. It does no work that lasts: a look at a folder takes milliseconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// The side that asks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    asked: watch::Sender<u64>,
    answered: watch::Receiver<u64>,
}

/// The side that answers.
#[derive(Debug)]
pub(crate) struct Heart {
    asked: watch::Receiver<u64>,
    answered: watch::Sender<u64>,
}

/// The loop did not answer within [`LIMIT`], or is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plugin manager's loop has not turned for {} s", LIMIT.as_secs())]
pub(crate) struct Silent;

/// Both sides of a heartbeat.
pub(crate) fn pulse() -> (Pulse, Heart) {
    let (ask, asked) = watch::channel(0);
    let (answer, answered) = watch::channel(0);
    (Pulse { asked: ask, answered }, Heart { asked, answered: answer })
}

impl Pulse {
    /// Asks the loop and waits for its answer.
    ///
    /// # Errors
    /// [`Silent`] if there is none in time.
    pub(crate) async fn check(&self) -> Result<(), Silent> {
        let mut mine = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            mine = *asked;
        });
        let mut answered = self.answered.clone();
        let answer = answered.wait_for(|answered| *answered >= mine);
        match tokio::time::timeout(LIMIT, answer).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Silent),
        }
    }
}

impl Heart {
    /// Waits until somebody asks; for ever if nobody can.
    pub(crate) async fn asked(&mut self) {
        if self.asked.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Answers everybody who has asked so far.
    pub(crate) fn beat(&mut self) {
        self.answered.send_replace(*self.asked.borrow_and_update());
    }

    /// Answers for as long as it is polled.
    pub(crate) async fn go_on(&mut self) {
        loop {
            self.asked().await;
            self.beat();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_turns_answers_and_one_that_hangs_is_silent_after_the_limit() {
        let (pulse, mut heart) = pulse();
        let begun = tokio::time::Instant::now();
        tokio::select! {
            answer = async { tokio::join!(pulse.check(), pulse.check()) } => assert_eq!(answer, (Ok(()), Ok(()))),
            () = heart.go_on() => {}
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(pulse.check().await, Err(Silent), "nobody answers");
        assert_eq!(begun.elapsed(), LIMIT);
        heart.asked().await;
        heart.beat();
        let answered = async {
            heart.asked().await;
            heart.beat();
        };
        assert_eq!(
            tokio::join!(pulse.check(), answered).0,
            Ok(()),
            "an answer that came too late does no harm"
        );
        drop(heart);
        assert_eq!(pulse.check().await, Err(Silent), "the loop is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_asked_while_the_loop_is_busy_is_answered_by_its_next_turn() {
        let (pulse, mut heart) = pulse();
        let busy = async {
            tokio::time::sleep(LIMIT / 2).await;
            heart.asked().await;
            heart.beat();
        };
        assert_eq!(tokio::join!(pulse.check(), busy).0, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_heart_that_nobody_can_ask_waits_for_ever() {
        let (pulse, mut heart) = pulse();
        drop(pulse);
        let waited = tokio::time::timeout(Duration::from_secs(3600), heart.asked()).await;
        assert!(waited.is_err());
    }
}
