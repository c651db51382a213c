//! Live update: the image of an endpoint, and an endpoint made of one.

use mrc_core::{Export, Import, path::EvEntry};

use crate::{
    border,
    codes::*,
    fault::{Fault, fault},
    memory::{conclude, lent, mrc_core_endpoint},
    types::{mrc_core_config, mrc_core_text},
};

const _: () = assert!(MRC_CORE_EXPORT_MIN == Export::MIN_BUFFER);

/// Marks memory that holds an import.
const IMPORTING: u64 = 0x4D52_435F_494D_504F;

/// An endpoint that is being filled from an image; opaque.
#[repr(C)]
pub struct mrc_core_import {
    /// First, where an endpoint has its own mark.
    alive: u64,
    import: Import<'static>,
    scratch: &'static mut [EvEntry],
}

/// Begins an image of the endpoint, also when another one was begun.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_export_begin(endpoint: *mut mrc_core_endpoint) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.export = Export::new();
            Ok(MRC_CORE_OK)
        })
    }
}

/// Writes the next piece of the image into `out` and its length to `written`; MRC_CORE_SOME: more follow, MRC_CORE_OK: it was
/// the last. The work of a call is bounded by `len`. The pieces one behind the other are the image. Between the first and the
/// last piece no other call may be made on the endpoint. Afterwards it is as it was, so that an update that fails can be given
/// up. Keep the image as secret as the memory of the endpoint. MRC_CORE_E_MEMORY: `len` is too small for the next record;
/// MRC_CORE_EXPORT_MIN bytes never are.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or `len` writable bytes, `written` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_export(
    endpoint: *mut mrc_core_endpoint,
    out: *mut u8,
    len: usize,
    written: *mut usize,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            border::check(written, "written")?;
            let out = border::slice_mut(out, len, "out")?;
            let piece = e.engine.export(&mut e.export, out).map_err(|_| fault(MRC_CORE_E_MEMORY, "out"))?;
            border::write(written, "written", piece)?;
            Ok(if e.export.is_done() { MRC_CORE_OK } else { MRC_CORE_SOME })
        })
    }
}

/// Begins an endpoint from an image, in memory as for mrc_core_init(). `config` is equal to that of the endpoint of the image.
///
/// # Safety
/// As `mrc_core_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_import_begin(
    mem: *mut u8,
    len: usize,
    config: *const mrc_core_config,
    out: *mut *mut mrc_core_import,
    detail: *mut mrc_core_text,
) -> i32 {
    // SAFETY: passed on.
    unsafe { conclude(begin(mem, len, config, out), detail) }
}

/// # Safety
/// As `mrc_core_init`.
unsafe fn begin(
    mem: *mut u8,
    len: usize,
    config: *const mrc_core_config,
    out: *mut *mut mrc_core_import,
) -> Result<i32, Fault> {
    border::check(out, "out")?;
    // SAFETY: passed on.
    let (config, storage, scratch) = unsafe { lent(mem, len, config) }?;
    let import = mem.cast::<mrc_core_import>();
    let made = mrc_core_import { alive: IMPORTING, import: Import::new(config, storage)?, scratch };
    // SAFETY: the first bytes of the memory, which `lent` left free, aligned to MRC_CORE_ALIGN; `out` was checked.
    unsafe {
        const { assert!(align_of::<mrc_core_import>() <= MRC_CORE_ALIGN) };
        import.write(made);
        border::write(out, "out", import)?;
    }
    Ok(MRC_CORE_OK)
}

/// The import.
///
/// # Safety
/// `ptr` is NULL or comes from mrc_core_import_begin().
unsafe fn importing<'a>(ptr: *mut mrc_core_import) -> Result<&'a mut mrc_core_import, Fault> {
    border::check(ptr, "import")?;
    // SAFETY: not NULL and aligned; the mark comes first in an endpoint, too.
    if unsafe { ptr.cast::<u64>().read() } != IMPORTING {
        return Err(fault(MRC_CORE_E_NO_ENDPOINT, "import"));
    }
    // SAFETY: the mark says what it is.
    Ok(unsafe { &mut *ptr })
}

/// Takes the next bytes of the image and writes how many to `taken`: whole records only; hand over the others again, with
/// those that follow. Of MRC_CORE_EXPORT_MIN bytes or more it always takes some. MRC_CORE_SOME: more must follow,
/// MRC_CORE_OK: the image is complete. MRC_CORE_E_IMAGE: it is refused, and `detail`, where it is not NULL, says why.
///
/// # Safety
/// `import` is NULL or from mrc_core_import_begin(), `image` NULL or `len` bytes, `taken` and `detail` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_import_feed(
    import: *mut mrc_core_import,
    image: *const u8,
    len: usize,
    taken: *mut usize,
    detail: *mut mrc_core_text,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        let fed = importing(import).and_then(|this| {
            border::check(taken, "taken")?;
            let bytes = this.import.feed(border::slice(image, len, "image")?)?;
            border::write(taken, "taken", bytes)?;
            Ok(if this.import.is_complete() { MRC_CORE_OK } else { MRC_CORE_SOME })
        });
        conclude(fed, detail)
    }
}

/// Makes the endpoint, in the same memory; `import` is gone then. MRC_CORE_E_IMAGE: the image is not complete, or was refused,
/// and there is no endpoint.
///
/// # Safety
/// `import` is NULL or from mrc_core_import_begin(), `out` and `detail` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_import_end(
    import: *mut mrc_core_import,
    out: *mut *mut mrc_core_endpoint,
    detail: *mut mrc_core_text,
) -> i32 {
    // SAFETY: passed on.
    unsafe { conclude(end(import, out), detail) }
}

/// # Safety
/// As `mrc_core_import_end`.
unsafe fn end(import: *mut mrc_core_import, out: *mut *mut mrc_core_endpoint) -> Result<i32, Fault> {
    border::check(out, "out")?;
    // SAFETY: passed on.
    unsafe { importing(import) }?.alive = 0;
    // SAFETY: alive until now, and never read again: the mark is gone.
    let mrc_core_import { import: filled, scratch, .. } = unsafe { import.read() };
    let engine = filled.finish()?;
    let endpoint = import.cast::<mrc_core_endpoint>();
    // SAFETY: the same memory, which has room for either; `out` was checked.
    unsafe {
        endpoint.write(mrc_core_endpoint::new(engine, scratch));
        border::write(out, "out", endpoint)?;
    }
    Ok(MRC_CORE_OK)
}
