//! What the protocol leaves to a target: another choice than ours fails the scripts about it, and is a note elsewhere.

use mrc_conform::{Done, Facts, Heard, Outcome, Packet, Post, Refusal, Script, Target, Verdict, builtin, engine, run};

/// The engine, behind a link that may change or keep what it sends, or add to it.
struct Other<'a> {
    engine: &'a mut dyn Target,
    /// Whether the packet reaches the tester; it may change before.
    passes: &'a dyn Fn(&mut Packet) -> bool,
    /// Comes first of all.
    first: Option<Heard>,
    /// Real nanoseconds to a nanosecond of the script.
    slow: u64,
}

impl Target for Other<'_> {
    fn slowness(&self) -> u64 {
        self.slow
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.engine.send(at, port, frame)
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        if let Some(first) = self.first.take_if(|first| first.at <= until) {
            return Ok(Some(first));
        }
        while let Some(heard) = self.engine.hear(until)? {
            let mut packet = Packet::parse(&heard.frame).expect("the engine sends packets");
            if (self.passes)(&mut packet) {
                return Ok(Some(Heard { frame: packet.bytes(), ..heard }));
            }
        }
        Ok(None)
    }

    fn act(&mut self, at: u64, post: &Post) -> Result<(), Refusal> {
        self.engine.act(at, post)
    }

    fn done(&mut self, until: u64) -> Result<Option<Done>, Refusal> {
        self.engine.done(until)
    }

    fn memory(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        self.engine.memory(offset, len)
    }

    fn counter(&mut self, name: &str) -> Result<i64, Refusal> {
        self.engine.counter(name)
    }
}

/// A script against such a target, in virtual time or as over a wire.
fn play_at(script: &Script, passes: &dyn Fn(&mut Packet) -> bool, slow: u64) -> Outcome {
    let play =
        |engine: &mut dyn Target, facts: &Facts| run(script, facts, &mut Other { engine, passes, first: None, slow });
    engine::with_virtual(&script.knobs, play).unwrap()
}

fn play(script: &Script, passes: &dyn Fn(&mut Packet) -> bool) -> Outcome {
    play_at(script, passes, 0)
}

/// Scripts that fail against such a target, and how many pass with a note that says so.
fn failing(passes: &dyn Fn(&mut Packet) -> bool, note: &str) -> (Vec<String>, usize) {
    failing_in(&[""], passes, note)
}

/// The same of scripts whose names begin so.
fn failing_in(begins: &[&str], passes: &dyn Fn(&mut Packet) -> bool, note: &str) -> (Vec<String>, usize) {
    let (mut failed, mut noted) = (Vec::new(), 0);
    let scripts = builtin().unwrap();
    for script in scripts.iter().filter(|script| begins.iter().any(|begin| script.file.starts_with(begin))) {
        let outcome = play(script, passes);
        noted += usize::from(outcome.notes.iter().any(|said| said.contains(note)));
        if outcome.verdict != Verdict::Pass {
            failed.push(script.file.trim_end_matches(".mrc").to_owned());
        }
    }
    (failed, noted)
}

/// The same of a target that sends `field` with this value.
fn failing_with(begins: &[&str], field: &'static str, value: u128) -> (Vec<String>, usize) {
    let change = |packet: &mut Packet| {
        if packet.set(field, value) {
            packet.icrc = None;
            fix_ip4_checksum(packet);
        }
        true
    };
    failing_in(begins, &change, field)
}

fn fix_ip4_checksum(packet: &mut Packet) {
    if packet.set("ip.hsum", 0) {
        let header = packet.bytes()[14..34].to_vec();
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        packet.set("ip.hsum", u128::from(!((sum & 0xFFFF) + (sum >> 16)) & 0xFFFF));
    }
}

fn is_write(packet: &Packet) -> bool {
    packet.kind().is_some_and(|kind| kind.name.starts_with("write"))
}

fn is(packet: &Packet, name: &str) -> bool {
    packet.kind().is_some_and(|kind| kind.name == name)
}

/// One hop limit must not hide what the suite says of everything else.
#[test]
fn another_hop_limit_fails_the_script_about_it() {
    let (failed, noted) = failing_with(&["sack/", "wire/"], "ip.hop", 255);
    assert_eq!(failed, ["wire/hop_limit"]);
    assert!(noted > 50, "{noted}");
    let (failed, noted) = failing_with(&["srv6/"], "outer.hop", 255);
    assert_eq!(failed, ["srv6/write"]);
    assert!(noted > 3, "{noted}");
}

