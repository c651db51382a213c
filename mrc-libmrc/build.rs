//! A name of its own: under that of libibverbs the loader would take whichever came first.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,lib_mrc.so");
}
