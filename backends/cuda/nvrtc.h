/* CUDA C -> CUBIN by NVRTC, opened at run time. Used in the worker program, and in this process where the worker is
 * missing. */
#ifndef TG_CUDA_NVRTC_H
#define TG_CUDA_NVRTC_H
#include <stddef.h>

#include "graph/base/status.h"

/* TGRUN_NVRTC names another library. TG_CACHE and a reason when none is found. */
TgStatus nvrtc_open(void);
TgStatus nvrtc_version(int *major, int *minor);
/* arch such as "sm_90a". out: malloc'ed. A failure's message is the compiler's first error. */
TgStatus nvrtc_compile(void **out, size_t *size_bytes, const char *source, const char *arch);
#endif
