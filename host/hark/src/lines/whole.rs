//! Lines written whole, or what is left of one set apart from the next.
//!
//! Used by the log, the screen and the trace. A disk that becomes full takes the beginning of a line; so that this
//! spoils no other, the next one begins on a line of its own. Invariant: each line is one write, if the system takes
//! it in one.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// Between two tries at a stream that somebody has made non-blocking, and that is full.
const FULL: Duration = Duration::from_millis(10);

/// See the file's head.
pub(crate) struct WholeLines<W> {
    out: W,
    /// The last thing written is the beginning of a line.
    torn: bool,
}

impl<W: Write> WholeLines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, torn: false }
    }

    /// Writes one line, which has its end. Waits for as long as the stream does.
    ///
    /// # Errors
    /// The system's; the next line may be tried all the same.
    pub(crate) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.all(b"\n")?;
            self.torn = false;
        }
        self.all(line)
    }

    fn all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let error = match self.out.write(rest) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    continue;
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Interrupted => {}
                // Returning early makes one try more and no harm.
                ErrorKind::WouldBlock => std::thread::park_timeout(FULL),
                _ => {
                    self.torn |= rest.len() < bytes.len();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
