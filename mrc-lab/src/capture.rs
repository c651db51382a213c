//! Recording of a switch port: the packets shortly before and after a moment, as pcapng.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};

use crate::exec::{LabError, enter};

/// One recorded packet.
#[derive(Debug, Clone)]
pub struct CapturedPacket {
    /// Time since the Unix epoch.
    pub at: Duration,
    /// Length on the wire, in bytes.
    pub len: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// A recording in progress.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    marked: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<CapturedPacket>>>,
}

impl Capture {
    /// Starts to record `interface` in `namespace`: the last `before` packets until [`Capture::mark`], then `after` more,
    /// the first `snaplen` bytes of each.
    ///
    /// # Errors
    /// No such namespace or interface, or missing rights.
    pub fn start(
        namespace: &str,
        interface: &str,
        snaplen: usize,
        before: usize,
        after: usize,
    ) -> Result<Self, LabError> {
        let fd = enter(namespace, || open(interface))?.map_err(|errno| LabError::Os {
            what: format!("capture on {interface} in {namespace}"),
            source: errno.into(),
        })?;
        let (stop, marked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (thread_stop, thread_marked) = (Arc::clone(&stop), Arc::clone(&marked));
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("mrc-capture".into())
            .spawn(move || {
                let _ = ready.send(());
                record(fd, snaplen, before, after, &thread_stop, &thread_marked)
            })
            .map_err(|source| LabError::Os { what: "capture thread".into(), source })?;
        let _ = is_ready.recv();
        Ok(Self { stop, marked, thread: Some(thread) })
    }

    /// The moment to record around is now.
    pub fn mark(&self) {
        self.marked.store(true, Ordering::Release);
    }

    /// Whether everything wanted was recorded.
    pub fn is_complete(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Vec<CapturedPacket> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(interface: &str) -> nix::Result<OwnedFd> {
    let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    let address = nix::ifaddrs::getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address.filter(|address| address.as_link_addr().is_some()))
        .ok_or(nix::errno::Errno::ENODEV)?;
    bind(fd.as_raw_fd(), &address)?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20))?;
    Ok(fd)
}

fn record(
    fd: OwnedFd,
    snaplen: usize,
    before: usize,
    after: usize,
    stop: &AtomicBool,
    marked: &AtomicBool,
) -> Vec<CapturedPacket> {
    let mut socket = File::from(fd);
    let mut buffer = vec![0u8; 65536];
    let mut kept: VecDeque<CapturedPacket> = VecDeque::with_capacity(before + after + 1);
    let mut since_mark = 0;
    while !stop.load(Ordering::Acquire) && since_mark < after {
        // A timeout is only a chance to look at the flags.
        let Ok(len) = socket.read(&mut buffer) else { continue };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let bytes = buffer[..len.min(snaplen)].to_vec();
        kept.push_back(CapturedPacket { at, len: len as u32, bytes });
        if marked.load(Ordering::Acquire) {
            since_mark += 1;
        } else if kept.len() > before {
            kept.pop_front();
        }
    }
    kept.into()
}

/// Writes `packets` as pcapng; `interface` names the place in the file. No packet is shorter there than its bytes, which readers of
/// captures would take for damage: those of a simulation may be, where a scenario gives packets sizes of its own.
///
/// # Errors
/// The file cannot be written.
pub fn write_pcapng(path: &Path, interface: &str, snaplen: u32, packets: &[CapturedPacket]) -> Result<(), LabError> {
    let failed = |source| LabError::Os { what: format!("writing {}", path.display()), source };
    let broken = |error: pcap_file::PcapError| match error {
        pcap_file::PcapError::IoError(error) => failed(error),
        error => failed(std::io::Error::other(error.to_string())),
    };
    let file = std::io::BufWriter::new(File::create(path).map_err(failed)?);
    let mut writer = PcapNgWriter::new(file).map_err(broken)?;
    let nanoseconds = InterfaceDescriptionOption::IfTsResol(9);
    let name = InterfaceDescriptionOption::IfName(interface.into());
    writer
        .write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen,
            options: vec![name, nanoseconds],
        })
        .map_err(broken)?;
    for packet in packets {
        writer
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: packet.at,
                original_len: packet.len.max(packet.bytes.len() as u32),
                data: packet.bytes.as_slice().into(),
                options: vec![],
            })
            .map_err(broken)?;
    }
    writer.into_inner().flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    #[test]
    fn no_packet_of_a_file_is_shorter_than_its_bytes() {
        let path = std::env::temp_dir().join(format!("mrc-lab-capture-{}", std::process::id()));
        let packet = |len, bytes| CapturedPacket { at: Duration::ZERO, len, bytes: vec![0; bytes] };
        write_pcapng(&path, "p0-hA", 256, &[packet(64, 110), packet(4_226, 110)]).unwrap();
        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut sizes = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                sizes.push((packet.original_len, packet.data.len()));
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sizes, [(110, 110), (4_226, 110)]);
    }
}
