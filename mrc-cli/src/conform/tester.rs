//! The tester's side over a wire: real time, real frames, and a control connection where the target has one.

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mrc_afxdp::{AnyPort, Port};
use mrc_conform::control::{Reply, Request};
use mrc_conform::{Done, Facts, Heard, Knobs, Outcome, Post, Refusal, Script, Target, Verdict, run, stretch};

use super::link::{self, Driver, Lines};
use super::setup::Setup;
use crate::out;

/// How the target is reached beside its packets.
pub enum Door {
    /// It answers questions.
    Control(Lines),
    /// It was set up by hand.
    File(Box<Setup>),
}

/// Plays scripts over these interfaces.
pub struct Tester {
    /// Links to the target, port 1 first.
    pub ports: Vec<AnyPort>,
    /// The way to the target.
    pub door: Door,
    /// A script that fails is played so many times again before it counts, each time at half the speed: a busy machine may be
    /// too slow for a burst.
    pub retries: u32,
    /// How long a link may be without a carrier before a script: not again where it was in vain.
    patience: Duration,
}

/// How long the target may take for a reply.
const REPLY_TIME: Duration = Duration::from_secs(20);

/// How long a target may have its port down behind the script before.
const CARRIER_TIME: Duration = Duration::from_secs(2);

/// A script that goes on failing is played at no less than a sixteenth of the first speed.
const SLOWEST: u32 = 16;

impl Tester {
    /// Opens the links.
    ///
    /// # Errors
    /// An interface that cannot be opened, with cause and cure.
    pub fn new(interfaces: &[String], driver: Driver, door: Door, retries: u32) -> anyhow::Result<Self> {
        // Outer destinations of the default EVs; scripts under SRv6 use these.
        let offer = Facts::offer(&Knobs::default(), Vec::new());
        let sids: Vec<Ipv6Addr> = offer.evs.iter().map(|(ev, _)| offer.outer_dst(*ev)).collect();
        Ok(Self { ports: link::open(interfaces, driver, &sids)?, door, retries, patience: CARRIER_TIME })
    }

    /// Plays one script; one that passes only when it is played again is flaky. One of which no attempt says anything about
    /// the target, because the tester was too late each time, does not apply.
    pub fn play(&mut self, script: &Script) -> Outcome {
        let outcome = self.once(script, 1);
        let Verdict::Fail(first) = &outcome.verdict else { return outcome };
        let mut evidence: Option<Outcome> = first.excuse.is_none().then(|| outcome.clone());
        for attempt in 0..self.retries {
            let again = self.once(script, 2u32.saturating_pow(attempt + 1).min(SLOWEST));
            if again.verdict == Verdict::Pass {
                let verdict = Verdict::Flaky { attempts: attempt + 2, first: first.clone() };
                return Outcome { verdict, ..outcome };
            }
            let said = matches!(&again.verdict, Verdict::Fail(failure) if failure.excuse.is_none());
            if said && evidence.is_none() {
                evidence = Some(again);
            }
        }
        let excuse = first.excuse.clone().unwrap_or_default();
        evidence.unwrap_or_else(|| Outcome::not_applicable(script, excuse))
    }

    fn once(&mut self, script: &Script, slower: u32) -> Outcome {
        let verdict = match self.open(script, slower) {
            Ok((facts, slow)) => {
                let ports = &mut self.ports[..];
                let lines = match &mut self.door {
                    Door::Control(lines) => Some(lines),
                    Door::File(_) => None,
                };
                let start = Instant::now();
                let mut wire = Wire { ports, lines, start, slow, heard: VecDeque::new(), looked: None, blind: 0 };
                wire.drop_old();
                return run(script, &facts, &mut wire);
            }
            Err(Refusal::NotApplicable(reason)) => Verdict::NotApplicable { reason },
            Err(Refusal::Broken(reason)) => Verdict::Broken { reason },
        };
        Outcome::of(script, verdict, Vec::new())
    }

