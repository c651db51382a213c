//! What a target may choose in the packets that it sends. Another choice than ours fails the scripts that name its field.
//! Elsewhere it is a note, so that it does not hide what the suite says of everything else.

use crate::knobs::Knobs;
use crate::packet::{Difference, Packet, show};
use crate::script::{Op, PacketSpec, Script};

/// Fields of the layers below MRC that no receiver looks at. A target that sets one otherwise does so in every packet.
const LOWER_LAYERS: &[&str] = &["ip.hop", "ip.ttl", "ip.id", "outer.hop", "udp.checksum"];

/// Fields of a SACK by which a responder slows the requester down.
const FLOW_CONTROL: &[&str] = &["pen", "restore"];

/// Fields of TSETH, and the bit that announces it.
const TIMESTAMP: &[&str] = &["ts", "stamp", "tsr", "ts_res", "ftype"];

/// Whether the script names this field of `header` in the packet.
fn names(spec: &PacketSpec, header: &str, field: &str) -> bool {
    let whole = |name: &str| name.strip_prefix(header).and_then(|rest| rest.strip_prefix('.')) == Some(field);
    spec.fields.iter().any(|(name, _)| name == field || whole(name))
}

/// Whether probes of the target count in this script. Elsewhere it may send one more or less: sources disagree about when to
/// probe, and nothing else depends on it.
pub(crate) fn is_about_probes(script: &Script) -> bool {
    let rule =
        |id: &String| ["PROBE-", "PETH-", "RES-", "TIMER-005", "EPOP-"].iter().any(|group| id.starts_with(group));
    // What follows depends on a probe that the script remembers.
    let remembers = |op: &Op| matches!(op, Op::Expect(spec) if spec.value("probe_id").is_some());
    script.requires.iter().any(rule) || script.every_step().iter().any(|step| remembers(&step.op))
}

/// Whether the script is about when Transport ACKs are sent. Elsewhere the target may send one at each advance of its
/// cumulative PSN.
pub(crate) fn is_about_acks(script: &Script) -> bool {
    script.requires.iter().any(|id| id.starts_with("ACK-"))
}

/// Whether this write may come without a timestamp: a requester may leave it out of any packet.
pub(crate) fn without_timestamp(spec: &PacketSpec, knobs: &Knobs, heard: &Packet) -> bool {
    let named = TIMESTAMP.iter().any(|field| names(spec, "tseth", field) || names(spec, "bth", field));
    let fixed = knobs.iter().any(|(name, _)| name == "timestamps");
    spec.kind.is_write() && heard.get("ts") == Some(0) && !named && !fixed
}

/// Takes over from `heard` what the target may choose and `spec` does not name; returns what differed.
pub(crate) fn leave_to_target(
    spec: &PacketSpec,
    knobs: &Knobs,
    heard: &Packet,
    expected: &mut Packet,
) -> Vec<Difference> {
    let named = |field: &str| spec.fields.iter().any(|(name, _)| name == field);
    let lower = |d: &Difference| LOWER_LAYERS.contains(&d.field.as_str()) && !named(&d.field);
    // A requester may ask for an acknowledgement whenever it wants one.
    let asks = |d: &Difference| d.field == "bth.a" && spec.kind.is_write() && !names(spec, "bth", "a");
    // How much a responder slows its peer down, and whether the window comes back, is its own configuration.
    let slows = |d: &Difference| {
        FLOW_CONTROL.iter().any(|field| d.field == format!("seth.{field}") && !names(spec, "seth", field))
    };
    let chosen = |d: &Difference| lower(d) || asks(d) || slows(d);
    let mut noted: Vec<Difference> = heard.field_differences(expected).filter(chosen).collect();
    for difference in &noted {
        take(expected, heard, &difference.field);
    }
    // Over IPv4 the header's checksum covers them.
    if !noted.is_empty() && expected.set("ip.hsum", 0) {
        crate::expect::checksum(expected);
    }
    noted.extend(lower_base(spec, heard, expected));
    if knobs.on("timestamps") && without_timestamp(spec, knobs, heard) {
        noted.push(Difference { field: "bth.ts".into(), expected: "1".into(), actual: "0".into() });
    }
    noted
}

/// A bitmap that begins below the cumulative PSN, with ones for what that covers, and that says the same of the PSNs above:
/// the offset is explicit, and a responder of Ultra Ethernet rounds it down to a multiple of 8.
fn lower_base(spec: &PacketSpec, heard: &Packet, expected: &mut Packet) -> Option<Difference> {
    if spec.kind.name != "sack" || names(spec, "seth", "sack_offset") || heard.get("cack") != expected.get("cack") {
        return None;
    }
    let offset = |packet: &Packet| packet.get("sack_offset").map(|offset| i64::from(offset as u16 as i16));
    let (ours, theirs) = (offset(expected)?, offset(heard)?);
    let below = u32::try_from(ours - theirs).ok().filter(|below| (1..64).contains(below))?;
    let bitmap = expected.get("bitmap")? as u64;
    let same = bitmap << below | ((1 << below) - 1);
    // Nothing that has arrived may fall out at the upper end, and the padding ends at the cumulative PSN.
    if ours != 1 || (bitmap << below) >> below != bitmap || heard.get("bitmap") != Some(same.into()) {
        return None;
    }
    take(expected, heard, "sack_offset");
    take(expected, heard, "bitmap");
    let text = |offset: i64| show(u128::from(offset as u16), 16, true);
    Some(Difference { field: "seth.sack_offset".into(), expected: text(ours), actual: text(theirs) })
}

fn take(to: &mut Packet, from: &Packet, name: &str) {
    if let Some(value) = from.get(name) {
        to.set(name, value);
    }
}
