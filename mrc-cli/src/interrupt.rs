//! Ctrl-C and SIGTERM as a flag, for commands that have something to put in order or to write before they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::iterator::Signals;

/// Ctrl-C, turned into a flag so that everything is removed in order.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM; a second one ends the program at once.
    pub fn install() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// As [`Interrupt::install`], but only a second one that comes a second or more later ends the program at once:
    /// `timeout` and batch systems send the same signal to the program and to its group.
    pub fn patient() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut signals = Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        let set = Arc::clone(&flag);
        std::thread::spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in signals.forever() {
                set.store(true, Ordering::Relaxed);
                if first.get_or_insert_with(Instant::now).elapsed() >= Duration::from_secs(1) {
                    std::process::exit(130);
                }
            }
        });
        Ok(Self(flag))
    }

    /// The flag itself, for others to look at.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