    fn open(&mut self, script: &Script, slower: u32) -> Result<(Facts, u64), Refusal> {
        if script.knobs.on("port_update_on_rts") {
            let why = "what a QP tells on entering RTS leaves while the connection is still being made";
            return Err(Refusal::NotApplicable(why.into()));
        }
        let planes = script.knobs.get("planes").max(1) as usize;
        if planes > self.ports.len() {
            let have = self.ports.len();
            return Err(Refusal::NotApplicable(format!(
                "needs {planes} links to the target, there is {have} (--iface A,B)"
            )));
        }
        for port in self.ports.iter().take(planes) {
            let carrier = link::wait_for_carrier(port.name(), self.patience);
            self.patience = if carrier.is_ok() { CARRIER_TIME } else { Duration::ZERO };
            carrier.map_err(Refusal::Broken)?;
        }
        let macs = self.ports.iter().take(planes).map(AnyPort::mac).collect();
        match &mut self.door {
            Door::File(setup) => {
                let mut facts = setup.take(script).map_err(Refusal::NotApplicable)?;
                if facts.tester_mac.is_empty() {
                    facts.tester_mac = macs;
                }
                Ok((facts, 1))
            }
            Door::Control(lines) => opened(lines, script, macs, slower),
        }
    }
}

/// The facts of a fresh QP of the target, and how many times slower than real time its timers run.
fn opened(lines: &mut Lines, script: &Script, macs: Vec<[u8; 6]>, slower: u32) -> Result<(Facts, u64), Refusal> {
    let slow = stretch(script) as u32 * slower;
    let facts = Box::new(Facts::offer(&script.knobs, macs));
    let open = Request::Open { knobs: script.knobs.clone(), facts, slow };
    match ask(lines, &open).map_err(|why| Refusal::Broken(format!("{why:#}")))? {
        Reply::Opened { slow: have, .. } if have > slow => {
            Err(Refusal::Broken(format!("asked for timers {slow} times slower, the target made them {have}")))
        }
        Reply::Opened { facts, slow } => Ok((*facts, slow.max(1).into())),
        other => Err(refusal(other)),
    }
}

/// Asks once. A target that does not reply in time is left: a late reply would be taken for that to the next question.
fn ask(lines: &mut Lines, request: &Request) -> anyhow::Result<Reply> {
    lines.write(request).context("control connection")?;
    match lines.read_within(REPLY_TIME)? {
        Some(reply) => Ok(reply),
        None => {
            lines.close();
            bail!("the control connection did not reply within {} s; it is closed now", REPLY_TIME.as_secs())
        }
    }
}

fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(why) => Refusal::NotApplicable(out::printable(&why)),
        Reply::Broken(why) => Refusal::Broken(out::printable(&why)),
        other => Refusal::Broken(format!("the control connection answered {other:?}")),
    }
}

/// A target at the other end of a wire.
struct Wire<'t> {
    ports: &'t mut [AnyPort],
    lines: Option<&'t mut Lines>,
    start: Instant,
    slow: u64,
    heard: VecDeque<Heard>,
    /// When it last looked at the links, and the longest time between two looks.
    looked: Option<u64>,
    blind: u64,
}

impl Wire<'_> {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 / self.slow
    }

    /// What the target still said about the script before.
    fn drop_old(&mut self) {
        link::drop_all(self.ports);
    }

    /// Reads what came. Each frame has the time at which it was read: one that came while others were read must not look
    /// earlier than it is.
    fn take_in(&mut self) {
        let before = self.now();
        let (start, slow, heard) = (self.start, self.slow, &mut self.heard);
        let clock = || start.elapsed().as_nanos() as u64 / slow;
        link::receive(self.ports, |port, frame| heard.push_back(Heard { at: clock(), port, frame }));
        self.blind = self.blind.max(self.now() - self.looked.unwrap_or(before));
        self.looked = Some(before);
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let Some(lines) = self.lines.as_deref_mut() else {
            return Err(Refusal::NotApplicable("needs a control connection to the target".into()));
        };
        ask(lines, request).map_err(|why| Refusal::Broken(format!("{why:#}")))
    }
}

