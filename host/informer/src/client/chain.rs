//! Writes an error with all its causes.
//!
//! Used by [`Client`](super::Client). Invariant: each cause is told once, however many layers repeat it.

use std::error::Error as StdError;
use std::fmt;

/// An error with everything below it, each layer once. Layers that only say "there is an error" are left out.
pub(super) struct Chain<'a>(pub(super) Option<&'a dyn StdError>);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<String> =
            std::iter::successors(self.0, |&error| error.source()).map(ToString::to_string).collect();
        let mut written = "";
        for (index, layer) in layers.iter().enumerate() {
            let is_last = index + 1 == layers.len();
            let repeats_the_next = layers.get(index + 1).is_some_and(|next| layer.contains(next.as_str()));
            let says_nothing = layer.starts_with("client error");
            if is_last || !(repeats_the_next || says_nothing) {
                write!(f, "{written}{layer}")?;
                written = ": ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn an_error_is_told_with_each_cause_once() {
        let root = Layer("Connection refused (os error 111)", None);
        let connect = Layer("tcp connect error", Some(Box::new(root)));
        let client = Layer("client error (Connect)", Some(Box::new(connect)));
        let service = Layer("ServiceError: client error (Connect)", Some(Box::new(client)));
        assert_eq!(Chain(Some(&service)).to_string(), "tcp connect error: Connection refused (os error 111)");
    }
}
