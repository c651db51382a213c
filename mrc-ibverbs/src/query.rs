//! What the device, its port and its GID table say of themselves. Lengths that callers pass are honoured: structures grew
//! over the years, and callers are older and newer than we.

use core::ffi::{c_int, c_void};

use mrc_afxdp::Interface;
use mrc_core::PortMask;
use mrc_verbs_shim::host::HostFile;
use mrc_wire::PortNum;

use crate::abi::{IbvContext, IbvDeviceAttr, IbvDeviceAttrEx, IbvGidEntry, IbvPortAttr, PORT_ATTR_COMPAT_LEN};
use crate::device::Context;
use crate::engine::{LINK_RATE, MAX_CQ, MAX_CQE, MAX_MR, MAX_QP, MAX_WR};
use crate::object;
use crate::qp::MAX_SGE;

/// Not zero, which programs take for "no vendor"; nobody's.
const VENDOR_ID: u32 = 0x6d_7263;
/// No part that perftest knows: it then uses the plain calls.
const PART_ID: u32 = 1;
const PORTS: u8 = 1;
/// Entries of the GID table.
pub(crate) const GIDS: u32 = 4;
const PKEY: u16 = 0xFFFF;
/// `IBV_GID_TYPE_ROCE_V2`, and the same as sysfs counts.
const GID_TYPE_ROCE_V2: u32 = 2;
const GID_TYPE_SYSFS_ROCE_V2: u32 = 1;

/// Copies the first `len` bytes of `value`.
///
/// # Safety
/// `out` has room for `len` bytes, which are no more than `T` has.
unsafe fn put<T: Copy>(out: *mut c_void, value: &T, len: usize) {
    // SAFETY: the caller says so.
    unsafe { core::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), out.cast(), len.min(size_of::<T>())) };
}

fn device_attr(host: &HostFile) -> IbvDeviceAttr {
    let mut fw_ver = [0; 64];
    for (to, from) in fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from;
    }
    IbvDeviceAttr {
        fw_ver,
        node_guid: host.guid(),
        sys_image_guid: host.guid(),
        max_mr_size: 1 << 47,
        page_size_cap: !0xfff,
        vendor_id: VENDOR_ID,
        vendor_part_id: PART_ID,
        hw_ver: 1,
        max_qp: MAX_QP as c_int,
        max_qp_wr: MAX_WR as c_int,
        device_cap_flags: 0,
        max_sge: MAX_SGE as c_int,
        max_sge_rd: 0,
        max_cq: MAX_CQ as c_int,
        max_cqe: MAX_CQE as c_int,
        max_mr: MAX_MR as c_int,
        max_pd: 1 << 20,
        // Reads and atomics do not exist, and queue pairs ignore how many they are told of. Programs ask for what cards take,
        // and some refuse a device with less (DLSlime).
        rd_atom: [16, 0, 16 * MAX_QP as c_int, 16, 0],
        atomic_cap: 0,
        max_ee: 0,
        max_rdd: 0,
        max_mw: 0,
        raw_and_mcast: [0; 5],
        max_ah: 0,
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: PORTS,
    }
}

pub(crate) unsafe extern "C" fn query_device(context: *mut IbvContext, attr: *mut IbvDeviceAttr) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for the structure, which never grew.
        unsafe { attr.write(device_attr(context.shared.host)) };
        Ok(())
    };
    object::code(query())
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut IbvContext,
    input: *const u32,
    attr: *mut IbvDeviceAttrEx,
    size: usize,
) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        // SAFETY: null or the application's; its only field is a mask of extensions.
        let extended = unsafe { input.as_ref() }.is_some_and(|mask| *mask != 0);
        if attr.is_null() || extended || size < size_of::<IbvDeviceAttr>() + size_of::<u32>() {
            return Err(libc::EINVAL);
        }
        let full = IbvDeviceAttrEx {
            orig_attr: device_attr(context.shared.host),
            comp_mask: 0,
            capabilities: [0; 40],
            phys_port_cnt_ex: u32::from(PORTS),
        };
        // SAFETY: the application gives room for `size` bytes; a newer, longer structure ends in zeros.
        unsafe {
            attr.cast::<u8>().write_bytes(0, size);
            put(attr.cast(), &full, size);
        }
        Ok(())
    };
    object::code(query())
}

/// `IBV_MTU_*` of a payload.
fn mtu(payload: u16) -> u32 {
    (payload / 128).max(2).ilog2()
}

/// Planes that a controller disabled are down as well.
fn port_attr(host: &HostFile, enabled: PortMask) -> IbvPortAttr {
    let up = |(plane, number): (&mrc_verbs_shim::host::HostPlane, u8)| {
        let linked = Interface::by_name(&plane.interface).is_ok_and(|found| found.admin_up && found.carrier);
        linked && enabled.contains(PortNum::from_plane(number))
    };
    let active = host.planes.iter().zip(0..).any(up);
    IbvPortAttr {
        state: if active { 4 } else { 1 }, // IBV_PORT_ACTIVE, IBV_PORT_DOWN
        max_mtu: mtu(4096),
        active_mtu: mtu(host.path_mtu().unwrap_or(256)),
        gid_tbl_len: GIDS as c_int,
        port_cap_flags: 1 << 26, // IBV_PORT_IP_BASED_GIDS
        max_msg_sz: 1 << 30,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width: 2,                        // four lanes
        active_speed: 32,                       // of 25 Gb/s
        phys_state: if active { 5 } else { 3 }, // LinkUp, Disabled
        link_layer: 2,                          // IBV_LINK_LAYER_ETHERNET
        ..IbvPortAttr::default()
    }
}

