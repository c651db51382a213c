//! Plays a script against a target and says where they part.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::expect::Story;
use crate::facts::{self, Facts};
use crate::format::Kind;
use crate::freedom::{is_about_acks, is_about_probes, leave_to_target};
use crate::knobs::{KNOBS, Knob, knobs_of};
use crate::packet::{Difference, Packet, hex};
use crate::register::{Requirement, Weight};
use crate::script::{Check, Op, PacketSpec, Post, Script, Step};
use crate::target::{Done, DoneKind, Heard, Refusal, STATES, Target};
use crate::trace::{Trace, TraceAction, TraceEntry};

/// What came of a script.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Script.
    pub script: String,
    /// Its title.
    pub title: String,
    /// Its requirements.
    pub requires: Vec<String>,
    /// How binding and how sure they are.
    #[serde(flatten)]
    pub weight: Weight,
    /// Result.
    pub verdict: Verdict,
    /// What was wrong besides and does not concern this script: a wrong trailer, which the ICRC scripts charge, or a field
    /// of a lower layer, which the scripts charge that name it.
    pub notes: Vec<String>,
    /// Knobs that the script itself sets.
    #[serde(skip)]
    pub knobs: Vec<String>,
    /// The packets until a failure, in the order of time; empty for other verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<TraceEntry>,
}

impl Outcome {
    /// The outcome of a script that was not played, because it does not apply to the target.
    pub fn not_applicable(script: &Script, reason: String) -> Self {
        Self::of(script, Verdict::NotApplicable { reason }, Vec::new())
    }

    /// The outcome of `script` with this verdict.
    pub fn of(script: &Script, verdict: Verdict, notes: Vec<String>) -> Self {
        let (name, title) = (script.file.clone(), script.title.clone());
        let requires = script.requires.clone();
        let weight = Weight::of(&requires);
        let knobs = script.own_knobs.clone();
        Self { script: name, title, requires, weight, verdict, notes, knobs, packets: Vec::new() }
    }

    /// Knobs of the open questions that a failure may come from: of the field that differs, and those that the script sets.
    /// Where there are none, those that its requirements depend on.
    pub fn questions(&self) -> Vec<&'static Knob> {
        let failure = match &self.verdict {
            Verdict::Fail(failure) | Verdict::Flaky { first: failure, .. } => Some(failure),
            Verdict::Broken { .. } => None,
            Verdict::Pass | Verdict::NotApplicable { .. } => return Vec::new(),
        };
        let difference = failure.and_then(|failure| failure.difference.as_ref());
        let of_field = difference.into_iter().flat_map(|difference| knobs_of(&difference.field));
        let mut knobs: Vec<_> = of_field.collect();
        let set = |knob: &&Knob| !knob.question.is_empty() && self.knobs.iter().any(|name| name == knob.name);
        knobs.extend(KNOBS.iter().filter(set));
        if !knobs.is_empty() {
            return knobs;
        }
        let rules = self.requires.iter().filter_map(|id| Requirement::named(id));
        let asked: Vec<&str> = rules.flat_map(Requirement::decisions).map(|decision| decision.id).collect();
        KNOBS.iter().filter(|knob| asked.contains(&knob.question)).collect()
    }

    /// What went wrong, for people: the failure, its packet beside the expected one, and the packets until then.
    pub fn explain(&self) -> String {
        let (Verdict::Fail(failure) | Verdict::Flaky { first: failure, .. }) = &self.verdict else {
            return String::new();
        };
        let mut text = format!("line {}: {failure}", failure.line);
        if let Some([expected, actual]) = &failure.beside {
            let _ = write!(text, "\n  expected {expected}\n  actual   {actual}");
        }
        for knob in self.questions() {
            let _ = write!(text, "\n  open question {}: {} (knob {})", knob.question, knob.doc, knob.name);
        }
        text += "\n  packets until then:";
        for entry in &self.packets {
            let from = if entry.from_target { '>' } else { '<' };
            let _ = write!(text, "\n  {:>12} ns {from} port={} {}", entry.at_ns, entry.port, entry.text);
        }
        if self.packets.is_empty() {
            text += " none";
        }
        text
    }
}

