//! Moments as the host writes them, for people and for itself.
//!
//! Used by the admin port and by what is kept of versions. Invariant: a time that was written is read back the same, to the
//! millisecond.

use std::time::SystemTime;

/// RFC 3339, to the millisecond. What no calendar has is the time's own debug form, which is not read back.
pub(crate) fn timestamp(time: SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{time:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_time_is_written_to_the_millisecond_if_any_calendar_has_it() {
        assert_eq!(timestamp(UNIX_EPOCH + Duration::from_micros(1_500_999)), "1970-01-01T00:00:01.500Z");
        let beyond = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(timestamp(beyond), format!("{beyond:?}"));
    }
}
