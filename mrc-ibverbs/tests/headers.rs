//! The headers, as programs include them: alone, in C and C++, with older versions.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn compile(name: &str, compiler: &str, arguments: &[&str], source: &str) -> Option<(Output, PathBuf)> {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("SKIP {name}: no infiniband/verbs.h; install libibverbs-dev");
        return None;
    }
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("SKIP {name}: no {compiler}");
        return None;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("headers");
    std::fs::create_dir_all(&directory).unwrap();
    let (input, program) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&input, source).unwrap();
    let language = if compiler == "c++" { "c++" } else { "c" };
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut command = Command::new(compiler);
    command.args(["-x", language, "-Wall", "-Wextra", "-I", include]).args(arguments);
    Some((command.arg("-o").arg(&program).arg(&input).output().unwrap(), program))
}

fn runs(name: &str, compiler: &str, arguments: &[&str], source: &str) {
    let Some((output, program)) = compile(name, compiler, arguments, source) else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.is_empty(), "{name}: {text}");
    let status = Command::new(program).status().unwrap();
    assert!(status.success(), "{name}: {status:?}");
}

const ASSIGN: &str = r#"
    #include <mrc_ctl.h>
    struct mrc_ctl_ev from_the_start = MRC_CTL_EV_UNPOPULATED;
    int main(void) {
        struct mrc_ctl_ev ev = MRC_CTL_EV_UNPOPULATED;
        struct mrc_ctl_ev_op_entry entry;
        ev.port = ev.val[31] = 7;
        entry.ev = ev;
        ev = MRC_CTL_EV_UNPOPULATED;
        entry.ev_new = MRC_CTL_EV_UNPOPULATED;
        return ev.port || ev.val[31] || entry.ev.port != 7 || entry.ev_new.port || from_the_start.port;
    }"#;

#[test]
fn an_unpopulated_ev_is_a_value_in_c_and_in_cplusplus() {
    runs("assign", "cc", &[], ASSIGN);
    runs("assign11", "cc", &["-std=gnu11", "-O2"], ASSIGN);
    runs("assigncc", "c++", &["-Wno-missing-field-initializers"], ASSIGN);
}

const VERSIONS: &str = r#"
    #include <mrc_api_ver.h>
    #include <mrc_ctl_api_ver.h>
    #define PARTS(x) x##_API_VER_MAJOR_OFFSET == 24 && x##_API_VER_MINOR_OFFSET == 16 && x##_API_VER_SUBMINOR_OFFSET == 0 && \
        x##_API_VER(1, 2, 3) == 0x01020003 && x##_API_VER_LATEST == 0xFFFFFFFF && x##_API_CURRENT_VERSION == 0x01000001 && \
        x##_API_LAST_SUPPORTED_VERSION == 0 && x##_VENDOR_API_CURRENT_VERSION == 0x01000000 && \
        x##_VENDOR_API_LAST_SUPPORTED_VERSION == 0 && x##_VENDOR_API_VER_USED == x##_VENDOR_API_CURRENT_VERSION
    #if MRC_API_VER(1, 0, 1) != MRC_API_CURRENT_VERSION || MRC_CTL_API_VER(1, 0, 1) != MRC_CTL_API_CURRENT_VERSION
    #error "not in the preprocessor"
    #endif
    int main(void) {
        return !(PARTS(MRC) && PARTS(MRC_CTL) && MRC_API_VER_USED == WANT && MRC_CTL_API_VER_USED == WANT);
    }"#;

#[test]
fn a_program_chooses_a_version() {
    let chosen = |version: &str| {
        [format!("-DMRC_API_VER_USED=MRC_{version}"), format!("-DMRC_CTL_API_VER_USED=MRC_CTL_{version}")]
    };
    let with = |name: &str, want: &str, version: &str| {
        let [api, ctl] = chosen(version);
        runs(name, "cc", &[&format!("-DWANT={want}"), &api, &ctl], VERSIONS);
    };
    runs("current", "cc", &["-DWANT=0x01000001"], VERSIONS);
    with("latest", "0x01000001", "API_VER_LATEST");
    with("older", "0x01000000", "API_VER(1, 0, 0)");
    let [api, ctl] = chosen("API_VER(1, 0, 2)");
    if let Some((output, _)) = compile("newer", "cc", &["-DWANT=0", &api, &ctl], VERSIONS) {
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("newer than this header"));
    }
    // What the older version does not have is not declared, and its events are shorter.
    let old = r#"
        #include <mrc_ctl.h>
        int main(void) { return sizeof(struct mrc_ctl_ev_event) != WANT; }"#;
    let [api, ctl] = chosen("API_VER(1, 0, 0)");
    runs("short", "cc", &["-DWANT=48", &api, &ctl], old);
    runs("long", "cc", &["-DWANT=56"], old);
}
