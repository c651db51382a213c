//! Who waits for whom: connections, jobs with hosts and transports of their own, named sizes, loads, answers.

use std::collections::BTreeSet;
use std::path::Path;

use mrc_sim::run::{Options, Outcome, Results, run};
use mrc_sim::scenario::{Built, ScenarioError, SizesKey, load_str};

fn load(text: &str) -> Result<Built, ScenarioError> {
    load_str("test.toml", text, Path::new("."), &[], Some(3))
}

fn play_all(text: &str) -> Outcome {
    let built = load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run")
}

fn play(text: &str) -> Results {
    play_all(text).results
}

/// 1 kB behind 10 MB to the same host.
fn behind(kind: &str, connections: &str) -> f64 {
    let text = format!(
        "[topology]\nt0 = 1\n[transport]\nkind = \"{kind}\"\nconnections = {connections}\n\
         [[workload]]\nname = \"long\"\nfrom = 0\nto = 1\nbytes = 10000000\n\
         [[workload]]\nname = \"short\"\nfrom = 0\nto = 1\nbytes = 1000\nstart_us = 10\n"
    );
    let results = play(&text);
    assert!(results.finished, "{text}");
    results.groups[1].fct_us.unwrap().max
}

#[test]
fn a_message_with_a_connection_of_its_own_waits_for_none() {
    for kind in ["mrc", "roce"] {
        // 10 MB at 100 Gb/s take 800 us and more.
        assert!(behind(kind, "\"per-pair\"") > 780.0, "{kind}");
        for connections in ["\"per-message\"", "2"] {
            let us = behind(kind, connections);
            assert!(us < 60.0, "{kind}, {connections}: {us} us");
        }
    }
}

#[test]
fn messages_use_as_many_connections_as_they_need() {
    let of = |connections: &str| {
        let text = format!(
            "[topology]\nt0 = 1\nhosts_per_t0 = 3\n[transport]\nkind = \"roce\"\nconnections = {connections}\n\
             [[workload]]\nfrom = 0\nto = 1\n\
             messages = 7\ndepth = 7\n[[workload]]\nfrom = 1\nto = 0\nmessages = 3\n[[workload]]\nfrom = 2\nto = 0\n"
        );
        load(&text).unwrap().pairs.iter().map(|pair| (pair.a, pair.b, pair.connections)).collect::<Vec<_>>()
    };
    assert_eq!(of("\"per-pair\""), [(0, 1, 1), (0, 2, 1)]);
    assert_eq!(of("4"), [(0, 1, 4), (0, 2, 4)]);
    assert_eq!(of("\"per-message\""), [(0, 1, 7), (0, 2, 1)]);
    let error = load("[transport]\nconnections = \"per-massage\"\n[[workload]]\n").unwrap_err();
    assert!(error.to_string().contains("did you mean `per-message`?"), "{error}");
    let error = load("[transport]\nconnections = 0\n[[workload]]\n").unwrap_err();
    assert!(error.to_string().contains("1 to 1024"), "{error}");
}

#[test]
fn connections_that_are_done_serve_later_messages() {
    // At 80 % load some messages wait for each other in queues, and never 400 of them.
    let text = |kind: &str, slowdown: &str| {
        format!(
            "limit_us = 100000\n[topology]\nt0 = 1\n[transport]\nkind = \"{kind}\"\nconnections = \"per-message\"\n\
             expected_slowdown = {slowdown}\n[[workload]]\nkind = \"poisson\"\nflows = 400\nload = 0.8\n\
             sizes = [[20000, 0.0], [20001, 1.0]]\n"
        )
    };
    let of = |slowdown: &str| {
        let built = load(&text("roce", slowdown)).unwrap();
        let most = built.pairs.iter().map(|pair| pair.connections).max();
        let results = run(&built, &Options::default(), &mut |_| {}).expect("a run").results;
        assert!(results.finished);
        (most.unwrap(), results.crowded_messages)
    };
    let (few, enough, all) = (of("1"), of("30"), of("1e9"));
    assert!(few.0 < enough.0 && enough.0 < all.0, "{few:?} {enough:?} {all:?}");
    assert!(few.1 > 0, "connections for messages that nothing delays");
    assert_eq!((enough.1, all.1), (0, 0));
    for slowdown in ["0.5", "inf", "nan"] {
        let error = load(&text("mrc", slowdown)).unwrap_err().to_string();
        assert!(error.contains("transport.expected_slowdown"), "{error}");
    }
}

