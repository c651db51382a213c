//! Names and addresses of the fabric: micro-SIDs, Ethernet and inner IPv6 addresses, the compact EV.
//!
//! uSID = `role[15:12] plane[11:8] index[7:0]`, role 1 = T0, 2 = T1, 3 = host; every node answers to `block:uSID::/48`.
//! T0s from 256, 512 and 768 on have roles 4, 5 and 6, so that a plane has up to 1024.
//! The path host A -> T0 a -> T1 t -> T0 b -> host B is the destination `block:1Paa:2Ptt:1Pbb:3Phh::`.

use mrc_wire::srv6::{self, CopyOp};

/// The locator block of the lab and the simulator, `fcbb:bb00::/32`.
pub const DEFAULT_BLOCK: u32 = 0xfcbb_bb00;

/// Most leaves of a plane.
pub const MAX_T0: u16 = 1024;

const ROLE_T0: u16 = 1 << 12;
const ROLE_T1: u16 = 2 << 12;
const ROLE_HOST: u16 = 3 << 12;

/// Addressing within one locator block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsidPlan {
    /// Upper 32 bits of every SID.
    pub block: u32,
}

impl Default for UsidPlan {
    fn default() -> Self {
        Self { block: DEFAULT_BLOCK }
    }
}

impl UsidPlan {
    /// uSID of leaf `index` of `plane`, below [`MAX_T0`].
    pub const fn t0(self, plane: u8, index: u16) -> u16 {
        let role = if index < 256 { ROLE_T0 } else { ROLE_HOST + (index >> 8 << 12) };
        usid(role, plane, index as u8)
    }

    /// uSID of spine `index` of `plane`.
    pub const fn t1(self, plane: u8, index: u8) -> u16 {
        usid(ROLE_T1, plane, index)
    }

    /// uSID of a host port on `plane`; `index` counts hosts, or the downlinks of a T0 where there are more than 256 hosts.
    pub const fn host(self, plane: u8, index: u8) -> u16 {
        usid(ROLE_HOST, plane, index)
    }

    /// The destination that visits `usids` in this order.
    pub fn container(self, usids: &[u16]) -> [u8; 16] {
        srv6::container(self.block, usids)
    }

    /// The SID of one node, `block:uSID::`, which is also the outer source address of a host port.
    pub fn sid(self, usid: u16) -> [u8; 16] {
        self.container(&[usid])
    }

    /// The destination template for a host below T0 `to_t0`, as seen from a host below T0 `from_t0`, with plane and T1
    /// left zero; [`UsidPlan::copy_ops`] fills them in from the EV.
    //= HOST-004, MAP-001
    pub fn template(self, from_t0: u16, to_t0: u16, host: u8) -> [u8; 16] {
        //= MAP-004
        if from_t0 == to_t0 {
            return self.container(&[self.t0(0, to_t0), self.host(0, host)]);
        }
        self.container(&[self.t0(0, from_t0), self.t1(0, 0), self.t0(0, to_t0), self.host(0, host)])
    }

    /// How the compact EV (plane in `EV[11:8]`, T1 index in `EV[7:0]`) enters the template of the same arguments.
    pub fn copy_ops(self, from_t0: u16, to_t0: u16) -> &'static [CopyOp] {
        const SPINE: CopyOp = CopyOp { ev_lsb: 0, width: 8, dst_msb_offset: 32 + 16 + 8 };
        const SAME: &[CopyOp] = &[plane(0), plane(1)];
        const ACROSS: &[CopyOp] = &[plane(0), plane(1), plane(2), plane(3), SPINE];
        if from_t0 == to_t0 { SAME } else { ACROSS }
    }

    /// The same across a dumbbell, whose paths have no T1.
    pub fn dumbbell_ops(self) -> &'static [CopyOp] {
        const OPS: &[CopyOp] = &[plane(0), plane(1), plane(2)];
        OPS
    }

    /// The compact EV of a path: its plane and its T1.
    pub const fn ev(self, plane: u8, t1: u8) -> u32 {
        (plane as u32) << 8 | t1 as u32
    }
}

/// The EV's plane into the uSID of this position.
const fn plane(usid: u8) -> CopyOp {
    CopyOp { ev_lsb: 8, width: 4, dst_msb_offset: 32 + 16 * usid + 4 }
}

const fn usid(role: u16, plane: u8, index: u8) -> u16 {
    role | (plane as u16 & 0xf) << 8 | index as u16
}

/// Inner IPv6 address of `host`: one per host, the same on all planes.
pub fn gid(host: u32) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..6].copy_from_slice(&[0xfd, 0x6d, 0x72, 0x63, 0, 0]);
    gid[12..].copy_from_slice(&(host + 1).to_be_bytes());
    gid
}

/// The host that sent a packet with this header, from Ethernet on: by the source of its inner IPv6 header.
pub fn sender(head: &[u8]) -> Option<u32> {
    const NEXT_HEADER: usize = 14 + 6;
    const IPV6: u8 = 41;
    let at = if head.get(NEXT_HEADER) == Some(&IPV6) { 14 + 40 } else { 14 };
    let source = head.get(at + 8..)?.first_chunk::<16>()?;
    let host = u32::from_be_bytes(*source.last_chunk()?).checked_sub(1)?;
    (gid(host) == *source).then_some(host)
}

/// Locally administered Ethernet address of a port of a host.
pub fn host_mac(plane: u8, host: u32) -> [u8; 6] {
    let [_, a, b, c] = host.to_be_bytes();
    [0x02, 0x10 | plane & 0xf, 0x30, a, b, c]
}

/// Locally administered Ethernet address of the T0 port that faces `host`.
pub fn t0_mac(plane: u8, host: u32) -> [u8; 6] {
    let [_, a, b, c] = host.to_be_bytes();
    [0x02, 0x10 | plane & 0xf, 0x10, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_wire::Ev;
    use mrc_wire::srv6::EvTemplate;

    //= HOST-004, MAP-001 test
    #[test]
    fn the_template_writes_the_path_of_the_ev() {
        let plan = UsidPlan::default();
        let template = EvTemplate::new(plan.template(1, 2, 7), plan.copy_ops(1, 2)).unwrap();
        let path = plan.container(&[plan.t0(3, 1), plan.t1(3, 0x2a), plan.t0(3, 2), plan.host(3, 7)]);
        assert_eq!(template.apply(Ev(plan.ev(3, 0x2a))), path);
        assert_eq!(path, [0xfc, 0xbb, 0xbb, 0, 0x13, 1, 0x23, 0x2a, 0x13, 2, 0x33, 7, 0, 0, 0, 0]);
    }

    #[test]
    fn the_sender_stands_in_the_inner_header() {
        let plain = [&[0; 14 + 8][..], &gid(7), &gid(8)].concat();
        assert_eq!(sender(&plain), Some(7));
        let mut outer = [0; 14 + 40];
        outer[20] = 41;
        assert_eq!(sender(&[&outer, &plain[14..]].concat()), Some(7));
        for cut in 0..38 {
            assert_eq!(sender(&plain[..cut]), None);
        }
        assert_eq!(sender(&[0; 60]), None, "nobody's address");
    }

    //= MAP-004 test
    #[test]
    fn below_one_t0_only_the_plane_varies() {
        let plan = UsidPlan::default();
        let template = EvTemplate::new(plan.template(4, 4, 7), plan.copy_ops(4, 4)).unwrap();
        assert_eq!(template.apply(Ev(plan.ev(1, 9))), plan.container(&[0x1104, 0x3107]));
    }
}
