//! Ranges of times, alternatives and loops of the script language, played against the engine.

use mrc_conform::{Script, Verdict, engine, run};

fn play(text: &str) -> Result<(), String> {
    let script = Script::parse("a.mrc", &format!("# t\nrequires SACK-001\n{text}")).unwrap();
    let outcome = engine::with_virtual(&script.knobs, |target, facts| run(&script, facts, target)).unwrap();
    if outcome.verdict == Verdict::Pass { Ok(()) } else { Err(outcome.explain()) }
}

fn fails(text: &str, why: &str) {
    let said = play(text).expect_err("must fail");
    assert!(said.contains(why), "{said}");
}

const TIMER: &str = "knobs timeout=6 base_rtt=1000000\n0 ! write len=64\n0 > write_only psn=0\n";

#[test]
fn the_engine_takes_as_many_immediates_and_as_wide_a_window_as_a_knob_says() {
    for knob in ["max_wimm_dest=128", "max_wimm_dest=1000", "mpr=255", "mpr_tx=255"] {
        let script = format!("knobs {knob}\n0 < write_only psn=0 len=64 a\n0 > sack cack=0\n0 > ack psn=0\n");
        play(&script).unwrap_or_else(|why| panic!("{knob}: {why}"));
    }
}

#[test]
fn a_range_of_times_has_two_ends() {
    let repeated =
        |when: &str| format!("{TIMER}{when} > write_only psn=0 rtx=1\n{when} > probe probe_id=@p\n70us < ack psn=0\n");
    play(&repeated("60us..70us")).unwrap();
    play(&format!("{TIMER}+65us..+66us > write_only psn=0 rtx=1\n+0 > probe probe_id=@p\n70us < ack psn=0\n"))
        .unwrap_err();
    play(&format!("{TIMER}+65us..+66us > write_only psn=0 rtx=1\n65us..66us > probe probe_id=@p\n70us < ack psn=0\n"))
        .unwrap();
    fails(&repeated("60us..65us"), "no packet came");
    fails(&repeated("66us..70us"), "came at 65536 ns, the script says 66000 to 70000 ns");
}

#[test]
fn the_first_packet_chooses_the_alternative() {
    let refused = "knobs mtu=256 mpr=1 oor_silent=";
    let both = "
0 < write_middle psn=200 len=256 dmalen=90000
either
    0 > nack nack_psn=200 reason=0x0B
    1us = count oor=1
or
    5us quiet
    5us < probe probe_id=1
    5us > sack cack=0xFFFFFF rcvd=0
end
10us < write_only psn=0 len=64 a
10us > sack cack=0 rcvd=1
10us > ack psn=0
";
    play(&format!("{refused}0{}", both.replace("    1us = count oor=1\n", ""))).unwrap();
    play(&format!("{refused}1{}", both.replace("    1us = count oor=1\n", ""))).unwrap();
    // Each branch's later steps count: a wrong one fails.
    fails(&format!("{refused}1{}", both.replace("5us > sack cack=0xFFFFFF", "5us > sack cack=3")), "cack");
    fails(&format!("{refused}0{}", both.replace("reason=0x0B", "reason=0x0A")), "reason");
    let other = both.replace("0 > nack nack_psn=200 reason=0x0B\n    1us = count oor=1", "0 > sack cack=5");
    fails(&format!("{refused}0{other}"), "no alternative begins with it: nack");
}

#[test]
fn alternatives_without_silence_name_what_they_wait_for() {
    fails(
        "0 < write_first psn=0 len=1024 dmalen=4096\neither\n1us > nack\nor\n1us > probe\nend\n",
        "expects `nack` or `probe`",
    );
}

#[test]
fn a_loop_is_its_lines_again() {
    play("repeat n=0..9\n{n}us < write_only psn={n} len=64 a\n{n}us > sack cack={n}\n{n}us > ack psn={n}\nend\n")
        .unwrap();
    fails(
        "repeat n=0..3\n{n}us < write_only psn={n*2} len=64 a\n{n}us > sack cack={n}\n{n}us > ack psn={n}\nend\n",
        "line 5",
    );
}

#[test]
fn mistakes_are_named_with_their_line() {
    let wrong =
        |text: &str| Script::parse("a.mrc", &format!("# t\nrequires SACK-001\n{text}")).unwrap_err().to_string();
    assert!(wrong("0..5us < probe").ends_with("only `>` and `= done` may have a range of times"));
    assert!(wrong("5us..1us > probe").contains("time goes back"));
    assert!(wrong("0..5us > probe\n3us quiet").contains("a.mrc:4: time goes back"));
    assert_eq!(wrong("either\n0 > probe\nend"), "a.mrc:5: `either` without `or`");
    assert_eq!(wrong("either\n0 > probe\nor\n0 quiet"), "a.mrc:3: `either` without `end`");
    assert_eq!(wrong("0 quiet\nor"), "a.mrc:4: `or` without `either`");
    assert!(wrong("either\n0 < probe\nor\n0 quiet\nend").contains("a.mrc:5: an alternative begins with a packet"));
    assert!(wrong("repeat n=1..2\n0 quiet").contains("a.mrc:3: `repeat` without `end`"));
}
