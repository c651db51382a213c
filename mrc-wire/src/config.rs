//! Knobs that touch the wire: ports, code points and the two bit orders sources disagree on.

use crate::{NackRepr, Qpn};
use core::fmt;

/// How a switch marked a packet whose payload it cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trim {
    /// Cut inside the fabric.
    Trimmed,
    /// Cut by the destination's leaf.
    LastHop,
}

impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trimmed => "trimmed",
            Self::LastHop => "trimmed_lasthop",
        })
    }
}

/// The ECN field of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// 00: switches must not mark; control packets.
    #[default]
    NotEct,
    /// 10: data-class packets.
    Ect0,
    /// 01.
    Ect1,
    /// 11: congestion was met.
    Ce,
}

impl Ecn {
    /// The two bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// The field of a traffic class byte; upper bits are ignored.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// The six code points, 6 bits each, wire.md section 11. They must be distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DscpPlan {
    /// Data when the fabric does not trim; EV probe requests.
    pub no_trim: u8,
    /// First transmissions and reliability probes.
    pub trimmable: u8,
    /// Retransmissions.
    pub trimmable_retx: u8,
    /// Set by a switch that cut the payload.
    pub trimmed: u8,
    /// The same, set by the last switch.
    pub trimmed_lasthop: u8,
    /// SACK, NACK, Transport ACK, endpoint responses.
    pub control: u8,
}

impl Default for DscpPlan {
    fn default() -> Self {
        Self { no_trim: 0, trimmable: 4, trimmable_retx: 8, trimmed: 12, trimmed_lasthop: 16, control: 46 }
    }
}

/// Why a [`DscpPlan`] cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DscpError {
    /// The value does not fit in 6 bits.
    TooLarge(u8),
    /// Two roles share this value.
    Shared(u8),
}

impl fmt::Display for DscpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(v) => write!(f, "DSCP {v} does not fit in 6 bits: choose a value below 64"),
            Self::Shared(v) => write!(f, "DSCP {v} is given to two roles: choose a value of its own for each"),
        }
    }
}

impl core::error::Error for DscpError {}

impl DscpPlan {
    /// Whether a code point says that the payload was cut.
    #[inline]
    #[must_use]
    pub const fn trim(&self, dscp: u8) -> Option<Trim> {
        //= TRIM-001
        if dscp == self.trimmed {
            Some(Trim::Trimmed)
        } else if dscp == self.trimmed_lasthop {
            Some(Trim::LastHop)
        } else {
            None
        }
    }

    /// Checks the plan.
    ///
    /// # Errors
    /// `TooLarge` from 64 on, `Shared` when two roles have one value. The retransmission role may share the value of
    /// `trimmable`: that is how it is left out.
    pub fn check(&self) -> Result<(), DscpError> {
        //= DSCP-001
        let all = [self.no_trim, self.trimmable, self.trimmed, self.trimmed_lasthop, self.control, self.trimmable_retx];
        let mut seen: u64 = 0;
        for (role, value) in all.into_iter().enumerate() {
            if value >= 64 {
                return Err(DscpError::TooLarge(value));
            }
            let bit = 1u64 << (value & 63);
            let left_out = role == 5 && value == self.trimmable;
            if seen & bit != 0 && !left_out {
                return Err(DscpError::Shared(value));
            }
            seen |= bit;
        }
        Ok(())
    }
}

/// What stands in `spdcid` and `dpdcid` of SACKs and NACKs (open question 7). Nobody checks them on receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PdcidOrder {
    /// The sender of this packet in `spdcid`, its receiver in `dpdcid`.
    #[default]
    SenderFirst,
    /// The requester of the connection in `spdcid`, its responder in `dpdcid`, in packets of both directions.
    RequesterFirst,
}

impl PdcidOrder {
    /// `(spdcid, dpdcid)` of a SACK or NACK from the responder `own` to the requester `peer`. A probe, which the requester
    /// sends, carries its own half first in both orders.
    //= SETH-006
    #[inline]
    #[must_use]
    pub const fn of_answer(self, own: Qpn, peer: Qpn) -> (u16, u16) {
        match self {
            Self::SenderFirst => (own.low16(), peer.low16()),
            Self::RequesterFirst => (peer.low16(), own.low16()),
        }
    }
}

/// What both ends of a deployment must agree on to read each other's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireConfig {
    /// UDP destination port of sent packets.
    pub udp_dport: u16,
    /// UDP destination ports taken on receipt.
    pub udp_dport_accept: [u16; 2],
    /// The code points.
    pub dscp: DscpPlan,
    /// Puts the upper EV half, not the lower, into the source port of IPv6 packets, for sending and echoing alike.
    ///
    /// For fabrics that read a structured 32-bit EV that way round; 16-bit formats need it off. IPv4, which carries
    /// the lower half only, does not look at it.
    pub ev_high_half_in_sport: bool,
    /// Where the solicited bit sits in byte 1 of BTH: 7 (IBTA) or 6.
    pub bth_se_bit: u8,
    /// `cc_type` of sent NACKs.
    pub neth_cc_type: u8,
    /// Order of the context identifiers in sent SACKs and NACKs.
    pub pdcid_order: PdcidOrder,
    /// Lower bit of the operation in byte 1 of an endpoint response: 2, or 4 for peers that read it there.
    pub eeth_op_bit: u8,
}

impl Default for WireConfig {
    fn default() -> Self {
        Self {
            //= UDP-001
            udp_dport: 4791,
            //= UDP-002
            udp_dport_accept: [4791, 4971],
            dscp: DscpPlan::default(),
            ev_high_half_in_sport: false,
            bth_se_bit: crate::bth::SE_BIT,
            neth_cc_type: NackRepr::CC_TYPE,
            pdcid_order: PdcidOrder::SenderFirst,
            eeth_op_bit: crate::endpoint::OP_BIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= DSCP-001 test
    #[test]
    fn a_plan_needs_distinct_values_of_six_bits() {
        let plan = DscpPlan::default();
        assert_eq!(plan.check(), Ok(()));
        assert_eq!(DscpPlan { control: 64, ..plan }.check(), Err(DscpError::TooLarge(64)));
        assert_eq!(DscpPlan { trimmed: 46, ..plan }.check(), Err(DscpError::Shared(46)));
        assert_eq!(DscpPlan { trimmable_retx: plan.trimmable, ..plan }.check(), Ok(()));
        assert_eq!(DscpPlan { trimmable_retx: plan.trimmed, ..plan }.check(), Err(DscpError::Shared(12)));
    }

    //= TRIM-001 test
    #[test]
    fn two_code_points_mean_trimmed() {
        let plan = DscpPlan::default();
        assert_eq!((0..64).filter_map(|d| plan.trim(d)).count(), 2);
        assert_eq!((plan.trim(12), plan.trim(16)), (Some(Trim::Trimmed), Some(Trim::LastHop)));
    }

    #[test]
    fn ecn_bits_survive_the_round_trip() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
        assert_eq!(Ecn::Ect0.bits(), 0b10);
    }
}
