/* Two processes on two hosts over lib_mrc.so, with nothing but its headers and libibverbs: profiles of every mode and format
 * carry writes between them, EVs are denied and planes disabled under a live queue pair, and each host tells the other about
 * its ports. What the sides must know of each other goes over TCP, as in perftest. One line per check.
 *
 *   libmrc_peer            waits for the other side on TCP port 18517
 *   libmrc_peer ADDRESS    is the other side
 *
 * The outer destinations of the SRv6 profiles come from the first peer of the file that MRC_CONFIG names. */
#include "check.h"

#include <arpa/inet.h>
#include <mrc.h>
#include <mrc_ctl.h>
#include <netdb.h>
#include <unistd.h>

#define PORT 18517
#define SIZE (1 << 16)
#define COUNT 64
#define UPLINKS 4

static struct ibv_context *ctx;
static struct mrc_context *mrc;
static struct ibv_pd *pd;
static struct mrc_cq *cq;
static union ibv_gid gid;
static char *memory;
static struct ibv_mr *mr;
static int tcp, is_client;
static uint16_t template[8];

struct side {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t address;
};
static struct side peer;

static void all(ssize_t (*move)(int, void *, size_t), void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = move(tcp, (char *)data + done, len - done);
        NEED("the other side", n > 0);
        done += n;
    }
}

static ssize_t put(int fd, void *data, size_t len) { return write(fd, data, len); }

/* Both sides get here before either goes on. */
static void meet(void) {
    char byte = 1;
    all(put, &byte, 1);
    all(read, &byte, 1);
}

static void dial(const char *address) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int one = 1;
    if (!address) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        NEED("listen", !bind(listener, (void *)&at, sizeof(at)) && !listen(listener, 1));
        NEED("accept", (tcp = accept(listener, NULL, NULL)) >= 0);
        close(listener);
        return;
    }
    NEED("address", inet_pton(AF_INET, address, &at.sin_addr) == 1);
    for (int tries = 0; tries < 100; tries++, usleep(100000)) {
        tcp = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(tcp, (void *)&at, sizeof(at))) return;
        close(tcp);
    }
    NEED("connect", 0);
}

/* `template = "fcbb:..."` of the first peer. */
static void read_template(void) {
    char line[256], text[64];
    struct in6_addr address;
    FILE *file = fopen(getenv("MRC_CONFIG") ? getenv("MRC_CONFIG") : "/etc/mrc/mrc.toml", "r");
    NEED("configuration", file);
    while (fgets(line, sizeof(line), file) && sscanf(line, " template = \"%63[^\"]\"", text) != 1);
    fclose(file);
    NEED("template", inet_pton(AF_INET6, text, &address) == 1);
    for (int i = 0; i < 8; i++) template[i] = address.s6_addr[2 * i] << 8 | address.s6_addr[2 * i + 1];
}

/* The EV of one path: its outer destination, or the compact form that the host's template expands. */
static struct mrc_ctl_ev path(int srv6, int plane, int uplink) {
    struct mrc_ctl_ev ev = {.port = plane + 1};
    ev.val[2] = plane;
    ev.val[3] = uplink;
    for (int i = 0; srv6 && i < 8; i++) {
        uint16_t usid = template[i] | (i >= 2 && template[i] ? plane << 8 : 0) | (i == 3 ? uplink : 0);
        ev.val[2 * i] = usid >> 8;
        ev.val[2 * i + 1] = usid;
    }
    return ev;
}

static int format(uint64_t id, enum mrc_ctl_ev_fmt_mode mode, const uint8_t *widths, int count) {
    struct mrc_ctl_ev_fmt_field fields[8];
    for (int i = 0; i < count; i++) fields[i].width = widths[i];
    struct mrc_ctl_ev_fmt_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_fmt_mode = mode,
        .ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields, count},
    };
    int mask = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
    if (mrc_ctl_modify_ev_fmt_profile(mrc, id, &attr, mask)) return -1;
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    return mrc_ctl_modify_ev_fmt_profile(mrc, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE);
}

