use super::*;

#[test]
fn the_payload_follows_from_the_mtu() {
    assert_eq!(required_mtu(4096), 4252);
    assert_eq!(largest_path_mtu(9000), Some(4096));
    assert_eq!(largest_path_mtu(4252), Some(4096));
    assert_eq!(largest_path_mtu(4251), Some(2048));
    assert_eq!(largest_path_mtu(1500), Some(1024));
    assert_eq!(largest_path_mtu(300), None);
}

const FILE: &str = r#"# comment
name = "hA"
gid = "fd00::1"
ipv4 = "10.109.0.1"
mtu = 9000

[dscp]
control = 40

[[planes]]
interface = "plane0"
sid = "fcbb:bb00:3000::"
addr = "fcbb:bb00:3000::1"
next_hop = "02:00:00:00:00:01"

[[planes]]
interface = "plane1"
sid = "fcbb:bb00:3100::"
addr = "fcbb:bb00:3100::1"
next_hop = "02:00:00:00:00:02"

[[peers]]
name = "hB"
gid = "fd00::2"
ipv4 = "10.109.0.2"
template = "fcbb:bb00:1000:2000:1001:3001::"
uplinks = 4
"#;

#[test]
fn keys_of_retry_that_are_left_out_keep_their_default() {
    let text = FILE.replace("[dscp]", "[retry]\ntimeout = 12\n\n[dscp]");
    let host = HostFile::parse("mrc.toml", &text).unwrap();
    assert_eq!(host.retry(), RetryConfig { timeout: 12, ..RetryConfig::default() });
    assert_eq!(host.keepalive_ns(), 1_000_000_000);
}

#[test]
fn toml_says_what_json_says() {
    let host = HostFile::parse("mrc.toml", FILE).unwrap();
    assert_eq!((host.device.as_str(), host.path_mtu().unwrap()), ("mrc0", 4096));
    assert_eq!(host.device().endpoint.wire.dscp.control, 40);
    for (gid, name) in [
        ("fd00::2", "hB"),
        ("fe80::2", "hB"),
        ("::ffff:10.109.0.2", "hB"),
        ("fd00::1", "hA"),
        ("::ffff:10.109.0.1", "hA"),
    ] {
        assert_eq!(host.peer_by_gid(gid.parse().unwrap()).unwrap().name, name, "{gid}");
    }
    assert_eq!(host.gids().map(|gid| gid.to_string()), ["fe80::1", "fe80::1", "fd00::1", "::ffff:10.109.0.1"]);
    assert!(host.peer_by_gid("::ffff:10.109.0.3".parse().unwrap()).is_none());
    let json = serde_json::to_string(&host).unwrap();
    let again = HostFile::parse("again", &json).unwrap().to_toml();
    assert_eq!(HostFile::parse("again", &again).unwrap().to_toml(), host.to_toml());
}

#[test]
fn without_an_outer_header_the_ev_is_all_there_is() {
    let text: String = FILE
        .lines()
        .filter(|line| !["sid", "addr", "template"].iter().any(|key| line.starts_with(key)))
        .fold(String::new(), |text, line| text + line + "\n");
    let host = HostFile::parse("mrc.toml", &text).unwrap();
    let peer = host.peer_config(&host.peers[0]).unwrap();
    assert!(matches!(peer.route, Route::Plain) && peer.planes[0].unwrap().outer_src.is_none());
    assert_eq!(host.paths_to(&host.peers[0]).unwrap().len(), 8);
    assert!(host.device().planes.iter().all(|plane| plane.sid.is_none()));
    assert!(host.myself().is_none());
}

