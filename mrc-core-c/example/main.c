/* Two MRC endpoints in one image, without libc: A writes to B over two planes that lose packets, then writes once more with
 * an immediate, probes its paths and takes a port out of use. A driver in miniature: memory in statics, frames in a ring, a
 * clock that is a number. */
#include "say.h"

enum {
    PLANES = 2,
    EVS = 8,              /* per plane */
    MTU = 1024,           /* payload bytes of a packet */
    MESSAGE = 40000,      /* bytes of the write: 40 packets, the last one short */
    NOTE = 100,           /* bytes of the write with immediate */
    REGION = 64 * 1024,   /* registered bytes of each side */
    FRAMES = 256,         /* on the wire at once */
    BURST = 16,           /* handed over at once */
    FLIGHT_NS = 5000,     /* one way */
    LOSE_EVERY = 9,       /* the fabric loses every ninth frame, whatever it is */
};

static const uint64_t VA = 0x100000;           /* the address of `data` that keys and requests speak of */
static const uint32_t FIRST_PSN[2] = {0xFFFFF0, 7}; /* A's PSNs wrap on the way */
static const uint32_t IMMEDIATE = 0xC0FFEE;

/* One side: the engine's memory, the application's memory, and the handles. */
struct side {
    _Alignas(MRC_CORE_ALIGN) uint8_t memory[96 * 1024];
    uint8_t data[REGION];
    struct mrc_core_endpoint *engine;
    struct mrc_core_mr mr;
    struct mrc_core_cq cq;
    struct mrc_core_qp qp;
    struct mrc_core_peer peer;
    struct mrc_core_ev_profile profile;
    struct mrc_core_completion done[4];
    unsigned done_count;
    uint32_t key;
};

/* A frame under way. */
struct frame {
    uint64_t arrives_ns;
    uint32_t len; /* 0: lost */
    uint8_t to;
    uint8_t port;
    uint8_t bytes[MRC_CORE_MAX_HEADER_LEN + MTU + 8];
};

/* A payload on its way to memory, as a DMA engine would carry it. */
struct copy {
    uint8_t *to;
    const uint8_t *from;
    uint32_t len;
};

static struct side sides[2];
static struct copy copies[BURST];
static unsigned copies_started;
static struct frame wire[FRAMES];
static unsigned wire_head, wire_tail, frames_sent, frames_lost;
static uint64_t now_ns;

/* The engine in its memory, a registered region, a completion queue and a queue pair. */
static void create(unsigned which)
{
    struct side *side = &sides[which];
    struct mrc_core_config config;
    mrc_core_config_default(&config);
    config.limits = (struct mrc_core_limits){
        .qps = 1, .mpr = 1, .tx_packets = 128, .send_queue = 4, .recv_queue = 4, .wimm = 4, .evs = PLANES * EVS,
        .active_evs = PLANES * EVS, .cqs = 1, .cq_depth = 8, .mrs = 1, .peers = 1, .planes = PLANES,
        .srv6_peers = 1, .ev_profiles = 2, .profile_evs = PLANES * EVS, .cc_profiles = 2, .qpccs = 1, .events = 16,
    };
    for (unsigned plane = 0; plane < PLANES; plane++) {
        config.ports[plane].present = 1;
        config.ports[plane].mac[0] = 0x02;
        config.ports[plane].mac[4] = (uint8_t)which;
        config.ports[plane].mac[5] = (uint8_t)plane;
    }
    config.gids[0] = address(which);
    /* On a device: from its random number generator. Here every run is the same. */
    const uint8_t seed[MRC_CORE_SEED_LEN] = {1, 2, 3, (uint8_t)which};
    must(side->engine, "init", mrc_core_init(side->memory, sizeof side->memory, &config, seed, &side->engine, NULL));
    must(side->engine, "register_mr", mrc_core_register_mr(side->engine, 0, VA, REGION, MRC_CORE_ACCESS_REMOTE_WRITE,
                                                   &side->mr, &side->key));
    must(side->engine, "create_cq", mrc_core_create_cq(side->engine, &side->cq));
    must(side->engine, "create_qp", mrc_core_create_qp(side->engine, 0, side->cq, side->cq, &side->qp));
}

