/* A client of lib_mrc.so that uses nothing but its headers and libibverbs: profiles, hints, write with immediate, EV probes
 * and EV events. Two queue pairs of one device, connected to each other through the host's first switch. One line per check.
 *
 *   libmrc            all but the events
 *   libmrc events     writes until an EV event comes, for at most 20 s: somebody has to break a path meanwhile */
#include <mrc.h>
#include <mrc_ctl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define SIZE (1 << 16)
#define FORMAT 7
#define PROFILE 0x1234567890ull
#define CONTROL 3

static struct ibv_context *ctx;
static struct mrc_context *mrc;
static struct ibv_pd *pd;
static union ibv_gid gid;
static char *memory;
static struct ibv_mr *mr;

static int one(struct mrc_cq *cq, struct ibv_wc *wc, double seconds) {
    double end = now() + seconds;
    while (now() < end) {
        int n = mrc_poll_cq(cq, 1, wc);
        if (n) return n;
    }
    return 0;
}

static struct mrc_qp *make_qp(struct mrc_cq *cq) {
    struct mrc_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
        .pd = pd,
        .protocol_version = MRC_PROTOCOL_VERSION_1,
    };
    return mrc_create_qp(mrc, &init);
}

/* To RTS with what the masks name; no port, since MRC has none. */
static int connect_qp(struct mrc_qp *qp, uint32_t to, struct mrc_qp_attr *attr, int at_init, int at_rtr, int at_rts) {
    struct ibv_qp_attr verbs = {.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int code = mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, attr, at_init);
    if (code) return code;
    verbs.qp_state = IBV_QPS_RTR;
    verbs.path_mtu = IBV_MTU_4096;
    verbs.dest_qp_num = to;
    verbs.rq_psn = 0x100;
    verbs.ah_attr.is_global = 1;
    verbs.ah_attr.grh.dgid = gid;
    verbs.ah_attr.grh.sgid_index = 3;
    code = mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, attr, at_rtr);
    if (code) return code;
    verbs.qp_state = IBV_QPS_RTS;
    verbs.sq_psn = 0x100;
    return mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_SQ_PSN, attr, at_rts);
}

static int post(struct mrc_qp *qp, enum ibv_wr_opcode opcode, uint32_t imm) {
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .imm_data = imm};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + SIZE;
    wr.wr.rdma.rkey = mr->rkey;
    return mrc_post_send(qp, &wr, &bad);
}

static void device(void) {
    struct mrc_device_attr attr;
    struct mrc_ctl_device_attr ctl;
    int supported = -1;
    uint32_t current, last, vendor, vendor_last;
    mrc_query_version(&current, &last, &vendor, &vendor_last);
    CHECK("version", current == MRC_API_CURRENT_VERSION && last == 0 && vendor_last == 0);
    CHECK("device", !mrc_query_device(ctx, &attr, &supported) && supported == 1 && attr.mpr_attr.max_mpr > 0);
    CHECK("device, for the controller", !mrc_ctl_query_device(ctx, &ctl) && ctl.phy_port_mask == 6 &&
                                            !strcmp(ctl.cc.algorithms[0], "uet-1.0-nscc") && !ctl.cc.algorithms[1]);
    struct mrc_ctl_port_attr port;
    CHECK("port 1 is enabled", !mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) && port.port_admin_state == MRC_CTL_PORT_ADMIN_ENABLED);
    CHECK("there is no port 9", mrc_ctl_query_port(mrc, 9, &port, MRC_CTL_PORT_ADMIN_STATE) == -1 && errno == EINVAL);
}

static void formats(void) {
    struct mrc_ctl_ev_fmt_field fields[] = {{24}, {8}}, back[2];
    struct mrc_ctl_ev_fmt_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV,
        .ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields, 2},
    };
    CHECK("a format goes OFFLINE",
          !mrc_ctl_modify_ev_fmt_profile(mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP));
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    CHECK("and ONLINE", !mrc_ctl_modify_ev_fmt_profile(mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE));
    memset(&attr, 0, sizeof(attr));
    attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_QUERY_FIELDS;
    attr.ev_fmt_op.fmt_fields = back;
    attr.ev_fmt_op.fmt_field_count = 1;
    CHECK("its fields need room for two",
          mrc_ctl_query_ev_fmt_profile(mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_OP) == -1 && errno == E2BIG && attr.ev_fmt_op.fmt_field_count == 2);
    CHECK("and are what was given", !mrc_ctl_query_ev_fmt_profile(mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_OP) && back[0].width == 24 && back[1].width == 8);
}

