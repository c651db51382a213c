//! The target's side: this project's engine over real interfaces, set up anew for each script by the tester's words.

use crate::out::errln;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::Context;
use mrc_afxdp::{AnyPort, Port};
use mrc_conform::control::{Reply, Request};
use mrc_conform::engine::{Engine, with_engine};
use mrc_conform::{Done, Facts, Fault, Knobs, Refusal, hex};

use super::link::{self, Driver, Lines};

/// What to serve.
pub struct Serve {
    /// Interfaces, port 1 first.
    pub interfaces: Vec<String>,
    /// How they are opened.
    pub driver: Driver,
    /// Where testers connect.
    pub listen: String,
    /// Put in on purpose.
    pub fault: Option<Fault>,
    /// Knobs that this target has at these values, whatever testers ask for.
    pub fixed: Knobs,
}

/// Serves one tester after the other.
///
/// # Errors
/// Interfaces or the listening socket cannot be opened.
pub fn serve(what: &Serve) -> anyhow::Result<()> {
    let sids = Facts::offer(&Knobs::default(), Vec::new()).target_sid;
    let mut ports = link::open(&what.interfaces, what.driver, &sids)?;
    let listener = TcpListener::bind(&what.listen).with_context(|| format!("listen on {}", what.listen))?;
    errln!("conform: target ready on {} ({})", what.listen, ports[0].obtained());
    loop {
        let (stream, tester) = listener.accept()?;
        let mut lines = Lines::new(stream)?;
        if let Err(why) = converse(&mut ports, &mut lines, what) {
            log::info!("tester {tester}: {why:#}");
        }
    }
}

/// One tester: scripts until it leaves.
fn converse(ports: &mut Vec<AnyPort>, lines: &mut Lines, what: &Serve) -> anyhow::Result<()> {
    lines.set_blocking(true)?;
    let mut next: Option<Request> = None;
    loop {
        let request = match next.take() {
            Some(request) => request,
            None => {
                lines.set_blocking(true)?;
                match lines.read()? {
                    Some(request) => request,
                    None => continue,
                }
            }
        };
        let Request::Open { mut knobs, mut facts, slow } = request else {
            lines.write(&Reply::Refused("nothing is open; send `open` first".into()))?;
            continue;
        };
        if let Err(why) = knobs.check().and_then(|()| knobs.fix(&what.fixed)) {
            lines.write(&Reply::Refused(why))?;
            continue;
        }
        let planes = knobs.get("planes").max(1) as usize;
        if planes > ports.len() {
            lines.write(&Reply::Refused(format!("needs {planes} ports, this target has {}", ports.len())))?;
            continue;
        }
        facts.lacks = vec!["vlan".into(), "ip_options".into()];
        let macs = ports.iter().take(planes).map(AnyPort::mac).collect();
        let slow = slow.max(1);
        // What is left of the script before.
        link::drop_all(ports);
        lines.set_blocking(false)?;
        let played = with_engine(&knobs, *facts, macs, |engine, facts| {
            lines.write(&Reply::Opened { facts: Box::new(facts.clone()), slow })?;
            Session { engine, ports, lines, fault: what.fault, slow, start: Instant::now(), done: VecDeque::new() }
                .run()
        });
        lines.set_blocking(true)?;
        match played {
            Ok(request) => next = Some(request?),
            Err(Refusal::NotApplicable(why) | Refusal::Broken(why)) => lines.write(&Reply::Refused(why))?,
        }
    }
}

struct Session<'a, 'e, 's> {
    engine: &'e mut Engine<'s>,
    ports: &'a mut Vec<AnyPort>,
    lines: &'a mut Lines,
    fault: Option<Fault>,
    slow: u32,
    start: Instant,
    done: VecDeque<Done>,
}

impl Session<'_, '_, '_> {
    /// Plays one script's target; ends with the request that opens the next.
    fn run(mut self) -> anyhow::Result<Request> {
        loop {
            let mut idle = !self.take_in();
            idle &= !self.give_out()?;
            match self.lines.read()? {
                None => {}
                Some(open @ Request::Open { .. }) => return Ok(open),
                Some(request) => {
                    // A frame that was sent before the question counts.
                    self.take_in();
                    self.give_out()?;
                    let reply = self.answer(&request);
                    self.give_out()?;
                    self.lines.write(&reply)?;
                    idle = false;
                }
            }
            if idle {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// The engine's time.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 / u64::from(self.slow)
    }

    fn take_in(&mut self) -> bool {
        let mut frames = Vec::new();
        link::receive(self.ports, |port, frame| frames.push((port, frame)));
        for (port, mut frame) in std::mem::take(&mut frames) {
            if let Some(fault) = self.fault {
                fault.received(&mut frame);
            }
            let now = self.now();
            self.engine.receive(now, port, &frame);
            frames.push((port, frame));
        }
        let now = self.now();
        let due = self.engine.next_timeout().is_some_and(|at| at <= now);
        if due {
            self.engine.pass(now);
        }
        due || !frames.is_empty()
    }

    fn give_out(&mut self) -> anyhow::Result<bool> {
        let now = self.now();
        let mut sent = false;
        while let Some((port, mut frame)) = self.engine.transmit(now) {
            if let Some(fault) = self.fault {
                fault.sent(&mut frame);
            }
            if let Some(port) = self.ports.get_mut(usize::from(port) - 1) {
                link::send(port, &frame)?;
            }
            sent = true;
        }
        while let Some(done) = self.engine.completion(now) {
            self.done.push_back(done);
        }
        Ok(sent)
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let now = self.now();
        match request {
            // `run` has taken it.
            Request::Open { .. } => Reply::Ok,
            Request::Act(post) => match self.engine.act(now, post) {
                Ok(()) => Reply::Ok,
                Err(why) => Reply::Broken(why.to_string()),
            },
            Request::Done => Reply::Done(self.done.pop_front()),
            Request::Memory { offset, len } => Reply::Memory(hex(&self.engine.memory(*offset, *len))),
            Request::Counter(name) => match self.engine.counter(name) {
                Ok(value) => Reply::Counter(value),
                Err(why) => Reply::Refused(why.to_string()),
            },
        }
    }
}
