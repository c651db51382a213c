//! Known answers, the two engines against each other, and the copy.

use super::*;

/// A congestion notification of a RoCEv2 network adapter, as published: an anchor outside this project.
const HW_CNP: &str = "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7\
002800008100ffff40000118000000000000000000000000000000000000000082fd002a";

fn hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

//= ICRC-001 test
#[test]
fn the_register_matches_the_published_check_values() {
    let mut crc = soft::Crc::new();
    crc.update(b"123456789");
    assert_eq!(crc.finish(), 0xCBF4_3926);
    let mut crc = soft::Crc::new();
    crc.update(&[0xFF; 8]);
    assert_eq!(crc.finish(), engine::AFTER_EIGHT_ONES);
}

//= ICRC-002, ICRC-003, ICRC-005 test
#[test]
fn a_frame_of_real_hardware_verifies() {
    let frame = hex(HW_CNP);
    let end = frame.len() - LEN;
    assert_eq!(compute(&frame[14..end]), Some([0x82, 0xFD, 0x00, 0x2A]));
    assert!(verify(&frame, 14, end));
    assert!(!verify(&frame, 14, end - 1));
    assert!(!verify(&frame, 14, end + 1));
}

/// The same packet by the definition: mask bytes one by one, then one bitwise CRC.
fn by_definition(l3: &[u8]) -> [u8; 4] {
    let mut b = l3.to_vec();
    let udp = if b[0] >> 4 == 6 {
        b[0] |= 0x0F;
        for i in [1, 2, 3, 7] {
            b[i] = 0xFF;
        }
        40
    } else {
        for i in [1, 8, 10, 11] {
            b[i] = 0xFF;
        }
        4 * usize::from(b[0] & 15)
    };
    for i in [6, 7, 12] {
        b[udp + i] = 0xFF;
    }
    let mut reg = !0u32;
    for byte in [0xFF; 8].iter().chain(&b) {
        reg ^= u32::from(*byte);
        for _ in 0..8 {
            reg = if reg & 1 == 1 { reg >> 1 ^ 0xEDB8_8320 } else { reg >> 1 };
        }
    }
    (!reg).to_le_bytes()
}

proptest::proptest! {
    #[test]
    fn both_engines_agree(bytes: Vec<u8>, cut: usize) {
        let (a, b) = bytes.split_at(cut.checked_rem(bytes.len()).unwrap_or(0));
        let mut soft = soft::Crc::after_eight_ones();
        let mut used = Crc::after_eight_ones();
        soft.update(&bytes);
        used.update(a);
        used.update(b);
        proptest::prop_assert_eq!(soft.finish(), used.finish());
    }

    //= ICRC-004, ICRC-005, ICRC-006, ICRC-007 test
    #[test]
    fn headers_are_masked_as_the_definition_says(version in 0usize..12, mut bytes in proptest::collection::vec(0u8.., 40..700)) {
        bytes[0] = [0x60, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E, 0x4F][version];
        let ip = if version == 0 { 40 } else { 4 * usize::from(bytes[0] & 15) };
        proptest::prop_assume!(bytes.len() >= ip + 20);
        proptest::prop_assert_eq!(compute(&bytes), Some(by_definition(&bytes)));
    }

    #[test]
    fn copying_sums_what_it_copies(head in proptest::collection::vec(0u8.., 60), src in proptest::collection::vec(0u8.., 0..5000), room in 0usize..5000) {
        let mut head = head;
        head[0] = 0x60;
        let mut dst = vec![0xEE; room];
        let mut icrc = Icrc::over_headers(&head).unwrap();
        let n = copy_and_update(&mut icrc, &mut dst, &src);
        proptest::prop_assert_eq!(n, room.min(src.len()));
        proptest::prop_assert_eq!(&dst[..n], &src[..n]);
        proptest::prop_assert!(dst[n..].iter().all(|b| *b == 0xEE));
        head.extend_from_slice(&src[..n]);
        proptest::prop_assert_eq!(Some(icrc.finish()), compute(&head));
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, a: usize, b: usize) {
        let _ = (compute(&bytes), start(&bytes), verify(&bytes, a, b));
    }
}

#[test]
fn short_or_foreign_headers_have_no_sum() {
    for len in 0..60 {
        assert_eq!(compute(&[0x60; 60][..len]), None);
    }
    assert!(compute(&[0x60; 60]).is_some());
    assert_eq!(compute(&[0x45; 39]), None);
    assert!(compute(&[0x45; 40]).is_some());
    assert_eq!(compute(&[0x4F; 79]), None);
    assert_eq!(compute(&[0x44; 80]), None);
    assert_eq!(compute(&[0x50; 80]), None);
}
