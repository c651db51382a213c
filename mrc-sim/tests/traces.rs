//! Traces in the formats of other tools. The files in `traces/` have those formats as their tools document them: GOAL text of
//! LogGOPSim, execution traces of Chakra, connection matrices and topologies of htsim.

use std::path::{Path, PathBuf};

use mrc_sim::run::{MessageRow, Options, Results, run};
use mrc_sim::scenario::{Built, ScenarioError, load_str};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

fn load(text: &str) -> Result<Built, ScenarioError> {
    load_str("test.toml", text, &folder(), &[], Some(3))
}

fn play(text: &str) -> (Results, Vec<MessageRow>) {
    let built = load(text).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
    assert!(outcome.results.finished, "{:?}", outcome.results.diagnosis);
    (outcome.results, outcome.messages)
}

fn times(row: &MessageRow) -> (f64, f64, f64) {
    (row.start_us.unwrap(), row.delivered_us.unwrap(), row.completed_us.unwrap())
}

#[test]
fn goal_schedules_keep_their_order_and_computations() {
    let (results, rows) =
        play("[topology]\nt0 = 1\nhosts_per_t0 = 3\n[[workload]]\nkind = \"trace\"\nfile = \"chain.goal\"\n");
    assert_eq!((results.flows, results.completed), (3, 3), "computations are no messages");
    let ends: Vec<_> = rows.iter().map(|row| (row.src, row.dst, row.bytes)).collect();
    assert_eq!(ends, [(0, 1, 8192), (1, 2, 100_000), (1, 0, 10)]);
    let [first, second, third] = [0, 1, 2].map(|nth| times(&rows[nth]));
    assert_eq!(first.0, 5.0, "after calc 5000");
    assert!((second.0 - (first.1 + 2.0)).abs() < 1e-9, "2 us after what it waits for: {second:?} {first:?}");
    assert_eq!(third.0, second.0, "irequires: as soon as the other one begins");
}

#[test]
fn ranks_can_share_hosts_and_sizes_and_times_be_scaled() {
    let trace = "[topology]\nt0 = 1\nhosts_per_t0 = 3\n[[workload]]\nkind = \"trace\"\nfile = \"chain.goal\"\n";
    // Ranks 0 and 1 on host 1, rank 2 on host 2: one message is left, and it waits for both computations.
    let (results, rows) = play(&format!("{trace}ranks_per_host = 2\nfirst = 1\nscale_bytes = 0.5\nscale_time = 3\n"));
    assert_eq!(results.flows, 1);
    assert_eq!((rows[0].src, rows[0].dst, rows[0].bytes, rows[0].start_us), (1, 2, 50_000, Some(21.0)));
    let error = load(&trace.replace("hosts_per_t0 = 3", "hosts_per_t0 = 2")).unwrap_err();
    assert!(error.key == "workload[0].file" && error.message.contains("raise ranks_per_host"), "{error}");
}

#[test]
fn lines_of_a_csv_wait_for_the_lines_that_they_name() {
    let (_, rows) =
        play("[topology]\nt0 = 1\nhosts_per_t0 = 3\n[[workload]]\nkind = \"trace\"\nfile = \"short.csv\"\n");
    let ends: Vec<_> = rows.iter().map(|row| (row.src, row.dst, row.bytes)).collect();
    assert_eq!(ends, [(0, 1, 9000), (1, 2, 20_000), (1, 0, 500), (0, 2, 4096)]);
    let [first, second, third, last] = [0, 1, 2, 3].map(|nth| times(&rows[nth]));
    assert_eq!(first.0, 0.0);
    let follows = |start: f64, arrival: f64, after_us: f64| (start - arrival - after_us).abs() < 1e-9;
    assert!(follows(second.0, first.1, 2.0) && follows(third.0, first.1, 0.0), "{first:?} {second:?} {third:?}");
    assert!(follows(last.0, second.1.max(third.1), 1.5), "{second:?} {third:?} {last:?}");
}

#[test]
fn chakra_traces_run_collectives_and_sends_in_their_order() {
    let (results, rows) = play(
        "[topology]\nt0 = 1\nhosts_per_t0 = 4\n[[workload]]\nkind = \"trace\"\nfile = \"step\"\nformat = \"chakra\"\n",
    );
    // A ring over four ranks: six steps of four messages of a quarter each; then two sends.
    assert_eq!(results.flows, 26);
    let (ring, sends): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.bytes == 100_000);
    assert_eq!((ring.len(), sends.len()), (24, 2));
    assert_eq!(ring.iter().filter(|row| row.start_us == Some(10.0)).count(), 4, "after 10 us of computation");
    let last = ring.iter().filter(|row| row.dst == 0).map(|row| row.delivered_us.unwrap()).fold(0.0, f64::max);
    let (first, second) = if sends[0].src == 0 { (sends[0], sends[1]) } else { (sends[1], sends[0]) };
    assert!((first.start_us.unwrap() - (last + 5.0)).abs() < 1e-9, "rank 0 computes 5 us after its ring");
    // Rank 3 computes 20 us after its own ring; the answer waits for that and for what it received.
    let own = ring.iter().filter(|row| row.dst == 3).map(|row| row.delivered_us.unwrap()).fold(0.0, f64::max);
    let begins = (own + 20.0).max(first.delivered_us.unwrap());
    assert!((second.start_us.unwrap() - begins).abs() < 1e-9, "{second:?}, {begins}");
}

/// What GOAL text becomes on four hosts.
fn goal(name: &str, text: &str) -> Result<Built, ScenarioError> {
    let folder = std::env::temp_dir().join(format!("mrc-traces-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.goal"), text).unwrap();
    let built = load_str("test.toml", "[[workload]]\nkind = \"trace\"\nfile = \"a.goal\"\n", &folder, &[], None);
    std::fs::remove_dir_all(&folder).unwrap();
    built
}

