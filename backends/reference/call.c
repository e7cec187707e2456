/* CALLs at tensor level (graph/custom.h): host functions, loops iteration by iteration, the branch that was chosen. In:
 * arguments as packed tensors. Out: results, in memory that the caller sized by their largest sizes, and the
 * DEFINE_VARs that the function sets. */
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/base/memory.h"
#include "graph/custom.h"
#include "graph/scalar.h"
#include "sched/plan.h"

enum { CALL_VARS = 64 };

static size_t bytes_of(const RefTensor *t) { return (size_t)(t->numel * dtype_size(t->dtype)); }

/* ---- host functions ---- */

static HostTensor host_tensor(Graph *g, const RefTensor *t)
{
    const UOp *dim[REF_RANK];
    for (uint32_t k = 0; k < t->rank; k++) dim[k] = uop_index(g, t->shape[k]);
    return (HostTensor){ t->dtype, graph_shape(g, dim, t->rank) };
}

static TgStatus call_host(Graph *g, const UOp *call, const RefTensor *arg, RefTensor *result, uint32_t nresult,
                          int64_t *vars)
{
    const HostEntry *entry = host_find(custom_name(call->src[0]));
    uint32_t nin = call->nsrc - 1, nout = 0, var[CALL_VARS], which[nresult + 1];
    HostTensor tensor[nin + nresult + 1];
    void *data[nin + nresult + 1];
    if (!entry) return fail(TG_UNSUPPORTED, "reference: no host function '%s'", custom_name(call->src[0]));
    for (uint32_t k = 0; k < CALL_VARS; k++) var[k] = k;
    for (uint32_t k = 0; k < nin; k++) tensor[k] = host_tensor(g, &arg[k]), data[k] = arg[k].data;
    for (uint32_t k = 0; k < nresult; k++) {
        if (result[k].dtype == DT_VOID) continue;
        tensor[nin + nout] = host_tensor(g, &result[k]);
        data[nin + nout] = result[k].data;
        which[nout++] = k;
    }
    return entry->fn(&(HostCall){ call, NULL, tensor, nin, nout, which, var }, data, vars);
}

/* ---- bodies ---- */

static bool is_true(const RefTensor *t) { return scalar_load(DT_BOOL, t->data, 0) != 0; }

/* Values of a body whose PARAMs from base on are param; one variable more than the caller's where step is not NULL. */
static TgStatus eval_body(RefTensor *out, Graph *g, const UOp *body, int64_t base, const void *const *param,
                          uint32_t nparam, const UOp *step, int64_t at, const RefInput *in)
{
    RefVar *var = mem_zeros(in->nvar + 1u, sizeof *var);
    RefInput sub = *in;
    if (in->nvar) memcpy(var, in->var, in->nvar * sizeof *var);
    if (step) var[sub.nvar++] = (RefVar){ step, at };
    sub.var = var;
    sub.param = param;
    sub.nparam = nparam;
    sub.base = base;
    TgStatus s = ref_eval(out, g, body->src, body->nsrc, &sub);
    mem_free(var);
    return s;
}

static void give(RefTensor *to, const RefTensor *from, int64_t row)
{
    size_t n = bytes_of(from);
    if (to->dtype != DT_VOID && n) memcpy((char *)to->data + (size_t)row * n, from->data, n);
}

typedef struct {
    Graph *g;
    const LoopAttr *attr;
    const UOp *body, *step;
    RefTensor *state, *value, *result;
    uint32_t nresult;
    const void **param;
    const RefInput *in;
} Iterations;

