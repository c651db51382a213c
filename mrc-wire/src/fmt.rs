//! One line per packet, as `mrc decode` prints it, and every field by name for `-v`.

use core::fmt::{self, Display};

use crate::{Body, EndpointOp, Frame, Ip, Opcode, Syndrome, Trim, Verdict};

impl Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bth = &self.bth;
        write!(f, "{} qp={:#08x} psn={}", Name(bth.opcode), bth.dest_qp.value(), bth.psn.value())?;
        write!(f, " ev={:#x}", self.entropy.0)?;
        match &self.body {
            Body::Write { meth, reth, imm, .. } => {
                write!(f, " len={} msg={} msn={} va={:#x}", self.payload.len(), reth.dmalen, meth.msn.0, reth.va)?;
                if let Some(imm) = imm {
                    write!(f, " imm={imm:#x}")?;
                }
            }
            Body::Ack(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => write!(f, " ack msn={}", aeth.msn)?,
                other => write!(f, " nak={:#04x} msn={}", other.to_u8(), aeth.msn)?,
            },
            Body::Sack(sack) => {
                let base = sack.cack.offset(i32::from(sack.sack_offset));
                write!(f, " cack={} base={} have={:#x} rcvd={}", sack.cack.value(), base.value(), sack.bitmap, sack.rcvd_bytes)?;
                write!(f, " echo={:#x}", sack.entropy.0)?;
                if sack.probe_answer {
                    write!(f, " probe={:#x}", sack.probe_id())?;
                } else {
                    write!(f, " for={}", sack.cack.offset(i32::from(sack.ack_offset())).value())?;
                }
                match sack.verdict {
                    Verdict::None => {}
                    Verdict::SkipOnce => f.write_str(" skip")?,
                    Verdict::AlwaysSkip => f.write_str(" always_skip")?,
                }
            }
            Body::Nack(nack) => write!(f, " {:?} echo={:#x}", nack.reason, nack.entropy.0)?,
            Body::Probe(probe) => write!(f, " probe={:#x}", probe.probe_id)?,
            Body::EndpointRequest(request) => match request.op {
                EndpointOp::PortStatusUpdate => write!(f, " ports={:#x}", request.port_status_mask)?,
                EndpointOp::EvProbe => f.write_str(" ev_probe")?,
            },
            Body::EndpointResponse(response) => match response.op {
                EndpointOp::PortStatusUpdate => f.write_str(" ports")?,
                EndpointOp::EvProbe => f.write_str(" ev_probe")?,
            },
            Body::Trimmed { kind: Trim::Trimmed, .. } => f.write_str(" TRIMMED")?,
            Body::Trimmed { kind: Trim::LastHop, .. } => f.write_str(" TRIMMED_LASTHOP")?,
        }
        for (set, name) in [(bth.ack_req, " a"), (bth.rtx, " rtx"), (bth.se, " se"), (self.ce, " CE")] {
            if set {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

struct Name(Opcode);

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

struct Addr(Ip);

impl Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ip::V4(octets) => write!(f, "{}", core::net::Ipv4Addr::from(octets)),
            Ip::V6(octets) => write!(f, "{}", core::net::Ipv6Addr::from(octets)),
        }
    }
}

