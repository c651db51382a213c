//! Endpoint operations between nodes: ERTH (16 bytes) and EETH (36 bytes), wire.md section 8.

use crate::{FieldId, TsethRepr, WireError};
use core::fmt;

/// What an endpoint request asks. The codes are the reverse of the order in the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointOp {
    /// 0: the sender tells which of its ports are reachable.
    PortStatusUpdate,
    /// 1: the sender tests one EV.
    EvProbe,
}

impl EndpointOp {
    #[inline]
    const fn from_bits(bits: u8) -> Result<Self, WireError> {
        //= ERTH-002
        match bits & 3 {
            0 => Ok(Self::PortStatusUpdate),
            1 => Ok(Self::EvProbe),
            _ => Err(WireError::Reserved(FieldId::EndpointOp)),
        }
    }

    #[inline]
    const fn to_bits(self) -> u8 {
        match self {
            Self::PortStatusUpdate => 0,
            Self::EvProbe => 1,
        }
    }
}

impl fmt::Display for EndpointOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortStatusUpdate => "port_status_update",
            Self::EvProbe => "ev_probe",
        })
    }
}

/// An endpoint request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointRequestRepr {
    /// The operation.
    pub op: EndpointOp,
    /// Sent as 0, ignored.
    pub vendor_info: u8,
    /// Bit N: port N is reachable; ports count from 1, bit 0 is unused. 0 in an EV probe.
    pub port_status_mask: u32,
    /// Timestamp group.
    pub tseth: TsethRepr,
}

impl EndpointRequestRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads the header; reserved bits, bit 0 of the port mask among them, are ignored.
    ///
    /// # Errors
    /// `WireError::Reserved` for operations 2 and 3.
    #[inline]
    pub const fn parse(b: &[u8; Self::LEN]) -> Result<Self, WireError> {
        match Self::operation(b) {
            Ok(op) => Ok(Self::read(op, b)),
            Err(e) => Err(e),
        }
    }

    /// The operation alone.
    #[inline]
    pub(crate) const fn operation(b: &[u8; Self::LEN]) -> Result<EndpointOp, WireError> {
        EndpointOp::from_bits(b[1])
    }

    /// The header of an operation that is known.
    #[inline]
    pub(crate) const fn read(op: EndpointOp, b: &[u8; Self::LEN]) -> Self {
        //= ERTH-001
        Self {
            op,
            vendor_info: b[3],
            //= ERTH-003
            port_status_mask: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
            tseth: TsethRepr::parse(&[b[12], b[13], b[14], b[15]]),
        }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [m0, m1, m2, m3] = self.port_status_mask.to_be_bytes();
        let mut t = [0; TsethRepr::LEN];
        self.tseth.emit(&mut t);
        *out = [
            0,
            self.op.to_bits(),
            0,
            self.vendor_info,
            m0,
            m1,
            m2,
            m3, //
            0,
            0,
            0,
            0,
            t[0],
            t[1],
            t[2],
            t[3],
        ];
    }
}

/// Lower bit of the operation in byte 1 of an endpoint response, unless a deployment reads it elsewhere.
pub(crate) const OP_BIT: u8 = 2;

/// An endpoint response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointResponseRepr {
    /// The operation answered.
    pub op: EndpointOp,
    /// Reflected timestamp.
    pub timestamp: u16,
}

impl EndpointResponseRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 36;

    /// Reads the header; reserved bits are ignored.
    ///
    /// # Errors
    /// `WireError::Reserved` for operations 2 and 3.
    #[inline]
    pub const fn parse(b: &[u8; Self::LEN]) -> Result<Self, WireError> {
        match Self::operation(b, OP_BIT) {
            Ok(op) => Ok(Self::read(op, b)),
            Err(e) => Err(e),
        }
    }

    /// The operation alone, whose lower bit is number `op_bit` of byte 1.
    #[inline]
    pub(crate) const fn operation(b: &[u8; Self::LEN], op_bit: u8) -> Result<EndpointOp, WireError> {
        //= EETH-001
        EndpointOp::from_bits(b[1].wrapping_shr(op_bit as u32))
    }

    /// The header of an operation that is known.
    #[inline]
    pub(crate) const fn read(op: EndpointOp, b: &[u8; Self::LEN]) -> Self {
        //= EETH-002
        Self { op, timestamp: u16::from_be_bytes([b[28], b[29]]) }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        self.emit_at(OP_BIT, out);
    }

    /// As [`Self::emit`], the lower bit of the operation at bit `op_bit` of byte 1 ([`crate::WireConfig::eeth_op_bit`]).
    #[inline]
    pub const fn emit_at(&self, op_bit: u8, out: &mut [u8; Self::LEN]) {
        let [t0, t1] = self.timestamp.to_be_bytes();
        *out = [0; Self::LEN];
        out[1] = self.op.to_bits().wrapping_shl(op_bit as u32);
        out[28] = t0;
        out[29] = t1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= ERTH-001 test
    //= ERTH-002 test
    //= EETH-001 test
    #[test]
    fn operations_sit_in_different_bits_and_two_are_reserved() {
        let reserved = WireError::Reserved(FieldId::EndpointOp);
        let want = [Ok(EndpointOp::PortStatusUpdate), Ok(EndpointOp::EvProbe), Err(reserved), Err(reserved)];
        for (bits, want) in (0u8..).zip(want) {
            let mut req = [0; 16];
            req[1] = 0xFC | bits;
            assert_eq!(EndpointRequestRepr::parse(&req).map(|r| r.op), want);
            let mut rsp = [0; 36];
            rsp[1] = 0xF3 | bits << 2;
            assert_eq!(EndpointResponseRepr::parse(&rsp).map(|r| r.op), want);
        }
    }

    //= EETH-001 test
    #[test]
    fn a_response_may_have_its_operation_two_bits_higher() {
        let mut out = [0; 36];
        EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: 0 }.emit_at(4, &mut out);
        assert_eq!(out[1], 0x10);
        assert_eq!(EndpointResponseRepr::operation(&out, 4), Ok(EndpointOp::EvProbe));
        assert_eq!(EndpointResponseRepr::operation(&out, OP_BIT), Ok(EndpointOp::PortStatusUpdate), "misread");
    }

    //= EETH-002 test
    #[test]
    fn the_response_writes_nothing_but_operation_and_timestamp() {
        let mut out = [0xFF; 36];
        EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: 0x0102 }.emit(&mut out);
        let set: Vec<_> = out.iter().enumerate().filter(|(_, b)| **b != 0).map(|(i, b)| (i, *b)).collect();
        assert_eq!(set, [(1, 4), (28, 1), (29, 2)]);
    }
}