#[test]
fn a_udp_checksum_fails_the_script_about_it() {
    let (failed, noted) = failing_with(&["tack/", "wire/"], "udp.checksum", 0xBEEF);
    assert_eq!(failed, ["wire/udp_checksum"]);
    assert!(noted > 50, "{noted}");
}

#[test]
fn an_identification_and_a_ttl_fail_the_scripts_about_them() {
    for (field, value) in [("ip.id", 7), ("ip.ttl", 255)] {
        let (failed, noted) = failing_with(&["wire/ipv4"], field, value);
        assert_eq!(failed, ["wire/ipv4", "wire/ipv4_write"], "{field}");
        assert!(noted > 0, "{field}");
    }
}

#[test]
fn a_field_of_mrc_fails_every_script_that_sees_it() {
    let (failed, _) = failing_with(&["tack/"], "bth.tver", 1);
    assert!(failed.len() > 5, "{failed:?}");
}

//= AREQ-003 test
#[test]
fn a_requester_may_ask_with_every_packet() {
    let asks = |packet: &mut Packet| {
        let changed = is_write(packet) && packet.set("a", 1);
        packet.icrc = packet.icrc.filter(|_| !changed);
        true
    };
    let (failed, noted) = failing(&asks, "bth.a");
    assert!(failed.is_empty(), "{failed:?}");
    assert!(noted > 30, "{noted}");
}

//= AREQ-001 test
#[test]
fn one_that_never_asks_fails_the_scripts_about_it() {
    let never = |packet: &mut Packet| {
        let changed = is_write(packet) && packet.set("a", 0);
        packet.icrc = packet.icrc.filter(|_| !changed);
        true
    };
    let (failed, noted) = failing(&never, "bth.a");
    let about =
        ["requester/congestion_window", "requester/full_window_asks", "requester/small_window_asks", "requester/write"];
    let tail = |name: &String| name.starts_with("retry/tail");
    let others: Vec<&String> = failed.iter().filter(|name| !tail(name)).collect();
    assert_eq!(others, about, "{failed:?}");
    assert!(noted > 100, "{noted}");
}

#[test]
fn a_requester_may_leave_out_timestamps() {
    let untimed = |packet: &mut Packet| {
        if !is_write(packet) || packet.get("ts") != Some(1) {
            return true;
        }
        packet.layers.retain(|layer| layer.layout.name != "tseth");
        packet.set("ts", 0);
        for length in ["udplen", "ip.plen", "outer.plen", "ip.total"] {
            let shorter = packet.get(length).map(|bytes| bytes - 4);
            shorter.map(|bytes| packet.set(length, bytes));
        }
        fix_ip4_checksum(packet);
        packet.icrc = None;
        true
    };
    let (failed, noted) = failing(&untimed, "bth.ts");
    assert_eq!(failed, ["wire/timestamp_sent"]);
    assert!(noted > 100, "{noted}");
}

/// Ultra Ethernet's responders round the begin of the bitmap down.
//= SACK-015 test
#[test]
fn a_bitmap_may_begin_below_the_cumulative_psn() {
    let rounded = |keep: u64| {
        move |packet: &mut Packet| {
            let (Some(cack), Some(offset)) = (packet.get("cack"), packet.get("sack_offset")) else { return true };
            let below = (cack + 1) % 8;
            if is(packet, "sack") && offset == 1 && below > 0 {
                let bitmap = packet.get("bitmap").unwrap() as u64;
                packet.set("sack_offset", 1u128.wrapping_sub(below) & 0xFFFF);
                packet.set("bitmap", (bitmap << below | ((1 << below) - 1) & keep).into());
                packet.icrc = None;
            }
            true
        }
    };
    let (failed, noted) = failing(&rounded(u64::MAX), "seth.sack_offset");
    assert_eq!(failed, ["sack/newest_left_out", "sack/newest_of_65", "sack/slices"]);
    assert!(noted > 50, "{noted}");
    // What the cumulative PSN covers has arrived.
    let (failed, _) = failing(&rounded(0), "seth.sack_offset");
    assert!(failed.len() > 50, "{failed:?}");
}

/// A responder with a full backlog slows its peer down, and another one is set up not to restore windows.
//= PEN-001, PEN-002 test
#[test]
fn a_responder_may_slow_its_peer_down() {
    let slows = |packet: &mut Packet| {
        if is(packet, "sack") {
            packet.set("pen", 64);
            packet.set("restore", 0);
            packet.icrc = None;
        }
        true
    };
    let (failed, noted) = failing(&slows, "seth.pen");
    assert_eq!(failed, ["sack/penalty_default"]);
    assert!(noted > 80, "{noted}");
}

