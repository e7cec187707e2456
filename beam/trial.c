/* See trial.h. To let the heuristics know something more of a kernel: a field, filled in by `look`. */
#include "beam/trial.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"

/* ---- facts ---- */

static void look_access(Trial *p, const UOp *u, const UOp *const *axis)
{
    const UOp *index = u->src[0];
    if (index->op != UOP_INDEX || index->src[0]->op != UOP_PARAM || p->naccess == ACCESSES) return;
    Access *a = &p->access[p->naccess++];
    a->store = u->op == UOP_STORE;
    a->slot = (uint32_t)index->src[0]->arg.i;
    a->constant = p->k->param[a->slot].constant;
    a->gated = u->nsrc > 2;
    a->bytes = (uint32_t)dtype_size((DType)index->dtype);
    a->at = index->src[1];
    a->placed = range_data(p->k->g, a->at);
    a->ranges = index->ranges | (u->nsrc > 2 ? u->src[2]->ranges : 0);
    for (uint32_t i = 0; i < p->naxis; i++) {
        int n = p->number[i];
        a->step[n] = range_step(a->at, axis[i]);
        if (a->step[n] == NO_STEP && range_reach(a->at, axis[i]) != NO_STEP) a->scattered |= range_bit(axis[i]);
    }
}

static void look_axes(Trial *p, const UOp *const *axis)
{
    p->elements = p->reduced = 1;
    for (uint32_t i = 0; i < 64; i++) p->size[i] = p->least[i] = 1;
    for (uint32_t i = 0; i < p->naxis; i++) {
        int n = p->number[i] = range_number(axis[i]);
        p->size[n] = axis[i]->src[0]->vmax;
        p->least[n] = axis[i]->src[0]->vmin > 1 ? axis[i]->src[0]->vmin : 1;
        if (!uop_is_const(axis[i]->src[0])) p->symbolic |= range_bit(axis[i]);
        if (range_type(axis[i]) == AXIS_LOOP)
            p->outs |= range_bit(axis[i]), p->nout++, p->elements *= (double)p->size[n];
        else p->reduces |= range_bit(axis[i]);
    }
    p->rows = p->outs;
}

static const UOp *through_casts(const UOp *u)
{
    while (u->op == UOP_CAST) u = u->src[0];
    return u;
}

static void look_reduce(Trial *p, const UOp *u)
{
    double terms = 1;
    for (uint32_t k = 1; k < u->nsrc; k++) terms *= (double)u->src[k]->src[0]->vmax;
    if (terms > p->reduced) p->reduced = terms;
    p->rows &= u->ranges;
    for (uint64_t m = u->ranges & p->outs; m; m &= m - 1) p->depend[__builtin_ctzll(m)]++;
    const UOp *m = u->arg.i == UOP_ADD ? through_casts(u->src[0]) : u;
    uint64_t ranges = u->ranges & ~p->shared;
    if (m->op != UOP_MUL || m->src[0]->ranges == m->src[1]->ranges) return;
    if ((ranges & p->outs) != p->outs || p->nested) return;
    p->contraction = true;
    p->nested = ranges != p->outs;
    p->products = (DType)through_casts(m->src[0])->dtype;
}

static void look(Trial *p)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(p->k->g, &p->k->root, 1, a, &n), *axis[64];
    uint32_t axes = opt_axes(p->k, axis, 64);
    for (uint32_t i = 0; i < axes; i++)
        if (range_type(axis[i]) == AXIS_THREAD) p->shared |= range_bit(axis[i]);
        else axis[p->naxis++] = axis[i];
    look_axes(p, axis);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_LOAD || u->op == UOP_STORE) look_access(p, u, axis);
        if (u->op == UOP_REDUCE) look_reduce(p, u);
        p->work += (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_REDUCE) && dtype_is_float((DType)u->dtype);
    }
    arena_free(a);
}

/* ---- the copy ---- */

