//! Open questions of the protocol that peers may answer in two ways. A target of the other reading passes the suite when the
//! tester knows its knob: what rests on the default alone does not apply. It fails when the tester does not know, and the
//! failing scripts name the field.

use std::collections::BTreeSet;

use mrc_conform::{Knobs, Verdict, builtin, engine, run};

/// Scripts that do not pass, and the field in which each differs, when the target is set to `item`.
fn failing(item: &str, known: bool) -> Vec<(String, String)> {
    let mut other = Knobs::default();
    other.read(item).unwrap();
    let mut failing = Vec::new();
    for mut script in builtin().unwrap() {
        // The target has the knob, whatever the script asks for.
        let mut target = script.knobs.clone();
        other.iter().for_each(|(name, value)| assert!(target.set(name, value)));
        if known && script.knobs.fix(&other).is_err() {
            continue; // Does not apply to this target.
        }
        let outcome = engine::with_virtual(&target, |target, facts| run(&script, facts, target)).unwrap();
        match outcome.verdict {
            Verdict::Pass => {}
            Verdict::Fail(failure) => {
                failing
                    .push((script.file, failure.difference.map_or("behaviour".into(), |difference| difference.field)));
            }
            _ => failing.push((script.file, "refused".into())),
        }
    }
    failing
}

/// A target set to `item` passes when the tester knows; else at least so many scripts fail, in these fields only.
fn reading(item: &str, at_least: usize, fields: &[&str]) {
    assert_eq!(failing(item, true), [], "{item} is known to the tester");
    let unknown = failing(item, false);
    let differ: BTreeSet<&str> = unknown.iter().map(|(_, field)| field.as_str()).collect();
    let allowed: BTreeSet<&str> = fields.iter().copied().collect();
    assert!(unknown.len() >= at_least, "{item}: only {unknown:?} notice");
    assert!(differ.is_subset(&allowed), "{item}: {differ:?} differ: {unknown:?}");
}

macro_rules! readings {
    ($($name:ident: $item:literal, $at_least:literal, $fields:expr;)*) => {
        $(#[test]
        fn $name() {
            reading($item, $at_least, &$fields);
        })*
    };
}

//= SETH-006 test
readings! {
    oq_01_the_other_udp_port: "udp_port=4971", 300, ["udp.dport"];
    oq_02_the_high_half_in_the_source_port: "ev_high_half_in_sport=1", 250,
        ["ev", "eth.dst", "ip.label", "seth.entropy", "neth.entropy", "outer.dst", "udp.sport"];
    oq_04_silence_above_the_window: "oor_silent=1", 8, ["behaviour"];
    oq_05_the_other_solicited_bit: "bth_se_bit=6", 3, ["bth.se", "behaviour"];
    oq_07_the_requester_first: "pdcid_order=requester", 140, ["seth.spdcid", "neth.spdcid"];
    oq_08_another_congestion_type: "neth_cc_type=0", 25, ["neth.cc_type"];
    oq_09_messages_from_1: "msn_start=1", 140, ["meth.msn"];
    oq_09_receive_queue_from_1: "rqmsn_start=1", 4, ["meth.rqmsn"];
    oq_10_another_nak_code: "wimm_nak_syndrome=0x63", 1, ["aeth.syndrome"];
    oq_11_a_sack_completes: "complete_on_sack=1", 8, ["behaviour"];
    oq_12_every_retry_counts: "retry_strict=1", 1, ["behaviour"];
    oq_14_more_packets_overtake: "reorder_min=6", 7, ["behaviour"];
    oq_15_an_inferred_loss_retires: "loss_ev_action=1", 1, ["behaviour"];
    oq_17_two_good_probes: "resurrect_probes=2", 2, ["behaviour"];
    oq_18_skip_for_a_time: "skip_time=1000000", 1, ["behaviour"];
    oq_19_no_last_resort: "last_resort=0", 1, ["behaviour"];
    oq_27_another_class_for_control: "dscp_control=40", 190, ["ip.dscp", "outer.dscp"];
    oq_27_another_class_for_data: "dscp_trimmable=6", 10, ["ip.dscp", "outer.dscp"];
    oq_27_another_class_for_retransmissions: "dscp_retx=10", 3, ["ip.dscp", "outer.dscp"];
    oq_27_another_mark_of_trimmed_packets: "dscp_trimmed=14", 10, ["behaviour", "icrc"];
    oq_28_control_packets_ecn_capable: "ctl_ect=1", 190, ["ip.ecn", "outer.ecn"];
    oq_30_port_mask_from_bit_0: "port_mask_zero_based=1", 8, ["erth.mask", "port"];
    oq_32_another_sack_threshold: "sack_threshold=8192", 2, ["behaviour", "bth.a"];
    oq_33_another_basis_of_sizes: "size_overhead=0", 12, ["seth.rcvd", "behaviour", "bth.a"];
    oq_36_no_empty_messages: "reject_zero_len=1", 1, ["behaviour", "refused"];
    oq_38_nak_without_receive: "no_receive=nak", 2, ["behaviour"];
    oq_38_tail_retries_are_free: "tail_retry_lenient=1", 1, ["behaviour"];
    oq_43_always_skip_is_sent: "always_skip_after=3", 1, ["seth.m"];
    oq_45_no_count_in_transport_acks: "ack_msn_zero=1", 40, ["aeth.msn"];
    oq_44_another_partition: "pkey=0x8001", 300, ["behaviour", "bth.pkey", "memory[2048]", "refused"];
    oq_50_a_late_nak_is_fatal: "stale_nak_fatal=1", 1, ["behaviour"];
    oq_61_masked_ports_are_not_probed: "probe_masked_ports=0", 1, ["behaviour"];
}
