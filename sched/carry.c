/* CARRY: the loop of a reduce axis stands outside of loops of the output; what the reduce has so far lies in LOCAL, an
 * element for each iteration of those.
 *
 * Comes in: form 3 with all its splits made, a reduce axis, and a loop of the output. a are that axis and those before
 * it, j that loop and the LOOP axes inside of it. Goes out: REDUCE(v; a.., rest..) is
 *     LOAD(INDEX(AFTER(T, END(STORE(INDEX(T, j'..), op(LOAD(INDEX(T, j'..), neutral, a != 0), REDUCE(v'; rest..))),
 *                             a.., j'..)), j..))
 * where j'.. are ranges of their own and v' is v there. So a block of iterations of a reads its part of an operand that
 * does not vary along j from a near cache again and again, where all iterations read more than that cache holds
 * (the panel of a long product). A sum is added up as NEST does it. UPCAST axes have elements of T of their own
 * (kept_widen). Must hold: sizes are known, nothing else is summed around the REDUCEs, none of their values is staged,
 * and no axis is split later.
 */
#include "graph/rewrite.h"
#include "sched/rangeify.h"

typedef struct {
    Kernel *k;
    Arena *arena;
    const UOp *axis, *loop[64], *twin[64], *place, *twin_place, *outer[64];
    uint32_t nloop, nouter;
    uint64_t outs, used;            /* bits of the output's ranges; of all numbers that are taken */
    int64_t slot, elements;
} Carry;

/* The loops of the output from the given one on, and a range in place of each. */
static TgStatus find_loops(Carry *c, const UOp *const *axis, uint32_t n, uint32_t first)
{
    Graph *g = c->k->g;
    c->place = c->twin_place = uop_index(g, 0);
    c->elements = 1;
    for (uint32_t i = 0; i < n && (c->outs & range_bit(axis[i])); i++) {
        if (i < first || range_type(axis[i]) != AXIS_LOOP) continue;
        const UOp *size = axis[i]->src[0];
        if (!uop_is_const(size)) return fail(TG_USAGE, "optops: CARRY in axis %u of symbolic size", i);
        if (!~c->used) return fail(TG_USAGE, "optops: more than 64 ranges");
        const UOp *twin = uop_range(g, __builtin_ctzll(~c->used), size, AXIS_LOOP);
        c->used |= range_bit(twin);
        c->place = index_math(g, UOP_ADD, index_math(g, UOP_MUL, c->place, size), axis[i]);
        c->twin_place = index_math(g, UOP_ADD, index_math(g, UOP_MUL, c->twin_place, size), twin);
        c->elements *= size->vmax;
        c->loop[c->nloop] = axis[i];
        c->twin[c->nloop++] = twin;
    }
    return c->nloop ? TG_OK : fail(TG_USAGE, "optops: CARRY in axis %u, which is no loop", first);
}

/* Values that other loops of the kernel store would be stored by two. */
static bool reads_stage(Carry *c, const UOp *u)
{
    uint32_t n;
    bool found = false;
    const UOp **order = uop_toposort(c->k->g, &u, 1, c->arena, &n);
    for (uint32_t i = 0; i < n; i++) found |= order[i]->op == UOP_AFTER;
    return found;
}

/* The reduce's axes up to the one that is named: the same of all reduces that have it. */
static bool find_outer(Carry *c, const UOp *reduce)
{
    uint32_t n = 0;
    do {
        const UOp *r = reduce->src[n + 1];
        if (range_type(r) != AXIS_REDUCE || !uop_is_const(r->src[0]) || (c->nouter && c->outer[n] != r)) return false;
        c->outer[n++] = r;
    } while (c->outer[n - 1] != c->axis);
    c->nouter = n;
    return true;
}

static const UOp *carried(Carry *c, const UOp *reduce)
{
    Graph *g = c->k->g;
    Op op = (Op)reduce->arg.i;
    DType t = (DType)reduce->dtype;
    const UOp *size = uop_index(g, c->elements), *memory = uop_buffer(g, t, &size, 1, c->slot++, SPACE_LOCAL),
              *part = reduce->src[0], *here = element_at(g, memory, c->twin_place), *number = uop_index(g, 0),
              *end[130];
    uint32_t rest = 1 + c->nouter, n = 1;
    if (reduce->nsrc > rest) part = uop_reduce_ranges(g, op, part, reduce->src + rest, reduce->nsrc - rest);
    part = uop_substitute(g, part, c->loop, c->twin, c->nloop);
    for (uint32_t i = 0; i < c->nouter; i++) {
        number = index_math(g, UOP_ADD, index_math(g, UOP_MUL, number, c->outer[i]->src[0]), c->outer[i]);
        end[n++] = c->outer[i];
    }
    for (uint32_t i = 0; i < c->nloop; i++) end[n++] = c->twin[i];
    const UOp *later = UOP(g, UOP_CMPNE, DT_VOID, NO_ARG, number, uop_index(g, 0)),
              *before = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, here, uop_neutral(g, op, t), later);
    end[0] = UOP(g, UOP_STORE, DT_VOID, NO_ARG, here, UOP(g, op, DT_VOID, NO_ARG, before, part));
    const UOp *all = uop_new(g, UOP_END, DT_VOID, NO_ARG, end, n);
    memory = UOP(g, UOP_AFTER, DT_VOID, NO_ARG, memory, all);
    return UOP(g, UOP_LOAD, DT_VOID, NO_ARG, element_at(g, memory, c->place));
}

TgStatus opt_carry(Kernel *k, const OptOp *o, const UOp *const *axis, uint32_t n, const Target *t)
{
    Carry c = { .k = k, .arena = arena_new(), .axis = axis[o->axis], .used = opt_numbers(k) };
    const UOp *from[16], *to[16];
    uint32_t count, found = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, c.arena, &count);
    TgStatus status = TG_OK;
    c.slot = local_free(order, count);
    for (uint32_t e = 0; e < k->root->nsrc; e++)
        for (uint32_t s = 1; k->root->src[e]->op == UOP_END && s < k->root->src[e]->nsrc; s++)
            c.outs |= range_bit(k->root->src[e]->src[s]);
    if (t->max_block) status = fail(TG_USAGE, "optops: CARRY on a device with workgroups");
    else if (k->root->nsrc != 1) status = fail(TG_USAGE, "optops: CARRY where several values are stored");
    else if (o->factor < 0 || (uint32_t)o->factor >= n || range_type(axis[o->factor]) != AXIS_LOOP)
        status = fail(TG_USAGE, "optops: CARRY in axis %d, which is no loop", o->factor);
    else status = find_loops(&c, axis, n, (uint32_t)o->factor);
    for (uint32_t i = 0; i < count && status == TG_OK; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_REDUCE || !ends_range(u, c.axis)) continue;
        if (u->arg.blob || (u->ranges & ~c.outs) || found == 16 || !find_outer(&c, u))
            status =
                fail(TG_USAGE, "optops: CARRY of axis %d, which is inside of another reduce's or no loop", o->axis);
        else if (reads_stage(&c, u))
            status = fail(TG_USAGE, "optops: CARRY of axis %d, which reads LOCAL memory", o->axis);
        else from[found] = u, to[found++] = carried(&c, u);
    }
    if (status == TG_OK && !found) status = fail(TG_USAGE, "optops: CARRY of axis %d, which no reduce has", o->axis);
    if (status == TG_OK)
        k->root = graph_rewrite(k->g, uop_substitute(k->g, k->root, from, to, found), rules_symbolic(), 0, NULL);
    arena_free(c.arena);
    return status == TG_OK ? graph_error(k->g) : status;
}
