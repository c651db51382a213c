//! `mrc_core_transmit_burst` and `mrc_core_receive_burst` through the C interface: the frames of single polls, within the
//! room of each port, taken like single ones, and nothing at all when an argument is wrong.

use std::ptr::null_mut;

use mrc_core_c::*;

const SEED: [u8; MRC_CORE_SEED_LEN] = [1; MRC_CORE_SEED_LEN];

/// Packets of the write.
const PACKETS: usize = 40;
const MTU: u32 = 1024;

/// Memory that starts at a multiple of `MRC_CORE_ALIGN`.
#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; 64]);

fn zeroed<T: Copy>() -> T {
    // SAFETY: only structs of the interface, for which all zeros is a value.
    unsafe { std::mem::zeroed() }
}

/// An endpoint with a write of [`PACKETS`] packets to send over two ports. The same one each time.
fn with_write(f: impl FnOnce(*mut mrc_core_endpoint)) {
    with_pair(1, 9, 0, |e, _, _| f(e));
}

/// Endpoint 1 or 2 of two that know each other, with a write to queue pair `dest_qp` and the region `rkey` to send; its own
/// queue pair and region follow. The same one each time.
fn with_pair(which: u8, dest_qp: u32, rkey: u32, f: impl FnOnce(*mut mrc_core_endpoint, u32, u32)) {
    let mut config: mrc_core_config = zeroed();
    let mut there = mrc_core_peer_config { hop_limit: 64, ..zeroed() };
    let (mut e, mut peer) = (null_mut(), mrc_core_peer { index: 9, generation: 0 });
    let (mut cq, mut pair, mut profile) = (zeroed(), zeroed(), mrc_core_ev_profile { index: 9, generation: 0 });
    let (mut mr, mut key) = (zeroed(), 0);
    let (mut rtr, mut rts): (mrc_core_rtr, mrc_core_rts) = (zeroed(), zeroed());
    // SAFETY: out pointers are variables; the memory lives until the end of the call.
    unsafe {
        assert_eq!(mrc_core_config_default(&mut config), MRC_CORE_OK);
        config.limits.qps = 1;
        config.port_update_on_rts = 0;
        for plane in 0..2 {
            config.ports[plane].present = 1;
            config.ports[plane].mac = [2; 6];
            there.planes[plane] = mrc_core_plane { present: 1, next_hop: [4; 6], ..zeroed() };
        }
        config.gids[0] = mrc_core_ip { version: 6, bytes: [which; 16] };
        (there.local, there.remote) = (config.gids[0], mrc_core_ip { version: 6, bytes: [3 - which; 16] });
        let size = mrc_core_storage_size(&config.limits);
        let mut memory = vec![Line([0; 64]); size.div_ceil(64)];
        assert_eq!(
            mrc_core_init(memory.as_mut_ptr().cast(), size, &config, SEED.as_ptr(), &mut e, null_mut()),
            MRC_CORE_OK
        );
        assert_eq!(mrc_core_add_peer(e, &there, &mut peer), MRC_CORE_OK);
        let entries = [1, 2, 1, 2].map(|port| mrc_core_ev_entry { ev: port.into(), port, ..zeroed() });
        assert_eq!(mrc_core_create_ev_profile(e, entries.as_ptr(), entries.len(), &mut profile), MRC_CORE_OK);
        assert_eq!(mrc_core_register_mr(e, 0, 0x1000, 1 << 20, 1, &mut mr, &mut key), MRC_CORE_OK);
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut pair), MRC_CORE_OK);
        assert_eq!(mrc_core_rtr_default(&mut rtr), MRC_CORE_OK);
        assert_eq!(mrc_core_rts_default(&mut rts, 5), MRC_CORE_OK);
        let rtr =
            mrc_core_rtr { peer, ev_profile: profile, dest_qp, rq_psn: 5, path_mtu: MTU as u16, mpr_dest: 1, ..rtr };
        rts.mpr = 1;
        assert_eq!(mrc_core_modify_to_init(e, pair), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_rts(e, 0, pair, &rts), MRC_CORE_OK);
        let len = PACKETS as u32 * MTU - 7;
        let wr =
            mrc_core_send_wr { local_va: 0x1000, lkey: key, len, remote_va: 0x1000, rkey, signaled: 1, ..zeroed() };
        assert_eq!(mrc_core_post_send(e, 1_000, pair, &wr), MRC_CORE_OK);
        f(e, pair.qpn, key);
    }
}

