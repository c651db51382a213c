//! The script language: text to steps. Names are checked here, so that a typing error is found with its line before
//! anything runs. `docs/conformance.md` has the grammar.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::blocks;
use crate::facts::REGION;
use crate::format::Kind;
use crate::knobs::Knobs;
use crate::number::number;
use crate::register::{Requirement, nearest};
use crate::target::{STATES, STATUSES};

/// A parsed script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// File, as given.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// Requirements.
    pub requires: Vec<String>,
    /// What the endpoint must be set to.
    pub knobs: Knobs,
    /// Names of those that its text sets: more are added when the target has others at a known value.
    pub(crate) own_knobs: Vec<String>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// Nanoseconds since the script began.
    pub at: u64,
    /// Latest instant of what the target does; else the same as `at`. Of alternatives, the end of the longest.
    pub until: u64,
    /// What.
    pub op: Op,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The tester sends.
    Send(PacketSpec),
    /// The target sends.
    Expect(PacketSpec),
    /// The target's application or driver does something.
    Act(Post),
    /// Something is true of the target.
    Check(Check),
    /// Nothing came until now.
    Quiet,
    /// One of these; the first packet that comes, or that none comes, decides which.
    Either(Vec<Vec<Step>>),
}

/// A packet by its fields; what is not named has its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSpec {
    /// Type.
    pub kind: &'static Kind,
    /// Named fields.
    pub fields: Vec<(String, Value)>,
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// This number.
    Number(i128),
    /// Whatever it is.
    Any,
    /// The value remembered under this name; the first use remembers it.
    Bound(String),
    /// Another value than the one remembered.
    Not(String),
}

/// What the target's application or driver does. Offsets are those of the regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Post {
    /// Posts a write to the tester.
    Write {
        /// Number of the request.
        id: u64,
        /// Bytes.
        len: u32,
        /// Where it reads.
        from: u64,
        /// Where it writes.
        at: u64,
        /// Immediate.
        imm: Option<u32>,
        /// Asks for an event.
        solicited: bool,
        /// Success completes too.
        signaled: bool,
    },
    /// Posts a receive request.
    Recv {
        /// Number of the request.
        id: u64,
    },
    /// Sets the responder's window.
    Mpr {
        /// Units of 128 PSNs.
        units: u8,
    },
    /// A port goes up or down.
    Port {
        /// Which.
        port: u8,
        /// Its state.
        up: bool,
    },
    /// The driver refuses new writes with this NACK reason; 0 ends it.
    Refuse {
        /// Reason code.
        reason: u8,
    },
    /// The driver could not place this packet.
    PlaceFailure {
        /// Its PSN.
        psn: u32,
    },
    /// The QP is moved to ERROR.
    Error,
    /// The memory is deregistered.
    Deregister,
}

/// What must be true of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The next completion.
    Done(Vec<(String, String)>),
    /// Memory holds the payload of a PSN, or what it held at first.
    Memory {
        /// Offset.
        at: u64,
        /// Bytes.
        len: usize,
        /// Whose payload; `None` = untouched.
        psn: Option<u32>,
    },
    /// A counter has this value.
    Counter(String, i64),
    /// The QP is in this state.
    State(String),
    /// First transmissions of these PSNs used so many EVs.
    Paths {
        /// First PSN.
        first: u32,
        /// Last PSN.
        last: u32,
        /// Different EVs.
        distinct: usize,
    },
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", place(*line))]
pub struct ScriptError {
    /// File, as given.
    pub file: String,
    /// Line, from 1; 0: the file itself.
    pub line: usize,
    /// What and how to put it right.
    pub message: String,
}