#[test]
fn goal_text_may_have_comments_and_other_blanks() {
    let folder = std::env::temp_dir().join(format!("mrc-traces-goal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = "/* two\r\nlines */ num_ranks 2\r\nrank 0{\r\nl1 : calc 100 // one\r\nl2:send 64b to 1 /* tag */ tag 7\r\n\
                l2 requires l1\r\n}\r\nrank 1 {\r\nrecv 64b from 0 tag 7\r\n}";
    let scenario = "[[workload]]\nkind = \"trace\"\nfile = \"a.goal\"\n";
    let read = |text: &str| {
        std::fs::write(folder.join("a.goal"), text).unwrap();
        load_str("test.toml", scenario, &folder, &[], None)
    };
    let built = read(text).unwrap_or_else(|error| panic!("{error}"));
    let of: Vec<_> = built.plan.messages.iter().map(|message| (message.bytes, message.delay_ns)).collect();
    assert_eq!(of, [(0, 100), (64, 0)]);
    assert_eq!(built.plan.edges.len(), 1);
    let error = read(&text.replace("tag 7\r\n}", "tog 7\r\n}")).unwrap_err();
    assert!(error.message.contains("line 9"), "comments keep the numbers of lines: {error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What LogGOPSim's own reader takes: a brace ends a statement, a blank before the unit, a mark of byte order.
#[test]
fn goal_text_ends_statements_with_braces_too() {
    let text = "\u{feff}num_ranks 3 rank 0 { l1: send 64 b to 1 tag 7 cpu 1 nic 0\nl2: calc 5 cpu 3 } rank 1 {recv 64b from 0 tag 7}\n\
                rank 2 {\n}\n";
    let built = goal("braces", text).unwrap_or_else(|error| panic!("{error}"));
    let of: Vec<_> = built.plan.messages.iter().map(|message| (message.src, message.dst, message.bytes)).collect();
    assert_eq!(of, [(0, 1, 64), (0, 0, 0)]);
    let error = goal("braces", &text.replace("calc 5", "calc x")).unwrap_err().to_string();
    assert!(error.contains("line 2: `l2: calc x"), "{error}");
}

/// Rank 0 takes what comes first, from anybody: rank 2 sends at once, rank 1 computes for 5 us. What rank 0 sends back waits for
/// the first of its two receives, whichever rank that is from.
#[test]
fn a_receive_from_any_rank_takes_what_comes_first() {
    let text = "num_ranks 3\nrank 0 {\na: recv 8b from -1 tag 3\nb: recv 8b from -1 tag -1\nb requires a\n\
                c: send 9b to 2\nc requires a\nd: send 10b to 1\nd requires b\n}\n\
                rank 1 {\nw: calc 5000\ns: send 8b to 0 tag 3\ns requires w\nrecv 10b from 0\n}\n\
                rank 2 {\nsend 8b to 0 tag 3\nt: recv 9b from -1 tag -1\n}\n";
    let built = goal("any", text).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
    let row = |src: u32, dst: u32| outcome.messages.iter().find(|row| (row.src, row.dst) == (src, dst)).unwrap();
    assert_eq!(row(0, 2).start_us, row(2, 0).delivered_us, "the first receive is of rank 2");
    assert_eq!(row(0, 1).start_us, row(1, 0).delivered_us, "the second of rank 1");
    // A receive that says from whom is not given the message of another one; one with a tag not that of another tag.
    let named = text.replace("b: recv 8b from -1 tag -1", "b: recv 8b from 1 tag 4");
    let error = goal("any", &named).unwrap_err().to_string();
    assert!(error.contains("rank 0 receives from rank 1 with tag 4 what nobody sends"), "{error}");
    let error = goal("any", &text.replace("s: send 8b to 0 tag 3", "s: calc 1")).unwrap_err().to_string();
    assert!(error.contains("rank 0 receives from any rank with any tag what nobody sends"), "{error}");
    let circle = text.replace("rank 0 {\n", "rank 0 {\nx: calc 1\ny: calc 1\nx requires y\ny requires x\n");
    let error = goal("any", &circle).unwrap_err().to_string();
    assert!(error.contains("line 3: operations of rank 0 wait for each other in a circle"), "{error}");
    // Each of two ranks receives before it sends.
    let circle = "num_ranks 2\nrank 0 {\na: recv 1b from -1\nb: send 1b to 1\nb requires a\n}\n\
                  rank 1 {\na: recv 1b from 0\nb: send 1b to 0\nb requires a\n}\n";
    let error = goal("any", circle).unwrap_err().to_string();
    let says = "line 3: rank 0 receives what line 9 of rank 1 sends, and operations of these ranks wait for each other";
    assert!(error.contains(says), "{error}");
    // Of two receives that wait, the one is named that nobody sends to.
    let behind = circle.replace("a: recv 1b from 0", "a: recv 1b from 0 tag 7");
    let error = goal("any", &behind).unwrap_err().to_string();
    assert!(error.contains("line 8: rank 1 receives from rank 0 with tag 7 what nobody sends"), "{error}");
    // Where all receives say from whom, too.
    let error = goal("any", &circle.replace("from -1", "from 1")).unwrap_err().to_string();
    assert!(error.contains("wait for each other in a circle") && error.contains("would never start"), "{error}");
}

/// One send fits two receives, of which the second alone keeps it back: the first takes it, and nobody sends to the second.
#[test]
fn a_send_that_never_begins_is_for_one_receive_alone() {
    let text = "num_ranks 2\nrank 0 {\na: recv 8b from -1 tag 1\nb: recv 8b from -1 tag 1\nc: send 8b to 1\nc requires b\n}\n\
                rank 1 {\na: recv 8b from 0\nb: send 8b to 0 tag 1\nb requires a\n}\n";
    let error = goal("any", text).unwrap_err().to_string();
    assert!(error.contains("line 4: rank 0 receives from any rank with tag 1 what nobody sends"), "{error}");
    // With a send for each of them, which two receives share only if the first one takes the later of two: a circle.
    let both =
        text.replace("b: recv 8b from -1 tag 1", "b: recv 8b from 1 tag 1").replace("num_ranks 2", "num_ranks 3");
    let both = both + "rank 2 {\na: recv 8b from 1\nb: send 8b to 0 tag 1\nb requires a\n}\n";
    let both = both.replace("b requires a\n}\nrank 2", "c: send 8b to 2\nb requires a\nc requires b\n}\nrank 2");
    let error = goal("any", &both).unwrap_err().to_string();
    assert!(error.contains("line 3: rank 0 receives what line 17 of rank 2 sends, and operations"), "{error}");
}

/// A broken trace of tens of thousands of operations is refused as quickly as a whole one is read.
#[test]
fn long_traces_with_receives_from_any_rank_are_matched_in_time() {
    let many = 30_000;
    // The sends wait for the last receive, and there is one too few.
    let sends: String =
        (0..many - 1).map(|nth| format!("s{nth}: send 8b to 1 tag {nth}\ns{nth} requires r\n")).collect();
    let receives: String = (0..many).map(|nth| format!("r{nth}: recv 8b from -1 tag -1\n")).collect();
    let text = format!(
        "num_ranks 2\nrank 0 {{\nr: recv 8b from 1\n{sends}}}\nrank 1 {{\n{receives}s: send 8b to 0\ns requires r{}\n}}\n",
        many - 1
    );
    let begin = std::time::Instant::now();
    let error = goal("wildcards", &text).unwrap_err().to_string();
    assert!(error.contains("rank 1 receives from any rank with any tag what nobody sends"), "{error}");
    // Nobody takes them in the order in which they come.
    let sends: String = (0..many).map(|nth| format!("send 8b to 1 tag {nth}\n")).collect();
    let receives: String = (0..many).rev().map(|nth| format!("recv 8b from -1 tag {nth}\n")).collect();
    let text = format!("num_ranks 2\nrank 0 {{\n{sends}}}\nrank 1 {{\n{receives}}}\n");
    assert_eq!(goal("reversed", &text).unwrap_or_else(|error| panic!("{error}")).plan.messages.len(), many);
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

#[test]
fn ranks_of_our_own_traces_share_hosts_too() {
    let trace = "[[workload]]\nkind = \"trace\"\nlines = \"0,0,1,100\\n0,1,2,1000,1\"\nranks_per_host = 2\n";
    let (results, rows) = play(trace);
    assert_eq!((results.flows, rows[0].src, rows[0].dst, rows[0].bytes), (1, 0, 1, 1000), "0 to 1 stays within host 0");
    let error = load(&trace.replace("0,0,1,100", "0,1,1,100")).unwrap_err();
    assert!(error.message.contains("do not send to themselves"), "{error}");
    let error = load(&format!("{trace}scale_bytes = 1e6\n").replace("1000", "3000")).unwrap_err();
    assert!(error.message.contains("a message has at most 2147483648"), "{error}");
}

/// The limit is that of the message: a trace of messages above 2 GiB runs at a smaller scale, in our own format as in those of others.
#[test]
fn messages_above_the_limit_run_at_a_smaller_scale() {
    let trace = "[[workload]]\nkind = \"trace\"\nlines = \"0,0,1,3070000000\"\n";
    let (_, rows) = play(&format!("{trace}scale_bytes = 0.001\n"));
    assert_eq!(rows[0].bytes, 3_070_000);
    let error = load(trace).unwrap_err();
    assert!(error.message.contains("lines:1: 3070000000 bytes: a message has at most 2147483648"), "{error}");
    assert_eq!((error.key.as_str(), error.line), ("workload[0].lines", Some(3)), "{error}");
}

/// Protobuf by hand: bytes with their length before them, and an attribute that is a number.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn number(name: &str, value: &[u8]) -> Vec<u8> {
    field(10, &[field(1, name.as_bytes()), [&[9 << 3], value].concat()].concat())
}

/// What the metadata and nodes of these ranks become.
fn chakra(name: &str, ranks: &[Vec<Vec<u8>>]) -> Result<Built, ScenarioError> {
    let folder = std::env::temp_dir().join(format!("mrc-traces-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (rank, nodes) in ranks.iter().enumerate() {
        let nodes = nodes.iter().flat_map(|node| [&[node.len() as u8], &node[..]].concat());
        let file: Vec<u8> = [0].into_iter().chain(nodes).collect();
        std::fs::write(folder.join(format!("{name}.{rank}.et")), file).unwrap();
    }
    let scenario = format!("[[workload]]\nkind = \"trace\"\nfile = \"{name}\"\nformat = \"chakra\"\n");
    let built = load_str("test.toml", &scenario, &folder, &[], None);
    std::fs::remove_dir_all(&folder).unwrap();
    built
}

#[test]
fn collectives_of_a_process_group_are_among_the_ranks_that_name_it() {
    // An all-reduce of 4000 bytes, the group named.
    let ranks = (0..4).map(|rank| {
        let name = if rank % 2 == 0 { "even" } else { "odd" };
        let text =
            field(10, &[field(1, b"pg_name"), [&[0xea, 0x01, name.len() as u8], name.as_bytes()].concat()].concat());
        vec![[vec![8, 1, 24, 7], number("comm_type", &[0]), number("comm_size", &[0xa0, 0x1f]), text].concat()]
    });
    let built = chakra("groups", &ranks.collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
    // A ring of two ranks: two steps of half of it each way.
    let mut pairs: Vec<_> =
        built.plan.messages.iter().map(|message| (message.src, message.dst, message.bytes)).collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [(0, 2), (0, 2), (1, 3), (1, 3), (2, 0), (2, 0), (3, 1), (3, 1)].map(|(src, dst)| (src, dst, 2000))
    );
}

/// All that an all-gather, an all-to-all or a barrier brings to rank 1 is there while rank 1 still computes for a millisecond: it
/// has not taken part yet, so that what comes after the collective waits.
#[test]
fn nobody_is_through_with_a_collective_before_taking_part() {
    for (kind, name) in [(2, "gather"), (6, "all"), (9, "barrier")] {
        let compute = vec![8, 1, 24, 4, 56, 0xe8, 7];
        let size = if kind == 9 { Vec::new() } else { number("comm_size", &[100]) };
        let collective = |deps: &[u8]| [&[8, 2, 24, 7], deps, &number("comm_type", &[kind]), &size].concat();
        let send = [vec![8, 3, 24, 5, 40, 2], number("comm_dst", &[0]), number("comm_size", &[77])].concat();
        let receive = [vec![8, 4, 24, 6], number("comm_src", &[1])].concat();
        let ranks = [vec![collective(&[]), receive], vec![send, collective(&[40, 1]), compute]];
        let built = chakra(name, &ranks).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
        let of = |src, bytes| {
            let row = outcome.messages.iter().find(|row| row.src == src && (row.bytes == 77) == (bytes == 77));
            times(row.expect("a message"))
        };
        let (first, own, send) = (of(0, 0), of(1, 0), of(1, 77));
        assert!(first.1 < 100.0 && own.0 == 1000.0, "{name}: {first:?}, {own:?}");
        assert_eq!(send.0, 1000.0, "{name}");
    }
}

/// Each rank computes, rank 2 longest; then one collective of 900 bytes over three ranks with root 1. Who sends what to whom, and who
/// waits for rank 2.
#[test]
fn collectives_with_a_root_are_trees_and_stars() {
    type Sent = &'static [(u32, u32, u32)];
    let kinds: [(&str, u8, Sent); 4] = [
        // The tree below 1 has the children 2 and 0.
        ("reduce", 1, &[(0, 1, 900), (2, 1, 900)]),
        // The size is that of what a rank puts in.
        ("gather", 3, &[(0, 1, 900), (2, 1, 900)]),
        ("scatter", 4, &[(1, 0, 300), (1, 2, 300)]),
        ("broadcast", 5, &[(1, 0, 900), (1, 2, 900)]),
    ];
    for (name, kind, sent) in kinds {
        let ranks = [1, 2, 5].map(|us| {
            let compute = vec![8, 1, 24, 4, 56, us];
            let root = number("root_rank", &[1]);
            let collective =
                [vec![8, 2, 24, 7, 40, 1], number("comm_type", &[kind]), number("comm_size", &[0x84, 7]), root];
            vec![compute, collective.concat()]
        });
        let built = chakra(name, &ranks).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
        let mut rows: Vec<_> = outcome.messages.iter().map(|row| (row.src, row.dst, row.bytes)).collect();
        rows.sort_unstable();
        assert_eq!(rows, sent, "{name}");
        for row in &outcome.messages {
            assert_eq!(row.start_us, Some([1.0, 2.0, 5.0][row.src as usize]), "{name}: who sends has computed");
        }
    }
    // Five ranks: 0 sends to 1 and 2, 1 to 3 and 4 when it has the vector.
    let collective = [vec![8, 2, 24, 7], number("comm_type", &[5]), number("comm_size", &[100])].concat();
    let built = chakra("tree", &vec![vec![collective.clone()]; 5]).unwrap_err();
    assert!(built.message.contains("hosts are 0 to 3"), "{built}");
    let built = chakra("four", &vec![vec![collective.clone()]; 4]).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
    let row = |src, dst| outcome.messages.iter().find(|row| (row.src, row.dst) == (src, dst)).unwrap();
    assert_eq!((outcome.messages.len(), row(1, 3).start_us), (3, row(0, 1).delivered_us));
    let error = chakra("root", &vec![vec![[collective, number("root_rank", &[4])].concat()]; 4]).unwrap_err();
    assert!(error.message.contains("root_rank 4 of a collective of 4 ranks"), "{error}");
}

/// The size is that of a rank's input, as Chakra's converter writes it and ASTRA-sim reads it: in an all-gather its own part, which
/// goes around the ring; in the others the whole vector, of which a part does.
#[test]
fn the_size_of_a_collective_is_that_of_its_input() {
    for (name, kind, steps, bytes) in
        [("allreduce", 0, 6, 25), ("allgather", 2, 3, 100), ("alltoall", 6, 3, 25), ("reducescatter", 7, 3, 25)]
    {
        let collective = [vec![8, 2, 24, 7], number("comm_type", &[kind]), number("comm_size", &[100])].concat();
        let built = chakra(name, &vec![vec![collective]; 4]).unwrap_or_else(|error| panic!("{error}"));
        let sent: Vec<u32> =
            built.plan.messages.iter().filter(|message| !message.is_compute()).map(|m| m.bytes).collect();
        assert_eq!(sent, vec![bytes; 4 * steps], "{name}");
    }
}

/// Only the root of a scatter has an input. Of other collectives all ranks say the same.
#[test]
fn the_root_says_how_much_is_scattered() {
    let collective =
        |kind: u8, bytes: u8| [vec![8, 2, 24, 7], number("comm_type", &[kind]), number("comm_size", &[bytes])].concat();
    let ranks = |kind, root| vec![vec![collective(kind, root)], vec![collective(kind, 0)], vec![collective(kind, 0)]];
    let built = chakra("scatter-root", &ranks(4, 90)).unwrap_or_else(|error| panic!("{error}"));
    let moved = built.plan.messages.iter().filter(|message| !message.is_compute());
    assert_eq!(
        moved.map(|message| (message.src, message.dst, message.bytes)).collect::<Vec<_>>(),
        [(0, 1, 30), (0, 2, 30)]
    );
    let error = chakra("other-sizes", &ranks(0, 90)).unwrap_err().to_string();
    assert!(error.contains("of rank 1 is AllReduce of 0 bytes, that of rank 0 AllReduce of 90 bytes"), "{error}");
}

/// Dimensions that a collective leaves out are those of a fabric that this one is not.
#[test]
fn collectives_over_some_dimensions_need_a_group() {
    let collective = |dims: &[u8]| {
        let list = field(
            10,
            &[field(1, b"involved_dim"), [&[0xe2, 0x01, dims.len() as u8 + 2, 10, dims.len() as u8], dims].concat()]
                .concat(),
        );
        vec![vec![[vec![8, 2, 24, 7], number("comm_type", &[0]), number("comm_size", &[100]), list].concat()]; 2]
    };
    assert!(chakra("dims", &collective(&[1, 1])).is_ok());
    let error = chakra("dims", &collective(&[1, 0])).unwrap_err();
    assert!(error.message.contains("involved_dim leaves some out"), "{error}");
}

#[test]
fn nodes_of_execution_traces_are_told_apart() {
    let send = |id, tag: &[u8]| {
        let ends = [number("comm_dst", &[1]), number("comm_size", &[9]), number("comm_tag", tag)].concat();
        [vec![8, id, 24, 5], ends].concat()
    };
    // -1, a varint of ten bytes, and no tag, which is 0.
    let negative = [[0xff; 9].as_slice(), &[1]].concat();
    let receive = [vec![8, 1, 24, 6], number("comm_src", &[0])].concat();
    let error = chakra("tags", &[vec![send(1, &negative)], vec![receive.clone()]]).unwrap_err().to_string();
    assert!(error.contains("with tag 0 what nobody sends"), "{error}");
    assert!(chakra("tags0", &[vec![send(1, &[0])], vec![receive.clone()]]).is_ok());
    // Without metadata the first node is a node.
    let folder = std::env::temp_dir().join(format!("mrc-traces-bare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (rank, node) in [send(1, &[0]), receive.clone()].iter().enumerate() {
        std::fs::write(folder.join(format!("bare.{rank}.et")), [&[node.len() as u8], &node[..]].concat()).unwrap();
    }
    let scenario = "[[workload]]\nkind = \"trace\"\nfile = \"bare\"\nformat = \"chakra\"\n";
    let built = load_str("test.toml", scenario, &folder, &[], None).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(built.plan.bytes(), 9);
    let error = chakra("twice", &[vec![send(7, &[0]), send(7, &[0])], vec![receive]]).unwrap_err().to_string();
    assert!(error.contains("twice.0.et: two nodes have the number 7"), "{error}");
}

/// A rank that receives again and again, each time after the last one and after a computation.
#[test]
fn long_chains_of_receives_take_memory_in_proportion() {
    const TURNS: usize = 50_000;
    let sends = "send 10b to 1\n".repeat(TURNS);
    let chain: String = (0..TURNS)
        .map(|nth| {
            let after = if nth > 0 { format!("r{nth} requires r{}\n", nth - 1) } else { String::new() };
            format!("c{nth}: calc 1\nr{nth}: recv 10b from 0\nr{nth} requires c{nth}\n{after}")
        })
        .collect();
    let folder = std::env::temp_dir().join(format!("mrc-traces-long-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.goal"), format!("num_ranks 2\nrank 0 {{\n{sends}}}\nrank 1 {{\n{chain}}}\n"))
        .unwrap();
    let built = load_str("test.toml", "[[workload]]\nkind = \"trace\"\nfile = \"a.goal\"\n", &folder, &[], None);
    std::fs::remove_dir_all(&folder).unwrap();
    let plan = built.unwrap_or_else(|error| panic!("{error}")).plan;
    // A send, a computation and the end of a receive for each turn, which waits for the message, the computation and the last end.
    assert_eq!((plan.messages.len(), plan.edges.len()), (3 * TURNS, 3 * TURNS - 1));
}

#[test]
fn connection_matrices_and_topologies_of_htsim_run() {
    let (_, rows) = play(
        "[topology]\nshape = \"htsim\"\nfile = \"leaf_spine_tiny.topo\"\n[[workload]]\nkind = \"trace\"\nfile = \"ring.cm\"\n",
    );
    let at: Vec<_> = rows.iter().map(times).collect();
    assert_eq!((at[0].0, at[3].0), (0.0, 7.0), "start times are in picoseconds");
    assert_eq!(at[1].0, at[0].2, "send_done_trigger");
    assert_eq!(at[2].0, at[1].1, "recv_done_trigger");
    assert_eq!(at[4].0, at[2].1.max(at[3].1), "a barrier waits for all");
    let built = load("[topology]\nshape = \"htsim\"\nfile = \"leaf_spine_tiny.topo\"\n[[workload]]\n").unwrap();
    // Four T0s of eight hosts, two T1s.
    assert_eq!((built.topology.hosts(), built.topology.switch_count(), built.topology.links()), (32, 6, 32 + 8));
    // Four pods of four T0s and two T1s by two links each; a T1 has eight T2s of its own.
    let built = load("[topology]\nshape = \"htsim\"\nfile = \"three_tiers.topo\"\n[[workload]]\n").unwrap();
    let (switches, links) = (4 * 4 + 4 * 2 + 16, 64 + 16 * 2 * 2 + 8 * 8);
    assert_eq!((built.topology.hosts(), built.topology.switch_count(), built.topology.links()), (64, switches, links));
    assert_eq!((built.topology.host_link().rate_bps, built.topology.switch_latency_ns()), (200_000_000_000, 300));
}

/// What htsim reads, too: fractions of picoseconds, the words of a trigger in another order, a mark of byte order.
#[test]
fn connection_matrices_may_be_written_otherwise() {
    let folder = std::env::temp_dir().join(format!("mrc-matrix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = "\u{feff}Nodes 4\r\nConnections 3\r\nTriggers 1\r\n0->1 id 1 start 1.5e6 size 5 send_done_trigger 4\r\n\
                1->2 id 2 start 2000000.0 size 5 send_done_trigger 4\r\n2->3 id 3 trigger 4 size 5\r\ntrigger count 2 barrier id 4\r\n";
    std::fs::write(folder.join("a.cm"), text).unwrap();
    let built = load_str("test.toml", "[[workload]]\nkind = \"trace\"\nfile = \"a.cm\"\n", &folder, &[], None);
    std::fs::remove_dir_all(&folder).unwrap();
    let plan = built.unwrap_or_else(|error| panic!("{error}")).plan;
    assert_eq!(plan.messages.iter().map(|message| message.delay_ns).collect::<Vec<_>>(), [1500, 2000, 0]);
    assert_eq!(plan.edges.len(), 2);
}

/// One packet of RoCE and its acknowledgement across a file's fabric, by hand: its links, and each tier's own time in a switch.
#[test]
fn switches_of_a_topology_of_htsim_may_have_a_latency_for_each_tier() {
    let folder = std::env::temp_dir().join(format!("mrc-latencies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = "Nodes 16\nTiers 3\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Up 2\nRadix_Down 4\nDownlink_Latency_ns 100\n\
                Switch_Latency_ns 300\nTier 1\nDownlink_speed_Gbps 100\nRadix_Up 2\nRadix_Down 2\nDownlink_Latency_ns 200\n\
                Switch_Latency_ns 700\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 400\nSwitch_Latency_ns 500\n";
    std::fs::write(folder.join("tiers.topo"), text).unwrap();
    for (to, links, delays, switches) in [
        (1, 2.0, 200.0, 300.0),
        (4, 4.0, 600.0, 300.0 + 700.0 + 300.0),
        (8, 6.0, 1400.0, 2.0 * 300.0 + 2.0 * 700.0 + 500.0),
    ] {
        let scenario = format!(
            "[topology]\nshape = \"htsim\"\nfile = \"tiers.topo\"\n[transport]\nkind = \"roce\"\n[queue]\necn = false\n\
             [[workload]]\nfrom = 0\nto = {to}\nbytes = 4096\n"
        );
        let built = load_str("test.toml", &scenario, &folder, &[], None).unwrap_or_else(|error| panic!("{error}"));
        let results = run(&built, &Options::default(), &mut |_| {}).expect("a run").results;
        let hand = links * (4190.0 + 82.0) * 8.0 / 100.0 + 2.0 * (delays + switches);
        let ns = results.fct_us.unwrap().max * 1e3;
        assert!((ns - hand).abs() < 8.0, "to {to}: {ns} ns, by hand {hand}");
        assert!((0.999..1.01).contains(&results.slowdown.unwrap().max), "{:?}", results.slowdown);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Numbers that wrap: pods times hosts is 2^32, a latency is one more than 32 bits hold.
#[test]
fn topologies_of_htsim_that_cannot_be_are_refused() {
    let folder = std::env::temp_dir().join(format!("mrc-topologies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = |latency: u64, radix: u32| {
        format!(
            "Nodes 524288\nTiers 3\nPodsize 1\nTier 0\nDownlink_speed_Gbps 100\nRadix_Up 2\nRadix_Down {radix}\n\
             Downlink_Latency_ns {latency}\nTier 1\nDownlink_speed_Gbps 100\nRadix_Up 2\nRadix_Down 2\n\
             Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 2\n"
        )
    };
    for (latency, radix, says) in [(1, 8_192, "no whole number of pods"), (1 << 32, 1, "at most 4294967295 ns")] {
        std::fs::write(folder.join("wide.topo"), text(latency, radix)).unwrap();
        let scenario = "[topology]\nshape = \"htsim\"\nfile = \"wide.topo\"\n[[workload]]\n";
        let error = load_str("test.toml", scenario, &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // What two lines say of one thing, and what is nearly a key.
    let tiny = include_str!("traces/leaf_spine_tiny.topo");
    for (from, to, says) in [
        ("Radix_Down 4", "Radix_Down 8", "tier 1: Radix_Down 8, and T0s of a pod times Bundle are 4"),
        ("Oversubscribed 4", "Oversubscribed 2", "tier 0: Oversubscribed 2, and 800 Gb/s from below go over 200 Gb/s"),
        ("Oversubscribed 4", "Oversubscribd 4", "line 12: `Oversubscribd 4`: did you mean oversubscribed?"),
        ("Radix_Up 2", "Radix_Up 2\nRadix_Up 2", "the key is there already"),
        ("Tier 0", "Tier 0\nBundle 2", "tier 0: Bundle 2: a host has one link"),
        ("Radix_Up 2", "Radix_Up 1048576", "tier 0: no radix_up from 1 to 1048575"),
    ] {
        std::fs::write(folder.join("wide.topo"), tiny.replace(from, to)).unwrap();
        let scenario = "[topology]\nshape = \"htsim\"\nfile = \"wide.topo\"\n[[workload]]\n";
        let error = load_str("test.toml", scenario, &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    std::fs::write(folder.join("wide.topo"), format!("Colour blue\n{tiny}")).unwrap();
    let scenario = "[topology]\nshape = \"htsim\"\nfile = \"wide.topo\"\n[[workload]]\n";
    assert!(load_str("test.toml", scenario, &folder, &[], None).is_ok());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn broken_traces_name_the_place_and_the_reason() {
    let folder = std::env::temp_dir().join(format!("mrc-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let refused = |name: &str, text: &str, says: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        let scenario = format!("[[workload]]\nkind = \"trace\"\nfile = \"{name}\"\n");
        let error = load_str("test.toml", &scenario, &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("workload[0].file"), "{text:?} gave {error}");
    };
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: send 10b to 1\n", "closing brace");
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: sent 10b to 1\n}\n", "line 3");
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: recv 10b from 1\n}\n", "line 3: rank 0 receives from rank 1");
    refused(
        "a.goal",
        "num_ranks 2\nrank 0 {\n\nl1: send 10b to 5\n}\n",
        "line 4: rank 0 sends to rank 5: ranks are 0 to 1",
    );
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: send 10b to 1\nl1 requires l7\n}\n", "no such label");
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: calc 10\n}\n", "holds no message");
    refused("a.cm", "Nodes 4\n0->1 id 1 start 0\n", "no size");
    refused("a.cm", "Nodes 4\n0->9 id 1 start 0 size 5\n", "line 2: `0->9 id 1 start 0 size 5`: hosts are 0 to 3");
    refused("a.cm", "Nodes 4\n0->1 id 1 trigger 5 size 5\n", "line 2: trigger 5 is fired by no connection");
    refused("a.cm", "trigger id 1 id 2 oneshot\n", "one id and one count");
    refused("a.cm", "trigger id 1 barrier count 2 count 3\n", "one id and one count");
    refused("a.cm", "Nodes 4\n0->1 id 1 start 0 size 0\n", "no size");
    refused("a.cm", "0->9 id 1 start 0 size 5\nNodes 4\n", "line 2: `Nodes 4`: Nodes stands before all connections");
    refused("a.cm", "Nodes 4\nNodes 8\n0->5 id 1 start 0 size 5\n", "line 2: `Nodes 8`: Nodes is there already");
    refused("a.cm", "Connections 1\nConnections 2\n", "line 2: `Connections 2`: Connections is there already");
    refused("a.cm", "Nodes 0\n0->1 id 1 start 0 size 5\n", "line 1: `Nodes 0`: Nodes is a whole number from 1 on");
    refused("a.cm", "Nodes 4\n0->1 id 1 start 0 size 5 size 6\n", "size is there already");
    refused("a.cm", "Nodes 4\n0->1 id 1 start 0 size 5 start 0\n", "start is there already");
    refused(
        "a.cm",
        "Nodes 4\n0->1 id 1 start 0 size 2147483649\n",
        "line 2: `0->1 id 1 start 0 size 2147483649`: 2147483649 bytes",
    );
    let barrier = "Nodes 4\n0->1 id 1 start 0 size 5 send_done_trigger 1\n1->2 id 2 trigger 1 size 5\ntrigger id 1 barrier count 2\n";
    refused("a.cm", barrier, "trigger 1: a barrier of count 2 that 1 connections fire");
    let twice =
        barrier.replace("barrier count 2", "oneshot").replace("trigger 1 size 5", "start 0 size 5 recv_done_trigger 1");
    let twice = format!("{twice}2->3 id 3 trigger 1 size 5\n");
    refused("a.cm", &twice, "trigger 1: 2 connections fire it, and it is no barrier");
    refused("a.cm", &twice.replace("trigger id 1 oneshot\n", ""), "trigger 1: 2 connections fire it");
    refused("a.cm", &format!("{twice}trigger id 1 oneshot\n"), "the trigger is there already");
    refused("a.cm", &twice.replace("oneshot", "multishot"), "use oneshot triggers");
    refused("a.cm", &twice.replace("oneshot", "barrier"), "a barrier has a count");
    refused("a.cm", "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 5\n", "1 connections, and the file says 2");
    refused("a.cm", "Nodes 4\n1->1 id 1 start 0 size 5\n", "a host does not send to itself");
    refused("a.cm", "Nodes 4\n0->1 id 1 start -1 size 5\n", "start is no number");
    refused("a.cm", "Nodes 4\n0->1 id 1 start nan size 5\n", "start is no number");
    refused(
        "a.goal",
        "num_ranks 2\nrank 0 {\nsend 2147483649b to 1\n}\n",
        "line 3: rank 0 to rank 1: 2147483649 bytes",
    );
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: calc -5\n}\n", "`calc` takes whole nanoseconds");
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: send 4kb to 1\n}\n", "`send` takes whole bytes");
    for words in ["send 4b to 1 tag 3 tag 4", "recv 4b from 1 tag -1 tag 4", "recv 4b from 1 tag 4 cpu 0 tag -1"] {
        let says = format!("line 3: `{words}`: `{}` takes whole bytes, a rank and at most one tag", &words[..4]);
        refused("a.goal", &format!("num_ranks 2\nrank 0 {{\n{words}\n}}\n"), &says);
    }
    refused("a.goal", "num_ranks 2\nrank 0 {\nl1: recv 4b to 1\n}\n", "`recv` takes whole bytes");
    refused(
        "a.goal",
        "num_ranks 2\nrank 0 {\nsend 5b to 1\n}\n/* rank 1 {\n",
        "line 5: a comment begins here that nothing ends",
    );
    let circle = "num_ranks 2\nrank 0 {\na: calc 1\nb: send 5b to 1\na requires b\nb requires a\n}\n";
    refused("a.goal", circle, "line 3: operations of rank 0 wait for each other in a circle");
    refused("a.csv", "0,0,1,5\n0,0,1,9999999999\n", "a.csv:2: 9999999999 bytes: a message has at most 2147483648");
    refused("a.csv", "-5,0,1,5\n", "a.csv:1: start_us -5: allowed are 0 to 1e12 us");
    // Latin-1, and UTF-16.
    for (name, bytes, says) in [
        ("l.goal", &b"num_ranks 2\n\n// caf\xe9\n"[..], "l.goal: line 3: no UTF-8 text"),
        ("l.cm", b"\xff\xfeN\0", "l.cm: line 1: no UTF-8 text"),
        ("l.csv", b"0,0,1,5\n\xe9", "l.csv: line 2: no UTF-8 text"),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
        let scenario = format!("[[workload]]\nkind = \"trace\"\nfile = \"{name}\"\n");
        let error = load_str("test.toml", &scenario, &folder, &[], None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    refused("x.et", "junk", "x.et.0.et");
    // A file of rank 2 and none of rank 1, which might be anything.
    let trace = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/step.0.et")).unwrap();
    for rank in [0, 2] {
        std::fs::write(folder.join(format!("gap.et.{rank}.et")), &trace).unwrap();
    }
    refused("gap.et", "", "gap.et.1.et: there is no such file, but gap.et.2.et");
    std::fs::create_dir(folder.join("gap.et.1.et")).unwrap();
    refused("gap.et", "", "gap.et.1.et: ");
    // A circle of two operations.
    std::fs::write(folder.join("c.goal"), "num_ranks 2\nrank 0 {\na: send 1b to 1\nb: send 1b to 1\na requires b\nb requires a\n}\nrank 1 {\nc: recv 1b from 0\n}\n").unwrap();
    let error =
        load_str("test.toml", "[[workload]]\nkind = \"trace\"\nfile = \"c.goal\"\n", &folder, &[], None).unwrap_err();
    assert!(error.message.contains("circle"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An error repeats 80 characters of a line, and says that there are more.
#[test]
fn errors_repeat_the_beginning_of_long_lines() {
    let folder = std::env::temp_dir().join(format!("mrc-long-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let trace = |name: &str| format!("[[workload]]\nkind = \"trace\"\nfile = \"{name}\"\n");
    let topology = "[topology]\nshape = \"htsim\"\nfile = \"a.topo\"\n[[workload]]\n".to_owned();
    let long = "\u{e9}".repeat(100_000);
    for (name, scenario, begins) in [
        ("a.goal", trace("a.goal"), ""),
        ("a.cm", trace("a.cm"), ""),
        ("a.csv", trace("a.csv"), ""),
        ("a.csv", trace("a.csv"), "start"),
        ("a.topo", topology, "Nodes "),
    ] {
        let line = format!("{begins}{long}");
        std::fs::write(folder.join(name), &line).unwrap();
        let error = load_str("test.toml", &scenario, &folder, &[], None).unwrap_err();
        let shown: String = line.chars().take(80).collect();
        assert!(error.message.contains(&format!("`{shown}...`")), "{name}: {} bytes", error.message.len());
    }
    std::fs::write(folder.join("a.csv"), format!("0,0,1,5,{long}\n")).unwrap();
    let error = load_str("test.toml", &trace("a.csv"), &folder, &[], None).unwrap_err();
    assert!(error.message.contains("...` holds no message"), "{} bytes", error.message.len());
    let node = [vec![8, 1], field(2, &[b'x'; 100]), vec![24, 9]].concat();
    let error = chakra("long", &[vec![node]]).unwrap_err();
    assert!(error.message.contains(&format!("(`{}...`): node type 9", "x".repeat(80))), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Rank 1 computes for a millisecond: until then it passes on nothing of the ring.
#[test]
fn nobody_passes_on_what_it_receives_before_taking_part() {
    for (kind, name) in [(0, "late-reduce"), (2, "late-gather"), (7, "late-scatter")] {
        let size = number("comm_size", &[100]);
        let collective = |deps: &[u8]| [&[8, 2, 24, 7], deps, &number("comm_type", &[kind]), &size].concat();
        let compute = vec![8, 1, 24, 4, 56, 0xe8, 7];
        let ranks = [vec![collective(&[])], vec![compute, collective(&[40, 1])], vec![collective(&[])]];
        let built = chakra(name, &ranks).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
        let mut sent = outcome.messages.iter().filter(|row| row.src == 1).map(|row| row.start_us.unwrap());
        assert!(sent.all(|start| start >= 1000.0), "{name}: {:?}", outcome.messages);
    }
}

/// Rank 0 lists the second of two all-reduces, and of two sends, first: what counts is the order in which it comes to them.
#[test]
fn operations_meet_in_the_order_in_which_ranks_come_to_them() {
    let size = |bytes: u8| number("comm_size", &[bytes]);
    let reduce =
        |id: u8, deps: &[u8], bytes| [&[8, id, 24, 7], deps, &number("comm_type", &[0]), &size(bytes)].concat();
    let send = |id: u8, deps: &[u8], bytes| [&[8, id, 24, 5], deps, &number("comm_dst", &[1]), &size(bytes)].concat();
    let receive = |id: u8, deps: &[u8]| [&[8, id, 24, 6], deps, &number("comm_src", &[0])].concat();
    let compute = vec![8, 4, 24, 4, 40, 3, 56, 100];
    let answer = [vec![8, 5, 24, 5, 40, 4], number("comm_dst", &[0]), size(5)].concat();
    let one = vec![reduce(2, &[40, 1], 80), reduce(1, &[], 40), send(4, &[40, 3], 9), send(3, &[40, 2], 7)];
    let other = vec![reduce(1, &[], 40), reduce(2, &[40, 1], 80), receive(3, &[40, 2]), compute, answer];
    let ranks = [one, [other, vec![receive(6, &[40, 5])]].concat()];
    let built = chakra("order", &ranks).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
    let of = |bytes: u32| times(outcome.messages.iter().find(|row| row.bytes == bytes).unwrap());
    // Rank 1 answers 100 us after the first message, of seven bytes.
    assert_eq!(of(5).0, of(7).1 + 100.0);
    let first = outcome.messages.iter().filter(|row| row.bytes == 20).map(|row| row.delivered_us.unwrap());
    let second = outcome.messages.iter().filter(|row| row.bytes == 40).map(|row| row.start_us.unwrap());
    assert!(first.fold(0.0, f64::max) <= second.fold(f64::INFINITY, f64::min));
}

/// A first message that is neither metadata nor a node, and a node of a type that is none: neither is passed over.
#[test]
fn nothing_of_an_execution_trace_is_passed_over() {
    let receive = [vec![8, 1, 24, 6], number("comm_src", &[0])].concat();
    let send = [vec![8, 2, 24, 5], number("comm_dst", &[1]), number("comm_size", &[9])].concat();
    let folder = std::env::temp_dir().join(format!("mrc-traces-first-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let read = |first: &[u8]| {
        let file =
            |nodes: &[&[u8]]| nodes.iter().flat_map(|node| [&[node.len() as u8], *node].concat()).collect::<Vec<u8>>();
        std::fs::write(folder.join("a.0.et"), file(&[first, &send])).unwrap();
        std::fs::write(folder.join("a.1.et"), file(&[&[], &receive])).unwrap();
        load_str("test.toml", "[[workload]]\nkind = \"trace\"\nfile = \"a\"\nformat = \"chakra\"\n", &folder, &[], None)
    };
    // A computation of a millisecond whose name is no text, and one whose duration is cut.
    for broken in [&[8, 1, 18, 1, 0xff, 24, 4, 56, 0xe8, 7][..], &[8, 1, 24, 4, 56, 0xe8]] {
        let error = read(broken).unwrap_err().to_string();
        assert!(error.contains("a.0.et: no Chakra execution trace"), "{error}");
    }
    // Metadata with a version and with attributes alone.
    for metadata in [field(1, b"0.0.4"), field(2, &field(1, b"schema"))] {
        assert!(read(&metadata).is_ok());
    }
    let error = read(&[8, 1, 24, 99]).unwrap_err().to_string();
    assert!(error.contains("a.0.et: node 1 of rank 0 (``): node type 99; known are 0 to 7"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A tag, a group or a root that is written in a way that is not read is not none at all. Numbers of all widths are read.
#[test]
fn attributes_of_execution_traces_are_read_or_refused() {
    let attr = |name: &str, value: &[u8]| field(10, &[&field(1, name.as_bytes()), value].concat());
    let receive = vec![[vec![8, 1, 24, 6], number("comm_src", &[0]), number("comm_tag", &[7])].concat()];
    let send = |tag: Vec<u8>| {
        let send = [vec![8, 1, 24, 5], number("comm_dst", &[1]), number("comm_size", &[9]), tag].concat();
        [vec![send], receive.clone()]
    };
    // fixed32, fixed64, sfixed32, sfixed64, text.
    let text = [&[0xea, 1][..], &field(0, b"7")[1..]].concat();
    for value in [
        &[0x9d, 1, 7, 0, 0, 0][..],
        &[0xa9, 1, 7, 0, 0, 0, 0, 0, 0, 0],
        &[0xbd, 1, 7, 0, 0, 0],
        &[0xc9, 1, 7, 0, 0, 0, 0, 0, 0, 0],
        &text,
    ] {
        chakra("widths", &send(attr("comm_tag", value))).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    }
    // A floating-point number, text that is no number, bytes.
    let double = [0x19, 0, 0, 0, 0, 0, 0, 0x1c, 0x40];
    for value in [&double[..], &[0xea, 1, 1, b'x'], &[0xfa, 1, 1, 7]] {
        let error = chakra("no-tag", &send(attr("comm_tag", value))).unwrap_err().to_string();
        assert!(error.contains("node 1 of rank 0 (``): no whole number called comm_tag"), "{value:?}: {error}");
    }
    let together = |kind: u8, extra: Vec<u8>| {
        let size = number("comm_size", &[100]);
        vec![vec![[vec![8, 1, 24, 7], number("comm_type", &[kind]), size, extra].concat()]; 2]
    };
    for (kind, extra, says) in [
        (0, attr("pg_name", &[0xfa, 1, 1, b'g']), "neither text nor a number called pg_name"),
        (0, attr("involved_dim", &[0xd8, 1, 0]), "involved_dim leaves some out"),
        (0, attr("involved_dim", &double), "no list of truth values called involved_dim"),
        (5, attr("root_rank", &double), "no number from 0 on called root_rank"),
    ] {
        let error = chakra("extra", &together(kind, extra)).unwrap_err().to_string();
        assert!(error.contains(&format!("node 1 of rank 0 (``): {says}")), "{error}");
    }
    assert!(chakra("dim", &together(0, attr("involved_dim", &[0xd8, 1, 1]))).is_ok());
    // A group may have a negative number, which is not that of all ranks.
    let negative = [&[9 << 3][..], &[0xff; 9], &[1]].concat();
    let mut ranks = together(0, attr("pg_name", &negative));
    ranks.push(vec![vec![8, 1, 24, 4]]);
    assert!(chakra("group", &ranks).is_ok());
    ranks[2] = together(0, Vec::new()).remove(0);
    let error = chakra("group", &ranks).unwrap_err().to_string();
    assert!(error.contains("node 1 of rank 2: rank 0 has 0 collective operations, others 1"), "{error}");
}

/// The optimizer's step behind the last message belongs to the time that a trace takes.
#[test]
fn a_run_ends_with_its_last_computation() {
    let built = goal(
        "behind",
        "num_ranks 2\nrank 0 {\nsend 5b to 1\n}\nrank 1 {\nr: recv 5b from 0\nc: calc 4000000\nc requires r\n}\n",
    );
    let built = built.unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run");
    let delivered = outcome.messages[0].delivered_us.unwrap();
    assert!((outcome.results.end_us - delivered - 4000.0).abs() < 1e-9, "{} after {delivered}", outcome.results.end_us);
    // The limit strikes while rank 1 computes: all messages are completed, and the run is not.
    let text =
        "num_ranks 2\nrank 0 {\nsend 5b to 1\n}\nrank 1 {\nr: recv 5b from 0\nc: calc 2000000000\nc requires r\n}\n";
    let built = goal("limit", text).unwrap_or_else(|error| panic!("{error}"));
    let results =
        run(&built, &Options::default(), &mut |progress| assert_eq!(progress.messages, 1)).expect("a run").results;
    let says = results.diagnosis.unwrap();
    assert!(says.contains("; 1 of 1 messages completed, 0 failed, 0 of 1 computations ended; "), "{says}");
}
