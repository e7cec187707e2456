/* Tensor-level evaluation. Nodes are visited sources first. A node whose elements are worth keeping (every REDUCE,
 * results of arithmetic up to STORE_MAX elements) is stored; the others (views, and the huge product under a sum) are
 * computed when an element of them is pulled. Chains of unstored nodes are cut at DEPTH_MAX, so recursion is bounded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/base/memory.h"
#include "graph/custom.h"
#include "graph/guard.h"
#include "graph/scalar.h"

enum { DEPTH_MAX = 24, STORE_MAX = 1 << 24 };

typedef struct {
    int64_t *dim, numel, *value;
    const void *memory;
    uint32_t depth;
    bool wanted, done;
} Node;
/* var: given ones, then those that calls set */
typedef struct {
    Graph *g;
    const RefInput *in;
    Arena *arena;
    Node *node;
    RefVar *var;
    uint32_t nvar;
    TgStatus status;
} Eval;

static int64_t pull(Eval *e, const UOp *u, const int64_t *idx);

static int64_t broken(Eval *e, TgStatus code, const char *what, const UOp *u, int64_t v)
{
    if (!e->status)
        e->status = fail(code, "reference: %s (%s %%%u, %lld)", what, op_name((Op)u->op), u->id, (long long)v);
    return 0;
}

/* ---- sizes ---- */

typedef struct { const RefVar *var; uint32_t n; } RefVars;

static bool ref_leaf(const void *from, const UOp *u, int64_t *out)
{
    const RefVars *v = from;
    if (u->op == UOP_BIND) return uop_value(u->src[1], ref_leaf, from, out);
    for (uint32_t k = 0; k < v->n; k++)
        if (v->var[k].var == u) return *out = v->var[k].value, true;
    return false;
}

bool ref_size(const UOp *u, const RefVar *var, uint32_t nvar, int64_t *out)
{
    return uop_value(u, ref_leaf, &(RefVars){ var, nvar }, out);
}

static int64_t size_value(Eval *e, const UOp *u)
{
    int64_t r;
    return ref_size(u, e->var, e->nvar, &r) ? r : broken(e, TG_USAGE, "a size without a value", u, 0);
}

static void measure(Eval *e, const UOp *u)
{
    Node *n = &e->node[u->id];
    n->dim = NEW_N(e->arena, int64_t, uop_rank(u));
    n->numel = 1;
    for (uint32_t k = 0; k < uop_rank(u); k++) n->numel *= n->dim[k] = size_value(e, uop_dim(u, k));
}

static int64_t place(Eval *e, const UOp *u, const int64_t *idx)
{
    const Node *n = &e->node[u->id];
    int64_t at = 0;
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        if (idx[k] < 0 || idx[k] >= n->dim[k]) return broken(e, TG_BAD_INPUT, "an index is out of range", u, idx[k]);
        at = at * n->dim[k] + idx[k];
    }
    return at;
}

static void unplace(const Node *n, uint32_t rank, int64_t at, int64_t *idx)
{
    for (uint32_t k = rank; k-- > 0; at /= n->dim[k] ? n->dim[k] : 1) idx[k] = n->dim[k] ? at % n->dim[k] : 0;
}

/* ---- elements ---- */

static int64_t pull_broadcast(Eval *e, const UOp *x, const int64_t *idx, uint32_t rank)
{
    int64_t from[REF_RANK];
    for (uint32_t k = 0; k < uop_rank(x); k++) from[k] = e->node[x->id].dim[k] == 1 ? 0 : idx[k + rank - uop_rank(x)];
    return pull(e, x, from);
}

static int64_t pull_guard(Eval *e, const UOp *u, const int64_t *v)
{
    int64_t word[GUARD_WORDS] = { 0 }, r = ref_guard(u, v[0], v[1], word);
    if (word[1] && !e->status) e->status = guard_fail(graph_buffer(e->g, guard_slot(u))->guard, TG_BAD_INPUT, word);
    return r;
}

static int64_t pull_alu(Eval *e, const UOp *u, const int64_t *idx)
{
    int64_t v[3] = { 0 }, r = 0;
    uint32_t rank = uop_rank(u);
    if (u->op == UOP_WHERE)
        return pull_broadcast(e, u->src[pull_broadcast(e, u->src[0], idx, rank) ? 1 : 2], idx, rank);
    for (uint32_t k = 0; k < u->nsrc; k++) v[k] = pull_broadcast(e, u->src[k], idx, rank);
    if (u->op == UOP_GUARD) return pull_guard(e, u, v);
    if (u->op == UOP_BITCAST) return scalar_bitcast((DType)u->src[0]->dtype, (DType)u->dtype, v[0]);
    return uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &r)
        ? r
        : broken(e, TG_BAD_INPUT, "division by zero", u, v[0]);
}

