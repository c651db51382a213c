//! In-band telemetry (INT): what switches append to the probes of hosts that ask for it, and how it stands in the frame. Who
//! asks, and who reads, is the host's concern.
//!
//! ```text
//! frame of the probe, as without telemetry | record of hop 1 | record of hop 2 | ... | sum
//! record, 8 bytes: switch, queue in units of 256 bytes, rate in units of 100 Mb/s, load of the link in permille (16 bits each)
//! sum, 8 bytes:    records (8 bits), hops (8 bits), least rate as above (16 bits), delay in nanoseconds (32 bits)
//! ```
//! The records stand behind the packet and count on the wire; lengths inside its headers do not count them. A hop whose
//! record finds no room in the header buffer counts in the sum all the same.

use std::collections::BTreeMap;

use super::packet::{HEADER_MAX, Packet};

/// Bytes of a record, and of the sum.
const RECORD: usize = 8;
const QUEUE_UNIT: u32 = 256;
const RATE_UNIT: u64 = 100_000_000;

/// Switches append to it.
pub(crate) const COLLECTS: u8 = 4;
/// It brings back what another packet collected.
const RETURNS: u8 = 8;

/// What one switch wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Number of the switch in the fabric, modulo 65536.
    pub switch: u16,
    /// Bytes that waited before the link on which the packet left.
    pub queued_bytes: u32,
    /// Rate of that link, in Mb/s.
    pub rate_mbps: u32,
    /// How busy that link was lately, in permille.
    pub load_permille: u16,
}

impl Hop {
    /// Rate in use on the link, in Mb/s, rounded down.
    pub(crate) fn used_mbps(&self) -> u32 {
        (u64::from(self.rate_mbps) * u64::from(self.load_permille) / 1_000) as u32
    }
}

/// What the switches on a path wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The records as they travel.
    bytes: [u8; HEADER_MAX],
    len: u8,
}

/// The last eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    records: u8,
    hops: u8,
    rate: u16,
    delay_ns: u32,
}

impl Sum {
    const EMPTY: Self = Self { records: 0, hops: 0, rate: u16::MAX, delay_ns: 0 };

    fn read(bytes: &[u8]) -> Option<Self> {
        let &[records, hops, r0, r1, d0, d1, d2, d3] = bytes.last_chunk::<RECORD>()?;
        let (rate, delay_ns) = (u16::from_be_bytes([r0, r1]), u32::from_be_bytes([d0, d1, d2, d3]));
        Some(Self { records, hops, rate, delay_ns })
    }

    fn bytes(self) -> [u8; RECORD] {
        let ([r0, r1], [d0, d1, d2, d3]) = (self.rate.to_be_bytes(), self.delay_ns.to_be_bytes());
        [self.records, self.hops, r0, r1, d0, d1, d2, d3]
    }

    fn len(self) -> usize {
        RECORD * (1 + usize::from(self.records))
    }
}

fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn rate_units(bps: u64) -> u16 {
    u16::try_from(bps / RATE_UNIT).unwrap_or(u16::MAX).max(1)
}

impl Report {
    /// The hops that found room, in order.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        let records = &self.bytes[..usize::from(self.len).saturating_sub(RECORD)];
        records.chunks_exact(RECORD).map(|record| Hop {
            switch: word(record),
            queued_bytes: u32::from(word(&record[2..])) * QUEUE_UNIT,
            rate_mbps: u32::from(word(&record[4..])) * (RATE_UNIT / 1_000_000) as u32,
            load_permille: word(&record[6..]),
        })
    }

    fn sum(&self) -> Sum {
        Sum::read(&self.bytes[..usize::from(self.len)]).unwrap_or(Sum::EMPTY)
    }

    /// Switches that wrote.
    pub fn hop_count(&self) -> u8 {
        self.sum().hops
    }

    /// Least rate of the links behind the switches, in Mb/s.
    pub fn bandwidth_mbps(&self) -> u32 {
        u32::from(self.sum().rate) * (RATE_UNIT / 1_000_000) as u32
    }

    /// From the first switch to the receiver, in nanoseconds: queues as they stood, and propagation.
    pub fn delay_ns(&self) -> u32 {
        self.sum().delay_ns
    }
}

impl Packet {
    /// Asks the switches that the packet crosses to write into it. Call it when header and wire length are final.
    pub(crate) fn collect_telemetry(&mut self) {
        self.flags |= COLLECTS;
        self.append(&Sum::EMPTY.bytes());
    }

