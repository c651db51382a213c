//! An agent's uplink and the collector's side in one process, over a Unix socket.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use mrc_mapper::agent::{AgentStats, Summary};
use mrc_mapper::probe::Key;

use super::super::link;
use super::super::peers::{Peers, What};
use super::super::wire::Address;
use super::*;

const LAST_WORDS: Duration = Duration::from_secs(1);

/// A folder with these files of `tests/data/tls`.
fn folder(test: &str, files: [&str; 3]) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/tmp/tls-{}-{test}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, from) in ["ca.pem", "cert.pem", "key.pem"].into_iter().zip(files) {
        std::fs::copy(data.join(from).join(file), folder.join(file)).unwrap();
    }
    std::fs::set_permissions(folder.join("key.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
    folder
}

fn args(test: &str, files: [&str; 3]) -> Certificates {
    Certificates { tls: Some(folder(test, files)) }
}

/// What one meeting brought: hosts that were heard, blame, and how it ended for the agent.
#[derive(Debug)]
struct Met {
    heard: Vec<HostId>,
    blamed: Vec<String>,
    agent: String,
}

/// An agent of `host` tells one summary to a collector.
fn meet(collector: &Certificates, agent: &Certificates, host: HostId) -> Met {
    let client = agent.client().unwrap();
    meet_with(collector, client, host)
}

fn meet_with(collector: &Certificates, client: Option<Arc<ClientConfig>>, host: HostId) -> Met {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("socket"));
    let (listener, key) = (address.listen().unwrap(), Key::new([5; 16]));
    let server = collector.server().unwrap();
    let (sender, summaries) = sync_channel(1);
    let (gone, stats) = (Vec::new(), AgentStats::default());
    sender.send(Summary { host, instance: 1, number: 1, paused_ns: 0, gone, paths: Vec::new(), stats }).unwrap();
    drop(sender);
    let uplink = std::thread::spawn(move || link::deliver(&address, &key, client.as_ref(), &summaries, &mut || {}));
    let mut met = Met { heard: Vec::new(), blamed: Vec::new(), agent: String::new() };
    let mut peers = Peers::new(&listener, key, server, 2);
    let mut over = None;
    // What the agent sent last is still to be read when it is gone.
    while over.is_none_or(|over: Instant| met.heard.is_empty() && met.blamed.is_empty() && over.elapsed() < LAST_WORDS)
    {
        if uplink.is_finished() {
            over.get_or_insert_with(Instant::now);
        }
        let mut deliver = |what: What<'_>| {
            match what {
                What::Summary(summary) => met.heard.push(summary.host),
                What::Blame(_, why) => met.blamed.push(why.to_owned()),
            }
            Ok(())
        };
        peers.serve(Instant::now() + Duration::from_millis(10), &mut deliver).unwrap();
    }
    met.agent = uplink.join().unwrap().err().map_or_else(String::new, |error| link::reason(&error));
    met
}

fn collector(test: &str) -> Certificates {
    args(&format!("{test}-collector"), ["collector"; 3])
}

#[test]
fn an_agent_with_a_certificate_of_the_fabric_is_heard() {
    let met = meet(&collector("good"), &args("good", ["hA"; 3]), 0);
    assert_eq!((met.heard, met.blamed.len(), met.agent.as_str()), (vec![0], 0, ""));
}

#[test]
fn a_certificate_speaks_for_its_own_host_alone() {
    let met = meet(&collector("name"), &args("name", ["hA"; 3]), 1);
    assert!(met.heard.is_empty(), "{met:?}");
    assert_eq!(met.blamed, ["a certificate without the name hB speaks for that host"]);
}

