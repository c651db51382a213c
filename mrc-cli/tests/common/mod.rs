//! What tests of programs that run side by side share.

use std::process::{Child, Command, Output, Stdio};

/// The program.
pub(crate) const MRC: &str = env!("CARGO_BIN_EXE_mrc");

/// A child that is killed at the end.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn start(args: &[&str]) -> Running {
    let mut command = Command::new(MRC);
    Running(command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

pub(crate) fn mrc(args: &[&str]) -> Output {
    Command::new(MRC).args(args).output().unwrap()
}
