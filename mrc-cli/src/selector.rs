//! Path selectors on the command line, and names for paths.

use anyhow::Context as _;
use mrc_afxdp::device::PathBytes;
use mrc_core::CcProfileHandle;
use mrc_core::path::{
    EvEntry, EvIndex, FlowBenderConfig, FlowingJumpingConfig, HopperConfig, PlbConfig, RepsConfig, Selector,
};
use mrc_verbs_shim::QpAttr;
use mrc_verbs_shim::host::{HostFile, HostPeer};
use mrc_wire::{Ev, PortNum};

/// How to choose paths.
#[derive(Debug, Clone, clap::Args)]
pub struct PathArgs {
    /// How to choose the path of a packet; of several, separated by commas, each is measured in turn
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME[,NAME]")]
    pub selector: Vec<SelectorArg>,
    /// Path that single takes and that hopper, flow-bender and plb begin on: p1u2 is plane 1, uplink 2 of the own T0
    #[arg(long)]
    pub path: Option<String>,
    /// Round trip without load in microseconds, the measure of the selectors' thresholds and of --cc nscc; decides over the
    /// host file's `base_rtt`
    #[arg(long, value_name = "US", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub base_rtt: u64,
}

/// `--selector`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SelectorArg {
    /// Every packet on another path; those that are congested or broken are passed over
    Spray,
    /// One path, left for a better one when its round trip grows
    Hopper,
    /// One path, left for a random one when many packets are marked or lost
    #[value(alias = "flowbender")]
    FlowBender,
    /// One path, left for a random one after rounds of marks, earlier when idle
    Plb,
    /// Every packet on a path that an acknowledgement without mark came back from, else on a random one
    Reps,
    /// Eight paths, packets placed so that their loads (bandwidth times measured round trip) stay level
    FlowingJumping,
    /// Every packet on another path, whatever the network says
    Oblivious,
    /// One path for ever
    #[value(alias = "pinned")]
    Single,
}

impl SelectorArg {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spray => "spray",
            Self::Hopper => "hopper",
            Self::FlowBender => "flow-bender",
            Self::Plb => "plb",
            Self::Reps => "reps",
            Self::FlowingJumping => "flowing-jumping",
            Self::Oblivious => "oblivious",
            Self::Single => "single",
        }
    }

    /// The engine's selector; `first` is an index into the paths.
    fn selector(self, first: Option<u16>) -> Selector {
        let begin = first.map_or(EvIndex::NONE, EvIndex);
        match self {
            Self::Spray => Selector::Spray,
            Self::Hopper => Selector::Hopper(HopperConfig { first: begin, ..HopperConfig::DEFAULT }),
            Self::FlowBender => Selector::FlowBender(FlowBenderConfig { first: begin, ..FlowBenderConfig::DEFAULT }),
            Self::Plb => Selector::Plb(PlbConfig { first: begin, ..PlbConfig::DEFAULT }),
            Self::Reps => Selector::Reps(RepsConfig::DEFAULT),
            Self::FlowingJumping => Selector::FlowingJumping(FlowingJumpingConfig::DEFAULT),
            Self::Oblivious => Selector::Oblivious,
            Self::Single => Selector::Pinned(EvIndex(first.unwrap_or(0))),
        }
    }
}

impl PathArgs {
    /// The selectors to measure; spray unless told otherwise.
    pub fn selectors(&self) -> Vec<SelectorArg> {
        if self.selector.is_empty() { vec![SelectorArg::Spray] } else { self.selector.clone() }
    }

    /// What the arguments say of the queue pairs under `selector`, whose congestion-control profile is `cc`.
    ///
    /// # Errors
    /// No such path.
    pub fn tune(&self, selector: SelectorArg, paths: &Paths, cc: CcProfileHandle) -> anyhow::Result<Tune> {
        let first = self.path.as_deref().map(|name| paths.find(name)).transpose()?;
        let base_rtt_ns = self.base_rtt * 1_000;
        Ok(Tune { selector: selector.selector(first), base_rtt_ns, cc })
    }
}

/// What a selector needs of its queue pairs.
#[derive(Debug, Clone, Copy)]
pub struct Tune {
    selector: Selector,
    base_rtt_ns: u64,
    cc: CcProfileHandle,
}

impl Tune {
    /// Changes the attributes accordingly.
    pub fn apply(&self, attr: &mut QpAttr) {
        attr.rts.selector = self.selector;
        attr.rts.base_rtt_ns = self.base_rtt_ns;
        attr.rts.cc = Some(self.cc);
    }
}

