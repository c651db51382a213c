//! Live update: an endpoint goes on from the image of another one as that one would have, bit for bit, and no damaged or
//! foreign image is taken.

mod common;
#[path = "../examples/live_update.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod example;

use common::{Net, Setup, Weather, net};
use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::path::{EvState, FlowingJumpingConfig, HopperConfig, Selector};
use mrc_core::{
    ConfigError, Endpoint, EndpointConfig, EvEventMask, EvReport, Event, EventMask, Export, ImageError, Import,
    Instant, Limits, OwnedStorage, PlacementMode, QpState, Rng, Trimming,
};
use mrc_wire::{Body, PortNum, WireConfig, icrc, parse_frame};

const SECOND: u64 = 1_000_000_000;

/// The example of the documentation does what it says.
#[test]
fn the_example_of_a_live_update() {
    assert_eq!(
        example::run(),
        [
            "update at the requester, 8 packets in flight",
            "update at the responder, 2 placements open",
            "completions [1, 2], bytes the same: true, retransmitted 0",
        ]
    );
}

/// The image of an endpoint, written in pieces of at most `buffer` bytes.
fn export(endpoint: &mut Endpoint<'_>, buffer: usize) -> Vec<u8> {
    let (mut export, mut image, mut out) = (Export::new(), vec![], vec![0xEE; buffer]);
    while !export.is_done() {
        let len = endpoint.export(&mut export, &mut out).unwrap();
        assert!(len > 0 && len <= buffer);
        image.extend(&out[..len]);
    }
    assert_eq!(endpoint.export(&mut export, &mut out), Ok(0), "nothing follows");
    image
}

fn import<'s>(
    cfg: &EndpointConfig,
    storage: &'s mut OwnedStorage,
    image: &[u8],
    piece: usize,
) -> Result<Endpoint<'s>, ImageError> {
    let mut import = Import::new(cfg.clone(), storage.lend()).unwrap();
    let (mut taken, mut end) = (0, 0);
    while end < image.len() {
        end = (end + piece).min(image.len());
        taken += import.feed(&image[taken..end])?;
    }
    assert!(taken == image.len() || !import.is_complete());
    let is_complete = import.is_complete();
    let finished = import.finish();
    assert_eq!(is_complete, finished.is_ok());
    finished
}

/// Storage whose contents are not those of a new one: they do not matter.
fn used_storage(limits: Limits) -> OwnedStorage {
    let mut storage = OwnedStorage::new(limits).unwrap();
    let lent = storage.lend();
    lent.ev_order.fill(0xAAAA);
    lent.qps.fill(mrc_core::Qp::EMPTY);
    storage
}

/// Replaces the endpoint of one side by one that was made from its image.
fn update(net: &mut Net<'_>, which: usize, rng: &mut Rng) {
    let engine = &mut net.sides[which].engine;
    let image = export(engine, Export::MIN_BUFFER + rng.below(10_000) as usize);
    let (cfg, limits) = (engine.config().clone(), *engine.limits());
    // Lives as long as the test: the network lends its own storage for longer than this function runs.
    let storage = Box::leak(Box::new(used_storage(limits)));
    let mut new = import(&cfg, storage, &image, 1 + rng.below(9_000) as usize).unwrap();
    assert!(export(&mut new, 1 << 16) == image, "the new endpoint has another image");
    net.sides[which].engine = new;
}

/// What a run ends with: checksum of all frames, completions, events, counters.
type Trace = (u64, Vec<u64>, Vec<String>, u64);

/// Writes in both directions through bad weather, with an update of a random side every `every` steps; 0: none.
fn trace(seed: u64, setup: &Setup, weather: Weather, every: u32) -> Trace {
    net(seed, setup, weather, |net| {
        let (mut rng, mut step) = (Rng::new(seed ^ 77), 0);
        let qps = setup.qps;
        for n in 0..12u64 {
            let (from, qp) = (n as usize % 2, n as usize / 2 % qps);
            let offset = n as usize * 9_000;
            let _ = net.post_from(from, qp, n, offset, 3_000 + 500 * n as usize);
        }
        net.run(SECOND, |_| {
            step += 1;
            step > 40
        });
        let mut turns = 0;
        while turns < 400 {
            turns += 1;
            if every > 0 && rng.below(every) == 0 {
                let which = rng.below(2) as usize;
                update(net, which, &mut rng);
            }
            let mut frames = 0;
            let more = net.run(SECOND, |_| {
                frames += 1;
                frames > 4
            });
            if !more {
                break;
            }
        }
        let done: Vec<u64> = net.sides.iter().flat_map(|side| side.completions.iter().map(|c| c.wr_id)).collect();
        let events = net.sides.iter().flat_map(|side| side.events.iter().map(|event| format!("{event:?}"))).collect();
        let mut sum = 0u64;
        for side in &net.sides {
            side.engine.stats().for_each(|_, value| sum = sum.wrapping_mul(31).wrapping_add(value));
        }
        (net.digest, done, events, sum)
    })
}

