//! NSCC through packets, with numbers worked out on paper: 100 Gb/s, 12 us, trimming, packets of 4096 + 88 bytes. From that follow
//! a target delay of 9 us, a largest window of 225000 bytes, a fair increase of 5 packets (20920) and a fixed one of 627 bytes.
//! A responder counts units of 256 bytes, rounded up: packet after packet 17, 33, 50, 66, 82, 99 of them.

use super::*;

/// What the fabric does to a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    Marked,
    Trimmed,
}

/// Packets of one write, all of which left at time 0.
struct Flight(std::vec::IntoIter<(mrc_wire::PortNum, Vec<u8>)>);

impl Flight {
    fn new(net: &mut Net<'_>) -> Self {
        net.post(0, 0, 0, 64 * 4096).unwrap();
        let frames: Vec<_> = std::iter::from_fn(|| net.next_frame(1)).collect();
        // One more would not fit: 54 packets are 225936 bytes.
        assert_eq!((frames.len(), net.qpcc(0).inflight_bytes), (53, 53 * 4_184));
        Self(frames.into_iter())
    }

    /// The next packet reaches its receiver, and the answer its sender, so many nanoseconds after it left. Window, bytes in flight and
    /// average delay then.
    fn answered(&mut self, net: &mut Net<'_>, after_ns: u64, fate: Fate) -> (u64, i64, u64) {
        let (port, mut frame) = self.0.next().unwrap();
        net.now = Instant::from_nanos(after_ns);
        match fate {
            Fate::Arrives => {}
            Fate::Marked => frame[15] |= 0x30,
            Fate::Trimmed => {
                let trimmed = WireConfig::default().dscp.trimmed;
                // Ethernet, IPv6, UDP, BTH and eight bytes more.
                frame.truncate(14 + 40 + 8 + 12 + 8);
                frame[14] = 0x60 | trimmed >> 2;
                frame[15] = trimmed << 6 | frame[15] & 0x3F;
            }
        }
        let _ = net.deliver(1, port, &frame);
        net.transmit(1);
        while let Some((port, frame)) = net.next_frame(0) {
            net.deliver(0, port, &frame).unwrap();
        }
        let qpcc = net.qpcc(0);
        (qpcc.cwnd_bytes, qpcc.inflight_bytes, qpcc.avg_delay_ns)
    }
}

//= NSCC-005, NSCC-006, NSCC-008, NSCC-011, NSCC-012, NSCC-013, NSCC-014, NSCC-015, NSCC-016, NSCC-017, NSCC-019, NSCC-025, SRX-005 test
#[test]
fn a_window_moves_as_on_paper() {
    let nscc = NsccConfig { disable_rtt_probe: true, ..NsccConfig::new(100_000_000_000, 12_000, true) };
    let setup = Setup {
        mtu: 4096,
        trimming: Trimming::On,
        tweak: |cfg| cfg.sack_gen_threshold = 1_024,
        ..profiles(1, &[CcConfig::Nscc(nscc)])
    };
    net(1, &setup, Weather::default(), |net| {
        let mut flight = Flight::new(net);
        // No delay: an increase, which the largest window cuts off. The first epoch of quick adapt lasts to 12 + 12 + 9 us.
        assert_eq!(flight.answered(net, 12_000, Fate::Arrives), (225_000, 217_400, 0));
        // 28 us of delay call for 1 - 0.8 * 19 / 28, which is less than a half: a half, and the fixed increase of the period.
        assert_eq!(flight.answered(net, 40_000, Fate::Marked), (112_500 + 627, 213_304, 28_000));
        // A third of a base RTT later, within the epoch that lasts to 61 us: one packet less. 12 us stand for the delay.
        assert_eq!(flight.answered(net, 44_000, Fate::Trimmed), (108_943, 209_120, 22_666));
        // The epoch is over and brought nothing: one packet is left, and the 204936 bytes still in flight are to be ignored.
        assert_eq!(flight.answered(net, 62_000, Fate::Trimmed), (4_184, 204_936, 12_000));
        // Marks among those change nothing but the average: a sixth of the way from 12 to 52 us.
        assert_eq!(flight.answered(net, 64_000, Fate::Marked), (4_184, 200_584, 18_666));
        // 20920 * 4096 / 4184 is five times 4096, and the period is over.
        assert_eq!(flight.answered(net, 80_000, Fate::Arrives), (4_184 + 20_480 + 627, 196_488, 68_000));
        // A penalty of 64 takes half of what it reports, and forbids an increase.
        let far = net.sides[1].qps[0];
        net.sides[1].engine.set_receiver_penalty(far, 64, true).unwrap();
        assert_eq!(flight.answered(net, 84_000, Fate::Arrives), (25_291 - 2_048, 192_392, 69_333));
        net.sides[1].engine.set_receiver_penalty(far, 0, true).unwrap();
        assert_eq!(flight.answered(net, 85_000, Fate::Arrives), (25_291, 188_040, 69_638));
    });
}

/// The window belongs to the peer: a queue pair whose responder asks for nothing ends what the responder of another asks for.
/// Only responders that all ask for less get less.
//= PEN-001, PEN-002, NSCC-016, NSCC-017, QPCC-001 test
#[test]
fn queue_pairs_that_share_a_window_are_penalised_together_or_not_at_all() {
    let after = |penalties: [u8; 2]| {
        net(1, &profiles(2, &[CcConfig::Nscc(nscc())]), Weather::default(), |net| {
            let open = net.qpcc(0).cwnd_bytes;
            for (qp, penalty) in penalties.into_iter().enumerate() {
                let side = &mut net.sides[1];
                side.engine.set_receiver_penalty(side.qps[qp], penalty, true).unwrap();
                net.post(qp, 0, 0, 60_000).unwrap();
                assert!(net.run(u64::MAX, |net| net.completed(qp + 1) && net.wire.is_empty()));
            }
            net.qpcc(0).cwnd_bytes as f64 / open as f64
        })
    };
    assert!(after([127, 127]) < 0.1);
    assert!(after([0, 127]) < 0.1, "the last word was a penalty");
    // The largest window follows the base RTT from the configured 10 us to the 8 us of this net.
    assert_eq!(after([127, 0]), 0.8, "the last word was none");
}
