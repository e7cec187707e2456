/* Is a list's kernel right? Its results on plain and on hostile data are compared with those of the kernel without
 * OptOps, and with the interpreter's: all of them where that is affordable, else a sample (sample.c). A kernel that is
 * too large to run without OptOps runs with the heuristic's list in their place. Packed constants are filled as a
 * model's load fills them. */
#include "beam/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "beam/sample.h"
#include "graph/base/memory.h"

/* float operations and elements */
enum { INTERPRET_MOST = 300000, PLAIN_MOST_CPU = 2000000000, PLAIN_MOST_GPU = 20000000 };

/* ---- running one kernel once ---- */

static void blocks_make(void *out[KERNEL_PARAMS], const Kernel *base)
{
    for (uint32_t i = 0; i < base->nparam; i++) {
        const UOp *b = base->param[i].buffer;
        if (base->param[i].written) out[i] = mem_zeros(1, (size_t)(uop_numel(b) * dtype_size((DType)b->dtype)) + 1);
    }
}

static void blocks_free(void *out[KERNEL_PARAMS])
{
    for (int i = 0; i < KERNEL_PARAMS; i++) mem_free(out[i]), out[i] = NULL;
}

static TgStatus run_once(const Checker *c, const Kernel *k, Code *code, uint32_t at, Inputs *in, void *const *out)
{
    double seconds;
    return c->b->time(&seconds, c->d, code, at, k, inputs_fill, in, 1, 0, out);
}

static TgStatus run_alone(const Checker *c, Kernel *k, Inputs *in, void *const *out)
{
    Code *code = NULL;
    CompileStats stats = { 0 };
    TRY(c->b->compile(&code, c->d, &k, 1, &stats));
    TgStatus status = run_once(c, k, code, 0, in, out);
    c->b->code_free(code);
    return status;
}

/* ---- packed constants ---- */

static uint32_t slot_of(const Kernel *k, const UOp *buffer)
{
    uint32_t i = 0;
    while (i < k->nparam && k->param[i].buffer != buffer) i++;
    return i;
}

static TgStatus fill_packed(const Checker *c, Kernel *p, Inputs *from, void *to)
{
    OptList opts = { .count = 0 };
    void *out[KERNEL_PARAMS] = { to };
    heuristic_opts(&opts, p, c->t);
    TRY(opt_apply_list(p, &opts, c->t));
    TRY(kernel_lower(p, c->t, NULL));
    return run_alone(c, p, from, out);
}

/* The copy's data in place of the constant's. k: lowered, its parameters still those of the base. */
static TgStatus pack_one(const Checker *c, const Kernel *k, uint32_t slot, const Inputs *in, void **data,
                         size_t *size_bytes)
{
    Kernel *p = pack_kernel(k, slot);
    Inputs from = { .count = p->nparam };
    const UOp *size = uop_index(p->g, k->pack[slot]->numel);
    DType t = (DType)k->pack[slot]->value->dtype;
    *size_bytes = (size_t)(k->pack[slot]->numel * dtype_size(t));
    *data = mem_zeros(1, *size_bytes + 1);
    for (uint32_t i = 1; i < p->nparam; i++) {
        uint32_t s = slot_of(k, p->param[i].buffer);
        from.data[i] = in->data[s];
        from.size_bytes[i] = in->size_bytes[s];
    }
    from.data[0] = *data;
    from.size_bytes[0] = *size_bytes;
    p->param[0].buffer = uop_buffer(p->g, t, &size, 1, 0, SPACE_GLOBAL);
    TgStatus status = *data ? fill_packed(c, p, &from, *data) : fail(TG_LIMIT, "no memory to pack a constant");
    kernel_free(p);
    return status;
}

static TgStatus pack_all(const Checker *c, const Kernel *k, Inputs *in)
{
    TgStatus status = TG_OK;
    const Inputs plain = *in;
    for (uint32_t i = 0; i < k->nparam && status == TG_OK; i++)
        if (k->pack[i]) status = pack_one(c, k, i, &plain, &in->data[i], &in->size_bytes[i]);
    return status;
}

