//! Many pointers as one trie, and the walk of an object's text along all of them at once.
//!
//! Used by conditions, selectors and indexes through [`Trie::walk`], and by projection through [`Paths`].
//! Since a name and `*` may both lead on from one place, a place in the text corresponds to a *set* of nodes.
//! Invariants: an object is read once from front to back, whatever the number of pointers, and not further than
//! the last value that a pointer can reach; recursion goes no deeper than the longest pointer
//! ([`super::pointer::MAX_SEGMENTS`]); a set holds at most one node for each pointer.

use std::ops::ControlFlow;

use super::pointer::Segment;
use super::scan::{Cursor, RawString, ScanError};

/// The pointers of one purpose, numbered by their users.
#[derive(Debug, Clone)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// By name, in order.
    members: Vec<(String, usize)>,
    every: Option<usize>,
    /// Numbers of the pointers that end here.
    ends: Vec<usize>,
}

impl Trie {
    /// A trie of these paths; the first is number 0.
    pub(super) fn new<'a>(paths: impl IntoIterator<Item = &'a [Segment]>) -> Self {
        let mut trie = Self { nodes: vec![Node::default()] };
        for (number, path) in paths.into_iter().enumerate() {
            let end = path.iter().fold(0, |node, segment| trie.child(node, segment));
            trie.nodes[end].ends.push(number);
        }
        trie
    }

    /// The node that `segment` leads to, made if it is not there.
    fn child(&mut self, node: usize, segment: &Segment) -> usize {
        let next = self.nodes.len();
        let place = &mut self.nodes[node];
        let child = match segment {
            Segment::Every => *place.every.get_or_insert(next),
            Segment::Member(name) => match place.members.binary_search_by(|(other, _)| other.cmp(name)) {
                Ok(at) => place.members[at].1,
                Err(at) => {
                    place.members.insert(at, (name.clone(), next));
                    next
                }
            },
        };
        if child == next {
            self.nodes.push(Node::default());
        }
        child
    }

    /// Calls `visit` with the number of a pointer and the text of a value, for every value that a pointer
    /// reaches; the values of one pointer in the order of the text. Ends early if `visit` says so.
    ///
    /// # Errors
    /// [`ScanError::Malformed`] if the text is seen not to be JSON; `visit` may have been called before.
    pub(super) fn walk<'a>(
        &self,
        text: &'a str,
        visit: impl FnMut(usize, &'a str) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let mut walk = Walk { paths: Paths::new(self), cursor: Cursor::new(text), visit };
        match walk.value(ROOT, true) {
            Ok(()) | Err(Stop::Done) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// The nodes that correspond to one place in the text: a range of [`Paths`]' stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    from: usize,
    to: usize,
}

/// The set of the whole document: the trie's root.
pub(super) const ROOT: Active = Active { from: 0, to: 1 };

impl Active {
    /// Whether no pointer leads here.
    pub(super) fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// How many nodes.
    pub(super) fn len(self) -> usize {
        self.to - self.from
    }
}

/// How many of an object's members are still looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All there are: a `*` leads on.
    Every,
    /// Those of this many names.
    Names(usize),
}

impl Wanted {
    /// Whether nothing more is looked for.
    pub(super) fn is_over(self) -> bool {
        self == Self::Names(0)
    }

    /// What is left after a member that leads to `inner`.
    pub(super) fn after(self, inner: Active) -> Self {
        match self {
            Self::Every => Self::Every,
            Self::Names(count) => Self::Names(count.saturating_sub(inner.len())),
        }
    }
}

/// Where a walk stands in the trie: a stack of sets, the outer ones below.
#[derive(Debug)]
pub(super) struct Paths<'t> {
    trie: &'t Trie,
    stack: Vec<usize>,
}

impl<'t> Paths<'t> {
    /// At the root.
    pub(super) fn new(trie: &'t Trie) -> Self {
        Self { trie, stack: vec![0] }
    }

