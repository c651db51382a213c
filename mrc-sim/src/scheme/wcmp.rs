//! WCMP (Zhou et al., EuroSys 2014), as far as one switch sees it: ECMP with shares in proportion to the uplinks' rates.

use super::{ByUplink, UplinkChoice, ip};
use crate::fabric::{Packet, PathNames, PortId, SchemeInfo, SwitchCtx};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "wcmp",
    about: "As `ecmp`, with shares in proportion to the rates of the uplinks.",
    paths: PathNames::Entropy,
    params: &[],
    check: None,
    build: |site, _| Box::new(ByUplink(Wcmp { salt: site.salt })),
};

struct Wcmp {
    salt: u64,
}

impl UplinkChoice for Wcmp {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        let all: u64 = uplinks.iter().map(|&port| ctx.rate_bps(port)).sum();
        let hash = ip::mix(ip::flow(packet) ^ self.salt) >> 32;
        let mut left = ((u128::from(hash) * u128::from(all)) >> 32) as u64;
        for &port in uplinks {
            match left.checked_sub(ctx.rate_bps(port)) {
                Some(rest) => left = rest,
                None => return port,
            }
        }
        uplinks[uplinks.len() - 1]
    }
}
