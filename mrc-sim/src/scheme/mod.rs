//! Switch schemes: how switches choose the port of a packet. One file per scheme; [`SCHEMES`] registers them by name, and
//! nothing else knows them. `docs/extend.md` writes one.

mod adaptive;
mod conga;
mod conweave;
mod drill;
mod ecmp;
#[cfg(test)]
mod golden;
pub mod ip;
mod leaf_spine;
mod letflow;
mod reunion;
mod round_robin;
mod rps;
mod sketch;
mod srv6;
mod stev;
mod wcmp;

/// The examples of `docs/extend.md`, as files of this folder.
#[cfg(test)]
#[path = "../../tests/extend/counting.rs"]
mod counting_example;
#[cfg(test)]
#[path = "../../tests/extend/spread.rs"]
mod spread_example;

use crate::fabric::{NoForward, Packet, PortId, Scheme, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, Way};

pub(crate) use srv6::of_graph as srv6_of_graph;

/// All schemes, by name.
pub static SCHEMES: &[&SchemeInfo] = &[
    &srv6::INFO,
    &stev::INFO,
    &ecmp::INFO,
    &wcmp::INFO,
    &round_robin::INFO,
    &rps::INFO,
    &adaptive::INFO,
    &drill::INFO,
    &letflow::INFO,
    &conga::INFO,
    &conweave::INFO,
    &reunion::INFO,
];

/// SRv6 with micro-SIDs, the default.
pub const SRV6: Scheme = Scheme::new(&srv6::INFO);
/// Hashing, the default of transports whose packets name no path.
pub const ECMP: Scheme = Scheme::new(&ecmp::INFO);

/// The scheme of this name.
pub fn named(name: &str) -> Option<Scheme> {
    SCHEMES.iter().find(|info| info.name == name).map(|info| Scheme::new(info))
}

/// Chooses among uplinks; the way down is given. Makes a whole scheme with [`ByUplink`].
pub trait UplinkChoice: Send {
    /// One of [`SwitchCtx::uplinks`], of which there is at least one.
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, ingress: PortId, packet: &mut Packet) -> PortId;

    /// What [`UplinkChoice::choose`] will return, see [`SwitchScheme::foresee`].
    fn foresee(&self, _ctx: &SwitchCtx<'_>, _packet: &Packet) -> Option<PortId> {
        None
    }

    /// The carrier of a port came or went.
    fn on_link(&mut self) {}

    /// See [`SwitchScheme::state_bytes`].
    fn state_bytes(&self) -> usize {
        0
    }
}

/// IP forwarding by the address of the receiving host, with a choice where there is one.
#[derive(Debug)]
pub struct ByUplink<T>(pub T);

impl<T: UplinkChoice> SwitchScheme for ByUplink<T> {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, ingress: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let host = ip::next_hop(packet)?;
        match ctx.way(host).ok_or(NoForward::NoRoute)? {
            Way::Down(port) => Ok(Verdict::To(port)),
            Way::Up if ctx.uplinks().is_empty() => Err(NoForward::NoRoute),
            Way::Up => Ok(Verdict::To(self.0.choose(ctx, ingress, packet))),
        }
    }

    fn foresee(&self, ctx: &SwitchCtx<'_>, packet: &Packet) -> Option<PortId> {
        match ctx.way(ip::host_of(packet))? {
            Way::Down(port) => Some(port),
            Way::Up => self.0.foresee(ctx, packet),
        }
    }

    fn on_link(&mut self, _: &mut SwitchCtx<'_>, _: PortId, _: bool) {
        self.0.on_link();
    }

    fn state_bytes(&self) -> usize {
        self.0.state_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{MAX_PARAMS, ParamError};

    #[test]
    fn what_is_written_outside_moves_in() {
        for info in [&counting_example::COUNTING, &spread_example::SPREAD] {
            assert_eq!(Scheme::new(info).info().name, info.name);
        }
    }

    #[test]
    fn names_and_parameters_are_told_apart() {
        let mut names: Vec<_> = SCHEMES.iter().map(|info| info.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCHEMES.len());
        for info in SCHEMES {
            assert_eq!(named(info.name), Some(Scheme::new(info)));
            assert!(info.params.len() <= MAX_PARAMS && !info.about.is_empty(), "{}", info.name);
            for param in info.params {
                assert_eq!(Scheme::new(info).with(param.name, param.default), Ok(Scheme::new(info)), "{}", info.name);
            }
        }
        assert_eq!(named("magic"), None);
        assert!(named("letflow").unwrap().with("gap_us", -1.0).is_err());
    }

    /// What is counted has no fraction: a program that cut it off would run something else than the scenario says.
    #[test]
    fn counts_have_no_fraction() {
        let counts: Vec<_> = SCHEMES
            .iter()
            .flat_map(|info| info.params.iter().filter(|param| param.whole).map(|param| (*info, param)))
            .collect();
        let names: Vec<_> = counts.iter().map(|(_, param)| param.name).collect();
        assert_eq!(names, ["samples", "bits", "window", "tolerance", "rows", "columns"]);
        for (info, param) in counts {
            let (least, most) = param.range;
            let refused = Err(ParamError::Whole(least, most));
            for value in [least + 0.5, least - 1.0, most + 1.0, f64::NAN] {
                assert_eq!(Scheme::new(info).with(param.name, value), refused, "{} = {value}", param.name);
            }
        }
        assert!(named("letflow").unwrap().with("gap_us", 1.5).is_ok(), "times have one");
    }
}
