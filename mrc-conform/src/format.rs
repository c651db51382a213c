//! The packet formats as tables. Deliberately not `mrc-wire`: what judges an endpoint must not share its mistakes.
//! Widths and order are those of the published header diagrams.

use crate::bits::{Field, Layout, f, s};

/// Ethernet header.
pub const ETH: Layout = Layout { name: "eth", fields: &[f("dst", 48), f("src", 48), f("type", 16)] };
/// VLAN tags that a frame may have: a customer's, and a provider's before it.
pub const MOST_TAGS: usize = 2;

/// Whether this EtherType says that a VLAN tag follows: 802.1Q, 802.1ad.
pub const fn is_tag(ethertype: u128) -> bool {
    matches!(ethertype, 0x8100 | 0x88A8)
}

/// 802.1Q tag behind the addresses; `eth.type` is then 0x8100 and this `type` names the payload.
pub const VLAN: Layout = Layout { name: "vlan", fields: &[f("tci", 16), f("type", 16)] };

const IP6_FIELDS: &[Field] = &[
    f("version", 4),
    f("dscp", 6),
    f("ecn", 2),
    f("label_top", 4),
    f("label", 16),
    f("plen", 16),
    f("nh", 8),
    f("hop", 8),
    f("src", 128),
    f("dst", 128),
];
/// Inner or only IPv6 header.
pub const IP6: Layout = Layout { name: "ip", fields: IP6_FIELDS };
/// Outer IPv6 header of SRv6.
pub const OUTER: Layout = Layout { name: "outer", fields: IP6_FIELDS };
/// Segment routing header with one segment.
pub const SRH: Layout = Layout {
    name: "srh",
    fields: &[
        f("nh", 8),
        f("len", 8),
        f("type", 8),
        f("left", 8),
        f("last", 8),
        f("flags", 8),
        f("tag", 16),
        f("segment", 128),
    ],
};
/// IPv4 header without options.
pub const IP4: Layout = Layout {
    name: "ip",
    fields: &[
        f("version", 4),
        f("ihl", 4),
        f("dscp", 6),
        f("ecn", 2),
        f("total", 16),
        f("id", 16),
        f("flags", 3),
        f("fragment", 13),
        f("ttl", 8),
        f("nh", 8),
        f("hsum", 16),
        f("src", 32),
        f("dst", 32),
    ],
};
/// IPv4 header with one word of options.
pub const IP4_OPTIONS: Layout = Layout {
    name: "ip",
    fields: &[
        f("version", 4),
        f("ihl", 4),
        f("dscp", 6),
        f("ecn", 2),
        f("total", 16),
        f("id", 16),
        f("flags", 3),
        f("fragment", 13),
        f("ttl", 8),
        f("nh", 8),
        f("hsum", 16),
        f("src", 32),
        f("dst", 32),
        f("options", 32),
    ],
};
/// UDP header.
pub const UDP: Layout =
    Layout { name: "udp", fields: &[f("sport", 16), f("dport", 16), f("udplen", 16), f("checksum", 16)] };
/// Base transport header.
pub const BTH: Layout = Layout {
    name: "bth",
    fields: &[
        f("opcode", 8),
        f("se", 1),
        f("mig", 1),
        f("pad", 2),
        f("tver", 4),
        f("pkey", 16),
        f("var_res", 8),
        f("dqp", 24),
        f("a", 1),
        f("r", 1),
        f("rtx", 1),
        f("ts", 1),
        f("inv_res", 4),
        f("psn", 24),
    ],
};
/// Message numbers.
pub const METH: Layout = Layout { name: "meth", fields: &[f("rqmsn", 16), f("msn", 16)] };
/// Timestamp.
pub const TSETH: Layout =
    Layout { name: "tseth", fields: &[f("stamp", 16), f("tsr", 1), f("ts_res", 11), f("ftype", 4)] };
