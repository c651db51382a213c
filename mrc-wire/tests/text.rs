//! The line per packet and the list of fields, as `mrc decode` prints them.

mod support;

use mrc_wire::*;
use support::*;

const LINES: &[(&str, &str)] = &[
    (
        "write_only_ts",
        "WRITE_ONLY qp=0x01b0b2 psn=256 ev=0x12345678 len=13 a msn=0 va=0x7f0011223344 rkey=0xcafe0001 dmalen=13 ts=4660",
    ),
    (
        "write_last_imm_rtx",
        "WRITE_LAST_IMM qp=0x01b0b2 psn=16777215 ev=0x0000c001 len=8 a rtx msn=9 va=0x7f0011224344 rkey=0xcafe0001 dmalen=4104 imm=0xa5a5f00d rqmsn=3",
    ),
    (
        "ipv4_write_only_imm_empty",
        "WRITE_ONLY_IMM qp=0x01b0b2 psn=257 ev=0x00005678 len=0 a se msn=1 va=0x0 rkey=0x00000000 dmalen=0 imm=0x00000007 rqmsn=0 ts=4672",
    ),
    (
        "srv6_write_only_ts",
        "WRITE_ONLY qp=0x01b0b2 psn=256 ev=0x12345678 len=13 a srv6 msn=0 va=0x7f0011223344 rkey=0xcafe0001 dmalen=13 ts=4660",
    ),
    ("trimmed_write_only_ts", "WRITE_ONLY qp=0x01b0b2 psn=256 ev=0x12345678 len=0 a trimmed ts=4660"),
    (
        "sack_ecn",
        "SACK qp=0x01a0a1 psn=256 ev=0x0003a001 len=0 cack=256 echo=0x12345678 verdict=skip_once trigger=261 base=257 bitmap=0x0000000000000016 ooo=3 rcvd=66 ts=4660 mpr=8",
    ),
    (
        "sack_probe_answer",
        "SACK qp=0x01a0a1 psn=2 ev=0x00030001 len=0 cack=2 echo=0x00070042 verdict=none probe=0xbeef base=16777211 bitmap=0x00000000000000ff ooo=0 rcvd=11259375 ts=65520 pen=64 restore=1",
    ),
    ("nack_trimmed", "NACK qp=0x01a0a1 psn=256 ev=0x0003a002 len=0 refused=256 reason=trimmed echo=0x12345678 ts=4660"),
    ("transport_ack", "ACK qp=0x01a0a1 psn=256 ev=0x0003a003 len=0 ack msn=1"),
    ("reliability_probe", "PROBE qp=0x01b0b2 psn=0 ev=0x00070042 len=0 probe=0xbeef ts=65520"),
    ("ev_probe_request", "EP_REQUEST qp=0x000002 psn=52719 ev=0x00070042 len=0 ev_probe ports=0x00000000 ts=258"),
    ("ev_probe_response", "EP_RESPONSE qp=0x000002 psn=52719 ev=0x0003a004 len=0 ev_probe ts=258"),
    (
        "port_status_update",
        "EP_REQUEST qp=0x000002 psn=1 ev=0x00070043 len=0 port_status_update ports=0x000001de ts=259",
    ),
];

#[test]
fn a_packet_is_one_line() {
    let cfg = WireConfig::default();
    for (name, line) in LINES {
        assert_eq!(parse(&golden_frame(name), &cfg).unwrap().to_string(), *line, "{name}");
    }
}

fn fields(name: &str) -> Vec<(&'static str, String)> {
    let mut out = vec![];
    let frame = parse(&golden_frame(name), &WireConfig::default()).unwrap();
    frame.for_each_field(|name, value| out.push((name, value.to_string())));
    out
}

#[test]
fn every_field_of_a_write_is_listed() {
    let want = "ip.src: 2001:db8:1::a
ip.dst: 2001:db8:1::b
ip.dscp: 4
ip.ce: false
entropy: 0x12345678
udp.len: 64
bth.opcode: WRITE_ONLY
bth.se: false
bth.pad: 3
bth.pkey: 0xffff
bth.dest_qp: 0x01b0b2
bth.ack_req: true
bth.rtx: false
bth.ts: true
bth.psn: 256
meth.rqmsn: 0
meth.msn: 0
tseth.tx_timestamp: 4660
tseth.tsr: false
tseth.ftype: 1
reth.va: 0x00007f0011223344
reth.rkey: 0xcafe0001
reth.dmalen: 13
payload.offset: 98
payload.len: 13
icrc.offset: 114
";
    let frame = parse(&golden_frame("write_only_ts"), &WireConfig::default()).unwrap();
    assert_eq!(format!("{frame:#}"), want);
}

#[test]
fn every_opcode_lists_its_own_header() {
    let own = [
        ("sack_ecn", "seth.sack_bitmap", "0x0000000000000016"),
        ("sack_ecn", "seth.ack_psn_offset", "5"),
        ("sack_probe_answer", "seth.probe_id", "0xbeef"),
        ("sack_probe_answer", "cc_state.rcv_cwnd_pen", "64"),
        ("nack_trimmed", "neth.cc_type", "2"),
        ("transport_ack", "aeth.syndrome", "ack"),
        ("reliability_probe", "peth.probe_id", "0xbeef"),
        ("port_status_update", "erth.port_status_mask", "0x000001de"),
        ("ev_probe_response", "eeth.tx_timestamp", "258"),
        ("write_last_imm_rtx", "immdt", "0xa5a5f00d"),
        ("srv6_write_only_ts", "outer.dst", "fc00:1:e011:6501:e012:d00b::"),
        ("trimmed_write_only_ts", "trim.kind", "trimmed"),
    ];
    for (name, field, value) in own {
        let all = fields(name);
        let found = all.iter().find(|(n, _)| *n == field).map(|(_, v)| v.as_str());
        assert_eq!(found, Some(value), "{name} {field}");
        let mut names: Vec<_> = all.iter().map(|(n, _)| n).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "{name}: a name is given once");
    }
}

#[test]
fn errors_name_object_cause_and_cure() {
    let text = [
        WireError::Version(3).to_string(),
        WireError::Reserved(FieldId::EndpointOp).to_string(),
        EncapError::MixedFamilies.to_string(),
        EncapError::OuterOverIpv4.to_string(),
        EncapError::SegmentsLeft(2).to_string(),
        DscpError::Shared(4).to_string(),
        DscpError::TooLarge(64).to_string(),
        TemplateError::TooMany(17).to_string(),
        TemplateError::EvBits(0).to_string(),
        TemplateError::DstBits(0).to_string(),
        EvError::TooManyFields { given: 2, allowed: 1 }.to_string(),
        EvError::Width { field: 0 }.to_string(),
        EvError::InitVal { field: 0 }.to_string(),
        EvError::Mask { field: 0 }.to_string(),
        EvError::Range { field: 0 }.to_string(),
        EvError::TooWide(257).to_string(),
        EvError::UnusedBit(9).to_string(),
    ];
    assert!(text.iter().all(|t| t.contains(": ")), "cause and cure are parted by a colon: {text:#?}");
    assert_eq!(text[4], "SRH has 2 segments left but holds one: use 0 (path record) or 1 (path extension)");
}