/* From INIT to ONLINE; the number of the format is the profile's. */
static int profile(uint64_t id, enum mrc_ctl_ev_mode mode, int count, struct mrc_ctl_ev_op_entry *entries, struct mrc_ctl_ev_field *fields, int field_count) {
    struct mrc_ctl_ev_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_mode = mode,
        .ev_fmt_profile_id = id,
        .ev_count = count,
        .ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, fields, field_count},
    };
    int mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_COUNT;
    if (mode != MRC_CTL_EV_MODE_AUTO) mask |= MRC_CTL_EV_PROFILE_FMT_ID;
    if (fields) mask |= MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
    if (mrc_ctl_modify_ev_profile(mrc, id, &attr, mask)) return -1;
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    attr.ev_event_mask = MRC_CTL_EV_ASSUMED_BAD;
    attr.ev_min_active = 1;
    attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
    attr.ev_op.entries = entries;
    attr.ev_op.entry_count = count;
    mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK;
    if (entries) mask |= MRC_CTL_EV_PROFILE_EV_OP;
    return mrc_ctl_modify_ev_profile(mrc, id, &attr, mask);
}

static int explicit_profile(uint64_t id, int srv6) {
    struct mrc_ctl_ev_op_entry entries[2 * UPLINKS] = {0};
    for (int i = 0; i < 2 * UPLINKS; i++) {
        entries[i].ev_new = path(srv6, i % 2, i / 2);
        entries[i].state = MRC_CTL_EV_GOOD;
    }
    return profile(id, MRC_CTL_EV_MODE_EXP, 2 * UPLINKS, entries, NULL, 0);
}

/* Values on plane 0, one for each uplink. */
static int generated_profile(uint64_t id, int srv6) {
    struct mrc_ctl_ev_field any = {.width = srv6 ? 16 : 8, .max_val = UPLINKS - 1, .mask = 0xff};
    struct mrc_ctl_ev_field fields[7] = {{.width = 24}, any};
    for (int i = 0; srv6 && i < 7; i++) {
        fields[i] = (struct mrc_ctl_ev_field){.width = i ? 16 : 32, .init_val = i ? template[i + 1] : (uint32_t)template[0] << 16 | template[1]};
        if (i == 2) fields[i].mask = any.mask, fields[i].max_val = any.max_val;
    }
    return profile(id, MRC_CTL_EV_MODE_GEN, UPLINKS, NULL, fields, srv6 ? 7 : 2);
}

static int offline(uint64_t id) {
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    return mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_STATE);
}

/* A queue pair of the profile, connected to the other side's. */
static struct mrc_qp *join(uint64_t ev_profile) {
    struct mrc_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = COUNT, .max_recv_wr = COUNT, .max_send_sge = 1, .max_recv_sge = 1},
        .pd = pd,
    };
    struct mrc_qp *qp = mrc_create_qp(mrc, &init);
    struct side own = {.gid = gid, .rkey = mr->rkey, .address = (uintptr_t)memory + SIZE};
    NEED("queue pair", qp && !mrc_get_qpn(qp, &own.qpn));
    all(put, &own, sizeof(own));
    all(read, &peer, sizeof(peer));
    struct mrc_qp_attr attr = {
        .mpr = {8, 8}, .wimm = {COUNT, COUNT}, .timeout = 14, .profile = {ev_profile, 0}, .retry = {7, 3}, .cap = MRC_QP_CAP_DYNAMIC_MPR};
    struct ibv_qp_attr verbs = {.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int mask = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_HINT;
    NEED("INIT", !(errno = mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &attr, mask)));
    verbs.qp_state = IBV_QPS_RTR;
    verbs.path_mtu = IBV_MTU_4096;
    verbs.dest_qp_num = peer.qpn;
    verbs.rq_psn = 0x100;
    verbs.ah_attr.is_global = 1;
    verbs.ah_attr.grh.dgid = peer.gid;
    verbs.ah_attr.grh.sgid_index = 3;
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    NEED("RTR", !(errno = mrc_modify_qp(qp, &verbs, mask, &attr, MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP)));
    verbs.qp_state = IBV_QPS_RTS;
    verbs.sq_psn = 0x100;
    mask = MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT;
    NEED("RTS", !(errno = mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_SQ_PSN, &attr, mask)));
    return qp;
}

