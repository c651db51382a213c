//! Numbers that nobody outside may guess: keys, QP numbers, identifiers. Owns the keyed generator; path choices, which
//! everybody sees on the wire, come from `rng`.

use core::fmt;

/// Where all randomness of an endpoint begins. Draw the 16 bytes from the operating system or from the device's random
/// generator, anew for each endpoint: who knows them knows every R_Key.
#[derive(Clone, Copy)]
pub struct Seed([u8; Self::LEN]);

impl Seed {
    /// Bytes of a seed.
    pub const LEN: usize = 16;
}

impl From<[u8; Seed::LEN]> for Seed {
    fn from(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }
}

/// For tests and simulations, which want the same run again.
impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        Self((u128::from(number) << 64 | u128::from(number ^ 0x4D52_4331)).to_le_bytes())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of a counter under the seed. Numbers that an attacker has seen, however many,
/// tell nothing about the others without the 128-bit key.
pub(crate) struct Secrets {
    key: [u64; 2],
    drawn: u64,
}

impl Secrets {
    pub(crate) fn new(seed: Seed) -> Self {
        let key = u128::from_le_bytes(seed.0);
        Self { key: [key as u64, (key >> 64) as u64], drawn: 0 }
    }

    /// The next 64 bits.
    //= QP-010
    pub(crate) fn draw(&mut self) -> u64 {
        let number = self.drawn;
        self.drawn = number.wrapping_add(1);
        siphash(self.key, number)
    }
}

/// Says how many numbers were drawn, never the key.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("drawn", &self.drawn).finish_non_exhaustive()
    }
}

/// SipHash-2-4 of the eight bytes of `message`, least significant first.
const fn siphash([k0, k1]: [u64; 2], message: u64) -> u64 {
    const LENGTH: u64 = 8 << 56;
    let mut v = [
        k0 ^ 0x736F_6D65_7073_6575,
        k1 ^ 0x646F_7261_6E64_6F6D,
        k0 ^ 0x6C79_6765_6E65_7261,
        k1 ^ 0x7465_6462_7974_6573 ^ message,
    ];
    v = round(round(v));
    v = [v[0] ^ message, v[1], v[2], v[3] ^ LENGTH];
    v = round(round(v));
    v = [v[0] ^ LENGTH, v[1], v[2] ^ 0xFF, v[3]];
    let [a, b, c, d] = round(round(round(round(v))));
    a ^ b ^ c ^ d
}

const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

crate::image::stored!(struct Secrets { key, drawn });

#[cfg(test)]
mod tests {
    use super::*;

    /// The ninth vector of the authors' reference: key 00 01 .. 0f, message 00 01 .. 07.
    #[test]
    fn the_published_vector() {
        let key = core::array::from_fn(|n| n as u8);
        let secrets = Secrets::new(Seed::from(key));
        let message = u64::from_le_bytes(core::array::from_fn(|n| n as u8));
        assert_eq!(siphash(secrets.key, message), 0x93F5_F579_9A93_2462);
    }

    /// A generator of another make agrees, whatever key and message.
    #[test]
    fn another_implementation_agrees() {
        use core::hash::Hasher as _;
        let mut key = [7u64, 0xFFFF_0000_1234_5678];
        for n in 0..1_000u64 {
            let message = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut other = siphasher::sip::SipHasher24::new_with_keys(key[0], key[1]);
            other.write(&message.to_le_bytes());
            assert_eq!(siphash(key, message), other.finish());
            key = [siphash(key, message), key[0]];
        }
    }

    #[test]
    fn the_key_is_never_printed() {
        let seed = Seed::from([0xAB; 16]);
        let text = std::format!("{seed:?} {:?}", Secrets::new(seed));
        assert_eq!(text, "Seed(..) Secrets { drawn: 0, .. }");
    }
}