#[test]
fn connections_are_the_same_again_from_the_scenario_of_the_results() {
    for connections in ["\"per-message\"", "3"] {
        let text = format!(
            "[transport]\nconnections = {connections}\n[[workload]]\nkind = \"poisson\"\nflows = 50\nsizes = \"ml\"\n"
        );
        let first = play(&text);
        let again = play(&first.resolved);
        assert_eq!(first.digest, again.digest, "{}", first.resolved);
    }
}

const TWO_JOBS: &str = "[topology]\nt0 = 4\nhosts_per_t0 = 4\nforwarding = \"ecmp\"\n[queue]\npfc = false\n\
    [[job]]\nname = \"train\"\nhosts = 8\nplacement = \"spread\"\n\
    [[job]]\nname = \"store\"\nhosts = 6\nplacement = \"random\"\ntransport = \"roce\"\n\
    [[workload]]\nkind = \"all-reduce\"\njob = \"train\"\nbytes = 800000\n\
    [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"store\"\nbytes = 400000\n";

#[test]
fn jobs_have_hosts_and_transports_of_their_own() {
    let Outcome { results, messages, .. } = play_all(TWO_JOBS);
    assert!(results.finished && results.misplaced == 0, "{:?}", results.diagnosis);
    assert_eq!(results.transport, "mrc and roce");
    let hosts = |name: &str| -> BTreeSet<u32> {
        messages.iter().filter(|row| row.workload == name).flat_map(|row| [row.src, row.dst]).collect()
    };
    let (train, store) = (hosts("all-reduce"), hosts("permutation"));
    assert_eq!((train.len(), store.len()), (8, 6));
    assert!(train.is_disjoint(&store));
    // Two below each leaf.
    assert!((0..4).all(|leaf| train.iter().filter(|&&host| host / 4 == leaf).count() == 2), "{train:?}");
    // Where RoCE is the main transport, its queues are the default.
    let roce = TWO_JOBS.replace("[queue]\npfc = false\n", "[transport]\nkind = \"roce\"\n");
    let roce = roce.replace("placement = \"spread\"", "transport = \"mrc\"");
    let error = load(&roce).unwrap_err();
    assert!(error.key == "queue.pfc" && error.message.contains("set pfc to false"), "{error}");
    assert!(play(&format!("{roce}[queue]\npfc = false\n")).finished);
    let error = load(&TWO_JOBS.replacen("job = \"store\"", "", 1)).unwrap_err();
    assert!(error.key == "workload" && error.message.contains("another transport"), "{error}");
    let error = load(&TWO_JOBS.replacen("hosts = 6", "hosts = 9", 1)).unwrap_err();
    assert!(error.key == "job[1].hosts" && error.message.contains("1 to 8"), "{error}");
    let error = load(&TWO_JOBS.replace("job = \"train\"", "job = \"trane\"")).unwrap_err();
    assert!(error.to_string().contains("train, store"), "{error}");
}