/// Frames, completions, events and counters are those of endpoints that nobody replaced, whatever was under way.
#[test]
fn nobody_can_tell_that_an_endpoint_was_replaced() {
    let storm = Weather {
        loss: 30,
        reorder: 100,
        duplicate: 20,
        corrupt: 10,
        trim: 40,
        mark: 60,
        busy: 100,
        ..Weather::default()
    };
    let nscc = CcConfig::Nscc(NsccConfig::new(10_000_000_000, 10_000, true));
    let crowded = NsccConfig { crowds: true, max_cwnd_bytes: 900, ..NsccConfig::new(10_000_000_000, 10_000, true) };
    let (crowded, fixed) = (CcConfig::Nscc(crowded), CcConfig::Fixed { window_bytes: 4_000 });
    let setups = [
        Setup { events: EventMask::ALL, ..Setup::default() },
        Setup {
            qps: 4,
            cc: vec![nscc, CcConfig::Fixed { window_bytes: 20_000 }],
            trimming: Trimming::On,
            ..Setup::default()
        },
        Setup { srv6: true, tell_ports: true, share_bad: true, qps: 3, svc_time: true, ..Setup::default() },
        Setup { v4: true, dynamic_mpr: true, keepalive_ns: [400_000, 0], plane_lead: 2, ..Setup::default() },
        Setup { rts: |rts| rts.selector = Selector::Hopper(HopperConfig::default()), ..Setup::default() },
        Setup {
            rts: |rts| rts.selector = Selector::FlowingJumping(FlowingJumpingConfig::default()),
            qps: 2,
            ..Setup::default()
        },
        Setup { own_addresses: true, tell_ports: true, qps: 2, ..Setup::default() },
        // Who may be a newcomer, and when, is part of the image.
        Setup {
            qps: 6,
            cc: vec![CcConfig::Fixed { window_bytes: 8_000 }, CcConfig::Fixed { window_bytes: 5_000 }],
            tweak: |cfg| cfg.turn_bytes = 2_500,
            ..Setup::default()
        },
        // A window below a packet has a pause behind each, which lasts.
        Setup { qps: 3, cc: vec![crowded], trimming: Trimming::On, ..Setup::default() },
        Setup { qps: 2, cc: vec![fixed], tweak: |cfg| cfg.silent_packets = 2, ..Setup::default() },
    ];
    for (n, setup) in setups.iter().enumerate() {
        for seed in 0..4 {
            for weather in [Weather::default(), storm] {
                let alone = trace(seed, setup, weather, 0);
                let replaced = trace(seed, setup, weather, 12);
                assert!(alone == replaced, "setup {n}, seed {seed}: {alone:?} and {replaced:?}");
            }
        }
    }
}

/// A peer with Dynamic MPR may offer a window wider than any of ours. What may be in flight is bounded by storage all the same.
//= DMPR-003 test
#[test]
fn a_window_wider_than_our_storage_survives() {
    net(5, &Setup { dynamic_mpr: true, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 3_000).unwrap();
        while let Some((_, (to, port, mut frame))) = net.wire.pop_first() {
            let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
            if matches!(parsed.body, Body::Sack(_)) {
                frame[parsed.l3_offset + 40 + 8 + 12 + 17] = 255;
                let icrc = icrc::compute(&frame[parsed.l3_offset..parsed.icrc_offset]).unwrap();
                frame[parsed.icrc_offset..].copy_from_slice(&icrc);
            }
            net.deliver(to, port, &frame).unwrap();
            net.drain(to);
        }
        assert!(net.completed(1));
        update(net, 0, &mut Rng::new(2));
        net.post(0, 2, 3_000, 9_000).unwrap();
        assert!(net.run(SECOND, |net| net.completed(2)));
        net.assert_arrived(0, 12_000);
    });
}

/// A busy endpoint with little storage, its image, and what it was made with.
fn small_image() -> (EndpointConfig, Limits, Vec<u8>) {
    let setup = Setup { tweak: |cfg| cfg.placement = PlacementMode::Reported, ..Setup::default() };
    net(3, &setup, Weather { loss: 100, ..Weather::default() }, |net| {
        net.post_imm(1, 0, 9_000, 7).unwrap();
        for _ in 0..6 {
            net.deliver_next();
        }
        net.drain(1);
        net.drain(0);
        let engine = &mut net.sides[1].engine;
        assert!(engine.qp_info(net.sides[1].qps[0]).unwrap().placements > 0);
        let image = export(engine, 1 << 16);
        (engine.config().clone(), *engine.limits(), image)
    })
}

