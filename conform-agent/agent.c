/* The control connection of `mrc conform` for an endpoint that is reached over libibverbs and libmrc. One line of JSON is a
 * question, one line the answer; docs/conformance.md describes both, README.md in this folder how to run the agent.
 *
 * The agent sets a queue pair up as a script wants it, posts what the script's application posts, and tells completions,
 * memory and the state of the queue pair. It judges nothing. What the two interfaces have no call or attribute for it
 * refuses by name, and the script does not apply. */
#include "json.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <mrc.h>
#include <mrc_ctl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PORTS = 8, MAX_EVS = 256, PROFILE = 1, DEPTH = 1024, RECEIVE = 1, MAX_LINE = 1 << 18 };
static const uint64_t MAX_REGION = 1 << 30;

/* Knobs of a script. `api`: libibverbs or libmrc has an attribute for it. The others have the value that the device has:
 * the default of `mrc conform --list-knobs` unless --knob says otherwise. */
static struct knob {
    const char *name;
    long have;
    int api;
    long want;
} knobs[] = {
    {"mtu", 1024, 1, 0}, {"psn", 0, 1, 0}, {"sq_psn", 0, 1, 0}, {"state", 3, 1, 0}, {"mpr", 8, 1, 0},
    {"mpr_tx", 8, 1, 0}, {"dynamic_mpr", 0, 1, 0}, {"max_wimm", 32, 1, 0}, {"max_wimm_dest", 32, 1, 0},
    {"timeout", 14, 1, 0}, {"linear", 7, 1, 0}, {"exp", 3, 1, 0}, {"trimming", 0, 1, 0}, {"evs", 8, 1, 0},
    {"access", 1, 1, 0},
    {"trim_nack", 1, 0, 0}, {"svc_time", 0, 0, 0}, {"timestamps", 1, 0, 0}, {"sack_threshold", 16384, 0, 0},
    {"ev_probe_rate", 0, 0, 0}, {"port_update_on_rts", 0, 0, 0}, {"port_unmask_after", 16777216, 0, 0},
    {"probe_masked_ports", 1, 0, 0}, {"port_mask_zero_based", 0, 0, 0}, {"oor_silent", 0, 0, 0},
    {"answers_on_silent_planes", 0, 0, 0}, {"complete_on_sack", 0, 0, 0}, {"stale_nak_fatal", 0, 0, 0},
    {"retry_strict", 0, 0, 0}, {"msn_start", 0, 0, 0}, {"rqmsn_start", 0, 0, 0}, {"reject_zero_len", 0, 0, 0},
    {"ctl_ect", 0, 0, 0}, {"always_skip_after", 0, 0, 0}, {"wimm_nak_syndrome", 0x61, 0, 0}, {"no_receive", 0, 0, 0},
    {"tail_retry_lenient", 0, 0, 0}, {"tail_retry_paced", 0, 0, 0}, {"silent_packets", 0, 0, 0},
    {"planes", 1, 0, 0}, {"ip", 6, 0, 0}, {"srv6", 0, 0, 0}, {"base_rtt", 50000, 0, 0},
    {"target_delay", 50000, 0, 0}, {"window", 262144, 0, 0}, {"reorder_min", 3, 0, 0}, {"reorder_factor", 384, 0, 0},
    {"probe_limit", 10000, 0, 0}, {"keepalive", 0, 0, 0}, {"skip_time", 0, 0, 0}, {"loss_ev_action", 0, 0, 0},
    {"resurrect_probes", 1, 0, 0}, {"probe_interval", 1000000, 0, 0}, {"ev_min_active", 1, 0, 0},
    {"last_resort", 1, 0, 0}, {"pkey", 0xffff, 0, 0}, {"udp_port", 4791, 0, 0}, {"ev_high_half_in_sport", 0, 0, 0},
    {"bth_se_bit", 7, 0, 0}, {"neth_cc_type", 2, 0, 0}, {"pdcid_order", 0, 0, 0}, {"dscp_retx", 8, 0, 0},
    {"dscp_no_trim", 0, 0, 0}, {"dscp_trimmable", 4, 0, 0}, {"dscp_trimmed", 12, 0, 0}, {"dscp_trimmed_lasthop", 16, 0, 0},
    {"dscp_control", 46, 0, 0}, {"size_overhead", 40, 0, 0}, {"ack_msn_zero", 0, 0, 0},
    {"bitmap_reach", 63, 0, 0}, {"right_edge_retreats", 0, 0, 0}, {"send_below_window", 0, 0, 0}, {"exp_from_t0", 0, 0, 0},
    {"marked_probe_good", 0, 0, 0}, {"reuse_nacked_ev", 0, 0, 0}, {"relapse_backoff", 0, 0, 0}, {"skip_extends", 0, 0, 0}, {"eeth_op_bit", 2, 0, 0}, {"udp_accept", 0, 0, 0},
    {"ev_in_outer_label", 0, 0, 0}, {"trim_keeps_tseth", 0, 0, 0}, {"tsr_us", 0, 0, 0},
};
enum { KNOBS = sizeof(knobs) / sizeof(*knobs) };

