/* What the small examples share: a pair of endpoints towards each other. */
#ifndef SMALL_H
#define SMALL_H

#include "say.h"

enum { MTU = 1024, EVS = 8, PORTS = 2, REGION = 32 * 1024 };

static const uint64_t VA = 0x100000; /* the address that keys and requests speak of */

/* A frame under way. */
struct frame {
    uint32_t len;
    uint8_t port;
    uint8_t bytes[MRC_CORE_MAX_HEADER_LEN + MTU + 8];
};

/* Defaults for an endpoint of host `host` with two ports and one queue pair. */
static inline void small_config(struct mrc_core_config *config, unsigned host)
{
    mrc_core_config_default(config);
    config->limits = (struct mrc_core_limits){
        .qps = 1, .mpr = 1, .tx_packets = 128, .send_queue = 4, .recv_queue = 4, .wimm = 4, .evs = EVS, .active_evs = EVS, .cqs = 1,
        .cq_depth = 8, .mrs = 1, .peers = 1, .planes = PORTS, .srv6_peers = 1, .ev_profiles = 1, .profile_evs = EVS,
        .cc_profiles = 1, .qpccs = 1, .events = 16,
    };
    for (unsigned port = 0; port < PORTS; port++) {
        config->ports[port].present = 1;
        config->ports[port].mac[0] = 0x02;
        config->ports[port].mac[4] = (uint8_t)port;
        config->ports[port].mac[5] = (uint8_t)(1 + host);
    }
    config->gids[0] = address(host);
}

/* The other host as a peer, and eight paths to it. Every shard makes both, in the same order. */
static inline struct mrc_core_ev_profile add_host(struct mrc_core_endpoint *engine, unsigned from, unsigned to,
                                                  struct mrc_core_peer *peer)
{
    struct mrc_core_peer_config config = {.local = address(from), .remote = address(to), .hop_limit = 64};
    struct mrc_core_ev_entry entries[EVS] = {{0}};
    struct mrc_core_ev_profile profile;
    for (unsigned port = 0; port < PORTS; port++) {
        config.planes[port].present = 1;
        config.planes[port].next_hop[0] = 0x02;
    }
    for (unsigned n = 0; n < EVS; n++) {
        entries[n].ev = n;
        entries[n].port = (uint8_t)(1 + n % PORTS);
    }
    must(engine, "add_peer", mrc_core_add_peer(engine, &config, peer));
    must(engine, "create_ev_profile", mrc_core_create_ev_profile(engine, entries, EVS, &profile));
    return profile;
}

/* A queue pair towards `dest_qp`, up to RTS. Both directions begin with PSN 7. */
static inline void connect_qp(struct mrc_core_endpoint *engine, struct mrc_core_qp qp, struct mrc_core_peer peer,
                              struct mrc_core_ev_profile profile, uint32_t dest_qp)
{
    struct mrc_core_rtr rtr;
    struct mrc_core_rts rts;
    mrc_core_rtr_default(&rtr);
    rtr.peer = peer;
    rtr.ev_profile = profile;
    rtr.dest_qp = dest_qp;
    rtr.rq_psn = 7;
    rtr.path_mtu = MTU;
    rtr.mpr_dest = 1;
    rtr.max_wimm_dest = 4;
    mrc_core_rts_default(&rts, 7);
    rts.mpr = 1;
    rts.max_wimm = 4;
    rts.paths.active = EVS;
    rts.paths.backup = 0;
    must(engine, "INIT", mrc_core_modify_to_init(engine, qp));
    must(engine, "RTR", mrc_core_modify_to_rtr(engine, 0, qp, &rtr));
    must(engine, "RTS", mrc_core_modify_to_rts(engine, 0, qp, &rts));
}

/* Payload from `data`, pad and ICRC behind the headers that the engine wrote. */
static inline void finish(struct frame *frame, const struct mrc_core_transmit *tx, const uint8_t *data)
{
    uint8_t *at = frame->bytes + tx->header_len;
    for (uint32_t i = 0; i < tx->payload_len; i++)
        *at++ = data[tx->offset + i];
    for (uint32_t i = 0; i < tx->pad; i++)
        *at++ = 0;
    uint8_t *packet = frame->bytes + tx->l3_offset;
    require("the ICRC is made", mrc_core_icrc(packet, (size_t)(at - packet), at) == MRC_CORE_OK);
    frame->len = tx->frame_len;
    frame->port = tx->port;
}

#endif