/// Result of a script.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    /// As the script says.
    Pass,
    /// Not so.
    Fail(Failure),
    /// As the script says only when it was played again: no evidence for either side.
    Flaky {
        /// Attempts until it passed.
        attempts: u32,
        /// Where the first attempt failed.
        first: Failure,
    },
    /// The target lacks what the script needs.
    NotApplicable {
        /// What it lacks.
        reason: String,
    },
    /// The test itself could not be done.
    Broken {
        /// Why.
        reason: String,
    },
}

/// Where target and script part.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Line of the script.
    pub line: usize,
    /// What happened.
    pub what: String,
    /// The field that differs, when a packet came and was another one.
    pub difference: Option<Difference>,
    /// The other fields that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Difference>,
    /// Every transport field of the packet expected and of the packet that came, also those that are zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<[String; 2]>,
    /// A packet that the target's timers draw came where the script has none.
    #[serde(skip)]
    pub by_timer: bool,
    /// Why the failure says nothing about the target: the tester was too late for its timers.
    #[serde(skip)]
    pub excuse: Option<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.what)?;
        for d in self.difference.iter().chain(&self.more) {
            write!(out, "\n    field {}: expected {}, got {}", d.field, d.expected, d.actual)?;
        }
        Ok(())
    }
}

/// Why a run stops early.
enum Stop {
    Fail(Box<Failure>),
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Real time in which a target may still say something after the end of a script.
const SETTLE_NS: u64 = 5_000_000;
/// Real time that a target's packet may be late.
const PATIENCE_NS: u64 = 400_000_000;

/// Real time that a target's packet may be late where the script gives a range of times.
const SLACK_NS: u64 = 20_000_000;

/// Shorter waits of a script are not measured in real time.
const SHORT_WAIT_NS: u64 = 20_000;

/// Longest stretch of a script over a wire: 1 us becomes a millisecond, more than most delays of a busy machine.
const MAX_STRETCH: u64 = 1_000;
/// A script is stretched to at most this much real time.
const STRETCHED_NS: u64 = 1_000_000_000;

/// Real nanoseconds to a nanosecond of this script over a wire, for a target whose clock can be slowed.
pub fn stretch(script: &Script) -> u64 {
    let last = script.end().max(1);
    (STRETCHED_NS / last).clamp(1, MAX_STRETCH)
}

/// Plays `script` against `target`, whose fresh QP was set up as `facts` say.
pub fn run(script: &Script, facts: &Facts, target: &mut dyn Target) -> Outcome {
    run_traced(script, facts, target, &mut Trace::default())
}

/// As [`run`], and keeps every frame.
pub fn run_traced(script: &Script, facts: &Facts, target: &mut dyn Target, trace: &mut Trace) -> Outcome {
    if let Err(why) = facts.check(&script.knobs) {
        return Outcome::of(script, Verdict::Broken { reason: format!("the facts of the target: {why}") }, Vec::new());
    }
    let story = Story::new(facts, &script.knobs);
    let mut player = Player {
        script,
        facts,
        target,
        story,
        trace,
        waiting: VecDeque::new(),
        late: 0,
        late_before: 0,
        before: 0,
        verified: 0,
        notes: Vec::new(),
    };
    let verdict = match player.play() {
        Ok(()) => Verdict::Pass,
        Err(Stop::Fail(mut failure)) => {
            failure.excuse = failure.excuse.take().or_else(|| player.excuse(&failure));
            Verdict::Fail(*failure)
        }
        Err(Stop::Refused(Refusal::NotApplicable(reason))) => Verdict::NotApplicable { reason },
        Err(Stop::Refused(Refusal::Broken(reason))) => Verdict::Broken { reason },
    };
    let mut outcome = Outcome::of(script, verdict, player.notes);
    if matches!(outcome.verdict, Verdict::Fail(_)) {
        outcome.packets.clone_from(&trace.entries);
    }
    outcome
}

struct Player<'a> {
    script: &'a Script,
    facts: &'a Facts,
    target: &'a mut dyn Target,
    story: Story<'a>,
    trace: &'a mut Trace,
    /// Frames heard and not yet expected.
    waiting: VecDeque<Heard>,
    /// By how much real time runs behind the script's.
    late: u64,
    /// The same before the packet at hand came.
    late_before: u64,
    /// Instant of the step before, in the script.
    before: u64,
    /// Things seen that a target could have got wrong.
    verified: usize,
    notes: Vec<String>,
}