/// Go-back-N beside selective repeat, and MRC that sprays beside MRC that does not: each job keeps to its own tables.
#[test]
fn jobs_of_one_kind_of_transport_have_tables_of_their_own() {
    let text = "[topology]\nt0 = 4\nhosts_per_t0 = 4\nforwarding = \"ecmp\"\n[queue]\npfc = false\n\
        [transport]\nkind = \"roce\"\n[transport.roce]\nmtu = 1024\n\
        [[job]]\nname = \"back\"\nhosts = 4\n\
        [[job]]\nname = \"irn\"\nhosts = 4\n[job.transport]\nkind = \"roce\"\nroce.recovery = \"selective-repeat\"\n\
        [[job]]\nname = \"spray\"\nhosts = 4\ntransport = \"mrc\"\n\
        [[job]]\nname = \"pinned\"\nhosts = 4\n[job.transport.mrc]\nselector = \"single\"\nmtu = 2048\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"back\"\nbytes = 409600\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"irn\"\nbytes = 409600\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"spray\"\nbytes = 409600\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"pinned\"\nbytes = 409600\n";
    let results = play(text);
    assert_eq!(results.transport, "roce and roce (irn) and mrc and mrc (pinned)");
    // 400 packets of 1024 bytes, 100 of 4096 twice, 200 of 2048; from each of four hosts.
    assert_eq!(results.data_packets, 4 * (400 + 100 + 100 + 200), "own tables take nothing from `[transport]`");
    assert_eq!(play(&results.resolved).digest, results.digest, "{}", results.resolved);
    let lossy = format!("{text}[[fault]]\nkind = \"loss\"\ntier = \"host\"\nprobability = 0.01\n");
    let Outcome { results, messages, .. } = play_all(&lossy);
    assert!(results.finished && results.misplaced == 0, "{:?}", results.diagnosis);
    let again = |job: usize| {
        let rows = messages.iter().filter(|row| row.src as usize / 4 == job);
        rows.map(|row| row.retransmitted_bytes).sum::<u64>()
    };
    assert!(again(0) > 5 * again(1) && again(1) > 0, "go-back-N sends {} bytes again, IRN {}", again(0), again(1));
    // Errors name the table in which they stand.
    for (from, to, key, line, says) in [
        ("roce.recovery = \"selective-repeat\"", "roce.mtu = 1000", "job[1].transport.roce.mtu", 19, "256, 512"),
        ("roce.recovery = \"selective-repeat\"", "roce.recovry = 1", "job[1].transport.roce.recovry", 19, "`recovery`"),
        ("transport = \"mrc\"", "transport = \"mcr\"", "job[2].transport", 23, "`mrc`"),
        (
            "kind = \"roce\"\nroce.rec",
            "connections = 3\nroce.rec",
            "job[1].transport.connections",
            18,
            "`kind`, `mrc`, `roce`",
        ),
    ] {
        let error = load(&text.replace(from, to)).unwrap_err();
        let said = error.to_string();
        assert!((&*error.key, error.line) == (key, Some(line)) && said.contains(says), "{said} {:?}", error.line);
    }
    // Nobody who takes part pauses: PFC is the fabric's.
    let error = load(&text.replace("pfc = false", "pfc = true")).unwrap_err();
    assert!(error.key == "queue.pfc" && error.message.contains("set pfc to false"), "{error}");
}

/// The text of each distribution states its mean, rounded; the mean of each step of the distribution, by hand.
#[test]
fn named_sizes_have_the_means_that_they_state() {
    for name in ["web-search", "hadoop", "hadoop-10mb", "alicloud-storage", "ml"] {
        let key: SizesKey = serde_json::from_value(name.into()).unwrap();
        let SizesKey::Named(named) = &key else { panic!("{name} has a name") };
        let [number, unit] = named.about.rsplit_once("mean ").unwrap().1.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{}", named.about)
        };
        let unit = if unit == "MB." { 1e6 } else { 1e3 };
        let stated = number.parse::<f64>().unwrap() * unit;
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let steps = key.points();
        let mean: f64 = steps.windows(2).map(|step| (step[0].0 + step[1].0) / 2.0 * (step[1].1 - step[0].1)).sum();
        assert!((mean - stated).abs() <= 0.5 * unit / 10f64.powi(decimals as i32), "{name}: {mean}");
        let text = format!("[[workload]]\nkind = \"poisson\"\nflows = 20000\nsizes = \"{name}\"\n");
        let drawn = load(&text).unwrap().plan.bytes() as f64 / 20_000.0;
        assert!((0.93..1.07).contains(&(drawn / mean)), "{name}: {drawn}");
    }
    let error = load("[[workload]]\nkind = \"poisson\"\nsizes = \"web-serch\"\n").unwrap_err();
    assert!(error.to_string().contains("did you mean `web-search`?"), "{error}");
}

