//! The address plan of a host file: how plane, uplink and the `template` of a peer make an outer destination.
//!
//! A template is a 32-bit block and up to six micro-SIDs of 16 bits, first hop first, with zeros behind them. It is the
//! destination for plane 0 and uplink 0. There is one rule:
//!
//! * the number of the plane goes into bits 11 to 8 of every micro-SID;
//! * the number of the uplink goes into bits 7 to 0 of the second micro-SID, the T1 switch, if `uplinks` is not 0.
//!
//! The host's own SIDs follow the same rule, since its peers compute them. [`check_peer`] and [`check_sid`] refuse files of
//! another plan: packets would go to addresses that no host has.

use std::net::Ipv6Addr;

use mrc_wire::srv6::{CopyOp, EvTemplate, TemplateError};

use super::{HostPeer, HostPlane};

/// EV bits: plane in [11:8], T0 uplink in [7:0].
pub(super) const PLANE_LSB: u8 = 8;

/// Bits of the locator block.
const BLOCK: u8 = 32;
/// Bits of a micro-SID that hold the plane, and the second one's that hold the uplink.
const PLANE_MASK: u16 = 0x0f00;
const UPLINK_MASK: u16 = 0x00ff;
/// Micro-SIDs behind the block.
const MOST: usize = 6;

/// The micro-SIDs of an address, up to the first zero.
fn micro_sids(address: Ipv6Addr) -> impl Iterator<Item = u16> {
    address.segments().into_iter().skip(2).take_while(|&usid| usid != 0)
}

fn block(address: Ipv6Addr) -> Ipv6Addr {
    let [high, low, ..] = address.segments();
    Ipv6Addr::new(high, low, 0, 0, 0, 0, 0, 0)
}

/// An address of this block and these micro-SIDs; `None` when they are too many.
fn address(block: Ipv6Addr, usids: impl IntoIterator<Item = u16>) -> Option<Ipv6Addr> {
    let mut segments = block.segments();
    let mut places = segments.iter_mut().skip(2);
    for usid in usids {
        *places.next()? = usid;
    }
    Some(segments.into())
}

/// The rule as the engine applies it.
pub(super) fn template(peer: &HostPeer) -> Result<EvTemplate, TemplateError> {
    let base = peer.template.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let plane = |usid: usize| CopyOp { ev_lsb: PLANE_LSB, width: 4, dst_msb_offset: BLOCK + 16 * usid as u8 + 4 };
    let mut ops: Vec<CopyOp> = (0..micro_sids(base).count()).map(plane).collect();
    if peer.uplinks != 0 {
        ops.push(CopyOp { ev_lsb: 0, width: 8, dst_msb_offset: BLOCK + 16 + 8 });
    }
    EvTemplate::new(base.octets(), &ops)
}

/// Whether a peer's template and uplinks fit the rule; the key and what is wrong if not.
pub(super) fn check_peer(peer: &HostPeer, planes: &[HostPlane]) -> Result<(), (&'static str, String)> {
    let HostPeer { template, uplinks, .. } = peer;
    let base = match (template, planes.first().and_then(|plane| plane.sid)) {
        (Some(base), Some(_)) => base,
        (None, None) if (1..=256).contains(uplinks) => return Ok(()),
        (None, None) => return Err(("uplinks", format!("{uplinks}: without SIDs 1 to 256, the EVs per plane"))),
        (None, Some(_)) => {
            return Err(("template", "the planes have SIDs: a template says how packets get there".into()));
        }
        (Some(base), None) => return Err(("template", format!("{base}: needs a `sid` and an `addr` for each plane"))),
    };
    let usids: Vec<u16> = micro_sids(*base).collect();
    if usids.is_empty() || address(block(*base), usids.iter().copied()) != Some(*base) {
        let why = format!(
            "{base}: a 32-bit block and 1 to {MOST} micro-SIDs of 16 bits, then zeros, e.g. fcbb:bb00:1000:2000:1001:3001::"
        );
        return Err(("template", why));
    }
    if *uplinks > 256 {
        return Err(("uplinks", format!("{uplinks}: at most 256, an EV has 8 bits for them")));
    }
    if *uplinks > 0 && usids.len() < 4 {
        let why = format!(
            "{uplinks}: uplinks need four micro-SIDs in `template` (own T0, T1, peer's T0, peer), {base} has {}; 0 is right \
             under one T0 or on a direct link",
            usids.len()
        );
        return Err(("uplinks", why));
    }
    if let Some(usid) = usids.iter().find(|&usid| usid & PLANE_MASK != 0) {
        let why = format!(
            "{base}: micro-SID {usid:04x} is not of plane 0; bits 11 to 8 of each micro-SID are the plane's number and must \
             be 0 here"
        );
        return Err(("template", why));
    }
    if let Some(usid) = usids.get(1).filter(|&usid| *uplinks > 0 && usid & UPLINK_MASK != 0) {
        let why = format!(
            "{base}: micro-SID {usid:04x} is not of uplink 0; bits 7 to 0 of the second micro-SID are the uplink's number and \
             must be 0 here"
        );
        return Err(("template", why));
    }
    match planes.first().and_then(|plane| plane.sid) {
        Some(own) if block(own) != block(*base) => {
            let why = format!(
                "{base} is outside the block of this host's SIDs, {}/{BLOCK}: all of one fabric share a block",
                block(own)
            );
            Err(("template", why))
        }
        _ => Ok(()),
    }
}

