//! Draws a scenario (topology x workload x fault x scheme x transport x parts) from random numbers or from bytes. Runs
//! it on one thread and on two, and checks what every run must keep. The test beside it and the fuzz target
//! `sim_scenario` use it.

use std::fmt::Write;
use std::path::Path;

use mrc_core::Rng;
use mrc_sim::run::{ClassCounts, Options, Outcome, RunEnd, run};
use mrc_sim::scenario::load_str;
use mrc_sim::scheme::SCHEMES;

/// The folder of the trace files, also seen from the fuzz target's crate.
const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mrc-sim/tests/traces");

/// Where choices come from.
pub(crate) enum Choices<'a> {
    #[allow(dead_code, reason = "the fuzz target has bytes")]
    Random(Rng),
    /// One or two bytes each; zero when they are at an end.
    #[allow(dead_code, reason = "the test has random numbers")]
    Bytes(&'a [u8]),
}

pub(crate) struct Draw<'a>(pub(crate) Choices<'a>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum FabricKind {
    LeafSpine,
    /// Three tiers, parallel links, or no spine at all.
    Other,
    Graph,
}

struct Fabric {
    text: String,
    kind: FabricKind,
}

const SELECTORS: [&str; 8] =
    ["spray", "single", "oblivious", "hopper", "flow-bender", "plb", "reps", "flowing-jumping"];

