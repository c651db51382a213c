//! Scenario files: what they do, and what they say when they are wrong.

use std::collections::BTreeMap;
use std::path::Path;

use mrc_sim::run::{GroupReport, Options, Outcome, Results, RunEnd, run};
use mrc_sim::scenario::{Built, ScenarioError, TransportSettings, keys_by_kind, load, load_str, schema};
use mrc_sim::{MrcTransport, scheme};

fn built(text: &str) -> Built {
    load_str("test.toml", text, Path::new("."), &[], None).unwrap_or_else(|error| panic!("{error}"))
}

fn results(text: &str) -> Results {
    let Outcome { results, .. } = run(&built(text), &Options::default(), &mut |_| ()).unwrap();
    assert_eq!(results.misplaced, 0);
    results
}

fn refusal(text: &str, set: &[&str]) -> ScenarioError {
    let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
    load_str("test.toml", text, Path::new("."), &set, None).unwrap_err()
}

const STREAM: &str = "[[workload]]\nkind = \"point-to-point\"\nbytes = 1000000\nmessages = 4\n";

#[test]
fn every_ready_scenario_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut folders = vec![folder];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                // Sweeps and tuning files are no scenarios but name one; `mrc sim sweep` and `mrc sim tune` read them.
                let text = std::fs::read_to_string(&path).unwrap();
                if ["\n[[axis]]\n", "\n[[side]]\n"].iter().any(|table| text.contains(table)) {
                    continue;
                }
                let built = load(&path, &[], None).unwrap_or_else(|error| panic!("{error}"));
                assert!(!built.scenario.about.is_empty(), "{}: says nothing about itself", path.display());
                files += 1;
            }
        }
    }
    assert!(files >= 6, "{files}");
}

/// 1.001 us are 1000.9999999999999 ns in binary fractions.
#[test]
fn a_run_ends_in_the_nanosecond_that_its_file_says() {
    let results = results(&format!("limit_us = 1.001\nbin_us = 0.1\n{STREAM}"));
    assert_eq!((results.end_us, results.timeline.at_us.last()), (1.001, Some(&1.001)));
    assert!(results.diagnosis.unwrap().starts_with("limit_us = 1.001 ended the run at 1.001 us"));
}

/// What the file does not say has room for what it says.
#[test]
fn queues_that_a_file_leaves_out_hold_a_full_packet() {
    let queue = |text: &str| built(&format!("{text}{STREAM}")).topology.queue().data_bytes;
    assert_eq!(queue("[transport.mrc]\nbase_rtt_us = 0.001\n"), 4096 + 142);
    let datagrams = "[topology]\nhost_gbps = 0.5\n[transport]\nkind = \"line-rate\"\nparams.mtu = 9000\n";
    assert!(queue(datagrams) > 9000);
}

#[test]
fn a_stream_fills_the_link() {
    let results = results(STREAM);
    assert!(results.finished);
    assert_eq!((results.flows, results.completed, results.retransmitted_packets), (4, 4, 0));
    // 4096 of 4238 bytes are payload.
    assert!((93.0..96.7).contains(&results.goodput_gbit_per_s), "{}", results.goodput_gbit_per_s);
    assert!(results.slowdown.unwrap().mean >= 1.0);
}

#[test]
fn entries_of_one_link_add_up() {
    // RoCE hosts send and acknowledge without timers of their own here, so that times are links and nothing else.
    let roce = "[transport]\nkind = \"roce\"\n";
    let fct = |links: &str| results(&format!("{roce}{links}[[workload]]\nbytes = 1000000\n")).fct_us.unwrap().max;
    let slow = "[[link]]\nname = [\"p0-hA\"]\ngbps = 10\n";
    let far = "[[link]]\nname = [\"p0-hA\", \"p0-hD\"]\ndelay_us = 7\n";
    // 244 packets of 4190 bytes and one of 670 at 10 Gb/s, 818.3 us and the rest of the way; and two links of 6.5 us more each way.
    let (near, away) = (fct(slow), fct(&format!("{slow}{far}")));
    assert!((820.0..825.0).contains(&near), "{near}");
    assert!((away - near - 26.0).abs() < 0.01, "{near} {away}");
    assert_eq!(fct(&format!("{far}{slow}")), away);
}

