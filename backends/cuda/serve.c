/* A worker's part: compiles CUDA C to CUBIN, job after job from standard input. A process of its own because NVRTC's
 * threads do not scale. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/child.h"
#include "backends/cuda/nvrtc.h"
#include "backends/cuda/protocol.h"
#include "graph/base/memory.h"

static TgStatus compile(const JobHead *h, void **bytes, size_t *size_bytes)
{
    char *text = mem_new(h->arch_bytes + h->source_bytes);
    if (!pipe_read(STDIN_FILENO, text, h->arch_bytes + h->source_bytes)) exit(TG_CACHE);
    TgStatus status = nvrtc_compile(bytes, size_bytes, text + h->arch_bytes, text);
    mem_free(text);
    return status;
}

int cuda_serve(void)
{
    JobHead h;
    while (pipe_read(STDIN_FILENO, &h, sizeof h)) {
        void *bytes = NULL;
        size_t size_bytes = 0;
        if (h.magic != PROTOCOL_MAGIC) return TG_USAGE;
        TgStatus status = compile(&h, &bytes, &size_bytes);
        const char *answer = status == TG_OK ? bytes : tg_error();
        AnswerHead a = { status, status == TG_OK ? size_bytes : strlen(answer) + 1 };
        if (!pipe_write(STDOUT_FILENO, &a, sizeof a) || !pipe_write(STDOUT_FILENO, answer, a.size_bytes))
            return TG_CACHE;
        mem_free(bytes);
    }
    return 0;
}