/* Both sides write to each other; whether all of it came and went. */
static int exchange(struct mrc_qp *qp) {
    static char turn;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
    char mine = (is_client ? 64 : 0) + ++turn % 64, theirs = (is_client ? 0 : 64) + turn % 64;
    memset(memory, mine, SIZE);
    memset(memory + SIZE, -1, SIZE);
    for (int i = 0; i < COUNT; i++) NEED("post_recv", !mrc_post_recv(qp, &receive, &bad_receive));
    meet();
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = peer.address;
    wr.wr.rdma.rkey = peer.rkey;
    for (uint32_t i = 0; i < COUNT; i++) {
        wr.imm_data = i;
        NEED("post_send", !(errno = mrc_post_send(qp, &wr, &bad)));
    }
    uint32_t sent = 0, received = 0, in_order = 1;
    double end = now() + 30;
    while (now() < end && (sent < COUNT || received < COUNT)) {
        struct ibv_wc wc;
        if (!mrc_poll_cq(cq, 1, &wc)) continue;
        if (wc.status) {
            printf("    %s\n", ibv_wc_status_str(wc.status));
            break;
        }
        if (wc.wr_id == 2) sent++;
        if (wc.wr_id == 1) in_order &= wc.imm_data == received++;
    }
    int same = 1;
    for (int i = SIZE; i < 2 * SIZE; i++) same &= memory[i] == theirs;
    meet();
    return sent == COUNT && received == COUNT && in_order && same;
}

static void carries(const char *what, uint64_t id) {
    struct mrc_qp *qp = join(id);
    CHECK(what, exchange(qp));
    CHECK("  in use it stays ONLINE", offline(id) == -1 && errno == EBUSY);
    CHECK("  the queue pair goes", !mrc_destroy_qp(qp));
    CHECK("  and the profile OFFLINE", !offline(id));
}

/* Frames of ours on a plane so far. */
static long frames(int plane) {
    char name[80];
    long count = -1;
    snprintf(name, sizeof(name), "/sys/class/net/plane%d/statistics/tx_packets", plane);
    FILE *file = fopen(name, "r");
    NEED(name, file && fscanf(file, "%ld", &count) == 1);
    fclose(file);
    return count;
}

/* Whether a plane carried next to nothing since then: the kernel says a word there now and then. */
static int quiet(int plane, long before) { return frames(plane) - before < 2 * COUNT; }

static void states(uint64_t id) {
    struct mrc_ctl_ev_op_entry entries[UPLINKS] = {0};
    struct mrc_ctl_ev_profile_attr attr = {.ev_op = {MRC_CTL_EV_OP_MODIFY_EV_STATE, entries, UPLINKS}};
    struct mrc_qp *qp = join(id);
    for (int i = 0; i < UPLINKS; i++) {
        entries[i].ev = path(1, 1, i);
        entries[i].state = MRC_CTL_EV_DENIED;
    }
    CHECK("EVs of plane 1 are denied under a queue pair", !mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP));
    meet();
    long before = frames(1);
    CHECK("which then keeps off that plane", exchange(qp) && quiet(1, before));
    for (int i = 0; i < UPLINKS; i++) entries[i].state = 0;
    attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
    CHECK("they say so", !mrc_ctl_query_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP) && entries[0].state == MRC_CTL_EV_DENIED);
    attr.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
    for (int i = 0; i < UPLINKS; i++) entries[i].state = MRC_CTL_EV_ASSUMED_BAD;
    CHECK("what queue pairs find out is not a controller's to say", mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP) == -1 && errno == EINVAL);
    for (int i = 0; i < UPLINKS; i++) entries[i].state = MRC_CTL_EV_GOOD;
    CHECK("made GOOD again", !mrc_ctl_modify_ev_profile(mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP));
    meet();
    CHECK("they carry packets", exchange(qp) && !quiet(1, before));
    struct mrc_qp_attr window = {.mpr = {8, 2}};
    CHECK("a narrower window, as Dynamic MPR has it", !mrc_modify_qp(qp, NULL, 0, &window, MRC_QP_MPR_DEST));
    CHECK("carries them too", exchange(qp));
    window.timeout = 9;
    CHECK("a timer comes too late", mrc_modify_qp(qp, NULL, 0, &window, MRC_QP_TIMEOUT) == EINVAL);
    window.mpr.mpr = 8;
    CHECK("what the queue pair has does not", !mrc_modify_qp(qp, NULL, 0, &window, MRC_QP_MPR));
    NEED("destroy", !mrc_destroy_qp(qp) && !offline(id));
}