/// Both say how much of all bytes their flows above 2.2 MB carry: the mean of each step of the distribution, by hand.
#[test]
fn the_tails_of_hadoop_are_those_that_they_state() {
    for (name, percent, largest) in [("hadoop", 71.0, 20e6), ("hadoop-10mb", 54.5, 10e6)] {
        let key: SizesKey = serde_json::from_value(name.into()).unwrap();
        let points = key.points();
        let bytes = |from: f64| -> f64 {
            let steps = points.windows(2).filter(|step| step[0].0 >= from);
            steps.map(|step| (step[0].0 + step[1].0) / 2.0 * (step[1].1 - step[0].1)).sum()
        };
        let tail = 100.0 * bytes(2_169_118.0) / bytes(0.0);
        assert!((tail - percent).abs() < 0.5, "{name}: {tail}");
        assert_eq!(points.last(), Some(&(largest, 1.0)));
    }
}

#[test]
fn a_load_is_a_share_of_what_it_says() {
    let poisson = |rest: &str| {
        let text = format!(
            "[topology]\nt0 = 4\nhosts_per_t0 = 8\noversubscription = 4\n[[workload]]\nkind = \"poisson\"\nsizes = [[1000, 0.0], [1000, 1.0]]\n{rest}"
        );
        load(&text).unwrap().plan
    };
    let offered = |rest: &str| {
        let plan = poisson(rest);
        let bits: f64 = plan.messages.iter().map(|m| f64::from(m.bytes) * 8.0).sum();
        let across = plan.messages.iter().filter(|m| m.src / 8 != m.dst / 8).count() as f64;
        let last = plan.messages.iter().map(|m| m.delay_ns).max().unwrap() as f64;
        (bits / last, bits / last * across / plan.messages.len() as f64)
    };
    // 32 hosts of 100 Gb/s; four leaves with two uplinks each.
    let (all, _) = offered("load = 0.3\nflows = 20000\n");
    assert!((0.97..1.03).contains(&(all / (0.3 * 3200.0))), "{all}");
    for other_leaf in [false, true] {
        let (_, across) =
            offered(&format!("load = 0.3\nload_of = \"uplink\"\nflows = 20000\nother_leaf = {other_leaf}\n"));
        assert!((0.96..1.04).contains(&(across / (0.3 * 800.0))), "{other_leaf}: {across}");
    }
    // What is reported is what these draws send up, and not what any draws would on average.
    let drawn = poisson("load = 0.3\nload_of = \"uplink\"\nduration_us = 20\n");
    let across = drawn.messages.iter().filter(|m| m.src / 8 != m.dst / 8).count() as f64 * 8_000.0 / 20e-6 / 800e9;
    let load = drawn.groups[0].load.expect("a random process");
    assert!((load.offered / across - 1.0).abs() < 1e-9 && load.asked == 0.3, "{load:?} {across}");
    let plan = poisson("load = 0.1\nduration_us = 500\nstart_us = 100\nother_leaf = true\n");
    assert!(plan.messages.iter().all(|m| (100_000..600_000).contains(&m.delay_ns) && m.src / 8 != m.dst / 8));
    // 320 Gb/s for 500 us are 20 000 messages of 8000 bits.
    assert!((19_000..21_000).contains(&plan.messages.len()), "{}", plan.messages.len());
}