impl Draw<'_> {
    fn below(&mut self, most: u32) -> u32 {
        match &mut self.0 {
            Choices::Random(rng) => rng.below(most),
            Choices::Bytes(bytes) => {
                let (now, rest) = bytes.split_at(bytes.len().min(if most > 256 { 2 } else { 1 }));
                *bytes = rest;
                now.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)) % most
            }
        }
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u32) as usize]
    }

    fn often(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn topology(&mut self) -> Fabric {
        let (gbps, more) = (self.one(&["10", "100", "400"]), self.often(30));
        let mut text =
            format!("host_gbps = {gbps}\nfabric_gbps = {}\n", if more { self.one(&["25", "200"]) } else { gbps });
        let _ = writeln!(text, "switch_us = {}\ncut_through = {}", self.one(&["0", "0.5", "2"]), self.often(30));
        let planes = self.below(3) + 1;
        let mut kind = FabricKind::Other;
        let body = match self.below(8) {
            0 => format!("shape = \"dumbbell\"\nplanes = {planes}\nhosts_per_t0 = {}\n", self.below(3) + 1),
            1 => format!("shape = \"fat-tree\"\nk = {}\nplanes = {planes}\n", [2, 4][self.below(2) as usize]),
            2 => format!(
                "shape = \"three-tier\"\npods = {}\nt0 = {}\nhosts_per_t0 = 2\nplanes = {planes}\nt1 = 2\nt2 = {}\nparallel = {}\n",
                self.below(3) + 1,
                self.below(2) + 1,
                2 * (self.below(2) + 1),
                self.below(2) + 1
            ),
            3 => {
                kind = FabricKind::Graph;
                self.graph()
            }
            4 => format!("t0 = {}\nhosts_per_t0 = 2\nt1 = 2\nparallel = 3\nplanes = {planes}\n", self.below(3) + 1),
            _ => {
                kind = FabricKind::LeafSpine;
                let (t0, hosts, t1) = (self.below(4) + 1, self.below(3) + 2, self.below(3) + 1);
                format!("t0 = {t0}\nhosts_per_t0 = {hosts}\nt1 = {t1}\nplanes = {planes}\n")
            }
        };
        Fabric { text: text + &body, kind }
    }

    /// Most schemes that choose among spines know two tiers only; now and then one is asked for where it cannot be.
    fn forwarding(&mut self, kind: FabricKind) -> &'static str {
        let names: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        const ANYWHERE: [&str; 7] = ["srv6", "ecmp", "wcmp", "rps", "adaptive", "drill", "letflow"];
        match kind == FabricKind::LeafSpine || self.often(5) {
            true => names[self.below(names.len() as u32) as usize],
            false => self.one(&ANYWHERE),
        }
    }

    /// A random tree of switches with some more links, and hosts with one or two ports.
    fn graph(&mut self) -> String {
        let (switches, hosts) = (self.below(5) + 1, self.below(5) + 2);
        let mut pairs = Vec::new();
        for switch in 1..switches {
            pairs.push(format!("[\"s{}\", \"s{switch}\"]", self.below(switch)));
        }
        for _ in 0..self.below(4) {
            let (a, b) = (self.below(switches), self.below(switches));
            if a != b {
                pairs.push(format!("[\"s{a}\", \"s{b}\"]"));
            }
        }
        for host in 0..hosts {
            for _ in 0..=self.below(2) {
                pairs.push(format!("[\"h{host}\", \"s{}\"]", self.below(switches)));
            }
        }
        format!("shape = \"graph\"\nedge = [{{ between = [{}] }}]\n", pairs.join(", "))
    }

    fn workload(&mut self, kind: FabricKind) -> String {
        let bytes = self.one(&["1", "1000", "4096", "30000", "100000"]);
        let more = match self.below(4) {
            0 => "start_us = 3\nreply_bytes = 100\nreply_us = 2\n",
            1 => "messages = 2\ndepth = 1\n",
            _ => "",
        };
        let body = match self.below(14) {
            0 => format!("kind = \"permutation\"\nother_leaf = {}\nbytes = {bytes}\n{more}", self.often(50)),
            1 => format!("kind = \"incast\"\nbytes = {bytes}\nstagger_us = {}\n{more}", self.below(5)),
            2 => format!("kind = \"{}\"\nbytes = {bytes}\niterations = 2\n", self.one(&["all-reduce", "all-gather", "reduce-scatter"])),
            3 => format!("kind = \"all-to-all\"\nbytes = {bytes}\nconcurrency = {}\n", self.below(3) + 1),
            4 => format!("kind = \"all-to-all\"\nbytes = {bytes}\n"),
            5 => format!("kind = \"neighbours\"\nbytes = {bytes}\ncompute_us = 3\nskew_us = 2\n"),
            6 => format!(
                "kind = \"poisson\"\nflows = {}\nload = {}\nload_of = \"{}\"\nsizes = \"{}\"\n",
                self.below(30) + 1,
                self.one(&["0.1", "0.6", "1.5"]),
                self.one(&["host", "host", "uplink"]),
                self.one(&["hadoop", "alicloud-storage"])
            ),
            7 => "kind = \"poisson\"\nduration_us = 60\nwarm_up_us = 1\nload = 0.8\nsizes = [[64, 0.5], [20000, 1.0]]\nreply_bytes = 3000\n"
                .to_owned(),
            8 => format!("kind = \"{}\"\nbytes = {bytes}\nchannels = 2\niterations = 2\nskew_us = 1\n", self.one(&["tree-all-reduce", "broadcast"])),
            9 => format!("kind = \"hierarchical-all-reduce\"\nbytes = {bytes}\niterations = 2\n"),
            10 => format!(
                "kind = \"training-step\"\nbytes = {bytes}\niterations = 2\ncompute_us = {}\ncollective = \"{}\"\n",
                self.below(30),
                self.one(&["all-reduce", "all-to-all", "reduce-scatter"])
            ),
            // Ranks 0 to 3; a graph may have two hosts only.
            11 if kind != FabricKind::Graph => format!("kind = \"trace\"\nfile = \"{}\"\n", self.one(&["chain.goal", "short.csv"])),
            _ => format!("from = 0\nto = 1\nbytes = {bytes}\nbidirectional = {}\n{more}", self.often(50)),
        };
        format!("[[workload]]\n{body}")
    }

    fn fault(&mut self) -> String {
        const KINDS: [&str; 8] =
            ["link-down", "loss", "corruption", "jitter", "slow", "switch-down", "switch-silent", "transceiver"];
        let kind = self.one(&KINDS);
        let mut text = format!("[[fault]]\nkind = \"{kind}\"\nat_us = {}\nrandom = 1\n", self.below(40));
        match kind {
            "loss" if self.often(30) => text += "burst = [0.02, 0.2, 0.0, 0.7]\n",
            "loss" if self.often(20) => text += "probability = 1.0\nlonger_than = 600\n",
            "loss" | "corruption" => text += "probability = 0.05\n",
            "jitter" => text += "jitter_us = 3\n",
            "slow" => text += "gbps = 1\n",
            "transceiver" => text += "lanes = 1\n",
            _ => {}
        }
        let tiers: &[&str] = match kind {
            "switch-down" | "switch-silent" => &["t0", "t1", "t1"],
            "transceiver" => &["host", "fabric"],
            _ => &["any", "host", "any"],
        };
        let _ = writeln!(text, "tier = \"{}\"", self.one(tiers));
        match self.below(10) {
            0..=2 => {}
            3 => text += "for_us = 3\ntimes = 4\nevery_us = 11\n",
            4 => text += "for_us = 20\nwithin_us = 30\n",
            _ => {
                let _ = writeln!(text, "for_us = {}", self.below(60) + 1);
            }
        }
        text
    }

    fn roce(&mut self) -> String {
        let (recovery, cc) = (
            self.one(&["go-back-n", "selective-repeat"]),
            self.one(&["dcqcn", "none", "dcqcn-aggressive", "dcqcn-most-aggressive"]),
        );
        let qps = self.below(2) + 1;
        let mut text = format!("[transport.roce]\nrecovery = \"{recovery}\"\ncc = \"{cc}\"\nqps = {qps}\n");
        if recovery == "selective-repeat" && self.often(30) {
            text += "reorder_packets = 30\n";
        }
        if self.often(30) {
            text += "mtu = 1024\nack_every = 1\nretries = 3\nrto_us = 300\n";
        }
        if self.often(30) {
            let _ = writeln!(text, "selector = \"{}\"", self.one(&SELECTORS));
        }
        text
    }

    fn mrc(&mut self) -> String {
        let (selector, cc) = (self.one(&SELECTORS), self.one(&["nscc", "nscc", "fixed", "none"]));
        let qps = self.below(2) + 1;
        let mut text = format!("[transport.mrc]\nselector = \"{selector}\"\ncc = \"{cc}\"\nqps = {qps}\n");
        match self.below(8) {
            0 => text += "mtu = 1024\nactive_evs = 3\nbackup_evs = 2\nloss_streak = 2\n",
            1 => text += "reorder_delay_us = 6\ntail_probe_us = 6\nplane_lead = 1\n",
            2 => text += "linear_retries = 1\nexponential_retries = 2\nrto_us = 60\nkeepalive_us = 500\n",
            3 => text += "always_skip_after = 4\nskip_us = 10\nshare_bad_evs = true\n",
            4 => text += "relapse_backoff = true\nresurrect_probes = 2\nprobe_interval_us = 20\n",
            5 => text += "complete_on_sack = true\ntimestamps = false\nsend_queue = 1\n",
            _ => {}
        }
        text
    }

    /// Of the kind `line-rate`.
    fn params(&mut self) -> String {
        let (spray, rto) = (self.below(2), self.one(&["40", "320"]));
        format!(
            "[transport.params]\nspray = {spray}\nrto_us = {rto}\nretries = 5\nmtu = {}\n",
            self.one(&["1000", "4096"])
        )
    }

    fn queues(&mut self, roce: bool) -> String {
        let mut text = String::new();
        if self.often(40) {
            let _ = writeln!(text, "data_bytes = {}", self.one(&["20000", "60000"]));
            let _ = writeln!(text, "{}", if roce { "pfc = false" } else { "trim = false" });
        } else if roce && self.often(40) {
            // With IRN as well as with go-back-N.
            text += self.one(&["pfc = true\n", "pfc = true\npfc_xoff_bytes = 30000\n"]);
        } else if !roce && self.often(40) {
            let victim = self.one(&["arriving", "arriving-or-last", "arriving-or-any"]);
            let _ = writeln!(text, "trim_victim = \"{victim}\"\ntrim_bytes = 9000");
        }
        if self.often(20) {
            let _ = writeln!(text, "control_percent = {}\necn_last_hop = {}", self.below(50), self.often(50));
        }
        if self.often(10) {
            text += "ecn = false\n";
        }
        text
    }

    /// Two jobs that speak different transports, or one with other keys: every host of the fabric may be in one, in the other, or
    /// in none.
    fn jobs(&mut self, other: &str) -> String {
        let placement = self.one(&["packed", "spread", "random"]);
        let transport = match self.below(4) {
            3 => format!(
                "[job.transport]\nkind = \"line-rate\"\n{}",
                self.params().replace("[transport", "[job.transport")
            ),
            0 => format!("transport = \"{other}\"\n"),
            1 => format!("[job.transport]\nkind = \"mrc\"\n{}", self.mrc().replace("[transport", "[job.transport")),
            _ => format!("[job.transport]\nkind = \"roce\"\n{}", self.roce().replace("[transport", "[job.transport")),
        };
        format!(
            "[[job]]\nname = \"a\"\nhosts = 2\nplacement = \"{placement}\"\n[[job]]\nname = \"b\"\nhosts = 2\n\
             {transport}[[workload]]\njob = \"b\"\nkind = \"all-to-all\"\nbytes = 50000\n\
             [[workload]]\njob = \"a\"\nkind = \"neighbours\"\nbytes = 30000\n"
        )
    }

    pub(crate) fn scenario(&mut self) -> String {
        let (roce, mixed) = (self.often(40), self.often(8));
        // In place of RoCE: it wants the same of switches.
        let named = roce && self.often(20);
        let mut text = "limit_us = 8000\nstall_us = 8000\n".to_owned();
        // Not all can be divided: that is an error of its own.
        let parts = self.below(6);
        if parts > 1 {
            let _ = writeln!(text, "partitions = {parts}");
        }
        let Fabric { text: topology, kind } = self.topology();
        let _ = write!(text, "[topology]\n{topology}");
        if mixed {
            text += "forwarding = \"ecmp\"\n";
        } else if roce || self.often(50) {
            let _ = writeln!(text, "forwarding = \"{}\"", self.forwarding(kind));
        }
        let connections = self.one(&["\"per-pair\"", "\"per-message\"", "3"]);
        let speaks = if named { "line-rate" } else { ["mrc", "roce"][usize::from(roce)] };
        let _ = writeln!(text, "[transport]\nkind = \"{speaks}\"\nconnections = {connections}");
        text += &if named { self.params() } else { [Self::mrc, Self::roce][usize::from(roce)](self) };
        let queues = if mixed { "pfc = false\n".to_owned() } else { self.queues(roce && !named) };
        let _ = write!(text, "[queue]\n{queues}");
        if kind != FabricKind::Graph && self.often(15) {
            text += "[[link]]\nname = [\"p0-hA\"]\ngbps = 25\ndelay_us = 2\n";
        }
        if self.often(20) {
            text += "[host]\njitter_us = 1\nreceive_gbps = 50\nreceive_buffer_bytes = 60000\n";
        }
        if mixed {
            text += &self.jobs(if roce { "mrc" } else { "roce" });
        } else {
            for _ in 0..=self.below(2) {
                text += &self.workload(kind);
            }
        }
        for _ in 0..self.below(3) {
            text += &self.fault();
        }
        text
    }
}