/* The paths as a controller programs them, entry by entry: `plane << 8 | n` leaves through that plane's port. */
static void program_paths(struct side *side)
{
    struct mrc_core_ev_profile_config config = {
        .mode = MRC_CORE_EV_MODE_EXPLICIT, .format = MRC_CORE_EV_FORMAT_STEV, .widths = {24, 8}, .width_count = 2,
        .count = PLANES * EVS,
    };
    struct mrc_core_ev none = {{0}, 0}, value = none;
    must(side->engine, "open_ev_profile", mrc_core_open_ev_profile(side->engine, 1, &side->profile));
    must(side->engine, "configure_ev_profile", mrc_core_configure_ev_profile(side->engine, side->profile, &config));
    for (unsigned n = 0; n < PLANES * EVS; n++) {
        value.value[2] = (uint8_t)(n / EVS);
        value.value[3] = (uint8_t)(n % EVS);
        value.port = (uint8_t)(n / EVS + 1);
        must(side->engine, "replace_ev", mrc_core_replace_ev(side->engine, side->profile, &none, &value, MRC_CORE_EV_GOOD, 0));
    }
    must(side->engine, "set_ev_min_active", mrc_core_set_ev_min_active(side->engine, side->profile, PLANES));
    must(side->engine, "set_ev_events", mrc_core_set_ev_events(side->engine, side->profile, 1, 1));
    must(side->engine, "ONLINE", mrc_core_set_ev_profile_state(side->engine, side->profile, MRC_CORE_PROFILE_ONLINE));
}

/* The peer, its paths, and the queue pair up to RTS. What the two sides tell each other here, a connection manager would
 * carry. */
static void connect_to(unsigned which)
{
    struct side *side = &sides[which], *far = &sides[1 - which];
    struct mrc_core_peer_config peer = {.local = address(which), .remote = address(1 - which), .hop_limit = 64};
    struct mrc_core_rtr rtr;
    struct mrc_core_rts rts;
    for (unsigned plane = 0; plane < PLANES; plane++) {
        peer.planes[plane].present = 1;
        peer.planes[plane].next_hop[0] = 0x02;
    }
    mrc_core_rtr_default(&rtr);
    must(side->engine, "add_peer", mrc_core_add_peer(side->engine, &peer, &side->peer));
    program_paths(side);
    rtr.peer = side->peer;
    rtr.ev_profile = side->profile;
    rtr.dest_qp = far->qp.qpn;
    rtr.rq_psn = FIRST_PSN[1 - which];
    rtr.path_mtu = MTU;
    rtr.mpr_dest = 1;
    rtr.max_wimm_dest = 4;
    mrc_core_rts_default(&rts, FIRST_PSN[which]);
    rts.mpr = 1;
    rts.max_wimm = 4;
    rts.base_rtt_ns = 2 * FLIGHT_NS;
    rts.timeout = 8; /* 262 us: what nobody has overtaken is sent again after that */
    rts.paths.active = PLANES * EVS;
    rts.paths.backup = 0;
    must(side->engine, "INIT", mrc_core_modify_to_init(side->engine, side->qp));
    must(side->engine, "RTR", mrc_core_modify_to_rtr(side->engine, now_ns, side->qp, &rtr));
    must(side->engine, "RTS", mrc_core_modify_to_rts(side->engine, now_ns, side->qp, &rts));
}

/* Payload from our memory, pad and ICRC behind the headers that the engine wrote; then the frame is on its way. */
static void finish(unsigned which, struct frame *frame, const struct mrc_core_transmit *tx)
{
    struct side *side = &sides[which];
    require("the frame fits", tx->frame_len <= sizeof frame->bytes);
    uint8_t *at = frame->bytes + tx->header_len;
    for (uint32_t i = 0; i < tx->payload_len; i++)
        *at++ = side->data[tx->offset + i];
    for (uint32_t i = 0; i < tx->pad; i++)
        *at++ = 0;
    uint8_t *packet = frame->bytes + tx->l3_offset;
    must(side->engine, "icrc", mrc_core_icrc(packet, (size_t)(at - packet), at));
    frame->arrives_ns = now_ns + FLIGHT_NS;
    frame->len = tx->frame_len;
    frame->to = (uint8_t)(1 - which);
    frame->port = tx->port;
    if (frames_sent++ % LOSE_EVERY == LOSE_EVERY - 1) {
        frames_lost++;
        frame->len = 0;
    }
}

