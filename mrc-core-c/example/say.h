/* What all examples share: words on the console, checks, and the address of a host. */
#ifndef SAY_H
#define SAY_H

#include "mrc_core.h"
#include "platform.h"

static inline void say(const char *text)
{
    size_t len = 0;
    while (text[len] != 0)
        len++;
    platform_print(text, len);
}

static inline void say_number(uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    platform_print(&digits[at], sizeof digits - at);
}

/* Ends the program when `code` is a refusal, and says why. */
static inline int32_t must(struct mrc_core_endpoint *engine, const char *what, int32_t code)
{
    if (code >= 0)
        return code;
    struct mrc_core_text why = mrc_core_error_text(code), detail = mrc_core_detail(engine);
    say(what);
    say(": ");
    platform_print(why.ptr, why.len);
    say(" (");
    platform_print(detail.ptr, detail.len);
    say(")\n");
    platform_exit(1);
}

static inline void require(const char *what, int holds)
{
    if (holds)
        return;
    say("not so: ");
    say(what);
    say("\n");
    platform_exit(1);
}

static inline struct mrc_core_ip address(unsigned host)
{
    struct mrc_core_ip ip = {.version = 6, .bytes = {0xFD}};
    ip.bytes[15] = (uint8_t)(1 + host);
    return ip;
}

#endif
