/* The surroundings of the example when it runs as a bare Linux process: no libc, two system calls, and the five functions
 * that compilers call whatever the source says. */
#include <stdint.h>

#include "platform.h"

static long system_call(long number, long a, long b, long c)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#else
#error "system calls of this processor are not known here"
#endif
}

#if defined(__x86_64__)
enum { SYS_WRITE = 1, SYS_EXIT = 60 };
#else
enum { SYS_WRITE = 64, SYS_EXIT = 93 };
#endif

void platform_print(const char *text, size_t len)
{
    system_call(SYS_WRITE, 1, (long)text, (long)len);
}

_Noreturn void platform_exit(int code)
{
    for (;;)
        system_call(SYS_EXIT, code, 0, 0);
}

/* The kernel enters here with no return address; the call aligns the stack as the ABI wants it. */
#if defined(__x86_64__)
__asm__(".global _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call start\n");
#else
__asm__(".global _start\n_start: mov x29, #0\n bl start\n");
#endif

_Noreturn void start(void);
_Noreturn void start(void)
{
    platform_exit(program());
}

/* Volatile, or the compiler finds these loops to be calls of themselves. */

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    volatile uint8_t *t = to;
    const uint8_t *f = from;
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n)
{
    volatile uint8_t *t = to;
    const volatile uint8_t *f = from;
    if ((uintptr_t)to < (uintptr_t)from) {
        for (size_t i = 0; i < n; i++)
            t[i] = f[i];
    } else {
        for (size_t i = n; i > 0; i--)
            t[i - 1] = f[i - 1];
    }
    return to;
}

void *memset(void *to, int value, size_t n);
void *memset(void *to, int value, size_t n)
{
    volatile uint8_t *t = to;
    for (size_t i = 0; i < n; i++)
        t[i] = (uint8_t)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t n);
int memcmp(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++) {
        uint8_t left = x[i], right = y[i];
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

int bcmp(const void *a, const void *b, size_t n);
int bcmp(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n);
}