/* What is packed belongs to the copy of Inputs, the rest is borrowed. */
static void packed_free(const Kernel *k, Inputs *in, const Inputs *plain)
{
    for (uint32_t i = 0; i < k->nparam; i++)
        if (in->data[i] != plain->data[i]) mem_free(in->data[i]);
}

/* Parameters that are packed have other sizes: what stands behind them changes, as in a model. */
void pack_buffers(Kernel *k)
{
    for (uint32_t i = 0; i < k->nparam; i++) {
        if (!k->pack[i]) continue;
        const UOp *size = uop_index(k->g, k->pack[i]->numel);
        k->param[i].buffer = uop_buffer(k->g, (DType)k->pack[i]->value->dtype, &size, 1, i, SPACE_GLOBAL);
    }
}

static TgStatus run_list(const Checker *c, const Kernel *k, Code *code, uint32_t at, const Inputs *in, void *const *out)
{
    Inputs mine = *in;
    Kernel sized = *k;
    TgStatus status = pack_all(c, k, &mine);
    pack_buffers(&sized);
    if (status == TG_OK) status = run_once(c, &sized, code, at, &mine, out);
    packed_free(k, &mine, in);
    return status;
}

/* ---- what is wanted ---- */

static double work_of(const Kernel *k) { return (double)k->flops + (double)k->bytes / 4; }

static TgStatus interpret(const Kernel *base, const Inputs *in, void *out[KERNEL_PARAMS])
{
    RefMem mem[KERNEL_PARAMS] = { { 0 } };
    int64_t vars[KERNEL_VARS];
    for (uint32_t i = 0; i < base->nvar; i++) vars[i] = base->var[i]->vmax;
    for (uint32_t i = 0; i < base->nparam; i++) {
        mem[i] = (RefMem){ base->param[i].written ? out[i] : in->data[i], (int64_t)in->size_bytes[i] };
        if (base->param[i].written && out[i] != in->data[i]) memcpy(out[i], in->data[i], in->size_bytes[i]);
    }
    return ref_exec_root(base, mem, vars);
}

/* The interpreter's results for a sample. What two runs over different memory leave alike was written. */
static TgStatus interpret_sample(const Kernel *base, const Inputs *in, Want *w)
{
    void *other[KERNEL_PARAMS] = { 0 };
    TgStatus status = TG_OK;
    blocks_make(other, base);
    blocks_make(w->oracle, base);
    blocks_make(w->chosen, base);
    Kernel *part = kernel_sample(base, work_of(base), INTERPRET_MOST);
    for (int pass = 0; pass < 2 && status == TG_OK; pass++) {
        void **out = pass ? other : w->oracle;
        Inputs start = *in;
        for (uint32_t i = 0; i < base->nparam; i++)
            if (base->param[i].written && !base->param[i].read)
                memset(out[i], pass ? 0xff : 0, start.size_bytes[i]), start.data[i] = out[i];
        status = interpret(part, &start, out);
    }
    for (uint32_t i = 0; i < base->nparam && status == TG_OK; i++) {
        size_t size = base->param[i].written ? (size_t)dtype_size((DType)base->param[i].buffer->dtype) : 0,
               n = size ? (size_t)uop_numel(base->param[i].buffer) : 0;
        for (size_t e = 0; e < n; e++)
            ((uint8_t *)w->chosen[i])[e] = !memcmp((char *)w->oracle[i] + e * size, (char *)other[i] + e * size, size);
    }
    kernel_free(part);
    blocks_free(other);
    return status;
}

static TgStatus run_base(const Checker *c, const Inputs *in, void *const *out)
{
    Kernel *k = kernel_clone(c->base);
    Code *code = NULL;
    CompileStats stats = { 0 };
    OptList opts = { .count = 0 };
    if (work_of(k) > (c->t->max_block ? PLAIN_MOST_GPU : PLAIN_MOST_CPU)) heuristic_opts(&opts, k, c->t);
    TgStatus status = opt_apply_list(k, &opts, c->t);
    if (status == TG_OK) status = kernel_lower(k, c->t, NULL);
    if (status == TG_OK) status = c->b->compile(&code, c->d, &k, 1, &stats);
    if (status == TG_OK) status = run_list(c, k, code, 0, in, out);
    if (code) c->b->code_free(code);
    kernel_free(k);
    return status;
}

