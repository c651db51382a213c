//! Frames as text: one line in the manner of tcpdump, or one field after the other.

use crate::{Body, BthRepr, Frame, TsethRepr};
use core::fmt::{self, Display, Formatter};

/// Where fields go: name and value.
type Sink<'a> = &'a mut dyn FnMut(&'static str, &dyn Display);

/// A number shown in hexadecimal with all its digits.
enum Hex {
    U16(u16),
    U32(u32),
    U64(u64),
}

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::U16(v) => write!(f, "0x{v:04x}"),
            Self::U32(v) => write!(f, "0x{v:08x}"),
            Self::U64(v) => write!(f, "0x{v:016x}"),
        }
    }
}

/// `opcode qp psn ev len`, flags that are set, then what the opcode adds.
///
/// With `{:#}` every field stands on a line of its own.
impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            let mut result = Ok(());
            self.for_each_field(|name, value| {
                if result.is_ok() {
                    result = writeln!(f, "{name}: {value}");
                }
            });
            return result;
        }
        let bth = &self.bth;
        write!(f, "{} qp={} psn={} ev={} len={}", bth.opcode, bth.dest_qp, bth.psn, self.entropy, self.payload.len())?;
        for (set, name) in
            [(bth.ack_req, "a"), (bth.rtx, "rtx"), (bth.se, "se"), (self.ce, "ce"), (self.outer_dst.is_some(), "srv6")]
        {
            if set {
                write!(f, " {name}")?;
            }
        }
        line(&self.body, f)
    }
}

/// The part of the line that depends on the opcode.
fn line(body: &Body, f: &mut Formatter<'_>) -> fmt::Result {
    match body {
        Body::Write { meth, tseth, reth, imm } => {
            write!(f, " msn={} va=0x{:x} rkey={} dmalen={}", meth.msn, reth.va, reth.rkey, reth.dmalen)?;
            if let Some(imm) = imm {
                write!(f, " imm=0x{imm:08x} rqmsn={}", meth.rqmsn)?;
            }
            match tseth {
                Some(t) if t.is_timestamp() => write!(f, " ts={}", t.timestamp),
                _ => Ok(()),
            }
        }
        Body::Ack(h) => write!(f, " {} msn={}", h.syndrome, h.msn),
        Body::Sack(h) => {
            write!(f, " cack={} echo={} verdict={}", h.cack, h.entropy, h.verdict)?;
            if h.probe_answer {
                write!(f, " probe=0x{:04x}", h.probe_id())?;
            } else {
                write!(f, " trigger={}", h.cack.offset(i32::from(h.ack_offset())))?;
            }
            if h.bitmap != 0 {
                let base = h.cack.offset(i32::from(h.sack_offset));
                write!(f, " base={base} bitmap=0x{:016x}", h.bitmap)?;
            }
            write!(f, " ooo={} rcvd={} ts={}", h.ooo_count, h.rcvd_bytes, h.timestamp)?;
            if h.mpr != 0 {
                write!(f, " mpr={}", h.mpr)?;
            }
            if h.rcv_cwnd_pen != 0 || h.restore_cwnd {
                write!(f, " pen={} restore={}", h.rcv_cwnd_pen, u8::from(h.restore_cwnd))?;
            }
            Ok(())
        }
        Body::Nack(h) => write!(f, " refused={} reason={} echo={} ts={}", h.psn, h.reason, h.entropy, h.timestamp),
        Body::Probe(h) => write!(f, " probe=0x{:04x} ts={}", h.probe_id, h.tseth.timestamp),
        Body::EndpointRequest(h) => {
            write!(f, " {} ports=0x{:08x} ts={}", h.op, h.port_status_mask, h.tseth.timestamp)
        }
        Body::EndpointResponse(h) => write!(f, " {} ts={}", h.op, h.timestamp),
        Body::Trimmed { kind, timestamp, .. } => write!(f, " {kind} ts={timestamp}"),
    }
}

