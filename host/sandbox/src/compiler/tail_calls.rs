//! Does a file make tail calls, which Winch does not take?
//!
//! Asked by the compiler about new versions of plugins that Winch has refused before, since Winch says so only when it has
//! compiled nearly all of it: 0.35 s of CPU for 1.1 MB of QuickJS, where the first tail call is found in a millisecond.
//! Invariant: looks at each instruction once at most.

use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

/// Whether there is one. What cannot be parsed makes none: the compiler says what is wrong with it.
pub(super) fn makes(wasm: &[u8]) -> bool {
    Parser::new(0).parse_all(wasm).map_while(Result::ok).any(|payload| match payload {
        Payload::CodeSectionEntry(body) => in_function(&body).unwrap_or(false),
        _ => false,
    })
}

fn in_function(body: &FunctionBody<'_>) -> Result<bool, BinaryReaderError> {
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        if matches!(operators.read()?, Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_found_in_modules_and_in_components() {
        for (body, want) in [("return_call 0", true), ("call 0", false)] {
            let module = format!("module (func) (func nop) (func {body})");
            for text in [format!("({module})"), format!("(component (core {module}))")] {
                let wasm = wat::parse_str(&text).expect("right text");
                assert_eq!(makes(&wasm), want, "{text}");
            }
        }
        let table = "(module (table 1 funcref) (func (return_call_indirect (i32.const 0))))";
        assert!(makes(&wat::parse_str(table).expect("right text")));
        assert!(!makes(b"") && !makes(b"\0asm\x01\0\0\0\x0a\xff"));
    }
}
