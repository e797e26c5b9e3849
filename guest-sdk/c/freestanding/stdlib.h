/* The part of <stdlib.h> that guests use, for builds without a C library. Found instead of the system's
 * through -I; implemented in runtime.c. Only what is declared here exists. */
#ifndef HARK_STDLIB_H
#define HARK_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *memory, size_t size);
void free(void *memory);
_Noreturn void abort(void);

#endif
