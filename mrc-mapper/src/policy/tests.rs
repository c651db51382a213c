use super::*;

const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

fn finding(name: &str, loss: f64) -> Finding {
    Finding { component: name.parse().unwrap(), loss, evidence: 100.0, instead: Vec::new() }
}

fn rule(name: &str, part: Part, loss_above: f64) -> Rule {
    Rule { name: name.into(), part, loss_above, expire_s: 10, rest_s: 5 }
}

#[test]
fn a_plane_behind_a_lossy_host_link_is_denied_but_never_the_last() {
    let lists = apply(&FABRIC, &Policy::default(), &[finding("p0-hA:down", 0.02), finding("p1-hA", 0.5)]);
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[&0].planes, BTreeSet::from([1]), "the worse one, and one stays");
    let evs: Vec<u32> = lists[&0].evs.iter().map(|denied| denied.ev).collect();
    assert_eq!(evs, [0x100, 0x101, 0x102, 0x103]);
    assert!(lists[&0].evs.iter().all(|denied| denied.state == 4));
    assert_eq!(lists[&0].because["p1-hA"], "lossy-host-link");
    let greedy = Policy { most_planes: 9, ..Policy::default() };
    assert_eq!(apply(&FABRIC, &greedy, &[finding("p0-hA", 1.0), finding("p1-hA", 0.5)])[&0].planes.len(), 1);
    assert!(apply(&FABRIC, &Policy::default(), &[finding("p0-hA", 0.005)]).is_empty());
}

#[test]
fn uplinks_are_left_to_mrc_unless_asked_for() {
    let findings = [finding("p0-t0b-t1c", 1.0), finding("p1-t1a", 1.0), finding("hA", 1.0)];
    assert!(apply(&FABRIC, &Policy::default(), &findings).is_empty());
    let rules = vec![rule("uplinks", Part::Uplink, 0.01), rule("spines", Part::T1, 0.01)];
    let lists = apply(&FABRIC, &Policy { rules, ..Policy::default() }, &findings);
    assert_eq!(lists[&1].evs.iter().map(|denied| denied.ev).collect::<Vec<_>>(), [0x002, 0x100]);
    assert_eq!(lists[&0].evs.len(), 1);
}

#[test]
fn what_is_not_certain_is_acted_on_only_when_all_of_it_means_the_same() {
    let unsure = |names: &[&str]| {
        let mut unsure = finding(names[0], 1.0);
        unsure.instead = names[1..].iter().map(|name| name.parse().unwrap()).collect();
        apply(&FABRIC, &Policy::default(), &[unsure]).into_keys().collect::<Vec<_>>()
    };
    // Host A hangs under T0 a: whatever of it is broken, its plane 0 is.
    for names in [&["p0-hA", "p0-t0a"][..], &["p0-t0a", "p0-hA:up"], &["p0-hA", "p0", "p0-t0a"]] {
        assert_eq!(unsure(names), [0], "{names:?}");
    }
    for names in [
        &["p0-hA", "p0-t0b"][..],
        &["p0-hA", "p1-t0a"],
        &["p0-hA", "p0-hB"],
        &["p0-hA", "p0-t0a-t1a"],
        &["p0-t0a", "p0"],
    ] {
        assert!(unsure(names).is_empty(), "{names:?}");
    }
    let both = Finding { instead: vec!["p0-hA:up".parse().unwrap()], ..finding("p0-t0a", 0.1) };
    let named = at_own_end(&FABRIC, both);
    assert_eq!((named.component.to_string().as_str(), named.instead.len()), ("p0-hA", 1));
}

#[test]
fn a_denial_ends_with_its_fault_or_goes_back_to_mrc() {
    let rules = vec![rule("r", Part::HostLink, 0.01)];
    let policy = Policy { hold_s: 3, rules, ..Policy::default() };
    let mut enforcer = Enforcer::new(FABRIC, 0, policy).unwrap();
    let faulty = [finding("p0-hA:down", 0.02)];
    let name = || ("p0-hA:down".to_owned(), "r".to_owned());
    let (component, rule) = name();
    let deny = Decision::Deny { component, rule };
    assert_eq!(enforcer.decide(0.0, &faulty).1, std::slice::from_ref(&deny));
    let (list, said) = enforcer.decide(9.9, &faulty);
    assert!(said.is_empty() && list.planes == BTreeSet::from([0]), "once is enough: {said:?}");
    // Its time is over: MRC judges the path for five seconds.
    let (component, rule) = name();
    let (list, said) = enforcer.decide(10.0, &faulty);
    assert_eq!((list.planes.len(), said), (0, vec![Decision::HandBack { component, rule }]));
    assert_eq!(enforcer.decide(14.9, &faulty).0, Denylist::default());
    assert_eq!(enforcer.decide(15.1, &faulty).1, [deny], "still faulty: denied again");
    let (component, rule) = name();
    let (list, said) = enforcer.decide(18.0, &[]);
    assert!(said.is_empty() && list.planes.len() == 1, "a fault that loses little is not reported in every round");
    assert_eq!(enforcer.decide(18.2, &[]), (Denylist::default(), vec![Decision::End { component, rule }]));
    // Faults of others are not ours.
    assert_eq!(enforcer.decide(19.0, &[finding("p0-hB", 1.0)]), (Denylist::default(), vec![]));
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    let check = |rules: Vec<Rule>| Policy { rules, ..Policy::default() }.check();
    assert_eq!(check(vec![rule("", Part::T1, 0.1)]), Err(BadPolicy::Name(1)));
    let twice = vec![rule("x", Part::T1, 0.1), rule("x", Part::Uplink, 0.1)];
    assert_eq!(check(twice), Err(BadPolicy::Twice("x".into())));
    for loss in [-0.1, 1.0, f64::NAN] {
        assert_eq!(check(vec![rule("x", Part::T1, loss)]), Err(BadPolicy::Loss("x".into())));
    }
    assert_eq!(check(vec![Rule { expire_s: 0, ..rule("x", Part::T1, 0.1) }]), Err(BadPolicy::Expire("x".into())));
    assert_eq!(Policy::default().check(), Ok(()));
}