impl Frame {
    /// Calls `field` with the name and value of every field, in wire order.
    pub fn for_each_field(&self, mut field: impl FnMut(&'static str, &dyn Display)) {
        if let Some(outer) = self.outer_dst {
            field("outer.dst", &Addr(Ip::V6(outer)));
        }
        field("ip.src", &Addr(self.src));
        field("ip.dst", &Addr(self.dst));
        field("ip.dscp", &self.dscp);
        field("ip.ce", &self.ce);
        field("udp.length", &self.udp_len);
        field("ev", &format_args!("{:#010x}", self.entropy.0));
        let bth = &self.bth;
        field("bth.opcode", &format_args!("{:#04x} {}", bth.opcode.to_u8(), bth.opcode.name()));
        field("bth.se", &bth.se);
        field("bth.pad", &bth.pad);
        field("bth.pkey", &format_args!("{:#06x}", bth.pkey));
        field("bth.dqp", &format_args!("{:#08x}", bth.dest_qp.value()));
        field("bth.a", &bth.ack_req);
        field("bth.rtx", &bth.rtx);
        field("bth.ts", &bth.ts);
        field("bth.psn", &bth.psn.value());
        self.body_fields(&mut field);
        if !self.payload.is_empty() {
            field("payload", &format_args!("{} bytes at {}", self.payload.len(), self.payload.start));
        }
    }

    fn body_fields(&self, field: &mut impl FnMut(&'static str, &dyn Display)) {
        match &self.body {
            Body::Write { meth, tseth, reth, imm } => {
                field("meth.rqmsn", &meth.rqmsn.0);
                field("meth.msn", &meth.msn.0);
                if let Some(tseth) = tseth {
                    field("tseth.tx_timestamp", &tseth.timestamp);
                }
                field("reth.va", &format_args!("{:#x}", reth.va));
                field("reth.rkey", &format_args!("{:#010x}", reth.rkey.0));
                field("reth.dmalen", &reth.dmalen);
                if let Some(imm) = imm {
                    field("immdt", &format_args!("{imm:#010x}"));
                }
            }
            Body::Ack(aeth) => {
                field("aeth.syndrome", &format_args!("{:#04x}", aeth.syndrome.to_u8()));
                field("aeth.msn", &aeth.msn);
            }
            Body::Sack(sack) => {
                field("seth.m", &format_args!("{:?}", sack.verdict));
                field("seth.pr", &sack.probe_answer);
                if sack.probe_answer {
                    field("seth.probe_id", &format_args!("{:#x}", sack.probe_id()));
                } else {
                    field("seth.ack_psn_offset", &sack.ack_offset());
                }
                field("seth.entropy", &format_args!("{:#010x}", sack.entropy.0));
                field("seth.cack_psn", &sack.cack.value());
                field("seth.mpr", &sack.mpr);
                field("seth.sack_offset", &sack.sack_offset);
                field("seth.sack_bitmap", &format_args!("{:#018x}", sack.bitmap));
                field("cc_state.tx_timestamp", &sack.timestamp);
                field("cc_state.ooo_count", &sack.ooo_count);
                field("cc_state.restore_cwnd", &sack.restore_cwnd);
                field("cc_state.rcv_cwnd_pen", &sack.rcv_cwnd_pen);
                field("cc_state.rcvd_bytes", &sack.rcvd_bytes);
            }
            Body::Nack(nack) => {
                field("neth.reason", &format_args!("{:#04x} {:?}", nack.reason.to_u8(), nack.reason));
                field("neth.entropy", &format_args!("{:#010x}", nack.entropy.0));
                field("neth.nack_psn", &nack.psn.value());
                field("neth.cc_type", &nack.cc_type);
                field("neth.tx_timestamp", &nack.timestamp);
            }
            Body::Probe(probe) => {
                field("peth.probe_id", &format_args!("{:#x}", probe.probe_id));
                field("peth.tx_timestamp", &probe.tseth.timestamp);
            }
            Body::EndpointRequest(request) => {
                field("erth.op", &format_args!("{:?}", request.op));
                field("erth.port_status_mask", &format_args!("{:#x}", request.port_status_mask));
                field("erth.tx_timestamp", &request.tseth.timestamp);
            }
            Body::EndpointResponse(response) => {
                field("eeth.op", &format_args!("{:?}", response.op));
                field("eeth.tx_timestamp", &response.timestamp);
            }
            Body::Trimmed { kind, timestamp } => {
                field("trimmed", kind);
                field("tseth.tx_timestamp", timestamp);
            }
        }
    }
}