fn place(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

/// Latest step of a script.
const LONGEST_NS: u64 = 20_000_000_000;
/// Longest payload, cut and the like; no frame is longer.
const LONGEST_FRAME: i128 = 9_000;

/// Packets that one step stands for, at most.
const MOST_PACKETS: u32 = 4_096;

/// Ports of a target.
const PORTS: RangeInclusive<i128> = 1..=8;

/// Names that stand for several fields, or for none on the wire.
pub(crate) const PSEUDO: &[&str] =
    &["ev", "at", "len", "of", "from", "port", "trim", "icrc", "cut", "ce", "fill", "vlan", "srh", "options", "bare"];

impl Script {
    /// Whether the target should send a packet of this type.
    pub(crate) fn expects(&self, kind: &str) -> bool {
        self.every_step().iter().any(|step| matches!(&step.op, Op::Expect(spec) if spec.kind.name == kind))
    }

    /// Every step, those of all alternatives among them.
    pub fn every_step(&self) -> Vec<&Step> {
        fn walk<'s>(steps: &'s [Step], into: &mut Vec<&'s Step>) {
            for step in steps {
                into.push(step);
                if let Op::Either(branches) = &step.op {
                    branches.iter().for_each(|branch| walk(branch, into));
                }
            }
        }
        let mut into = Vec::new();
        walk(&self.steps, &mut into);
        into
    }

    /// When the last step is over.
    pub fn end(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.until)
    }

    /// Parses a file's text.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let (title, requires, knobs, steps) = (String::new(), Vec::new(), Knobs::default(), Vec::new());
        let mut script = Self { file: file.into(), title, requires, knobs, own_knobs: Vec::new(), steps };
        let error = |line: usize, message: String| ScriptError { file: file.into(), line, message };
        let mut open: Vec<Alternatives> = Vec::new();
        // Some editors put a mark in front, which says how the text is encoded.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, text) in blocks::write_out(text).map_err(|(line, why)| error(line, why))? {
            let text = text.as_str();
            if let Some(comment) = text.strip_prefix('#') {
                if script.title.is_empty() {
                    script.title = comment.trim().into();
                }
            } else if let Some(list) = text.strip_prefix("requires ") {
                for id in list.split(',').map(str::trim) {
                    known(id).map_err(|why| error(line, why))?;
                    script.requires.push(id.to_string());
                }
            } else if let Some(list) = text.strip_prefix("knobs ") {
                for item in list.split_whitespace() {
                    script.knobs.read(item).map_err(|why| error(line, why))?;
                }
            } else if !text.is_empty() {
                let steps = open.last_mut().map_or(&mut script.steps, |inner| &mut inner.steps);
                let before = steps.last().map(|step| step.until);
                let before = before.or(open.last().map(|inner| inner.from)).unwrap_or(0);
                match text {
                    "either" => open.push(Alternatives { line, from: before, steps: Vec::new(), done: Vec::new() }),
                    "or" | "end" => {
                        let why = || error(line, format!("`{text}` without `either`"));
                        let mut inner = open.pop().ok_or_else(why)?;
                        inner.next().map_err(|why| error(line, why))?;
                        if text == "or" {
                            open.push(inner);
                        } else {
                            let steps = open.last_mut().map_or(&mut script.steps, |outer| &mut outer.steps);
                            steps.push(inner.step().map_err(|why| error(line, why))?);
                        }
                    }
                    _ => {
                        let steps = open.last_mut().map_or(&mut script.steps, |inner| &mut inner.steps);
                        step(line, text, before, steps).map_err(|why| error(line, why))?;
                    }
                }
            }
        }
        if let Some(inner) = open.last() {
            return Err(error(inner.line, "`either` without `end`".into()));
        }
        let lacks = |what: &str| Err(error(1, format!("the script has no {what}")));
        match () {
            () if script.title.is_empty() => lacks("title; begin with `# what it shows`"),
            () if script.requires.is_empty() => lacks("requirement; write `requires SACK-004`"),
            () if script.steps.is_empty() => lacks("step"),
            () => {
                script.own_knobs = script.knobs.iter().map(|(name, _)| name.to_string()).collect();
                Ok(script)
            }
        }
    }
}

/// Alternatives that are being read.
struct Alternatives {
    /// Line of `either`.
    line: usize,
    /// When each of them begins.
    from: u64,
    /// Steps of the one being read.
    steps: Vec<Step>,
    done: Vec<Vec<Step>>,
}

