/* A kernel's bytes, and pages for them. */
#define _GNU_SOURCE
#include "backends/x86/x86.h"

#include <string.h>
#include <sys/mman.h>

#include "backends/x86/lower.h"

TgStatus x86_assemble(Bytes *out, const Kernel *k, bool avx2)
{
    Mcode m = { .arena = arena_new(), .avx2 = avx2 };
    size_t size = out->size;
    uint32_t ncall = out->ncall;
    TgStatus s = mcode_lower(&m, k);
    if (!s && avx2) mcode_avx2(&m);
    if (!s) mcode_hoist(&m), mcode_split(&m), mcode_registers(&m);
    if (!s) s = mcode_encode(out, &m);
    if (s) out->size = size, out->ncall = ncall;
    arena_free(m.arena);
    return s;
}

void x86_link(Bytes *code)
{
    for (uint32_t k = 0; k < code->ncall; k++) {
        X86Function *f = x86_functions[code->call[k].function];
        memcpy(code->data + code->call[k].at, &f, sizeof f);
    }
}

void *x86_map(const Bytes *code)
{
    void *p = mmap(NULL, code->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    memcpy(p, code->data, code->size);
    if (!mprotect(p, code->size, PROT_READ | PROT_EXEC)) return p;
    munmap(p, code->size);
    return NULL;
}

void x86_unmap(void *pages, size_t size) { munmap(pages, size); }
