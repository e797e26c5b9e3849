/* The part of <string.h> that guests use, for builds without a C library. Found instead of the system's
 * through -I; implemented in runtime.c. Only what is declared here exists. */
#ifndef HARK_STRING_H
#define HARK_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
void *memchr(const void *memory, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *text);

#endif