static const char *device_name, *configure, *netdevs[MAX_PORTS], *sids, *lacks = "";
static int netdev_count, gid_index = 3, port_number = 4970;
static char **arguments;

static int listener = -1, peer = -1;
static long slow = 1;
static struct ibv_context *ctx;
static struct mrc_context *mrc;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct mrc_comp_channel *channel;
static struct mrc_cq *cq;
static struct mrc_qp *qp;
static int format_online;
static uint8_t *memory;
static uint64_t region, tester_va;
static uint32_t tester_rkey;
static uint32_t length_of[1 << 16]; /* of the write that was posted under a number */

/* One answer. */
static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    FILE *out = fdopen(dup(peer), "w");
    vfprintf(out, format, list);
    va_end(list);
    fputc('\n', out);
    fclose(out);
}

static void refuse(const char *format, ...) {
    char why[512];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof(why), format, list);
    va_end(list);
    for (char *c = why; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '\'';
    say("{\"refused\":\"%s\"}", why);
}

static void broken(const char *call, int code) { say("{\"broken\":\"%s: %s\"}", call, strerror(code)); }

static struct knob *knob(const char *name, size_t len) {
    for (int i = 0; i < KNOBS; i++)
        if (strlen(knobs[i].name) == len && !memcmp(knobs[i].name, name, len)) return &knobs[i];
    return NULL;
}

static long want(const char *name) { return knob(name, strlen(name))->want; }

/* What the script wants; 0 if that cannot be. */
static int read_knobs(const char *object) {
    struct field field;
    for (int i = 0; i < KNOBS; i++) knobs[i].want = knobs[i].have;
    for (const char *at = object + 1; json_field(&at, &field);) {
        struct knob *known = knob(field.name, field.name_len);
        if (!known) return refuse("%.*s: a knob that this agent does not know", (int)field.name_len, field.name), 0;
        known->want = strtol(field.value, NULL, 10);
        if (!known->api && known->want != known->have && !configure)
            return refuse("needs %s=%ld: libibverbs and libmrc have no attribute for it, the device has %ld", known->name,
                          known->want, known->have), 0;
    }
    return 1;
}

/* Has the vendor's program set the device up with what the interfaces have no attribute for, and begins anew, because a
 * device may read its configuration once per process. 0 if the program refuses; 1 if the device is set up so already. */
static int set_up(const char *line, long slowness) {
    char command[8192], item[128], output[512] = "";
    size_t len = snprintf(command, sizeof(command), "exec '%s' slow=%ld", configure, slowness), got = 0;
    for (int i = 0; i < KNOBS; i++)
        if (!knobs[i].api) len += snprintf(command + len, sizeof(command) - len, " %s=%ld", knobs[i].name, knobs[i].want);
    if (getenv("AGENT_SETUP") && !strcmp(getenv("AGENT_SETUP"), command)) return 1;
    strcat(command, " 2>&1");
    FILE *program = popen(command, "r");
    if (program) got = fread(output, 1, sizeof(output) - 1, program);
    while (got && output[got - 1] == '\n') got--;
    output[got] = 0;
    command[len] = 0;
    int status = program ? pclose(program) : -1;
    if (status) return refuse("%s", got ? output : "--configure failed"), 0;
    const char *granted = strstr(output, "slow=");
    setenv("AGENT_SETUP", command, 1);
    setenv("AGENT_LINE", line, 1);
    snprintf(item, sizeof(item), "%d %d %ld", listener, peer, granted ? strtol(granted + 5, NULL, 10) : 1);
    setenv("AGENT_STATE", item, 1);
    execv("/proc/self/exe", arguments);
    return refuse("exec: %s", strerror(errno)), 0;
}