/* One iteration; value holds next states, rows, keep. */
static TgStatus run_iteration(Iterations *r, int64_t i, bool *keep)
{
    const LoopAttr *a = r->attr;
    for (uint32_t k = 0; k < a->states; k++) r->param[k] = r->state[k].data;
    TRY(eval_body(r->value, r->g, r->body, a->base, r->param, a->states + a->captured, r->step, i, r->in));
    for (uint32_t k = 0; k < a->rows; k++)
        if (a->states + k < r->nresult) give(&r->result[a->states + k], &r->value[a->states + k], i);
    *keep = !a->has_keep || is_true(&r->value[a->states + a->rows]);
    for (uint32_t k = 0; k < a->states; k++) {
        void *memory = r->state[k].data;
        memcpy(memory, r->value[k].data, bytes_of(&r->value[k]));
        r->state[k] = r->value[k];
        r->state[k].data = memory;
        if (k < r->nresult && loop_keeps_all(a, k)) give(&r->result[k], &r->state[k], i + 1);
    }
    for (uint32_t k = 0; k < r->body->nsrc; k++) ref_tensor_free(&r->value[k]);
    return TG_OK;
}

static TgStatus call_loop(Graph *g, const UOp *call, const RefTensor *arg, RefTensor *result, uint32_t nresult,
                          int64_t *vars, const RefInput *in)
{
    Arena *arena = arena_new();
    const LoopAttr *a = custom_attr(call->src[0], NULL);
    const UOp *const *meta = call->src[0]->src;
    int64_t trip = scalar_load(DT_I64, arg[0].data, 0), i = 0;
    bool keep = is_true(&arg[1]);
    TgStatus s = TG_OK;
    Iterations r = { g,
                 a,
                 meta[0],
                 meta[1],
                 NEW_N(arena, RefTensor, a->states + 1),
                 NEW_N(arena, RefTensor, meta[0]->nsrc + 1),
                 result,
                 nresult,
                 NEW_N(arena, const void *, a->states + a->captured + 1),
                 in };
    for (uint32_t k = 0; k < a->states; k++) {
        r.state[k] = arg[2 + k];
        /* it may grow */
        size_t now = bytes_of(&arg[2 + k]),
               most = (size_t)(uop_numel(meta[0]->src[k]) * dtype_size(meta[0]->src[k]->dtype));
        r.state[k].data = memcpy(arena_alloc(arena, now > most ? now : most), arg[2 + k].data, now);
    }
    for (uint32_t k = 0; k < a->captured; k++) r.param[a->states + k] = arg[2 + a->states + k].data;
    for (uint32_t k = 0; k < a->states && k < nresult; k++) give(&result[k], &r.state[k], 0);
    for (; i < trip && keep && s == TG_OK; i++) s = run_iteration(&r, i, &keep);
    for (uint32_t k = 0; k < a->states && k < nresult && s == TG_OK; k++)
        if (!loop_keeps_all(a, k)) give(&result[k], &r.state[k], 0);
    if (a->counted) vars[0] = i;
    arena_free(arena);
    return s;
}

static TgStatus call_if(Graph *g, const UOp *call, const RefTensor *arg, RefTensor *result, uint32_t nresult,
                        const RefInput *in)
{
    Arena *arena = arena_new();
    const BranchAttr *a = custom_attr(call->src[0], NULL);
    const UOp *body = call->src[0]->src[is_true(&arg[0]) ? 0 : 1];
    RefTensor *value = NEW_N(arena, RefTensor, body->nsrc + 1);
    const void **param = NEW_N(arena, const void *, a->captured + 1);
    for (uint32_t k = 0; k < a->captured; k++) param[k] = arg[1 + k].data;
    TgStatus s = eval_body(value, g, body, a->base, param, a->captured, NULL, 0, in);
    for (uint32_t k = 0; k < body->nsrc && s == TG_OK; k++) {
        if (k < nresult) give(&result[k], &value[k], 0);
        ref_tensor_free(&value[k]);
    }
    arena_free(arena);
    return s;
}

TgStatus ref_call(Graph *g, const UOp *call, const RefTensor *arg, RefTensor *result, uint32_t nresult, int64_t *vars,
                  const RefInput *in)
{
    if (custom_is(call, "loop")) return call_loop(g, call, arg, result, nresult, vars, in);
    if (custom_is(call, "if")) return call_if(g, call, arg, result, nresult, in);
    return call->src[0]->op == UOP_CUSTOMFUNCTION && call->src[0]->nsrc <= CALL_VARS
        ? call_host(g, call, arg, result, nresult, vars)
        : fail(TG_UNSUPPORTED, "reference: this call is not covered");
}