#[test]
fn an_expired_certificate_is_refused_and_both_ends_say_so() {
    let met = meet(&collector("expired"), &args("expired", ["expired"; 3]), 0);
    assert!(met.heard.is_empty(), "{met:?}");
    assert!(met.blamed[0].contains("its certificate expired: renew it"), "{met:?}");
    assert!(met.agent.contains("our cert.pem expired: renew it"), "{met:?}");
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_either_end() {
    // Who trusts the fabric, and shows what a stranger signed.
    let met = meet(&collector("other"), &args("other", ["hA", "stranger", "stranger"]), 0);
    assert!(met.heard.is_empty(), "{met:?}");
    assert!(met.blamed[0].contains("another authority: both ends need the same ca.pem"), "{met:?}");
    assert!(met.agent.contains("does not know the authority of our cert.pem"), "{met:?}");
    // Who trusts a stranger does not tell our collector anything.
    let met = meet(&collector("other2"), &args("other2", ["stranger"; 3]), 0);
    assert!(met.heard.is_empty(), "{met:?}");
    assert!(met.agent.contains("another authority: both ends need the same ca.pem"), "{met:?}");
}

#[test]
fn an_agent_without_a_certificate_or_without_tls_is_refused() {
    let files = Files::read(&folder("none", ["hA"; 3])).unwrap();
    let bare = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
    let bare = bare.with_root_certificates(files.roots).with_no_client_auth();
    let met = meet_with(&collector("none"), Some(Arc::new(bare)), 0);
    assert!(met.heard.is_empty(), "{met:?}");
    assert!(met.blamed[0].contains("it showed no certificate: give the agent --tls"), "{met:?}");
    // Nothing at all is said to who does not begin with TLS, and such an agent waits for its challenge.
    let met = meet(&Certificates::default(), &args("plain", ["hA"; 3]), 0);
    assert!(met.heard.is_empty() && met.agent.contains("it does not speak TLS"), "{met:?}");
}

#[test]
fn a_handshake_that_does_not_end_holds_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = Address::Unix(socket.clone()).listen().unwrap();
    let mut peers = Peers::new(&listener, Key::new([5; 16]), collector("endless").server().unwrap(), 2);
    // Records of 16 KiB that belong to one message of 64 KiB: nothing of it can be judged before the last.
    let stranger = std::thread::spawn(move || {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let record = |begin: &[u8]| [&[0x16, 3, 1, 0x40, 0], begin, &vec![0; (16 << 10) - begin.len()]].concat();
        let records = [record(&[1, 0, 0xff, 0xf0, 3, 3]), record(&[]), record(&[]), record(&[])];
        let _ = records.iter().try_for_each(|record| std::io::Write::write_all(&mut stream, record));
        std::io::Read::read(&mut stream, &mut [0; 64]).unwrap_or(0)
    });
    let (mut blamed, start) = (Vec::new(), Instant::now());
    while blamed.is_empty() && start.elapsed() < Duration::from_secs(10) {
        let mut deliver = |what: What<'_>| {
            if let What::Blame(_, why) = what {
                blamed.push(why.to_owned());
            }
            Ok(())
        };
        peers.serve(Instant::now() + Duration::from_millis(10), &mut deliver).unwrap();
    }
    assert_eq!(blamed, ["TLS: a handshake of more than 32768 bytes"]);
    drop(peers);
    stranger.join().unwrap();
}

#[test]
fn an_agent_tells_nothing_to_who_is_no_collector() {
    let met = meet(&args("thief-collector", ["hA"; 3]), &args("thief", ["hA"; 3]), 0);
    assert!(met.heard.is_empty(), "{met:?}");
    assert!(met.agent.contains("it has another name") || met.agent.contains("has another name"), "{met:?}");
}

#[test]
fn wrong_files_are_named_with_the_cure() {
    let said = |folder: PathBuf| format!("{:#}", Certificates { tls: Some(folder) }.server().unwrap_err());
    let whole = || folder("files", ["collector"; 3]);
    let open = whole();
    std::fs::set_permissions(open.join("key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(said(open).ends_with("key.pem can be read by others: chmod 600 it"));
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        let missing = whole();
        std::fs::remove_file(missing.join(file)).unwrap();
        let text = said(missing);
        assert!(text.contains(file) && text.contains("No such file"), "{text}");
        let empty = whole();
        std::fs::write(empty.join(file), "nothing").unwrap();
        let text = said(empty);
        assert!(text.contains(file) && text.contains("cannot read"), "{text}");
    }
    let text = said(folder("mixed", ["collector", "collector", "hA"]));
    assert!(text.contains("cert.pem and key.pem of") && text.contains("do not belong together"), "{text}");
}

/// A program in a container that is not root could not read its key: root owns it there, and the program's group reads it.
#[test]
fn a_key_of_root_may_be_readable_for_a_group() {
    for (mode, owner, closed) in [
        (0o600, 1000, true),
        (0o400, 0, true),
        (0o440, 0, true),
        (0o640, 0, true),
        (0o640, 1000, false),
        (0o660, 0, false),
        (0o644, 0, false),
        (0o604, 1000, false),
    ] {
        assert_eq!(is_closed(mode, owner), closed, "{mode:o} of {owner}");
    }
}