/// Whether the SID of plane `index` is the one that peers compute; what is wrong if not.
pub(super) fn check_sid(planes: &[HostPlane], index: usize) -> Result<(), String> {
    let (Some(first), Some(plane)) = (planes.first(), planes.get(index)) else { return Ok(()) };
    let (first, sid) = match (first.sid, plane.sid, plane.addr) {
        (Some(first), Some(sid), Some(_)) => (first, sid),
        (None, None, _) => return Ok(()),
        (_, Some(sid), None) => return Err(format!("{sid}: a plane with a SID needs `addr`, the outer source")),
        _ => return Err("either all planes have a SID or none has".into()),
    };
    let own: Vec<u16> = micro_sids(first).collect();
    if own.len() != 1 || own[0] & PLANE_MASK != 0 || address(block(first), own.iter().copied()) != Some(first) {
        return Err(format!(
            "{}: the SID on plane 0 is a 32-bit block and one micro-SID whose bits 11 to 8 are 0, then zeros, e.g. \
             fcbb:bb00:3001::",
            first
        ));
    }
    match address(block(first), [own[0] | (index as u16) << 8]) {
        Some(computed) if computed != sid => Err(format!(
            "{}: peers send to {computed} on plane {index}, which is the SID of plane 0 with {index} in bits 11 to 8 of the \
             micro-SID; other address plans are not supported",
            sid
        )),
        _ => Ok(()),
    }
}