/// All bytes arrive, once and in time, and every link between switches carries some of them in each direction.
#[test]
fn every_forwarding_mode_delivers_over_every_link() {
    const BYTES: u32 = 100_000;
    for info in scheme::SCHEMES {
        for shape in ["clos", "dumbbell"] {
            let forwarding = info.name;
            let text = format!(
                "[topology]\nshape = \"{shape}\"\nplanes = 2\nhosts_per_t0 = 4\nforwarding = \"{forwarding}\"\n\
                 [[workload]]\nkind = \"permutation\"\nother_leaf = true\nbytes = {BYTES}\n"
            );
            if shape == "dumbbell" && info.check.is_some() {
                // Schemes that choose among paths say that a dumbbell has one.
                let refused = load_str("test.toml", &text, Path::new("."), &[], None).unwrap_err().to_string();
                assert!(refused.contains("no alternative path"), "{refused}");
                continue;
            }
            let options = Options { messages: true, links: true, ..Options::default() };
            let Outcome { results, messages, links, .. } = run(&built(&text), &options, &mut |_| ()).unwrap();
            let said = format!("{forwarding} {shape}");
            assert_eq!((results.completed, results.failed, results.misplaced, results.drops), (8, 0, 0, 0), "{said}");
            assert!(
                messages.iter().all(|row| row.bytes == BYTES && row.missing_bytes == 0 && row.ports == 2),
                "{said}"
            );
            // Four flows share the middle of a dumbbell; elsewhere each has the link of its host.
            let most = if shape == "dumbbell" { 6.0 } else { 4.0 };
            let slowdown = results.slowdown.unwrap();
            assert!((0.999..most).contains(&slowdown.mean), "{said}: {slowdown:?}");
            let mut carried: BTreeMap<(&str, bool), f64> = BTreeMap::new();
            for row in links.iter().filter(|row| row.link.contains("-t0")) {
                *carried.entry((&row.link, row.upwards)).or_default() += row.percent;
            }
            let count = if shape == "dumbbell" { 2 * 2 } else { 2 * 2 * 4 * 2 };
            assert_eq!(carried.len(), count, "{said}: {carried:?}");
            // Acknowledgements alone are some per cent of the data.
            let least = carried.values().sum::<f64>() / count as f64 / 20.0;
            assert!(carried.values().all(|&percent| percent > least), "{said}: {carried:?}");
        }
    }
}

/// Each of the engine's knobs makes a run on which it has a say another one.
#[test]
fn every_knob_of_the_engine_reaches_it() {
    let fabric = "limit_us = 3000\n[topology]\nplanes = 2\nhosts_per_t0 = 4\n\
                  [queue]\necn_last_hop = true\ntrim_last_hop_bytes = 300000\n";
    let run = |knobs: &str| {
        let faults = "[[fault]]\ntarget = [\"p0-t0a-t1a\"]\nat_us = 30\nfor_us = 400\n\
                      [[fault]]\nkind = \"loss\"\nprobability = 0.003\n\
                      [[fault]]\ntarget = [\"p1-hB\"]\nat_us = 100\nfor_us = 300\n";
        let load = "[[workload]]\nkind = \"incast\"\nbytes = 200000\nmessages = 2\ndepth = 1\n\
                    [[workload]]\nkind = \"permutation\"\nbytes = 1000000\n\
                    [[workload]]\nfrom = 5\nto = 2\nstart_us = 2500\nbytes = 5000\n";
        results(&format!("{fabric}[transport.mrc]\nprobe_interval_us = 50\n{knobs}\n{faults}{load}")).fabric_digest
    };
    let [spray, hopper, bender] = ["spray", "hopper", "flow-bender"].map(|name| run(&format!("selector = \"{name}\"")));
    let mut silent = Vec::new();
    for knob in [
        "cc_crowds = true",
        "cc_fair_increase_bytes = 100000",
        "cc_fixed_increase_bytes = 9000",
        "cc_fast_increase = 1.5",
        "cc_decrease = 0.1",
        "cc_decrease_least = 0.9",
        "cc_adjust_bytes = 4096",
        "cc_adjust_us = 1",
        "cc_clear_us = 4",
        "cc_quick_adapt_gate = 0",
        "probe_rate_limit_us = 500",
        "keepalive_us = 20",
        "ev_probes_per_second = 0",
        "answers_per_second = 0",
        "share_bad_evs = true",
        "probe_service_time = true",
        "port_update_rto_us = 5",
        "port_update_on_start = false",
    ] {
        silent.extend((run(knob) == spray).then_some(knob));
    }
    for knob in [
        "hopper_alpha_percent = 10",
        "hopper_probe_percent = 110",
        "hopper_congested_percent = 160",
        "hopper_ttl_percent = 20",
        "hopper_better_percent = 20",
        "hopper_pause_percent = 0",
        "hopper_pause_max_percent = 5",
        "hopper_probe_on_mark = true",
    ] {
        silent.extend((run(&format!("selector = \"hopper\"\n{knob}")) == hopper).then_some(knob));
    }
    for knob in ["flow_bender_permille = 900", "flow_bender_epochs = 4", "flow_bender_rtt_percent = 110"] {
        silent.extend((run(&format!("selector = \"flow-bender\"\n{knob}")) == bender).then_some(knob));
    }
    for (name, knobs) in [
        ("plb", &["plb_permille = 10", "plb_rounds = 3"][..]),
        ("reps", &["reps_explore_packets = 200", "reps_reuse = 4", "reps_freeze_percent = 50000"]),
        (
            "flowing-jumping",
            &[
                "flowing_paths = 3",
                "flowing_demand_packets = 7",
                "flowing_gbps = 10",
                "flowing_aging_percent = 1000",
                "flowing_refresh_percent = 0",
            ],
        ),
    ] {
        let plain = run(&format!("selector = \"{name}\""));
        silent.extend(knobs.iter().filter(|knob| run(&format!("selector = \"{name}\"\n{knob}")) == plain));
    }
    // Those that matter only beside others.
    for (others, knob) in [
        ("cc_quick_adapt_gate = 0", "cc_quick_adapt_us = 3"),
        ("selector = \"plb\"\nplb_permille = 10", "plb_idle_rounds = 12"),
        (
            "selector = \"plb\"\nplb_permille = 10\nplb_idle_rounds = 1\nplb_rounds = 1\nrto_us = 15",
            "plb_suspend_us = 0",
        ),
        ("selector = \"hopper\"\nloss_action = \"skip\"", "hopper_move_on_loss = false"),
    ] {
        silent.extend((run(&format!("{others}\n{knob}")) == run(others)).then_some(knob));
    }
    assert!(silent.is_empty(), "{silent:?} change nothing");
}

