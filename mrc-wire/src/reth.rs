//! RDMA extended transport header, 16 bytes, wire.md section 5. ImmDt is a bare `u32` after it.

use crate::Rkey;

/// Where a packet's payload goes and how long its message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RethRepr {
    /// Address of this packet's first payload byte in the responder's memory region.
    pub va: u64,
    /// Key of the region.
    pub rkey: Rkey,
    /// Bytes of the whole message, the same in each of its packets.
    pub dmalen: u32,
}

impl RethRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads the header.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        //= GEN-001
        Self {
            va: u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            rkey: Rkey(u32::from_be_bytes([b[8], b[9], b[10], b[11]])),
            dmalen: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.va.to_be_bytes();
        let [k0, k1, k2, k3] = self.rkey.0.to_be_bytes();
        let [l0, l1, l2, l3] = self.dmalen.to_be_bytes();
        *out = [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= GEN-001 test
    #[test]
    fn fields_are_big_endian() {
        let mut out = [0; 16];
        RethRepr { va: 0x0102_0304_0506_0708, rkey: Rkey(0x090A_0B0C), dmalen: 0x0D0E_0F10 }.emit(&mut out);
        assert!(out.iter().copied().eq(1..=16));
    }
}