/// What can be compared of a frame.
fn seen(tx: &mrc_core_transmit, headers: &[u8]) -> (u8, u64, u32, u32, u8, Vec<u8>) {
    (tx.port, tx.offset, tx.payload_len, tx.frame_len, tx.pad, headers[..tx.header_len as usize].to_vec())
}

/// Frames with headers of their own, for one call.
fn burst(count: usize) -> (Vec<[u8; MRC_CORE_MAX_HEADER_LEN]>, Vec<mrc_core_frame>) {
    let mut headers = vec![[0xEE; MRC_CORE_MAX_HEADER_LEN]; count];
    let frames = headers
        .iter_mut()
        .map(|one| mrc_core_frame { headers: one.as_mut_ptr(), len: one.len() as u32, tx: zeroed() })
        .collect();
    (headers, frames)
}

#[test]
fn a_burst_is_the_frames_of_single_polls() {
    let mut singles = Vec::new();
    with_write(|e| {
        let (mut headers, mut tx) = ([0; MRC_CORE_MAX_HEADER_LEN], zeroed());
        // SAFETY: the endpoint lives; out pointers are variables.
        while unsafe { mrc_core_poll_transmit(e, 2_000, 6, headers.as_mut_ptr(), headers.len(), &mut tx) }
            == MRC_CORE_SOME
        {
            singles.push(seen(&tx, &headers));
        }
    });
    assert_eq!(singles.len(), PACKETS);
    with_write(|e| {
        let mut found = Vec::new();
        for count in [1, 7, 0, 16, 64, 64] {
            let (headers, mut frames) = burst(count);
            let mut room = [u32::MAX; MRC_CORE_MAX_PORTS];
            // SAFETY: the endpoint lives; frames and headers are vectors.
            let filled =
                unsafe { mrc_core_transmit_burst(e, 2_000, room.as_mut_ptr(), frames.as_mut_ptr(), frames.len()) };
            assert_eq!(filled as usize, count.min(PACKETS - found.len()));
            let (full, rest) = frames.split_at(filled as usize);
            found.extend(full.iter().zip(&headers).map(|(frame, headers)| seen(&frame.tx, headers)));
            assert!(rest.iter().all(|frame| frame.tx.frame_len == 0), "frames that were not filled are not described");
            assert_eq!(room.iter().map(|left| u32::MAX - left).sum::<u32>(), filled as u32);
        }
        assert_eq!(found, singles);
    });
}

#[test]
fn ports_get_as_many_frames_as_they_take() {
    with_write(|e| {
        let mut sent = [0; 3];
        for want in [[3, 1], [0, 4], [2, 0], [0, 0], [30, 30]] {
            let (_headers, mut frames) = burst(64);
            let mut room = [0; MRC_CORE_MAX_PORTS];
            room[..2].copy_from_slice(&want);
            // SAFETY: the endpoint lives; frames and headers are vectors.
            let filled = unsafe { mrc_core_transmit_burst(e, 2_000, room.as_mut_ptr(), frames.as_mut_ptr(), 64) };
            let left = PACKETS - sent.iter().sum::<usize>();
            let takes = want.iter().sum::<u32>() as usize;
            assert_eq!(filled as usize, takes.min(left), "{want:?}");
            for (port, &want) in want.iter().enumerate() {
                let here =
                    frames[..filled as usize].iter().filter(|frame| usize::from(frame.tx.port) == port + 1).count();
                assert!(here <= want as usize);
                assert_eq!(room[port], want - here as u32);
                sent[port + 1] += here;
            }
        }
        assert_eq!(sent.iter().sum::<usize>(), PACKETS);
    });
}

