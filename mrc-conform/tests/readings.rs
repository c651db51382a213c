//! Open questions of the protocol that peers may answer in two ways. A target of the other reading passes the suite when the
//! tester knows its knob: what rests on the default alone does not apply. It fails when the tester does not know, and the
//! failing scripts name the field, and their reports the open question.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use mrc_conform::{Certainty, Decision, KNOBS, Knobs, Outcome, Requirement, Script, Verdict, builtin, engine, run};

/// Read once: a reading plays all of them twice.
static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| builtin().unwrap());

/// Scripts that do not pass when the target is set to `item`.
fn failing(item: &str, known: bool) -> Vec<Outcome> {
    let mut other = Knobs::default();
    other.read(item).unwrap();
    let mut failing = Vec::new();
    for mut script in SCRIPTS.iter().cloned() {
        // The target has the knob, whatever the script asks for.
        let mut target = script.knobs.clone();
        other.iter().for_each(|(name, value)| assert!(target.set(name, value)));
        if known && script.knobs.fix(&other).is_err() {
            continue; // Does not apply to this target.
        }
        let outcome = engine::with_virtual(&target, |target, facts| run(&script, facts, target)).unwrap();
        if outcome.verdict != Verdict::Pass {
            failing.push(outcome);
        }
    }
    failing
}

/// The field in which a script differs.
fn field(outcome: &Outcome) -> &str {
    match &outcome.verdict {
        Verdict::Fail(failure) => failure.difference.as_ref().map_or("behaviour", |difference| &difference.field),
        _ => "refused",
    }
}

/// A target set to `item` passes when the tester knows; else at least so many scripts fail, in these fields only, and a
/// report names the open question.
fn reading(item: &str, at_least: usize, fields: &[&str]) {
    let known: Vec<String> = failing(item, true).iter().map(|o| format!("{}: {}", o.script, o.explain())).collect();
    assert!(known.is_empty(), "{item} is known to the tester:\n{}", known.join("\n"));
    let unknown = failing(item, false);
    let names: Vec<(&str, &str)> = unknown.iter().map(|outcome| (outcome.script.as_str(), field(outcome))).collect();
    let differ: BTreeSet<&str> = names.iter().map(|(_, field)| *field).collect();
    let allowed: BTreeSet<&str> = fields.iter().copied().collect();
    assert!(unknown.len() >= at_least, "{item}: only {names:?} notice");
    assert!(differ.is_subset(&allowed), "{item}: {differ:?} differ: {names:?}");
    let name = item.split('=').next().unwrap();
    let question = KNOBS.iter().find(|knob| knob.name == name).unwrap().question;
    let said = unknown.iter().any(|outcome| outcome.questions().iter().any(|knob| knob.question == question));
    assert!(said, "{item}: no report names {question}: {names:?}");
}

macro_rules! readings {
    ($($name:ident: $item:literal, $at_least:literal, $fields:expr;)*) => {
        /// Every reading that is played.
        const READINGS: &[&str] = &[$($item),*];

        $(#[test]
        fn $name() {
            reading($item, $at_least, &$fields);
        })*
    };
}

