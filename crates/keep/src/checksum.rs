//! CRC-32, as Ethernet and zip have it.

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

const TABLE: [u32; 256] = table();

/// The checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    checksum_of(&[bytes])
}

/// The checksum of some bytes that follow each other.
pub(crate) fn checksum_of(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !parts.iter().fold(!0, |crc, part| part.iter().fold(crc, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_that_others_compute() {
        assert_eq!((checksum(b""), checksum(b"123456789")), (0, 0xcbf4_3926));
    }
}
