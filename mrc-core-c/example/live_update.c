/* Firmware is replaced under a running queue pair: the requester while its packets are in the fabric, then the responder while
 * its DMA engine works. The image goes through a small buffer, as through a mailbox of a NIC. */
#include "small.h"

enum { MESSAGE = 16000, FRAMES = 64, TRANSFERS = 32, MEMORY = 96 * 1024, IMAGE = 64 * 1024 };

/* A transfer that the DMA engine has not finished. */
struct transfer {
    uint64_t token;
    uint64_t to;
    uint32_t len;
    uint8_t bytes[MTU];
};

struct side {
    /* Of the old firmware and of the new one. */
    _Alignas(MRC_CORE_ALIGN) uint8_t memory[2][MEMORY];
    uint8_t data[REGION];
    struct mrc_core_endpoint *engine;
    struct mrc_core_mr mr;
    struct mrc_core_cq cq;
    struct mrc_core_qp qp;
    struct frame in[FRAMES];
    unsigned head, tail;
    struct transfer dma[TRANSFERS];
    unsigned open, done;
    uint32_t key;
};

static struct side sides[2];
static uint8_t image[IMAGE];
static uint64_t now_ns;

/* The same in the old firmware and in the new one. */
static void config_of(unsigned which, struct mrc_core_config *config)
{
    small_config(config, which);
    config->placement_reported = 1;
}

static void create(unsigned which)
{
    struct side *side = &sides[which];
    struct mrc_core_config config;
    config_of(which, &config);
    const uint8_t seed[MRC_CORE_SEED_LEN] = {1, 2, 3, (uint8_t)which};
    must(NULL, "init", mrc_core_init(side->memory[0], MEMORY, &config, seed, &side->engine, NULL));
    struct mrc_core_endpoint *e = side->engine;
    must(e, "mr", mrc_core_register_mr(e, 0, VA, REGION, MRC_CORE_ACCESS_REMOTE_WRITE, &side->mr, &side->key));
    must(e, "cq", mrc_core_create_cq(e, &side->cq));
    must(e, "qp", mrc_core_create_qp(e, 0, side->cq, side->cq, &side->qp));
}

/* Old firmware: no other call on the endpoint from here on. */
static size_t export(struct side *side)
{
    static uint8_t buffer[MRC_CORE_EXPORT_MIN];
    size_t len = 0, piece;
    int32_t more;
    must(side->engine, "export", mrc_core_export_begin(side->engine));
    do {
        more = must(side->engine, "export", mrc_core_export(side->engine, buffer, sizeof buffer, &piece));
        require("the image has room", len + piece <= IMAGE);
        for (size_t i = 0; i < piece; i++)
            image[len++] = buffer[i];
    } while (more == MRC_CORE_SOME);
    return len;
}

/* New firmware: the endpoint goes on in other memory. NULL when the image is refused. */
static struct mrc_core_endpoint *import(unsigned which, size_t len)
{
    struct mrc_core_config config;
    struct mrc_core_import *import;
    struct mrc_core_endpoint *engine = NULL;
    size_t at = 0, taken = 0;
    int32_t more = MRC_CORE_SOME;
    config_of(which, &config);
    must(NULL, "import", mrc_core_import_begin(sides[which].memory[1], MEMORY, &config, &import, NULL));
    while (more == MRC_CORE_SOME && at < len) {
        size_t piece = len - at < MRC_CORE_EXPORT_MIN ? len - at : MRC_CORE_EXPORT_MIN;
        more = mrc_core_import_feed(import, image + at, piece, &taken, NULL);
        at += taken;
    }
    int32_t made = mrc_core_import_end(import, &engine, NULL);
    require("an image is refused or becomes an endpoint", made == (engine ? MRC_CORE_OK : MRC_CORE_E_IMAGE));
    return engine;
}

/* The live update of one side. */
static void update(unsigned which)
{
    size_t len = export(&sides[which]);
    /* A damaged image is refused, and the old firmware could go on. */
    image[len / 2] ^= 4;
    require("a damaged image is refused", import(which, len) == NULL);
    image[len / 2] ^= 4;
    sides[which].engine = import(which, len);
    require("the image is taken", sides[which].engine != NULL);
    /* Handles, keys and tokens stay good, and the clock goes on. The memory of the old firmware is free. */
    for (size_t i = 0; i < MEMORY; i++)
        sides[which].memory[0][i] = 0xEE;
}

