//! EV expansion and the SRv6 template against their definitions, bit by bit.

use mrc_wire::Ev;
use mrc_wire::ev::{self, EvError, EvField};
use mrc_wire::srv6::{CopyOp, EvTemplate, TemplateError};

/// `data` is 32 bytes of EV bits, then a count and as many field descriptions of 16 bytes; what is left are copy
/// operations of 3 bytes over the EV bits' first half.
pub fn ev_expand(data: &[u8]) {
    let Some((bits, rest)) = data.split_first_chunk::<32>() else { return };
    let Some((&count, rest)) = rest.split_first() else { return };
    let (described, rest) = rest.split_at(rest.len().min(usize::from(count % 24) * 16));
    let mut fields = Vec::new();
    let mut widths = Vec::new();
    for description in described.chunks_exact(16) {
        let (field, width) = field(description);
        widths.push(width);
        // A format may have more fields than the profile; or fewer, by one more width than field and back.
        if description[0] & 0x40 == 0 {
            fields.push(field);
        }
        if description[0] & 0xC0 == 0xC0 {
            widths.pop();
        }
    }
    expansion(bits, &fields, &widths);
    template(bits, rest);
    placement(bits);
}

/// A field, tamed so that most are valid, and the width of its place in the format.
fn field(description: &[u8]) -> (EvField, u8) {
    let word = |at: usize| u32::from_be_bytes(description[at..at + 4].try_into().unwrap_or_default());
    let tame = description[0] & 0x10 == 0;
    let width = if tame { description[1] % 33 } else { description[1] };
    let place = if tame { width.saturating_add(description[2] % 8) } else { description[2] };
    let inside = if width < 32 { (1u32 << width) - 1 } else { u32::MAX };
    let keep = if tame { inside } else { u32::MAX };
    let mask = word(4) & keep;
    let room = if tame { ((1u64 << mask.count_ones()) - 1) as u32 } else { u32::MAX };
    let max_val = word(12) & room;
    let min_val = if tame { max_val / 2 } else { word(12) >> 3 };
    (EvField { width, init_val: word(8) & keep, min_val, max_val, mask }, place)
}

fn expansion(bits: &[u8; 32], fields: &[EvField], widths: &[u8]) {
    let given: Vec<bool> = bits.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let mut values = Vec::new();
    let result = ev::expand_with(bits, fields, widths, |at, value| values.push((at, value)));
    let valid = ev::check(fields, widths);
    assert_eq!(valid, checked(fields, widths));
    if let Err(error) = valid {
        assert_eq!(result, Err(error));
        assert!(values.is_empty() && !error.to_string().is_empty());
        return;
    }
    let mut left = given.iter().copied();
    let mut expanded = Vec::new();
    let mut expected = Vec::new();
    for (at, &width) in widths.iter().enumerate() {
        let mut value = vec![false; usize::from(width)];
        let mut number = 0u32;
        if let Some(field) = fields.get(at) {
            for bit in (0..u32::from(field.width)).rev() {
                let set = if field.mask >> bit & 1 == 1 {
                    left.next().unwrap_or(false)
                } else {
                    field.init_val >> bit & 1 == 1
                };
                let place = value.len() - 1 - bit as usize;
                value[place] = set;
                number |= u32::from(set) << bit;
            }
        }
        expected.push((at, number));
        expanded.extend(value);
    }
    assert_eq!(values, expected);
    let taken = given.len() - left.len();
    if let Some(unused) = left.position(|set| set) {
        assert_eq!(result, Err(EvError::UnusedBit((taken + unused) as u16)));
        return;
    }
    expanded.resize(256, false);
    let bytes: Vec<u8> =
        expanded.chunks(8).map(|bits| bits.iter().fold(0, |byte, &set| byte << 1 | u8::from(set))).collect();
    let result = result.expect("valid fields and no bit left over");
    assert_eq!(result[..], bytes[..]);
    assert_eq!(ev::srv6_destination(&result)[..], bytes[..16]);
    assert_eq!(ev::srh_segment(&result)[..], bytes[16..]);
    assert_eq!(ev::stev(&result).0.to_be_bytes()[..], bytes[..4]);
    assert_eq!(ev::udp(&result).0, u32::from(bytes[0]) << 8 | u32::from(bytes[1]));
}

