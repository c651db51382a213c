//! What tests of programs that run side by side share. Each test uses a part of it.
#![allow(dead_code)]

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

impl Running {
    /// Waits for its end; what it wrote, as [`Child::wait_with_output`] says.
    pub(crate) fn output(mut self) -> Output {
        let mut pipe = self.0.stderr.take();
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.iter_mut().for_each(|pipe| _ = pipe.read_to_end(&mut bytes).unwrap());
            bytes
        });
        let mut stdout = Vec::new();
        self.0.stdout.iter_mut().for_each(|pipe| _ = pipe.read_to_end(&mut stdout).unwrap());
        Output { status: self.0.wait().unwrap(), stdout, stderr: stderr.join().unwrap() }
    }
}

pub(crate) fn start(args: &[&str]) -> Running {
    let mut command = Command::new(MRC);
    Running(command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

pub(crate) fn mrc(args: &[&str]) -> Output {
    Command::new(MRC).args(args).output().unwrap()
}

/// Asks until there is an answer, for 30 seconds.
pub(crate) fn eventually<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = is() {
            return value;
        }
        assert!(Instant::now() < give_up, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A child whose output is kept for [`finish`].
pub(crate) fn spawn(args: &[&str]) -> Child {
    let mut command = Command::new(MRC);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a child, killing it when it takes longer than `limit`.
pub(crate) fn finish(mut child: Child, limit: Duration) -> Output {
    let give_up = Instant::now() + limit;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("still running after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Fabrics share two cores and the kernel's namespaces: one test at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`mrc_lab::skip`], where switches have to lose, trim and mark as well.
pub(crate) fn skip_trial(test: &str) -> bool {
    if mrc_lab::skip(test) {
        return true;
    }
    let Err(missing) = mrc_lab::impair_requirements() else { return false };
    let _ = std::io::stderr().write_all(format!("SKIP {test}: {missing}\n").as_bytes());
    true
}

/// A folder for what a test writes.
pub(crate) fn folder(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The same, without what an earlier run left.
pub(crate) fn empty_folder(test: &str) -> PathBuf {
    let _ = std::fs::remove_dir_all(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test));
    folder(test)
}

/// What was printed as JSON.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)))
}