impl Alternatives {
    /// One of them ends.
    fn next(&mut self) -> Result<(), String> {
        let steps = std::mem::take(&mut self.steps);
        match steps.first().map(|step| &step.op) {
            Some(Op::Expect(_) | Op::Quiet) => self.done.push(steps),
            _ => return Err("an alternative begins with a packet that the target sends, or with `quiet`".into()),
        }
        Ok(())
    }

    fn step(self) -> Result<Step, String> {
        if self.done.len() < 2 {
            return Err("`either` without `or`".into());
        }
        let until = self.done.iter().flatten().map(|step| step.until).max().unwrap_or(self.from);
        Ok(Step { line: self.line, at: self.from, until, op: Op::Either(self.done) })
    }
}

/// `10us`, `+10us`, and both ends of `10us..12us`.
fn instants(text: &str, before: u64) -> Result<(u64, u64), String> {
    let one = |text: &str| {
        let relative = text.strip_prefix('+');
        let span = duration(relative.unwrap_or(text)).ok_or_else(|| format!("`{text}` is no time; write 10us"))?;
        Ok::<_, String>(if relative.is_some() { before.saturating_add(span) } else { span })
    };
    let (at, until) = match text.split_once("..") {
        Some((first, last)) => (one(first)?, one(last)?),
        None => (one(text)?, one(text)?),
    };
    if until > LONGEST_NS {
        return Err("a script lasts twenty seconds at most".into());
    }
    if until < at {
        return Err(format!("time goes back: {until} ns after {at} ns"));
    }
    Ok((at, until))
}

/// One line that is no block.
fn step(line: usize, text: &str, before: u64, into: &mut Vec<Step>) -> Result<(), String> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let ((at, until), text) = if first.starts_with(|c: char| c.is_ascii_digit() || c == '+') {
        let times = instants(first, before)?;
        // Packets of one range may come in any order.
        let again = into.last().is_some_and(|step| (step.at, step.until) == times);
        if times.0 < before && !again {
            return Err(format!("time goes back: {} ns after {before} ns", times.0));
        }
        (times, rest.trim())
    } else {
        ((before, before), text)
    };
    let (mark, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut push = |op| into.push(Step { line, at, until, op });
    match mark {
        ">" => repeated(rest)?.into_iter().for_each(|spec| push(Op::Expect(spec))),
        "=" if rest.starts_with("done") => push(Op::Check(check(rest)?)),
        "<" | "!" | "=" | "quiet" if until > at => {
            return Err(format!("`{first}`: only `>` and `= done` may have a range of times"));
        }
        "<" => repeated(rest)?.into_iter().for_each(|spec| push(Op::Send(spec))),
        "!" => push(Op::Act(action(rest)?)),
        "=" => push(Op::Check(check(rest)?)),
        "quiet" => push(Op::Quiet),
        _ => {
            return Err(format!(
                "`{mark}` is no step; a line begins with a time and <, >, !, = or quiet, or is repeat, either, or, end"
            ));
        }
    }
    Ok(())
}

/// Refuses a requirement that the register does not have.
fn known(id: &str) -> Result<(), String> {
    if Requirement::named(id).is_some() {
        return Ok(());
    }
    let near = nearest(id, Requirement::all().iter().map(|requirement| requirement.id));
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(format!("the register has no requirement `{id}`{hint}"))
}

/// `psn=3..9` stands for seven packets, each `len` bytes further on.
fn repeated(text: &str) -> Result<Vec<PacketSpec>, String> {
    let Some(item) = text.split_whitespace().find(|item| item.starts_with("psn=") && item.contains("..")) else {
        return Ok(vec![packet(text)?]);
    };
    let (first, last) = range(&item["psn=".len()..])
        .ok_or_else(|| format!("`{item}` is no range of up to {MOST_PACKETS} packets; write psn=3..9"))?;
    let spec = packet(&text.replace(item, &format!("psn={first}")))?;
    let len = spec.number("len").unwrap_or(64);
    let nth = |n: i128| {
        let mut spec = spec.clone();
        for (name, value) in &mut spec.fields {
            match (name.as_str(), value) {
                ("psn", Value::Number(psn)) => *psn = (*psn + n) & 0xFF_FFFF,
                ("at" | "from", Value::Number(at)) => *at += n * len,
                _ => {}
            }
        }
        spec
    };
    Ok((0..=i128::from(last - first)).map(nth).collect())
}