#[test]
fn protocol_sets_the_engine() {
    let plain = HostFile::parse("mrc.toml", FILE).unwrap();
    assert!(plain.device().endpoint.merge_sacks && !plain.device().endpoint.ctl_ect);
    let table =
        "[protocol]\ntuning = \"specification\"\nslowness = 10\nctl_ect = 1\nreorder_min = 6\nsvc_time = 1\n\n[dscp]";
    let host = HostFile::parse("mrc.toml", &FILE.replace("[dscp]", table)).unwrap();
    let device = host.device();
    assert!(!device.endpoint.merge_sacks && device.endpoint.ctl_ect && device.answer_delay.is_zero());
    assert_eq!((device.endpoint.wire.dscp.control, device.slowness.get()), (40, 10));
    assert!(plain.protocol().send(mrc_wire::Psn::new(3)).paths.relapse_backoff);
    let rts = host.protocol().send(mrc_wire::Psn::new(3));
    assert!(!rts.paths.relapse_backoff);
    assert_eq!((rts.reorder_pkts_min, rts.reorder_factor), (6, mrc_core::RtsAttr::software(rts.sq_psn).reorder_factor));
    let mut attr = crate::QpAttr::new(mrc_core::PeerHandle::from_index(0), mrc_core::EvProfileHandle::from_index(0));
    (attr.rts.sq_psn, attr.trim_nack) = (mrc_wire::Psn::new(3), true);
    host.protocol().connect(&mut attr);
    assert_eq!((attr.rts.sq_psn, attr.rts.reorder_pkts_min), (mrc_wire::Psn::new(3), 6));
    assert_eq!((attr.svc_time, attr.private_stamps_us, attr.trim_nack), (true, false, true));
}

#[test]
fn a_host_reaches_itself_through_its_first_switch() {
    let host = HostFile::parse("mrc.toml", FILE).unwrap();
    assert_eq!(host.myself().unwrap().template.unwrap().to_string(), "fcbb:bb00:1000:3000::");
}