/// Skew is waiting, which bus bandwidth counts, and computation is not; the slowest message is the one of the maximum.
#[test]
fn bandwidth_leaves_out_computation_alone_and_the_slowest_are_named() {
    let run = |keys: &str| {
        let text = format!("[[workload]]\nkind = \"all-to-all\"\nbytes = 800000\niterations = 4\n{keys}\n");
        results(&text).groups.remove(0)
    };
    let (plain, computing, skewed) = (run(""), run("compute_us = 500"), run("skew_us = 500"));
    let bus = |group: &GroupReport| group.bus_gbit_per_s.unwrap();
    assert!((bus(&computing) / bus(&plain) - 1.0).abs() < 0.05, "{} and {}", bus(&computing), bus(&plain));
    assert!(bus(&skewed) < 0.5 * bus(&plain), "{} and {}", bus(&skewed), bus(&plain));
    // All repetitions over all their time: the mean of equal amounts is harmonic.
    let harmonic = 4.0 / plain.iterations.iter().map(|it| 1.0 / it.bus_gbit_per_s).sum::<f64>();
    assert!((bus(&plain) / harmonic - 1.0).abs() < 1e-3, "{} and {harmonic}", bus(&plain));
    let slowest: Vec<f64> = skewed.slowest.iter().map(|message| message.fct_us).collect();
    assert_eq!((slowest.len(), slowest[0]), (8, skewed.fct_us.unwrap().max));
    assert!(slowest.is_sorted_by(|a, b| a >= b) && slowest[7] >= skewed.fct_us.unwrap().p50, "{slowest:?}");
}

#[test]
fn every_workload_ends() {
    for (kind, more) in [
        ("point-to-point", "bidirectional = true\nmessages = 3\nbytes = 50000"),
        ("permutation", "bytes = 50000\nother_leaf = false"),
        ("incast", "bytes = 50000\nto = 7\nstagger_us = 5"),
        ("all-reduce", "bytes = 80000\niterations = 2"),
        ("all-gather", "bytes = 80000"),
        ("reduce-scatter", "bytes = 80000"),
        ("all-to-all", "bytes = 80000\niterations = 2\nskew_us = 3"),
        ("neighbours", "bytes = 80000\nstride = 2\nhosts = 4"),
        ("poisson", "flows = 40\nload = 0.3\nsizes = [[1000, 0.5], [100000, 1.0]]"),
        ("training-step", "bytes = 80000\ncompute_us = 30\niterations = 2"),
    ] {
        let text = format!("[topology]\nhosts_per_t0 = 4\n[[workload]]\nkind = \"{kind}\"\n{more}\n");
        let results = results(&text);
        assert!(results.finished, "{kind}: {results:?}");
        if kind == "training-step" {
            assert_eq!(results.groups[0].iterations.len(), 2);
            assert!(results.groups[0].iterations.iter().all(|step| step.us > 30.0));
        }
    }
}

