//! Vectors for hardware test benches: golden packets, and the frames of every script with their times, as JSON for people
//! and programs and as hexadecimal words that Verilog's `$readmemh` loads. `docs/vectors.md` has the formats.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::packet::{Packet, hex};
use crate::run::{Verdict, run_traced};
use crate::script::{Op, Post, Script, builtin};
use crate::trace::{Trace, TraceAction, TraceEntry};
use crate::{engine, icrc};

/// The published packets; all sizes and trailers were found independently of this project's code.
const GOLDEN: &str = include_str!("../data/golden.json");

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Golden packets.
    pub packets: usize,
    /// Traces.
    pub traces: usize,
    /// Frames of all traces.
    pub frames: usize,
}

/// Why vectors could not be written.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The folder or a file in it.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A built-in script does not run; a defect of this project.
    #[error("script {0}: {1}")]
    Script(String, String),
}

/// One frame of a vector file.
struct Frame<'a> {
    at_ns: u64,
    from_target: bool,
    port: u8,
    bytes: Vec<u8>,
    text: &'a str,
}

/// The record of a frame in a hexadecimal file: a head of 16 bytes, then the frame, filled with zeros to whole words.
///
/// | bytes | meaning |
/// |---|---|
/// | 0 | 0x01: goes into the device, 0x02: comes out of it, 0x03: an action, 0xFF: end of the file |
/// | 1 | port, from 1 |
/// | 2, 3 | bytes of the frame |
/// | 4 .. 11 | nanoseconds since the script began |
/// | 12 | 1: the trailer is right, 0: it is wrong or there is none |
/// | 13 .. 15 | 0 |
fn record(frame: &Frame<'_>) -> [u8; 16] {
    let mut head = [0; 16];
    head[0] = 1 + u8::from(frame.from_target);
    head[1] = frame.port;
    head[2..4].copy_from_slice(&(frame.bytes.len() as u16).to_be_bytes());
    head[4..12].copy_from_slice(&frame.at_ns.to_be_bytes());
    head[12] = u8::from(good_trailer(&frame.bytes));
    head
}

/// The record of what the device's application or driver does: a head as of a frame, with a code in place of the port, then
/// 40 bytes in big-endian order.
///
/// | bytes | meaning |
/// |---|---|
/// | 0 .. 7 | number: request of a write or receive, window, port, reason or PSN |
/// | 8 .. 11, 12 .. 15 | length and immediate of a write |
/// | 16 .. 23, 24 .. 31 | where it reads and where it writes, offsets in the regions |
/// | 32 | flags: 1 has an immediate, 2 asks for an event, 4 success completes too, 8 the port is up |
/// | 33 .. 39 | 0 |
fn action_record(action: &TraceAction) -> ([u8; 16], [u8; 40]) {
    let (mut head, mut body) = ([0; 16], [0; 40]);
    let (code, number) = match action.post {
        Post::Write { id, .. } => (1, id),
        Post::Recv { id } => (2, id),
        Post::Mpr { units } => (3, units.into()),
        Post::Port { port, up } => {
            body[32] = u8::from(up) << 3;
            (4, port.into())
        }
        Post::Refuse { reason } => (5, reason.into()),
        Post::PlaceFailure { psn } => (6, psn.into()),
        Post::Error => (7, 0),
        Post::Deregister => (8, 0),
    };
    if let Post::Write { len, from, at, imm, solicited, signaled, .. } = action.post {
        body[8..12].copy_from_slice(&len.to_be_bytes());
        body[12..16].copy_from_slice(&imm.unwrap_or(0).to_be_bytes());
        body[16..24].copy_from_slice(&from.to_be_bytes());
        body[24..32].copy_from_slice(&at.to_be_bytes());
        body[32] = u8::from(imm.is_some()) | u8::from(solicited) << 1 | u8::from(signaled) << 2;
    }
    body[..8].copy_from_slice(&number.to_be_bytes());
    (head[0], head[1], head[3]) = (3, code, 40);
    head[4..12].copy_from_slice(&action.at_ns.to_be_bytes());
    (head, body)
}

