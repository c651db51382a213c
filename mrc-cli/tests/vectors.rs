//! The vectors as a hardware test bench reads them: every file through `$readmemh` of an open Verilog simulator.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mrc_conform::{Packet, vectors};
use serde_json::Value;

fn write_vectors(test: &str, beat: &str) -> PathBuf {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&out);
    let args = ["vectors", "--beat", beat, "--out"];
    let run = Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).arg(&out).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    out
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn verilog_reads_every_file_and_agrees() {
    if Command::new("iverilog").arg("-V").output().is_err() {
        let name = "verilog_reads_every_file_and_agrees";
        let _ = writeln!(std::io::stderr(), "SKIP {name}: iverilog is missing (apt-get install iverilog)");
        return;
    }
    let out = write_vectors("vectors", "1");
    let program = out.join("read_back");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/verilog/read_back.v");
    let compiled = Command::new("iverilog").args(["-g2005", "-Wall", "-o"]).arg(&program).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let simulate = |file: &Path| {
        let run =
            Command::new("vvp").arg("-n").arg(&program).arg(format!("+file={}", file.display())).output().unwrap();
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let packets = json(&out.join("packets.json"));
    let good = packets.as_array().unwrap().iter().filter(|packet| packet["icrc_good"] == true).count();
    let said = simulate(&out.join("packets.hex"));
    let last = format!("frames {} good {good} wrong 0", packets.as_array().unwrap().len());
    assert_eq!(said.lines().last(), Some(last.as_str()), "{said}");
    // Every trace: same order, times, lengths, opcodes, PSNs and verdicts on the trailer as on this side.
    let index = json(&out.join("index.json"));
    for entry in index["traces"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let trace = json(&out.join(format!("traces/{name}.json")));
        let mut wanted = Vec::new();
        for frame in trace["trace"].as_array().unwrap() {
            let bytes = unhex(frame["frame"].as_str().unwrap());
            let kind = if frame["from_target"] == true { 2 } else { 1 };
            let good = u8::from(vectors::good_trailer(&bytes));
            let parsed = Packet::parse(&bytes).ok().filter(|_| good == 1);
            let field = |name| parsed.as_ref().map(|packet| packet.get(name).unwrap_or(0));
            wanted.push((kind, frame["at_ns"].as_u64().unwrap(), bytes.len(), field("opcode"), field("bth.psn"), good));
        }
        let said = simulate(&out.join(format!("traces/{name}.hex")));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), wanted.len() + 1, "{name}: {said}");
        for (line, (kind, at, len, opcode, psn, good)) in lines.iter().zip(&wanted) {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[..3], [kind.to_string(), at.to_string(), len.to_string()], "{name}");
            assert_eq!(words[5], good.to_string(), "{name}: ICRC");
            if let (Some(opcode), Some(psn)) = (opcode, psn) {
                assert_eq!(
                    (words[3], words[4]),
                    (format!("{opcode:02x}").as_str(), psn.to_string().as_str()),
                    "{name}"
                );
            }
        }
        assert!(lines.last().unwrap().ends_with("wrong 0"), "{name}: {said}");
    }
}

#[test]
fn wide_words_hold_the_same_bytes() {
    let (narrow, wide) = (write_vectors("vectors_1", "1"), write_vectors("vectors_64", "64"));
    let bytes = |folder: &Path, beat: usize| -> Vec<u8> {
        let text = std::fs::read_to_string(folder.join("traces/sack/gap.hex")).unwrap();
        let words = text.lines().filter(|line| !line.starts_with("//")).map(unhex);
        words
            .flat_map(|word| {
                assert_eq!(word.len(), beat);
                word.into_iter().rev()
            })
            .collect()
    };
    let (narrow, wide) = (bytes(&narrow, 1), bytes(&wide, 64));
    // First record: head and frame, each filled up to whole words.
    let len = usize::from(u16::from_be_bytes([narrow[2], narrow[3]]));
    assert_eq!(narrow[..16], wide[..16]);
    assert_eq!(narrow[16..16 + len], wide[64..64 + len]);
}