static int64_t pull_move(Eval *e, const UOp *u, const int64_t *idx)
{
    int64_t from[REF_RANK];
    const UOp *x = u->src[0];
    const Node *n = &e->node[x->id];
    const int64_t *arg = u->arg.blob ? blob_ints(u->arg.blob) : NULL;
    if (u->op == UOP_RESHAPE) unplace(n, uop_rank(x), place(e, u, idx), from);
    for (uint32_t k = 0; k < uop_rank(x); k++)
        switch (u->op) {
        case UOP_RESHAPE: break;
        case UOP_PERMUTE: from[arg[k]] = idx[k]; break;
        case UOP_FLIP: from[k] = arg[k] ? n->dim[k] - 1 - idx[k] : idx[k]; break;
        case UOP_EXPAND: from[k] = n->dim[k] == 1 ? 0 : idx[k]; break;
        case UOP_SHRINK: from[k] = idx[k] + size_value(e, u->src[1]->src[k]); break;
        case UOP_PAD:
            from[k] = idx[k] - size_value(e, u->src[1]->src[k]);
            if (from[k] < 0 || from[k] >= n->dim[k]) return 0;
            break;
        default: from[k] = idx[k]; break;
        }
    return pull(e, x, from);
}

static int64_t pull_index(Eval *e, const UOp *u, const int64_t *idx)
{
    int64_t from[REF_RANK];
    const UOp *x = u->src[0];
    uint32_t n = u->nsrc - 1;
    for (uint32_t k = 0; k < n; k++) {
        from[k] = pull(e, u->src[k + 1], idx);
        idx += uop_rank(u->src[k + 1]);
    }
    for (uint32_t k = n; k < uop_rank(x); k++) from[k] = *idx++;
    place(e, x, from);                                       /* checks */
    return e->status ? 0 : pull(e, x, from);
}

static int64_t pull_cat(Eval *e, const UOp *u, const int64_t *idx)
{
    int64_t from[REF_RANK], axis = u->arg.i;
    uint32_t s = 0;
    memcpy(from, idx, uop_rank(u) * sizeof *idx);
    while (from[axis] >= e->node[u->src[s]->id].dim[axis]) from[axis] -= e->node[u->src[s++]->id].dim[axis];
    return pull(e, u->src[s], from);
}

/* Floats accumulate in double and round once. */
static int64_t pull_reduce(Eval *e, const UOp *u, const int64_t *idx)
{
    const UOp *x = u->src[0];
    const Node *n = &e->node[x->id];
    DType t = (DType)u->dtype, acc = dtype_is_float(t) ? DT_F64 : t;
    const int64_t *axis = blob_ints(u->arg.blob);
    uint32_t count = blob_count(u->arg.blob), k = 0;
    int64_t from[REF_RANK], v[2] = { 0, 0 };
    memcpy(from, idx, uop_rank(u) * sizeof *idx);
    v[0] = u->arg.i == UOP_ADD ? 0
        : u->arg.i == UOP_MUL  ? (acc == DT_F64 ? scalar_of(1) : 1)
        : acc == DT_F64        ? scalar_of(-INFINITY)
                               : dtype_min(t);
    for (uint32_t i = 0; i < count; i++)
        if (n->dim[axis[i]] == 0) k = UINT32_MAX;
    while (k != UINT32_MAX && !e->status) {
        v[1] = pull(e, x, from);
        uop_eval((Op)u->arg.i, acc, acc, v, &v[0]);
        for (k = count; k-- > 0; from[axis[k]] = idx[axis[k]])
            if (++from[axis[k]] < n->dim[axis[k]]) break;
    }
    return acc == DT_F64 ? scalar_of(dtype_round(t, scalar_real(v[0]))) : v[0];
}

static int64_t pull(Eval *e, const UOp *u, const int64_t *idx)
{
    const Node *n = &e->node[u->id];
    if (n->value) return n->value[place(e, u, idx)];
    if (n->memory) return scalar_load((DType)u->dtype, n->memory, place(e, u, idx));
    switch ((Op)u->op) {
    case UOP_CONST: return u->arg.i;
    case UOP_IOTA: return idx[0];
    case UOP_DEFINE_VAR: return size_value(e, u);
    case UOP_BIND: return pull(e, u->src[1], idx);
    case UOP_INDEX: return pull_index(e, u, idx);
    case UOP_STACK: return pull(e, u->src[idx[0]], idx + 1);
    case UOP_CAT: return pull_cat(e, u, idx);
    case UOP_REDUCE: return pull_reduce(e, u, idx);
    case UOP_LOAD:
    case UOP_AFTER: return pull(e, u->src[0], idx);
    case UOP_GETTUPLE:
        return u->src[0]->op == UOP_TUPLE ? pull(e, u->src[0]->src[u->arg.i], idx)
                                          : broken(e, TG_UNSUPPORTED, "a call", u, 0);
    default: break;
    }
    if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) return pull_alu(e, u, idx);
    return op_is((Op)u->op, FLAG_MOVE) ? pull_move(e, u, idx)
                                       : broken(e, TG_UNSUPPORTED, "not a tensor-level value", u, 0);
}