#[test]
fn a_trace_file_waits_for_its_lines() {
    let folder = std::env::temp_dir().join(format!("mrc-sim-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("t.csv"), "# start,from,to,bytes,after\n5,0,3,10000\n0,3,1,20000,2\n").unwrap();
    let text = "[[workload]]\nkind = \"trace\"\nfile = \"t.csv\"\n";
    let built = load_str("test.toml", text, &folder, &[], None).unwrap();
    let results = run(&built, &Options::default(), &mut |_| ()).unwrap().results;
    assert!(results.finished && results.end_us > 10.0, "{results:?}");
    for (trace, place, says) in [
        ("0,3,1,20000,7\n", "t.csv:1: ", "line `7`"),
        ("# \n0,3,9,20000\n", "t.csv:2: ", "hosts are 0 to 3"),
        ("0,1,1,20000\n", "t.csv:1: ", "do not send to themselves"),
        ("0,0,1,0\n", "t.csv:1: ", "1 to 2147483648 bytes"),
        ("0,0,1,2147483649\n", "t.csv:1: ", "2147483649 bytes: a message has at most 2147483648"),
        ("# nothing\n\n", "t.csv ", "holds no message"),
    ] {
        std::fs::write(folder.join("t.csv"), trace).unwrap();
        let error = load_str("test.toml", text, &folder, &[], None).unwrap_err().to_string();
        assert!(error.starts_with("test.toml:3: workload[0].file: "), "{error}");
        assert!(error.contains(place) && error.contains(says), "{trace:?} gave {error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_are_named_with_file_line_and_key() {
    for (text, place, says) in [
        ("seed = 1\n[topology]\nplains = 2\n", "test.toml:3: topology.plains: ", "planes"),
        (
            "[transport.mrc]\npreset = \"x\"\n",
            "test.toml:2: transport.mrc.preset: ",
            "`preset`; it stands before all tables",
        ),
        ("[transport.mrc]\nkmin = 1\n", "test.toml:2: transport.mrc.kmin: ", "`kmin`; `mrc sim schema` lists the 9"),
        (
            "[[link]]\nbetween = []\n",
            "test.toml:2: link[0].between: ",
            "`gbps`, `delay_us`; it stands in [[topology.edge]]",
        ),
        ("topology = 5\n", "test.toml:1: topology: ", "`5`, expected a table"),
        ("fault = 5\n", "test.toml:1: fault: ", "`5`, expected a list"),
        ("[topology]\nplanes = -1\n", "test.toml:2: topology.planes: ", "`-1`, expected a whole number, 0 to 255"),
        (
            "seed = 9223372036854775808\n",
            "test.toml:1: seed: ",
            "an integer of a TOML file is at most 9223372036854775807",
        ),
        ("[topology]\nforwarding = \"magic\"\n", "test.toml:2: topology.forwarding: ", "round-robin"),
        ("[topology]\nplanes = 9\n", "test.toml:2: topology.planes: ", "8 ports"),
        ("[topology]\nhosts_per_t0 = 257\nt1 = 4\n", "test.toml:2: topology.hosts_per_t0: ", "256 hosts"),
        ("[topology]\nhosts_per_t0 = 257\n", "test.toml:2: topology.hosts_per_t0: ", "at most 256"),
        ("[topology]\nplanes = 0\n", "test.toml:2: topology.planes: ", "1 to 8"),
        ("[topology]\nt0 = 1025\n", "test.toml:2: topology.t0: ", "1 to 1024"),
        ("[topology]\nt1 = 2\noversubscription = 4\n", "test.toml:3: topology.oversubscription: ", "one of both"),
        ("[topology]\nshape = \"dumbbell\"\noversubscription = 4\n", "test.toml:3: topology.overs", "fabric_gbps"),
        ("[topology]\nshape = \"dumbbell\"\nt0 = 4\n", "test.toml:3: topology.t0: ", "has 2"),
        ("[queue]\ntrim = false\npfc = true\n", "test.toml:3: queue.pfc: ", "roce"),
        ("[queue]\ndata_bytes = 30000\ntrim_bytes = 40000\n", "test.toml:3: queue.trim_bytes: ", "30000"),
        ("[queue]\ndata_bytes = 30000\ntrim_last_hop_bytes = 40000\n", "test.toml:3: queue.trim_last_hop", "30000"),
        ("[queue]\ntrimmed_bytes = 9000\n", "test.toml:2: queue.trimmed_bytes: ", "less than a full packet"),
        ("[queue]\ndata_bytes = 0\n", "test.toml:2: queue.data_bytes: ", "full packet"),
        ("[queue]\ncontrol_bytes = 0\n", "test.toml:2: queue.control_bytes: ", "at least one"),
        ("[queue]\npfc_xon_bytes = 5\n", "test.toml:2: queue.pfc_xon_bytes: ", "beside"),
        ("[transport.mrc]\ncc_window_bytes = 0\n", "test.toml:2: transport.mrc.cc_window_bytes: ", "at least 1"),
        ("[transport.mrc]\nrto_us = 0\n", "test.toml:2: transport.mrc.rto_us: ", "at least 0.001"),
        ("[transport]\nkind = \"roce\"\nroce.rto_us = 0\n", "test.toml:3: transport.roce.rto_us: ", "at least"),
        ("[transport]\nkind = \"roce\"\nroce.rto_low_us = 0\n", "test.toml:3: transport.roce.rto_low", "at least"),
        ("[[link]]\nname = [\"p0-hA\"]\n", "test.toml:1: link[0]: ", "gbps"),
        ("[[fault]]\n[[fault]]\nat_us = \"x\"\n", "test.toml:3: fault[1].at_us: ", "expected a number"),
        ("[queue]\necn_min_bytes = 9\necn_max_bytes = 8\n", "test.toml:2: queue.ecn_min_bytes: ", "at most"),
        ("[transport.mrc]\nmtu = 1500\n", "test.toml:2: transport.mrc.mtu: ", "4096"),
        ("[transport.mrc]\nwindow_packets = 100\n", "test.toml:2: transport.mrc.window_packets: ", "128 times"),
        ("limit_us = 1e12\n", "test.toml:1: limit_us: ", "10 million bins"),
        ("bin_us = 0.001\n", "test.toml:1: bin_us: ", "10 million bins"),
        ("[queue]\necn_max_bytes = 0\n", "test.toml:2: queue.ecn_max_bytes: ", "by default"),
        ("[topology]\nhost_gbps = 10000\nplanes = 2\n", "test.toml:2: topology.host_gbps: ", "cc_gbps"),
        ("[topology]\nhost_delay_us = 1e6\n", "test.toml:1: topology: ", "at most 1e6 us"),
        ("[transport.mrc]\nbase_rtt_us = 4e6\n", "test.toml:2: transport.mrc.base_rtt_us: ", "at most 1e6 us"),
        ("[transport.mrc]\ncc_target_us = 4e6\n", "test.toml:2: transport.mrc.cc_target_us: ", "at most 1e6 us"),
        ("[transport.mrc]\ntail_probe_us = 1e7\n", "test.toml:2: transport.mrc.tail_probe_us: ", "at most 1e6 us"),
        ("[transport.mrc]\nreorder_delay_us = 1e7\n", "test.toml:2: transport.mrc.reorder_delay_us: ", "at most"),
        ("[transport.mrc]\nactive_evs = 5000\n", "test.toml:2: transport.mrc.active_evs: ", "1 to 4096"),
        ("[transport.mrc]\nactive_evs = 4096\n", "test.toml:2: transport.mrc.active_evs: ", "64 backup_evs"),
        ("[transport.mrc]\ncc_adjust_bytes = 0\n", "test.toml:2: transport.mrc.cc_adjust_bytes: ", "at least 1"),
        ("[transport.mrc]\ncc_clear_us = 1e7\n", "test.toml:2: transport.mrc.cc_clear_us: ", "at most 1e6 us"),
        // What the engine's fixed point would take for the default.
        ("[transport.mrc]\ncc_target_us = 0\n", "test.toml:2: transport.mrc.cc_target_us: ", "at least 0.001 us"),
        ("[transport.mrc]\ncc_target_us = 1e-4\n", "test.toml:2: transport.mrc.cc_target_us: ", "at least 0.001 us"),
        (
            "[transport.mrc]\ncc_delay_weight = 1e-5\n",
            "test.toml:2: transport.mrc.cc_delay_weight: ",
            "at least 0.00002",
        ),
        ("[transport.mrc]\ncc_decrease = 17\n", "test.toml:2: transport.mrc.cc_decrease: ", "0.0001 to 16"),
        ("[transport.mrc]\ncc_quick_adapt_gate = 32\n", "test.toml:2: transport.mrc.cc_quick_adapt_gate: ", "0 to 31"),
        ("[transport.mrc]\nbackup_evs = 4096\n", "test.toml:2: transport.mrc.backup_evs: ", "at most 4096"),
        ("[transport.mrc]\nexponential_retries = 26\n", "test.toml:2: transport.mrc.exponential_retries: ", "0 to 25"),
        ("[transport.mrc]\ncontrol_packet_bytes = 90\n", "test.toml:2: transport.mrc.control_packet_bytes: ", "beside"),
        (
            "[transport.mrc]\ncontrol_packet_bytes = 90\ndata_overhead_bytes = 4294967295\n",
            "test.toml:3: transport.mrc.data_overhead_bytes: ",
            "1 to 65536",
        ),
        (
            "[topology]\nshape = \"dumbbell\"\n[[fault]]\nkind = \"transceiver\"\n",
            "test.toml:4: fault[0].kind: ",
            "no leaf has links to switches above it",
        ),
        ("[[fault]]\nkind = \"transceiver\"\ntier = \"any\"\n", "test.toml:3: fault[0].tier: ", "fabric or host"),
        ("[[fault]]\nfor_us = 1\ntimes = 65536\nevery_us = 1e12\n", "test.toml:4: fault[0].every_us: ", "beyond 1e12"),
        ("[[fault]]\nstagger_us = 1e12\n", "test.toml:2: fault[0].stagger_us: ", "beyond 1e12"),
        ("limit_us = -5\n", "test.toml:1: limit_us: ", "0 to"),
        ("preset = \"best\"\n", "test.toml:1: preset: ", "parity"),
        ("x = [\n", "test.toml:", "array"),
        ("[[fault]]\nkind = \"loss\"\n", "test.toml:1: fault[0].probability: ", "probability"),
        ("[[fault]]\ntarget = [\"p7-hA\"]\n", "test.toml:2: fault[0].target: ", "links are p0-hA to"),
        ("[[fault]]\ntarget = [\"p0-ha\"]\n", "test.toml:2: fault[0].target: ", "did you mean `p0-hA`?"),
        ("[[link]]\nname = [\"p0-t0a-t1\"]\ngbps = 1\n", "test.toml:2: link[0].name: ", "did you mean `p0-t0a-t1a`?"),
        (
            "[[fault]]\nkind = \"switch-down\"\ntarget = [\"p0-t2a\"]\n",
            "test.toml:3: fault[0].target: ",
            "switches are p0-t0a to p0-t1b; did you mean `p0-t0a`?",
        ),
        ("[[fault]]\ntarget = []\n", "test.toml:2: fault[0].target: ", "set random to 0"),
        ("[[fault]]\ntarget = [\"p0-hA\"]\ntier = \"host\"\n", "test.toml:3: fault[0].tier: ", "already what"),
        ("[[fault]]\nrandom = 1\nevery_us = 5\n", "test.toml:3: fault[0].every_us: ", "needs times"),
        (
            "[[fault]]\nkind = \"corruption\"\nprobability = 0.5\nlonger_than = 9\n",
            "test.toml:4: fault[0].longer_than: ",
            "`loss` only",
        ),
        (
            "[[fault]]\nkind = \"slow\"\nprobability = 0.5\n",
            "test.toml:3: fault[0].probability: ",
            "`loss`, `corruption` only",
        ),
        ("[[fault]]\nkind = \"switch-down\"\nrandom = 90\n", "test.toml:3: fault[0].random: ", "no more"),
        ("[[fault]]\nkind = \"switch-down\"\ntier = \"t2\"\n", "test.toml:3: fault[0].tier: ", "nothing of tier t2"),
        // A list is no table, and a table no list, however serde may read them.
        ("[[topology]]\n", "test.toml:1: topology: ", "write [topology]"),
        ("host = [3.0]\n", "test.toml:1: host: ", "write [host]"),
        ("[transport]\nmrc = [1, 4096]\n", "test.toml:2: transport.mrc: ", "write [transport.mrc]"),
        ("[link]\nname = [\"p0-hA\"]\n", "test.toml:1: link: ", "write [[link]]"),
        ("fault = [[\"link-down\", 3.0]]\n", "test.toml:1: fault: ", "write [[fault]]"),
        ("until = 3\n", "test.toml:1: until: ", "a word in quotes, one of `completed`, `limit`"),
        ("[[fault]]\nkind = 3\n", "test.toml:2: fault[0].kind: ", "one of `link-down`, `transceiver`, "),
        ("[transport]\nkind = \"ROCE\"\n", "test.toml:2: transport.kind: ", "did you mean `roce`?"),
        ("[transport.mrc]\nmtu = 0\n", "test.toml:2: transport.mrc.mtu: ", "allowed are 256"),
        ("[transport.mrc]\nflowing_gbps = -1\n", "test.toml:2: transport.mrc.flowing_gbps: ", "allowed are 0.001"),
        ("[transport.mrc]\nplb_suspend_us = nan\n", "test.toml:2: transport.mrc.plb_suspend_us: ", "allowed are 0"),
        (
            "[topology]\nforwarding = \"drill\"\nscheme.samples = 0\n",
            "test.toml:3: topology.scheme.samples: ",
            "allowed are the whole numbers from 1 to 64",
        ),
        (
            "[topology]\nforwarding = \"conga\"\nscheme.bits = 2.5\n",
            "test.toml:3: topology.scheme.bits: ",
            "2.5: allowed are the whole numbers from 1 to 8",
        ),
    ] {
        let error = refusal(&format!("{text}\n{STREAM}"), &[]).to_string();
        assert!(error.starts_with(place), "{text:?} gave {error}");
        assert!(error.contains(says), "{text:?} gave {error}");
    }
    for (workload, place, says) in [
        ("", "test.toml: workload: ", "add a [[workload]]"),
        ("[[workload]]\nfan_in = 3\n", "test.toml:2: workload[0].fan_in: ", "takes bytes"),
        ("[[workload]]\nbytes = 0\n", "test.toml:2: workload[0].bytes: ", "1 to"),
        ("[[workload]]\nto = 4\n", "test.toml:2: workload[0].to: ", "hosts are 0 to 3"),
        ("[[workload]]\njob = \"x\"\n", "test.toml:2: workload[0].job: ", "no [[job]] is called `x`; there is none"),
        ("[[workload]]\nkind = \"incast\"\nstagger_us = 9e11\n", "test.toml:3: workload[0].stagger_us: ", "beyond"),
        ("[[workload]]\nkind = \"all-reduce\"\nbytes = 99999999999\n", "test.toml:1: workload[0]: ", "or channels"),
        (
            "[[workload]]\n[[workload]]\nkind = \"all-reduce\"\nbytes = 99999999999\n",
            "test.toml:2: workload[1]: ",
            "or channels",
        ),
        (
            "[[workload]]\nkind = \"permutation\"\nmessages = 134217728\n",
            "test.toml:3: workload[0].messages: ",
            "536870912 messages; at most 134217728",
        ),
        ("[[workload]]\nmessages = 4294967295\n", "test.toml:2: workload[0].messages: ", "at most 134217728"),
        ("[[workload]]\nkind = \"poisson\"\nflows = 4294967295\n", "test.toml:3: workload[0].flows: ", "at most"),
        ("[[workload]]\nkind = \"incast\"\nfan_in = 4\n", "test.toml:3: workload[0].fan_in: ", "3 senders"),
        (
            "[[workload]]\nkind = \"all-reduce\"\niterations = 99999999\n",
            "test.toml:3: workload[0].iterations: ",
            "most",
        ),
        (
            "[[workload]]\nkind = \"all-reduce\"\nconcurrency = 4\n",
            "test.toml:3: workload[0].concurrency: ",
            "means nothing",
        ),
        ("[[workload]]\nkind = \"trace\"\nfile = \"/no/such\"\n", "test.toml:3: workload[0].file: ", "/no/such"),
    ] {
        let error = refusal(workload, &[]).to_string();
        assert!(error.starts_with(place) && error.contains(says), "{workload:?} gave {error}");
    }
}

/// Whatever key the schema has: a kind that does not take it says so, and where.
#[test]
fn every_key_of_a_workload_is_refused_by_the_kinds_that_do_not_take_it() {
    let schema = schema();
    let keys = schema["$defs"]["WorkloadKeys"]["properties"].as_object().unwrap();
    let mut refused = 0;
    for (kind, takes) in keys_by_kind() {
        for (key, about) in keys.iter().filter(|(key, _)| !["kind", "name", "job"].contains(&key.as_str())) {
            let value = match about["type"].as_str() {
                Some("integer") => "1",
                Some("number") => "1.0",
                Some("boolean") => "true",
                Some("array") => "[[1.0, 1.0]]",
                Some("string") => "\"x\"",
                _ if key == "load_of" => "\"uplink\"",
                _ if key == "format" => "\"goal\"",
                _ if key == "sizes" => "\"hadoop\"",
                _ => "\"all-reduce\"",
            };
            if takes.contains(&key.as_str()) {
                continue;
            }
            let error = refusal(&format!("[[workload]]\nkind = \"{kind}\"\n{key} = {value}\n"), &[]).to_string();
            let says = format!(
                "test.toml:3: workload[0].{key}: means nothing to kind \"{kind}\"; it takes {}",
                takes.join(", ")
            );
            assert_eq!(error, says);
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn changes_from_the_command_line_are_checked_too() {
    for (set, place, says) in [
        ("queue.trim=perhaps", "--set: queue.trim: ", "true or false"),
        ("queue.trimm=true", "--set: queue.trimm: ", "trim"),
        ("topology.planes=9", "--set: topology.planes: ", "8 ports"),
        ("workload.3.bytes=9", "--set: workload.3.bytes=9: ", "list of 1"),
        ("fault.0.kind=loss", "--set: fault.0.kind=loss: ", "needs a [[fault]] first"),
        ("host=[3.0]", "--set: host: ", "write [host]"),
        ("queue.trim_victim=3", "--set: queue.trim_victim: ", "one of `arriving`, "),
        ("transport.roce.qps=2", "--set: transport.roce.qps: ", "no effect: transport.kind is \"mrc\""),
        ("nothing", "--set: nothing: ", "key=value"),
    ] {
        let error = refusal(STREAM, &[set]).to_string();
        assert!(error.starts_with(place) && error.contains(says), "{set} gave {error}");
    }
    let set = ["workload.0.bytes=4096".to_owned(), "topology.forwarding=ecmp".to_owned()];
    let built = load_str("test.toml", STREAM, Path::new("."), &set, Some(9)).unwrap();
    assert_eq!((built.plan.messages[0].bytes, built.scenario.seed), (4096, 9));
}

#[test]
fn too_much_for_memory_is_refused_before_it_is_allocated() {
    // Terabytes: more than any machine has free that plays this test.
    let text = "[topology]\nplanes = 8\nt0 = 16\nhosts_per_t0 = 64\n[transport.mrc]\nwindow_packets = 16384\nqps = 256\n\
                [[workload]]\nkind = \"all-to-all\"\n";
    let error = refusal(text, &[]).to_string();
    assert!(error.contains("queue pairs") && error.contains("MiB are free"), "{error}");
}

/// Nor does a plan take the memory before it is refused. Both of these would need more than a terabyte.
#[test]
fn a_plan_that_does_not_fit_is_not_laid_out() {
    let rounds = "[topology]\nt0 = 8\nhosts_per_t0 = 8\n[[workload]]\nkind = \"all-reduce\"\niterations = 4294967295\n";
    assert!(refusal(rounds, &[]).to_string().starts_with("test.toml:6: workload[0].iterations: "));
    let folder = std::env::temp_dir().join(format!("mrc-sim-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::File::create(folder.join("a.goal")).unwrap().set_len(1 << 40).unwrap();
    let trace = "[[workload]]\nkind = \"trace\"\nfile = \"a.goal\"\n";
    let error = load_str("test.toml", trace, &folder, &[], None).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error.contains("a.goal: so long a text needs 8388608 MiB, and "), "{error}");
}

/// With a connection or two, a host itself takes more memory than its queue pairs.
#[test]
fn every_host_counts_in_the_memory_of_a_run() {
    let bytes = |hosts_per_t0: u32| {
        let built = built(&format!("[topology]\nt1 = 2\nhosts_per_t0 = {hosts_per_t0}\n{STREAM}"));
        let TransportSettings::Mrc(settings) = &built.transports[0].settings else { panic!("MRC is the default") };
        settings.bytes(&built.topology, &built.pairs)
    };
    // Where the transports are made, and in the fabric.
    assert!(bytes(102) - bytes(2) > 200 * 2 * size_of::<MrcTransport<'_>>() as u64);
}

#[test]
fn a_run_without_progress_stops_with_a_diagnosis() {
    // The receiver's only link is down for ever, and the sender tries for ever.
    let text = format!(
        "stall_us = 20000\n[transport.mrc]\nexponential_retries = 25\n\
         [[fault]]\ntarget = [\"p0-hD\"]\nat_us = 10\n{STREAM}"
    );
    let results = results(&text);
    let says = results.diagnosis.unwrap();
    assert_eq!((results.ended, results.finished, results.fct_us), (RunEnd::Stalled, false, None));
    assert!(says.contains("no byte arrived for 20000 us (stall_us)") && says.contains("0 to 3"), "{says}");
}

#[test]
fn goodput_goes_on_as_zero_where_nothing_arrives() {
    let cut = "limit_us = 3000\n[[fault]]\ntarget = [\"p0-hD\"]\nat_us = 100\n";
    let results = results(&format!("{cut}{STREAM}[[workload]]\nfrom = 1\nto = 0\nbytes = 100000\n"));
    let [cut, whole] = &results.timeline.goodput_gbit_per_s[..] else { panic!("two workloads") };
    assert_eq!((cut.len(), whole.len()), (30, 1), "in bins of 100 us; what ended well ends with its last byte");
    assert!(cut[0] > 80.0 && cut[2..].iter().all(|&rate| rate == 0.0), "{cut:?}");
}

#[test]
fn a_run_ends_early_when_it_is_told_to() {
    let stop = Some(std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let Outcome { results, .. } = run(&built(STREAM), &Options { stop, ..Options::default() }, &mut |_| ()).unwrap();
    assert!(results.ended == RunEnd::Interrupted && !results.finished && results.completed < 4, "{results:?}");
}

#[test]
fn a_message_that_fails_says_why() {
    let text = format!("[[fault]]\ntarget = [\"p0-hD\"]\nat_us = 10\n{STREAM}");
    let Outcome { results, .. } = run(&built(&text), &Options::default(), &mut |_| ()).unwrap();
    assert!(!results.finished && results.failed > 0);
    assert!(results.failures[0].why.contains("retry"), "{:?}", results.failures);
}

#[test]
fn equal_seeds_give_equal_results() {
    let text = "[topology]\nhosts_per_t0 = 8\nplanes = 2\n[[fault]]\nkind = \"loss\"\nprobability = 0.01\n\
                [[workload]]\nkind = \"permutation\"\nbytes = 300000\n";
    let run = |seed| {
        let built = load_str("test.toml", text, Path::new("."), &[], Some(seed)).unwrap();
        let Outcome { mut results, .. } = run(&built, &Options::default(), &mut |_| ()).unwrap();
        (results.cpu_seconds, results.wall_seconds, results.peak_rss_mb) = (0.0, 0.0, 0.0);
        results
    };
    let (a, b, c) = (run(5), run(5), run(6));
    assert_eq!(a, b);
    assert_ne!(a.digest, c.digest);
}

#[test]
fn two_workloads_never_share_a_name() {
    let groups = |text: &str| built(text).plan.groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        groups("[[workload]]\n[[workload]]\nfrom = 1\n[[workload]]\nname = \"point-to-point-2\"\nfrom = 2\n"),
        ["point-to-point", "point-to-point-3", "point-to-point-2"]
    );
    let error = refusal("[[workload]]\nname = \"a\"\n[[workload]]\nname = \"a\"\nfrom = 1\n", &[]).to_string();
    assert!(error.starts_with("test.toml:4: workload[1].name: ") && error.contains("another workload"), "{error}");
}

#[test]
fn a_switched_transport_refuses_the_keys_of_the_other() {
    let error = refusal(STREAM, &["transport.kind=roce", "transport.mrc.active_evs=4"]).to_string();
    assert!(error.contains("transport.mrc.active_evs") && error.contains("no effect"), "{error}");
}