/// Scripts about probes are those that the register's groups of probes name, or that remember a probe.
#[test]
fn an_endpoint_that_never_probes_fails_the_scripts_about_probes() {
    let (failed, noted) = failing(&|packet: &mut Packet| !is(packet, "probe"), "no probe came");
    let named = |name: &String| {
        let text = mrc_conform::builtin_text(name).unwrap();
        ["PROBE-", "PETH-", "RES-", "TIMER-005", "EPOP-", "probe_id="].iter().any(|word| text.contains(word))
    };
    let others: Vec<&String> = failed.iter().filter(|name| !named(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(failed.contains(&"retry/timeout".into()) && failed.contains(&"probe/tail".into()), "{failed:?}");
    assert!(noted > 10, "{noted}");
    // Over a wire the target's timers go on while the tester waits for a probe.
    for script in builtin().unwrap().iter().filter(|script| !failed.contains(&script.file.replace(".mrc", ""))) {
        let outcome = play_at(script, &|packet: &mut Packet| !is(packet, "probe"), mrc_conform::stretch(script));
        let alone = matches!(&outcome.verdict, Verdict::NotApplicable { reason } if reason.contains("own counters"));
        assert!(outcome.verdict == Verdict::Pass || alone, "{}: {}", script.file, outcome.explain());
    }
}

/// The engine acknowledges messages; another responder may acknowledge each packet that lets its cumulative PSN advance.
#[test]
fn a_transport_ack_more_is_a_note_if_it_is_true() {
    let text = |rule: &str| {
        format!(
            "# t\nrequires {rule}\n0 < write_first psn=0 len=1024 dmalen=1028\n1us < write_last psn=1 at=1024 len=4 dmalen=1028\n1us > ack psn=1 msn=1"
        )
    };
    let outcome = |rule: &str, psn: u128, msn: u128| {
        let script = Script::parse("a", &text(rule)).unwrap();
        let hear = |engine: &mut dyn Target, facts: &Facts| {
            let mut frames = mrc_conform::Trace::default();
            mrc_conform::run_traced(&script, facts, engine, &mut frames);
            frames.entries.iter().find(|entry| entry.from_target).unwrap().frame.clone()
        };
        let frame = engine::with_virtual(&script.knobs, hear).unwrap();
        let bytes: Vec<u8> =
            (0..frame.len() / 2).map(|n| u8::from_str_radix(&frame[2 * n..2 * n + 2], 16).unwrap()).collect();
        let mut ack = Packet::parse(&bytes).unwrap();
        ack.icrc = None;
        assert!(ack.set("bth.psn", psn) && ack.set("aeth.msn", msn));
        let first = Some(Heard { at: 500, port: 1, frame: ack.bytes() });
        let play = |engine: &mut dyn Target, facts: &Facts| {
            run(&script, facts, &mut Other { engine, passes: &|_| true, first, slow: 0 })
        };
        engine::with_virtual(&script.knobs, play).unwrap()
    };
    let more = outcome("SACK-008", 0, 0);
    assert_eq!(more.verdict, Verdict::Pass);
    assert!(more.notes[0].contains("one ack more than the script asks for, at 500 ns"), "{:?}", more.notes);
    for (what, rule, psn, msn) in [
        ("the script is about Transport ACKs", "ACK-001", 0, 0),
        ("PSN 1 has not arrived", "SACK-008", 1, 0),
        ("no message is complete", "SACK-008", 0, 1),
        ("nothing new", "SACK-008", 0xFF_FFFF, 0),
    ] {
        assert!(matches!(outcome(rule, psn, msn).verdict, Verdict::Fail(_)), "{what}");
    }
}

/// The report named each knob of `--knob`, whatever the script was about.
#[test]
fn a_knob_that_is_known_of_the_target_is_not_blamed() {
    let mut script = builtin().unwrap().into_iter().find(|script| script.file == "sack/gap.mrc").unwrap();
    let mut fixed = mrc_conform::Knobs::default();
    fixed.read("ctl_ect=1").unwrap();
    script.knobs.fix(&fixed).unwrap();
    let swapped = |packet: &mut Packet| {
        if let (Some(first), Some(second)) = (packet.get("spdcid"), packet.get("dpdcid")) {
            packet.set("spdcid", second);
            packet.set("dpdcid", first);
            packet.icrc = None;
        }
        true
    };
    let outcome = play(&script, &swapped);
    let asked: Vec<&str> = outcome.questions().iter().map(|knob| knob.question).collect();
    assert_eq!(asked, ["OQ-07"], "{}", outcome.explain());
}