impl Player<'_> {
    fn play(&mut self) -> Result<(), Stop> {
        let steps = &self.script.steps;
        self.play_steps(steps)?;
        if self.verified == 0 {
            return Err(Refusal::NotApplicable("only the target's own counters show it".into()).into());
        }
        let last = self.script.end();
        let line = steps.last().map_or(0, |step| step.line);
        let end = Step { line, at: last, until: last, op: Op::Quiet };
        self.late += SETTLE_NS.checked_div(self.target.slowness()).unwrap_or(0);
        self.silent_until(&end, last)?;
        match self.target.done(last + self.late) {
            Ok(Some(done)) => Err(fail(&end, format!("a completion that the script does not expect: {}", tell(&done)))),
            Ok(None) | Err(Refusal::NotApplicable(_)) => Ok(()),
            Err(broken) => Err(broken.into()),
        }
    }

    fn play_steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            match &step.op {
                Op::Expect(_) => {
                    // Packets of one instant may come in any order of their types.
                    let group: Vec<&Step> = steps[at..]
                        .iter()
                        .take_while(|next| {
                            (next.at, next.until) == (step.at, step.until) && matches!(next.op, Op::Expect(_))
                        })
                        .collect();
                    self.expect_group(&group)?;
                    at += group.len();
                    continue;
                }
                Op::Send(spec) => self.send(step, spec)?,
                Op::Act(post) => {
                    self.silent_until(step, step.at)?;
                    self.before = step.at;
                    if matches!(post, Post::Port { .. }) {
                        self.needs("ports")?;
                    }
                    let at_ns = step.at + self.late;
                    self.target.act(at_ns, post)?;
                    let frames_before = self.trace.entries.len();
                    self.trace.actions.push(TraceAction { at_ns, frames_before, post: post.clone() });
                }
                // What a target does not tell is not held against it.
                Op::Check(check) => match self.check(step, check) {
                    Err(Stop::Refused(Refusal::NotApplicable(_))) => {}
                    checked => checked?,
                },
                Op::Quiet => self.silent_until(step, step.at)?,
                Op::Either(branches) => {
                    let branch = self.choose(step, branches)?;
                    self.play_steps(branch)?;
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// The alternative that the first packet fits, or, when none comes, the one that begins with silence.
    fn choose<'b>(&mut self, step: &Step, branches: &'b [Vec<Step>]) -> Result<&'b [Step], Stop> {
        let firsts = || branches.iter().filter_map(|branch| Some((branch.as_slice(), branch.first()?)));
        let latest = firsts().map(|(_, first)| first.until).max().unwrap_or(step.until);
        let mut heard = self.next_heard(latest)?;
        while heard.as_ref().is_some_and(|heard| !self.begins(branches, heard) && self.set_aside(heard)) {
            self.late = self.late_before;
            heard = self.next_heard(latest)?;
        }
        let Some(heard) = heard else {
            let silent = firsts().find(|(_, first)| matches!(first.op, Op::Quiet));
            return silent.map(|(branch, _)| branch).ok_or_else(|| {
                let wanted: Vec<String> = firsts().map(|(_, first)| format!("`{}`", first.packet())).collect();
                fail(step, format!("no packet came; the script expects {}", wanted.join(" or ")))
            });
        };
        self.waiting.push_front(heard.clone());
        let packet = Packet::parse(&heard.frame)
            .map_err(|why| fail(step, format!("a packet that is none of MRC's, {why}: {}", hex(&heard.frame))))?;
        let mut nearest: Option<Failure> = None;
        for (branch, first) in firsts() {
            let Op::Expect(spec) = &first.op else { continue };
            if packet.kind().is_none_or(|kind| kind.name != spec.kind.name) {
                continue;
            }
            let story = self.story.clone();
            let judged = self.judge(first, spec, &heard, &packet);
            self.story = story;
            match judged {
                Ok(()) => return Ok(branch),
                Err(Stop::Fail(failure)) => {
                    let nearer = nearest.as_ref().is_none_or(|nearest| failure.more.len() < nearest.more.len());
                    if nearer {
                        nearest = Some(*failure);
                    }
                }
                Err(refused) => return Err(refused),
            }
        }
        Err(match nearest {
            Some(failure) => Stop::Fail(Box::new(failure)),
            None => fail(step, format!("this came at {} ns, and no alternative begins with it: {packet}", heard.at)),
        })
    }

    fn send(&mut self, step: &Step, spec: &PacketSpec) -> Result<(), Stop> {
        self.silent_until(step, step.at)?;
        for (field, need) in [("vlan", "vlan"), ("options", "ip_options"), ("bare", "bare")] {
            if spec.value(field).is_some() {
                self.needs(need)?;
            }
        }
        let (packet, port) = self.story.stimulus(spec).map_err(|why| fail(step, why))?;
        if usize::from(port) > self.facts.tester_mac.len() {
            return Err(Refusal::NotApplicable(format!("needs {port} links to the target")).into());
        }
        let mut frame = packet.bytes();
        if let Some(cut) = spec.number("cut") {
            frame.truncate(frame.len().saturating_sub(cut as usize));
        }
        self.before = step.at;
        let (at_ns, text) = (step.at, packet.to_string());
        self.trace.entries.push(TraceEntry { at_ns, from_target: false, port, text, frame: hex(&frame) });
        Ok(self.target.send(step.at + self.late, port, &frame)?)
    }

    /// Whether the tester itself may have caused the failure: a target in real time probes and retransmits when its timers
    /// say so, and a tester that is later than they are cannot tell too early from in time.
    fn excuse(&self, failure: &Failure) -> Option<String> {
        if !failure.by_timer || self.target.slowness() != 1 {
            return None;
        }
        let knobs = &self.script.knobs;
        let t0 = 1_024u64.checked_shl(knobs.get("timeout") as u32).filter(|_| knobs.on("timeout")).unwrap_or(u64::MAX);
        let timer = t0.min(knobs.get("base_rtt") as u64);
        let behind = self.late.max(self.target.blind());
        (behind >= timer).then(|| {
            let (behind, timer) = (behind / 1_000, timer / 1_000);
            format!("the tester was {behind} us late, the target's timers take {timer} us: slow its clock, or hurry the tester")
        })
    }

    /// The script does not apply to a target that lacks this.
    fn needs(&self, what: &str) -> Result<(), Stop> {
        if self.facts.lacks.iter().any(|lacked| lacked == what) {
            return Err(Refusal::NotApplicable(format!("the target lacks `{what}`")).into());
        }
        Ok(())
    }

    /// Takes what comes until `at`.
    fn listen(&mut self, at: u64) -> Result<(), Stop> {
        while let Some(heard) = self.hear(at + self.late)? {
            self.waiting.push_back(heard);
        }
        Ok(())
    }

    /// The next frame, unless none comes until `until`. A target in real time asks about paths and silent peers when its
    /// timers say so, and no script is fast enough for them: such questions are left aside unless the script is about them.
    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Stop> {
        while let Some(heard) = self.target.hear(until)? {
            self.note_frame(&heard);
            let kind = Packet::parse(&heard.frame).ok().and_then(|packet| packet.kind());
            let question =
                kind.filter(|kind| self.target.slowness() == 1 && ["probe", "ep_request"].contains(&kind.name));
            match question {
                Some(kind) if !self.script.expects(kind.name) => {
                    self.notes.push(format!("a {} of the target's own, at {} ns, was left aside", kind.name, heard.at));
                }
                _ => return Ok(Some(heard)),
            }
        }
        Ok(None)
    }

    /// Whether an alternative begins with a packet of this type.
    fn begins(&self, branches: &[Vec<Step>], heard: &Heard) -> bool {
        let kind = Packet::parse(&heard.frame).ok().and_then(|packet| packet.kind());
        kind.is_some_and(|kind| {
            branches.iter().filter_map(|branch| branch.first()).any(|first| first.packet() == kind.name)
        })
    }

    /// Leaves a packet aside that the target is free to send and the script is not about.
    fn set_aside(&mut self, heard: &Heard) -> bool {
        let Ok(packet) = Packet::parse(&heard.frame) else { return false };
        let kind = packet.kind().map_or("", |kind| kind.name);
        let probe = kind == "probe" && !is_about_probes(self.script);
        let ack = kind == "ack" && !is_about_acks(self.script) && self.story.is_true_ack(&packet);
        if ack {
            self.story.matched(&packet);
        }
        if probe || ack {
            self.notes.push(format!("one {kind} more than the script asks for, at {} ns, was left aside", heard.at));
        }
        probe || ack
    }

    fn note_frame(&mut self, heard: &Heard) {
        let text = Packet::parse(&heard.frame).map_or_else(|why| why, |packet| packet.to_string());
        let (at_ns, frame) = (heard.at, hex(&heard.frame));
        self.trace.entries.push(TraceEntry { at_ns, from_target: true, port: heard.port, text, frame });
    }

    /// Nothing may come until `at` that was not expected before.
    fn silent_until(&mut self, step: &Step, at: u64) -> Result<(), Stop> {
        self.listen(at)?;
        while let Some(heard) = self.waiting.pop_front() {
            if !self.set_aside(&heard) {
                self.waiting.push_front(heard);
                break;
            }
        }
        match self.waiting.front() {
            None => Ok(()),
            Some(heard) => {
                let what = format!("a packet that the script does not expect, at {} ns: {}", heard.at, line(heard));
                let by_timer = Packet::parse(&heard.frame).is_ok_and(|packet| is_of_timer(&packet));
                Err(Stop::Fail(Box::new(Failure { by_timer, ..failure(step, what) })))
            }
        }
    }

    fn expect_group(&mut self, group: &[&Step]) -> Result<(), Stop> {
        let mut open: Vec<(&Step, &PacketSpec)> = group
            .iter()
            .filter_map(|&step| match &step.op {
                Op::Expect(spec) => Some((step, spec)),
                _ => None,
            })
            .collect();
        while let Some(&(first, _)) = open.first() {
            let only_probes = open.iter().all(|(_, spec)| spec.kind.name == "probe") && !is_about_probes(self.script);
            // Timers of the target go on while the tester waits for a probe that need not come.
            let patience = if only_probes { SLACK_NS } else { PATIENCE_NS };
            let Some(heard) = self.next_within(first.until, patience)? else {
                if only_probes {
                    self.notes.push(format!("line {}: no probe came", first.line));
                    break;
                }
                let spec = open[0].1;
                return Err(fail(first, format!("no packet came; the script expects `{}`", spec.kind.name)));
            };
            let packet = Packet::parse(&heard.frame)
                .map_err(|why| fail(first, format!("a packet that is none of MRC's, {why}: {}", hex(&heard.frame))))?;
            let place = self.place(&open, &packet);
            let as_expected = place.is_some_and(|place| {
                let wanted = open[place].1.number("psn");
                packet.kind().is_none_or(|kind| kind.name != "ack")
                    || wanted.is_none()
                    || wanted == packet.get("psn").map(|psn| psn as i128)
            });
            if !as_expected && self.set_aside(&heard) {
                self.late = self.late_before;
                continue;
            }
            if place.is_none() && only_probes {
                // What comes next is none of them.
                self.notes.push(format!("line {}: no probe came", first.line));
                self.late = self.late_before;
                self.waiting.push_front(heard);
                break;
            }
            let Some(place) = place else {
                let wanted = open[0].1.kind.name;
                let what = format!("the script expects `{wanted}`, and this came at {} ns: {packet}", heard.at);
                let by_timer = is_of_timer(&packet);
                return Err(Stop::Fail(Box::new(Failure { by_timer, ..failure(first, what) })));
            };
            let (step, spec) = open.remove(place);
            self.judge(step, spec, &heard, &packet)?;
            self.verified += 1;
        }
        self.before = group.first().map_or(self.before, |step| step.until);
        Ok(())
    }

    /// Which of the expected packets this one should be: the first of its type. Over several links real packets overtake
    /// each other, so there the one with its PSN.
    fn place(&self, open: &[(&Step, &PacketSpec)], packet: &Packet) -> Option<usize> {
        let kind = packet.kind()?;
        let same = |spec: &PacketSpec| spec.kind.name == kind.name;
        let first = open.iter().position(|(_, spec)| same(spec));
        if self.target.virtual_time() || self.facts.tester_mac.len() < 2 {
            return first;
        }
        let psn = packet.get("psn").map(|psn| psn as i128);
        open.iter().position(|(_, spec)| same(spec) && psn.is_some() && spec.number("psn") == psn).or(first)
    }

    fn next_heard(&mut self, at: u64) -> Result<Option<Heard>, Stop> {
        self.next_within(at, PATIENCE_NS)
    }

    fn next_within(&mut self, at: u64, patience_ns: u64) -> Result<Option<Heard>, Stop> {
        self.late_before = self.late;
        if let Some(heard) = self.waiting.pop_front() {
            return Ok(Some(heard));
        }
        let patience = patience_ns.checked_div(self.target.slowness()).unwrap_or(0);
        let heard = self.hear(at + self.late + patience)?;
        if let Some(heard) = &heard {
            // What came late moves the rest of the script.
            self.late = self.late.max(heard.at.saturating_sub(at));
        }
        Ok(heard)
    }

    fn judge(&mut self, step: &Step, spec: &PacketSpec, heard: &Heard, packet: &Packet) -> Result<(), Stop> {
        let exact = self.target.virtual_time();
        if exact && !(step.at..=step.until).contains(&heard.at) {
            let what = format!("came at {} ns, the script says {}: {packet}", heard.at, step.when());
            return Err(fail(step, what));
        }
        let slack = SLACK_NS.checked_div(self.target.slowness()).unwrap_or(0);
        if !exact && step.until > step.at && heard.at > step.until + self.late_before + slack {
            let over = heard.at.saturating_sub(step.until + self.late_before);
            return Err(fail(step, format!("came {over} ns too late for {}: {packet}", step.when())));
        }
        // In real time a wait may be a quarter short, not more.
        let wait = step.at.saturating_sub(self.before);
        if !exact && wait >= SHORT_WAIT_NS && heard.at + wait / 4 < step.at + self.late_before {
            let early = (step.at + self.late_before).saturating_sub(heard.at);
            let what = format!("came {early} ns too early for a wait of {wait} ns: {packet}");
            // What was before it may have been read so much too late.
            let blind = self.target.blind();
            let excuse = (self.target.slowness() == 1 && early <= blind + wait / 4).then(|| {
                let (blind, early) = (blind / 1_000, early / 1_000);
                format!("the tester did not look at its links for {blind} us, and this came {early} us too early: slow its clock, or hurry the tester")
            });
            let by_timer = is_of_timer(packet);
            return Err(Stop::Fail(Box::new(Failure { by_timer, excuse, ..failure(step, what) })));
        }
        let wrong = |difference| {
            let what = format!("`{}` differs from what the script says", spec.kind.name);
            let by_timer = is_of_timer(packet) && spec.kind.is_write() && spec.number("rtx") != Some(1);
            Failure { difference: Some(difference), by_timer, ..failure(step, what) }
        };
        let patience = PATIENCE_NS.checked_div(self.target.slowness()).unwrap_or(0);
        let mut expected = match self.story.expected(exact.then_some(heard.at), patience, spec, packet) {
            Ok(expected) => expected,
            Err(difference) => return Err(Stop::Fail(Box::new(wrong(difference)))),
        };
        let differs = |difference, expected: &Packet| {
            let mut failure = wrong(difference);
            let first = failure.difference.as_ref().map(|difference| difference.field.clone());
            failure.beside = Some([expected.all_fields(), packet.all_fields()]);
            failure.more =
                packet.field_differences(expected).filter(|other| Some(&other.field) != first.as_ref()).collect();
            Err(Stop::Fail(Box::new(failure)))
        };
        if let Some(wanted) = spec.number("port").filter(|wanted| *wanted != i128::from(heard.port)) {
            let (wanted, actual) = (wanted.to_string(), heard.port.to_string());
            return differs(Difference { field: "port".into(), expected: wanted, actual }, &expected);
        }
        let headers =
            |packet: &Packet| packet.layers.iter().map(|layer| layer.layout.name).collect::<Vec<_>>().join(" ");
        if headers(packet) != headers(&expected) {
            let (wanted, actual) = (headers(&expected), headers(packet));
            return differs(Difference { field: "headers".into(), expected: wanted, actual }, &expected);
        }
        let noted = leave_to_target(spec, &self.script.knobs, packet, &mut expected);
        self.notes.extend(
            noted.iter().map(|d| format!("line {}: {} {}, expected {}", step.line, d.field, d.actual, d.expected)),
        );
        match packet.difference(&expected) {
            None => {}
            // One wrong mask must not hide everything else: only the scripts about the trailer fail for it.
            Some(d) if d.field == "icrc" && !self.script.requires.iter().any(|id| id.starts_with("ICRC")) => {
                self.notes.push(format!("line {}: wrong ICRC {}, expected {}", step.line, d.actual, d.expected));
            }
            Some(difference) => return differs(difference, &expected),
        }
        self.story.matched(packet);
        Ok(())
    }

    fn check(&mut self, step: &Step, check: &Check) -> Result<(), Stop> {
        match check {
            Check::Done(wanted) => self.check_done(step, wanted),
            Check::Memory { at, len, psn } => {
                self.listen(step.at)?;
                let want = |n: usize| match psn {
                    Some(psn) => facts::fill(*psn, n),
                    None => facts::initial(at.wrapping_add(n as u64)),
                };
                let wrong = |have: &[u8]| (0..*len).find(|&n| have.get(n) != Some(&want(n)));
                let mut have = self.target.memory(*at, *len)?;
                // In real time bytes may take as long to their place as packets may be late.
                let patience = PATIENCE_NS.checked_div(self.target.slowness()).unwrap_or(0);
                for part in (1..=8).take_while(|_| patience > 0) {
                    if wrong(&have).is_none() {
                        break;
                    }
                    self.listen(step.at + part * (patience / 8))?;
                    have = self.target.memory(*at, *len)?;
                }
                match wrong(&have) {
                    None => {
                        self.verified += 1;
                        Ok(())
                    }
                    Some(n) => {
                        let (expected, actual) =
                            (format!("{:#04x}", want(n)), format!("{:#04x}", have.get(n).copied().unwrap_or(0)));
                        let difference = Some(Difference {
                            field: format!("memory[{}]", at.wrapping_add(n as u64)),
                            expected,
                            actual,
                        });
                        let what = "the target's memory holds something else".into();
                        Err(Stop::Fail(Box::new(Failure { difference, ..failure(step, what) })))
                    }
                }
            }
            Check::Counter(name, wanted) => {
                self.listen(step.at)?;
                if !self.target.virtual_time() {
                    return Ok(());
                }
                self.verified += 1;
                let have = self.target.counter(name)?;
                if have == *wanted {
                    Ok(())
                } else {
                    Err(fail(step, format!("counter {name}: expected {wanted}, got {have}")))
                }
            }
            Check::Paths { first, last, distinct } => {
                self.listen(step.at)?;
                let have = self.story.paths(*first, *last);
                let what = || format!("EVs used by PSNs {first} to {last}: expected {distinct}, got {have}");
                if have == *distinct { Ok(()) } else { Err(fail(step, what())) }
            }
            Check::State(wanted) => {
                self.listen(step.at)?;
                let have = self.target.counter("qp_state")?;
                self.verified += 1;
                let have = STATES.get(have as usize).copied().unwrap_or("unknown");
                if have == wanted {
                    Ok(())
                } else {
                    Err(fail(step, format!("QP state: expected {wanted}, got {have}")))
                }
            }
        }
    }

    fn check_done(&mut self, step: &Step, wanted: &[(String, String)]) -> Result<(), Stop> {
        self.listen(step.at)?;
        let patience = PATIENCE_NS.checked_div(self.target.slowness()).unwrap_or(0);
        let Some(done) = self.target.done(step.until + self.late + patience)? else {
            return Err(fail(step, "no completion".into()));
        };
        if self.target.virtual_time() && !(step.at..=step.until).contains(&done.at) {
            let what = format!("completed at {} ns, the script says {}: {}", done.at, step.when(), tell(&done));
            return Err(fail(step, what));
        }
        for (name, value) in wanted {
            let flag = |set: bool| u8::from(set).to_string();
            let number = |have: Option<u32>| have.map_or("none".to_string(), |have| have.to_string());
            let have = match name.as_str() {
                "write" => flag(done.kind == DoneKind::Write),
                "recv" => flag(done.kind == DoneKind::Recv),
                "id" => done.id.to_string(),
                "status" => done.status.clone(),
                "len" => done.len.to_string(),
                "imm" => number(done.imm),
                _ => flag(done.solicited),
            };
            let value = crate::number::number(value).map_or(value.clone(), |n| n.to_string());
            if have != value {
                let what = format!("completion field {name}: expected {value}, got {have}: {}", tell(&done));
                // The target may have given up because the tester was late.
                let by_timer = done.status == "retry_exceeded";
                return Err(Stop::Fail(Box::new(Failure { by_timer, ..failure(step, what) })));
            }
        }
        self.verified += 1;
        Ok(())
    }
}