/// From a destination through its switches up to the last one and back to `own`.
pub(super) fn and_back(there: Ipv6Addr, own: Ipv6Addr) -> Option<Ipv6Addr> {
    let usids: Vec<u16> = micro_sids(there).collect();
    let (_, switches) = usids.split_last()?;
    let (last, before) = switches.split_last()?;
    let way = before.iter().chain([last]).chain(before.iter().rev()).copied().chain(micro_sids(own));
    address(block(there), way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(template: &str, uplinks: u16) -> HostPeer {
        HostPeer {
            name: "hB".into(),
            gid: Ipv6Addr::LOCALHOST,
            ipv4: None,
            template: Some(template.parse().unwrap()),
            addrs: Vec::new(),
            uplinks,
        }
    }

    fn plane(sid: &str) -> HostPlane {
        let sid: Ipv6Addr = sid.parse().unwrap();
        HostPlane { interface: "p".into(), sid: Some(sid), addr: Some(sid), next_hop: String::new() }
    }

    fn destination(peer: &HostPeer, ev: u32) -> String {
        Ipv6Addr::from(template(peer).unwrap().apply(mrc_wire::Ev(ev))).to_string()
    }

    #[test]
    fn the_template_puts_plane_and_uplink_where_the_switches_look() {
        assert_eq!(destination(&peer("fcbb:bb00:1000:2000:1001:3001::", 4), 0x103), "fcbb:bb00:1100:2103:1101:3101::");
        assert_eq!(destination(&peer("fcbb:bb00:1000:3001::", 0), 0x100), "fcbb:bb00:1100:3101::");
        assert_eq!(destination(&peer("fcbb:bb00:3001::", 0), 0x100), "fcbb:bb00:3101::");
    }

    #[test]
    fn a_template_of_another_plan_is_refused() {
        let planes = [plane("fcbb:bb00:3000::")];
        for (template, uplinks, key, want) in [
            ("fcbb:bb00:1100:2000:1001:3001::", 4, "template", "micro-SID 1100 is not of plane 0"),
            ("fcbb:bb00:1000:2005:1001:3001::", 4, "template", "micro-SID 2005 is not of uplink 0"),
            ("fcbb:bb00:1000:0:1001:3001::", 0, "template", "then zeros"),
            ("fcbb:bb00::", 0, "template", "1 to 6 micro-SIDs"),
            ("fcbb:bb00:3001::", 4, "uplinks", "uplinks need four micro-SIDs"),
            ("fcbb:bb00:1000:2000:1001:3001::", 257, "uplinks", "at most 256"),
            ("fd00:1:1000:2000:1001:3001::", 4, "template", "outside the block of this host's SIDs, fcbb:bb00::/32"),
        ] {
            let (found, why) = check_peer(&peer(template, uplinks), &planes).unwrap_err();
            assert!(found == key && why.contains(want), "{template}: `{found}`: {why}");
        }
        for (template, uplinks) in [("fcbb:bb00:1000:2000:1001:3001::", 256), ("fcbb:bb00:3001::", 0)] {
            check_peer(&peer(template, uplinks), &planes).unwrap();
        }
    }

    #[test]
    fn a_sid_that_peers_cannot_compute_is_refused() {
        let plan = |second| [plane("fcbb:bb00:3002::"), plane(second)];
        assert_eq!(check_sid(&plan("fcbb:bb00:3102::"), 1), Ok(()));
        for wrong in ["fcbb:bb01:3002::", "fcbb:bb00:3202::", "fcbb:bb00:3103::", "fcbb:bb00:3102::1"] {
            let why = check_sid(&plan(wrong), 1).unwrap_err();
            assert!(why.contains("peers send to fcbb:bb00:3102:: on plane 1"), "{why}");
        }
        for wrong in ["fcbb:bb00:3102::", "fcbb:bb00:3002:1::", "fcbb:bb00::", "fd00::1"] {
            assert!(check_sid(&[plane(wrong)], 0).unwrap_err().contains("the SID on plane 0"), "{wrong}");
        }
    }

    #[test]
    fn planes_and_peers_have_an_outer_header_or_none_of_them() {
        let bare = HostPlane { interface: "p".into(), sid: None, addr: None, next_hop: String::new() };
        let plain = |uplinks| HostPeer { template: None, ..peer("fcbb:bb00:3001::", uplinks) };
        assert_eq!(check_sid(&[bare.clone(), bare.clone()], 1), Ok(()));
        assert_eq!(check_peer(&plain(8), std::slice::from_ref(&bare)), Ok(()));
        assert_eq!(check_peer(&plain(0), std::slice::from_ref(&bare)).unwrap_err().0, "uplinks");
        assert_eq!(check_peer(&plain(8), &[plane("fcbb:bb00:3000::")]).unwrap_err().0, "template");
        assert_eq!(check_peer(&peer("fcbb:bb00:3001::", 0), std::slice::from_ref(&bare)).unwrap_err().0, "template");
        let mixed = [plane("fcbb:bb00:3000::"), bare];
        assert_eq!(check_sid(&mixed, 1).unwrap_err(), "either all planes have a SID or none has");
    }

    #[test]
    fn a_packet_comes_back_from_the_last_switch() {
        let back = |there: &str| {
            and_back(there.parse().unwrap(), "fcbb:bb00:3100::".parse().unwrap()).map(|address| address.to_string())
        };
        assert_eq!(back("fcbb:bb00:1100:2103:1101:3101::").as_deref(), Some("fcbb:bb00:1100:2103:1101:2103:1100:3100"));
        assert_eq!(back("fcbb:bb00:1100:3101::").as_deref(), Some("fcbb:bb00:1100:3100::"));
        assert_eq!(back("fcbb:bb00:3101::"), None);
        assert_eq!(back("fcbb:bb00:1:2:3:4:5:6"), None);
    }
}
