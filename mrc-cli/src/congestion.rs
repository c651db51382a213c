//! Congestion control on the command line.

use mrc_core::QpccInfo;
use mrc_core::cc::{CcConfig, NsccConfig};
use serde::Serialize;

/// Speed of one plane when the command line does not say: what a veth pair claims.
const PLANE_BITS_PER_SECOND: u64 = 10_000_000_000;

/// How much may be in flight.
#[derive(Debug, Clone, clap::Args)]
pub struct CongestionArgs {
    /// Congestion control of the sending side
    #[arg(long, value_enum, default_value_t = CcArg::Fixed)]
    pub cc: CcArg,
    /// Bytes in flight under --cc fixed, all queue pairs together
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10, value_parser = clap::value_parser!(u32).range(4096..))]
    pub window: u32,
    /// Speed of all planes together for --cc nscc, e.g. 40gbit; without it 10 Gb/s for each plane
    #[arg(long, value_name = "RATE", value_parser = mrc_lab::parse_rate)]
    pub link_rate: Option<u64>,
}

/// `--cc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CcArg {
    /// A window that never changes
    Fixed,
    /// The algorithm of the specification: marks and delay open and close the window
    Nscc,
    /// No limit but the window of packet numbers
    None,
}

impl CcArg {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Nscc => "nscc",
            Self::None => "none",
        }
    }
}

impl CongestionArgs {
    /// The profile that the arguments describe, for a host with `planes` and a round trip of `base_rtt_us`.
    pub fn profile(&self, planes: usize, base_rtt_us: u64, trimming: bool) -> CcConfig {
        match self.cc {
            CcArg::Fixed => CcConfig::Fixed { window_bytes: self.window },
            CcArg::None => CcConfig::None,
            CcArg::Nscc => {
                let rate_bps = self.link_rate.unwrap_or(PLANE_BITS_PER_SECOND * planes as u64);
                let base_rtt_ns = u32::try_from(base_rtt_us.saturating_mul(1_000)).unwrap_or(u32::MAX);
                CcConfig::Nscc(NsccConfig::new(rate_bps, base_rtt_ns, trimming))
            }
        }
    }
}

/// What a controller came to.
#[derive(Debug, Clone, Serialize)]
pub struct CcReport {
    algorithm: &'static str,
    /// Window at the end; none without limit.
    cwnd_bytes: Option<u64>,
    /// Smallest round trip measured, in microseconds.
    base_rtt_us: Option<f64>,
    /// Average queueing delay at the end, in microseconds.
    avg_delay_us: Option<f64>,
}

impl CcReport {
    /// From the engine's picture.
    pub fn new(cc: CcArg, info: &QpccInfo) -> Self {
        Self {
            algorithm: cc.name(),
            cwnd_bytes: Some(info.cwnd_bytes).filter(|&bytes| bytes < u64::MAX),
            base_rtt_us: info.base_rtt_ns.map(|ns| ns as f64 / 1e3),
            avg_delay_us: info.base_rtt_ns.map(|_| info.avg_delay_ns as f64 / 1e3),
        }
    }
}

impl std::fmt::Display for CcReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.algorithm)?;
        if let Some(bytes) = self.cwnd_bytes {
            write!(f, ", window {:.1} KiB", bytes as f64 / 1024.0)?;
        }
        if let (Some(base), Some(delay)) = (self.base_rtt_us, self.avg_delay_us) {
            write!(f, ", base RTT {base:.1} us, average queueing delay {delay:.1} us")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_become_a_profile() {
        let args = |cc, link_rate| CongestionArgs { cc, window: 8_192, link_rate };
        assert_eq!(args(CcArg::Fixed, None).profile(2, 50, false), CcConfig::Fixed { window_bytes: 8_192 });
        assert_eq!(args(CcArg::None, None).profile(2, 50, false), CcConfig::None);
        let nscc = |rate| CcConfig::Nscc(NsccConfig::new(rate, 50_000, true));
        assert_eq!(args(CcArg::Nscc, None).profile(2, 50, true), nscc(20_000_000_000));
        assert_eq!(args(CcArg::Nscc, Some(7)).profile(2, 50, true), nscc(7));
    }
}