    fn nodes(&self, active: Active) -> impl Iterator<Item = &'t Node> {
        let trie = self.trie;
        self.stack[active.from..active.to].iter().map(|node| &trie.nodes[*node])
    }

    /// Numbers of the pointers that end at this place.
    pub(super) fn ends(&self, active: Active) -> impl Iterator<Item = usize> {
        self.nodes(active).flat_map(|node| node.ends.iter().copied())
    }

    /// Whether a pointer ends at this place.
    pub(super) fn has_end(&self, active: Active) -> bool {
        self.nodes(active).any(|node| !node.ends.is_empty())
    }

    /// Whether a `*` leads on from here.
    pub(super) fn has_every(&self, active: Active) -> bool {
        self.nodes(active).any(|node| node.every.is_some())
    }

    /// What is looked for among the members of an object at this place.
    pub(super) fn wanted(&self, active: Active) -> Wanted {
        if self.has_every(active) {
            return Wanted::Every;
        }
        Wanted::Names(self.nodes(active).map(|node| node.members.len()).sum())
    }

    /// Goes to the member `name` of an object at `active`. To be left again.
    pub(super) fn enter_member(&mut self, active: Active, name: RawString<'_>) -> Active {
        let name = name.text();
        let from = self.stack.len();
        for at in active.from..active.to {
            let node = &self.trie.nodes[self.stack[at]];
            if let Ok(at) = node.members.binary_search_by(|(other, _)| other.as_str().cmp(&name)) {
                self.stack.push(node.members[at].1);
            }
            self.stack.extend(node.every);
        }
        Active { from, to: self.stack.len() }
    }

    /// Goes to an element of an array at `active`. To be left again.
    pub(super) fn enter_element(&mut self, active: Active) -> Active {
        let from = self.stack.len();
        for at in active.from..active.to {
            let every = self.trie.nodes[self.stack[at]].every;
            self.stack.extend(every);
        }
        Active { from, to: self.stack.len() }
    }

    /// Goes back to where `inner` was entered from.
    pub(super) fn leave(&mut self, inner: Active) {
        self.stack.truncate(inner.from);
    }
}

/// Why a walk ends before the text does.
enum Stop {
    Done,
    Failed(ScanError),
}

impl From<ScanError> for Stop {
    fn from(error: ScanError) -> Self {
        Self::Failed(error)
    }
}

struct Walk<'t, 'a, F> {
    paths: Paths<'t>,
    cursor: Cursor<'a>,
    visit: F,
}

impl<'a, F: FnMut(usize, &'a str) -> ControlFlow<()>> Walk<'_, 'a, F> {
    /// Walks the value that comes next. `last`: no pointer can reach anything after it.
    fn value(&mut self, active: Active, last: bool) -> Result<(), Stop> {
        let (start, byte) = self.cursor.peek()?;
        let ends = self.paths.has_end(active);
        let wanted = self.paths.wanted(active);
        match byte {
            b'{' if !wanted.is_over() => self.object(active, wanted, last && !ends)?,
            b'[' if wanted == Wanted::Every => self.array(active)?,
            _ if last && !ends => return Err(Stop::Done),
            _ => {
                self.cursor.skip_value()?;
            }
        }
        if ends {
            let text = self.cursor.since(start)?;
            for number in self.paths.ends(active) {
                if (self.visit)(number, text).is_break() {
                    return Err(Stop::Done);
                }
            }
        }
        if last { Err(Stop::Done) } else { Ok(()) }
    }

    fn object(&mut self, active: Active, mut wanted: Wanted, last: bool) -> Result<(), Stop> {
        self.cursor.open();
        let mut first = true;
        while let Some(name) = self.cursor.next_member(&mut first)? {
            let inner = self.paths.enter_member(active, name);
            if inner.is_empty() {
                self.cursor.skip_value()?;
                continue;
            }
            wanted = wanted.after(inner);
            self.value(inner, last && wanted.is_over())?;
            self.paths.leave(inner);
            if wanted.is_over() {
                return Ok(self.cursor.skip_rest()?);
            }
        }
        Ok(())
    }

