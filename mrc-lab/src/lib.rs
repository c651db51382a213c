//! mrc-lab
