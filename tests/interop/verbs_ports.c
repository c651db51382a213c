/* What programs hear of their port: every context does, whatever it is used for. Sets both planes of its host down and up, which takes
 * the addresses away from them. One line per check. */
#include <infiniband/verbs.h>
#include <poll.h>

#include "check.h"

enum { CONTEXTS = 3 };

static struct ibv_context *contexts[CONTEXTS];

static void planes(const char *state) {
    char command[128];
    snprintf(command, sizeof command, "ip link set plane0 %s && ip link set plane1 %s", state, state);
    NEED(command, !system(command));
}

/* Whether each context hears of this, and of nothing else. */
static int all_hear(enum ibv_event_type wanted) {
    int heard = 1;
    for (int i = 0; i < CONTEXTS; i++) {
        struct pollfd fd = {.fd = contexts[i]->async_fd, .events = POLLIN};
        struct ibv_async_event event;
        if (poll(&fd, 1, 5000) != 1 || ibv_get_async_event(contexts[i], &event)) return 0;
        heard &= event.event_type == wanted && event.element.port_num == 1 && poll(&fd, 1, 100) == 0;
        ibv_ack_async_event(&event);
    }
    return heard;
}

static int state(void) {
    struct ibv_port_attr port;
    NEED("port", !ibv_query_port(contexts[0], 1, &port));
    return port.state;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED("device", list && list[0]);
    planes("down");
    /* One from before the device is opened, one that opens it, one from later. */
    NEED("contexts", (contexts[0] = ibv_open_device(list[0])) && (contexts[1] = ibv_open_device(list[0])));
    struct ibv_pd *pd = ibv_alloc_pd(contexts[1]);
    NEED("contexts", pd && (contexts[2] = ibv_open_device(list[0])));
    CHECK("without planes the port is down", state() == IBV_PORT_DOWN);
    planes("up");
    CHECK("the first plane makes it active, and all contexts hear of it", all_hear(IBV_EVENT_PORT_ACTIVE) && state() == IBV_PORT_ACTIVE);
    planes("down");
    CHECK("  and of the last one that goes", all_hear(IBV_EVENT_PORT_ERR) && state() == IBV_PORT_DOWN);
    planes("up");
    CHECK("  and of the next one that comes", all_hear(IBV_EVENT_PORT_ACTIVE));
    NEED("domain", !ibv_dealloc_pd(pd));
    for (int i = 0; i < CONTEXTS; i++) NEED("close", !ibv_close_device(contexts[i]));
    ibv_free_device_list(list);
    printf("%d failures\n", failures);
    return failures != 0;
}