#[test]
fn an_image_with_a_damaged_byte_is_refused_wherever_it_is() {
    let (cfg, limits, image) = small_image();
    let mut storage = OwnedStorage::new(limits).unwrap();
    assert!(import(&cfg, &mut storage, &image, usize::MAX / 2).is_ok());
    let mut reasons = std::collections::BTreeMap::<String, u32>::new();
    for at in 0..image.len() {
        let mut damaged = image.clone();
        damaged[at] ^= 1 << (at % 8);
        let why = import(&cfg, &mut storage, &damaged, usize::MAX / 2).expect_err("a damaged byte was taken");
        *reasons.entry(why.to_string()).or_default() += 1;
    }
    println!("{} bytes: {reasons:#?}", image.len());
    // Most damage gives values that could be: only the checksum tells.
    assert!(reasons.len() > 5 && reasons.contains_key(&ImageError::Checksum.to_string()));
}

#[test]
fn an_image_that_ends_early_or_late_is_refused() {
    let (cfg, limits, image) = small_image();
    let mut storage = OwnedStorage::new(limits).unwrap();
    for len in 0..image.len() {
        let refused = import(&cfg, &mut storage, &image[..len], 1 << 20).map(drop);
        assert_eq!(refused, Err(ImageError::Truncated), "{len} of {} bytes", image.len());
    }
    let longer = [image.as_slice(), &[1, 0, 0]].concat();
    let refused = import(&cfg, &mut storage, &longer, 1 << 20).map(drop);
    assert_eq!(refused, Err(ImageError::Damaged("bytes behind the end")));
}

#[test]
fn a_foreign_image_is_refused_with_the_reason() {
    let (cfg, limits, image) = small_image();
    let refused = |cfg: &EndpointConfig, limits: Limits, image: &[u8]| {
        import(cfg, &mut OwnedStorage::new(limits).unwrap(), image, 1 << 20).map(drop)
    };
    assert_eq!(refused(&cfg, limits, &image), Ok(()));
    let other = Limits { send_queue: 2 * limits.send_queue, ..limits };
    assert_eq!(refused(&cfg, other, &image), Err(ImageError::Limits));
    let other = EndpointConfig { merge_sacks: !cfg.merge_sacks, ..cfg.clone() };
    assert_eq!(refused(&other, limits, &image), Err(ImageError::Config));
    let mut later = image.clone();
    later[10] += 1;
    assert_eq!(refused(&cfg, limits, &later), Err(ImageError::Format { have: 17, known: 16 }));
    assert_eq!(refused(&cfg, limits, &[0; 100]), Err(ImageError::Foreign));
    // An error is final: nothing that follows mends it.
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut import = Import::new(cfg.clone(), storage.lend()).unwrap();
    assert_eq!(import.feed(&later), Err(ImageError::Format { have: 17, known: 16 }));
    assert_eq!(import.feed(&image), Err(ImageError::Format { have: 17, known: 16 }));
    assert!(!import.is_complete());
    assert_eq!(import.finish().map(drop), Err(ImageError::Format { have: 17, known: 16 }));
    let mut small = OwnedStorage::new(Limits { qps: 1, ..limits }).unwrap();
    let mut lent = small.lend();
    lent.limits.qps = 2;
    assert!(matches!(Import::new(cfg, lent).map(drop), Err(ConfigError::Storage { what: "qps", .. })));
}

/// A record holds its value and no byte more, the last one as well as the others.
#[test]
fn a_record_that_is_too_long_is_refused_where_it_is() {
    let (cfg, limits, image) = small_image();
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut at = 0;
    while at < image.len() {
        let len = u16::from_le_bytes([image[at], image[at + 1]]);
        let end = at + 2 + usize::from(len);
        let longer = [&image[..at], &(len + 1).to_le_bytes()[..], &image[at + 2..end], &[0], &image[end..]].concat();
        let refused = import(&cfg, &mut storage, &longer, 1 << 20).map(drop);
        assert!(matches!(refused, Err(ImageError::Damaged(_))), "the record at {at}: {refused:?}");
        at = end;
    }
}