/* The paths of a host to itself: one per plane, as an explicit profile with the same meaning. */
static void profile(void) {
    struct mrc_ctl_ev_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_mode = MRC_CTL_EV_MODE_EXP,
        .ev_fmt_profile_id = FORMAT,
        .ev_count = 2,
    };
    int all = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT;
    CHECK("an EV profile goes OFFLINE", !mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, all));
    struct mrc_ctl_ev_op_entry entries[2] = {0}, back[2];
    for (int plane = 0; plane < 2; plane++) {
        entries[plane].ev_new.val[2] = plane;
        entries[plane].ev_new.port = plane + 1;
        entries[plane].state = MRC_CTL_EV_GOOD;
    }
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    attr.ev_min_active = 1;
    attr.ev_event_mask = MRC_CTL_EV_ASSUMED_BAD;
    all = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK;
    CHECK("but not ONLINE with empty entries", mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, all) == -1 && errno == EINVAL);
    attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
    attr.ev_op.entries = entries;
    attr.ev_op.entry_count = 2;
    CHECK("filled it does", !mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, all | MRC_CTL_EV_PROFILE_EV_OP));
    attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY;
    attr.ev_op.entries = back;
    CHECK("its array is what was given", !mrc_ctl_query_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP) && attr.ev_op.entry_count == 2 &&
                                             !memcmp(&back[1].ev, &entries[1].ev_new, sizeof(back[1].ev)) && back[1].state == MRC_CTL_EV_GOOD);
    back[0].ev.port = 5;
    attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
    CHECK("an EV that it has not", mrc_ctl_query_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP) == -1 && errno == ENOENT);

    struct mrc_ctl_cc_nscc_cfg nscc = {.base_rtt = 200000};
    struct mrc_ctl_cc_profile_attr cc = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .algorithm = "cubic", .cc_config = &nscc};
    int cc_mask = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM;
    CHECK("an algorithm that there is not", mrc_ctl_modify_cc_profile(mrc, CONTROL, &cc, cc_mask) == -1 && errno == EINVAL);
    cc.algorithm = "uet-1.0-nscc";
    CHECK("NSCC goes OFFLINE", !mrc_ctl_modify_cc_profile(mrc, CONTROL, &cc, cc_mask));
    cc.profile_state = MRC_CTL_PROFILE_ONLINE;
    CHECK("and ONLINE", !mrc_ctl_modify_cc_profile(mrc, CONTROL, &cc, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CONFIG));
}

/* A query writes what its mask names: programs go on with the structure, and its state is their next wish. */
static void queries(void) {
    struct mrc_ctl_ev_profile_attr ev = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_GEN, .ev_min_active = 77};
    struct mrc_ctl_ev_fmt_profile_attr format = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    struct mrc_ctl_cc_profile_attr cc = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    CHECK("a query of one attribute", !mrc_ctl_query_ev_profile(mrc, PROFILE, &ev, MRC_CTL_EV_PROFILE_COUNT) && ev.ev_count == 2 &&
                                          !mrc_ctl_query_ev_fmt_profile(mrc, FORMAT, &format, MRC_CTL_EV_FMT_PROFILE_MODE) &&
                                          format.ev_fmt_mode == MRC_CTL_EV_FMT_MODE_STEV &&
                                          !mrc_ctl_query_cc_profile(mrc, CONTROL, &cc, MRC_CTL_CC_PROFILE_CUR_STATE) &&
                                          cc.cur_profile_state == MRC_CTL_PROFILE_ONLINE);
    CHECK("  leaves the others", ev.profile_state == MRC_CTL_PROFILE_OFFLINE && ev.ev_mode == MRC_CTL_EV_MODE_GEN && ev.ev_min_active == 77 &&
                                     format.profile_state == MRC_CTL_PROFILE_OFFLINE && cc.profile_state == MRC_CTL_PROFILE_OFFLINE);
}

