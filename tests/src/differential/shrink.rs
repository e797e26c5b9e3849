//! Makes a failing script smaller while it fails.
//!
//! Used by the campaign. Invariant: the result fails in the same way as the script did (a difference stays a
//! difference), and taking any single step out of it makes that go away, unless the tries ran out.

use super::script::{Script, Step};

/// How often a smaller script is tried at most: each try takes seconds.
const TRIES: usize = 80;

/// The smallest script found that `fails`.
pub(super) async fn shrink(script: &Script, mut fails: impl AsyncFnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut left = TRIES;
    let mut chunk = best.steps.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut begin = 0;
        let mut shrunk = false;
        while begin < best.steps.len() && left > 0 {
            let mut smaller = best.clone();
            smaller.steps.drain(begin..(begin + chunk).min(best.steps.len()));
            left -= 1;
            if fails(&smaller).await {
                best = smaller;
                shrunk = true;
            } else {
                begin += chunk;
            }
        }
        if !(shrunk && chunk == 1) {
            chunk /= 2;
        }
    }
    for smaller in simpler(&best) {
        if left == 0 {
            break;
        }
        left -= 1;
        let candidate = smaller(&best);
        if candidate != best && fails(&candidate).await {
            best = candidate;
        }
    }
    best
}

type Simplify = Box<dyn Fn(&Script) -> Script>;

/// Ways of making a script simpler than by leaving steps out.
fn simpler(script: &Script) -> Vec<Simplify> {
    let mut ways: Vec<Simplify> = vec![
        Box::new(|script| with(script, |script| script.setup.opening.clear())),
        Box::new(|script| with(script, |script| script.setup.held = None)),
        Box::new(|script| with(script, |script| script.setup.resyncs = false)),
        Box::new(|script| with(script, |script| script.setup.wider = false)),
        Box::new(|script| with(script, |script| script.setup.selects = false)),
        Box::new(|script| with(script, |script| script.setup.streaming = true)),
        Box::new(|script| with(script, |script| script.setup.lanes = 1)),
    ];
    for key in script.setup.existing.clone() {
        ways.push(Box::new(move |script| {
            with(script, |script| script.setup.existing.retain(|existing| *existing != key))
        }));
    }
    for number in 0..script.steps.len() {
        ways.push(Box::new(move |script| {
            with(script, |script| {
                if let Some(Step::Back(hiccups)) = script.steps.get_mut(number) {
                    hiccups.clear();
                }
            })
        }));
    }
    ways
}

fn with(script: &Script, change: impl FnOnce(&mut Script)) -> Script {
    let mut script = script.clone();
    change(&mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::super::script::{Action, Change};
    use super::*;

    #[tokio::test]
    async fn what_does_not_matter_is_taken_out() {
        let put = |key| Step::Change(Change { key, action: Action::Put });
        let mut script = generate::script(3, 4);
        script.setup.existing = vec![0, 1];
        script.steps = vec![put(0), Step::Compact, put(1), Step::Settle, put(2), Step::Leave, put(3)];
        let fails = async |script: &Script| {
            let place = |step: &Step| script.steps.iter().position(|one| one == step);
            matches!((place(&Step::Compact), place(&put(3))), (Some(first), Some(second)) if first < second)
                && script.setup.existing.contains(&1)
        };
        let small = shrink(&script, fails).await;
        assert_eq!(small.steps, [Step::Compact, put(3)]);
        assert_eq!((small.setup.existing, small.seed), (vec![1], 3));
        assert!(small.setup.opening.is_empty() && small.setup.held.is_none());
    }
}