#[test]
fn errors_name_file_line_and_key() {
    for (from, to, want) in [
        ("mtu = 9000", "mtu = \"9000\"", "mrc.toml, line 5, `mtu`: invalid type"),
        ("mtu = 9000", "mtu = 9000\npmtu = 1500", "mrc.toml, line 6, `pmtu`: 1500 with an MTU of 9000: choose 256"),
        ("mtu = 9000", "mtu = 300", "mrc.toml, line 5, `mtu`: 300 is too small: at least 412"),
        ("mtu = 9000", "mtu = 9000\nanswer_delay_us = 300", "mrc.toml, line 6, `answer_delay_us`: 300: at most 200"),
        (
            "control = 40",
            "control = 40\n[recorder]\nfiles = 0",
            "mrc.toml, line 10, `files`: 0: 1 to 1000 are possible",
        ),
        ("control = 40", "control = 4", "mrc.toml, line 7, `dscp`: DSCP 4 is given to two roles"),
        ("control = 40", "kontrol = 4", "mrc.toml, line 8, `kontrol`: unknown field `kontrol`, expected one of"),
        ("00:02\"", "00\"", "mrc.toml, line 20, `next_hop`: `02:00:00:00:00` is no unicast MAC address"),
        ("[dscp]", "[protocol]\nctl_ect = 2\n\n[dscp]", "mrc.toml, line 8, `ctl_ect`: 2: no value of this knob"),
        ("[dscp]", "[protocol]\nctl_etc = 1\n\n[dscp]", "mrc.toml, line 8, `ctl_etc`: no such knob; there are "),
        ("[dscp]", "[protocol]\nbth_se_bit = 3\n\n[dscp]", "mrc.toml, line 8, `bth_se_bit`: 3: no value of this knob"),
        ("[dscp]", "[protocol]\nsack_threshold = 0\n\n[dscp]", "mrc.toml, line 8, `sack_threshold`: 0: no value"),
        (
            "[dscp]",
            "[protocol]\nctl_ect = 1\ndscp_trimmable = 40\n\n[dscp]",
            "mrc.toml, line 9, `dscp_trimmable`: DSCP 40 is given to two roles",
        ),
        ("[dscp]", "[protocol]\nctl_ect = true\n\n[dscp]", "mrc.toml, line 8, `ctl_ect`: invalid type: boolean"),
        ("[dscp]", "[protocol]\nsvc_time = 1\nctl_ect = -1\n\n[dscp]", "mrc.toml, line 9, `ctl_ect`: invalid value"),
        ("mtu = 9000", "mtu = 9000\nnamespace = \"\"", "mrc.toml, line 6, `namespace`: a name under /run/netns"),
        ("plane1", "a-name-too-long1", "mrc.toml, line 17, `interface`: 1 to 15 bytes"),
        ("plane1", "plane0", "mrc.toml, line 17, `interface`: `plane0` carries another plane already"),
        ("uplinks = 4", "uplinks = 400", "mrc.toml, line 27, `uplinks`: 400: at most 256"),
        ("uplinks = 4\n", "", "mrc.toml, line 22, `[[peers]]`: missing field `uplinks`"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let text = HostFile::parse("mrc.toml", &FILE.replace(from, to)).unwrap_err().to_string();
        assert!(text.starts_with(want), "{text}");
    }
}

/// A program that connected to the second one wrote to the first.
#[test]
fn a_link_local_gid_of_several_hosts_names_none() {
    let second =
        "\n[[peers]]\nname = \"hC\"\ngid = \"fd01::2\"\nuplinks = 4\ntemplate = \"fcbb:bb00:1000:2000:1001:3002::\"\n";
    let host = HostFile::parse("mrc.toml", &format!("{FILE}{second}")).unwrap();
    let named = |gid: &str| host.peer_by_gid(gid.parse().unwrap()).map(|peer| peer.name);
    assert_eq!(named("fe80::2"), None);
    assert_eq!([named("fd00::2"), named("fd01::2")].map(Option::unwrap), ["hB", "hC"]);
    assert_eq!(named("fe80::1").as_deref(), Some("hA"));
    let like_us = HostFile::parse("mrc.toml", &FILE.replace("fd00::2", "fd01::1")).unwrap();
    assert!(like_us.peer_by_gid("fe80::1".parse().unwrap()).is_none());
    assert_eq!(like_us.peer_by_gid("fd01::1".parse().unwrap()).unwrap().name, "hB");
}

#[test]
fn names_that_no_log_or_folder_can_have_are_refused() {
    for (good, bad, key) in [
        ("name = \"hA\"", "name = \"a\\u0000b\"", "name"),
        ("name = \"hB\"", "name = \"\\u001b[31mB\"", "name"),
        ("mtu = 9000", "mtu = 9000\ndevice = \"..\"", "device"),
        ("mtu = 9000", "mtu = 9000\ndevice = \"\"", "device"),
    ] {
        let error = HostFile::parse("mrc.toml", &FILE.replace(good, bad)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`")), "{error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
    for good in ["name = \"host A, rack 3\"", "name = \"Höst\""] {
        assert!(HostFile::parse("mrc.toml", &FILE.replace("name = \"hA\"", good)).is_ok());
    }
}

/// Only a file that is not there is one to write.
#[test]
fn the_standard_file_in_a_folder_that_may_not_be_entered_is_no_missing_one() {
    // Nothing can be below a file: who looks gets an error, as without the right to enter, also as root.
    let nowhere = std::env::current_exe().unwrap().join("mrc.toml");
    let path = HostFile::standard_path(&nowhere).unwrap();
    assert!(HostFile::read(&path).unwrap_err().to_string().starts_with("cannot read "));
    let error = HostFile::standard_path(Path::new("/no/such/mrc.toml")).unwrap_err().to_string();
    assert!(error.starts_with("no configuration: /no/such/mrc.toml does not exist"), "{error}");
}

/// `mrc doctor` and the libraries print this error.
#[test]
fn what_an_error_quotes_of_a_file_neither_steers_nor_fills_a_terminal() {
    for broken in [
        "\u{1b}[31mred = 1",
        "a\u{1b}]0;title\u{7} = 1",
        "\"\\u001b[31mred\" = 2",
        &"\0".repeat(5000),
        &"[".repeat(200_000),
    ] {
        let error = HostFile::parse("mrc.toml", &format!("{broken}\n{FILE}")).unwrap_err().to_string();
        assert!(error.starts_with("mrc.toml, line 1, `"), "{error:?}");
        assert!(!error.contains(char::is_control) && error.len() < 500, "{} bytes: {error:.100?}", error.len());
    }
}