static int batch(enum mrc_ctl_ep_op_type op, int srv6, int plane, uint32_t ports, struct mrc_ctl_ep_rsp *rsp) {
    struct mrc_ctl_ep_req req = {
        .req_id = 7,
        .sgid = gid,
        .dgid = peer.gid,
        .ev_fmt_mode = srv6 ? MRC_CTL_EV_FMT_MODE_SRV6 : MRC_CTL_EV_FMT_MODE_STEV,
        .req_ev = path(srv6, plane, 1),
        .op.port_status_update.port_status = ports,
    };
    int got = -1;
    return mrc_ctl_ep_batch_send_wait(mrc, 0, op, &req, 1, 500000000, rsp, &got) ? -1 : got;
}

/* One side tells the other that its second port is down, although it is not, and that it is up again. What is told is a
 * hint: packets that still come from the port undo it. A port that is really out of use is in `administration`. */
static void port_status(uint64_t id) {
    struct mrc_ctl_ep_rsp rsp;
    struct mrc_qp *qp = join(id);
    for (int srv6 = 0; srv6 < 2; srv6++) {
        CHECK(srv6 ? "an EV probe to a destination of SRv6" : "an EV probe to the peer",
              batch(MRC_CTL_EP_OP_EV_PROBE, srv6, 0, 0, &rsp) == 1 && rsp.req_id == 7 && rsp.port >= 1 && rsp.port <= 2 && rsp.rtt > 0);
    }
    meet();
    if (is_client) CHECK("the peer hears that port 2 is down", batch(MRC_CTL_EP_OP_PORT_STATUS_UPDATE, 0, 0, 1 << 1, &rsp) == 1);
    meet();
    long before = frames(1);
    usleep(50000); /* News of a port holds for 17 ms whatever comes from it: packets may have been on their way. */
    int good = exchange(qp) && exchange(qp);
    if (is_client) CHECK("it writes on", good);
    else CHECK("until packets come from that port", good && !quiet(1, before));
    meet();
    long before_up = frames(1);
    if (is_client) CHECK("the peer hears that it is up", batch(MRC_CTL_EP_OP_PORT_STATUS_UPDATE, 1, 0, 3 << 1, &rsp) == 1);
    meet();
    good = exchange(qp);
    if (!is_client) CHECK("and uses it", good && !quiet(1, before_up));
    NEED("destroy", !mrc_destroy_qp(qp));
}

static int enable(int port, enum mrc_ctl_port_admin_state state) {
    struct mrc_ctl_port_attr attr = {.port_admin_state = state};
    return mrc_ctl_modify_port(mrc, port, &attr, MRC_CTL_PORT_ADMIN_STATE);
}

