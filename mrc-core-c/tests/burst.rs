//! `mrc_core_transmit_burst` through the C interface: the frames of single polls, within the room of each port, and nothing
//! at all when an argument is wrong.

use std::ptr::null_mut;

use mrc_core_c::*;

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
    let mut config: mrc_core_config = zeroed();
    let mut there = mrc_core_peer_config { hop_limit: 64, ..zeroed() };
    let (mut e, mut peer) = (null_mut(), mrc_core_peer { index: 9 });
    let (mut cq, mut pair, mut profile) = (zeroed(), zeroed(), mrc_core_ev_profile { index: 9 });
    let (mut mr, mut key) = (zeroed(), 0);
    let (mut rtr, mut rts): (mrc_core_rtr, mrc_core_rts) = (zeroed(), zeroed());
    // SAFETY: out pointers are variables; the memory lives until the end of the call.
    unsafe {
        assert_eq!(mrc_core_config_default(&mut config), MRC_CORE_OK);
        config.limits.qps = 1;
        config.port_update_on_rts = 0;
        for plane in 0..2 {
            config.ports[plane].present = 1;
            there.planes[plane] = mrc_core_plane { present: 1, ..zeroed() };
        }
        config.gids[0] = mrc_core_ip { version: 6, bytes: [1; 16] };
        (there.local, there.remote) = (config.gids[0], mrc_core_ip { version: 6, bytes: [2; 16] });
        let size = mrc_core_storage_size(&config.limits);
        let mut memory = vec![Line([0; 64]); size.div_ceil(64)];
        assert_eq!(mrc_core_init(memory.as_mut_ptr().cast(), size, &config, 1, &mut e, null_mut()), MRC_CORE_OK);
        assert_eq!(mrc_core_add_peer(e, &there, &mut peer), MRC_CORE_OK);
        let entries = [1, 2, 1, 2].map(|port| mrc_core_ev_entry { ev: port.into(), port, ..zeroed() });
        assert_eq!(mrc_core_create_ev_profile(e, entries.as_ptr(), entries.len(), &mut profile), MRC_CORE_OK);
        assert_eq!(mrc_core_register_mr(e, 0, 0x1000, 1 << 20, 0, &mut mr, &mut key), MRC_CORE_OK);
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut pair), MRC_CORE_OK);
        assert_eq!(mrc_core_rtr_default(&mut rtr), MRC_CORE_OK);
        assert_eq!(mrc_core_rts_default(&mut rts, 5), MRC_CORE_OK);
        let rtr = mrc_core_rtr { peer, ev_profile: profile, dest_qp: 9, path_mtu: MTU as u16, mpr_dest: 1, ..rtr };
        rts.mpr = 1;
        assert_eq!(mrc_core_modify_to_init(e, pair), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_rts(e, 0, pair, &rts), MRC_CORE_OK);
        let len = PACKETS as u32 * MTU - 7;
        let wr = mrc_core_send_wr { local_va: 0x1000, lkey: key, len, signaled: 1, ..zeroed() };
        assert_eq!(mrc_core_post_send(e, 1_000, pair, &wr), MRC_CORE_OK);
        f(e);
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
