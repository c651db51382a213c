//! Units and neighbours of Flowing & Jumping's ring.

use super::*;

/// What is kept of a path rounds to the nearest unit, not to 0, and stays at the largest there is.
#[test]
fn units_are_rounded_and_do_not_wrap() {
    let most = u32::from(u16::MAX);
    for (value, kept) in [(0, 1), (63, 1), (191, 1), (192, 2), (most * 128, u16::MAX), ((most + 1) * 128, u16::MAX)] {
        assert_eq!(units(value, 128), kept, "{value}");
    }
    assert_eq!(units(u32::MAX, 100), u16::MAX);
}

/// What a path that leaves was to carry goes to the one behind it, and from the last one to the first.
#[test]
fn what_a_path_was_to_carry_goes_to_its_neighbour() {
    for (leaves, takes) in [(0, 0), (1, 1), (2, 0)] {
        let mut ring = Ring::EMPTY;
        for index in 0..3 {
            ring.add(Instant::ZERO, EvIndex(index));
            (0..=index).for_each(|_| ring.put(index.into(), 100));
        }
        let mut left = [(0, 1), (1, 2), (2, 3)].iter().filter(|&&(index, _)| index != leaves as u16);
        let mut want = [0; 2].map(|_| *left.next().unwrap());
        want[takes].1 += leaves as u16 + 1;
        ring.remove(leaves);
        let have: std::vec::Vec<_> = ring.used().iter().map(|entry| (entry.index.0, entry.quota)).collect();
        assert_eq!(have, want);
    }
    let mut ring = Ring::EMPTY;
    ring.remove(0);
    assert!(ring.used().is_empty());
}