/* Takes all frames; payloads go to the DMA engine. */
static void receive(struct side *side)
{
    while (side->head != side->tail) {
        struct frame *frame = &side->in[side->head++ % FRAMES];
        struct mrc_core_rx rx = {.wire_len = frame->len, .port = frame->port, .icrc = MRC_CORE_ICRC_VERIFY};
        struct mrc_core_placement place;
        if (mrc_core_handle_packet(side->engine, now_ns, &rx, frame->bytes, frame->len, &place) != MRC_CORE_SOME)
            continue;
        require("a descriptor is free", side->open < TRANSFERS);
        struct transfer *transfer = &side->dma[side->open++];
        *transfer = (struct transfer){.token = place.token, .to = place.offset, .len = place.payload_len};
        for (uint32_t i = 0; i < place.payload_len; i++)
            transfer->bytes[i] = frame->bytes[place.payload_start + i];
    }
}

/* The DMA engine ends its newest transfers, all but `left`. */
static void dma(struct side *side, unsigned left)
{
    while (side->open > left) {
        struct transfer *transfer = &side->dma[--side->open];
        for (uint32_t i = 0; i < transfer->len; i++)
            side->data[transfer->to + i] = transfer->bytes[i];
        must(side->engine, "placed", mrc_core_placed(side->engine, now_ns, transfer->token));
    }
}

/* Frames to the other side, and completions. */
static void drain(unsigned which)
{
    struct side *side = &sides[which], *far = &sides[1 - which];
    struct mrc_core_transmit tx;
    struct mrc_core_completion done;
    while (far->tail - far->head < FRAMES) {
        struct frame *frame = &far->in[far->tail % FRAMES];
        if (mrc_core_poll_transmit(side->engine, now_ns, 6, frame->bytes, MRC_CORE_MAX_HEADER_LEN, &tx) != MRC_CORE_SOME)
            break;
        finish(frame, &tx, side->data);
        far->tail++;
    }
    while (mrc_core_poll_cq(side->engine, side->cq, &done) == MRC_CORE_SOME) {
        require("the write succeeds", done.status == MRC_CORE_WC_SUCCESS);
        side->done++;
    }
}

int program(void)
{
    struct side *a = &sides[0], *b = &sides[1];
    struct mrc_core_peer peer;
    create(0);
    create(1);
    for (unsigned which = 0; which < 2; which++) {
        struct mrc_core_ev_profile profile = add_host(sides[which].engine, which, 1 - which, &peer);
        connect_qp(sides[which].engine, sides[which].qp, peer, profile, sides[1 - which].qp.qpn);
    }
    for (unsigned i = 0; i < MESSAGE; i++)
        a->data[i] = (uint8_t)(i * 7 + i / 251);
    struct mrc_core_send_wr wr = {
        .wr_id = 1, .local_va = VA, .remote_va = VA, .lkey = a->key, .rkey = b->key, .len = MESSAGE, .signaled = 1,
    };
    must(a->engine, "post_send", mrc_core_post_send(a->engine, now_ns, a->qp, &wr));
    drain(0);
    struct mrc_core_qp_info info;
    must(a->engine, "qp_info", mrc_core_query_qp(a->engine, a->qp, &info));
    require("packets are in the fabric", info.outstanding == 16 && b->tail - b->head >= 16);
    update(0);
    say("requester: ok\n");

    now_ns += 5000;
    receive(b);
    dma(b, 3);
    update(1);
    must(b->engine, "qp_info", mrc_core_query_qp(b->engine, b->qp, &info));
    require("placements are still open", info.placements == 3);
    dma(b, 0);
    say("responder: ok\n");

    drain(1);
    now_ns += 5000;
    receive(a);
    drain(0);
    require("the write completes", a->done == 1);
    for (unsigned i = 0; i < MESSAGE; i++)
        require("every byte is there", a->data[i] == b->data[i]);
    say("write: ok\n");
    return 0;
}