/* Takes every frame the engine wants to send, in bursts. */
static void transmit(unsigned which)
{
    struct side *side = &sides[which];
    for (;;) {
        struct mrc_core_frame burst[BURST];
        uint32_t room[MRC_CORE_MAX_PORTS] = {0}, free = FRAMES - (wire_tail - wire_head);
        unsigned count = free < BURST ? free : BURST;
        for (unsigned plane = 0; plane < PLANES; plane++)
            room[plane] = count;
        for (unsigned i = 0; i < count; i++) {
            burst[i].headers = wire[(wire_tail + i) % FRAMES].bytes;
            burst[i].len = MRC_CORE_MAX_HEADER_LEN;
        }
        int32_t filled = mrc_core_transmit_burst(side->engine, now_ns, room, burst, count);
        must(side->engine, "transmit_burst", filled);
        for (int32_t i = 0; i < filled; i++)
            finish(which, &wire[wire_tail++ % FRAMES], &burst[i].tx);
        if (filled < (int32_t)count || count == 0)
            return; /* Nothing more; or no room, and the engine keeps what it has until we come back. */
    }
}

/* Starts to move a payload. Its frame stays where it is until then. */
static void place(struct side *side, const struct mrc_core_arrival *arrival)
{
    struct copy *copy = &copies[copies_started++];
    copy->to = side->data + arrival->place.offset;
    copy->from = arrival->head + arrival->place.payload_start;
    copy->len = arrival->place.payload_len;
}

/* Returns when all payloads have landed, the last bytes of each one last. */
static void wait_for_placements(void)
{
    for (unsigned i = 0; i < copies_started; i++)
        for (uint32_t at = 0; at < copies[i].len; at++)
            copies[i].to[at] = copies[i].from[at];
    copies_started = 0;
}

/* Everything the engine has to say after an input. What it says next may tell the peer or the application that payloads
 * are in memory: they must be. */
static void drain(unsigned which)
{
    struct side *side = &sides[which];
    struct mrc_core_event event;
    wait_for_placements();
    transmit(which);
    while (side->done_count < 4) {
        struct mrc_core_completion *done = &side->done[side->done_count];
        int32_t code = mrc_core_poll_cq(side->engine, side->cq, done);
        must(side->engine, "poll_cq", code);
        if (code == MRC_CORE_OK)
            break;
        side->done_count++;
    }
    while (mrc_core_poll_event(side->engine, &event) == MRC_CORE_SOME)
        require("no queue pair fails", event.kind != MRC_CORE_EVENT_QP_ERROR);
}

/* Hands the frames that have arrived by now at one side to its engine, which says where each payload belongs. */
static void receive(void)
{
    struct mrc_core_arrival burst[BURST];
    unsigned to = wire[wire_head % FRAMES].to, count = 0;
    struct side *side = &sides[to];
    while (wire_head != wire_tail && count < BURST) {
        struct frame *frame = &wire[wire_head % FRAMES];
        if (frame->arrives_ns > now_ns || frame->to != to)
            break;
        wire_head++;
        if (frame->len == 0)
            continue; /* Lost on its way. */
        burst[count].head = frame->bytes;
        burst[count].head_len = frame->len;
        burst[count].rx.wire_len = frame->len;
        burst[count].rx.port = frame->port;
        burst[count].rx.icrc = MRC_CORE_ICRC_VERIFY;
        count++;
    }
    must(side->engine, "receive_burst", mrc_core_receive_burst(side->engine, now_ns, burst, count));
    for (unsigned i = 0; i < count; i++) {
        if (burst[i].code == MRC_CORE_SOME) {
            place(side, &burst[i]);
        } else if (burst[i].code > MRC_CORE_E_DISCARDED) {
            must(side->engine, "receive_burst", burst[i].code);
        }
    }
    drain(to);
}

