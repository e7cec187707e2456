/* tgrun-worker: compiles CUDA C to CUBIN, job after job from standard input, until it closes. A program of its own because NVRTC's threads do not scale and because
 * nothing may fork once CUDA or a thread team runs. Not for users: found beside the library or the program (workers.c). */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/nvrtc.h"
#include "backends/cuda/worker/protocol.h"

static TgStatus compile(const JobHead *h, void **bytes, size_t *size_bytes)
{
    char *text = malloc(h->arch_bytes + h->source_bytes);
    if (!text || !read_all(STDIN_FILENO, text, h->arch_bytes + h->source_bytes)) exit(TG_CACHE);
    TgStatus status = nvrtc_compile(bytes, size_bytes, text + h->arch_bytes, text);
    free(text);
    return status;
}

int main(void)
{
    JobHead h;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);                    /* Ctrl-C is for the program, which then closes our input */
    while (read_all(STDIN_FILENO, &h, sizeof h)) {
        void *bytes = NULL;
        size_t size_bytes = 0;
        if (h.magic != PROTOCOL_MAGIC) return TG_USAGE;
        TgStatus status = compile(&h, &bytes, &size_bytes);
        const char *answer = status == TG_OK ? bytes : tg_error();
        AnswerHead a = { status, status == TG_OK ? size_bytes : strlen(answer) + 1 };
        if (!write_all(STDOUT_FILENO, &a, sizeof a) || !write_all(STDOUT_FILENO, answer, a.size_bytes)) return TG_CACHE;
        free(bytes);
    }
    return 0;
}
