//! Draws a scenario (topology x workload x fault x scheme x transport x parts) from random numbers or from bytes. Runs
//! it on one thread and on two, and checks what every run must keep. The test beside it and the fuzz target
//! `sim_scenario` use it.

use std::fmt::Write;
use std::path::Path;

use mrc_core::Rng;
use mrc_sim::run::{ClassCounts, Options, Outcome, RunEnd, run};
use mrc_sim::scenario::load_str;
use mrc_sim::scheme::SCHEMES;

/// Where choices come from.
pub(crate) enum Choices<'a> {
    #[allow(dead_code, reason = "the fuzz target has bytes")]
    Random(Rng),
    /// One or two bytes each; zero when they are at an end.
    #[allow(dead_code, reason = "the test has random numbers")]
    Bytes(&'a [u8]),
}

pub(crate) struct Draw<'a>(pub(crate) Choices<'a>);

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

    fn topology(&mut self) -> String {
        let (gbps, more) = (self.one(&["10", "100", "400"]), self.often(30));
        let mut text =
            format!("host_gbps = {gbps}\nfabric_gbps = {}\n", if more { self.one(&["25", "200"]) } else { gbps });
        let _ = writeln!(text, "switch_us = {}\ncut_through = {}", self.one(&["0", "0.5", "2"]), self.often(30));
        let planes = self.below(3) + 1;
        let body = match self.below(6) {
            0 => format!("shape = \"dumbbell\"\nplanes = {planes}\nhosts_per_t0 = {}\n", self.below(3) + 1),
            1 => format!("shape = \"fat-tree\"\nk = {}\nplanes = {planes}\n", [2, 4][self.below(2) as usize]),
            2 => format!(
                "shape = \"three-tier\"\npods = {}\nt0 = {}\nhosts_per_t0 = 2\nplanes = {planes}\nt1 = 2\nt2 = {}\nparallel = {}\n",
                self.below(3) + 1,
                self.below(2) + 1,
                2 * (self.below(2) + 1),
                self.below(2) + 1
            ),
            3 => self.graph(),
            4 => format!("t0 = {}\nhosts_per_t0 = 2\nt1 = 2\nparallel = 3\nplanes = {planes}\n", self.below(3) + 1),
            _ => format!(
                "t0 = {}\nhosts_per_t0 = {}\nt1 = {}\nplanes = {planes}\n",
                self.below(4) + 1,
                self.below(3) + 2,
                self.below(3) + 1
            ),
        };
        text + &body
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

    fn workload(&mut self) -> String {
        let bytes = self.one(&["1", "1000", "4096", "100000", "700000"]);
        let body = match self.below(10) {
            0 => format!("kind = \"permutation\"\nother_leaf = false\nbytes = {bytes}\nmessages = 2\n"),
            1 => format!("kind = \"incast\"\nbytes = {bytes}\nreply_bytes = 100\n"),
            2 => format!("kind = \"{}\"\nbytes = {bytes}\niterations = 2\n", self.one(&["all-reduce", "all-gather", "reduce-scatter"])),
            3 => format!("kind = \"all-to-all\"\nbytes = {bytes}\n"),
            4 => format!("kind = \"neighbours\"\nbytes = {bytes}\ncompute_us = 3\nskew_us = 2\n"),
            5 => format!(
                "kind = \"poisson\"\nflows = {}\nload = {}\nsizes = \"{}\"\n",
                self.below(40) + 1,
                self.one(&["0.1", "0.6", "1.5"]),
                self.one(&["hadoop", "alicloud-storage"])
            ),
            6 => "kind = \"poisson\"\nduration_us = 60\nwarm_up_us = 1\nload = 0.8\nsizes = [[64, 0.5], [20000, 1.0]]\nreply_bytes = 3000\n"
                .to_owned(),
            7 => format!("kind = \"{}\"\nbytes = {bytes}\nchannels = 2\niterations = 2\nskew_us = 1\n", self.one(&["tree-all-reduce", "broadcast"])),
            8 => format!("kind = \"hierarchical-all-reduce\"\nbytes = {bytes}\niterations = 2\n"),
            _ => format!("from = 0\nto = 1\nbytes = {bytes}\nmessages = 3\nbidirectional = true\n"),
        };
        format!("[[workload]]\n{body}")
    }

    fn fault(&mut self) -> String {
        let kind = self.one(&["link-down", "loss", "corruption", "jitter", "slow", "switch-down", "switch-silent"]);
        let mut text = format!("[[fault]]\nkind = \"{kind}\"\nat_us = {}\nrandom = 1\n", self.below(40));
        match kind {
            "loss" | "corruption" => text += "probability = 0.05\n",
            "jitter" => text += "jitter_us = 3\n",
            "slow" => text += "gbps = 1\n",
            _ => {}
        }
        let tiers = if kind.starts_with("switch") { ["t0", "t1"] } else { ["any", "host"] };
        let _ = writeln!(text, "tier = \"{}\"", self.one(&tiers));
        if self.often(70) {
            let _ = writeln!(text, "for_us = {}", self.below(60) + 1);
        }
        text
    }

    pub(crate) fn scenario(&mut self) -> String {
        let roce = self.often(40);
        let names: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        let mut text = "limit_us = 30000\nstall_us = 30000\n".to_owned();
        // Not all can be divided: that is an error of its own.
        let parts = self.below(6);
        if parts > 1 {
            let _ = writeln!(text, "partitions = {parts}");
        }
        let _ = write!(text, "[topology]\n{}", self.topology());
        if roce || self.often(50) {
            let _ = writeln!(text, "forwarding = \"{}\"", self.one(&names));
        }
        let connections = self.one(&["\"per-pair\"", "\"per-message\"", "3"]);
        let _ = writeln!(
            text,
            "[transport]\nkind = \"{}\"\nconnections = {connections}",
            if roce { "roce" } else { "mrc" }
        );
        if roce {
            let (recovery, cc) = (self.one(&["go-back-n", "selective-repeat"]), self.one(&["dcqcn", "none"]));
            let _ = writeln!(
                text,
                "[transport.roce]\nrecovery = \"{recovery}\"\ncc = \"{cc}\"\nqps = {}",
                self.below(2) + 1
            );
        } else {
            let (selector, cc) = (self.one(&["spray", "single", "oblivious"]), self.one(&["nscc", "fixed"]));
            let _ = writeln!(
                text,
                "[transport.mrc]\nselector = \"{selector}\"\ncc = \"{cc}\"\nqps = {}",
                self.below(2) + 1
            );
        }
        if self.often(40) {
            let _ = writeln!(text, "[queue]\ndata_bytes = {}", self.one(&["20000", "60000"]));
            let _ = writeln!(text, "{}", if roce { "pfc = false" } else { "trim = false" });
        }
        if self.often(20) {
            text += "[host]\njitter_us = 1\nreceive_gbps = 50\nreceive_buffer_bytes = 60000\n";
        }
        for _ in 0..=self.below(2) {
            text += &self.workload();
        }
        for _ in 0..self.below(3) {
            text += &self.fault();
        }
        text
    }
}

/// Runs a scenario twice; `None` where it cannot be, which its error says, else in how many parts it ran.
pub(crate) fn check(text: &str, seed: u64) -> Option<u32> {
    let built = match load_str("random.toml", text, Path::new("."), &[], Some(seed)) {
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
    assert!(done.iter().all(|row| row.slowdown.is_some_and(|slowdown| slowdown > 0.5)), "faster than an idle fabric");
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