/* What a controller can get wrong, and the number of each. */
static void refusals(void) {
    struct mrc_ctl_ev_op_entry one = {.state = MRC_CTL_EV_GOOD};
    struct mrc_ctl_ev_field any = {.width = 24};
    struct mrc_ctl_ev_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_mode = MRC_CTL_EV_MODE_GEN,
        .ev_fmt_profile_id = FORMAT,
        .ev_count = 2,
        .ev_op = {MRC_CTL_EV_OP_REPLACE_EV, &one, 1},
        .ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, &any, 1},
    };
    int all = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT;
    CHECK("GEN without fields", mrc_ctl_modify_ev_profile(mrc, 1, &attr, all) == -1 && errno == EINVAL);
    CHECK("fewer values than entries", mrc_ctl_modify_ev_profile(mrc, 1, &attr, all | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == -1 && errno == E2BIG);
    CHECK("both operations at once",
          mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == -1 && errno == EINVAL);
    CHECK("an ONLINE profile has its values", mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP) == -1 && errno == EINVAL);
    attr.cur_profile_state = MRC_CTL_PROFILE_OFFLINE;
    CHECK("a state that it is not in",
          mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE) == -1 && errno == EINVAL);
    struct mrc_ctl_ev_fmt_profile_attr format = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    CHECK("a format in use stays", mrc_ctl_modify_ev_fmt_profile(mrc, FORMAT, &format, MRC_CTL_EV_FMT_PROFILE_STATE) == -1 && errno == EBUSY);
    struct mrc_ctl_port_attr port = {.port_admin_state = 2};
    CHECK("a port is enabled or disabled", mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == -1 && errno == EINVAL);
}

static void write_with_immediate(const char *what, struct mrc_qp *a, struct mrc_qp *b, struct mrc_cq *cq) {
    struct ibv_recv_wr receive = {.wr_id = 5}, *bad;
    memset(memory, 'x', SIZE);
    memset(memory + SIZE, 0, SIZE);
    NEED("post_recv", !mrc_post_recv(b, &receive, &bad));
    NEED("post_send", !post(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0x01020304));
    struct ibv_wc wc;
    int sent = 0, received = 0;
    while (one(cq, &wc, 5)) {
        if (wc.status) break;
        if (wc.wr_id == 9) sent = 1;
        if (wc.wr_id == 5) received = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 0x01020304;
        if (sent && received) break;
    }
    CHECK(what, sent && received && !memcmp(memory, memory + SIZE, SIZE));
}

/* To ourselves, by destinations of the lab: up to our first switch and back. No queue pair leads here yet, whose paths the
 * answers could take. */
static void probes_by_destination(void) {
    struct mrc_ctl_ep_req req[2] = {0};
    struct mrc_ctl_ep_rsp rsp[2];
    int got = -1;
    for (int plane = 0; plane < 2; plane++) {
        const uint8_t destination[] = {0xfc, 0xbb, 0xbb, 0x00, 0x10 + plane, 0, 0x30 + plane, 0};
        req[plane].sgid = req[plane].dgid = gid;
        req[plane].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6;
        memcpy(req[plane].req_ev.val, destination, sizeof(destination));
        req[plane].req_ev.port = plane + 1;
    }
    CHECK("EV probes by destination, before there are queue pairs",
          !mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 2, 1000000000, rsp, &got) && got == 2);
}

/* A batch whose only probe leads nowhere. */
static void *lost(void *answer) {
    struct mrc_ctl_ep_req req = {.sgid = gid, .dgid = gid, .ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV, .req_ev.port = 2};
    struct mrc_ctl_ep_rsp rsp;
    int got;
    mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &req, 1, 200000000, &rsp, &got);
    return answer;
}

static int cancelled(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *result = NULL;
    NEED("thread", !pthread_create(&thread, NULL, function, argument));
    usleep(50000);
    return !pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED;
}

static void probes(void) {
    /* Its thread ends in the call or behind it; the next batch hangs if it kept anything. */
    cancelled(lost, NULL);

    static struct mrc_ctl_ep_req req[256];
    static struct mrc_ctl_ep_rsp rsp[256];
    int got = -1;
    for (int i = 0; i < 256; i++) {
        req[i].req_id = 100 + i;
        req[i].sgid = req[i].dgid = gid;
        req[i].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_STEV;
        req[i].req_ev.val[2] = i % 2;
        req[i].req_ev.port = i % 2 + 1;
    }
    CHECK("EV probes over both planes", !mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 4, 1000000000, rsp, &got) && got == 4);
    int plausible = got == 4;
    for (int i = 0; i < got; i++) plausible &= rsp[i].req_id >= 100 && rsp[i].req_id < 104 && rsp[i].port >= 1 && rsp[i].port <= 2 && rsp[i].rtt > 0;
    CHECK("with their numbers, ports and round trips", plausible);
    /* A node answers a limited number at once. */
    CHECK("as many as a profile has EVs", !mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 256, 1000000000, rsp, &got) && got == 256);
    /* Plane 1's EV through plane 0's port leads nowhere. */
    req[1].req_ev.port = 1;
    got = -1;
    CHECK("an EV that leads nowhere", mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, req, 2, 200000000, rsp, &got) == -1 && errno == ETIMEDOUT && got == 1);
    struct mrc_ctl_ep_req nobody = req[0];
    nobody.dgid.raw[15] ^= 0x77;
    CHECK("a node that nobody knows", mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &nobody, 1, 1000000, rsp, &got) == -1 && errno == EINVAL);
    CHECK("a traffic class that is no DSCP", mrc_ctl_ep_batch_send_wait(mrc, 64, MRC_CTL_EP_OP_EV_PROBE, req, 1, 1000000, rsp, &got) == -1 && errno == EINVAL);
}