/* The client disables a port; the server hears of it by itself. */
static void administration(uint64_t id) {
    struct mrc_qp *qp = join(id);
    struct mrc_ctl_port_attr attr;
    struct ibv_port_attr verbs;
    struct mrc_ctl_ep_rsp rsp;
    meet();
    if (is_client) {
        CHECK("port 2 is disabled", !enable(2, MRC_CTL_PORT_ADMIN_DISABLED) && !mrc_ctl_query_port(mrc, 2, &attr, MRC_CTL_PORT_ADMIN_STATE) &&
                                        attr.port_admin_state == MRC_CTL_PORT_ADMIN_DISABLED);
        CHECK("the other one carries on", !ibv_query_port(ctx, 1, &verbs) && verbs.state == IBV_PORT_ACTIVE);
        CHECK("nothing is probed through it", batch(MRC_CTL_EP_OP_EV_PROBE, 0, 1, 0, &rsp) == -1 && errno == ETIMEDOUT);
    }
    meet();
    usleep(100000);
    long before = frames(1);
    CHECK(is_client ? "writes leave through the other" : "a port that the peer disabled is kept off", exchange(qp) && quiet(1, before));
    if (is_client) {
        CHECK("both disabled, the port of verbs is down", !enable(1, MRC_CTL_PORT_ADMIN_DISABLED) && !ibv_query_port(ctx, 1, &verbs) && verbs.state == IBV_PORT_DOWN);
        CHECK("enabled, it is up", !enable(1, MRC_CTL_PORT_ADMIN_ENABLED) && !enable(2, MRC_CTL_PORT_ADMIN_ENABLED) && !ibv_query_port(ctx, 1, &verbs) &&
                                       verbs.state == IBV_PORT_ACTIVE);
    }
    meet();
    usleep(100000);
    CHECK("both planes carry packets again", exchange(qp) && !quiet(1, before));
    NEED("destroy", !mrc_destroy_qp(qp));
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    is_client = argc > 1;
    read_template();
    dial(argv[1]);
    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED("device", list && list[0] && (ctx = ibv_open_device(list[0])) && (mrc = mrc_create_context(ctx, NULL)));
    NEED("GID", !ibv_query_gid(ctx, 1, 3, &gid));
    memory = malloc(2 * SIZE);
    NEED("memory", (pd = ibv_alloc_pd(ctx)) && (mr = ibv_reg_mr(pd, memory, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    NEED("queue", (cq = mrc_create_cq(mrc, 4 * COUNT, NULL, NULL, 0)));

    enum { AUTO = 10, STEV, SRV6, STEV_GEN, SRV6_GEN };
    static const uint8_t stev[] = {24, 8}, srv6[] = {32, 16, 16, 16, 16, 16, 16};
    CHECK("formats", !format(STEV, MRC_CTL_EV_FMT_MODE_STEV, stev, 2) && !format(SRV6, MRC_CTL_EV_FMT_MODE_SRV6, srv6, 7) &&
                         !format(STEV_GEN, MRC_CTL_EV_FMT_MODE_STEV, stev, 2) && !format(SRV6_GEN, MRC_CTL_EV_FMT_MODE_SRV6, srv6, 7));
    CHECK("an AUTO profile", !profile(AUTO, MRC_CTL_EV_MODE_AUTO, 2 * UPLINKS, NULL, NULL, 0));
    carries("  carries writes both ways", AUTO);
    CHECK("an EXPLICIT profile, STEV", !explicit_profile(STEV, 0));
    carries("  carries writes both ways", STEV);
    CHECK("an EXPLICIT profile, SRv6", !explicit_profile(SRV6, 1));
    states(SRV6);
    port_status(0);
    administration(0);
    /* The generated values are those of plane 0. */
    CHECK("GENERATED profiles", !generated_profile(STEV_GEN, 0) && !generated_profile(SRV6_GEN, 1));
    CHECK("on one plane", !enable(2, MRC_CTL_PORT_ADMIN_DISABLED));
    carries("STEV carries writes both ways", STEV_GEN);
    carries("SRv6 carries writes both ways", SRV6_GEN);
    CHECK("everything goes", !mrc_destroy_cq(cq) && !ibv_dereg_mr(mr) && !mrc_destroy_context(mrc) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
    meet();
    return failures != 0;
}