/// Links that `[[link]]` slows down carry less, so that the same load is fewer flows in the same time.
#[test]
fn a_load_refers_to_the_rates_that_the_links_have() {
    let messages = |load_of: &str, links: &str| {
        let text = format!(
            "[topology]\nhosts_per_t0 = 4\n{links}[[workload]]\nkind = \"poisson\"\nsizes = [[1000, 0.0], [1000, 1.0]]\n\
             load = 0.2\nduration_us = 1000\nload_of = \"{load_of}\"\n"
        );
        load(&text).unwrap().plan.messages.len() as f64
    };
    let link = |names: &str| format!("[[link]]\nname = [{names}]\ngbps = 10\n");
    // Of eight host links, and of eight uplinks, of 100 Gb/s four have a tenth: 440 in place of 800 Gb/s.
    let hosts = link("\"p0-hA\", \"p0-hC\", \"p0-hE\", \"p0-hG\"");
    let uplinks = link("\"p0-t0a-t1a\", \"p0-t0a-t1b\", \"p0-t0b-t1a\", \"p0-t0b-t1c\"");
    for (load_of, links) in [("host", hosts), ("uplink", uplinks)] {
        let share = messages(load_of, &links) / messages(load_of, "");
        assert!((0.52..0.58).contains(&share), "{load_of}: {share}");
    }
}

#[test]
fn what_begins_in_the_warm_up_loads_the_fabric_and_does_not_count() {
    let text = "[topology]\nt0 = 2\nhosts_per_t0 = 4\n[[workload]]\nkind = \"poisson\"\nduration_us = 1000\nload = 0.4\n\
                sizes = \"alicloud-storage\"\nwarm_up_us = 300\ncool_down_us = 200\n";
    let Outcome { results, messages, .. } = play_all(text);
    assert!(results.finished);
    let inside =
        messages.iter().filter(|row| row.start_us.is_some_and(|us| (300.0..800.0).contains(&us))).count() as u64;
    assert_eq!((results.groups[0].flows, results.groups[0].flows + results.groups[1].flows), (inside, results.flows));
    assert!(results.groups[1].name.contains("warm-up"));
    assert_eq!(results.fct_us, results.groups[0].fct_us, "the figures of the whole are those of the middle");
    let bins = &results.groups[0].by_size;
    assert_eq!(bins.iter().map(|bin| bin.flows).sum::<u64>(), inside);
    assert_eq!(
        bins.iter().map(|bin| bin.up_to_bytes).collect::<Vec<_>>(),
        [Some(1_000), Some(10_000), Some(100_000), Some(1_000_000), Some(10_000_000)]
    );
    assert!(bins[1].completed_fct_us.unwrap().max <= results.fct_us.unwrap().max);
    // Of eight hosts with 100 Gb/s each, over the 500 us that count.
    let of_middle = messages.iter().filter(|row| row.start_us.is_some_and(|us| (300.0..800.0).contains(&us)));
    let bytes: u32 = of_middle.map(|row| row.bytes).sum();
    let offered = f64::from(bytes) * 8.0 / 500e-6 / 800e9;
    let load_of = results.groups[0].load.expect("a random process");
    assert_eq!(load_of.asked, 0.4);
    assert!((load_of.offered / offered - 1.0).abs() < 1e-9, "{load_of:?} {offered}");
    assert_eq!(results.groups[1].load, None);
    let error = load(&text.replace("warm_up_us = 300", "warm_up_us = 900")).unwrap_err();
    assert_eq!(error.key, "workload[0].warm_up_us");
}

#[test]
fn a_request_draws_an_answer() {
    let text = "[topology]\nt0 = 1\n[[workload]]\nfrom = 0\nto = 1\nbytes = 100\nmessages = 5\ndepth = 1\nreply_bytes = 40000\n\
                reply_us = 7\n";
    let Outcome { results, messages, .. } = play_all(text);
    assert_eq!((results.flows, results.completed), (10, 10));
    let (requests, answers): (Vec<_>, Vec<_>) = messages.iter().partition(|row| row.bytes == 100);
    for (nth, (request, answer)) in requests.iter().zip(&answers).enumerate() {
        assert_eq!((answer.src, answer.dst, answer.bytes), (1, 0, 40_000));
        let waited = answer.start_us.unwrap() - request.delivered_us.unwrap();
        assert!((waited - 7.0).abs() < 1e-6, "{waited}");
        // The next request waits for the answer.
        if let Some(next) = requests.get(nth + 1) {
            assert_eq!(next.start_us, answer.delivered_us);
        }
    }
    assert_eq!(load(&text.replace("reply_bytes = 40000\n", "")).unwrap_err().key, "workload[0].reply_us");
}