/// Where a write goes.
pub const RETH: Layout = Layout { name: "reth", fields: &[f("va", 64), f("rkey", 32), f("dmalen", 32)] };
/// Immediate.
pub const IMM: Layout = Layout { name: "immdt", fields: &[f("imm", 32)] };
/// Transport ACK or NAK.
pub const AETH: Layout = Layout { name: "aeth", fields: &[f("syndrome", 8), f("msn", 24)] };
/// SACK with its congestion state.
pub const SETH: Layout = Layout {
    name: "seth",
    fields: &[
        f("type", 4),
        f("next", 5),
        f("m", 2),
        f("res1", 3),
        f("pr", 1),
        f("res2", 1),
        s("ack_offset", 16),
        f("entropy", 32),
        f("spdcid", 16),
        f("dpdcid", 16),
        f("res3", 8),
        f("cack", 24),
        f("cc_type", 4),
        f("cc_flags", 4),
        f("mpr", 8),
        s("sack_offset", 16),
        f("bitmap", 64),
        f("stamp", 16),
        f("res4", 1),
        f("ooo", 15),
        f("restore", 1),
        f("pen", 7),
        f("rcvd", 24),
    ],
};
/// NACK.
pub const NETH: Layout = Layout {
    name: "neth",
    fields: &[
        f("type", 4),
        f("next", 5),
        f("res1", 7),
        f("reason", 8),
        f("vendor", 8),
        f("entropy", 32),
        f("spdcid", 16),
        f("dpdcid", 16),
        f("res2", 8),
        f("nack_psn", 24),
        f("cc_type", 4),
        f("cc_flags", 4),
        f("res3", 8),
        f("stamp", 16),
    ],
};
/// Reliability probe.
pub const PETH: Layout = Layout {
    name: "peth",
    fields: &[
        f("type", 4),
        f("next", 5),
        f("res1", 15),
        f("vendor", 8),
        f("probe_id", 16),
        f("res2", 16),
        f("spdcid", 16),
        f("dpdcid", 16),
        f("stamp", 16),
        f("tsr", 1),
        f("ts_res", 11),
        f("ftype", 4),
    ],
};
/// Endpoint request.
pub const ERTH: Layout = Layout {
    name: "erth",
    fields: &[
        f("type", 4),
        f("next", 5),
        f("res1", 5),
        f("op", 2),
        f("res2", 8),
        f("vendor", 8),
        f("mask", 32),
        f("res3", 32),
        f("stamp", 16),
        f("tsr", 1),
        f("ts_res", 11),
        f("ftype", 4),
    ],
};
/// Endpoint response.
pub const EETH: Layout = Layout {
    name: "eeth",
    fields: &[
        f("type", 4),
        f("next", 5),
        f("res1", 3),
        f("op", 2),
        f("res2", 2),
        f("res3", 16),
        f("res4", 64),
        f("res5", 128),
        f("stamp", 16),
        f("res6", 16),
        f("res7", 32),
    ],
};

/// Names of fields as `mrc decode` prints them, where scripts have a shorter one. Scripts take both.
pub const LONG_NAMES: &[(&str, &str)] = &[
    ("bth.dest_qp", "bth.dqp"),
    ("bth.ack_req", "bth.a"),
    ("udp.len", "udp.udplen"),
    ("immdt", "immdt.imm"),
    ("tseth.tx_timestamp", "tseth.stamp"),
    ("peth.tx_timestamp", "peth.stamp"),
    ("erth.tx_timestamp", "erth.stamp"),
    ("eeth.tx_timestamp", "eeth.stamp"),
    ("neth.tx_timestamp", "neth.stamp"),
    ("cc_state.tx_timestamp", "seth.stamp"),
    ("cc_state.ooo_count", "seth.ooo"),
    ("cc_state.restore_cwnd", "seth.restore"),
    ("cc_state.rcv_cwnd_pen", "seth.pen"),
    ("cc_state.rcvd_bytes", "seth.rcvd"),
    ("seth.ack_psn_offset", "seth.ack_offset"),
    ("seth.probe_id", "seth.ack_offset"),
    ("seth.cack_psn", "seth.cack"),
    ("seth.sack_bitmap", "seth.bitmap"),
    ("neth.vendor_info", "neth.vendor"),
    ("peth.vendor_info", "peth.vendor"),
    ("erth.vendor_info", "erth.vendor"),
    ("erth.port_status_mask", "erth.mask"),
];