/* Lets the next thing happen: a frame arrives, or a timer expires. */
static void turn(void)
{
    uint64_t next = wire_head == wire_tail ? MRC_CORE_NEVER : wire[wire_head % FRAMES].arrives_ns;
    int frame_first = 1;
    for (unsigned which = 0; which < 2; which++) {
        uint64_t timer = mrc_core_next_timeout(sides[which].engine);
        if (timer < next) {
            next = timer;
            frame_first = 0;
        }
    }
    require("something will happen", next != MRC_CORE_NEVER);
    require("it happens within a second", next < 1000000000u);
    now_ns = next > now_ns ? next : now_ns;
    if (frame_first) {
        receive();
        return;
    }
    for (unsigned which = 0; which < 2; which++) {
        mrc_core_handle_timeout(sides[which].engine, now_ns);
        drain(which);
    }
}

/* Turns the world until A has `sent` completions and B has `received`. */
static void run(unsigned sent, unsigned received)
{
    drain(0);
    drain(1);
    while (sides[0].done_count < sent || sides[1].done_count < received)
        turn();
}

/* Probes every path of A once and returns how many answered. */
static unsigned probe(void)
{
    struct side *a = &sides[0];
    struct mrc_core_op_outcome outcome;
    unsigned ended = 0, answered = 0;
    for (unsigned n = 0; n < PLANES * EVS; n++) {
        struct mrc_core_op_request request = {
            .cookie = n, .timeout_ns = 4 * FLIGHT_NS, .op = MRC_CORE_ENDPOINT_EV_PROBE,
        };
        request.path.ev = n / EVS << 8 | n % EVS;
        request.path.port = (uint8_t)(n / EVS + 1);
        must(a->engine, "post_endpoint_op", mrc_core_post_endpoint_op(a->engine, a->peer, &request));
    }
    drain(0);
    for (;;) {
        while (mrc_core_poll_endpoint_op(a->engine, &outcome) == MRC_CORE_SOME) {
            ended++;
            answered += outcome.answered;
            require("a path takes its time", !outcome.answered || outcome.rtt_ns == 2 * FLIGHT_NS);
        }
        if (ended == PLANES * EVS)
            return answered;
        turn();
    }
}

/* Turns the world until B believes that A has these ports. */
static void until_heard(uint32_t ports)
{
    uint32_t heard = 0;
    drain(0);
    for (;;) {
        must(sides[1].engine, "peer_ports", mrc_core_peer_ports(sides[1].engine, sides[1].peer, &heard));
        if ((heard & ((2u << PLANES) - 2)) == ports)
            return;
        turn();
    }
}

/* What a controller asks and changes while packets flow. */
static void control(void)
{
    struct side *a = &sides[0];
    struct mrc_core_ev_profile_info info;
    struct mrc_core_ev_report evs[PLANES * EVS];
    struct mrc_core_cc_info window;
    struct mrc_core_cc cc;
    struct mrc_core_cc_profile nscc;
    struct mrc_core_ev_profile spare;
    struct mrc_core_ev_profile_config made = {.mode = MRC_CORE_EV_MODE_AUTO, .count = PLANES};
    uint32_t count = 0;
    must(a->engine, "query_ev_profile", mrc_core_query_ev_profile(a->engine, a->profile, &info));
    require("the profile is in use", info.state == MRC_CORE_PROFILE_ONLINE && info.users == 1);
    must(a->engine, "query_evs", mrc_core_query_evs(a->engine, a->profile, 0, evs, PLANES * EVS, &count));
    require("it has all its entries", count == PLANES * EVS && evs[EVS].ev.port == 2);
    must(a->engine, "set_ev_state", mrc_core_set_ev_state(a->engine, now_ns, a->profile, &evs[0].ev, MRC_CORE_EV_DENIED, 0));
    must(a->engine, "set_ev_state", mrc_core_set_ev_state(a->engine, now_ns, a->profile, &evs[0].ev, MRC_CORE_EV_GOOD, 0));
    must(a->engine, "query_cc", mrc_core_query_cc(a->engine, a->qp, &window));
    require("one queue pair has the window", window.users == 1);
    mrc_core_cc_default(&cc);
    cc.algorithm = MRC_CORE_CC_NSCC;
    cc.rate_bps = 100000000000u;
    cc.base_rtt_ns = 2 * FLIGHT_NS;
    must(a->engine, "create_cc_profile", mrc_core_create_cc_profile(a->engine, &cc, &nscc));
    cc.gamma_q16 = 40000;
    must(a->engine, "modify_cc_profile", mrc_core_modify_cc_profile(a->engine, nscc, &cc));
    must(a->engine, "query_cc_profile", mrc_core_query_cc_profile(a->engine, nscc, &cc));
    must(a->engine, "destroy_cc_profile", mrc_core_destroy_cc_profile(a->engine, nscc));
    must(a->engine, "open_ev_profile", mrc_core_open_ev_profile(a->engine, 2, &spare));
    must(a->engine, "configure_ev_profile", mrc_core_configure_ev_profile(a->engine, spare, &made));
    must(a->engine, "destroy_ev_profile", mrc_core_destroy_ev_profile(a->engine, spare));
}

