//! mrc-verbs-shim