void trial_again(Trial *p, const Kernel *k)
{
    if (p->k) kernel_free(p->k);
    *p = (Trial){
        .k = kernel_clone(k), .t = p->t, .out = p->out, .lanes = p->t->vector_bytes / 4 > 1 ? p->t->vector_bytes / 4 : 1
    };
    p->out->count = 0;
    for (uint32_t i = 0; i < k->chain.count; i++) trial_op(p, k->chain.op[i]);
    look(p);
}

Trial *trial_new(OptList *out, const Kernel *k, const Target *t)
{
    Trial *p = mem_zeros(1, sizeof *p);
    p->t = t;
    p->out = out;
    trial_again(p, k);
    return p;
}

void trial_free(Trial *p)
{
    kernel_free(p->k);
    mem_free(p);
    status_clear();                                     /* of what was refused */
}

/* ---- ops ---- */

bool trial_op(Trial *p, OptOp op) { return opt_try(p->out, p->k, op, p->t); }

bool trial_split(Trial *p, int number, int64_t factor, AxisType target, bool top)
{
    OptOp op = { .kind = OPT_SPLIT, .axis = (int8_t)opt_axis(p->k, number), .target = (uint8_t)target,
                 .factor = (int32_t)factor, .top = top };
    bool done = op.axis >= 0 && factor > 1 && trial_op(p, op);
    if (done && (target == AXIS_UPCAST || target == AXIS_UNROLL))
        p->together[number] = factor * (p->together[number] ? p->together[number] : 1);
    return done;
}

bool trial_merge(Trial *p, int number)
{
    if (!trial_op(p, (OptOp){ .kind = OPT_MERGE, .axis = (int8_t)opt_axis(p->k, number) })) return false;
    *p = (Trial){ .k = p->k, .t = p->t, .out = p->out, .lanes = p->lanes };
    look(p);
    return true;
}

int64_t trial_size(const Trial *p, int number)
{
    const UOp *axis[64];
    int at = opt_axis(p->k, number);
    if (at < 0) return 1;
    opt_axes(p->k, axis, 64);
    return range_type(axis[at]) == AXIS_LOOP || range_type(axis[at]) == AXIS_REDUCE ? axis[at]->src[0]->vmax : 1;
}

/* Is it narrow, and read for a row or two only? Then its sum waits for memory, and arithmetic on it is free. */
static bool stays_narrow(const Trial *p, const Access *a)
{
    double rows = 1;
    for (uint32_t i = 0; i < p->nout; i++)
        if (!(a->ranges >> p->number[i] & 1)) rows *= (double)p->size[p->number[i]];
    return a->bytes < 4 && rows <= 2;
}

/* Rows begin with lines of memory, and neighbours are vectors. */
static bool stores_lines(const Trial *p, const Access *a)
{
    bool has_neighbours = false;
    for (uint32_t i = 0; i < p->nout; i++) {
        int64_t step = a->step[p->number[i]];
        if (!(a->ranges >> p->number[i] & 1)) continue;
        if (step == 1 && p->size[p->number[i]] * a->bytes >= LINE) has_neighbours = true;
        else if (step == NO_STEP || step * a->bytes % LINE) return false;
    }
    return has_neighbours;
}

void trial_stream(Trial *p)
{
    if (!p->t->has_streams || p->k->chain.count) return;                    /* a chain's next reads it at once */
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store && p->k->param[a->slot].far && stores_lines(p, a))
            trial_op(p, (OptOp){ .kind = OPT_STREAM, .axis = (int8_t)a->slot });
    }
}

void trial_pack(Trial *p)
{
    uint64_t done = 0;
    for (int narrow = 1; narrow >= 0; narrow--)
        for (uint32_t i = 0; i < p->naccess; i++) {
            const Access *a = &p->access[i];
            if (!a->constant || !(a->ranges & p->reduces) || (done >> a->slot & 1) || stays_narrow(p, a) < narrow)
                continue;
            done |= UINT64_C(1) << a->slot;
            trial_op(p, (OptOp){ .kind = OPT_PACK, .axis = (int8_t)a->slot, .top = narrow });
        }
}

bool trial_shares(const Trial *p, int number, int lane)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && (a->ranges & p->reduces) && (a->ranges >> lane & 1) && !(a->ranges >> number & 1)) return true;
    }
    return false;
}