/// `3..9`, ends included.
fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (u32::try_from(number(first)?).ok()?, u32::try_from(number(last)?).ok()?);
    (first <= last && last - first < MOST_PACKETS).then_some((first, last))
}

/// Refuses a port that no target has.
fn port(number: i128) -> Result<(), String> {
    if PORTS.contains(&number) { Ok(()) } else { Err(format!("port={number}: ports count from 1 to {}", PORTS.end())) }
}

fn packet(text: &str) -> Result<PacketSpec, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or("");
    let kind = Kind::named(name).ok_or_else(|| {
        let names: Vec<&str> = crate::format::KINDS.iter().map(|kind| kind.name).collect();
        let hint =
            nearest(name, names.iter().copied()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        format!("no packet type `{name}`; there are {}{hint}", names.join(", "))
    })?;
    let all = crate::format::layouts(kind, 6, true, true).into_iter();
    let template = crate::Packet::of(all.chain([crate::format::VLAN, crate::format::SRH]));
    let v4 = crate::Packet::of(crate::format::layouts(kind, 4, false, true));
    let mut fields = Vec::new();
    for item in words {
        let (name, value) = item.split_once('=').unwrap_or((item, "1"));
        let name = crate::format::short_name(name).unwrap_or(name);
        let bits = template.width(name).max(v4.width(name));
        if !PSEUDO.contains(&name) && bits.is_none() {
            let fields = template.names().chain(PSEUDO.iter().copied());
            let hint = nearest(name, fields).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("`{}` has no field `{name}`{hint}", kind.name));
        }
        let value = match (name, value) {
            ("icrc", "bad") => Value::Number(-1),
            ("syndrome" | "icrc" | _, "any") => Value::Any,
            (_, value) if value.starts_with('@') => Value::Bound(value[1..].into()),
            (_, value) if value.starts_with("!@") => Value::Not(value[2..].into()),
            (_, value) => Value::Number(number(value).ok_or_else(|| format!("`{value}` is no value of `{name}`"))?),
        };
        let size = matches!(name, "len" | "trim" | "cut" | "port" | "srh");
        if let Value::Number(n) = &value
            && (size && !(0..=LONGEST_FRAME).contains(n) || matches!(name, "at" | "from") && n.unsigned_abs() > 1 << 40)
        {
            return Err(format!("`{item}` is out of all proportion"));
        }
        if let ("port", Value::Number(n)) = (name, &value) {
            port(*n)?;
        }
        // A value that is cut to its field would be another packet than the one the script shows.
        if let (Value::Number(n), Some(bits), false) = (&value, bits, PSEUDO.contains(&name))
            && bits < 127
            && !(-(1i128 << (bits - 1))..1i128 << bits).contains(n)
        {
            return Err(format!("`{item}` does not fit the {bits} bits of `{name}`"));
        }
        fields.push((name.to_string(), value));
    }
    // The default would be a PSN that the script does not show.
    if kind.name == "sack" && !fields.iter().any(|(name, _)| name == "cack") {
        return Err("`sack` needs `cack=`, the PSN up to which all packets arrived (`cack=any` leaves it open)".into());
    }
    Ok(PacketSpec { kind, fields })
}

impl PacketSpec {
    /// The value given to a name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The number given to a name.
    pub fn number(&self, name: &str) -> Option<i128> {
        match self.value(name) {
            Some(Value::Number(n)) => Some(*n),
            _ => None,
        }
    }
}

