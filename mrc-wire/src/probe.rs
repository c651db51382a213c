//! Reliability probe: PETH, 16 bytes, wire.md section 7.

use crate::TsethRepr;

/// A probe body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProbeRepr {
    /// Chosen by the requester, unique among its unanswered probes on the QP.
    pub probe_id: u16,
    /// Sent as 0, ignored.
    pub vendor_info: u8,
    /// Low half of the sender's QPN; not checked.
    pub spdcid: u16,
    /// Low half of the receiver's QPN; not checked.
    pub dpdcid: u16,
    /// Timestamp group.
    pub tseth: TsethRepr,
}

impl ProbeRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads the header; reserved bits are ignored.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        //= PETH-001
        Self {
            vendor_info: b[3],
            probe_id: u16::from_be_bytes([b[4], b[5]]),
            spdcid: u16::from_be_bytes([b[8], b[9]]),
            dpdcid: u16::from_be_bytes([b[10], b[11]]),
            tseth: TsethRepr::parse(&[b[12], b[13], b[14], b[15]]),
        }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [i0, i1] = self.probe_id.to_be_bytes();
        let [s0, s1] = self.spdcid.to_be_bytes();
        let [d0, d1] = self.dpdcid.to_be_bytes();
        let mut t = [0; TsethRepr::LEN];
        self.tseth.emit(&mut t);
        *out = [0, 0, 0, self.vendor_info, i0, i1, 0, 0, s0, s1, d0, d1, t[0], t[1], t[2], t[3]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= PETH-001 test
    #[test]
    fn reserved_bytes_are_ignored_and_sent_as_zero() {
        let p = ProbeRepr::parse(&[0xFF; 16]);
        let mut out = [0xAA; 16];
        p.emit(&mut out);
        assert_eq!(out, [0, 0, 0, 255, 255, 255, 0, 0, 255, 255, 255, 255, 255, 255, 0x80, 0x0F]);
        assert_eq!(ProbeRepr::parse(&out), p);
    }
}
