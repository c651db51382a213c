/* What the C clients share: one line per check, and the time. */
#ifndef MRC_INTEROP_CHECK_H
#define MRC_INTEROP_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;

/* Goes on when the condition does not hold; `failures` counts. */
#define CHECK(what, condition)                                                                                            \
    do {                                                                                                                   \
        int holds = (condition);                                                                                           \
        printf("%-66s %s\n", what, holds ? "ok" : "FAIL");                                                                 \
        if (!holds) {                                                                                                      \
            failures++;                                                                                                    \
            printf("    line %d, errno %d (%s)\n", __LINE__, errno, strerror(errno));                                      \
        }                                                                                                                  \
    } while (0)

/* Ends the program when the condition does not hold: nothing after it would mean anything. */
#define NEED(what, condition)                                                                                             \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            printf("%s: %s\n", what, strerror(errno));                                                                     \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

#endif
