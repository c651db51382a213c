//! Numbers as people write them in scripts and knobs.

/// A number: decimal or hexadecimal, `_` allowed, negative allowed.
pub(crate) fn number(text: &str) -> Option<i128> {
    let clean = text.replace('_', "");
    let (negative, digits) = clean.strip_prefix('-').map_or((false, clean.as_str()), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok()? as i128,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}
