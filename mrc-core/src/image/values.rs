//! Values in images that no list of fields describes, and those of `mrc-wire`.

use mrc_wire::{
    DscpPlan, Encap, EndpointOp, Ev, EvField, EvTemplate, Ip, Msn, NackReason, Outer, PdcidOrder, PortNum, Psn, Qpn,
    Rkey, Srh, Syndrome, Verdict, WireConfig,
};

use super::{Reader, Stored, Writer, stored};
use crate::{Discard, PortMask};

stored!(struct DscpPlan { no_trim, trimmable, trimmable_retx, trimmed, trimmed_lasthop, control });
stored!(enum PdcidOrder { 0 => SenderFirst, 1 => RequesterFirst });
stored!(struct WireConfig {
    udp_dport, udp_dport_accept, dscp, ev_high_half_in_sport, bth_se_bit, neth_cc_type, pdcid_order, eeth_op_bit,
});
stored!(enum EndpointOp { 0 => PortStatusUpdate, 1 => EvProbe });
stored!(enum Ip { 4 => V4(octets), 6 => V6(octets) });
stored!(enum Verdict { 0 => None, 1 => SkipOnce, 2 => AlwaysSkip });
stored!(newtype Ev);
stored!(newtype Rkey);
stored!(newtype Msn);
stored!(struct EvField { width, init_val, min_val, max_val, mask });
stored!(struct Srh { segments_left, segment });
stored!(struct Outer { src, dst, srh });
stored!(struct Encap { eth_src, eth_dst, outer, src, dst, hop_limit, outer_hop_limit });

/// Values that other types stand for: how each is written, and which it may be.
macro_rules! by_value {
    ($($name:ty: $raw:ty = $write:expr, $read:expr;)*) => {$(
        impl Stored for $name {
            fn save(&self, to: &mut Writer<'_>) {
                let write: fn(&$name) -> $raw = $write;
                write(self).save(to);
            }

            fn load(from: &mut Reader<'_>) -> Option<Self> {
                let read: fn($raw) -> Option<$name> = $read;
                read(Stored::load(from)?)
            }
        }
    )*};
}

by_value! {
    Psn: u32 = |psn| psn.value(), |raw| Some(Psn::new(raw)).filter(|psn| psn.value() == raw);
    Qpn: u32 = |qpn| qpn.value(), |raw| Some(Qpn::new(raw)).filter(|qpn| qpn.value() == raw);
    PortNum: u8 = |port| port.value(), PortNum::new;
    NackReason: u8 = |reason| reason.to_u8(), |raw| Some(NackReason::from_u8(raw));
    PortMask: u32 = |mask| mask.bits(), |raw| Some(PortMask::from_bits(raw)).filter(|mask| mask.bits() == raw);
    Discard: u8 = |why| *why as u8, |raw| Discard::ALL.get(usize::from(raw)).copied();
    Syndrome: u8 = |syndrome| syndrome.to_u8(), |raw| Some(Syndrome::from_u8(raw));
    EvTemplate: [u64; EvTemplate::WORDS] = EvTemplate::to_words, |raw| EvTemplate::from_words(&raw);
}