/// The `name=value` words after the verb.
struct Words<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Words<'t> {
    fn of(text: &'t str, known: &[&str]) -> Result<Self, String> {
        let pairs: Vec<_> = text.split_whitespace().map(|item| item.split_once('=').unwrap_or((item, "1"))).collect();
        match pairs.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(format!("`{name}` does not belong here; known are {}", known.join(", "))),
            None => Ok(Self(pairs)),
        }
    }

    fn text(&self, name: &str) -> Option<&'t str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>, String> {
        let parse = |text| number(text).and_then(|n| T::try_from(n).ok()).ok_or(format!("`{text}` is no {name}"));
        self.text(name).map(parse).transpose()
    }

    fn or<T: TryFrom<i128>>(&self, name: &str, default: T) -> Result<T, String> {
        Ok(self.number(name)?.unwrap_or(default))
    }
}

fn action(text: &str) -> Result<Post, String> {
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Ok(match verb {
        "write" => {
            let w = Words::of(rest, &["id", "len", "from", "at", "imm", "se", "signaled"])?;
            Post::Write {
                id: w.or("id", 0)?,
                len: w.or("len", 64)?,
                from: w.or("from", 0)?,
                at: w.or("at", 0)?,
                imm: w.number("imm")?,
                solicited: w.text("se").is_some(),
                signaled: w.text("signaled").is_some(),
            }
        }
        "recv" => Post::Recv { id: Words::of(rest, &["id"])?.or("id", 0)? },
        "mpr" => Post::Mpr { units: Words::of(rest, &["units"])?.or("units", 8)? },
        "port" => {
            let w = Words::of(rest, &["port", "up", "down"])?;
            let number = w.or("port", 1)?;
            port(number.into())?;
            Post::Port { port: number, up: w.text("down").is_none() }
        }
        "refuse" => Post::Refuse { reason: Words::of(rest, &["reason"])?.or("reason", 0)? },
        "place_failure" => Post::PlaceFailure { psn: Words::of(rest, &["psn"])?.or("psn", 0)? },
        "error" => Post::Error,
        "deregister" => Post::Deregister,
        _ => {
            let known = "write, recv, mpr, port, refuse, place_failure, error and deregister";
            return Err(format!("`{verb}` is nothing an application does; there are {known}"));
        }
    })
}

fn check(text: &str) -> Result<Check, String> {
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Ok(match verb {
        "done" => {
            let w = Words::of(rest, &["write", "recv", "id", "status", "len", "imm", "se"])?;
            // What no target can say would make every target fail.
            if let Some(status) = w.text("status") {
                one_of(status, "status of a completion", STATUSES)?;
            }
            for name in ["id", "len", "se"] {
                w.number::<u64>(name)?;
            }
            if w.text("imm") != Some("none") {
                w.number::<u32>("imm")?;
            }
            Check::Done(w.0.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
        }
        "memory" => {
            let w = Words::of(rest, &["at", "len", "psn", "untouched"])?;
            let psn = w.number("psn")?;
            if psn.is_some() == w.text("untouched").is_some() {
                return Err("say psn=N, whose payload lies there, or `untouched`".into());
            }
            let (at, len) = (w.or("at", 0u64)?, w.or("len", 64)?);
            if at.saturating_add(len as u64) > REGION {
                return Err(format!("at={at} len={len}: the region has {REGION} bytes"));
            }
            Check::Memory { at, len, psn }
        }
        "count" => {
            let (name, value) = rest.trim().split_once('=').ok_or("write `= count icrc=1`")?;
            Check::Counter(name.into(), number(value).ok_or("write `= count icrc=1`")? as i64)
        }
        "state" => Check::State(one_of(rest.trim(), "state of a QP", STATES)?.into()),
        "paths" => {
            let w = Words::of(rest, &["psn", "distinct"])?;
            let psns = w.text("psn").and_then(range).ok_or("write psn=3..9")?;
            Check::Paths { first: psns.0, last: psns.1, distinct: w.or("distinct", 1)? }
        }
        _ => return Err(format!("`{verb}` is nothing to check; there are done, memory, count, state and paths")),
    })
}

/// `word`, if it is one of `known`.
fn one_of<'t>(word: &'t str, what: &str, known: &[&str]) -> Result<&'t str, String> {
    if known.contains(&word) { Ok(word) } else { Err(format!("`{word}` is no {what}; there are {}", known.join(", "))) }
}

