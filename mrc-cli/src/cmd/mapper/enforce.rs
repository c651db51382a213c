//! From the map to the transport: applies a policy to the MRC devices of this host over their control sockets, and
//! `mrc mapper policy`, which checks a file and says what it would deny.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_mapper::Fabric;
use mrc_mapper::locate::Finding;
use mrc_mapper::policy::{self, Decision, Denylist, Enforcer, Policy};
use mrc_mapper::topology::{Component, HostId, host_name};
use mrc_verbs_shim::control::{self, Client, ControlError, Counters, Deny, Effect, Request, all_devices};
use serde::Serialize;
use serde_json::json;

use crate::out::{errln, outln};
use crate::usage::usage;
use crate::watch::Silent;

/// How often devices hear of their denylist. A device that opens meanwhile hears of it then.
const RENEW: Duration = Duration::from_secs(1);
/// Seconds after which a device forgets the list of an agent that is gone.
const LEASE_S: u32 = 5;
/// Name of the list.
const BY: &str = "mapper";

/// Reads a policy.
pub fn read(path: &Path) -> anyhow::Result<Policy> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the policy {}", path.display()))
        .map_err(usage)?;
    let policy: Policy = toml::from_str(&text).with_context(|| path.display().to_string()).map_err(usage)?;
    policy.check().with_context(|| path.display().to_string()).map_err(usage)?;
    Ok(policy)
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Told {
    /// A rule acts, or ends.
    Decision {
        /// Which.
        #[serde(flatten)]
        decision: Decision,
        /// Whether devices only say what they would do.
        dry_run: bool,
    },
    /// What became of a device.
    Device {
        /// Always `device`.
        event: &'static str,
        /// Process that has it open.
        pid: u32,
        /// What its denylist does, or would do.
        #[serde(skip_serializing_if = "Option::is_none")]
        effect: Option<Effect>,
        /// Why it refuses.
        #[serde(skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
}

/// What a device said to a denylist: what it does, or why it refuses.
type Answer = Result<Effect, String>;

/// A device of this host, and its last answer to a list that denies something.
type Obeys = (Client, Option<Answer>);

/// A policy with the devices that obey it. A thread of its own talks to them: one of a process that is stopped lets nobody
/// wait who has probes to send.
pub struct Hand {
    enforcer: Enforcer,
    apply: bool,
    start: Instant,
    renewed: Option<Instant>,
    list: Denylist,
    /// None: the thread shall end.
    lists: Option<SyncSender<Denylist>>,
    told: Receiver<Told>,
    thread: Option<JoinHandle<()>>,
}

/// The devices of a host.
struct Devices {
    host: String,
    apply: bool,
    /// By socket; none: of another host.
    known: BTreeMap<PathBuf, Option<Obeys>>,
    silent: Silent,
    /// Why the folder of sockets is not searched.
    refused: Option<String>,
}

impl Hand {
    /// The policy at work on a host, which has a number in the fabric and a name in its devices' host file; `apply` = false only asks
    /// devices what they would do.
    pub fn new(fabric: Fabric, (host, name): (HostId, &str), policy: Policy, apply: bool) -> anyhow::Result<Self> {
        let enforcer = Enforcer::new(fabric, host, policy)?;
        let (lists, wanted) = sync_channel::<Denylist>(1);
        let (tell, told) = channel();
        let mut devices =
            Devices { host: name.to_owned(), apply, known: BTreeMap::new(), silent: Silent::default(), refused: None };
        let work = move || {
            for list in wanted {
                devices.find();
                devices.tell(&list, &tell);
            }
        };
        let thread = std::thread::Builder::new().name("mrc-policy".into()).spawn(work);
        let thread = thread.context("cannot make a thread that talks to devices")?;
        let (lists, thread, start) = (Some(lists), Some(thread), Instant::now());
        Ok(Self { enforcer, apply, start, renewed: None, list: Denylist::default(), lists, told, thread })
    }

    /// Decides on what is faulty, and has the devices told when that changed or is to be renewed; what they said since the
    /// last time. Waits for none of them.
    pub fn act(&mut self, faulty: &[Finding]) -> Vec<Told> {
        let (list, decisions) = self.enforcer.decide(self.start.elapsed().as_secs_f64(), faulty);
        let dry_run = !self.apply;
        let mut told: Vec<Told> = decisions.into_iter().map(|decision| Told::Decision { decision, dry_run }).collect();
        let changed = list != self.list;
        self.list = list;
        if changed || self.renewed.is_none_or(|at| at.elapsed() >= RENEW) {
            // While the thread is busy with two lists, a newer one waits for the next call.
            let taken = self.lists.as_ref().is_some_and(|lists| lists.try_send(self.list.clone()).is_ok());
            self.renewed = taken.then(Instant::now);
        }
        told.extend(self.told.try_iter());
        told
    }
}

impl Devices {
    fn find(&mut self) {
        let control::Devices { found, refused, .. } = all_devices();
        if refused != self.refused {
            refused.iter().for_each(|why| log::warn!("devices are not asked: {why}"));
            self.refused = refused;
        }
        self.known.retain(|path, _| found.iter().any(|found| found.path == *path));
        self.silent.forget(&found);
        for path in found.into_iter().map(|found| found.path) {
            if self.known.contains_key(&path) || self.silent.has(&path) {
                continue;
            }
            let asked = Client::connect(&path).and_then(|mut client| {
                let counters = client.ask::<Counters>(&Request::Stats)?;
                Ok((client, counters))
            });
            match asked {
                Ok((client, counters)) => {
                    self.known.insert(path, (counters.host == self.host).then_some((client, None)));
                }
                // Those behind a silent one are for the next time: the leases of others must not end meanwhile. Another that
                // cannot be asked is tried again.
                Err(error) if self.silent.note(&path, &error) => return,
                Err(_) => {}
            }
        }
    }

    /// Gives every device the list; what is new about it is told.
    fn tell(&mut self, list: &Denylist, told: &Sender<Told>) {
        let because: Vec<String> = list.because.iter().map(|(what, rule)| format!("{what} ({rule})")).collect();
        let deny = Deny {
            by: BY.to_owned(),
            planes: list.planes.clone(),
            evs: list.evs.iter().map(|denied| denied.ev).collect(),
            seconds: LEASE_S,
            because: because.join(", "),
            dry_run: !self.apply,
        };
        let mut gone = Vec::new();
        for (path, device) in &mut self.known {
            let Some((client, last)) = device else { continue };
            if deny.planes.is_empty() && deny.evs.is_empty() && last.is_none() {
                continue;
            }
            let answer = match client.ask::<Effect>(&Request::Deny(deny.clone())) {
                Ok(effect) => Ok(effect),
                Err(ControlError::Refused(why)) => Err(why),
                Err(error) => {
                    self.silent.note(path, &error);
                    gone.push(path.clone());
                    continue;
                }
            };
            // How long a refusal still lasts is not worth a line.
            let same = |a: &Answer| a == &answer || (a.is_err() && answer.is_err());
            if !last.as_ref().is_some_and(same) {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let pid = name.split('-').next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
                let (effect, refused) = (answer.as_ref().ok().cloned(), answer.as_ref().err().cloned());
                let _ = told.send(Told::Device { event: "device", pid, effect, refused });
            }
            *last = Some(answer).filter(|_| !deny.planes.is_empty() || !deny.evs.is_empty());
        }
        gone.iter().for_each(|path| drop(self.known.remove(path)));
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        drop(self.lists.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        if !self.apply {
            return;
        }
        // Without an agent nobody watches the path. If a device does not hear it, its lease ends soon.
        for (client, last) in self.known.values_mut().flatten() {
            if last.is_some() {
                let _ = client.ask::<Effect>(&Request::Allow { by: BY.to_owned() });
            }
        }
    }
}

/// Arguments of `mrc mapper policy`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper policy > policy.toml                        the policy that holds without a file
  mrc mapper policy policy.toml                          check a file
  mrc mapper policy policy.toml --fault p0-hA:down=2%    what each host would deny then

Exit codes: 0 the file is right, 2 it is not.")]
pub struct Args {
    /// Policy file; none = the one that holds without a file
    file: Option<PathBuf>,
    /// A component and the share of packets that it loses; may be repeated
    #[arg(long = "fault", value_name = "COMPONENT=LOSS", value_parser = fault)]
    faults: Vec<Finding>,
    /// Planes of the fabric that --fault is about
    #[arg(long, default_value_t = 2)]
    planes: u8,
    /// Its T0 switches per plane
    #[arg(long, default_value_t = 2)]
    t0: u16,
    /// Its T1 switches per plane
    #[arg(long, default_value_t = 4)]
    t1: u16,
    /// Its hosts
    #[arg(long, default_value_t = 2)]
    hosts: u16,
}

/// Reads `p0-hA:down=2%`.
pub fn fault(text: &str) -> Result<Finding, String> {
    let wrong = || format!("`{text}` is no fault: write p0-hA:down=2%");
    let (name, loss) = text.split_once('=').ok_or_else(wrong)?;
    let component: Component = name.parse().map_err(|_| wrong())?;
    let loss = f64::from(mrc_lab::parse_ppm(loss)?) / 1e6;
    Ok(Finding { component, loss, evidence: f64::MAX, instead: Vec::new() })
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let policy = args.file.as_deref().map_or_else(|| Ok(Policy::default()), read)?;
    if args.faults.is_empty() {
        outln!("{}", toml::to_string(&policy)?.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let fabric = Fabric { planes: args.planes, leaves: args.t0, spines: args.t1, hosts: args.hosts };
    fabric.check().map_err(|error| usage(anyhow::Error::new(error)))?;
    if let Some(unknown) = args.faults.iter().find(|finding| !fabric.has(finding.component)) {
        return Err(usage(anyhow::anyhow!(
            "the fabric has no {}: give --planes, --t0, --t1 or --hosts",
            unknown.component
        )));
    }
    let denied = policy::apply(&fabric, &policy, &args.faults);
    if denied.is_empty() {
        errln!("mrc: no host would deny anything: no rule of the policy is about that part with that loss");
    }
    for (host, list) in denied {
        outln!(
            "{}",
            json!({ "host": host_name(host), "planes": list.planes, "evs": list.evs, "because": list.because })
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_their_loss() {
        let finding = fault("p0-hA:down=2%").unwrap();
        assert_eq!((finding.component.to_string().as_str(), finding.loss), ("p0-hA:down", 0.02));
        for wrong in ["", "p0-hA", "p0-hA=x", "q=1%"] {
            assert!(fault(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_policy_survives_its_file() {
        let text = toml::to_string(&Policy::default()).unwrap();
        assert_eq!(toml::from_str::<Policy>(&text).unwrap(), Policy::default());
    }
}
