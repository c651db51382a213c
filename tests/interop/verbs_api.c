/* What perftest does not use of verbs: write with immediate, completion channels, extended queues, inline data, errors.
 * Two queue pairs of one device, connected to each other through the host's first switch. One line per check. */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "pair.h"

static void writes(struct ibv_cq *cq, struct ibv_qp *a, struct ibv_qp *b, struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_wc wc;
    unsigned char *source = from->addr, *target = to->addr;
    for (int i = 0; i < SIZE; i++) source[i] = i * 31 >> 3;
    NEED("post", !post(a, from, 0, SIZE, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
    CHECK("write of 1 MiB completes", one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 0x1234);
    CHECK("  opcode and queue pair of the completion", wc.opcode == IBV_WC_RDMA_WRITE && wc.qp_num == a->qp_num);
    CHECK("  its bytes arrived", !memcmp(source, target, SIZE));

    NEED("post", !post(a, from, 64, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, 0));
    CHECK("write with immediate waits for a receive request", one(cq, &wc, 0.3) == 0);
    NEED("receive", !receive(b, 77));
    CHECK("  and completes it when there is one", one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 77);
    CHECK("  with immediate, length and opcode",
          wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0xfeed &&
              wc.byte_len == 8 && wc.qp_num == b->qp_num);
    CHECK("  unsignalled: nothing on the sender's side", one(cq, &wc, 0.1) == 0);

    memset(target, 0, 64);
    memcpy(source, "inline data", 12);
    NEED("post inline", !post(a, from, 0, 12, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE));
    memset(source, 0x55, 64);
    CHECK("inline data is taken at the call", one(cq, &wc, 5) == 1 && !strcmp((char *)target, "inline data"));
    CHECK("  more than max_inline_data is refused",
          post(a, from, 0, 4096, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE) == EINVAL);
    NEED("post", !post(a, from, 0, 0, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
    CHECK("a zero-length write completes", one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS);
    CHECK("SEND is EOPNOTSUPP", post(a, from, 0, 8, to, IBV_WR_SEND, 0) == EOPNOTSUPP);
    CHECK("READ is EOPNOTSUPP", post(a, from, 0, 8, to, IBV_WR_RDMA_READ, 0) == EOPNOTSUPP);
}

/* The receiver's first buffer of a packet is full somewhere in it, for some lengths inside of its checksum. */
static void lengths(struct ibv_cq *cq, struct ibv_qp *a, struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_wc wc;
    int arrived = 1;
    for (uint32_t len = 3600; arrived && len <= 4200; len++) {
        memset(to->addr, 0, len);
        NEED("post", !post(a, from, 0, len, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
        arrived = one(cq, &wc, 5) == 1 && wc.status == IBV_WC_SUCCESS && !memcmp(from->addr, to->addr, len);
    }
    CHECK("writes of 3600 to 4200 bytes arrive", arrived);
}

static void channels(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 16, (void *)0x42, channel, 0), *got;
    NEED("channel", channel && cq);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 16, 0);
    NEED("queue pairs", a && b && !join(a, b));
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    struct ibv_wc wc;
    void *cookie;
    NEED("notify", !ibv_req_notify_cq(cq, 0));
    CHECK("no event before a completion", poll(&fd, 1, 100) == 0);
    NEED("post", !post(a, from, 0, 4096, to, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED));
    CHECK("a completion makes an event", poll(&fd, 1, 5000) == 1 && !ibv_get_cq_event(channel, &got, &cookie));
    CHECK("  of this queue", got == cq && cookie == (void *)0x42 && one(cq, &wc, 1) == 1);
    ibv_ack_cq_events(cq, 1);

    NEED("notify", !ibv_req_notify_cq(cq, 1) && !receive(b, 1) && !receive(b, 2));
    NEED("post", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, 0));
    CHECK("solicited only: another completion makes none", poll(&fd, 1, 300) == 0 && one(cq, &wc, 5) == 1);
    NEED("post", !post(a, from, 0, 8, to, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED));
    CHECK("  a solicited one does", poll(&fd, 1, 5000) == 1 && !ibv_get_cq_event(channel, &got, &cookie));
    ibv_ack_cq_events(cq, 1);
    CHECK("objects in use are EBUSY",
          ibv_destroy_cq(cq) == EBUSY && ibv_destroy_comp_channel(channel) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
    CHECK("  and go afterwards",
          !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
}

static void extended(struct ibv_mr *from, struct ibv_mr *to) {
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &cq_attr);
    CHECK("create_cq_ex", cq != NULL);
    if (!cq) return;
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ibv_cq_ex_to_cq(cq),
        .recv_cq = ibv_cq_ex_to_cq(cq),
        .cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    };
    struct ibv_qp *a = ibv_create_qp_ex(ctx, &init), *b = ibv_create_qp_ex(ctx, &init);
    CHECK("create_qp_ex", a && b && !join(a, b));
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
    CHECK("qp_to_qp_ex", ex != NULL);
    if (!ex) return;
    memcpy(from->addr, "extended", 9);
    NEED("receive", !receive(b, 5));
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, to->rkey, (uintptr_t)to->addr + 128);
    ibv_wr_set_sge(ex, from->lkey, (uintptr_t)from->addr, 9);
    ex->wr_id = 2;
    ibv_wr_rdma_write_imm(ex, to->rkey, (uintptr_t)to->addr + 256, htonl(7));
    ibv_wr_set_inline_data(ex, "in line", 8);
    CHECK("two writes by ibv_wr_*", ibv_wr_complete(ex) == 0);
    int seen = 0, immediate = 0;
    struct ibv_poll_cq_attr none = {};
    for (double end = now() + 5; seen < 3 && now() < end;) {
        if (ibv_start_poll(cq, &none)) continue;
        do {
            seen += cq->status == IBV_WC_SUCCESS;
            if (ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM)
                immediate = cq->wr_id == 5 && ntohl(ibv_wc_read_imm_data(cq)) == 7 && ibv_wc_read_byte_len(cq) == 8;
        } while (!ibv_next_poll(cq));
        ibv_end_poll(cq);
    }
    CHECK("  and their three completions by the extended way", seen == 3 && immediate);
    CHECK("  and their bytes", !strcmp((char *)to->addr + 128, "extended") && !strcmp((char *)to->addr + 256, "in line"));
    ibv_wr_start(ex);
    ex->wr_id = 3;
    ibv_wr_rdma_write(ex, to->rkey, (uintptr_t)to->addr);
    ibv_wr_set_sge(ex, from->lkey, (uintptr_t)from->addr, 9);
    ibv_wr_abort(ex);
    CHECK("an aborted one leaves nothing", ibv_start_poll(cq, &none) == ENOENT);
    ibv_wr_start(ex);
    ex->wr_id = 4;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, to->rkey, (uintptr_t)to->addr);
    ibv_wr_set_sge(ex, from->lkey, (uintptr_t)from->addr, 9);
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, from->lkey, (uintptr_t)from->addr, 9);
    CHECK("one with SEND in it is EOPNOTSUPP", ibv_wr_complete(ex) == EOPNOTSUPP);
    usleep(100000);
    CHECK("  and leaves nothing", ibv_start_poll(cq, &none) == ENOENT);
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    CHECK("create_qp_ex with SEND is EOPNOTSUPP", !ibv_create_qp_ex(ctx, &init) && errno == EOPNOTSUPP);
    cq_attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    CHECK("create_cq_ex with timestamps is EOPNOTSUPP", !ibv_create_cq_ex(ctx, &cq_attr) && errno == EOPNOTSUPP);
    cq_attr = (struct ibv_cq_init_attr_ex){.cqe = 64, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN << 1};
    CHECK("  so is it with flags that verbs do not have", !ibv_create_cq_ex(ctx, &cq_attr) && errno == EOPNOTSUPP);
    CHECK("destroyed", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

/* A pair whose first write goes wrong as `how` says. */
static void refused(const char *what, struct ibv_mr *from, struct ibv_mr *to, uint32_t rkey, uint64_t at, uint32_t len,
                    enum ibv_wc_status want, enum ibv_event_type event) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 4, 0);
    NEED("queue pairs", cq && a && b && !join(a, b));
    struct ibv_sge sge = {.addr = (uintptr_t)from->addr, .length = len, .lkey = from->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = at;
    wr.wr.rdma.rkey = rkey;
    memset(to->addr, 0, 4096);
    struct ibv_wc wc = {};
    int answer = ibv_post_send(a, &wr, &bad);
    CHECK(what, !answer && one(cq, &wc, 5) == 1 && wc.status == want);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK("  the queue pair is in ERROR", !ibv_query_qp(a, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
    NEED("receive", !receive(a == b ? a : b, 9) || 1);
    if (event != IBV_EVENT_CQ_ERR) {
        struct pollfd fd = {.fd = ctx->async_fd, .events = POLLIN};
        struct ibv_async_event got = {};
        CHECK("  the other side hears of it", poll(&fd, 1, 5000) == 1 && !ibv_get_async_event(ctx, &got) &&
                                                  got.event_type == event && got.element.qp == b);
        ibv_ack_async_event(&got);
    }
    int clean = 1;
    for (int i = 0; i < 4096; i++) clean &= ((char *)to->addr)[i] == 0;
    CHECK("  and nothing was written", clean);
    ibv_destroy_qp(a);
    ibv_destroy_qp(b);
    ibv_destroy_cq(cq);
}

/* A region that goes while its peer writes: nothing lands after `ibv_dereg_mr`. */
static void revoked(struct ibv_mr *from) {
    struct ibv_cq *cq = ibv_create_cq(ctx, 128, NULL, NULL, 0);
    struct ibv_qp *a = make_qp(cq, 0, 0), *b = make_qp(cq, 0, 0);
    unsigned char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *to = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    NEED("queue pairs", cq && a && b && to && !join(a, b));
    memset(from->addr, 0xaa, SIZE);
    for (int i = 0; i < 32; i++) NEED("post", !post(a, from, 0, SIZE, to, IBV_WR_RDMA_WRITE, 0));
    while (*(volatile unsigned char *)memory != 0xaa) {
    }
    uint32_t rkey = to->rkey;
    NEED("dereg", !ibv_dereg_mr(to));
    memset(memory, 0x11, SIZE);
    usleep(300000);
    int clean = 1;
    for (int i = 0; i < SIZE; i++) clean &= memory[i] == 0x11;
    CHECK("after ibv_dereg_mr returned nothing is written", clean);
    to = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK("a new registration has a new key", to && to->rkey != rkey);
    ibv_destroy_qp(a);
    ibv_destroy_qp(b);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(to);
    munmap(memory, SIZE);
}

static void bad_input(struct ibv_cq *cq, struct ibv_mr *mr) {
    CHECK("resizing a queue to nothing is EINVAL, and so is more than there may be",
          ibv_resize_cq(cq, 0) == EINVAL && ibv_resize_cq(cq, 1 << 20) == EINVAL && !ibv_resize_cq(cq, 1));
    errno = 0;
    CHECK("reg_mr over unmapped memory is EFAULT", !ibv_reg_mr(pd, (void *)4096, 4096, 0) && errno == EFAULT);
    char *readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK("reg_mr for writing over read-only memory is EFAULT",
          !ibv_reg_mr(pd, readable, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    CHECK("reg_mr of nothing is EINVAL", !ibv_reg_mr(pd, readable, 0, 0) && errno == EINVAL);
    CHECK("remote write without local write is EINVAL",
          !ibv_reg_mr(pd, mr->addr, 4096, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    CHECK("create_cq with no entries is EINVAL", !ibv_create_cq(ctx, 0, NULL, NULL, 0) && errno == EINVAL);
    CHECK("create_cq on vector 9 is EINVAL", !ibv_create_cq(ctx, 1, NULL, NULL, 9) && errno == EINVAL);
    CHECK("null handles are EINVAL", ibv_destroy_cq(NULL) == EINVAL && ibv_dereg_mr(NULL) == EINVAL &&
                                         ibv_destroy_qp(NULL) == EINVAL && ibv_dealloc_pd(NULL) == EINVAL);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    CHECK("a UD queue pair is EOPNOTSUPP", !ibv_create_qp(pd, &init) && errno == EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_sge = 30;
    CHECK("30 scatter entries are EINVAL", !ibv_create_qp(pd, &init) && errno == EINVAL);
    struct ibv_qp *qp = make_qp(cq, 4, 0);
    CHECK("posting in RESET is EINVAL", post(qp, mr, 0, 8, mr, IBV_WR_RDMA_WRITE, 0) == EINVAL && receive(qp, 1) == EINVAL);
    CHECK("RESET to RTS is EINVAL", to_rts(qp) == EINVAL);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 9};
    CHECK("port 9 is EINVAL",
          ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == EINVAL);
    CHECK("a transition without its attributes is EINVAL", ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = 3};
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    CHECK("to INIT", !to_init(qp));
    CHECK("no GID in the address is EINVAL", ibv_modify_qp(qp, &attr, mask) == EINVAL);
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid.raw[0] = 0x20;
    CHECK("a GID that nobody has is EHOSTUNREACH", ibv_modify_qp(qp, &attr, mask) == EHOSTUNREACH);
    CHECK("destroying twice is EINVAL the second time", !ibv_destroy_qp(qp) && ibv_destroy_qp(qp) == EINVAL);
    struct ibv_port_attr port;
    union ibv_gid gid;
    CHECK("port 2 and GID 9 do not exist", ibv_query_port(ctx, 2, &port) == EINVAL && ibv_query_gid(ctx, 1, 9, &gid) == -1);
    struct ibv_gid_entry entries[4];
    CHECK("the GID table has four entries", ibv_query_gid_table(ctx, entries, 4, 0) == 4 && entries[3].gid_type == IBV_GID_TYPE_ROCE_V2);
    CHECK("  and does not fit into one", ibv_query_gid_table(ctx, entries, 1, 0) == -EINVAL);
    static struct ibv_cq *many[1000];
    int count = 0;
    while (count < 1000 && (many[count] = ibv_create_cq(ctx, 1, NULL, NULL, 0))) count++;
    CHECK("too many completion queues are ENOMEM", count > 10 && count < 1000 && errno == ENOMEM);
    while (count) NEED("destroy", !ibv_destroy_cq(many[--count]));
    munmap(readable, 4096);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED("no device", list && list[0]);
    ctx = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    NEED("open", ctx);
    pd = ibv_alloc_pd(ctx);
    NEED("protection domain", pd);
    struct ibv_cq *cq = ibv_create_cq(ctx, 128, NULL, NULL, 0);
    void *memory = aligned_alloc(4096, SIZE), *other = aligned_alloc(4096, SIZE);
    struct ibv_mr *from = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *to = ibv_reg_mr(pd, other, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    NEED("objects", cq && from && to);
    struct ibv_qp *a = make_qp(cq, 0, 64), *b = make_qp(cq, 64, 0);
    NEED("queue pairs", a && b);
    CHECK("RESET to INIT to RTR to RTS", !join(a, b));
    writes(cq, a, b, from, to);
    lengths(cq, a, from, to);
    channels(from, to);
    extended(from, to);
    uint64_t at = (uintptr_t)other;
    refused("a wrong R_Key is a remote access error", from, to, to->rkey ^ 0x80000000, at, 8, IBV_WC_REM_ACCESS_ERR,
            IBV_EVENT_QP_ACCESS_ERR);
    refused("so is a range beyond the region", from, to, to->rkey, at + SIZE - 4, 8, IBV_WC_REM_ACCESS_ERR,
            IBV_EVENT_QP_ACCESS_ERR);
    refused("so is a region without remote write", from, to, from->rkey, (uintptr_t)memory, 8, IBV_WC_REM_ACCESS_ERR,
            IBV_EVENT_QP_ACCESS_ERR);
    refused("a local range beyond the region is a local protection error", from, to, to->rkey, at, SIZE + 1,
            IBV_WC_LOC_PROT_ERR, IBV_EVENT_CQ_ERR);
    revoked(from);
    bad_input(cq, to);
    CHECK("everything goes", !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(from) &&
                                 !ibv_dereg_mr(to) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
    printf("%d failures\n", failures);
    return failures != 0;
}