/* ---- nodes ---- */

static bool is_leaf(const UOp *u)
{
    return u->op == UOP_CONST || u->op == UOP_IOTA || u->op == UOP_DEFINE_VAR || u->op == UOP_PARAM ||
        u->op == UOP_BUFFER || u->op == UOP_BIND || (u->op == UOP_GETTUPLE && u->src[0]->op == UOP_CALL);
}

static void find_memory(Eval *e, const UOp *u)
{
    const RefInput *in = e->in;
    const void *p = NULL;
    int64_t slot = u->op == UOP_BUFFER ? buffer_slot(u) : u->arg.i - in->base;
    if (u->op == UOP_PARAM) p = slot >= 0 && slot < in->nparam ? in->param[slot] : NULL;
    else if (in->buffer && slot < in->nbuffer && in->buffer[slot]) p = in->buffer[slot];
    else if (slot < graph_buffer_count(e->g)) p = graph_buffer(e->g, slot)->data;
    if (!p && e->node[u->id].numel) broken(e, TG_USAGE, "memory without data", u, slot);
    e->node[u->id].memory = p;
}

static void visit(Eval *e, const UOp *u)
{
    Node *n = &e->node[u->id];
    bool view = (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST) || u->op == UOP_INDEX || u->op == UOP_CAT ||
        u->op == UOP_STACK;
    int64_t idx[REF_RANK];
    if (u->dtype == DT_VOID) return;
    measure(e, u);
    if (u->op == UOP_PARAM || u->op == UOP_BUFFER) find_memory(e, u);
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (e->node[u->src[k]->id].depth >= n->depth) n->depth = e->node[u->src[k]->id].depth + 1;
    if (is_leaf(u) || (u->op != UOP_REDUCE && n->depth < DEPTH_MAX && (view || n->numel > STORE_MAX))) return;
    int64_t *value = mem_new((size_t)(n->numel + 1) * sizeof *value);
    for (int64_t i = 0; i < n->numel && !e->status; i++) {
        unplace(n, uop_rank(u), i, idx);
        value[i] = pull(e, u, idx);
    }
    n->value = value;
    n->depth = 0;
}

static void give(Eval *e, const UOp *u, RefTensor *out)
{
    const Node *n = &e->node[u->id];
    int64_t idx[REF_RANK];
    *out = (RefTensor){ .dtype = (DType)u->dtype,
                        .rank = uop_rank(u),
                        .numel = n->numel,
                        .data = mem_new((size_t)(n->numel * dtype_size(u->dtype)) + 1) };
    for (uint32_t k = 0; k < out->rank; k++) out->shape[k] = n->dim[k];
    for (int64_t i = 0; i < n->numel && !e->status; i++) {
        unplace(n, out->rank, i, idx);
        scalar_store(out->dtype, out->data, i, pull(e, u, idx));
    }
}

/* ---- calls ---- */

static const UOp *const *call_vars(const UOp *call, uint32_t *n)
{
    const UOp *f = call->src[0];
    uint32_t from = 0;
    while (from < f->nsrc && f->src[from]->op == UOP_TUPLE) from++;
    if (custom_is(call, "loop")) from++;
    *n = f->nsrc - from;
    return f->src + from;
}

/* What the call's variables are is not known yet: room for the largest. */
static void make_result(Eval *e, const UOp *u, RefTensor *t)
{
    *t = (RefTensor){ .dtype = (DType)u->dtype, .rank = uop_rank(u), .numel = 1 };
    for (uint32_t k = 0; k < t->rank; k++) {
        if (!ref_size(uop_dim(u, k), e->var, e->nvar, &t->shape[k])) t->shape[k] = uop_size(u, k);
        if (__builtin_mul_overflow(t->numel, t->shape[k], &t->numel)) t->numel = INT64_MAX;
    }
    if (t->numel > STORE_MAX * INT64_C(8)) broken(e, TG_LIMIT, "a result of unknown size is too large", u, t->numel);
    else t->data = arena_alloc(e->arena, (size_t)(t->numel * dtype_size(u->dtype)) + 1);
    e->node[u->id].memory = t->data;
}

