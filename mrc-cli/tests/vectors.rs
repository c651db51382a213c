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
    let packets = json(&out.join("packets.json"));
    let index = json(&out.join("index.json"));
    let names: Vec<&str> =
        index["traces"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    let mut files = vec![out.join("packets.hex")];
    files.extend(names.iter().map(|name| out.join(format!("traces/{name}.hex"))));
    let list: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    std::fs::write(out.join("files.txt"), list).unwrap();
    let run = Command::new("vvp")
        .arg("-n")
        .arg(&program)
        .arg(format!("+list={}", out.join("files.txt").display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    // The simulator warns that files are shorter than the memory.
    let mut lines = said.lines().filter(|line| !line.starts_with("WARNING"));
    let good = packets.as_array().unwrap().iter().filter(|packet| packet["icrc_good"] == true).count();
    let summary = format!("frames {} good {good} wrong 0", packets.as_array().unwrap().len());
    assert_eq!(lines.find(|line| line.starts_with("frames")), Some(summary.as_str()), "{said}");
    // Every trace: same order, times, lengths, opcodes, PSNs and verdicts on the trailer as on this side.
    for name in names {
        let trace = json(&out.join(format!("traces/{name}.json")));
        for frame in trace["trace"].as_array().unwrap() {
            let bytes = unhex(frame["frame"].as_str().unwrap());
            let kind = if frame["from_target"] == true { 2 } else { 1 };
            let good = vectors::good_trailer(&bytes);
            let words: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
            assert_eq!(words.len(), 6, "{name}: {words:?}");
            assert_eq!(words[..3], [kind.to_string(), frame["at_ns"].to_string(), bytes.len().to_string()], "{name}");
            assert_eq!(words[5], u8::from(good).to_string(), "{name}: ICRC");
            if let Some(packet) = Packet::parse(&bytes).ok().filter(|_| good) {
                let opcode = format!("{:02x}", packet.get("opcode").unwrap());
                assert_eq!(
                    (words[3], words[4]),
                    (opcode.as_str(), packet.get("bth.psn").unwrap().to_string().as_str()),
                    "{name}"
                );
            }
        }
        let last = lines.next().unwrap_or_default();
        assert!(last.starts_with("frames") && last.ends_with("wrong 0"), "{name}: {last}");
    }
    assert_eq!(lines.next(), None);
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
