/* Two NICs of four endpoints each, behind one address per NIC. A packet goes to the shard that its destination queue pair
 * names. What is for QP 2 goes to shard 0, and messages tell the others. On a NIC each shard is a core of its own; here they
 * take turns. */
#include "small.h"

enum { BITS = 2, SHARDS = 1 << BITS, MESSAGE = 20000, FRAMES = 512 };

struct shard {
    _Alignas(MRC_CORE_ALIGN) uint8_t memory[96 * 1024];
    uint8_t data[REGION];
    struct mrc_core_endpoint *engine;
    struct mrc_core_mr mr;
    struct mrc_core_cq cq;
    struct mrc_core_qp qp;
    struct mrc_core_peer peer;
    struct mrc_core_ev_profile profile;
    uint32_t key;
    unsigned done;
};

static struct shard nics[2][SHARDS];
static struct frame wire[FRAMES];
static uint8_t wire_to[FRAMES];
static unsigned wire_head, wire_tail, messages;
static uint64_t now_ns;

static void create(unsigned host, unsigned index)
{
    struct shard *shard = &nics[host][index];
    struct mrc_core_config config;
    small_config(&config, host);
    config.shard_bits = BITS;
    config.shard = (uint8_t)index;
    config.share_bad_evs = 1;
    const uint8_t seed[MRC_CORE_SEED_LEN] = {1, 2, 3, (uint8_t)host, (uint8_t)index};
    must(NULL, "init", mrc_core_init(shard->memory, sizeof shard->memory, &config, seed, &shard->engine, NULL));
    struct mrc_core_endpoint *e = shard->engine;
    must(e, "mr", mrc_core_register_mr(e, 0, VA, REGION, MRC_CORE_ACCESS_REMOTE_WRITE, &shard->mr, &shard->key));
    must(e, "cq", mrc_core_create_cq(e, &shard->cq));
    must(e, "qp", mrc_core_create_qp(e, 0, shard->cq, shard->cq, &shard->qp));
    shard->profile = add_host(e, host, 1 - host, &shard->peer);
    require("a queue pair names its shard", mrc_core_shard_of(shard->qp.qpn, BITS) == index);
}

/* The three bytes of BTH that a NIC steers by, behind Ethernet, IPv6 and UDP. */
static unsigned steer(const uint8_t *frame)
{
    const uint8_t *dest_qp = frame + 14 + 40 + 8 + 5;
    return mrc_core_shard_of((uint32_t)dest_qp[0] << 16 | (uint32_t)dest_qp[1] << 8 | dest_qp[2], BITS);
}

/* Everything one shard wants to do: frames, news for the others, completions. */
static void drain(unsigned host, unsigned index)
{
    struct shard *shard = &nics[host][index];
    struct mrc_core_transmit tx;
    struct mrc_core_shard_message news;
    struct mrc_core_completion done;
    while (wire_tail - wire_head < FRAMES) {
        struct frame *frame = &wire[wire_tail % FRAMES];
        uint32_t ports = 3u << 1;
        if (mrc_core_poll_transmit(shard->engine, now_ns, ports, frame->bytes, MRC_CORE_MAX_HEADER_LEN, &tx) !=
            MRC_CORE_SOME)
            break;
        finish(frame, &tx, shard->data);
        wire_to[wire_tail++ % FRAMES] = (uint8_t)(1 - host);
    }
    while (mrc_core_poll_shard_message(shard->engine, &news) == MRC_CORE_SOME) {
        messages++;
        for (unsigned to = 0; to < SHARDS; to++) {
            if (news.to == MRC_CORE_SHARD_ALL ? to != index : to == news.to)
                mrc_core_handle_shard_message(nics[host][to].engine, now_ns, &news);
        }
    }
    while (mrc_core_poll_cq(shard->engine, shard->cq, &done) == MRC_CORE_SOME) {
        require("writes succeed", done.status == MRC_CORE_WC_SUCCESS);
        shard->done++;
    }
}

static void drain_all(void)
{
    for (unsigned index = 0; index < SHARDS; index++) {
        drain(0, index);
        drain(1, index);
    }
}