#define TRY(call, condition)                                  \
    do {                                                      \
        errno = 0;                                            \
        if (!(condition)) return refuse(call ": %s", strerror(errno)), 0; \
    } while (0)

static int open_device(void) {
    if (mrc) return 1;
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count), *device = NULL;
    for (int i = 0; list && i < count; i++)
        if (!device_name || !strcmp(ibv_get_device_name(list[i]), device_name)) device = device ? device : list[i];
    TRY("no such RDMA device", device);
    TRY("ibv_open_device", ctx = ibv_open_device(device));
    ibv_free_device_list(list);
    TRY("mrc_create_context", mrc = mrc_create_context(ctx, NULL));
    TRY("ibv_alloc_pd", pd = ibv_alloc_pd(ctx));
    TRY("mrc_create_comp_channel", !mrc_create_comp_channel(mrc, &channel));
    TRY("mrc_create_cq", cq = mrc_create_cq(mrc, 2 * DEPTH, NULL, channel, 0));
    return 1;
}

static void close_queue_pair(void) {
    struct ibv_wc wc;
    struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE};
    if (qp) mrc_destroy_qp(qp);
    if (mr) ibv_dereg_mr(mr);
    qp = NULL, mr = NULL;
    while (cq && mrc_poll_cq(cq, 1, &wc) > 0);
    mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_STATE);
    attr.profile_state = MRC_CTL_PROFILE_INIT;
    mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_STATE);
    struct mrc_ctl_port_attr up = {.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED};
    for (int port = 1; port <= netdev_count; port++) mrc_ctl_modify_port(mrc, port, &up, MRC_CTL_PORT_ADMIN_STATE);
}

/* The entropy values of the facts as an explicit profile: STEV, or under SRv6 the outer destinations that the tester
 * computes from them (docs/conformance.md). */
static int make_profile(const char *facts) {
    static const uint8_t stev[] = {24, 8}, routes[] = {32, 16, 16, 16, 16, 16, 16};
    int srv6 = want("srv6") != 0, widths = srv6 ? 7 : 2;
    struct mrc_ctl_ev_fmt_field fields[7];
    for (int i = 0; i < widths; i++) fields[i].width = srv6 ? routes[i] : stev[i];
    struct mrc_ctl_ev_fmt_profile_attr format = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_fmt_mode = srv6 ? MRC_CTL_EV_FMT_MODE_SRV6 : MRC_CTL_EV_FMT_MODE_STEV,
        .ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields, widths},
    };
    int mask = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
    if (!format_online) {
        TRY("mrc_ctl_modify_ev_fmt_profile", !mrc_ctl_modify_ev_fmt_profile(mrc, PROFILE, &format, mask));
        format.profile_state = MRC_CTL_PROFILE_ONLINE;
        TRY("mrc_ctl_modify_ev_fmt_profile",
            !mrc_ctl_modify_ev_fmt_profile(mrc, PROFILE, &format, MRC_CTL_EV_FMT_PROFILE_STATE));
        format_online = 1;
    }
    static struct mrc_ctl_ev_op_entry entries[MAX_EVS];
    struct in6_addr tester = {0};
    json_address(json_find(facts, "tester_sid") + 1, &tester);
    int count = 0;
    for (const char *at = json_find(facts, "evs") + 1; *at == '[' && count < MAX_EVS; count++) {
        uint32_t ev = strtoul(at + 1, (char **)&at, 10), port = *at == ',' ? strtoul(at + 1, (char **)&at, 10) : 0;
        struct mrc_ctl_ev *entry = &entries[count].ev_new;
        *entry = (struct mrc_ctl_ev){{ev >> 24, ev >> 16, ev >> 8, ev}, port};
        if (srv6) {
            uint8_t route[] = {0xfc, 0xbb, 0xbb, 0, 0x10 | (ev >> 8 & 15), ev, tester.s6_addr[4], tester.s6_addr[5]};
            memcpy(entry->val, route, sizeof(route));
        }
        entries[count].state = MRC_CTL_EV_GOOD;
        at += strcspn(at, "]");
        at += *at == ']';
        at += *at == ',';
    }
    struct mrc_ctl_ev_profile_attr attr = {
        .profile_state = MRC_CTL_PROFILE_OFFLINE,
        .ev_mode = MRC_CTL_EV_MODE_EXP,
        .ev_fmt_profile_id = PROFILE,
        .ev_count = count,
        .ev_min_active = want("ev_min_active") < count ? want("ev_min_active") : count,
        .ev_op = {MRC_CTL_EV_OP_REPLACE_EV, entries, count},
    };
    mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT;
    TRY("mrc_ctl_modify_ev_profile", !mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, mask));
    attr.profile_state = MRC_CTL_PROFILE_ONLINE;
    mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP;
    TRY("mrc_ctl_modify_ev_profile", !mrc_ctl_modify_ev_profile(mrc, PROFILE, &attr, mask));
    return 1;
}