static void events(struct mrc_qp *qp, struct mrc_cq *cq, struct mrc_cq *ev_cq, struct mrc_comp_channel *channel) {
    struct mrc_ctl_ev_event event;
    struct ibv_wc wc;
    int fd, n = 0;
    NEED("channel", !mrc_get_comp_channel_fd(channel, &fd) && !mrc_req_notify_cq(ev_cq, 0));
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double end = now() + 20;
    /* What came before the request makes no event. */
    n = mrc_ctl_poll_ev_event(ev_cq, 1, &event);
    while (now() < end && !n) {
        NEED("post", !post(qp, IBV_WR_RDMA_WRITE, 0));
        NEED("completion", one(cq, &wc, 10) == 1);
        if (wc.status) {
            printf("write: %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
        if (poll(&wait, 1, 0) != 1) continue;
        struct mrc_cq *which;
        void *context;
        NEED("event", !mrc_get_cq_event(channel, &which, &context) && which == ev_cq && context == &failures);
        mrc_ack_cq_events(which, 1);
        n = mrc_ctl_poll_ev_event(which, 1, &event);
    }
    CHECK("an EV event came", n == 1);
    CHECK("of the profile, an EV and its new state", n == 1 && event.profile_id == PROFILE && event.state == MRC_CTL_EV_ASSUMED_BAD && event.ev.port == event.ev.val[2] + 1);
}

static void *completions(void *channel) {
    struct mrc_cq *cq;
    void *context;
    return mrc_get_cq_event(channel, &cq, &context) ? channel : NULL;
}

static void *asynchronous(void *context) {
    struct mrc_async_event event;
    return mrc_get_async_event(context, &event) ? context : NULL;
}

int main(int argc, char **argv) {
    int want_events = argc > 1 && !strcmp(argv[1], "events");
    setvbuf(stdout, NULL, _IOLBF, 0);
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    NEED("device", list && count == 1);
    ctx = ibv_open_device(list[0]);
    struct mrc_context_attr version = {MRC_API_VER_USED, MRC_VENDOR_API_VER_USED};
    NEED("context", ctx && (mrc = mrc_create_context(ctx, &version)));
    NEED("GID", !ibv_query_gid(ctx, 1, 3, &gid));
    pd = ibv_alloc_pd(ctx);
    memory = malloc(2 * SIZE);
    NEED("memory", pd && (mr = ibv_reg_mr(pd, memory, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct mrc_cq *cq = mrc_create_cq(mrc, 64, NULL, NULL, 0);
    struct mrc_comp_channel *channel;
    NEED("queues", cq && !mrc_create_comp_channel(mrc, &channel));
    struct mrc_cq *ev_cq = mrc_ctl_create_ev_event_cq(mrc, 16, &failures, channel, 0);
    NEED("EV events", ev_cq);

    CHECK("threads that wait for events can be cancelled", cancelled(completions, channel) && cancelled(asynchronous, mrc));
    device();
    probes_by_destination();
    formats();
    profile();
    queries();
    refusals();
    struct mrc_qp_hint_init_attr hint_attr = {.attr = {.num_qps_per_peer = 2, .num_send_peers = 1}};
    struct mrc_qp_hint_attr asked;
    struct mrc_qp_hint *hint = mrc_create_qp_hint(mrc, &hint_attr);
    CHECK("a QP hint", hint && !mrc_query_qp_hint(hint, &asked, MRC_QP_HINT_NUM_QPS_PER_PEER) && asked.num_qps_per_peer == 2);

    struct mrc_qp *plain[2] = {make_qp(cq), make_qp(cq)}, *full[2] = {make_qp(cq), make_qp(cq)};
    uint32_t plain_qpn[2], full_qpn[2];
    for (int i = 0; i < 2; i++) NEED("queue pairs", plain[i] && full[i] && !mrc_get_qpn(plain[i], &plain_qpn[i]) && !mrc_get_qpn(full[i], &full_qpn[i]));
    CHECK("queue pairs with empty masks", !connect_qp(plain[0], plain_qpn[1], NULL, 0, 0, 0) && !connect_qp(plain[1], plain_qpn[0], NULL, 0, 0, 0));
    write_with_immediate("write with immediate over them", plain[0], plain[1], cq);
    struct mrc_qp_attr attr = {
        .mpr = {4, 4},
        .wimm = {16, 16},
        .timeout = 14,
        .profile = {PROFILE, CONTROL},
        .retry = {7, 8},
        .qp_hint = hint,
    };
    int at_init = MRC_QP_HINT | MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID, at_rtr = MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP;
    int at_rts = MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT;
    int connected = 1;
    for (int i = 0; i < 2; i++) connected &= !connect_qp(full[i], full_qpn[!i], &attr, at_init, at_rtr, at_rts);
    CHECK("queue pairs with all attributes", connected);
    write_with_immediate("write with immediate over them", full[0], full[1], cq);
    struct ibv_qp_attr verbs;
    struct mrc_qp_attr told;
    struct mrc_qp_init_attr init;
    CHECK("their attributes", !mrc_query_qp(full[0], &verbs, IBV_QP_STATE, &told, at_init, &init) && verbs.qp_state == IBV_QPS_RTS && told.timeout == 14 &&
                                  told.profile.ev_profile_id == PROFILE && told.qp_hint == hint && told.mpr.mpr == 4 && init.send_cq == cq);
    CHECK("a hint in use stays", mrc_destroy_qp_hint(hint) == -1 && errno == EBUSY);
    CHECK("a send is refused", post(full[0], IBV_WR_SEND, 0) == EINVAL);
    struct mrc_ctl_ev_profile_attr offline = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    CHECK("an EV profile in use stays", mrc_ctl_modify_ev_profile(mrc, PROFILE, &offline, MRC_CTL_EV_PROFILE_STATE) == -1 && errno == EBUSY);
    if (want_events) {
        printf("ready\n");
        events(full[0], cq, ev_cq, channel);
    } else {
        probes();
    }
    for (int i = 0; i < 2; i++) CHECK("destroy", !mrc_destroy_qp(plain[i]) && !mrc_destroy_qp(full[i]));
    CHECK("a hint that is free goes", !mrc_destroy_qp_hint(hint));
    struct mrc_qp *early = make_qp(cq);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    attr.qp_hint = NULL;
    NEED("queue pair", early && !mrc_modify_qp(early, &to, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &attr, at_init));
    CHECK("a profile that a queue pair named at INIT stays",
          mrc_ctl_modify_ev_profile(mrc, PROFILE, &offline, MRC_CTL_EV_PROFILE_STATE) == -1 && errno == EBUSY);
    to.qp_state = IBV_QPS_RESET;
    NEED("reset", !mrc_modify_qp(early, &to, IBV_QP_STATE, NULL, 0));
    CHECK("a free profile goes OFFLINE", !mrc_ctl_modify_ev_profile(mrc, PROFILE, &offline, MRC_CTL_EV_PROFILE_STATE));
    /* Timers of verbs mean nothing here: a timeout of 0 is no patience without end. */
    to.qp_state = IBV_QPS_INIT;
    to.timeout = 0;
    int timers = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    CHECK("timers of verbs are ignored", !mrc_modify_qp(early, &to, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | timers, NULL, 0) &&
                                             !mrc_query_qp(early, &verbs, IBV_QP_STATE, &told, MRC_QP_RETRY_CNT, NULL) && told.retry.exp_cnt < 25);
    to.dest_qp_num = 77;
    CHECK("  and attributes of another step EINVAL", mrc_modify_qp(early, &to, IBV_QP_DEST_QPN, NULL, 0) == EINVAL);
    NEED("destroy", !mrc_destroy_qp(early));
    struct ibv_wc wc;
    CHECK("EV events are no completions", mrc_poll_cq(ev_cq, 1, &wc) == -1 && errno == EINVAL);
    CHECK("queues go", !mrc_destroy_cq(ev_cq) && !mrc_destroy_cq(cq) && !mrc_destroy_comp_channel(channel));
    CHECK("the context goes, once", !mrc_destroy_context(mrc) && mrc_destroy_context(mrc) == -1 && errno == EINVAL);
    CHECK("and verbs' objects", !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
    return failures != 0;
}
