//! The invariant CRC from its definition: a second opinion beside `mrc-wire`'s fast one.

/// Bytes of the trailer.
pub(crate) const LEN: usize = 4;

/// What a byte does to the register, for each of its values: eight steps of the definition.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = (state >> 1) ^ if state & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

fn step(state: u32, byte: u8) -> u32 {
    (state >> 8) ^ TABLE[usize::from(state as u8 ^ byte)]
}

/// The trailer of a packet given from the IP header that carries UDP to the last pad byte.
pub fn icrc(packet: &[u8]) -> [u8; LEN] {
    unmasked(packet, usize::MAX)
}

/// As [`icrc`] by somebody who forgot to mask byte `forgotten`.
pub(crate) fn unmasked(packet: &[u8], forgotten: usize) -> [u8; LEN] {
    // Whatever claims not to be version 4 has the shape of version 6.
    let v6 = packet.first().is_some_and(|byte| byte >> 4 != 4);
    let udp = if v6 { 40 } else { 4 * usize::from(packet.first().map_or(5, |byte| byte & 0x0F)) };
    let state = packet.iter().enumerate().fold([0xFF; 8].into_iter().fold(!0, step), |state, (at, &byte)| {
        let masked = match at {
            _ if at == forgotten => byte,
            0 if v6 => byte | 0x0F,
            1..=3 | 7 if v6 => 0xFF,
            1 | 8 | 10 | 11 if !v6 => 0xFF,
            _ if at == udp + 6 || at == udp + 7 || at == udp + 8 + 4 => 0xFF,
            _ => byte,
        };
        step(state, masked)
    });
    (!state).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    //= ICRC-001, ICRC-003 test
    #[test]
    fn the_published_check_values() {
        let crc = b"123456789".iter().fold(!0, |s, b| step(s, *b));
        assert_eq!(!crc, 0xCBF4_3926);
        assert_eq!([0xFF; 8].into_iter().fold(!0, step), 0xDEBB_20E3);
    }
}