impl Target for Wire<'_> {
    fn slowness(&self) -> u64 {
        self.slow
    }

    fn blind(&self) -> u64 {
        self.blind
    }

    fn send(&mut self, _at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        let Some(port) = self.ports.get_mut(usize::from(port) - 1) else {
            return Err(Refusal::NotApplicable(format!("needs link {port} to the target")));
        };
        link::send(port, frame).map_err(|why| Refusal::Broken(format!("{why:#}")))
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        loop {
            self.take_in();
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            if self.now() >= until {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn act(&mut self, _at: u64, post: &Post) -> Result<(), Refusal> {
        match self.ask(&Request::Act(post.clone()))? {
            Reply::Ok => Ok(()),
            other => Err(refusal(other)),
        }
    }

    fn done(&mut self, until: u64) -> Result<Option<Done>, Refusal> {
        loop {
            match self.ask(&Request::Done)? {
                Reply::Done(Some(done)) => return Ok(Some(Done { status: out::printable(&done.status), ..done })),
                Reply::Done(None) if self.now() >= until => return Ok(None),
                Reply::Done(None) => std::thread::sleep(Duration::from_micros(200)),
                other => return Err(refusal(other)),
            }
        }
    }

    fn memory(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        match self.ask(&Request::Memory { offset, len })? {
            Reply::Memory(digits) => {
                let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
                let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
                let bytes =
                    bytes.ok_or_else(|| Refusal::Broken("the control connection gave no hexadecimal digits".into()))?;
                if bytes.len() != len {
                    let have = bytes.len();
                    return Err(Refusal::Broken(format!("asked for {len} bytes of memory, the target gave {have}")));
                }
                Ok(bytes)
            }
            other => Err(refusal(other)),
        }
    }

    fn counter(&mut self, name: &str) -> Result<i64, Refusal> {
        match self.ask(&Request::Counter(name.into()))? {
            Reply::Counter(value) => Ok(value),
            other => Err(refusal(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The connection to a target that says these lines, one for each question.
    fn target(replies: &'static [&'static str]) -> Lines {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let lines = Lines::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut questions = BufReader::new(stream.try_clone().unwrap()).lines();
            for reply in replies {
                questions.next();
                stream.write_all(format!("{reply}\n").as_bytes()).unwrap();
            }
        });
        lines
    }

    /// Memory of another length was compared as it was: the target's packets were blamed for its agent.
    #[test]
    fn memory_of_another_length_is_no_evidence() {
        let mut lines = target(&[r#"{"memory":"00"}"#, r#"{"memory":"000000"}"#, r#"{"memory":"0001"}"#]);
        let (lines, start) = (Some(&mut lines), Instant::now());
        let mut wire = Wire { ports: &mut [], lines, start, slow: 1, heard: VecDeque::new(), looked: None, blind: 0 };
        for have in [1, 3] {
            let why = format!("asked for 2 bytes of memory, the target gave {have}");
            assert_eq!(wire.memory(0, 2).unwrap_err(), Refusal::Broken(why));
        }
        assert_eq!(wire.memory(0, 2).unwrap(), [0, 1]);
    }

    /// Reports have one line for a script, and JUnit's XML has no control characters.
    #[test]
    fn a_target_cannot_write_into_the_report() {
        let mut lines = target(&[
            r#"{"refused":"no\u001b[31m\npass"}"#,
            r#"{"broken":"\u0007"}"#,
            r#"{"done":{"at":0,"kind":"write","id":1,"status":"\n","len":0,"imm":null,"solicited":false}}"#,
        ]);
        let (lines, start) = (Some(&mut lines), Instant::now());
        let mut wire = Wire { ports: &mut [], lines, start, slow: 1, heard: VecDeque::new(), looked: None, blind: 0 };
        let refused = Refusal::NotApplicable(r"no\u{1b}[31m\npass".into());
        assert_eq!(wire.counter("qp_state").unwrap_err(), refused);
        assert_eq!(wire.counter("qp_state").unwrap_err(), Refusal::Broken(r"\u{7}".into()));
        assert_eq!(wire.done(0).unwrap().unwrap().status, r"\n");
    }

    /// Such a clock made the tester wait for hours.
    #[test]
    fn timers_slower_than_asked_are_no_evidence() {
        let knobs = Knobs::default();
        let facts = serde_json::to_string(&Facts::offer(&knobs, Vec::new())).unwrap();
        let reply: &'static str = format!(r#"{{"opened":{{"facts":{facts},"slow":4000000}}}}"#).leak();
        let mut lines = target(vec![reply].leak());
        let script = Script::parse("a", "# t\nrequires SACK-001\nknobs planes=1\n0 quiet").unwrap();
        let Err(Refusal::Broken(why)) = opened(&mut lines, &script, Vec::new(), 1) else { panic!("it was taken") };
        assert!(why.contains("the target made them 4000000"), "{why}");
    }
}
