//! The vectors as a hardware test bench reads them: every file through `$readmemh` of an open Verilog simulator.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

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
    // The simulator uses one core.
    thread::scope(|scope| {
        for beat in ["1", "64"].map(|beat| scope.spawn(move || reads_and_agrees(beat))) {
            beat.join().unwrap();
        }
    });
}

fn reads_and_agrees(beat: &str) {
    let out = write_vectors(&format!("vectors_{beat}_read"), beat);
    let program = compiled(&out, beat);
    let packets = json(&out.join("packets.json"));
    let index = json(&out.join("index.json"));
    let names: Vec<&str> =
        index["traces"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    let mut files = vec![out.join("packets.hex")];
    files.extend(names.iter().map(|name| out.join(format!("traces/{name}.hex"))));
    let list: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    std::fs::write(out.join("files.txt"), list).unwrap();
    let (success, said) = read_back(&program, "list", &out.join("files.txt"));
    assert!(success, "{said}");
    // The simulator warns that files are shorter than the memory.
    let mut lines = said.lines().filter(|line| !line.starts_with("WARNING"));
    let good = packets.as_array().unwrap().iter().filter(|packet| packet["icrc_good"] == true).count();
    let summary = format!("frames {} good {good} actions 0 wrong 0", packets.as_array().unwrap().len());
    assert_eq!(lines.find(|line| line.starts_with("frames")), Some(summary.as_str()), "{said}");
    for name in names {
        agrees(name, &json(&out.join(format!("traces/{name}.json"))), &mut lines);
    }
    assert_eq!(lines.next(), None);
}

/// The reader, for words of `beat` bytes.
fn compiled(out: &Path, beat: &str) -> PathBuf {
    let program = out.join("read_back");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/verilog/read_back.v");
    let mut iverilog = Command::new("iverilog");
    iverilog.args(["-g2012", "-Wall", "-P", &format!("read_back.BEAT={beat}"), "-o"]).arg(&program).arg(source);
    let compiled = iverilog.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// Whether the reader ends well, and what it prints.
fn read_back(program: &Path, key: &str, file: &Path) -> (bool, String) {
    let run = Command::new("vvp").arg("-n").arg(program).arg(format!("+{key}={}", file.display())).output().unwrap();
    (run.status.success(), String::from_utf8_lossy(&run.stdout).into_owned())
}

/// A trace: same order, times, lengths, opcodes, PSNs and verdicts on the trailer as on this side, and the same actions.
fn agrees<'a>(name: &str, trace: &Value, lines: &mut impl Iterator<Item = &'a str>) {
    let words = |line: Option<&str>| -> Vec<String> {
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let mut actions = trace["actions"].as_array().unwrap().iter().peekable();
    let codes = ["write", "recv", "mpr", "port", "refuse", "place_failure", "error", "deregister"];
    let act = |action: &Value, line: Vec<String>| {
        let code = codes.iter().position(|code| action["do"] == *code).unwrap() + 1;
        let number = ["id", "units", "port", "reason", "psn"].iter().find_map(|key| action[*key].as_u64()).unwrap_or(0);
        assert_eq!(line, ["3".to_owned(), action["at_ns"].to_string(), code.to_string(), number.to_string()], "{name}");
    };
    for (nth, frame) in trace["trace"].as_array().unwrap().iter().enumerate() {
        while let Some(action) = actions.next_if(|action| action["frames_before"].as_u64().unwrap() <= nth as u64) {
            act(action, words(lines.next()));
        }
        let bytes = unhex(frame["frame"].as_str().unwrap());
        let kind = if frame["from_target"] == true { 2 } else { 1 };
        let good = vectors::good_trailer(&bytes);
        let line = words(lines.next());
        assert_eq!(line.len(), 6, "{name}: {line:?}");
        assert_eq!(line[..3], [kind.to_string(), frame["at_ns"].to_string(), bytes.len().to_string()], "{name}");
        assert_eq!(line[5], u8::from(good).to_string(), "{name}: ICRC");
        if let Some(packet) = Packet::parse(&bytes).ok().filter(|_| good) {
            let opcode = format!("{:02x}", packet.get("opcode").unwrap());
            assert_eq!((&line[3], &line[4]), (&opcode, &packet.get("bth.psn").unwrap().to_string()), "{name}");
        }
    }
    for action in actions {
        act(action, words(lines.next()));
    }
    let last = lines.next().unwrap_or_default();
    assert!(last.starts_with("frames") && last.ends_with("wrong 0"), "{name}: {last}");
}

/// Each kind of wrong file ends the reader with a failure; in a list one is enough, and no file stands in for another.
#[test]
fn the_reader_fails_on_what_is_wrong() {
    if Command::new("iverilog").arg("-V").output().is_err() {
        let name = "the_reader_fails_on_what_is_wrong";
        let _ = writeln!(std::io::stderr(), "SKIP {name}: iverilog is missing (apt-get install iverilog)");
        return;
    }
    let out = write_vectors("vectors_wrong", "1");
    let program = compiled(&out, "1");
    let good = out.join("traces/sack/gap.hex");
    let text = std::fs::read_to_string(&good).unwrap();
    let file = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut bytes: Vec<&str> = text.lines().filter(|line| !line.starts_with("//")).collect();
    let cut = file("cut.hex", &bytes[..bytes.len() - 16].join("\n"));
    bytes[16 + 100] = if bytes[16 + 100] == "00" { "01" } else { "00" };
    let damaged = file("damaged.hex", &bytes.join("\n"));
    let empty = file("empty.hex", "// nothing\n");
    let missing = out.join("missing.hex");
    assert!(read_back(&program, "file", &good).0);
    for wrong in [&cut, &damaged, &empty, &missing] {
        let (success, said) = read_back(&program, "file", wrong);
        assert!(!success, "{}: {said}", wrong.display());
        let names = format!("{}\n{}\n", good.display(), wrong.display());
        let (success, said) = read_back(&program, "list", &file("two.txt", &names));
        assert!(!success && said.contains("1 of 2 files are wrong"), "{}: {said}", wrong.display());
    }
    assert!(!read_back(&program, "list", &missing).0);
    assert!(!read_back(&program, "list", &file("none.txt", "")).0);
    assert!(!read_back(&program, "nothing", &good).0);
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