/* A queue pair in the state that the script begins with. */
static int make_queue_pair(const char *facts) {
    struct mrc_device_attr can = {0};
    int supported = 0;
    if (mrc_query_device(ctx, &can, &supported) || !supported) return refuse("no MRC device behind this context"), 0;
    const char *const windows[] = {"mpr", "mpr_tx"};
    for (int i = 0; i < 2; i++)
        if (want(windows[i]) > can.mpr_attr.max_mpr)
            return refuse("needs %s=%ld: the device's widest window is %d", windows[i], want(windows[i]), can.mpr_attr.max_mpr), 0;
    struct mrc_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .pd = pd,
        .protocol_version = MRC_PROTOCOL_VERSION_1,
    };
    TRY("mrc_create_qp", qp = mrc_create_qp(mrc, &init));
    struct mrc_qp_attr attr = {
        .mpr = {want("mpr_tx"), want("mpr")},
        .wimm = {want("max_wimm"), want("max_wimm_dest")},
        .timeout = want("timeout"),
        .profile = {PROFILE, 0},
        .retry = {want("linear"), want("exp")},
        .cap = (want("trimming") ? 0 : MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED) | (want("dynamic_mpr") ? MRC_QP_CAP_DYNAMIC_MPR : 0),
    };
    struct ibv_qp_attr verbs = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, state = want("state");
    if (state >= 1) TRY("INIT", !(errno = mrc_modify_qp(qp, &verbs, mask, &attr, MRC_QP_EV_PROFILE_ID)));
    int mtu = 0;
    while (mtu < 5 && 128L << mtu != want("mtu")) mtu++;
    verbs.qp_state = IBV_QPS_RTR;
    verbs.path_mtu = mtu;
    verbs.dest_qp_num = json_number(facts, "tester_qpn");
    verbs.rq_psn = want("psn");
    verbs.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};
    struct in6_addr address = {0};
    json_address(json_find(facts, "tester_ip"), &address);
    memcpy(verbs.ah_attr.grh.dgid.raw, &address, 16);
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (state >= 2) TRY("RTR", !(errno = mrc_modify_qp(qp, &verbs, mask, &attr, MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP)));
    verbs.qp_state = IBV_QPS_RTS;
    verbs.sq_psn = want("sq_psn");
    mask = MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT;
    if (state >= 3) TRY("RTS", !(errno = mrc_modify_qp(qp, &verbs, IBV_QP_STATE | IBV_QP_SQ_PSN, &attr, mask)));
    verbs.qp_state = IBV_QPS_ERR;
    if (state == 4) TRY("ERROR", !(errno = mrc_modify_qp(qp, &verbs, IBV_QP_STATE, NULL, 0)));
    return 1;
}

