/* What the library and a worker say to each other over pipes. A job: JobHead, then arch and source (both with their final zero). An answer: AnswerHead, then bytes: a CUBIN,
 * or the error line when status is not TG_OK. Both sides are of one build. */
#ifndef TG_CUDA_PROTOCOL_H
#define TG_CUDA_PROTOCOL_H
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct { uint64_t magic, arch_bytes, source_bytes; } JobHead;
typedef struct { uint64_t status, size_bytes; } AnswerHead;
enum { PROTOCOL_MAGIC = 0x74677231 };

static inline bool write_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t k = write(fd, p, n);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static inline bool read_all(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t k = read(fd, p, n);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}
#endif
