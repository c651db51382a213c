//! The image of a busy endpoint, changed at will, with a checksum that fits again: import refuses it or makes an endpoint, whose own
//! image is taken in turn.

use std::sync::OnceLock;

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, Endpoint, EndpointConfig, Export, ImageError, Import, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS, MemRange,
    OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpInit, Route, RtrAttr, RtsAttr, SendWr,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn, Rkey};

fn config() -> EndpointConfig {
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6([0xFD; 16]));
    cfg.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    cfg
}

fn limits() -> Limits {
    Limits {
        qps: 2,
        mpr: 1,
        tx_packets: 16,
        send_queue: 4,
        recv_queue: 4,
        wimm: 2,
        evs: 8,
        active_evs: 8,
        cqs: 2,
        cq_depth: 4,
        mrs: 2,
        peers: 2,
        planes: 1,
        srv6_peers: 0,
        ev_profiles: 1,
        profile_evs: 8,
        cc_profiles: 1,
        qpccs: 2,
        refusals: 4,
        events: 4,
    }
}

fn image_of(endpoint: &mut Endpoint<'_>) -> Vec<u8> {
    let (mut export, mut image, mut out) = (Export::new(), vec![], [0; Export::MIN_BUFFER]);
    while !export.is_done() {
        let len = endpoint.export(&mut export, &mut out).expect("every record fits");
        image.extend(&out[..len]);
    }
    image
}

/// Of an endpoint with a write under way.
fn busy() -> Vec<u8> {
    let mut storage = OwnedStorage::new(limits()).expect("sound limits");
    let mut e = Endpoint::new(config(), storage.lend(), 7).expect("sound");
    let cq = e.create_cq().expect("room");
    let mr = e.register_mr(Pd(0), MemRange { va: 0, len: 1 << 16 }, Access::REMOTE_WRITE).expect("room");
    let qp = e.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).expect("room");
    let mut planes = [None; MAX_PORTS];
    planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    let peer =
        PeerConfig { local: Ip::V6([0xFD; 16]), remote: Ip::V6([1; 16]), planes, route: Route::Plain, hop_limit: 64 };
    let peer = e.add_peer(&peer).expect("room");
    let mut paths = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 8];
    compact_profile(&mut paths, 1, 8, 8).expect("eight paths");
    let profile = e.create_ev_profile(&paths).expect("room");
    let rtr = RtrAttr {
        path_mtu: 256,
        mpr_dest: 1,
        max_wimm_dest: 2,
        ..RtrAttr::software(peer, Qpn::new(9), Psn::new(7), profile)
    };
    e.modify_to_init(qp).expect("from RESET");
    e.modify_to_rtr(Instant::ZERO, qp, &rtr).expect("from INIT");
    let rts = RtsAttr { mpr: 1, max_wimm: 2, ..RtsAttr::software(Psn::new(7)) };
    e.modify_to_rts(Instant::ZERO, qp, &rts).expect("from RTR");
    e.post_recv(qp, 5).expect("room");
    let key = e.key(mr).expect("registered").0;
    let wr = SendWr { wr_id: 1, lkey: key, len: 5_000, rkey: Rkey(key), signaled: true, ..SendWr::default() };
    e.post_send(Instant::ZERO, qp, &wr).expect("room");
    for _ in 0..9 {
        e.poll_transmit(Instant::ZERO, PortMask::ALL, &mut [0; MAX_HEADER_LEN]);
    }
    image_of(&mut e)
}

/// The checksum of the format, bit by bit.
fn crc(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 })
    })
}

/// Makes number of records and checksum right, if the last record is where it should be.
fn mend(image: &mut [u8]) {
    let (mut at, mut records, mut sum) = (0, 0u32, u32::MAX);
    while let Some(&[low, high]) = image.get(at..at + 2) {
        let len = usize::from(u16::from_le_bytes([low, high]));
        if at + 2 + len == image.len() && len == 8 {
            image[at + 2..at + 6].copy_from_slice(&records.to_le_bytes());
            image[at + 6..].copy_from_slice(&(!sum).to_le_bytes());
            return;
        }
        let Some(body) = image.get(at + 2..at + 2 + len) else { return };
        (sum, records, at) = (crc(sum, body), records + 1, at + 2 + len);
    }
}

fn import<'s>(storage: &'s mut OwnedStorage, image: &[u8], piece: usize) -> Result<Endpoint<'s>, ImageError> {
    let mut import = Import::new(config(), storage.lend()).expect("as before");
    let (mut taken, mut end) = (0, 0);
    while end < image.len() {
        end = (end + piece.max(1)).min(image.len());
        taken += import.feed(&image[taken..end])?;
    }
    import.finish()
}

/// A byte that chooses, then changes of the image: place (two bytes), what to do, with which byte.
pub fn live_update(data: &[u8]) {
    static BUSY: OnceLock<Vec<u8>> = OnceLock::new();
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut storage = OwnedStorage::new(limits()).expect("sound limits");
    if choice & 1 == 1 {
        // Bytes of no endpoint.
        assert!(import(&mut storage, rest, usize::from(choice)).is_err());
        return;
    }
    let mut image = BUSY.get_or_init(busy).clone();
    for change in rest.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % image.len().max(1);
        match change[2] & 3 {
            0 => drop(image.get_mut(at).map(|byte| *byte = change[3])),
            1 => drop(image.get_mut(at).map(|byte| *byte ^= 1 << (change[3] & 7))),
            2 => image.insert(at, change[3]),
            _ => drop(image.remove(at)),
        }
    }
    mend(&mut image);
    let Ok(mut endpoint) = import(&mut storage, &image, 64 << (choice >> 5)) else { return };
    // What was taken is an endpoint: it says what it is, and says so again.
    assert!(endpoint.qps().count() <= 2);
    let own = image_of(&mut endpoint);
    let mut again = OwnedStorage::new(limits()).expect("sound limits");
    let mut again = import(&mut again, &own, usize::MAX / 2).expect("an image that was just written");
    assert_eq!(image_of(&mut again), own);
}