/* The MAC address of port `n`, from 0, as a JSON array. */
static const char *mac_of(int n) {
    static char text[64];
    struct ifreq request = {0};
    snprintf(request.ifr_name, IFNAMSIZ, "%s", netdevs[n]);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(fd, SIOCGIFHWADDR, &request);
    close(fd);
    const uint8_t *mac = (void *)request.ifr_hwaddr.sa_data;
    snprintf(text, sizeof(text), "[%d,%d,%d,%d,%d,%d]", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    return text;
}

/* The facts of the tester with our half filled in. */
static void answer_open(const char *facts) {
    struct field field;
    union ibv_gid gid;
    char address[64];
    uint32_t qpn = 0;
    ibv_query_gid(ctx, 1, gid_index, &gid);
    inet_ntop(AF_INET6, gid.raw, address, sizeof(address));
    if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw)) inet_ntop(AF_INET, gid.raw + 12, address, sizeof(address));
    mrc_get_qpn(qp, &qpn);
    FILE *out = fdopen(dup(peer), "w");
    fprintf(out, "{\"opened\":{\"facts\":{");
    for (const char *at = facts + 1, *comma = ""; json_field(&at, &field); comma = ",") {
        int name_len = field.name_len;
        fprintf(out, "%s\"%.*s\":", comma, name_len, field.name);
#define IS(text) (field.name_len == strlen(text) && !memcmp(field.name, text, strlen(text)))
        if (IS("target_qpn")) {
            fprintf(out, "%u", qpn);
        } else if (IS("target_ip")) {
            fprintf(out, "\"%s\"", address);
        } else if (IS("target_va")) {
            fprintf(out, "%llu", (unsigned long long)(uintptr_t)memory);
        } else if (IS("target_rkey")) {
            fprintf(out, "%u", mr->rkey);
        } else if (IS("target_mac")) {
            for (int port = 0; port < want("planes"); port++) fprintf(out, "%s%s", port ? "," : "[", mac_of(port));
            fputc(']', out);
        } else if (IS("target_sid") && sids) {
            fprintf(out, "%s", sids);
        } else if (IS("lacks")) {
            fprintf(out, "[%s]", lacks);
        } else {
            fwrite(field.value, 1, field.value_len, out);
        }
    }
    fprintf(out, "},\"slow\":%ld}}\n", slow);
    fclose(out);
}

/* Memory of so many bytes, which a script of another size had otherwise. */
static int make_memory(uint64_t bytes) {
    if (memory && region != bytes) munmap(memory, region), memory = NULL;
    region = bytes;
    if (memory) return 1;
    if (!bytes || bytes > MAX_REGION) return refuse("needs a region of %llu bytes", (unsigned long long)bytes), 0;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return refuse("mmap: %s", strerror(errno)), 0;
    return memory = map, 1;
}

/* Whether a field is there and begins so. Who reaches the port may send anything. */
static int begins(const char *json, const char *name, char with) {
    const char *value = json_find(json, name);
    return value && *value == with;
}

static void open_script(const char *line) {
    const char *facts = json_find(line, "facts"), *wanted = json_find(line, "knobs");
    if (!begins(line, "facts", '{') || !begins(line, "knobs", '{') || !begins(facts, "evs", '[') || !begins(facts, "tester_sid", '['))
        return broken("open", EINVAL);
    if (!read_knobs(wanted) || (configure && !set_up(line, json_number(line, "slow")))) return;
    if (want("planes") < 1 || want("planes") > netdev_count) return refuse("needs %ld ports, this device has %d", want("planes"), netdev_count);
    if (!open_device()) return;
    close_queue_pair();
    if (!make_memory(json_number(facts, "region"))) return;
    tester_va = json_number(facts, "tester_va");
    tester_rkey = json_number(facts, "tester_rkey");
    for (uint64_t at = 0; at < region; at++) memory[at] = 7 * at + at / 251;
    mr = ibv_reg_mr(pd, memory, region, IBV_ACCESS_LOCAL_WRITE | (want("access") ? IBV_ACCESS_REMOTE_WRITE : 0));
    if (!mr) return refuse("ibv_reg_mr: %s", strerror(errno));
    if (!make_profile(facts) || !make_queue_pair(facts)) return;
    mrc_req_notify_cq(cq, 1);
    answer_open(facts);
}