/* The next frame goes to its shard; without one, time passes until a timer is due. */
static void turn(void)
{
    if (wire_head == wire_tail) {
        uint64_t due = MRC_CORE_NEVER;
        for (unsigned n = 0; n < 2 * SHARDS; n++) {
            uint64_t timer = mrc_core_next_timeout(nics[n / SHARDS][n % SHARDS].engine);
            due = timer < due ? timer : due;
        }
        require("something will happen", due != MRC_CORE_NEVER);
        now_ns = due > now_ns ? due : now_ns;
        for (unsigned n = 0; n < 2 * SHARDS; n++)
            mrc_core_handle_timeout(nics[n / SHARDS][n % SHARDS].engine, now_ns);
        drain_all();
        return;
    }
    struct frame *frame = &wire[wire_head % FRAMES];
    unsigned host = wire_to[wire_head++ % FRAMES], index = steer(frame->bytes);
    struct shard *shard = &nics[host][index];
    struct mrc_core_rx rx = {.wire_len = frame->len, .port = frame->port, .icrc = MRC_CORE_ICRC_VERIFY};
    struct mrc_core_placement place;
    now_ns += 1000;
    if (mrc_core_handle_packet(shard->engine, now_ns, &rx, frame->bytes, frame->len, &place) == MRC_CORE_SOME)
        for (uint32_t i = 0; i < place.payload_len; i++)
            shard->data[place.offset + i] = frame->bytes[place.payload_start + i];
    drain_all();
}

/* How many shards of NIC 1 know these ports of NIC 0. */
static unsigned aware(uint32_t ports)
{
    unsigned count = 0;
    for (unsigned index = 0; index < SHARDS; index++) {
        struct shard *shard = &nics[1][index];
        uint32_t heard = 0;
        must(shard->engine, "peer_ports", mrc_core_peer_ports(shard->engine, shard->peer, &heard));
        count += (heard & 6) == ports;
    }
    return count;
}

int program(void)
{
    for (unsigned n = 0; n < 2 * SHARDS; n++)
        create(n / SHARDS, n % SHARDS);
    /* Shard n of NIC 0 and shard n + 1 of NIC 1. */
    for (unsigned index = 0; index < SHARDS; index++) {
        struct shard *a = &nics[0][index], *b = &nics[1][(index + 1) % SHARDS];
        connect_qp(a->engine, a->qp, a->peer, a->profile, b->qp.qpn);
        connect_qp(b->engine, b->qp, b->peer, b->profile, a->qp.qpn);
        for (unsigned i = 0; i < MESSAGE; i++)
            a->data[i] = (uint8_t)(i * 7 + index);
        struct mrc_core_send_wr wr = {
            .wr_id = index, .local_va = VA, .remote_va = VA, .lkey = a->key, .rkey = b->key, .len = MESSAGE, .signaled = 1,
        };
        must(a->engine, "post_send", mrc_core_post_send(a->engine, now_ns, a->qp, &wr));
    }
    drain_all();
    for (unsigned index = 0; index < SHARDS; index++) {
        while (nics[0][index].done == 0)
            turn();
        for (unsigned i = 0; i < MESSAGE; i++)
            require("every byte is there", nics[1][(index + 1) % SHARDS].data[i] == nics[0][index].data[i]);
    }
    say("writes: ok\n");

    /* A port of NIC 0 goes down: its driver tells every shard, one of them tells the peer, whose shards tell each other. */
    for (unsigned index = 0; index < SHARDS; index++)
        must(nics[0][index].engine, "set_port", mrc_core_set_port(nics[0][index].engine, now_ns, 2, 0));
    drain_all();
    while (aware(1u << 1) < SHARDS)
        turn();
    say("ports: ok\n");

    /* The last shard probes a path: the answer comes to shard 0, which passes it on. */
    struct shard *last = &nics[0][SHARDS - 1];
    struct mrc_core_op_request request = {.cookie = 7, .timeout_ns = 1000000, .op = MRC_CORE_ENDPOINT_EV_PROBE};
    struct mrc_core_op_outcome outcome;
    request.path.port = 1;
    must(last->engine, "post_endpoint_op", mrc_core_post_endpoint_op(last->engine, last->peer, &request));
    drain_all();
    while (mrc_core_poll_endpoint_op(last->engine, &outcome) != MRC_CORE_SOME)
        turn();
    require("the path answers", outcome.cookie == 7 && outcome.answered);
    require("by messages", messages > 0);
    say("probe: ok\n");
    return 0;
}
