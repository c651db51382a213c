//! Links with nothing but the crates themselves.
fn main() {
    for arg in ["-nostdlib", "-nostartfiles", "-static", "-Wl,--gc-sections", "-Wl,--no-undefined"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
}