//= SETH-006 test
readings! {
    oq_01_the_other_udp_port: "udp_port=4971", 300, ["udp.dport"];
    oq_01_one_udp_port: "udp_accept=4791", 1, ["behaviour"];
    oq_02_the_high_half_in_the_source_port: "ev_high_half_in_sport=1", 250,
        ["ev", "eth.dst", "ip.label", "seth.entropy", "neth.entropy", "outer.dst", "udp.sport"];
    oq_04_silence_above_the_window: "oor_silent=1", 8, ["behaviour"];
    oq_05_the_other_solicited_bit: "bth_se_bit=6", 3, ["bth.se", "behaviour"];
    oq_06_operations_two_bits_higher: "eeth_op_bit=4", 4, ["eeth.op", "eeth.res1", "port"];
    oq_07_the_requester_first: "pdcid_order=requester", 140, ["seth.spdcid", "neth.spdcid"];
    oq_08_another_congestion_type: "neth_cc_type=0", 25, ["neth.cc_type"];
    oq_09_messages_from_1: "msn_start=1", 140, ["meth.msn"];
    oq_09_receive_queue_from_1: "rqmsn_start=1", 4, ["meth.rqmsn"];
    oq_10_another_nak_code: "wimm_nak_syndrome=0x63", 1, ["aeth.syndrome"];
    oq_11_a_sack_completes: "complete_on_sack=1", 8, ["behaviour"];
    oq_12_every_retry_counts: "retry_strict=1", 1, ["behaviour"];
    oq_12_tails_are_retries_at_the_pace_of_packets: "tail_retry_paced=1", 3, ["behaviour"];
    oq_13_doubling_begins_at_t0: "exp_from_t0=1", 1, ["behaviour"];
    oq_14_more_packets_overtake: "reorder_min=6", 7, ["behaviour"];
    oq_14_a_smaller_part_of_the_window_overtakes: "reorder_factor=64", 7, ["behaviour"];
    oq_15_an_inferred_loss_retires: "loss_ev_action=1", 1, ["behaviour"];
    oq_16_a_marked_answer_is_good: "marked_probe_good=1", 1, ["ev"];
    oq_17_probes_every_50_us: "probe_interval=50000", 2, ["behaviour"];
    oq_17_two_good_probes: "resurrect_probes=2", 2, ["behaviour"];
    oq_17_relapses_wait_longer: "relapse_backoff=1", 1, ["behaviour"];
    oq_18_skip_for_a_time: "skip_time=1000000", 1, ["behaviour", "ev"];
    oq_18_marks_prolong_a_skip: "skip_extends=1", 1, ["behaviour"];
    oq_19_a_last_resort_at_any_pace: "last_resort=2", 1, ["behaviour"];
    oq_19_no_last_resort: "last_resort=0", 1, ["behaviour", "ev"];
    oq_21_service_time_is_added: "svc_time=1", 1, ["seth.stamp"];
    oq_22_a_private_stamp_counts_microseconds: "tsr_us=1", 1, ["seth.stamp"];
    oq_23_the_outer_label: "ev_in_outer_label=1", 2, ["seth.entropy"];
    oq_26_short_trimmed_packets_are_dropped: "trim_keeps_tseth=1", 2, ["behaviour"];
    oq_27_another_class_for_control: "dscp_control=40", 190, ["ip.dscp", "outer.dscp"];
    oq_27_another_class_for_data: "dscp_trimmable=6", 10, ["ip.dscp", "outer.dscp"];
    oq_27_another_class_for_retransmissions: "dscp_retx=10", 3, ["ip.dscp", "outer.dscp"];
    oq_27_another_class_for_data_without_trimming: "dscp_no_trim=10", 100, ["ip.dscp", "outer.dscp"];
    oq_27_another_mark_of_packets_trimmed_at_the_last_hop: "dscp_trimmed_lasthop=20", 1, ["behaviour"];
    oq_27_another_mark_of_trimmed_packets: "dscp_trimmed=14", 10, ["behaviour", "icrc"];
    oq_28_control_packets_ecn_capable: "ctl_ect=1", 190, ["ip.ecn", "outer.ecn"];
    oq_30_port_mask_from_bit_0: "port_mask_zero_based=1", 8, ["erth.mask", "port"];
    oq_31_any_room_is_enough: "send_below_window=1", 1, ["behaviour"];
    oq_32_another_sack_threshold: "sack_threshold=8192", 2, ["behaviour", "bth.a"];
    oq_33_another_basis_of_sizes: "size_overhead=0", 12, ["seth.rcvd", "behaviour", "bth.a"];
    oq_34_the_newest_psn_is_left_out: "bitmap_reach=64", 2, ["seth.sack_offset"];
    oq_35_a_clear_bit_says_nothing: "reorder_min=65535", 7, ["behaviour"];
    oq_36_no_empty_messages: "reject_zero_len=1", 1, ["behaviour", "refused"];
    oq_38_nak_without_receive: "no_receive=nak", 2, ["behaviour"];
    oq_38_tail_retries_are_free: "tail_retry_lenient=1", 1, ["behaviour"];
    oq_40_a_smaller_window_refuses: "right_edge_retreats=1", 1, ["behaviour"];
    oq_43_always_skip_is_sent: "always_skip_after=3", 1, ["seth.m"];
    oq_45_no_count_in_transport_acks: "ack_msn_zero=1", 40, ["aeth.msn"];
    oq_44_another_partition: "pkey=0x8001", 300, ["behaviour", "bth.pkey", "memory[2048]", "refused"];
    oq_47_answers_on_silent_planes: "answers_on_silent_planes=1", 1, ["port"];
    oq_50_a_late_nak_is_fatal: "stale_nak_fatal=1", 1, ["behaviour"];
    oq_61_masked_ports_are_not_probed: "probe_masked_ports=0", 1, ["behaviour"];
    oq_61_only_an_update_unmasks_a_port: "port_unmask_after=0", 2, ["behaviour", "port"];
    oq_70_the_last_good_path_again: "reuse_nacked_ev=1", 1, ["behaviour", "ev"];
}

/// Whether a reading sets this knob.
fn is_read(knob: &str) -> bool {
    READINGS.iter().any(|item| item.split('=').next() == Some(knob))
}

#[test]
fn every_knob_of_an_open_question_is_read_the_other_way() {
    let knobs = KNOBS.iter().filter(|knob| !knob.question.is_empty() && !is_read(knob.name));
    let missing: Vec<&str> = knobs.map(|knob| knob.name).collect();
    assert!(missing.is_empty(), "no reading sets {missing:?}");
}

/// Where sources conflict, both readings are played, or docs/conformance.md says why no script can show the other one.
#[test]
fn every_conflicting_point_is_read_the_other_way_or_listed() {
    let page = include_str!("../../docs/conformance.md");
    let (_, listed) = page.split_once("Conflicting points that no script can show:").unwrap();
    let (listed, _) = listed.trim_start().split_once("\n\n").unwrap();
    let conflicts = |question: &&Decision| {
        let ids = question.requirements.iter().filter_map(|id| Requirement::named(id));
        ids.map(|rule| rule.certainty).max() == Some(Certainty::Conflict)
    };
    for question in Decision::all().iter().filter(conflicts) {
        let played = KNOBS.iter().any(|knob| knob.question == question.id && is_read(knob.name));
        assert!(played || listed.contains(question.id), "{}: {}", question.id, question.question);
    }
}
