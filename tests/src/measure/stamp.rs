//! Different contents that do the same, for folders of many plugins and for many reloads.

/// A core module with a custom section at its end, which nobody reads, that holds a number.
pub fn stamped(module: &[u8], number: u64) -> Vec<u8> {
    const NAME: &[u8] = b"copy";
    let number = number.to_le_bytes();
    // Section 0, its length, the length of the name: all of them below 128, so one byte each.
    let head = [0, (1 + NAME.len() + number.len()) as u8, NAME.len() as u8];
    [module, &head, NAME, &number].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_well_formed_and_holds_the_number() {
        let empty = b"\0asm\x01\0\0\0";
        assert_eq!(stamped(empty, 258), b"\0asm\x01\0\0\0\x00\x0d\x04copy\x02\x01\0\0\0\0\0\0");
    }
}
