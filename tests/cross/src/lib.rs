//! Cross-crate tests live in `tests/`; this library holds only what they share.
