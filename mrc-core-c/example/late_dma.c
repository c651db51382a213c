/* A NIC whose DMA engine finishes late and in any order: the driver reports each placement when its bytes are in memory.
 * Then one transfer fails. No wait stands before frames to send or completions. */
#include "small.h"

enum { MESSAGE = 20000, FRAMES = 128, TRANSFERS = 64 };

/* A transfer that the DMA engine has not finished. The token lies in its descriptor. */
struct transfer {
    uint64_t token;
    uint64_t to;
    uint32_t len;
    uint8_t bytes[MTU];
};

struct side {
    _Alignas(MRC_CORE_ALIGN) uint8_t memory[96 * 1024];
    uint8_t data[REGION];
    struct mrc_core_endpoint *engine;
    struct mrc_core_mr mr;
    struct mrc_core_cq cq;
    struct mrc_core_qp qp;
    struct frame in[FRAMES];
    unsigned head, tail;
    struct transfer dma[TRANSFERS];
    unsigned open;
    struct mrc_core_completion done[4];
    unsigned done_count;
    uint32_t key;
};

static struct side sides[2];
static uint64_t now_ns;

static void create(unsigned which)
{
    struct side *side = &sides[which];
    struct mrc_core_config config;
    small_config(&config, which);
    config.placement_reported = 1;
    /* On a device: from its random number generator. */
    const uint8_t seed[MRC_CORE_SEED_LEN] = {1, 2, 3, (uint8_t)which};
    must(NULL, "init", mrc_core_init(side->memory, sizeof side->memory, &config, seed, &side->engine, NULL));
    struct mrc_core_endpoint *e = side->engine;
    must(e, "mr", mrc_core_register_mr(e, 0, VA, REGION, MRC_CORE_ACCESS_REMOTE_WRITE, &side->mr, &side->key));
    must(e, "cq", mrc_core_create_cq(e, &side->cq));
    must(e, "qp", mrc_core_create_qp(e, 0, side->cq, side->cq, &side->qp));
}

/* Takes a frame. A payload goes to the DMA engine; nothing waits for it here. */
static void receive(struct side *side)
{
    struct frame *frame = &side->in[side->head++ % FRAMES];
    struct mrc_core_rx rx = {.wire_len = frame->len, .port = frame->port, .icrc = MRC_CORE_ICRC_VERIFY};
    struct mrc_core_placement place;
    if (mrc_core_handle_packet(side->engine, now_ns, &rx, frame->bytes, frame->len, &place) != MRC_CORE_SOME)
        return;
    require("a descriptor is free", side->open < TRANSFERS);
    struct transfer *transfer = &side->dma[side->open++];
    transfer->token = place.token;
    transfer->to = place.offset;
    transfer->len = place.payload_len;
    for (uint32_t i = 0; i < place.payload_len; i++)
        transfer->bytes[i] = frame->bytes[place.payload_start + i];
}

/* The DMA engine ends transfer `nth`, well or badly. */
static void dma_ends(struct side *side, unsigned nth, int well)
{
    struct transfer transfer = side->dma[nth];
    side->dma[nth] = side->dma[--side->open];
    if (well) {
        for (uint32_t i = 0; i < transfer.len; i++)
            side->data[transfer.to + i] = transfer.bytes[i];
        must(side->engine, "placed", mrc_core_placed(side->engine, now_ns, transfer.token));
    } else {
        must(side->engine, "place_failed", mrc_core_place_failed(side->engine, now_ns, transfer.token));
    }
    require("a token is taken once", mrc_core_placed(side->engine, now_ns, transfer.token) == MRC_CORE_E_UNKNOWN);
}

/* Frames to send and completions. */
static void drain(unsigned which)
{
    struct side *side = &sides[which], *far = &sides[1 - which];
    struct mrc_core_transmit tx;
    while (far->tail - far->head < FRAMES) {
        struct frame *frame = &far->in[far->tail % FRAMES];
        uint32_t ports = 3u << 1;
        if (mrc_core_poll_transmit(side->engine, now_ns, ports, frame->bytes, MRC_CORE_MAX_HEADER_LEN, &tx) !=
            MRC_CORE_SOME)
            break;
        finish(frame, &tx, side->data);
        far->tail++;
    }
    while (side->done_count < 4 &&
           mrc_core_poll_cq(side->engine, side->cq, &side->done[side->done_count]) == MRC_CORE_SOME)
        side->done_count++;
}

/* Moves frames until none is under way. Transfers do not move meanwhile. */
static void exchange(void)
{
    for (;;) {
        drain(0);
        drain(1);
        unsigned to = sides[0].head != sides[0].tail ? 0 : 1;
        if (sides[to].head == sides[to].tail)
            return;
        now_ns += 1000;
        receive(&sides[to]);
    }
}

static void post(uint64_t wr_id, uint8_t has_imm)
{
    struct mrc_core_send_wr wr = {
        .wr_id = wr_id, .local_va = VA, .remote_va = VA, .lkey = sides[0].key, .rkey = sides[1].key, .len = MESSAGE,
        .has_imm = has_imm, .imm = 0xC0FFEE, .signaled = 1,
    };
    must(sides[0].engine, "post_send", mrc_core_post_send(sides[0].engine, now_ns, sides[0].qp, &wr));
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

    must(b->engine, "post_recv", mrc_core_post_recv(b->engine, b->qp, 77));
    post(1, 1);
    exchange();
    struct mrc_core_qp_info info;
    must(a->engine, "qp_info", mrc_core_query_qp(a->engine, a->qp, &info));
    require("SACKs did not wait", info.outstanding == 0 && b->open == 20);
    must(b->engine, "qp_info", mrc_core_query_qp(b->engine, b->qp, &info));
    require("the engine counts what is open", info.placements == b->open);
    while (b->open > 0) {
        require("completions wait for the last one", a->done_count == 0 && b->done_count == 0);
        dma_ends(b, b->open - 1, 1); /* the newest first */
        exchange();
    }
    require("the write completes", a->done_count == 1 && a->done[0].status == MRC_CORE_WC_SUCCESS);
    require("and the receive", b->done_count == 1 && b->done[0].wr_id == 77 && b->done[0].imm == 0xC0FFEE);
    for (unsigned i = 0; i < MESSAGE; i++)
        require("every byte is there", a->data[i] == b->data[i]);
    say("late: ok\n");

    post(2, 0);
    exchange();
    dma_ends(b, 3, 0);
    exchange();
    require("the write fails", a->done_count == 2 && a->done[1].status == MRC_CORE_WC_REMOTE_OPERATION);
    while (b->open > 0)
        dma_ends(b, 0, 1); /* still reported; changes nothing */
    say("failed: ok\n");
    return 0;
}