/// Runs a scenario twice; `None` where it cannot be, which its error says, else in how many parts it ran.
pub(crate) fn check(text: &str, seed: u64) -> Option<u32> {
    let built = match load_str("random.toml", text, Path::new(TRACES), &[], Some(seed)) {
        Ok(built) => built,
        Err(error) => {
            assert!(!error.key.is_empty() && !error.message.is_empty(), "{error}");
            return None;
        }
    };
    let options = Options { messages: true, links: true, threads: 2, ..Options::default() };
    let Outcome { results, messages, .. } = run(&built, &options, &mut |_| {}).expect("a run");
    for ClassCounts { sent, trimmed_in, delivered, consumed, dropped, trimmed_out, in_fabric } in
        [results.packets.data, results.packets.control]
    {
        assert_eq!(
            sent + trimmed_in,
            delivered + consumed + dropped + trimmed_out + in_fabric,
            "{:?}",
            results.packets
        );
    }
    assert_eq!(results.misplaced, 0, "bytes arrive once and where they belong");
    let all = messages.iter().filter(|row| !row.failed);
    let (done, open): (Vec<_>, Vec<_>) = all.partition(|row| row.completed_us.is_some());
    assert_eq!(results.completed, done.len() as u64);
    assert_eq!(results.flows, messages.len() as u64);
    assert!(done.iter().all(|row| row.missing_bytes == 0 && row.delivered_us <= row.completed_us));
    // No more than what a division loses.
    let early = done.iter().find(|row| row.slowdown.is_none_or(|slowdown| slowdown < 1.0 - 1e-9));
    assert!(early.is_none(), "earlier than on an idle fabric: {early:?}");
    match results.ended {
        RunEnd::Completed => assert!(open.is_empty() && results.failed == 0),
        RunEnd::Failed => assert!(results.failed > 0),
        RunEnd::Limit | RunEnd::Stalled => assert!(!open.is_empty() && results.diagnosis.is_some()),
        ended => panic!("{ended:?}"),
    }
    let again = run(&built, &Options::default(), &mut |_| {}).expect("a run").results;
    assert_eq!((&again.digest, &again.fabric_digest), (&results.digest, &results.fabric_digest), "on one thread");
    assert_eq!((again.events, again.end_us), (results.events, results.end_us), "on one thread");
    Some(results.parts.map_or(1, |parts| parts.parts))
}
