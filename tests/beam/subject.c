#include "subject.h"

#include <stdlib.h>
#include <string.h>

const Target beam_target = { .kind = "cpu",
                             .vector_bytes = 32,
                             .vector_registers = 16,
                             .threads = 4,
                             .l1_bytes = 32 << 10,
                             .l2_bytes = 1 << 20,
                             .has_threads = true,
                             .has_fma = true };

Kernel *subject_of(Graph *g, const UOp *value, const Target *t, Schedule **schedule)
{
    const UOp *sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, value);
    if (sched_schedule(schedule, g, sink, t, NULL, NULL) != TG_OK) return NULL;
    for (uint32_t i = 0; i < (*schedule)->count; i++)
        if ((*schedule)->item[i].kernel && !(*schedule)->item[i].once) return (*schedule)->item[i].kernel;
    return NULL;
}

const UOp *subject_gemm(Graph *g, int64_t m, int64_t n, int64_t k)
{
    static float weight[1 << 16];
    const UOp *da[] = { uop_index(g, m), uop_index(g, k) }, *a = uop_param(g, DT_F32, da, 2, 0);
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) weight[i] = (float)((i * 7) % 13) / 13 - 0.3f;
    const UOp *b = tensor_const(g, DT_F32, (int64_t[]){ k, n }, 2, weight, (size_t)(n * k) * 4, "w");
    return matmul(g, a, b);
}

Kernel *subject_under(const Kernel *k, const Target *t, const char *list)
{
    OptList l;
    Kernel *c = kernel_clone(k);
    if (opt_parse(&l, list) == TG_OK && opt_apply_list(c, &l, t) == TG_OK && kernel_lower(c, t, NULL) == TG_OK)
        return c;
    kernel_free(c);
    return NULL;
}