impl Step {
    /// Its time, for people.
    fn when(&self) -> String {
        if self.until > self.at { format!("{} to {} ns", self.at, self.until) } else { format!("{} ns", self.at) }
    }

    /// Type of the packet it expects.
    fn packet(&self) -> &'static str {
        if let Op::Expect(spec) = &self.op { spec.kind.name } else { "quiet" }
    }
}

fn fail(step: &Step, what: String) -> Stop {
    Stop::Fail(Box::new(failure(step, what)))
}

fn failure(step: &Step, what: String) -> Failure {
    let (more, beside, by_timer, excuse) = (Vec::new(), None, false, None);
    Failure { line: step.line, what, difference: None, more, beside, by_timer, excuse }
}

/// Probes, endpoint requests and retransmissions leave when a timer says so.
fn is_of_timer(packet: &Packet) -> bool {
    let timed =
        |kind: &Kind| matches!(kind.name, "probe" | "ep_request") || kind.is_write() && packet.get("rtx") == Some(1);
    packet.kind().is_some_and(timed)
}

fn line(heard: &Heard) -> String {
    Packet::parse(&heard.frame).map_or_else(|_| hex(&heard.frame), |packet| packet.to_string())
}

fn tell(done: &Done) -> String {
    let kind = if done.kind == DoneKind::Recv { "recv" } else { "write" };
    format!("{kind} id={} status={} len={} at {} ns", done.id, done.status, done.len, done.at)
}