static void post_write(const char *act) {
    uint64_t id = json_number(act, "id");
    const char *imm = json_find(act, "imm");
    struct ibv_sge sge = {(uintptr_t)memory + json_number(act, "from"), json_number(act, "len"), mr ? mr->lkey : 0};
    struct ibv_send_wr wr = {.wr_id = id << 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
    if (json_true(act, "signaled")) wr.send_flags |= IBV_SEND_SIGNALED;
    if (json_true(act, "solicited")) wr.send_flags |= IBV_SEND_SOLICITED;
    if (imm && *imm != 'n') wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, wr.imm_data = htonl(json_number(act, "imm"));
    wr.wr.rdma.remote_addr = tester_va + json_number(act, "at");
    wr.wr.rdma.rkey = tester_rkey;
    length_of[id & 0xffff] = sge.length;
    int code = mrc_post_send(qp, &wr, &bad);
    code ? broken("mrc_post_send", code) : say("\"ok\"");
}

static void act(const char *act) {
    const char *what = json_find(act, "do");
    int code = EINVAL;
#define DO(text) (what && !strncmp(what, "\"" text "\"", strlen(text) + 2))
    if (!qp) return refuse("nothing is open; send `open` first");
    if (DO("write")) return post_write(act);
    if (DO("refuse") || DO("place_failure")) return refuse("no call of libibverbs or libmrc does %.*s", (int)strcspn(what + 1, "\""), what + 1);
    if (DO("recv")) {
        struct ibv_recv_wr wr = {.wr_id = (uint64_t)json_number(act, "id") << 1 | RECEIVE}, *bad;
        code = mrc_post_recv(qp, &wr, &bad) ? errno : 0;
    } else if (DO("mpr")) {
        struct mrc_qp_attr attr = {.mpr = {0, json_number(act, "units")}};
        code = mrc_modify_qp(qp, NULL, 0, &attr, MRC_QP_MPR_DEST);
    } else if (DO("port")) {
        struct mrc_ctl_port_attr attr = {json_true(act, "up") ? MRC_CTL_PORT_ADMIN_ENABLED : MRC_CTL_PORT_ADMIN_DISABLED};
        code = mrc_ctl_modify_port(mrc, json_number(act, "port"), &attr, MRC_CTL_PORT_ADMIN_STATE) ? errno : 0;
    } else if (DO("error")) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        code = mrc_modify_qp(qp, &attr, IBV_QP_STATE, NULL, 0);
    } else if (DO("deregister")) {
        code = ibv_dereg_mr(mr);
        mr = NULL;
    }
    code ? broken("act", code) : say("\"ok\"");
}

static const char *status_of(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_PROT_ERR: return "local_protection";
    case IBV_WC_WR_FLUSH_ERR: return "flushed";
    case IBV_WC_REM_INV_REQ_ERR: return "remote_invalid_request";
    case IBV_WC_REM_ACCESS_ERR: return "remote_access";
    case IBV_WC_REM_OP_ERR: return "remote_operation";
    case IBV_WC_RETRY_EXC_ERR: return "retry_exceeded";
    default: return "unknown";
    }
}

/* Whether the CQ had an event, which only a solicited completion or a failure makes. */
static int had_event(void) {
    int fd = -1;
    struct mrc_cq *from;
    void *context;
    if (mrc_get_comp_channel_fd(channel, &fd) || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) != 1) return 0;
    mrc_get_cq_event(channel, &from, &context);
    mrc_ack_cq_events(cq, 1);
    mrc_req_notify_cq(cq, 1);
    return 1;
}

static void done(void) {
    struct ibv_wc wc = {0};
    if (!cq || mrc_poll_cq(cq, 1, &wc) < 1) return say("{\"done\":null}");
    int receive = wc.wr_id & RECEIVE, good = wc.status == IBV_WC_SUCCESS;
    uint64_t id = wc.wr_id >> 1;
    char imm[16] = "null";
    if (receive && good) snprintf(imm, sizeof(imm), "%u", ntohl(wc.imm_data));
    say("{\"done\":{\"at\":0,\"kind\":\"%s\",\"id\":%llu,\"status\":\"%s\",\"len\":%u,\"imm\":%s,\"solicited\":%s}}",
        receive ? "recv" : "write", (unsigned long long)id, status_of(wc.status),
        receive ? (good ? wc.byte_len : 0) : length_of[id & 0xffff], imm, had_event() && receive && good ? "true" : "false");
}

static void tell_memory(const char *line) {
    uint64_t offset = json_number(line, "offset"), len = json_number(line, "len");
    if (!memory || offset > region || len > region - offset) return broken("memory", EINVAL);
    FILE *out = fdopen(dup(peer), "w");
    fputs("{\"memory\":\"", out);
    for (uint64_t at = offset; at < offset + len; at++) fprintf(out, "%02x", memory[at]);
    fputs("\"}\n", out);
    fclose(out);
}

