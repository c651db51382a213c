//! State of the requester by itself: what an image may say of it, and how long it waits.

use mrc_wire::Psn;

use super::{Requester, rtt::BaseRtt};
use crate::time::Instant;

/// An image of a queue pair may name every state that its storage can hold, and no other.
#[test]
fn a_requester_of_an_image_fits_its_storage() {
    let unack = Psn::new(0xFF_FFFE);
    let good = Requester {
        unack,
        max_sent: unack.add(4),
        tack: unack.add(4),
        hi_sacked: unack.add(4),
        lost: 4,
        held: 4,
        mpr_tx: 128,
        path_mtu: 1_024,
        ..Requester::IDLE
    };
    assert!(good.fits(4, 128, 1_024) && Requester::IDLE.fits(0, 0, 1_024));
    assert!(Requester { tack: unack.sub(1), hi_sacked: unack.sub(1), max_sent: unack, ..good }.fits(4, 128, 1_024));
    for bad in [
        Requester { max_sent: unack.add(5), ..good },
        Requester { lost: 5, ..good },
        Requester { held: 5, ..good },
        Requester { mpr_tx: 129, ..good },
        Requester { tack: unack.add(5), ..good },
        Requester { hi_sacked: unack.add(5), ..good },
        Requester { max_sent: unack.sub(1), tack: unack.sub(2), hi_sacked: unack.sub(2), ..good },
        Requester { path_mtu: 512, ..good },
    ] {
        assert!(!bad.fits(4, 128, 1_024), "{bad:?}");
    }
}

/// A probe may stay unanswered for three unloaded round trips and the target delay, or four round trips as they are now, and 100 us
/// in any case.
//= PROBE-004 test
#[test]
fn the_patience_with_a_probe() {
    for (base_ns, srtt_ns, target_delay_ns, patience_ns) in [
        (50_000, 50_000, 0, 200_000),
        (50_000, 30_000, 0, 150_000),
        (50_000, 30_000, 60_000, 210_000),
        (50_000, 52_500, 60_000, 210_000),
        (50_000, 52_501, 60_000, 210_004),
        (20_000, 20_000, 39_999, 100_000),
        (20_000, 20_000, 40_001, 100_001),
    ] {
        let base_rtt = BaseRtt::new(Instant::ZERO, base_ns, 0);
        let requester = Requester { base_rtt, srtt_ns, target_delay_ns, ..Requester::IDLE };
        assert_eq!(requester.probe_patience_ns(), patience_ns);
    }
}