/// Two streams are done after some 90 us; what would begin at 10 ms is not under way when the run ends at 1 ms.
#[test]
fn what_would_begin_after_the_end_has_not_begun() {
    let text = |limit: &str| {
        format!(
            "{limit}[topology]\nt0 = 1\nhosts_per_t0 = 6\n[[workload]]\nkind = \"trace\"\n\
             lines = \"0,0,1,1000000\\n0,2,3,1000000\\n10000,4,5,1000000\"\n"
        )
    };
    let whole = play_all(&text(""));
    let Outcome { results, messages, .. } = play_all(&text("limit_us = 1000\nuntil = \"limit\"\n"));
    assert_eq!((results.completed, messages[0].fct_us), (2, whole.messages[0].fct_us));
    assert_eq!((messages[2].start_us, messages[2].missing_bytes), (None, 1_000_000));
    // 2 MB in 90 us, not in a millisecond; and two pairs that are equal.
    assert!((170.0..190.0).contains(&results.goodput_gbit_per_s), "{}", results.goodput_gbit_per_s);
    assert!(results.groups[0].jain > 0.999, "{}", results.groups[0].jain);
    assert_eq!(results.groups[0].pair_gbit_per_s[2], 0.0);
}

#[test]
fn a_trace_may_name_its_columns() {
    let folder = std::env::temp_dir().join(format!("mrc-flows-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("t.csv"), "start_us,from,to,bytes\n0,0,1,100\n5,1,0,100,2\n").unwrap();
    let text = "[[workload]]\nkind = \"trace\"\nfile = \"t.csv\"\n";
    let built = load_str("test.toml", text, &folder, &[], None).unwrap();
    assert_eq!((built.plan.messages.len(), built.plan.edges.len()), (2, 1));
    std::fs::write(folder.join("t.csv"), "\u{feff}time,src,dst,size\r\n0,0,1,100\r\n").unwrap();
    assert_eq!(load_str("test.toml", text, &folder, &[], None).unwrap().plan.messages.len(), 1);
    std::fs::write(folder.join("t.csv"), "\"Start_us\", \"From\", \"To\", \"Bytes\", \"after\"\n0,0,1,100\n").unwrap();
    assert_eq!(load_str("test.toml", text, &folder, &[], None).unwrap().plan.messages.len(), 1);
    // Another order, another unit, something else: numbers would be read for what they are not.
    for head in
        ["bytes,from,to,start_us", "time_ns,src,dst,size", "src,dst,size,start", "start_us;from;to;bytes", "id,a,b,c,d"]
    {
        std::fs::write(folder.join("t.csv"), format!("{head}\n5,0,1,100\n")).unwrap();
        let error = load_str("test.toml", text, &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(&format!("t.csv:1: `{head}`: the columns are start_us,from,to,bytes")), "{error}");
    }
    std::fs::write(folder.join("t.csv"), "start_us,from,to,bytes\n0,0,1,100\n5,1,0,100,2\n").unwrap();
    // The same in the scenario itself.
    let inline =
        "[[workload]]\nkind = \"trace\"\nlines = \"\"\"\nstart_us,from,to,bytes\n0,0,1,100\n5,1,0,100,2\n\"\"\"\n";
    let built = load_str("test.toml", inline, &folder, &[], None).unwrap();
    assert_eq!((built.plan.messages.len(), built.plan.edges.len()), (2, 1));
    for (more, says) in [("file = \"t.csv\"\n", "not both"), ("format = \"goal\"\n", "`lines` are csv")] {
        let error = load_str("test.toml", &format!("{inline}{more}"), &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
