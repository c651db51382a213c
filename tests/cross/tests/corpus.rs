//! Replays the fuzz corpora on the stable compiler: what once was interesting stays covered by `cargo test`.
//!
//! New bytes are searched for with `cargo fuzz run TARGET` in `fuzz/`; see its README.

use std::path::{Path, PathBuf};

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a library of its own in the fuzz workspace")]
mod bodies;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

#[test]
fn every_corpus_entry_passes() {
    for (name, body) in bodies::TARGETS {
        let dir = corpus(name);
        let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
            .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!((10..200).contains(&files.len()), "{name}: {} entries", files.len());
        for file in files {
            println!("{}", file.display()); // the last line of a failing run names the entry
            body(&std::fs::read(&file).unwrap());
        }
    }
}

/// A corpus of refused frames would pass for the wrong reason.
#[test]
fn the_frames_reach_every_header() {
    let mut seen = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(corpus("wire_parse")).unwrap() {
        let frame = std::fs::read(entry.unwrap().path()).unwrap();
        let cfg = mrc_wire::WireConfig::default();
        if let Ok(f) = mrc_wire::parse_frame(&frame, frame.len(), &cfg, |_| true) {
            let trimmed = matches!(f.body, mrc_wire::Body::Trimmed { .. });
            seen.insert(if trimmed { "TRIMMED" } else { f.bth.opcode.name() });
        }
    }
    let must = [
        "WRITE_ONLY",
        "WRITE_ONLY_IMM",
        "WRITE_LAST_IMM",
        "TRIMMED",
        "ACK",
        "SACK",
        "NACK",
        "PROBE",
        "EP_REQUEST",
        "EP_RESPONSE",
    ];
    let missing: Vec<_> = must.iter().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "no entry holds {missing:?}");
}