impl Frame {
    /// Calls `each` with name and value of every field, lowest layer first. Names have the form `header.field`.
    pub fn for_each_field(&self, mut each: impl FnMut(&'static str, &dyn Display)) {
        let to: Sink<'_> = &mut each;
        if let Some(dst) = self.outer_dst {
            to("outer.dst", &crate::Ip::V6(dst));
        }
        to("ip.src", &self.src);
        to("ip.dst", &self.dst);
        to("ip.dscp", &self.dscp);
        to("ip.ce", &self.ce);
        to("entropy", &self.entropy);
        to("udp.len", &self.udp_len);
        bth(&self.bth, to);
        match &self.body {
            Body::Write { meth, tseth: stamp, reth, imm } => {
                to("meth.rqmsn", &meth.rqmsn);
                to("meth.msn", &meth.msn);
                if let Some(t) = stamp {
                    tseth("tseth", t, to);
                }
                to("reth.va", &Hex::U64(reth.va));
                to("reth.rkey", &reth.rkey);
                to("reth.dmalen", &reth.dmalen);
                if let Some(imm) = imm {
                    to("immdt", &Hex::U32(*imm));
                }
            }
            Body::Ack(h) => {
                to("aeth.syndrome", &h.syndrome);
                to("aeth.msn", &h.msn);
            }
            Body::Sack(h) => sack(h, to),
            Body::Nack(h) => {
                to("neth.reason", &h.reason);
                to("neth.vendor_info", &h.vendor_info);
                to("neth.entropy", &h.entropy);
                to("neth.spdcid", &Hex::U16(h.spdcid));
                to("neth.dpdcid", &Hex::U16(h.dpdcid));
                to("neth.nack_psn", &h.psn);
                to("neth.cc_type", &h.cc_type);
                to("neth.tx_timestamp", &h.timestamp);
            }
            Body::Probe(h) => {
                to("peth.vendor_info", &h.vendor_info);
                to("peth.probe_id", &Hex::U16(h.probe_id));
                to("peth.spdcid", &Hex::U16(h.spdcid));
                to("peth.dpdcid", &Hex::U16(h.dpdcid));
                tseth("peth", &h.tseth, to);
            }
            Body::EndpointRequest(h) => {
                to("erth.op", &h.op);
                to("erth.vendor_info", &h.vendor_info);
                to("erth.port_status_mask", &Hex::U32(h.port_status_mask));
                tseth("erth", &h.tseth, to);
            }
            Body::EndpointResponse(h) => {
                to("eeth.op", &h.op);
                to("eeth.tx_timestamp", &h.timestamp);
            }
            Body::Trimmed { kind, timestamp, .. } => {
                to("trim.kind", kind);
                to("trim.tx_timestamp", timestamp);
            }
        }
        to("payload.offset", &self.payload.start);
        to("payload.len", &self.payload.len());
        if !matches!(self.body, Body::Trimmed { .. }) {
            to("icrc.offset", &self.icrc_offset);
        }
    }
}

fn bth(h: &BthRepr, to: Sink<'_>) {
    to("bth.opcode", &h.opcode);
    to("bth.se", &h.se);
    to("bth.pad", &h.pad);
    to("bth.pkey", &Hex::U16(h.pkey));
    to("bth.dest_qp", &h.dest_qp);
    to("bth.ack_req", &h.ack_req);
    to("bth.rtx", &h.rtx);
    to("bth.ts", &h.ts);
    to("bth.psn", &h.psn);
}

/// The timestamp group of the header called `of`.
fn tseth(of: &str, h: &TsethRepr, to: Sink<'_>) {
    let [stamp, tsr, ftype] = match of {
        "peth" => ["peth.tx_timestamp", "peth.tsr", "peth.ftype"],
        "erth" => ["erth.tx_timestamp", "erth.tsr", "erth.ftype"],
        _ => ["tseth.tx_timestamp", "tseth.tsr", "tseth.ftype"],
    };
    to(stamp, &h.timestamp);
    to(tsr, &h.tsr);
    to(ftype, &h.ftype);
}

fn sack(h: &crate::SackRepr, to: Sink<'_>) {
    to("seth.m", &h.verdict);
    to("seth.pr", &h.probe_answer);
    if h.probe_answer {
        to("seth.probe_id", &Hex::U16(h.probe_id()));
    } else {
        to("seth.ack_psn_offset", &h.ack_offset());
    }
    to("seth.entropy", &h.entropy);
    to("seth.spdcid", &Hex::U16(h.spdcid));
    to("seth.dpdcid", &Hex::U16(h.dpdcid));
    to("seth.cack_psn", &h.cack);
    to("seth.cc_type", &h.cc_type);
    to("seth.mpr", &h.mpr);
    to("seth.sack_offset", &h.sack_offset);
    to("seth.sack_bitmap", &Hex::U64(h.bitmap));
    to("cc_state.tx_timestamp", &h.timestamp);
    to("cc_state.ooo_count", &h.ooo_count);
    to("cc_state.restore_cwnd", &h.restore_cwnd);
    to("cc_state.rcv_cwnd_pen", &h.rcv_cwnd_pen);
    to("cc_state.rcvd_bytes", &h.rcvd_bytes);
}
