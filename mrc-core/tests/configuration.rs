//! What an endpoint refuses to be built from, each time naming the field.

use mrc_core::{ConfigError, Endpoint, EndpointConfig, Limits, OwnedStorage, PortConfig};
use mrc_wire::Ip;

fn refused(change: impl FnOnce(&mut EndpointConfig)) -> &'static str {
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V4([192, 0, 2, 1]));
    cfg.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    change(&mut cfg);
    let mut storage = OwnedStorage::new(Limits { qps: 1, ..Limits::default() }).unwrap();
    match Endpoint::new(cfg, storage.lend(), 1) {
        Err(ConfigError::Range { what }) => what,
        other => panic!("{other:?}"),
    }
}

/// Two roles with one code point could not be told apart on receipt.
//= DSCP-001 test
#[test]
fn a_wire_configuration_that_cannot_work_is_refused_by_name() {
    assert_eq!(refused(|cfg| cfg.wire.dscp.trimmed = cfg.wire.dscp.control), "wire.dscp");
    assert_eq!(refused(|cfg| cfg.wire.dscp.no_trim = 64), "wire.dscp");
    assert_eq!(refused(|cfg| cfg.wire.bth_se_bit = 5), "wire.bth_se_bit");
    assert_eq!(refused(|cfg| cfg.gids[0] = None), "gids");
    assert_eq!(refused(|cfg| cfg.ports[0] = None), "ports");
    assert_eq!(refused(|cfg| cfg.sack_gen_threshold = 0), "sack_gen_threshold");
}
