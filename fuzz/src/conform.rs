//! The language of the conformance scripts, and its packet formats beside those of the engine.

use mrc_conform::{Packet, Script};
use mrc_wire::{WireConfig, parse_frame};

/// `data` is a script's text; after a zero byte, a frame.
pub fn conform_parse(data: &[u8]) {
    match data.split_first() {
        Some((0, frame)) => packet(frame),
        _ => script(&String::from_utf8_lossy(data)),
    }
}

fn script(text: &str) {
    match Script::parse("input", text) {
        Ok(script) => {
            assert!(!script.title.is_empty() && !script.steps.is_empty() && !script.requires.is_empty());
            assert_eq!(script.file, "input");
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!((1..=text.lines().count().max(1)).contains(&error.line), "{error}");
        }
    }
}

/// Two implementations of the wire format that share no code agree on what is a frame.
fn packet(frame: &[u8]) {
    let ours = parse_frame(frame, frame.len(), &WireConfig::default(), |_| true);
    let Ok(theirs) = Packet::parse(frame) else { return };
    assert_eq!(theirs.bytes(), frame, "what was read is not what is written");
    let Ok(ours) = ours else { return };
    assert_eq!(theirs.get("bth.psn"), Some(ours.bth.psn.value().into()));
    assert_eq!(theirs.get("bth.dqp"), Some(ours.bth.dest_qp.value().into()));
    assert_eq!(theirs.ev(false), ours.entropy.0);
    assert!(theirs.difference(&theirs).is_none());
}