static TgStatus want_make(Checker *c, int which)
{
    Want *w = &c->want[which];
    if (w->ready) return TG_OK;
    blocks_make(w->plain, c->base);
    TRY(run_base(c, &c->in[which], w->plain));
    if (work_of(c->base) <= INTERPRET_MOST) {
        blocks_make(w->oracle, c->base);
        TRY(interpret(c->base, &c->in[which], w->oracle));
        w->interpreted = true;
    } else if (kernel_is_pure(c->base)) TRY(interpret_sample(c->base, &c->in[which], w));
    w->ready = true;
    return TG_OK;
}

/* ---- the check ---- */

TgStatus checker_init(Checker *c, const Backend *b, Device *d, const Kernel *base)
{
    *c = (Checker){ .b = b, .d = d, .t = b->target(d), .base = base };
    return inputs_make(&c->in[0], base, false) && inputs_make(&c->in[1], base, true)
        ? TG_OK
        : fail(TG_LIMIT, "no memory to time kernel %s", base->name);
}

void checker_free(Checker *c)
{
    for (int i = 0; i < 2; i++) {
        inputs_free(&c->in[i]);
        blocks_free(c->want[i].plain);
        blocks_free(c->want[i].oracle);
        blocks_free(c->want[i].chosen);
    }
    *c = (Checker){ 0 };
}

/* The chosen elements of an array, one after the other, in place of those before; returns how many. */
static int64_t gather(void *out, const void *from, const uint8_t *chosen, int64_t n, size_t size)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (chosen[i]) memcpy((char *)out + (size_t)m++ * size, (const char *)from + (size_t)i * size, size);
    return m;
}

static bool sample_agrees(const Comparison *all, const void *oracle, const uint8_t *chosen, char why[160])
{
    size_t size = (size_t)dtype_size(all->dtype), bytes = (size_t)all->numel * size + 1;
    void *got = mem_new(bytes), *want = mem_new(bytes);
    Comparison one = { .dtype = all->dtype, .got = got, .oracle = want, .terms = all->terms };
    one.numel = gather(got, all->got, chosen, all->numel, size);
    gather(want, oracle, chosen, all->numel, size);
    bool ok = results_agree(&one, why);
    mem_free(got);
    mem_free(want);
    return ok;
}

/* How many numbers are added up for one element: those of its share of the work, or of the longest reduce. */
static double terms_of(const Kernel *k, double outputs)
{
    Arena *a = arena_new();
    uint32_t n;
    double most = 1 + (double)k->flops / outputs;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        double trips = 1;
        for (uint32_t r = 1; order[i]->op == UOP_REDUCE && r < order[i]->nsrc; r++)
            trips *= (double)order[i]->src[r]->src[0]->vmax;
        if (trips > most) most = trips;
    }
    arena_free(a);
    return most;
}

static bool compare(const Checker *c, const Want *w, void *const *got, char why[160])
{
    for (uint32_t i = 0; i < c->base->nparam; i++) {
        if (!c->base->param[i].written) continue;
        const UOp *b = c->base->param[i].buffer;
        Comparison one = { (DType)b->dtype,
                           uop_numel(b),
                           got[i],
                           w->plain[i],
                           w->interpreted ? w->oracle[i] : NULL,
                           terms_of(c->base, (double)uop_numel(b) + 1) };
        if (!results_agree(&one, why)) return false;
        if (w->chosen[i] && !sample_agrees(&one, w->oracle[i], w->chosen[i], why)) return false;
    }
    return true;
}

/* TG_DIFFERS and `why`: its numbers are wrong. */
TgStatus check_list(Checker *c, const Kernel *k, Code *code, uint32_t at, char why[160])
{
    TgStatus status = TG_OK;
    for (int which = 0; which < 2 && status == TG_OK; which++) {
        void *got[KERNEL_PARAMS] = { 0 };
        status = want_make(c, which);
        blocks_make(got, c->base);
        if (status == TG_OK) status = run_list(c, k, code, at, &c->in[which], got);
        if (status == TG_OK && !compare(c, &c->want[which], got, why)) status = TG_DIFFERS;
        blocks_free(got);
    }
    return status;
}
