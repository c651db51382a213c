use std::collections::BTreeMap;

use super::*;
use crate::topology::{Component, Direction};
use proptest::prelude::*;

fn fabric() -> Fabric {
    Fabric { planes: 2, leaves: 4, spines: 8, hosts: 32 }
}

fn mates(fabric: &Fabric, host: HostId) -> Vec<HostId> {
    fabric.hosts_of(fabric.leaf_of(host)).collect()
}

fn plan(fabric: &Fabric, host: HostId) -> Plan {
    Plan::new(fabric, host, &mates(fabric, host), &PlanConfig::default())
}

//= CLU-001 test
#[test]
fn every_uplink_is_probed_in_every_interval_by_two_agents() {
    let fabric = fabric();
    for interval in 0..8 {
        let mut probed: BTreeMap<(u8, u16, u16), u32> = BTreeMap::new();
        for host in 0..fabric.hosts {
            let plan = plan(&fabric, host);
            for Due { path, class, .. } in plan.due(interval) {
                let spec = plan.paths()[path as usize];
                if let (Route::T1 { spine }, Class::Control) = (spec.route, class) {
                    *probed.entry((spec.plane, fabric.leaf_of(host), spine)).or_default() += 1;
                }
            }
        }
        assert_eq!(probed.len(), 2 * 4 * 8);
        assert!(probed.values().all(|count| *count == 2), "{probed:?}");
    }
}

#[test]
fn load_is_bounded_and_a_vanished_agent_moves_its_share() {
    let alive: Vec<HostId> = (0..16).map(|i| i * 4).collect();
    let before = owners(0, 0, 32, &alive, 2);
    let load = |owners: &[Vec<HostId>], host: HostId| owners.iter().filter(|list| list.contains(&host)).count();
    assert!(alive.iter().all(|host| load(&before, *host) <= 4));
    assert!(before.iter().all(|list| list.len() == 2));
    let gone = alive[5];
    let rest: Vec<HostId> = alive.iter().copied().filter(|host| *host != gone).collect();
    let after = owners(0, 0, 32, &rest, 2);
    assert!(after.iter().all(|list| list.len() == 2 && !list.contains(&gone)));
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b && !a.contains(&gone)).count();
    // Bounded load moves a few more than the vanished share, never most.
    assert!(moved <= 10, "{moved} uplinks of living owners moved");
    assert_eq!(owners(0, 0, 3, &[7], 2), vec![vec![7], vec![7], vec![7]]);
}

//= CLU-001 test
#[test]
fn a_path_ends_where_it_began_and_fits_a_container() {
    let fabric = fabric();
    let plan = plan(&fabric, 5);
    for spec in plan.paths() {
        let usids = spec.usids(&fabric, 5);
        assert!(usids.len() <= mrc_wire::srv6::USIDS, "{spec:?}");
        let end = match spec.route {
            Route::Pair { target, .. } => target,
            _ => 5,
        };
        assert_eq!(usids.last(), Some(&(0x3000 | u16::from(spec.plane) << 8 | end)), "{spec:?}");
    }
    let triangle = PathSpec { plane: 1, route: Route::Triangle { spine: 2, leaf: 3, back: 4 } };
    assert_eq!(triangle.usids(&fabric, 5), [0x1101, 0x2102, 0x1103, 0x2104, 0x1101, 0x3105]);
}

#[test]
fn triangles_cross_uplinks_one_way_and_requests_cross_host_links_one_way() {
    let fabric = fabric();
    let triangle = PathSpec { plane: 0, route: Route::Triangle { spine: 2, leaf: 3, back: 4 } };
    let names: Vec<Component> = triangle.elements(&fabric, 5).iter().map(|e| fabric.component(*e)).collect();
    assert!(names.contains(&Component::Uplink(0, 1, 2, Direction::Up)));
    assert!(!names.contains(&Component::Uplink(0, 1, 2, Direction::Down)));
    let pair = PathSpec { plane: 0, route: Route::Pair { target: 9, reply_plane: 1, spine: 0 } };
    let names: Vec<Component> = pair.elements(&fabric, 5).iter().map(|e| fabric.component(*e)).collect();
    assert!(names.contains(&Component::HostLink(0, 5, Direction::Up)));
    assert!(names.contains(&Component::HostLink(0, 9, Direction::Down)));
    assert!(!names.contains(&Component::HostLink(0, 5, Direction::Down)));
    assert!(names.contains(&Component::Host(9)));
}

#[test]
fn overhead_is_below_a_ten_thousandth_of_100_gb_s() {
    let config = PlanConfig::default();
    for (leaves, spines, hosts) in [(8, 4, 64), (8, 8, 128), (16, 16, 256), (16, 32, 512), (32, 32, 1024), (2, 64, 2)] {
        let fabric = Fabric { planes: 4, leaves, spines, hosts };
        for host in [0, 1] {
            let plan = plan(&fabric, host);
            assert!(plan.frames_per_interval() <= f64::from(config.max_frames), "{fabric:?}");
            let bits = plan.bits_per_second(1_000_000);
            assert!(bits < 10e6, "{fabric:?}: {bits} bit/s");
            let full = PlanConfig { full_every: 200, full_padding: (4266 - FRAME_LEN) as u16, ..config };
            let full = Plan::new(&fabric, host, &mates(&fabric, host), &full);
            let with_full = full.bits_per_second(1_000_000);
            assert!(with_full < bits + 1.7e6, "{fabric:?}: {with_full} bit/s");
            let mut bytes = [0; 4];
            for due in (0..20_000).flat_map(|interval| full.due(interval)) {
                let plane = usize::from(full.paths()[due.path as usize].plane);
                bytes[plane] += FRAME_LEN + WIRE_EXTRA + usize::from(due.padding);
            }
            // A reply of a neighbour is what a port sends besides.
            let reply = (FRAME_LEN + WIRE_EXTRA) as f64 + f64::from(full.config.full_padding) / 200.0;
            let most = (*bytes.iter().max().unwrap() as f64 / 20_000.0 + reply) * 8e3;
            assert!((0.9..1.05).contains(&(most / with_full)), "{fabric:?}: {most} {with_full}");
            // What is counted is what is sent, but for the reply.
            let mut sent = [0u32; 4];
            for interval in 0..400 {
                for Due { path, .. } in plan.due(interval) {
                    sent[usize::from(plan.paths()[path as usize].plane)] += 1;
                }
            }
            let most = f64::from(*sent.iter().max().unwrap()) / 400.0 + 1.0;
            assert!(most <= plan.frames_per_interval() + 0.3, "{fabric:?}: {most} {}", plan.frames_per_interval());
        }
    }
}

proptest! {
    #[test]
    fn all_agents_agree_whoever_is_alive(mask in 1u32..65536, spines in 1u16..40, redundancy in 1u8..4) {
        let alive: Vec<HostId> = (0..16).filter(|bit| mask & (1 << bit) != 0).collect();
        let owners = owners(1, 3, spines, &alive, redundancy);
        let count = usize::from(redundancy).min(alive.len());
        for list in &owners {
            prop_assert_eq!(list.len(), count);
            prop_assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(list.iter().all(|host| alive.contains(host)));
        }
    }
}
