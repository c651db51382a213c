/* As much of JSON as one line of the control connection needs: find a field, walk over an object, read a number. The text is
 * what `mrc conform` writes: valid, without spaces, names without escapes. */
#ifndef AGENT_JSON_H
#define AGENT_JSON_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct field {
    const char *name, *value;
    size_t name_len, value_len;
};

/* Behind the string that begins at `at`. */
static const char *json_string_end(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

/* Behind the value that begins at `at`. */
static const char *json_value_end(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            at = json_string_end(at);
            continue;
        }
        if (!depth && strchr(",]}", *at)) return at;
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (*at && (depth || !strchr(",]}", *at)));
    return at;
}

/* The field at `*at`, inside an object; 0 at its end. `*at` moves to the next one. */
static int json_field(const char **at, struct field *field) {
    if (**at == ',') ++*at;
    if (**at != '"') return 0;
    const char *end = json_string_end(*at);
    field->name = *at + 1;
    field->name_len = end - *at - 2;
    if (*end != ':') return 0;
    field->value = end + 1;
    *at = json_value_end(end + 1);
    field->value_len = *at - field->value;
    return 1;
}

/* The value of the first field of this name, at any depth. */
static const char *json_find(const char *json, const char *name) {
    size_t len = strlen(name);
    while (*json) {
        if (*json != '"') {
            json++;
            continue;
        }
        const char *end = json_string_end(json);
        if (*end == ':' && (size_t)(end - json - 2) == len && !memcmp(json + 1, name, len)) return end + 1;
        json = end;
    }
    return NULL;
}

/* A number; 0 where there is none. */
static uint64_t json_number(const char *json, const char *name) {
    const char *value = json_find(json, name);
    return value ? strtoull(value, NULL, 10) : 0;
}

static int json_true(const char *json, const char *name) {
    const char *value = json_find(json, name);
    return value && *value == 't';
}

/* An address in quotes, IPv4 as mapped. */
static void json_address(const char *value, struct in6_addr *address) {
    char text[64] = "", mapped[80];
    size_t len = value && *value == '"' ? strcspn(value + 1, "\"") : 0;
    if (len < sizeof(text)) memcpy(text, value + 1, len), text[len] = 0;
    if (inet_pton(AF_INET6, text, address) == 1) return;
    snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
    inet_pton(AF_INET6, mapped, address);
}

#endif