#[test]
fn a_refusal_fills_nothing() {
    with_write(|e| {
        let (_headers, good) = burst(4);
        let mut room = [9; MRC_CORE_MAX_PORTS];
        let refused = |frames: &mut [mrc_core_frame], room: *mut u32| {
            // SAFETY: the endpoint lives; what is wrong is refused, not followed.
            unsafe { mrc_core_transmit_burst(e, 2_000, room, frames.as_mut_ptr(), frames.len()) }
        };
        let mut frames = good.clone();
        assert_eq!(refused(&mut frames, null_mut()), MRC_CORE_E_NULL);
        frames[3].headers = null_mut();
        assert_eq!(refused(&mut frames, room.as_mut_ptr()), MRC_CORE_E_NULL);
        frames = good.clone();
        frames[2].len -= 1;
        assert_eq!(refused(&mut frames, room.as_mut_ptr()), MRC_CORE_E_RANGE);
        // SAFETY: NULL is refused.
        let code = unsafe { mrc_core_transmit_burst(e, 2_000, room.as_mut_ptr(), null_mut(), 4) };
        assert_eq!(code, MRC_CORE_E_NULL);
        // SAFETY: as above.
        let code = unsafe { mrc_core_transmit_burst(null_mut(), 2_000, room.as_mut_ptr(), null_mut(), 4) };
        assert_eq!(code, MRC_CORE_E_NULL);
        assert_eq!(room, [9; MRC_CORE_MAX_PORTS]);
        frames = good.clone();
        assert_eq!(refused(&mut frames, room.as_mut_ptr()), 4);
        assert_eq!(frames[0].tx.offset, 0, "the first packet was still there");
        assert_eq!(room[0] + room[1], 14);
    });
}

/// Heads of a write's packets, some of them twice, some out of order, one damaged; the ports they came over.
fn arrivals(dest_qp: u32, rkey: u32) -> Vec<(mrc_core_rx, Vec<u8>)> {
    let mut frames = Vec::new();
    with_pair(1, dest_qp, rkey, |e, _, _| {
        let (mut headers, mut tx) = ([0; MRC_CORE_MAX_HEADER_LEN], zeroed());
        // SAFETY: the endpoint lives; out pointers are variables.
        while unsafe { mrc_core_poll_transmit(e, 2_000, 6, headers.as_mut_ptr(), headers.len(), &mut tx) }
            == MRC_CORE_SOME
        {
            let mut head = headers[..tx.header_len as usize].to_vec();
            head.resize(tx.frame_len as usize, 0);
            frames.push((mrc_core_rx { wire_len: tx.frame_len, port: tx.port, icrc: MRC_CORE_ICRC_VALID }, head));
        }
    });
    assert_eq!(frames.len(), PACKETS);
    frames.swap(10, 13);
    frames.insert(21, frames[18].clone());
    frames[30].1[20] ^= 1;
    frames[33].0.icrc = MRC_CORE_ICRC_INVALID;
    frames
}

fn placed(place: &mrc_core_placement) -> (u32, u64, (u32, u32), (u32, u32)) {
    (place.mr.index, place.offset, (place.qp.qpn, place.psn), (place.payload_start, place.payload_len))
}

/// What a placement says of its packet is what a report of its failure wants to know.
#[test]
fn a_placement_that_fails_is_reported_from_itself() {
    with_pair(2, 9, 0, |e, qpn, key| {
        let arrivals = arrivals(qpn, key);
        let (mut place, mut headers, mut tx): (mrc_core_placement, _, mrc_core_transmit) =
            (zeroed(), [0; MRC_CORE_MAX_HEADER_LEN], zeroed());
        // SAFETY: the endpoint lives; pointers are of variables.
        unsafe {
            for (nth, (rx, head)) in (0..).zip(&arrivals[..4]) {
                assert_eq!(mrc_core_handle_packet(e, 3_000, rx, head.as_ptr(), head.len(), &mut place), MRC_CORE_SOME);
                assert_eq!((place.qp.index, place.qp.qpn, place.psn), (0, qpn, 5 + nth));
            }
            assert_eq!(mrc_core_placed(e, 3_000, place.token), MRC_CORE_E_STATE, "nobody waits for reports");
            assert_eq!(mrc_core_place_failed(e, 3_000, place.token), MRC_CORE_OK);
            let mut naks = 0;
            while mrc_core_poll_transmit(e, 3_000, 6, headers.as_mut_ptr(), headers.len(), &mut tx) == MRC_CORE_SOME {
                let aeth = &headers[tx.header_len as usize - 4..tx.header_len as usize];
                let psn = &headers[tx.header_len as usize - 7..tx.header_len as usize - 4];
                naks += u32::from(aeth[0] == 0x63 && psn == [0, 0, 8]);
            }
            assert_eq!(naks, 1, "the NAK names the packet that could not be placed");
        }
    });
}

