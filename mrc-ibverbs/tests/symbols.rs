//! The built library from outside: symbols with their versions, and programs that a C compiler links against Debian's
//! library and that run over ours.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Builds the library where the test itself was built: cargo makes no C library for `cargo test`.
fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let test = std::env::current_exe().unwrap();
            let profile = test.parent().and_then(Path::parent).unwrap();
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
            cargo.arg("--target-dir").arg(profile.parent().unwrap());
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            run(&mut cargo);
            profile.join("libibverbs.so")
        })
        .clone()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Defined symbols, e.g. `ibv_reg_mr@@IBVERBS_1.1`; none when the file is not there.
fn symbols(library: &Path) -> BTreeSet<String> {
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("binutils are installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[test]
fn every_symbol_has_its_version_and_nothing_else_is_exported() {
    let ours = symbols(&library());
    for wanted in [
        "ibv_get_device_list@@IBVERBS_1.1",
        "ibv_create_comp_channel@@IBVERBS_1.0",
        "ibv_get_pkey_index@@IBVERBS_1.5",
        "ibv_qp_to_qp_ex@@IBVERBS_1.6",
        "ibv_reg_mr_iova2@@IBVERBS_1.8",
        "ibv_get_device_index@@IBVERBS_1.9",
        "ibv_set_ece@@IBVERBS_1.10",
        "_ibv_query_gid_ex@@IBVERBS_1.11",
        "ibv_reg_dmabuf_mr@@IBVERBS_1.12",
        "ibv_query_gid_type@@IBVERBS_PRIVATE_34",
        "verbs_register_driver_34@@IBVERBS_PRIVATE_34",
        "verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34",
        "ibv_reg_mr_ex@@IBVERBS_1.15",
        "ibv_alloc_buf@@IBVERBS_1.17",
        "verbs_register_driver_57@@IBVERBS_PRIVATE_57",
        "verbs_register_driver_65@@IBVERBS_PRIVATE_65",
        "verbs_open_device@IBVERBS_PRIVATE_57",
        "ibv_cmd_query_port_speed@IBVERBS_PRIVATE_59",
        "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_64",
        "ibv_query_gid_type@IBVERBS_PRIVATE_65",
    ] {
        assert!(ours.contains(wanted), "{wanted}");
    }
    let stray: Vec<_> = ours.iter().filter(|name| !name.contains("IBVERBS_")).collect();
    assert!(stray.is_empty(), "{stray:?}");
    // Where Debian's library is installed: all it has, but for the twins of 1.0 that nobody asks for.
    let theirs = symbols(Path::new("/usr/lib/x86_64-linux-gnu/libibverbs.so.1"));
    let missing: Vec<_> = theirs.iter().filter(|name| name.contains("@@") && !ours.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Compiles `source` against Debian's library; `None` without it.
fn compile(name: &str, source: &str) -> Option<PathBuf> {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("SKIP {name}: no infiniband/verbs.h; install libibverbs-dev");
        return None;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let (input, program) = (directory.join("program.c"), directory.join("program"));
    std::fs::write(&input, source).unwrap();
    run(Command::new("cc").args(["-O1", "-Wl,-z,now", "-o"]).arg(&program).arg(&input).arg("-libverbs"));
    for link in ["libibverbs.so.1", "libibverbs.so"] {
        let _ = std::fs::remove_file(directory.join(link));
        std::os::unix::fs::symlink(library(), directory.join(link)).unwrap();
    }
    Some(directory)
}

fn start(directory: &Path, config: &str) -> Output {
    let file = directory.join("mrc.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(directory.join("program"));
    command.env("LD_LIBRARY_PATH", directory).env("MRC_CONFIG", file).output().unwrap()
}

const CONFIG: &str = r#"
name = "hA"
gid = "fd00::1"
ipv4 = "10.0.0.1"
mtu = 9000

[[planes]]
interface = "nosuch0"
sid = "fcbb:bb00:3000::"
addr = "fcbb:bb00:3000::1"
next_hop = "02:00:00:00:00:01"

[[peers]]
name = "hB"
gid = "fd00::2"
template = "fcbb:bb00:1000:2000:1001:3001::"
uplinks = 4
"#;

#[test]
fn a_program_with_immediate_binding_starts_and_looks() {
    let source = r#"
        #include <errno.h>
        #include <infiniband/verbs.h>
        #include <stdio.h>
        #include <string.h>
        int main(void) {
            int count = -1;
            struct ibv_device **list = ibv_get_device_list(&count);
            printf("%d devices\n", count);
            if (!list || !list[0]) return 0;
            struct ibv_device *device = list[0];
            ibv_free_device_list(list);
            struct ibv_context *context = ibv_open_device(device);
            struct ibv_device_attr_ex ex;
            struct ibv_port_attr port;
            union ibv_gid gid;
            if (ibv_query_device_ex(context, NULL, &ex) || ibv_query_port(context, 1, &port)) return 1;
            if (ibv_query_gid(context, 1, 3, &gid)) return 2;
            /* DLSlime refuses a device that takes less than it will tell queue pairs. */
            if (ex.orig_attr.max_qp_rd_atom < 16 || ex.orig_attr.max_qp_init_rd_atom < 16) return 3;
            printf("%s %s %s gid %d.%d\n", ibv_get_device_name(device), ibv_node_type_str(device->node_type),
                   ibv_port_state_str(port.state), gid.raw[10], gid.raw[12]);
            errno = 0;
            struct ibv_pd *pd = ibv_alloc_pd(context);
            printf("pd %s, %s\n", pd ? "yes" : "no", strerror(errno));
            return ibv_close_device(context) || ibv_close_device(context) != EINVAL;
        }"#;
    let Some(directory) = compile("looks", source) else { return };
    let output = start(&directory, CONFIG);
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{log}");
    assert!(text.contains("1 devices\nmrc0 InfiniBand channel adapter down gid 255.10\n"), "{text}");
    // The interface does not exist: the first object that needs it says so.
    assert!(text.contains("pd no, No such device") && log.contains("interface nosuch0"), "{text}{log}");

    let output = start(&directory, &CONFIG.replace("mtu = 9000", "mtu = 90"));
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("0 devices"), "{text}{log}");
    assert!(log.contains("line 5, `mtu`: 90 is too small") && log.contains("mrc doctor"), "{log}");
}

#[test]
fn what_mrc_does_not_have_is_refused_with_a_line_that_says_so() {
    let source = r#"
        #include <errno.h>
        #include <infiniband/verbs.h>
        #include <string.h>
        int main(int count, char **arguments) {
            struct ibv_device **list = ibv_get_device_list(NULL);
            struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : 0;
            struct ibv_srq_init_attr attr = {0};
            struct ibv_srq_init_attr_ex ex = {0};
            struct ibv_xrcd_init_attr xrcd = {0};
            struct ibv_pd pd = {.context = context};
            if (!context) return 9;
            const char *what = count > 1 ? arguments[1] : "";
            void *made = context;
            errno = 0;
            if (!strcmp(what, "srq")) made = ibv_create_srq(&pd, &attr);
            if (!strcmp(what, "srq_ex")) {
                ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_PD;
                ex.srq_type = IBV_SRQT_XRC;
                made = ibv_create_srq_ex(context, &ex);
            }
            if (!strcmp(what, "xrcd")) made = ibv_open_xrcd(context, &xrcd);
            if (!strcmp(what, "ah") || !strcmp(what, "all")) made = ibv_create_ah(&pd, 0);
            for (int i = 0; !strcmp(what, "all") && !made && i < 3; i++) made = ibv_create_srq(&pd, &attr);
            return made ? 1 : errno != EOPNOTSUPP ? 2 : 0;
        }"#;
    let Some(directory) = compile("refuses", source) else { return };
    std::fs::write(directory.join("mrc.toml"), CONFIG).unwrap();
    for (what, says, lines) in [
        ("srq", "shared receive queues", 1),
        ("srq_ex", "shared receive queues", 1),
        ("xrcd", "XRC domains", 1),
        ("ah", "address handles", 1),
        // One line for each thing, however often it is asked for.
        ("all", "shared receive queues", 2),
    ] {
        let mut command = Command::new(directory.join("program"));
        command.arg(what).env("LD_LIBRARY_PATH", &directory).env("MRC_CONFIG", directory.join("mrc.toml"));
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {:?} {log}", output.status);
        assert!(log.contains(says) && log.matches("not supported").count() == lines, "{what}: {log}");
    }
}

#[test]
fn the_library_survives_dlclose_and_fork() {
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            for (int round = 0; round < 3; round++) {
                void *library = dlopen("libibverbs.so.1", RTLD_NOW);
                if (!library) return puts(dlerror()), 1;
                void **(*list)(int *) = (void **(*)(int *))dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
                void *(*open)(void *) = (void *(*)(void *))dlsym(library, "ibv_open_device");
                int count = 0;
                if (!list || !open) return 2;
                void **devices = list(&count);
                if (count != 1 || !open(devices[0])) return 3;
                pid_t child = fork();
                if (child == 0) _exit(open(devices[0]) ? 0 : 4);
                int status;
                waitpid(child, &status, 0);
                if (status) return 5;
                dlclose(library);
            }
            return 0;
        }"#;
    let Some(directory) = compile("dlclose", source) else { return };
    let output = start(&directory, CONFIG);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Runs a program that makes the library complain, over this standard error; whether it ended well within a minute.
fn survives(directory: &Path, stderr: std::io::PipeWriter) -> bool {
    let mut command = Command::new(directory.join("program"));
    command.env("LD_LIBRARY_PATH", directory).env("MRC_CONFIG", "/nonexistent");
    let mut child = command.stderr(stderr).spawn().unwrap();
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn a_program_survives_a_standard_error_that_fails_or_blocks() {
    use std::io::Write as _;
    let source = r#"
        #include <infiniband/verbs.h>
        int main(void) {
            int count = 0;
            return !ibv_get_device_list(&count) || count != 0;
        }"#;
    let Some(directory) = compile("stderr", source) else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(survives(&directory, writer), "a pipe without a reader");
    let (reader, mut writer) = std::io::pipe().unwrap();
    // A pipe that has not been resized holds 64 KiB.
    writer.write_all(&[b'x'; 1 << 16]).unwrap();
    assert!(survives(&directory, writer), "a full pipe that nobody reads");
    drop(reader);
}

#[test]
fn a_thread_that_waits_for_events_survives_the_end_of_its_context() {
    let source = r#"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <infiniband/verbs.h>
        #include <poll.h>
        #include <pthread.h>
        #include <stdint.h>
        #include <unistd.h>
        static void *waiter(void *context) {
            struct ibv_async_event event;
            return ibv_get_async_event(context, &event) == -1 && errno == EINVAL ? context : NULL;
        }
        /* Counts that nobody took after a second. */
        static int left(int fd) {
            struct pollfd state = {.fd = fd, .events = POLLIN};
            for (int i = 0; i < 100 && poll(&state, 1, 0) == 1; i++) usleep(10000);
            return poll(&state, 1, 0);
        }
        int main(void) {
            struct ibv_device **list = ibv_get_device_list(NULL);
            struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : 0;
            pthread_t thread;
            if (!context) return 1;
            int fd = dup(context->async_fd);
            uint64_t one = 1;
            pthread_create(&thread, 0, waiter, context);
            /* It has begun to wait when it took a count for which there is no event. */
            if (write(fd, &one, 8) != 8 || left(fd) || ibv_close_device(context)) return 2;
            /* Woken, it finds no context. */
            void *result = NULL;
            return write(fd, &one, 8) != 8 || left(fd) || pthread_join(thread, &result) || result != context ? 3 : 0;
        }"#;
    let Some(directory) = compile("waiter", source) else { return };
    with_device(&directory);
}

/// As a program over Debian's library would: its threads wait for events until they are cancelled.
#[cfg(target_arch = "x86_64")]
#[test]
fn threads_that_wait_for_events_can_be_cancelled() {
    let source = r#"
        #include <infiniband/verbs.h>
        #include <pthread.h>
        #include <unistd.h>
        static int cleaned;
        static void clean(void *by) { cleaned += *(int *)by; }
        static void *asynchronous(void *context) {
            struct ibv_async_event event;
            int by = 1;
            pthread_cleanup_push(clean, &by);
            ibv_get_async_event(context, &event);
            pthread_cleanup_pop(0);
            return 0;
        }
        static void *completions(void *channel) {
            struct ibv_cq *cq;
            void *cq_context;
            int by = 2;
            pthread_cleanup_push(clean, &by);
            while (!ibv_get_cq_event(channel, &cq, &cq_context)) {}
            pthread_cleanup_pop(0);
            return 0;
        }
        static int cancelled(void *(*function)(void *), void *argument) {
            pthread_t thread;
            void *result = 0;
            if (pthread_create(&thread, 0, function, argument)) return 0;
            usleep(50000);
            return !pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED;
        }
        int main(void) {
            struct ibv_device **list = ibv_get_device_list(NULL);
            struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : 0;
            struct ibv_comp_channel *channel = context ? ibv_create_comp_channel(context) : 0;
            if (!channel) return 1;
            alarm(20);
            if (!cancelled(asynchronous, context) || !cancelled(completions, channel) || cleaned != 3) return 2;
            return ibv_destroy_comp_channel(channel) || ibv_close_device(context);
        }"#;
    let Some(directory) = compile("cancelled", source) else { return };
    with_device(&directory);
}

/// Runs a program that has a device to look at. What it frees is overwritten.
fn with_device(directory: &Path) {
    std::fs::write(directory.join("mrc.toml"), CONFIG).unwrap();
    let mut command = Command::new(directory.join("program"));
    command.env("MALLOC_PERTURB_", "165").env("LD_LIBRARY_PATH", directory);
    let status = command.env("MRC_CONFIG", directory.join("mrc.toml")).status().unwrap();
    assert!(status.success(), "{status:?}");
}

#[test]
fn a_program_with_more_rights_than_its_caller_does_not_ask_the_environment() {
    use std::os::unix::fs::PermissionsExt;
    let name = "a_program_with_more_rights_than_its_caller_does_not_ask_the_environment";
    let source = r#"
        #include <infiniband/verbs.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/auxv.h>
        int main(void) {
            int count = 0;
            struct ibv_device **list = ibv_get_device_list(&count);
            printf("privileged %lu, device %s\n", getauxval(AT_SECURE), count ? ibv_get_device_name(list[0]) : "none");
            return 0;
        }"#;
    let Some(built) = compile("secure", source) else { return };
    // The loader of such a program ignores LD_LIBRARY_PATH, and another user must be able to read it all.
    let directory = std::env::temp_dir().join(format!("mrc-secure-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("program");
    let rpath = format!("-Wl,-rpath,{}", directory.display());
    std::fs::copy(library(), directory.join("libibverbs.so.1")).unwrap();
    run(Command::new("cc").arg(rpath).arg("-o").arg(&program).arg(built.join("program.c")).arg("-libverbs"));
    let config = directory.join("mrc.toml");
    std::fs::write(&config, CONFIG.replace("name = \"hA\"", "name = \"hA\"\ndevice = \"chosen0\"")).unwrap();
    let look = || {
        let output = run(Command::new(&program).env("MRC_CONFIG", &config));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let before = look();
    // Owned by somebody else and set-user-ID: our rights are not those of the program.
    let owned = std::os::unix::fs::chown(&program, Some(65_534), None);
    let _ = std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755));
    let _ = std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755));
    let after = look();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(before, "privileged 0, device chosen0\n");
    if owned.is_err() || after.starts_with("privileged 0") {
        eprintln!("SKIP {name}: no right to give files away, or a file system without set-user-ID");
        return;
    }
    assert!(after.starts_with("privileged 1,") && !after.contains("chosen0"), "{after}");
}

#[test]
fn programs_of_newer_rdma_core_start() {
    if compile("newer", "int main(void) { return 0; }").is_none() {
        return;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("newer");
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    for version in [34, 57, 59, 64, 65] {
        // What such a program is linked against, and what a provider does before `main`.
        write("theirs.c", &format!("void verbs_register_driver_{version}(const void *ops) {{ (void)ops; }}"));
        write(
            "theirs.map",
            &format!("IBVERBS_PRIVATE_{version} {{ global: verbs_register_driver_{version}; local: *; }};"),
        );
        write(
            "newer.c",
            &format!(
                "void verbs_register_driver_{version}(const void *); int main(void) {{ verbs_register_driver_{version}(0); return 0; }}"
            ),
        );
        let theirs = directory.join("theirs.so");
        let map = format!("-Wl,--version-script={},-soname,libibverbs.so.1", directory.join("theirs.map").display());
        run(Command::new("cc").args(["-shared", "-fPIC", &map, "-o"]).arg(&theirs).arg(directory.join("theirs.c")));
        let program = directory.join("program");
        run(Command::new("cc").args(["-Wl,-z,now", "-o"]).arg(&program).arg(directory.join("newer.c")).arg(&theirs));
        run(Command::new(&program).env("LD_LIBRARY_PATH", &directory));
    }
}