/// A driver that had no time to poll events, and a controller that asks for EVs, find what there was.
#[test]
fn events_and_the_entries_of_profiles_survive() {
    net(1, &Setup { events: EventMask::ALL, ..Setup::default() }, Weather::default(), |net| {
        let (profile, now) = (net.sides[0].profile.unwrap(), net.now);
        let seen = |engine: &mut Endpoint<'_>| {
            let mut evs = [EvReport::EMPTY; 16];
            assert_eq!(engine.query_evs(profile, 0, &mut evs), Ok(16));
            evs
        };
        let before = seen(&mut net.sides[0].engine);
        // An event that was raised a moment ago is not raised again.
        let flip = |engine: &mut Endpoint<'_>| {
            engine.set_ev_state(now, profile, &before[3].ev, EvState::Denied, true).unwrap();
            engine.set_ev_state(now, profile, &before[3].ev, EvState::Good, true).unwrap();
        };
        net.sides[0].engine.set_ev_events(profile, EvEventMask { good: true, assumed_bad: true }).unwrap();
        flip(&mut net.sides[0].engine);
        update(net, 0, &mut Rng::new(1));
        flip(&mut net.sides[0].engine);
        assert_eq!(net.sides[0].engine.stats().ev_events_merged, 1);
        net.drain(0);
        for up in [false, true, false] {
            net.sides[0].engine.set_port(now, PortNum::from_plane(1), up);
        }
        update(net, 0, &mut Rng::new(1));
        assert_eq!(seen(&mut net.sides[0].engine), before);
        let events: Vec<_> = std::iter::from_fn(|| net.sides[0].engine.poll_event()).collect();
        let ups = events.iter().filter_map(|event| if let Event::Port { up, .. } = event { Some(*up) } else { None });
        assert_eq!(ups.collect::<Vec<_>>(), [false, true, false], "{events:?}");
    });
}

/// A buffer that holds no record says how long it should be; the next call goes on.
#[test]
fn a_short_buffer_is_told_its_length() {
    let setup =
        Setup { srv6: true, rts: |rts| rts.selector = Selector::Hopper(HopperConfig::default()), ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        net.post(0, 1, 0, 50_000).unwrap();
        let engine = &mut net.sides[0].engine;
        let whole = export(engine, 1 << 20);
        let (mut export, mut image, mut longest) = (Export::new(), vec![], 0);
        while !export.is_done() {
            let need = engine.export(&mut export, &mut []).unwrap_err();
            assert_eq!(need, Export::MIN_BUFFER, "no room for a length");
            let need = engine.export(&mut export, &mut [0; 2]).unwrap_err();
            let mut out = vec![0; need];
            assert_eq!(engine.export(&mut export, &mut out), Ok(need));
            image.extend(out);
            longest = longest.max(need);
        }
        assert!(image == whole);
        println!("{} bytes, longest record {longest}", image.len());
        assert!(longest <= Export::MIN_BUFFER, "{longest}");
    });
}

/// Handles, keys and QP numbers are those of before, and those of later objects do not repeat.
#[test]
fn handles_stay_good_and_new_keys_are_new() {
    let setup = Setup { qps: 2, ..Setup::default() };
    net(9, &setup, Weather::default(), |net| {
        let (now, qp) = (Instant::ZERO, net.sides[0].qps[1]);
        net.sides[0].engine.modify_to_error(now, qp).unwrap();
        let mut next = vec![];
        for replaced in [false, true] {
            if replaced {
                update(net, 0, &mut Rng::new(1));
            }
            let side = &mut net.sides[0];
            assert_eq!(side.engine.key(side.mr).map(|key| key.0), Some(side.key));
            assert_eq!(side.engine.qp_info(qp).unwrap().state, QpState::Error);
            next.push(side.engine.draw_psn().value());
        }
        assert_ne!(next[0], next[1]);
        // What is gone stays gone.
        let side = &mut net.sides[0];
        let stale = side.engine.create_cq().unwrap();
        side.engine.destroy_cq(stale).unwrap();
        let planes = std::array::from_fn(|plane| {
            (plane == 0).then_some(mrc_core::PlanePath { next_hop: [4; 6], outer_src: None })
        });
        let (local, remote) = (common::address(0, false), common::address(7, false));
        let route = mrc_core::Route::Plain;
        let config = mrc_core::PeerConfig { local, remote, planes, route, hop_limit: 64 };
        let nobody = side.engine.add_peer(&config).unwrap();
        side.engine.remove_peer(nobody).unwrap();
        update(net, 0, &mut Rng::new(1));
        let engine = &mut net.sides[0].engine;
        assert_ne!(engine.create_cq().unwrap(), stale);
        assert_ne!(engine.add_peer(&config).unwrap(), nobody);
    });
}
