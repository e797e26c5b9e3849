//! How much work is in a file, whatever its size?
//!
//! Asked by the compiler about files that are small enough to be compiled in the host's own process. Cranelift's time and
//! memory do not go by bytes alone: a variable that is used within loops costs something for each loop around it, and
//! each nested block something for each around it, so that a file of 10 KB can take a minute and one of 50 KB eight
//! gigabytes. Such files are compiled in a process of their own, which has a time and a memory to keep to. Invariant:
//! looks at each instruction once, and calls nothing that goes deep.

use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

/// Work that the host does itself. A unit is about 0.1 µs of Cranelift's, so this is a third of a second; what a C or
/// Rust compiler makes of half a megabyte has a tenth of it (`examples/compiling.rs` measures).
const MUCH: u64 = 3_000_000;

/// Work of a function, however small it is.
const FUNCTION: u64 = 300;

/// Whether a component has more work in it than the host does itself. What cannot be parsed has little: it is refused.
pub(super) fn is_much(component: &[u8]) -> bool {
    let mut work = 0_u64;
    let mut depth = 0_u64;
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        let more = match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                FUNCTION * depth
            }
            Payload::End(_) => {
                depth = depth.saturating_sub(1);
                0
            }
            Payload::CodeSectionEntry(body) => FUNCTION + of_function(&body).unwrap_or(0),
            _ => 0,
        };
        work = work.saturating_add(more);
        if work > MUCH {
            return true;
        }
    }
    false
}

/// What the nesting of a function's blocks costs.
fn of_function(body: &FunctionBody<'_>) -> Result<u64, BinaryReaderError> {
    let mut work = 0_u64;
    // For each open block whether it is a loop.
    let mut open: Vec<bool> = Vec::new();
    let mut loops = 0_u64;
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let more = match operators.read()? {
            operator @ (Operator::Block { .. }
            | Operator::If { .. }
            | Operator::Loop { .. }
            | Operator::TryTable { .. }) => {
                let is_loop = matches!(operator, Operator::Loop { .. });
                open.push(is_loop);
                loops += u64::from(is_loop);
                open.len() as u64
            }
            Operator::End => {
                loops -= u64::from(open.pop() == Some(true));
                0
            }
            // A value of its own for each loop around, handed on by each.
            Operator::LocalGet { .. } | Operator::LocalSet { .. } | Operator::LocalTee { .. } => {
                loops * loops
            }
            _ => 0,
        };
        work = work.saturating_add(more);
        if work > MUCH {
            break;
        }
    }
    Ok(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_much_of(text: &str) -> bool {
        is_much(&wat::parse_str(text).expect("right text"))
    }

    /// A component with a function of this body, which has 1000 variables.
    fn function(body: &str) -> String {
        format!("(component (core module (func (local {}) {body})))", "i32 ".repeat(1000))
    }

    /// A body within so many of these.
    fn within(open: &str, depth: usize, body: &str) -> String {
        format!("{} {body} {}", open.repeat(depth), "end ".repeat(depth))
    }

    #[test]
    fn what_compilers_make_is_little() {
        let uses: String = (0..1000).map(|n| format!("local.get {n} drop ")).collect();
        assert!(!is_much_of(&function(&uses)));
        assert!(!is_much_of(&function(&within("loop ", 20, &uses))));
        assert!(!is_much_of(&function(&within("block ", 1000, &uses))), "a switch with many cases");
        assert!(!is_much_of(&format!("(component (core module {}))", "(func)".repeat(5000))));
    }

    #[test]
    fn what_takes_long_or_much_memory_is_much() {
        let uses: String = (0..1000).map(|n| format!("local.get {n} drop ")).collect();
        assert!(is_much_of(&function(&within("loop ", 60, &uses))));
        assert!(is_much_of(&function(&within("block ", 3000, ""))));
        assert!(is_much_of(&function(&within("i32.const 0 if ", 3000, ""))));
        assert!(is_much_of(&format!("(component (core module {}))", "(func)".repeat(20_000))));
        assert!(is_much_of(&format!("(component {})", "(core module)".repeat(20_000))));
    }

    #[test]
    fn what_is_closed_is_not_around_what_follows() {
        let one = within("loop ", 60, "local.get 0 drop ");
        assert!(!is_much_of(&function(&one.repeat(20))));
        let modules = "(component (core module (func)))".repeat(200);
        assert!(!is_much_of(&format!("(component {modules})")));
    }

    #[test]
    fn what_is_no_component_is_little() {
        assert!(!is_much(b""));
        assert!(!is_much(b"\0asm\x0d\0\x01\0\x01\xff"));
        // A body that is cut off, and one that closes more than it opened.
        for body in [&b"\x02\x40"[..], b"\x0b\x0b\x0b"] {
            let code = [&[0x0a, body.len() as u8 + 3, 1, body.len() as u8 + 1, 0], body].concat();
            assert!(!is_much(&[&b"\0asm\x01\0\0\0"[..], &code].concat()));
        }
    }
}