static uint64_t counter(struct side *side, const char *name)
{
    struct mrc_core_text found;
    uint64_t value;
    for (uint32_t index = 0; mrc_core_counter(side->engine, index, &found, &value) == MRC_CORE_SOME; index++) {
        size_t i = 0;
        while (i < found.len && name[i] == found.ptr[i])
            i++;
        if (i == found.len && name[i] == 0)
            return value;
    }
    require(name, 0);
    return 0;
}

static void report(const char *what, uint64_t value)
{
    say(what);
    say(" ");
    say_number(value);
    say("\n");
}

int program(void)
{
    struct side *a = &sides[0], *b = &sides[1];
    create(0);
    create(1);
    connect_to(0);
    connect_to(1);
    for (unsigned i = 0; i < MESSAGE; i++)
        a->data[i] = (uint8_t)(i * 7 + i / 251);

    struct mrc_core_send_wr wr = {
        .wr_id = 1, .local_va = VA, .remote_va = VA, .lkey = a->key, .rkey = b->key, .len = MESSAGE, .signaled = 1,
    };
    must(a->engine, "post_send", mrc_core_post_send(a->engine, now_ns, a->qp, &wr));
    run(1, 0);
    require("the write succeeds", a->done[0].wr_id == 1 && a->done[0].status == MRC_CORE_WC_SUCCESS);
    for (unsigned i = 0; i < MESSAGE; i++)
        require("every byte arrives", a->data[i] == b->data[i]);
    report("write bytes", MESSAGE);

    must(b->engine, "post_recv", mrc_core_post_recv(b->engine, b->qp, 77));
    wr.wr_id = 2;
    wr.remote_va = VA + MESSAGE;
    wr.len = NOTE;
    wr.has_imm = 1;
    wr.imm = IMMEDIATE;
    must(a->engine, "post_send", mrc_core_post_send(a->engine, now_ns, a->qp, &wr));
    run(2, 1);
    require("the write with immediate succeeds", a->done[1].wr_id == 2 && a->done[1].status == MRC_CORE_WC_SUCCESS &&
                                                     a->done[1].operation == MRC_CORE_OP_WRITE_IMM);
    require("the receive request completes", b->done[0].wr_id == 77 && b->done[0].status == MRC_CORE_WC_SUCCESS &&
                                                 b->done[0].operation == MRC_CORE_OP_RECEIVE);
    require("with the immediate", b->done[0].has_imm && b->done[0].imm == IMMEDIATE && b->done[0].byte_len == NOTE);
    for (unsigned i = 0; i < NOTE; i++)
        require("after its bytes", b->data[MESSAGE + i] == a->data[i]);
    report("immediate", b->done[0].imm);

    control();
    unsigned answered = probe();
    require("most paths answer", answered > PLANES * EVS / 2);
    report("paths that answer", answered);
    must(a->engine, "set_port_admin", mrc_core_set_port_admin(a->engine, now_ns, 2, 0));
    until_heard(1u << 1);
    require("half of the paths are left", probe() <= EVS);
    must(a->engine, "set_port_admin", mrc_core_set_port_admin(a->engine, now_ns, 2, 1));
    until_heard(3u << 1);

    require("frames were lost", frames_lost > 0);
    require("and sent again", counter(a, "retransmitted") > 0);
    report("frames", frames_sent);
    report("lost", frames_lost);
    report("retransmitted", counter(a, "retransmitted"));
    report("bytes of one endpoint", sizeof a->memory);
    say("ok\n");
    return 0;
}