    fn array(&mut self, active: Active) -> Result<(), Stop> {
        self.cursor.open();
        let mut first = true;
        while self.cursor.next_element(&mut first)? {
            let inner = self.paths.enter_element(active);
            self.value(inner, false)?;
            self.paths.leave(inner);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pointer::Pointer;
    use super::*;

    /// Pointer number and value of everything reached.
    fn reached(pointers: &[&str], text: &str) -> Vec<(usize, String)> {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| text.parse().expect("a pointer")).collect();
        let trie = Trie::new(pointers.iter().map(Pointer::segments));
        let mut found = Vec::new();
        trie.walk(text, |number, value| {
            found.push((number, value.to_owned()));
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|error| panic!("{error}: {text}"));
        found
    }

    type Case<'a> = (&'a [&'a str], &'a [(usize, &'a str)]);

    fn pairs(list: &[(usize, &str)]) -> Vec<(usize, String)> {
        list.iter().map(|(number, value)| (*number, (*value).to_owned())).collect()
    }

    #[test]
    fn values_are_reached_by_name_and_by_star() {
        let text = r#"{"a":{"b":1,"c":[{"d":"x"},{"e":2},[3],{"d":null}]},"f":"y"}"#;
        let cases: [Case<'_>; 9] = [
            (&["/f"], &[(0, r#""y""#)]),
            (&["/a/b", "/f"], &[(0, "1"), (1, r#""y""#)]),
            (&["/a/c/*/d"], &[(0, r#""x""#), (0, "null")]),
            (&["/a/c/*/*"], &[(0, r#""x""#), (0, "2"), (0, "3"), (0, "null")]),
            (&["/*/b"], &[(0, "1")]),
            (&["/a/b/c", "/f/*", "/a/c/d", "/x"], &[]),
            (&["/*/b", "/a/*", "/a/b"], &[(0, "1"), (1, "1"), (2, "1"), (1, &text[16..50])]),
            (&["/f", "/f"], &[(0, r#""y""#), (1, r#""y""#)]),
            (&["/a/c/*/e", "/a/c"], &[(0, "2"), (1, &text[16..50])]),
        ];
        for (pointers, want) in cases {
            let mut want = pairs(want);
            let mut got = reached(pointers, text);
            want.sort();
            got.sort();
            assert_eq!(got, want, "{pointers:?}");
        }
    }

    #[test]
    fn an_escaped_name_is_the_name_that_it_spells() {
        assert_eq!(reached(&["/a\"b"], r#"{"a\u0022b":1}"#), pairs(&[(0, "1")]));
        assert_eq!(reached(&["/é~1~0"], r#"{"\u00e9\/~":1}"#), pairs(&[(0, "1")]));
        assert_eq!(reached(&["/~2"], r#"{"*":1,"b":2}"#), pairs(&[(0, "1")]));
        assert_eq!(reached(&["/"], r#"{"a":2,"":1}"#), pairs(&[(0, "1")]));
    }

    #[test]
    fn the_text_after_the_last_wanted_value_is_not_read() {
        // What comes after `!` would be an error, were it read.
        for (pointers, text, want) in [
            (&["/a"][..], r#"{"x":0,"a":1,!"#, 1),
            (&["/a/b", "/a/c"], r#"{"a":{"c":1,"x":[],"b":2,!"#, 2),
            (&["/a/b", "/c"], r#"{"c":1,"a":{"b":2,!"#, 2),
            (&["/a/b"], r#"{"a":1,!"#, 0),
            (&["/a/b"], r#"{"a":[!"#, 0),
            (&["/a/*"], r#"{"a":"!"#, 0),
            (&["/a/b"], r#"{"a":{},!"#, 0),
            (&["/a/*/b"], r#"{"a":{},!"#, 0),
        ] {
            assert_eq!(reached(pointers, text).len(), want, "{text}");
        }
    }

    #[test]
    fn what_is_left_leaves_nothing_on_the_stack() {
        let pointers = ["/a/b", "/*/b", "/a/*"].map(|text| text.parse::<Pointer>().expect("a pointer"));
        let trie = Trie::new(pointers.iter().map(Pointer::segments));
        let mut paths = Paths::new(&trie);
        let outer = paths.enter_member(ROOT, Cursor::new("\"a\"").string().expect("a string"));
        let inner = paths.enter_member(outer, Cursor::new("\"b\"").string().expect("a string"));
        assert_eq!((outer.len(), inner.len(), paths.ends(inner).count()), (2, 3, 3));
        paths.leave(inner);
        assert_eq!(paths.stack.len(), ROOT.len() + outer.len());
        paths.leave(outer);
        assert_eq!(paths.stack.len(), ROOT.len());
    }

    #[test]
    fn a_visitor_ends_the_walk() {
        let pointer: Pointer = "/*".parse().expect("a pointer");
        let trie = Trie::new([pointer.segments()]);
        let mut seen = 0;
        let end = trie.walk("[1,2,3", |_, _| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((end, seen), (Ok(()), 2));
        let end = trie.walk("[1,2,3", |_, _| ControlFlow::Continue(()));
        assert_eq!(end, Err(ScanError::Malformed));
    }
}