#[test]
fn a_burst_is_taken_like_single_frames() {
    with_pair(2, 9, 0, |single, qpn, key| {
        with_pair(2, 9, 0, |burst, same_qpn, same_key| {
            assert_eq!((qpn, key), (same_qpn, same_key));
            let arrivals = arrivals(qpn, key);
            let mut place: mrc_core_placement = zeroed();
            let one = |(rx, head): &(mrc_core_rx, Vec<u8>)| {
                // SAFETY: the endpoint lives; pointers are of variables.
                let code = unsafe { mrc_core_handle_packet(single, 3_000, rx, head.as_ptr(), head.len(), &mut place) };
                (code, if code == MRC_CORE_SOME { placed(&place) } else { (0, 0, (0, 0), (0, 0)) })
            };
            let want: Vec<_> = arrivals.iter().map(one).collect();
            assert_eq!(want.iter().filter(|(code, _)| *code == MRC_CORE_SOME).count(), PACKETS - 2);
            let mut have = Vec::new();
            let mut rest = &arrivals[..];
            for count in [1, 7, 0, 20, 64] {
                let (now, later) = rest.split_at(rest.len().min(count));
                rest = later;
                let arrival = |(rx, head): &(mrc_core_rx, Vec<u8>)| mrc_core_arrival {
                    head: head.as_ptr(),
                    head_len: head.len() as u32,
                    rx: *rx,
                    code: 77,
                    place: zeroed(),
                };
                let mut frames: Vec<_> = now.iter().map(arrival).collect();
                // SAFETY: the endpoint lives; frames and heads are vectors.
                let taken = unsafe { mrc_core_receive_burst(burst, 3_000, frames.as_mut_ptr(), frames.len()) };
                assert_eq!(taken as usize, now.len());
                have.extend(frames.iter().map(|frame| (frame.code, placed(&frame.place))));
            }
            assert_eq!(have, want);
        });
    });
}

#[test]
fn a_refused_burst_is_not_taken() {
    with_pair(2, 9, 0, |e, qpn, key| {
        let arrivals = arrivals(qpn, key);
        let good: Vec<_> = arrivals[..4]
            .iter()
            .map(|(rx, head)| mrc_core_arrival {
                head: head.as_ptr(),
                head_len: head.len() as u32,
                rx: *rx,
                code: 77,
                place: zeroed(),
            })
            .collect();
        let take = |frames: &mut [mrc_core_arrival]| {
            // SAFETY: the endpoint lives; what is wrong is refused, not followed.
            let code = unsafe { mrc_core_receive_burst(e, 3_000, frames.as_mut_ptr(), frames.len()) };
            (code, frames.iter().all(|frame| frame.code == 77))
        };
        let mut frames = good.clone();
        frames[3].head = std::ptr::null();
        assert_eq!(take(&mut frames), (MRC_CORE_E_NULL, true));
        frames = good.clone();
        frames[2].rx.port = 0;
        assert_eq!(take(&mut frames), (MRC_CORE_E_RANGE, true));
        frames = good.clone();
        frames[1].rx.icrc = 3;
        assert_eq!(take(&mut frames), (MRC_CORE_E_RANGE, true));
        // SAFETY: NULL is refused.
        assert_eq!(unsafe { mrc_core_receive_burst(e, 3_000, null_mut(), 4) }, MRC_CORE_E_NULL);
        // SAFETY: as above.
        assert_eq!(unsafe { mrc_core_receive_burst(null_mut(), 3_000, null_mut(), 0) }, MRC_CORE_E_NULL);
        frames = good.clone();
        assert_eq!(take(&mut frames), (4, false));
        assert!(frames.iter().all(|frame| frame.code == MRC_CORE_SOME), "the first packet was still new");
    });
}

/// Whoever waits for `MRC_CORE_NEVER` and hands it in as the time gets an answer.
#[test]
fn a_call_at_the_end_of_time_ends() {
    with_write(|e| {
        let (mut headers, mut tx) = ([0; MRC_CORE_MAX_HEADER_LEN], zeroed());
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            assert_eq!(
                mrc_core_poll_transmit(e, 2_000, 6, headers.as_mut_ptr(), headers.len(), &mut tx),
                MRC_CORE_SOME
            );
            assert_eq!(mrc_core_handle_timeout(e, MRC_CORE_NEVER), MRC_CORE_OK);
            assert!(mrc_core_next_timeout(e) > 2_000);
        }
    });
}
