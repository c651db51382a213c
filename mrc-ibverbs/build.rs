//! Gives the library its version nodes and its name.
//!
//! rustc hands the linker a version script of its own, an anonymous one, and linkers refuse a second script with symbols
//! in it. They accept one with empty nodes; `.symver` in `exports.rs` puts the symbols there.

use std::path::PathBuf;

/// Public nodes of rdma-core, oldest first; each inherits the one before.
const PUBLIC: [&str; 15] =
    ["1.0", "1.1", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12", "1.13", "1.14", "1.15", "1.16", "1.17"];

/// What providers (libmlx5, libefa) and rdma-core's own programs import: rdma-core 36 to 56, 57 and 58, 59 to 63, 64, later.
const PRIVATE: [&str; 5] = ["34", "57", "59", "64", "65"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut map = String::new();
    let mut parent = String::new();
    for version in PUBLIC {
        map += &format!("IBVERBS_{version} {{ }}{parent};\n");
        parent = format!(" IBVERBS_{version}");
    }
    for version in PRIVATE {
        map += &format!("IBVERBS_PRIVATE_{version} {{ }};\n");
    }
    // Ours: what lib_mrc.so forwards to.
    map += "IBVERBS_MRC_1 { };\n";
    let path = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("nodes.map");
    std::fs::write(&path, map).expect("OUT_DIR is writable");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", path.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    // The progress thread runs our code: a program that closes the library must not unmap it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