/// A time span in nanoseconds: `5us`, `262.144us`, `0`.
fn duration(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" if digits == "0" => 1,
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut ns = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        ns = ns.saturating_add(u64::from(digit.to_digit(10)?) * place);
    }
    Some(ns)
}

/// The scripts of this project, name and text; they were read when the library was built.
pub(crate) const BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// The text of a script of this project, by its path with or without `.mrc`.
pub fn builtin_text(name: &str) -> Option<&'static str> {
    let name = name.trim_end_matches(".mrc");
    BUILTIN.iter().find(|(known, _)| known.trim_end_matches(".mrc") == name).map(|(_, text)| *text)
}

/// Every packet type with its headers, and their fields with widths in bits, for people who write scripts.
pub fn list_fields() -> String {
    let mut text = String::new();
    for kind in crate::format::KINDS {
        let headers: Vec<&str> = kind.ext.iter().map(|layout| layout.name).collect();
        let _ = writeln!(text, "{:<15} opcode {:#04x}  bth {}", kind.name, kind.opcode, headers.join(" "));
    }
    let every = crate::format::KINDS.iter().flat_map(|kind| kind.ext.iter().copied());
    let mut shown: Vec<&str> = Vec::new();
    use crate::format::{BTH, ETH, IP4, IP6, OUTER, SRH, UDP, VLAN};
    for layout in [ETH, VLAN, OUTER, SRH, IP6, IP4, UDP, BTH].into_iter().chain(every) {
        if layout.name != "ip" && shown.contains(&layout.name) {
            continue;
        }
        shown.push(layout.name);
        let version = match layout {
            IP4 => " (IPv4)",
            IP6 => " (IPv6)",
            _ => "",
        };
        let _ = writeln!(text, "\n{}{version}, {} bytes", layout.name, layout.bytes());
        for (at, field) in layout.places() {
            let sign = if field.signed { ", signed" } else { "" };
            let name = format!("{}.{}", layout.name, field.name);
            let long = crate::format::LONG_NAMES.iter().find(|(_, short)| *short == name);
            let long = long.map_or(String::new(), |(long, _)| format!("  in `mrc decode`: {long}"));
            let _ = writeln!(text, "  {name:<18} bit {at:>3}, {:>3} bits{sign}{long}", field.bits);
        }
    }
    let _ = writeln!(text, "\nshorthands: {}", PSEUDO.join(" "));
    text
}

/// The scripts of this project.
///
/// # Errors
/// The first that does not parse.
pub fn builtin() -> Result<Vec<Script>, ScriptError> {
    BUILTIN.iter().map(|(name, text)| Script::parse(name, text)).collect()
}