/// The name in scripts of a field that has a longer one, without its header.
pub(crate) fn short_name(long: &str) -> Option<&'static str> {
    let (_, short) = LONG_NAMES.iter().find(|(known, _)| *known == long)?;
    short.rsplit('.').next()
}

/// Packet types of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name in scripts.
    pub name: &'static str,
    /// Opcode.
    pub opcode: u8,
    /// What follows BTH; TSETH of writes is left out when the packet carries none.
    pub ext: &'static [Layout],
}

/// All packet types.
pub const KINDS: &[Kind] = &[
    Kind { name: "write_first", opcode: 0xC6, ext: &[METH, TSETH, RETH] },
    Kind { name: "write_middle", opcode: 0xC7, ext: &[METH, TSETH, RETH] },
    Kind { name: "write_last", opcode: 0xC8, ext: &[METH, TSETH, RETH] },
    Kind { name: "write_last_imm", opcode: 0xC9, ext: &[METH, TSETH, RETH, IMM] },
    Kind { name: "write_only", opcode: 0xCA, ext: &[METH, TSETH, RETH] },
    Kind { name: "write_only_imm", opcode: 0xCB, ext: &[METH, TSETH, RETH, IMM] },
    Kind { name: "ack", opcode: 0xD1, ext: &[AETH] },
    Kind { name: "ep_request", opcode: 0xD8, ext: &[ERTH] },
    Kind { name: "ep_response", opcode: 0xD9, ext: &[EETH] },
    Kind { name: "sack", opcode: 0xDC, ext: &[SETH] },
    Kind { name: "nack", opcode: 0xDD, ext: &[NETH] },
    Kind { name: "probe", opcode: 0xDE, ext: &[PETH] },
];

impl Kind {
    /// The type of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The type of that opcode.
    pub fn of(opcode: u8) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.opcode == opcode)
    }

    /// Whether it carries payload.
    pub fn is_write(&self) -> bool {
        (0xC6..=0xCB).contains(&self.opcode)
    }

    /// Whether it goes to QP 2.
    pub fn is_endpoint(&self) -> bool {
        matches!(self.opcode, 0xD8 | 0xD9)
    }

    /// Whether it carries a timestamp of its sender.
    pub fn is_stamped(&self) -> bool {
        self.is_write() || matches!(self.opcode, 0xD8 | 0xDE)
    }

    /// Whether it ends a message.
    pub fn ends_message(&self) -> bool {
        matches!(self.opcode, 0xC8..=0xCB)
    }

    /// Whether it travels in the control class.
    pub fn is_control(&self) -> bool {
        matches!(self.opcode, 0xD1 | 0xD9 | 0xDC | 0xDD)
    }
}

/// Headers of a packet.
pub(crate) fn layouts(kind: &Kind, ip: i64, srv6: bool, timed: bool) -> Vec<Layout> {
    let mut stack = vec![ETH];
    if srv6 {
        stack.push(OUTER);
    }
    stack.push(if ip == 4 { IP4 } else { IP6 });
    stack.extend([UDP, BTH]);
    stack.extend(kind.ext.iter().filter(|layout| timed || layout.name != "tseth"));
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the size table, so that a slip in a width cannot stay.
    //= STACK-001 test
    #[test]
    fn headers_have_their_published_sizes() {
        let sizes = [
            (ETH, 14),
            (VLAN, 4),
            (IP6, 40),
            (SRH, 24),
            (IP4, 20),
            (UDP, 8),
            (BTH, 12),
            (METH, 4),
            (TSETH, 4),
            (RETH, 16),
            (IMM, 4),
            (AETH, 4),
            (SETH, 36),
            (NETH, 20),
            (PETH, 16),
            (ERTH, 16),
            (EETH, 36),
        ];
        for (layout, bytes) in sizes {
            assert_eq!(layout.bytes(), bytes, "{}", layout.name);
        }
    }

    #[test]
    fn no_packet_has_two_fields_of_one_name_above_ip() {
        for kind in KINDS {
            let mut names: Vec<&str> = [&UDP, &BTH]
                .into_iter()
                .chain(kind.ext)
                .flat_map(|l| l.fields.iter().map(|field| field.name))
                .collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(names.len(), before, "{}", kind.name);
        }
    }
}
