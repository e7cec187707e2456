/* Shared objects of kernels, as the compiler wrote them, in memory. */
#ifndef TG_CPU_LIBRARY_H
#define TG_CPU_LIBRARY_H
#include "backends/cpu/cpu.h"

/* Belongs to what `of` belongs to, to which a thread behind the runs adds. NULL: it cannot be loaded (dlerror). */
void *library_open(const Code *of, const void *bytes, size_t size);
void library_close(void *library);
CpuKernel library_find(void *library, const char *symbol);             /* NULL: it has none of that name */
#endif
