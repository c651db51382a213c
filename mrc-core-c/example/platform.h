/* What the example asks of its surroundings. On a NIC: a UART and a reset. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stddef.h>

/* Shows `len` bytes to whoever watches. */
void platform_print(const char *text, size_t len);

/* Ends the program; 0 is success. */
_Noreturn void platform_exit(int code);

/* The program. */
int program(void);

#endif
