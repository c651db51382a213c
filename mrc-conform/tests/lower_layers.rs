//! A target that sets a field of a lower layer otherwise fails the scripts that name the field, and no others: one hop limit
//! must not hide what the suite says of everything else.

use std::path::Path;

use mrc_conform::{Done, Facts, Heard, Packet, Post, Refusal, Target, Verdict, engine, load_tree, run};

/// The engine, behind a link that changes one field of all that it sends.
struct Changed<'a> {
    engine: &'a mut dyn Target,
    field: &'static str,
    value: u128,
}

impl Target for Changed<'_> {
    fn slowness(&self) -> u64 {
        self.engine.slowness()
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.engine.send(at, port, frame)
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        let mut heard = self.engine.hear(until)?;
        if let Some(heard) = &mut heard {
            let mut packet = Packet::parse(&heard.frame).expect("the engine sends packets");
            if packet.set(self.field, self.value) {
                packet.icrc = None;
                fix_ip4_checksum(&mut packet);
                heard.frame = packet.bytes();
            }
        }
        Ok(heard)
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

fn fix_ip4_checksum(packet: &mut Packet) {
    if packet.set("ip.hsum", 0) {
        let header = packet.bytes()[14..34].to_vec();
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        packet.set("ip.hsum", u128::from(!((sum & 0xFFFF) + (sum >> 16)) & 0xFFFF));
    }
}

/// Scripts of these folders that fail when `field` has `value` in all that the target sends, and how many have a note.
fn failures(folders: &[&str], field: &'static str, value: u128) -> (Vec<String>, usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    let (mut failed, mut noted) = (Vec::new(), 0);
    for script in load_tree(&root).unwrap() {
        if !folders.iter().any(|folder| script.file.starts_with(folder)) {
            continue;
        }
        let play = |engine: &mut dyn Target, facts: &Facts| run(&script, facts, &mut Changed { engine, field, value });
        let outcome = engine::with_virtual(&script.knobs, play).unwrap();
        if outcome.notes.iter().any(|note| note.contains(field)) {
            noted += 1;
        }
        if outcome.verdict != Verdict::Pass {
            failed.push(script.file.trim_end_matches(".mrc").to_owned());
        }
    }
    (failed, noted)
}

#[test]
fn another_hop_limit_fails_the_script_about_it() {
    let (failed, noted) = failures(&["sack/", "wire/"], "ip.hop", 255);
    assert_eq!(failed, ["wire/hop_limit"]);
    assert!(noted > 50, "{noted}");
    let (failed, noted) = failures(&["srv6/"], "outer.hop", 255);
    assert_eq!(failed, ["srv6/write"]);
    assert!(noted > 3, "{noted}");
}

#[test]
fn a_udp_checksum_fails_the_script_about_it() {
    let (failed, noted) = failures(&["tack/", "wire/"], "udp.checksum", 0xBEEF);
    assert_eq!(failed, ["wire/udp_checksum"]);
    assert!(noted > 50, "{noted}");
}

#[test]
fn an_identification_and_a_ttl_fail_the_scripts_about_them() {
    for (field, value) in [("ip.id", 7), ("ip.ttl", 255)] {
        let (failed, noted) = failures(&["wire/ipv4"], field, value);
        assert_eq!(failed, ["wire/ipv4", "wire/ipv4_write"], "{field}");
        assert!(noted > 0, "{field}");
    }
}

#[test]
fn a_field_of_mrc_fails_every_script_that_sees_it() {
    let (failed, _) = failures(&["tack/"], "bth.tver", 1);
    assert!(failed.len() > 5, "{failed:?}");
}
