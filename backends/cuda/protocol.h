/* What the library and a worker say to each other over pipes. A job: JobHead, then arch and source (both with their
 * final zero). An answer: AnswerHead, then bytes: a CUBIN, or the error line when status is not TG_OK. Both sides are
 * of one build. */
#ifndef TG_CUDA_PROTOCOL_H
#define TG_CUDA_PROTOCOL_H
#include <stdint.h>

typedef struct { uint64_t magic, arch_bytes, source_bytes; } JobHead;
typedef struct { uint64_t status, size_bytes; } AnswerHead;
enum { PROTOCOL_MAGIC = 0x74677231 };

/* serve.c: compiles what standard input brings until it closes; the process's exit code */
int cuda_serve(void);
#endif