/// Whether a frame ends in the trailer that its bytes ask for.
pub fn good_trailer(frame: &[u8]) -> bool {
    let Some(l3) = udp_header_ip(frame) else { return false };
    let Some((body, trailer)) = frame.get(l3..).and_then(|packet| packet.split_last_chunk::<4>()) else { return false };
    body.len() >= 40 && icrc(body) == *trailer
}

/// Offset of the IP header in front of UDP.
fn udp_header_ip(frame: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 14;
    let mut ethertype = word(12)?;
    for _ in 0..crate::format::MOST_TAGS {
        if !crate::format::is_tag(ethertype.into()) {
            break;
        }
        (at, ethertype) = (at + 4, word(at + 2)?);
    }
    let mut next = match ethertype {
        0x0800 => return (*frame.get(at + 9)? == 17).then_some(at),
        0x86DD => *frame.get(at + 6)?,
        _ => return None,
    };
    while next != 17 {
        at += match next {
            41 if frame.get(at + 46).is_some() => 40,
            43 => 64,
            _ => return None,
        };
        next = *frame.get(at + 6)?;
    }
    Some(at)
}

/// Words of `beat` bytes, one per line, the first byte of the wire in the lowest eight bits as on AXI-Stream.
fn words(out: &mut String, bytes: &[u8], beat: usize) {
    for word in bytes.chunks(beat) {
        for at in (0..beat).rev() {
            let _ = write!(out, "{:02x}", word.get(at).copied().unwrap_or(0));
        }
        out.push('\n');
    }
}