/// Behind the header's inline, which passes the length of the structure it was compiled with.
pub(crate) unsafe extern "C" fn query_port(context: *mut IbvContext, port: u8, attr: *mut c_void, len: usize) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        if attr.is_null() || port != PORTS {
            return Err(libc::EINVAL);
        }
        let enabled = context.shared.opened().and_then(|engine| engine.ports_enabled().ok()).unwrap_or(PortMask::ALL);
        let full = port_attr(context.shared.host, enabled);
        // SAFETY: the application gives room for `len` bytes; a newer, longer structure ends in zeros.
        unsafe {
            attr.cast::<u8>().write_bytes(0, len);
            put(attr, &full, len);
        }
        Ok(())
    };
    object::code(query())
}

/// The plain symbol, which old programs call: the structure was shorter then.
pub(crate) unsafe extern "C" fn query_port_compat(context: *mut IbvContext, port: u8, attr: *mut c_void) -> c_int {
    // SAFETY: the same contract, with the length that every caller has.
    unsafe { query_port(context, port, attr, PORT_ATTR_COMPAT_LEN) }
}

/// What the planes together carry, in units of 100 Mb/s.
pub(crate) unsafe extern "C" fn query_port_speed(context: *mut IbvContext, port: u8, speed: *mut u64) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        if speed.is_null() || port != PORTS {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for a number.
        unsafe { speed.write(LINK_RATE * context.shared.host.planes.len() as u64 / 100_000_000) };
        Ok(())
    };
    object::code(query())
}

fn gid(host: &HostFile, index: u32) -> Option<[u8; 16]> {
    host.gids().get(index as usize).map(std::net::Ipv6Addr::octets)
}

pub(crate) unsafe extern "C" fn query_gid(
    context: *mut IbvContext,
    port: u8,
    index: c_int,
    out: *mut [u8; 16],
) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        let index = u32::try_from(index).map_err(|_| libc::EINVAL)?;
        let gid = gid(context.shared.host, index).filter(|_| port == PORTS && !out.is_null()).ok_or(libc::EINVAL)?;
        // SAFETY: not null; the application gives room for a GID.
        unsafe { out.write(gid) };
        Ok(())
    };
    object::minus_one(query())
}

fn gid_entry(host: &HostFile, index: u32) -> Option<IbvGidEntry> {
    let octets = gid(host, index)?;
    let (upper, lower) = octets.split_at(8);
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let ndev_ifindex = host.planes.first().and_then(|plane| Interface::by_name(&plane.interface).ok());
    Some(IbvGidEntry {
        gid: [word(upper), word(lower)],
        gid_index: index,
        port_num: u32::from(PORTS),
        gid_type: GID_TYPE_ROCE_V2,
        ndev_ifindex: ndev_ifindex.map_or(0, |interface| interface.index),
    })
}

pub(crate) unsafe extern "C" fn query_gid_ex(
    context: *mut IbvContext,
    port: u32,
    index: u32,
    out: *mut c_void,
    flags: u32,
    size: usize,
) -> c_int {
    let query = || {
        let context = object::get::<Context>(context)?;
        if out.is_null() || flags != 0 || port != u32::from(PORTS) {
            return Err(libc::EINVAL);
        }
        let entry = gid_entry(context.shared.host, index).ok_or(libc::EINVAL)?;
        if entry.gid == [0; 2] {
            return Err(libc::ENODATA);
        }
        // SAFETY: the application gives room for `size` bytes.
        unsafe { put(out, &entry, size) };
        Ok(())
    };
    object::code(query())
}

pub(crate) unsafe extern "C" fn query_gid_table(
    context: *mut IbvContext,
    out: *mut c_void,
    max: usize,
    flags: u32,
    size: usize,
) -> isize {
    let query = || {
        let context = object::get::<Context>(context)?;
        let entries: Vec<IbvGidEntry> = (0..GIDS)
            .filter_map(|index| gid_entry(context.shared.host, index))
            .filter(|entry| entry.gid != [0; 2])
            .collect();
        if flags != 0 || size < size_of::<IbvGidEntry>() || entries.len() > max || out.is_null() {
            return Err(libc::EINVAL);
        }
        for (index, entry) in entries.iter().enumerate() {
            // SAFETY: the application gives room for `max` entries of `size` bytes, and there are no more.
            unsafe { put(out.wrapping_byte_add(index * size), entry, size) };
        }
        Ok(entries.len() as isize)
    };
    query().unwrap_or_else(|code: c_int| -(code as isize))
}

pub(crate) unsafe extern "C" fn query_gid_type(context: *mut IbvContext, port: u8, index: u32, out: *mut u32) -> c_int {
    let query = || {
        object::get::<Context>(context)?;
        if out.is_null() || port != PORTS || index >= GIDS {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for the number.
        unsafe { out.write(GID_TYPE_SYSFS_ROCE_V2) };
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn query_pkey(context: *mut IbvContext, port: u8, index: c_int, out: *mut u16) -> c_int {
    let query = || {
        object::get::<Context>(context)?;
        if out.is_null() || port != PORTS || index != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for the key.
        unsafe { out.write(PKEY.to_be()) };
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn get_pkey_index(context: *mut IbvContext, port: u8, pkey: u16) -> c_int {
    let known = object::get::<Context>(context).is_ok() && port == PORTS && u16::from_be(pkey) == PKEY;
    if known {
        return 0;
    }
    object::set_errno(libc::EINVAL);
    -1
}

#[cfg(test)]
mod tests {
    use super::mtu;

    #[test]
    fn payloads_have_the_numbers_of_verbs() {
        assert_eq!([256, 512, 1024, 2048, 4096].map(mtu), [1, 2, 3, 4, 5]);
    }
}