/// The paths to a peer, in the order of the EV profile.
pub struct Paths {
    entries: Vec<EvEntry>,
}

impl Paths {
    /// All paths from `host` to `peer`.
    ///
    /// # Errors
    /// More uplinks than an EV can name.
    pub fn between(host: &HostFile, peer: &HostPeer) -> anyhow::Result<Self> {
        Ok(Self::new(host.paths_to(peer)?))
    }

    /// The paths of an EV profile.
    pub fn new(entries: Vec<EvEntry>) -> Self {
        Self { entries }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.entries.iter().map(HostFile::path_name).collect()
    }

    /// The name of path `index`; `?` for one that does not exist.
    pub fn name(&self, index: u16) -> String {
        self.entries.get(usize::from(index)).map_or_else(|| "?".to_owned(), HostFile::path_name)
    }

    /// The name of the path with this port and EV; `?` for one that does not exist.
    pub fn named(&self, port: PortNum, ev: Ev) -> String {
        let entry = self.entries.iter().find(|entry| entry.port == port && entry.ev == ev);
        entry.map_or_else(|| "?".to_owned(), HostFile::path_name)
    }

    fn find(&self, name: &str) -> anyhow::Result<u16> {
        let index = self.entries.iter().position(|entry| HostFile::path_name(entry) == name);
        let index = index
            .with_context(|| format!("no path `{name}`: the paths are {}", self.names().join(" ")))
            .map_err(crate::usage::usage)?;
        Ok(index as u16)
    }

    /// Bytes by path, in the order of the names.
    pub fn sort(&self, counted: &[PathBytes]) -> Vec<u64> {
        let bytes = |entry: &EvEntry| {
            counted.iter().find(|path| path.port == entry.port && path.ev == entry.ev).map_or(0, |path| path.bytes)
        };
        self.entries.iter().map(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use mrc_core::path::compact_profile;

    use super::*;

    fn paths() -> Paths {
        let mut entries = vec![EvEntry::new(Ev(0), PortNum::from_plane(0)); 6];
        compact_profile(&mut entries, 2, 3, 8).unwrap();
        Paths::new(entries)
    }

    #[test]
    fn paths_have_names_and_their_bytes_are_found() {
        let paths = paths();
        assert_eq!(paths.names(), ["p0u0", "p1u0", "p0u1", "p1u1", "p0u2", "p1u2"]);
        assert_eq!((paths.name(3), paths.name(6)), ("p1u1".into(), "?".into()));
        let counted = [(1, 0x102, 7), (0, 0x001, 5)];
        let counted =
            counted.map(|(plane, ev, bytes)| PathBytes { port: PortNum::from_plane(plane), ev: Ev(ev), bytes });
        assert_eq!(paths.sort(&counted), [0, 0, 5, 0, 0, 7]);
    }

    #[test]
    fn names_of_before_still_work() {
        use clap::ValueEnum as _;
        for (old, new) in [("flowbender", SelectorArg::FlowBender), ("pinned", SelectorArg::Single)] {
            assert_eq!(SelectorArg::from_str(old, false), Ok(new));
            assert_eq!(SelectorArg::from_str(new.name(), false), Ok(new));
        }
    }

    #[test]
    fn a_selector_begins_on_the_path_that_was_named() {
        let args = |path: Option<&str>| PathArgs { selector: Vec::new(), path: path.map(str::to_owned), base_rtt: 50 };
        let cc = CcProfileHandle::from_index(0);
        let of = |args: &PathArgs, name| args.tune(name, &paths(), cc).unwrap().selector;
        assert_eq!(args(None).selectors(), [SelectorArg::Spray]);
        assert_eq!(of(&args(None), SelectorArg::Single), Selector::Pinned(EvIndex(0)));
        assert_eq!(of(&args(Some("p1u1")), SelectorArg::Single), Selector::Pinned(EvIndex(3)));
        let begins = |name| match of(&args(Some("p0u2")), name) {
            Selector::Hopper(cfg) => cfg.first,
            Selector::FlowBender(cfg) => cfg.first,
            other => panic!("{other:?}"),
        };
        assert_eq!((begins(SelectorArg::Hopper), begins(SelectorArg::FlowBender)), (EvIndex(4), EvIndex(4)));
        let refused = args(Some("p2u0")).tune(SelectorArg::Spray, &paths(), cc).unwrap_err().to_string();
        assert!(refused.contains("p2u0") && refused.contains("p0u0 p1u0"), "{refused}");
    }
}
