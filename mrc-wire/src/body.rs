//! What follows BTH, by opcode: wire.md section 10.

use crate::{
    AethRepr, EndpointRequestRepr, EndpointResponseRepr, MethRepr, NackRepr, Opcode, ProbeRepr, RethRepr, SackRepr,
    Trim, TsethRepr,
};

/// Bytes of ImmDt.
pub(crate) const IMM_LEN: usize = 4;

/// The extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// The six write opcodes.
    Write {
        /// Message numbers.
        meth: MethRepr,
        /// Present exactly when `ts` is set in BTH. Check `is_timestamp` or use `reflected`.
        tseth: Option<TsethRepr>,
        /// Placement.
        reth: RethRepr,
        /// Present in the two opcodes with immediate.
        imm: Option<u32>,
    },
    /// Transport ACK or NAK.
    Ack(AethRepr),
    /// Selective acknowledgement.
    Sack(SackRepr),
    /// Refusal.
    Nack(NackRepr),
    /// Reliability probe.
    Probe(ProbeRepr),
    /// Endpoint request.
    EndpointRequest(EndpointRequestRepr),
    /// Endpoint response.
    EndpointResponse(EndpointResponseRepr),
    /// A write that a switch cut; its lengths mean nothing and it carries no ICRC.
    Trimmed {
        /// Where it was cut.
        kind: Trim,
        /// Timestamp to reflect, 0 when it was cut off or never there.
        timestamp: u16,
        /// The unit of the timestamp is private to the sender.
        tsr: bool,
    },
}

/// Bytes of the headers after BTH.
#[inline(always)]
pub(crate) const fn ext_len(opcode: Opcode, ts: bool) -> usize {
    //= STACK-003
    if opcode.is_write() {
        return write_len(ts, opcode.has_imm());
    }
    match opcode {
        Opcode::Ack => AethRepr::LEN,
        Opcode::Sack => SackRepr::LEN,
        Opcode::Nack => NackRepr::LEN,
        Opcode::Probe => ProbeRepr::LEN,
        Opcode::EndpointRequest => EndpointRequestRepr::LEN,
        Opcode::EndpointResponse => EndpointResponseRepr::LEN,
        _ => 0,
    }
}

/// Bytes of the headers of a write after BTH.
#[inline(always)]
const fn write_len(ts: bool, imm: bool) -> usize {
    const PLAIN: usize = MethRepr::LEN + RethRepr::LEN;
    match (ts, imm) {
        (false, false) => PLAIN,
        (false, true) => PLAIN + IMM_LEN,
        (true, false) => PLAIN + TsethRepr::LEN,
        (true, true) => PLAIN + TsethRepr::LEN + IMM_LEN,
    }
}

/// Splits a fixed number of bytes off the front of a shrinking slice.
#[inline]
fn put<'a, const N: usize>(rest: &mut &'a mut [u8]) -> Option<&'a mut [u8; N]> {
    let (head, tail) = core::mem::take(rest).split_first_chunk_mut::<N>()?;
    *rest = tail;
    Some(head)
}

impl Body {
    /// Most bytes between BTH and the payload of a write: METH, TSETH, RETH and immediate.
    pub const WRITE_HEADER_LEN_MAX: usize = MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN + IMM_LEN;

    /// Bytes [`Body::emit`] writes.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        match self {
            Self::Write { tseth, imm, .. } => write_len(tseth.is_some(), imm.is_some()),
            Self::Ack(_) => AethRepr::LEN,
            Self::Sack(_) => SackRepr::LEN,
            Self::Nack(_) => NackRepr::LEN,
            Self::Probe(_) => ProbeRepr::LEN,
            Self::EndpointRequest(_) => EndpointRequestRepr::LEN,
            Self::EndpointResponse(_) => EndpointResponseRepr::LEN,
            Self::Trimmed { .. } => 0,
        }
    }

    /// Writes the headers to the start of `out`; returns their length, `None` when `out` is too small.
    ///
    /// The caller keeps BTH in step: `ts` set with a TSETH, an immediate opcode with an immediate. Nothing is written
    /// for `Trimmed`, which only a switch makes.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let mut rest = out;
        match self {
            Self::Write { meth, tseth, reth, imm } => {
                meth.emit(put(&mut rest)?);
                if let Some(tseth) = tseth {
                    tseth.emit(put(&mut rest)?);
                }
                reth.emit(put(&mut rest)?);
                if let Some(imm) = imm {
                    *put(&mut rest)? = imm.to_be_bytes();
                }
            }
            Self::Ack(h) => h.emit(put(&mut rest)?),
            Self::Sack(h) => h.emit(put(&mut rest)?),
            Self::Nack(h) => h.emit(put(&mut rest)?),
            Self::Probe(h) => h.emit(put(&mut rest)?),
            Self::EndpointRequest(h) => h.emit(put(&mut rest)?),
            Self::EndpointResponse(h) => h.emit(put(&mut rest)?),
            Self::Trimmed { .. } => {}
        }
        Some(self.header_len())
    }
}