static void visit_call(Eval *e, const UOp *call, const UOp *const *order, uint32_t count)
{
    enum { RESULTS = 256 };
    RefTensor *result = NEW_N(e->arena, RefTensor, RESULTS), *arg = NEW_N(e->arena, RefTensor, call->nsrc);
    uint32_t nresult = 0, nvar;
    const UOp *const *var = call_vars(call, &nvar);
    int64_t value[nvar + 1];
    RefInput in = *e->in;
    for (uint32_t i = 0; i < count && !e->status; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_GETTUPLE || u->src[0] != call || u->arg.i >= RESULTS) continue;
        make_result(e, u, &result[u->arg.i]);
        if (nresult <= u->arg.i) nresult = (uint32_t)u->arg.i + 1;
    }
    for (uint32_t k = 1; k < call->nsrc && !e->status; k++) give(e, call->src[k], &arg[k - 1]);
    in.var = e->var;
    in.nvar = e->nvar;
    if (!e->status) e->status = ref_call(e->g, call, arg, result, nresult, value, &in);
    for (uint32_t k = 1; k < call->nsrc; k++) ref_tensor_free(&arg[k - 1]);
    for (uint32_t k = 0; k < nvar && !e->status; k++) e->var[e->nvar++] = (RefVar){ var[k], value[k] };
}

/* Bodies of calls are no part of the graph around them. */
static void mark_wanted(Eval *e, const UOp *const *order, uint32_t count, const UOp *const *value, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) e->node[value[k]->id].wanted = true;
    for (uint32_t i = count; i-- > 0;)
        for (uint32_t k = 0; k < order[i]->nsrc && e->node[order[i]->id].wanted && order[i]->op != UOP_CUSTOMFUNCTION;
             k++)
            e->node[order[i]->src[k]->id].wanted = true;
}

static bool is_ready(Eval *e, const UOp *u)
{
    int64_t v;
    if (u->op == UOP_DEFINE_VAR) return ref_size(u, e->var, e->nvar, &v);
    for (uint32_t k = 0; k < u->nsrc && u->op != UOP_CUSTOMFUNCTION; k++)
        if (!e->node[u->src[k]->id].done) return false;
    return true;
}

/* Sources first; what needs a size that a call sets waits for the next pass. */
static void visit_all(Eval *e, const UOp *const *order, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) left += e->node[order[i]->id].wanted;
    for (uint32_t before = UINT32_MAX; left && left < before && !e->status;) {
        before = left;
        for (uint32_t i = 0; i < count && !e->status; i++) {
            Node *n = &e->node[order[i]->id];
            if (!n->wanted || n->done || !is_ready(e, order[i])) continue;
            if (order[i]->op == UOP_CALL) visit_call(e, order[i], order, count);
            else visit(e, order[i]);
            n->done = true;
            left--;
        }
    }
    for (uint32_t i = 0; i < count && left && !e->status; i++)
        if (order[i]->op == UOP_DEFINE_VAR && !e->node[order[i]->id].done && e->node[order[i]->id].wanted)
            broken(e, TG_USAGE, "a size without a value", order[i], 0);
}

static uint32_t count_vars(const UOp *const *order, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) n += order[i]->op == UOP_CALL ? order[i]->src[0]->nsrc : 0;
    return n;
}

TgStatus ref_eval(RefTensor *out, Graph *g, const UOp *const *value, uint32_t n, const RefInput *in)
{
    Eval e = { .g = g, .in = in, .arena = arena_new(), .nvar = in->nvar };
    uint32_t count;
    const UOp **order = uop_toposort(g, value, n, e.arena, &count);
    e.node = NEW_N(e.arena, Node, graph_count(g));
    e.var = NEW_N(e.arena, RefVar, in->nvar + count_vars(order, count) + 1);
    if (in->nvar) memcpy(e.var, in->var, in->nvar * sizeof *e.var);
    mark_wanted(&e, order, count, value, n);
    visit_all(&e, order, count);
    memset(out, 0, n * sizeof *out);
    for (uint32_t k = 0; k < n && !e.status; k++)
        if (value[k]->op != UOP_CALL) give(&e, value[k], &out[k]);
    for (uint32_t i = 0; i < count; i++) mem_free(e.node[order[i]->id].value);
    for (uint32_t k = 0; k < n && e.status; k++) ref_tensor_free(&out[k]);
    arena_free(e.arena);
    return e.status;
}

void ref_tensor_free(RefTensor *t)
{
    mem_free(t->data);
    t->data = NULL;
}