/// Reads every script below `root`, sorted by path; names are relative to `root`.
///
/// # Errors
/// An unreadable folder, or the first script that does not parse.
pub fn load_tree(root: &Path) -> Result<Vec<Script>, ScriptError> {
    let mut paths = Vec::new();
    collect(root, &mut paths).map_err(|why| ScriptError {
        file: root.display().to_string(),
        line: 0,
        message: why.to_string(),
    })?;
    paths.sort();
    let mut scripts = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|why| ScriptError {
            file: name.clone(),
            line: 0,
            message: why.to_string(),
        })?;
        scripts.push(Script::parse(&name, &text)?);
    }
    Ok(scripts)
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "mrc") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let text = format!("# t\nrequires SACK-001\n{text}");
        Script::parse("a.mrc", &text).expect_err("must be refused").to_string()
    }

    #[test]
    fn the_list_of_scripts_names_no_checkout() {
        let list = include_str!(concat!(env!("OUT_DIR"), "/scripts.rs"));
        assert_eq!(list.matches("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/data/").count(), BUILTIN.len());
        assert!(!BUILTIN.is_empty() && !list.contains(env!("CARGO_MANIFEST_DIR")));
    }

    #[test]
    fn a_mark_of_the_encoding_is_no_step() {
        let script = Script::parse("a.mrc", "\u{feff}# t\nrequires SACK-001\n0 < write_only").unwrap();
        assert_eq!(script.title, "t");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert_eq!(refused("0 < sack frob=1"), "a.mrc:3: `sack` has no field `frob`; did you mean `from`?");
        assert!(
            refused("0 < sack cack=0 sack_ofset=1").ends_with("no field `sack_ofset`; did you mean `sack_offset`?")
        );
        assert!(refused("0 > sack ooo=1").contains("`sack` needs `cack=`"));
        let unknown = Script::parse("a.mrc", "# t\nrequires SACK-001, SACK-0O8\n0 < probe").unwrap_err().to_string();
        assert_eq!(unknown, "a.mrc:2: the register has no requirement `SACK-0O8`; did you mean SACK-008?");
        assert_eq!(refused("0 < sack cack=x"), "a.mrc:3: `x` is no value of `cack`");
        assert_eq!(refused("0 < probe psn=0x1000000"), "a.mrc:3: `psn=0x1000000` does not fit the 24 bits of `psn`");
        assert!(refused("0 < write_only a=2").contains("1 bits"));
        assert!(refused("0 < sack ack_offset=-32769").contains("does not fit"));
        assert!(refused("0 ! write imm=0x100000000").contains("is no imm"));
        for memory in ["len=2000000", "at=1048513", "at=18446744073709551615"] {
            let why = refused(&format!("0 = memory psn=0 {memory}"));
            assert!(why.contains(memory) && why.ends_with("the region has 1048576 bytes"), "{why}");
        }
        for port in ["0 < probe port=0", "0 > probe port=9", "0 ! port port=200 down"] {
            assert!(refused(port).ends_with("ports count from 1 to 8"), "{port}");
        }
        assert!(refused("0 < write_only psn=0..4096").contains("no range of up to 4096 packets"));
        assert!(refused("0 < ping").starts_with("a.mrc:3: no packet type `ping`"));
        assert!(refused("knobs frob=1").contains("no knob `frob`"));
        assert!(refused("1us < probe\n0 > sack").starts_with("a.mrc:4: time goes back"));
        assert!(refused("0 ! dance").contains("nothing an application does; there are write, recv, "));
        let status = refused("0 = done write id=1 status=succes");
        assert!(status.starts_with("a.mrc:3: `succes` is no status of a completion; there are success, "), "{status}");
        assert!(refused("0 = done write id=one").contains("`one` is no id"));
        let state = refused("0 = state eror");
        assert_eq!(state, "a.mrc:3: `eror` is no state of a QP; there are reset, init, rtr, rts, error");
        assert!(refused("").contains("no step"));
        assert!(Script::parse("a.mrc", "# t\n0 < probe").unwrap_err().message.contains("requires"));
    }

    #[test]
    fn times_and_numbers() {
        assert_eq!(duration("262.144us"), Some(262_144));
        assert_eq!(duration("1.5ms"), Some(1_500_000));
        assert_eq!((duration("7"), duration("7m"), duration("0")), (None, None, Some(0)));
        assert_eq!((number("-3"), number("0xff_ff"), number("x")), (Some(-3), Some(0xFFFF), None));
    }

    #[test]
    fn a_range_of_psns_is_that_many_packets() {
        let text = "# t\nrequires SACK-001\n0 < write_only psn=3..9 len=8\n+1us > sack cack=9\n";
        let script = Script::parse("a.mrc", text).unwrap();
        assert_eq!(script.steps.len(), 8);
        assert_eq!(script.steps[7].at, 1_000);
        let Op::Send(last) = &script.steps[6].op else { panic!("{:?}", script.steps[6]) };
        assert_eq!(last.number("psn"), Some(9));
    }
}
