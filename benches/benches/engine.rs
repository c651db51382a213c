//! The engine per data packet through both ends, its share of acknowledgements included, beside smoltcp's TCP in memory.
//! Prints medians of interleaved pairs and their ratios against the targets of `docs/performance.md`.

use std::hint::black_box;

use mrc_benches::{Side, Work, pairs, per_unit, storage, write};
use mrc_core::Instant;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Loopback, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as TcpInstant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

const MESSAGES: u64 = 40;

fn main() {
    let (mut memory_a, mut memory_b) = (storage(1), storage(1));
    let (mut a, mut b) = (Side::new(&mut memory_a, 0, 1), Side::new(&mut memory_b, 1, 1));
    let (of_a, of_b) = (a.qps.clone(), b.qps.clone());
    a.connect(0, &of_b);
    b.connect(1, &of_a);
    let mut now = Instant::from_nanos(1_000);
    write(&mut a, &mut b, &mut now, 4, Work::Headers);
    if std::env::var_os("MRC_BENCH_ONLY_ENGINE").is_some() {
        // For instruction counts: valgrind --tool=callgrind.
        println!("{} packets", write(&mut a, &mut b, &mut now, MESSAGES, Work::Headers));
        return;
    }
    let engine = std::cell::RefCell::new((a, b, now));
    let run = |work| {
        let (a, b, now) = &mut *engine.borrow_mut();
        per_unit(|| write(a, b, now, MESSAGES, work))
    };
    let (headers, tcp, ratio) = pairs(7, || run(Work::Headers), smoltcp_per_segment);
    let fewer = 1.0 / ratio;
    println!(
        "engine: headers only     {headers:7.1} ns per data packet, both ends (target 100, stretch 82) {}",
        verdict(headers <= 100.0)
    );
    println!("engine: smoltcp          {tcp:7.1} ns per data segment, MTU 4180, checksums off");
    println!("engine: smoltcp / engine {fewer:7.1} x (target 3.5, stretch 8) {}", verdict(fewer >= 3.5));
    let (full, _, _) = pairs(5, || run(Work::CopyAndIcrc), || 1.0);
    println!(
        "engine: copy and ICRC    {full:7.1} ns per 4 KiB packet, both ends, cache-warm (target 300) {}",
        verdict(full <= 300.0)
    );
}

fn verdict(met: bool) -> &'static str {
    if met { "PASS" } else { "MISS" }
}

/// smoltcp's loopback without checksums and with the MTU that carries 4 KiB and a bit.
struct Plain(Loopback);

impl Device for Plain {
    type RxToken<'a> = <Loopback as Device>::RxToken<'a>;
    type TxToken<'a> = <Loopback as Device>::TxToken<'a>;

    fn receive(&mut self, at: TcpInstant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.0.receive(at)
    }

    fn transmit(&mut self, at: TcpInstant) -> Option<Self::TxToken<'_>> {
        self.0.transmit(at)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = self.0.capabilities();
        caps.max_transmission_unit = 4180 + 14;
        caps.checksum = ChecksumCapabilities::ignored();
        caps
    }
}

/// Nanoseconds per full segment of a bulk transfer through smoltcp, both ends in one interface.
fn smoltcp_per_segment() -> f64 {
    const TOTAL: usize = 40 << 20;
    let mut device = Plain(Loopback::new(Medium::Ethernet));
    let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
    let mut iface = Interface::new(config, &mut device, TcpInstant::from_micros(0));
    iface.update_ip_addrs(|list| list.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8)).expect("room for an address"));
    let socket =
        || tcp::Socket::new(tcp::SocketBuffer::new(vec![0; 256 << 10]), tcp::SocketBuffer::new(vec![0; 256 << 10]));
    let mut sockets = SocketSet::new(Vec::new());
    let (server, client) = (sockets.add(socket()), sockets.add(socket()));
    sockets.get_mut::<tcp::Socket<'_>>(server).listen(1234).expect("listen");
    let from = sockets.get_mut::<tcp::Socket<'_>>(client);
    from.connect(iface.context(), (IpAddress::v4(127, 0, 0, 1), 1234), 65_000).expect("connect");
    let data = vec![7u8; 256 << 10];
    let (mut sent, mut got, mut micros) = (0usize, 0usize, 0i64);
    per_unit(|| {
        while got < TOTAL {
            micros += 10;
            iface.poll(TcpInstant::from_micros(micros), &mut device, &mut sockets);
            let from = sockets.get_mut::<tcp::Socket<'_>>(client);
            if from.can_send() && sent < TOTAL {
                sent += from.send_slice(&data[..data.len().min(TOTAL - sent)]).expect("open");
            }
            let to = sockets.get_mut::<tcp::Socket<'_>>(server);
            if to.can_recv() {
                got += to.recv(|bytes| (bytes.len(), black_box(bytes).len())).expect("open");
            }
        }
        (TOTAL / 4128) as u64
    })
}