static void tell_counter(const char *line) {
    struct ibv_qp_attr attr = {0};
    struct mrc_qp_attr ignored = {0};
    struct mrc_qp_init_attr init = {0};
    const char *name = json_find(line, "counter");
    if (!name || strncmp(name, "\"qp_state\"", 10) || !qp) return refuse("no counter but qp_state");
    int code = mrc_query_qp(qp, &attr, IBV_QP_STATE, &ignored, 0, &init);
    if (code) return broken("mrc_query_qp", code);
    say("{\"counter\":%d}", attr.qp_state == IBV_QPS_ERR ? 4 : attr.qp_state);
}

static void answer(const char *line) {
    if (!strncmp(line, "{\"open\"", 7)) return open_script(line);
    if (!strncmp(line, "{\"act\"", 6)) return act(line);
    if (!strncmp(line, "\"done\"", 6)) return done();
    if (!strncmp(line, "{\"memory\"", 9)) return tell_memory(line);
    if (!strncmp(line, "{\"counter\"", 10)) return tell_counter(line);
    refuse("a question that this agent does not know");
}

/* Questions of one tester until it leaves. `line` was read before the agent began anew. */
static void converse(const char *line) {
    static char text[MAX_LINE];
    FILE *in = fdopen(dup(peer), "r");
    if (line) answer(line);
    /* A line that is longer, or that is no text, is the last. */
    while (fgets(text, sizeof(text), in) && strchr(text, '\n')) answer(text);
    fclose(in);
    close(peer);
}

static void usage(void) {
    fprintf(stderr,
            "usage: agent --netdev IF[,IF] [--device NAME] [--gid-index N] [--port TCP] [--sids ADDRESS[,ADDRESS]]\n"
            "             [--lacks NAME[,NAME]] [--knob NAME=VALUE]... [--configure PROGRAM]\n"
            "       agent --list-knobs\n");
    exit(2);
}

/* `a,b` as a JSON array's inside, or as the array. */
static char *quoted(char *list, int array) {
    char *out = calloc(1, strlen(list) * 4 + 8);
    for (char *item = strtok(list, ","); item; item = strtok(NULL, ","))
        sprintf(out + strlen(out), "%s\"%s\"", *out ? "," : array ? "[" : "", item);
    return array ? strcat(out, "]") : out;
}

static void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *value = i + 1 < argc ? strdup(argv[i + 1]) : NULL, *end;
        if (!strcmp(argv[i], "--list-knobs")) {
            for (int k = 0; k < KNOBS; k++) printf("%s %ld %s\n", knobs[k].name, knobs[k].have, knobs[k].api ? "api" : "device");
            exit(0);
        }
        if (!value) usage();
        if (!strcmp(argv[i], "--netdev")) {
            for (char *name = strtok(value, ","); name && netdev_count < MAX_PORTS; name = strtok(NULL, ",")) netdevs[netdev_count++] = name;
        } else if (!strcmp(argv[i], "--device")) {
            device_name = value;
        } else if (!strcmp(argv[i], "--gid-index")) {
            gid_index = atoi(value);
        } else if (!strcmp(argv[i], "--port")) {
            port_number = atoi(value);
        } else if (!strcmp(argv[i], "--sids")) {
            sids = quoted(value, 1);
        } else if (!strcmp(argv[i], "--lacks")) {
            lacks = quoted(value, 0);
        } else if (!strcmp(argv[i], "--configure")) {
            configure = value;
        } else if (!strcmp(argv[i], "--knob") && (end = strchr(value, '='))) {
            struct knob *known = knob(value, end - value);
            if (!known || known->api) fprintf(stderr, "agent: %s: %s\n", value, known ? "each script sets it" : "no such knob"), exit(2);
            known->have = strtol(end + 1, NULL, 0);
        } else {
            usage();
        }
        i++;
    }
    if (!netdev_count) usage();
}

int main(int argc, char **argv) {
    arguments = argv;
    read_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    char *line = getenv("AGENT_LINE");
    if (getenv("AGENT_STATE") && sscanf(getenv("AGENT_STATE"), "%d %d %ld", &listener, &peer, &slow) == 3 && line) {
        line = strdup(line);
        unsetenv("AGENT_LINE");
        unsetenv("AGENT_STATE");
        converse(line);
    } else {
        struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port_number)};
        int one = 1;
        listener = socket(AF_INET6, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 1)) return perror("agent: listen"), 1;
        fprintf(stderr, "agent: ready on TCP port %d\n", port_number);
    }
    while ((peer = accept(listener, NULL, NULL)) >= 0) {
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        converse(NULL);
    }
    return 0;
}