    /// Sends back what a probe collected. Call it when header and wire length are final.
    pub(crate) fn return_telemetry(&mut self, report: &Report) {
        let bytes = &report.bytes[..usize::from(report.len)];
        if self.header().len() + bytes.len() <= HEADER_MAX {
            self.flags |= RETURNS;
            self.append(bytes);
        } else {
            // The records would not fit behind the longer header of the acknowledgement: the sum does.
            self.flags |= RETURNS;
            self.append(&Sum { records: 0, ..report.sum() }.bytes());
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let len = self.header().len();
        self.buffer()[len..len + bytes.len()].copy_from_slice(bytes);
        self.set_header_len(len + bytes.len());
        self.wire_len += bytes.len() as u32;
    }

    /// The header without telemetry, and the telemetry.
    pub(crate) fn split_telemetry(&self) -> (&[u8], Option<Report>) {
        let header = self.header();
        if self.flags & (COLLECTS | RETURNS) == 0 {
            return (header, None);
        }
        let Some(sum) = Sum::read(header).filter(|sum| sum.len() <= header.len()) else { return (header, None) };
        let (header, records) = header.split_at(header.len() - sum.len());
        let mut report = Report { bytes: [0; HEADER_MAX], len: records.len() as u8 };
        report.bytes[..records.len()].copy_from_slice(records);
        (header, Some(report))
    }
}

/// Bytes that a link has carried, to tell how busy it was since somebody asked last.
#[derive(Clone, Copy, Default)]
struct Meter {
    at_ns: u64,
    tx_bytes: u64,
    permille: u16,
}

/// Over less time a load says nothing.
const WINDOW_NS: u64 = 10_000;

/// The loads of the links of a fabric that probes cross.
#[derive(Default)]
pub(crate) struct Meters(BTreeMap<u32, Meter>);

impl Meters {
    /// How busy the link behind `port` was: since the last probe that crossed it 10 us ago or earlier.
    fn load(&mut self, port: u32, now_ns: u64, tx_bytes: u64, rate_bps: u64) -> u16 {
        let meter = self.0.entry(port).or_default();
        let elapsed = now_ns - meter.at_ns;
        if elapsed >= WINDOW_NS {
            let bits = u128::from(tx_bytes - meter.tx_bytes) * 8 * 1_000_000_000_000;
            let permille = bits / (u128::from(rate_bps) * u128::from(elapsed)).max(1);
            *meter = Meter { at_ns: now_ns, tx_bytes, permille: permille.min(1_000) as u16 };
        }
        meter.permille
    }
}

/// The link by which a packet leaves a switch.
pub(crate) struct Egress {
    pub(crate) switch: u32,
    pub(crate) port: u32,
    pub(crate) queued_bytes: u32,
    pub(crate) rate_bps: u64,
    pub(crate) tx_bytes: u64,
    /// Propagation, and the latency of the switch at the end.
    pub(crate) flight_ns: u32,
}

impl Meters {
    /// Writes the record of a hop behind those of the hops before, and adds it to the sum.
    pub(crate) fn stamp(&mut self, now_ns: u64, egress: &Egress, packet: &mut Packet) {
        let Some(mut sum) = Sum::read(packet.header()) else { return };
        let load = self.load(egress.port, now_ns, egress.tx_bytes, egress.rate_bps);
        let wait_ns = u64::from(egress.queued_bytes) * 8_000_000_000 / egress.rate_bps.max(1);
        let delay_ns = wait_ns + u64::from(egress.flight_ns);
        sum.delay_ns = sum.delay_ns.saturating_add(u32::try_from(delay_ns).unwrap_or(u32::MAX));
        sum.rate = sum.rate.min(rate_units(egress.rate_bps));
        sum.hops = sum.hops.saturating_add(1);
        let at = packet.header().len() - RECORD;
        let has_room = at + 2 * RECORD <= HEADER_MAX;
        if has_room {
            let queue = u16::try_from(egress.queued_bytes.div_ceil(QUEUE_UNIT)).unwrap_or(u16::MAX);
            let fields = [egress.switch as u16, queue, rate_units(egress.rate_bps), load];
            let record: Vec<u8> = fields.iter().flat_map(|field| field.to_be_bytes()).collect();
            packet.buffer()[at..at + RECORD].copy_from_slice(&record);
            sum.records += 1;
            packet.set_header_len(at + 2 * RECORD);
            packet.wire_len += RECORD as u32;
        }
        let end = packet.header().len();
        packet.header_mut()[end - RECORD..].copy_from_slice(&sum.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(switch: u32, queued_bytes: u32, gbps: u64, tx_bytes: u64) -> Egress {
        Egress { switch, port: switch, queued_bytes, rate_bps: gbps * 1_000_000_000, tx_bytes, flight_ns: 500 }
    }

    fn probe(header: usize) -> Packet {
        let mut packet = Packet::new();
        packet.buffer()[..header].fill(0xaa);
        packet.set_header_len(header);
        packet.wire_len = header as u32 + 4;
        packet.collect_telemetry();
        packet
    }

    /// Three hops by hand: 25600 bytes at 100 Gb/s wait 2048 ns, at 40 Gb/s 5120.
    #[test]
    fn hops_append_and_the_answer_brings_them_back() {
        let mut meters = Meters::default();
        let mut packet = probe(100);
        for (switch, queued, gbps) in [(3, 25_600, 100), (9, 0, 400), (70_000, 25_601, 40)] {
            meters.stamp(20_000, &egress(switch, queued, gbps, 125_000), &mut packet);
        }
        assert_eq!(packet.wire_len, 104 + 4 * 8);
        let (header, report) = packet.split_telemetry();
        assert_eq!(header, [0xaa; 100]);
        let report = report.unwrap();
        let hops: Vec<_> =
            report.hops().map(|hop| (hop.switch, hop.queued_bytes, hop.rate_mbps, hop.load_permille)).collect();
        // 125000 bytes in 20 us are 50 Gb/s: half of 100, an eighth of 400, more than all of 40.
        assert_eq!(hops, [(3, 25_600, 100_000, 500), (9, 0, 400_000, 125), (4_464, 25_856, 40_000, 1_000)]);
        let used: Vec<u32> = report.hops().map(|hop| hop.used_mbps()).collect();
        assert_eq!(used, [50_000, 50_000, 40_000]);
        assert_eq!((report.hop_count(), report.bandwidth_mbps()), (3, 40_000));
        assert_eq!(report.delay_ns(), 2_048 + 5_120 + 3 * 500);
        let mut answer = Packet::new();
        answer.set_header_len(120);
        answer.wire_len = 124;
        answer.return_telemetry(&report);
        assert_eq!(answer.split_telemetry().1, Some(report), "as it was collected");
        assert_eq!((answer.split_telemetry().0.len(), answer.wire_len), (120, 124 + 32));
        assert_eq!(answer.flags & COLLECTS, 0, "nobody writes into the answer");
    }

    #[test]
    fn records_without_room_count_in_the_sum() {
        let mut meters = Meters::default();
        let mut packet = probe(HEADER_MAX - 24);
        for _ in 0..5 {
            meters.stamp(20_000, &egress(1, 0, 100, 0), &mut packet);
        }
        let report = packet.split_telemetry().1.unwrap();
        assert_eq!((report.hops().count(), report.hop_count(), report.delay_ns()), (2, 5, 2_500));
        let mut answer = Packet::new();
        answer.set_header_len(HEADER_MAX - 16);
        answer.return_telemetry(&report);
        let back = answer.split_telemetry().1.unwrap();
        assert_eq!((back.hops().count(), back.hop_count(), back.delay_ns()), (0, 5, 2_500));
    }

    #[test]
    fn a_load_is_that_of_ten_microseconds_at_least() {
        let mut meters = Meters::default();
        let rate = 100_000_000_000;
        assert_eq!(meters.load(7, 5_000, 60_000, rate), 0, "too short to say");
        assert_eq!(meters.load(7, 10_000, 62_500, rate), 500);
        assert_eq!(meters.load(7, 15_000, 62_500, rate), 500, "as of before");
        assert_eq!(meters.load(7, 20_000, 62_500, rate), 0);
        assert_eq!(meters.load(8, 20_000, 250_000, rate), 1_000);
    }

    /// Rates that are no whole Gb/s, or less than one.
    #[test]
    fn the_rate_in_use_keeps_fractions_of_a_gigabit() {
        let used = |rate_mbps, load_permille| Hop { switch: 0, queued_bytes: 0, rate_mbps, load_permille }.used_mbps();
        assert_eq!(
            [used(23_700, 1_000), used(23_700, 500), used(500, 600), used(6_553_500, 1_000)],
            [23_700, 11_850, 300, 6_553_500]
        );
    }

    #[test]
    fn packets_without_telemetry_stay_as_they_are() {
        let mut packet = Packet::new();
        packet.set_header_len(60);
        assert_eq!(packet.split_telemetry(), (&[0; 60][..], None));
    }
}