fn hex_file(title: &str, frames: &[Frame<'_>], actions: &[TraceAction], beat: usize) -> String {
    let mut out = format!("// {title}\n");
    let mut actions = actions.iter().peekable();
    let act = |out: &mut String, action: &TraceAction| {
        let _ = writeln!(out, "// action at {} ns: {}", action.at_ns, json!(action.post));
        let (head, body) = action_record(action);
        words(out, &head, beat);
        words(out, &body, beat);
    };
    for (nth, frame) in frames.iter().enumerate() {
        while let Some(action) = actions.next_if(|action| action.frames_before <= nth) {
            act(&mut out, action);
        }
        let way = if frame.from_target { "out" } else { "in" };
        let _ = writeln!(out, "// {way} at {} ns, {} bytes: {}", frame.at_ns, frame.bytes.len(), frame.text);
        words(&mut out, &record(frame), beat);
        words(&mut out, &frame.bytes, beat);
    }
    for action in actions {
        act(&mut out, action);
    }
    out.push_str("// end\n");
    let mut end = [0; 16];
    end[0] = 0xFF;
    words(&mut out, &end, beat);
    out
}

/// The golden packets, name and bytes.
pub fn golden() -> Vec<(String, Vec<u8>)> {
    let document: Value = serde_json::from_str(GOLDEN).unwrap_or_default();
    let packets = document["packets"].as_object().cloned().unwrap_or_default();
    packets.into_iter().map(|(name, packet)| (name, unhex(packet["hex"].as_str().unwrap_or("")))).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn fields(bytes: &[u8]) -> Value {
    let Ok(packet) = Packet::parse(bytes) else { return Value::Null };
    let header = |layer: &crate::Layer| {
        let pairs = layer.layout.fields.iter().zip(&layer.values);
        let values = pairs.map(|(field, value)| (field.name.to_string(), Value::from(format!("{value:#x}"))));
        json!({"header": layer.layout.name, "fields": Value::Object(values.collect())})
    };
    packet.layers.iter().map(header).collect()
}

/// Which half of the target a script is about.
fn role(script: &Script) -> &'static str {
    let posts = script
        .every_step()
        .iter()
        .any(|step| matches!(&step.op, Op::Act(post) if matches!(post, crate::Post::Write { .. })));
    if posts { "requester" } else { "responder" }
}

fn put(path: &Path, text: &str) -> Result<(), VectorError> {
    let fail = |path: &Path, source| VectorError::Io { path: path.display().to_string(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| fail(folder, source))?;
    }
    std::fs::write(path, text).map_err(|source| fail(path, source))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Writes everything below `out`; a word of the hexadecimal files has `beat` bytes.
///
/// # Errors
/// A file cannot be written.
pub fn write(out: &Path, beat: usize) -> Result<Written, VectorError> {
    let mut written = Written::default();
    let golden = golden();
    let frames: Vec<Frame<'_>> = golden
        .iter()
        .map(|(name, bytes)| Frame { at_ns: 0, from_target: false, port: 1, bytes: bytes.clone(), text: name })
        .collect();
    put(&out.join("packets.hex"), &hex_file("golden packets", &frames, &[], beat))?;
    let described = golden.iter().map(|(name, bytes)| {
        json!({"name": name, "bytes": bytes.len(), "frame": hex(bytes), "icrc_good": good_trailer(bytes), "headers": fields(bytes)})
    });
    put(&out.join("packets.json"), &pretty(&described.collect()))?;
    written.packets = golden.len();
    let mut index = Vec::new();
    for script in builtin().map_err(|why| VectorError::Script(why.file.clone(), why.to_string()))? {
        let (trace, facts) = play(&script)?;
        let name = script.file.trim_end_matches(".mrc").to_string();
        let frames: Vec<Frame<'_>> = trace.entries.iter().map(frame_of).collect();
        put(&out.join(format!("traces/{name}.hex")), &hex_file(&script.title, &frames, &trace.actions, beat))?;
        let head = json!({
            "name": name,
            "title": script.title,
            "requires": script.requires,
            "device": role(&script),
            "frames": trace.entries.len(),
            "actions": trace.actions.len(),
        });
        let mut whole = head.clone();
        whole["knobs"] = json!(script.knobs);
        whole["facts"] = facts;
        whole["trace"] = json!(trace.entries);
        whole["actions"] = json!(trace.actions);
        put(&out.join(format!("traces/{name}.json")), &pretty(&whole))?;
        index.push(head);
        written.traces += 1;
        written.frames += trace.entries.len();
    }
    put(&out.join("index.json"), &pretty(&json!({"beat_bytes": beat, "packets": written.packets, "traces": index})))?;
    Ok(written)
}

fn frame_of(entry: &TraceEntry) -> Frame<'_> {
    let TraceEntry { at_ns, from_target, port, text, frame } = entry;
    Frame { at_ns: *at_ns, from_target: *from_target, port: *port, bytes: unhex(frame), text }
}

/// Plays a script and keeps its frames, and what the engine is told beside them.
fn play(script: &Script) -> Result<(Trace, Value), VectorError> {
    let mut trace = Trace::default();
    let outcome = engine::with_virtual(&script.knobs, |target, facts| {
        (run_traced(script, facts, target, &mut trace), json!(facts))
    });
    match outcome {
        Ok((outcome, facts)) if outcome.verdict == Verdict::Pass => Ok((trace, facts)),
        Ok((outcome, _)) => Err(VectorError::Script(script.file.clone(), format!("{:?}", outcome.verdict))),
        Err(why) => Err(VectorError::Script(script.file.clone(), why.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_in_the_lowest_lane() {
        let mut out = String::new();
        words(&mut out, &[1, 2, 3, 4, 5], 4);
        assert_eq!(out, "04030201\n00000005\n");
        out.clear();
        words(&mut out, &[0xAB, 0xCD], 1);
        assert_eq!(out, "ab\ncd\n");
    }

    #[test]
    fn the_golden_trailers_are_good_and_a_trimmed_packet_has_none() {
        let golden = golden();
        assert!(golden.len() >= 14);
        for (name, bytes) in &golden {
            assert_eq!(good_trailer(bytes), !name.starts_with("trimmed"), "{name}");
        }
        assert!(!good_trailer(&[0; 20]));
    }
}