/// The rules for fields, in the order of the fields, then the length of the format.
fn checked(fields: &[EvField], widths: &[u8]) -> Result<(), EvError> {
    if fields.len() > widths.len() {
        return Err(EvError::TooManyFields { given: fields.len(), allowed: widths.len() });
    }
    for (at, (field, &place)) in fields.iter().zip(widths).enumerate() {
        let at = at as u8;
        let limit = 1u64.checked_shl(field.width.into()).unwrap_or(0);
        if field.width > 32 || field.width > place {
            return Err(EvError::Width { field: at });
        }
        if u64::from(field.init_val) >= limit {
            return Err(EvError::InitVal { field: at });
        }
        if u64::from(field.mask) >= limit {
            return Err(EvError::Mask { field: at });
        }
        if field.min_val > field.max_val || u64::from(field.max_val) >= 1 << field.mask.count_ones() {
            return Err(EvError::Range { field: at });
        }
    }
    let total: u32 = widths.iter().map(|&width| u32::from(width)).sum();
    if total > 256 { Err(EvError::TooWide(total)) } else { Ok(()) }
}

fn template(bits: &[u8; 32], rest: &[u8]) {
    let base: [u8; 16] = bits[..16].try_into().unwrap_or_default();
    let ev = Ev(u32::from_be_bytes([bits[28], bits[29], bits[30], bits[31]]));
    let ops: Vec<CopyOp> = rest
        .chunks_exact(3)
        .map(|op| CopyOp { ev_lsb: op[0] % 34, width: op[1] % 34, dst_msb_offset: op[2] % 130 })
        .collect();
    let reads_outside = |op: &CopyOp| op.width == 0 || op.ev_lsb + op.width > 32;
    let writes_outside = |op: &CopyOp| u32::from(op.dst_msb_offset) + u32::from(op.width) > 128;
    let at_fault = ops.len() > EvTemplate::MAX_OPS || ops.iter().any(|op| reads_outside(op) || writes_outside(op));
    match EvTemplate::new(base, &ops) {
        Err(error) => {
            let true_of = |at: u8, what: &dyn Fn(&CopyOp) -> bool| ops.get(usize::from(at)).is_some_and(what);
            assert!(match error {
                TemplateError::TooMany(count) => count == ops.len() && count > EvTemplate::MAX_OPS,
                TemplateError::EvBits(at) => true_of(at, &reads_outside),
                TemplateError::DstBits(at) => true_of(at, &writes_outside),
                _ => false,
            });
        }
        Ok(template) => {
            assert!(!at_fault);
            let mut address = u128::from_be_bytes(base);
            for op in &ops {
                for bit in 0..u32::from(op.width) {
                    let set = ev.0 >> (u32::from(op.ev_lsb) + bit) & 1;
                    let place = 128 - u32::from(op.dst_msb_offset) - u32::from(op.width) + bit;
                    address = address & !(1 << place) | u128::from(set) << place;
                }
            }
            assert_eq!(template.apply(ev), address.to_be_bytes());
        }
    }
}

/// What is put into flow label and source port is read from there again.
fn placement(bits: &[u8; 32]) {
    let ev = Ev(u32::from_be_bytes([bits[0], bits[1], bits[2], bits[3]]));
    for swapped in [false, true] {
        let (label, sport) = ev::place(ev, true, swapped);
        assert_eq!(ev::echo(label.into(), sport, true, swapped), ev);
        let (_, sport) = ev::place(ev, false, swapped);
        assert_eq!(ev::echo(0, sport, false, swapped).0, u32::from(sport));
    }
}
