/* OptOps: a list of (op, axis, argument) changes a kernel's ranges. Legality lives here alone: an illegal op is an
 * error with a reason and leaves the kernel as it was. Axes are numbered as opt_axes ends_range them at the moment of
 * the op: loops of the store in order, then those of each REDUCE. After a SPLIT the new axis stands next to the old one
 * (inside of it, or outside with `top`). To add an op: a kind in kernel.h, a name below, a case in opt_apply.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite.h"
#include "sched/rangeify.h"

static const char *const opt_name[OPT_COUNT] = { "SPLIT", "PADTO", "SWAP", "NOLOCALS", "TC",
                                                 "PACK",  "STAGE", "NEST", "MERGE",    "LANES", "STREAM", "KEEP", "CARRY" };
static const char *const target_name[AXIS_COUNT] = {
    [AXIS_GLOBAL] = "GLOBAL",
    [AXIS_LOCAL] = "LOCAL",
    [AXIS_WARP] = "WARP",
    [AXIS_THREAD] = "THREAD",
    [AXIS_LOOP] = "LOOP",
    [AXIS_REDUCE] = "REDUCE",
    [AXIS_GROUP_REDUCE] = "GROUP_REDUCE",
    [AXIS_UPCAST] = "UPCAST",
    [AXIS_UNROLL] = "UNROLL",
};
enum { ANYWHERE, INNER, OUTER };
static const struct { const char *from; int place; int32_t most; } target_rule[AXIS_COUNT] = {
#define TARGET(t, from, place, most, text) [AXIS_##t] = { from, place, most },
#include "sched/optops.def"
#undef TARGET
};

const char *opt_kind_name(OptKind k) { return opt_name[k]; }
const char *opt_target_name(AxisType t) { return target_name[t]; }

void opt_print(Text *out, const OptList *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const OptOp *o = &l->op[i];
        text_add(out, "%s%s", i ? "; " : "", opt_name[o->kind]);
        if (o->kind != OPT_NOLOCALS) text_add(out, " %d", o->axis);
        if (o->kind == OPT_SPLIT || o->kind == OPT_PADTO || o->kind == OPT_SWAP || o->kind == OPT_TC ||
            o->kind == OPT_CARRY)
            text_add(out, " %d", o->factor);
        if (o->kind == OPT_STAGE) text_add(out, " %d %d", o->factor, o->target);
        if (o->kind == OPT_SPLIT) text_add(out, " %s%s", target_name[o->target], o->top ? " TOP" : "");
        if (o->kind == OPT_PACK && o->top) text_add(out, " NARROW");
    }
}

static const char *word(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    while (*s == ' ') s++;
    for (; *s && *s != ' ' && *s != ';'; s++)
        if (n + 1 < cap) out[n++] = *s;
    out[n] = 0;
    return s;
}

static int find_name(const char *const *names, int n, const char *w)
{
    for (int i = 0; i < n; i++)
        if (names[i] && !strcmp(names[i], w)) return i;
    return -1;
}

static TgStatus parse_number(const char **s, int lo, int hi, int32_t *out)
{
    char w[24], *end;
    *s = word(*s, w, sizeof w);
    long v = strtol(w, &end, 10);
    if (!*w || *end || v < lo || v > hi) return fail(TG_USAGE, "optops: '%s' is not a number in %d..%d", w, lo, hi);
    *out = (int32_t)v;
    return TG_OK;
}

static TgStatus parse_one(OptOp *o, const char **s)
{
    char w[24];
    int32_t axis = 0;
    *s = word(*s, w, sizeof w);
    int kind = find_name(opt_name, OPT_COUNT, w);
    if (kind < 0) return fail(TG_USAGE, "optops: unknown op '%s'", w);
    *o = (OptOp){ .kind = (uint8_t)kind };
    if (kind != OPT_NOLOCALS) TRY(parse_number(s, 0, 63, &axis));
    o->axis = (int8_t)axis;
    if (kind == OPT_SPLIT || kind == OPT_PADTO || kind == OPT_SWAP || kind == OPT_TC)
        TRY(parse_number(s, 0, INT32_MAX, &o->factor));
    if (kind == OPT_CARRY) TRY(parse_number(s, 0, 63, &o->factor));
    if (kind == OPT_STAGE) {
        int32_t depth = 0;
        TRY(parse_number(s, 0, 63, &o->factor));
        TRY(parse_number(s, 1, 2, &depth));
        o->target = (uint8_t)depth;
    }
    if (kind == OPT_PACK) {
        const char *next = word(*s, w, sizeof w);
        if (!strcmp(w, "NARROW")) o->top = true, *s = next;
    }
    if (kind != OPT_SPLIT) return TG_OK;
    *s = word(*s, w, sizeof w);
    int target = find_name(target_name, AXIS_COUNT, w);
    if (target < 0) return fail(TG_USAGE, "optops: unknown axis type '%s'", w);
    o->target = (uint8_t)target;
    const char *next = word(*s, w, sizeof w);
    if (!strcmp(w, "TOP")) o->top = true, *s = next;
    return TG_OK;
}

TgStatus opt_parse(OptList *out, const char *text)
{
    out->count = 0;
    for (const char *s = text; *s;) {
        while (*s == ' ' || *s == ';') s++;
        if (!*s) break;
        if (out->count == OPT_MAX) return fail(TG_USAGE, "optops: more than %d ops", OPT_MAX);
        TRY(parse_one(&out->op[out->count], &s));
        out->count++;
        while (*s == ' ') s++;
        if (*s && *s != ';') return fail(TG_USAGE, "optops: unexpected text '%.20s'", s);
    }
    return TG_OK;
}

/* ---- rewriting ranges ---- */

static const UOp *identity(Graph *g, Op op, DType t)
{
    if (op == UOP_MUL) return uop_const_like(g, t, 1);
    if (op == UOP_ADD) return uop_const_like(g, t, 0);
    return dtype_is_float(t) ? uop_float(g, t, -__builtin_inf()) : uop_int(g, t, dtype_min(t));
}

const UOp *with_gate(Graph *g, const UOp *u, const UOp *const *src, const UOp *gate)
{
    const UOp *s[3] = { src[0], u->nsrc > 1 ? src[1] : NULL, u->nsrc > 2 ? src[2] : NULL };
    if (u->op == UOP_GUARD) {                                                     /* what is padded is not checked */
        s[0] = UOP(g, UOP_WHERE, DT_VOID, NO_ARG, gate, src[0],
                   uop_int(g, (DType)u->dtype, guard_otherwise(guard_kind(u->arg))));
        return uop_with(g, u, s);
    }
    if (u->op != UOP_LOAD && u->op != UOP_STORE) return uop_with(g, u, src);
    if (!s[1]) s[1] = uop_const_like(g, (DType)u->dtype, 0);
    s[2] = s[2] ? UOP(g, UOP_AND, DT_VOID, NO_ARG, s[2], gate) : gate;
    return uop_new(g, (Op)u->op, DT_VOID, u->arg, s, 3);
}

static const UOp *change_node(Graph *g, const UOp *u, const UOp **map, const Change *c)
{
    const UOp *src[72];
    uint32_t n = 0;
    bool closes = u->op == UOP_END || (u->op == UOP_REDUCE && !u->arg.blob), mine = closes && ends_range(u, c->old);
    for (uint32_t k = 0; k < u->nsrc; k++) {
        if (mine && k && u->src[k] == c->old)
            for (uint32_t j = 0; j < c->n; j++) src[n++] = c->list[j];
        else src[n++] = map[u->src[k]->id];
    }
    if (c->gate && u->op == UOP_REDUCE && mine)
        src[0] = UOP(g, UOP_WHERE, DT_VOID, NO_ARG, c->gate, src[0], identity(g, (Op)u->arg.i, (DType)u->dtype));
    /* its own gate may hold in the pad */
    if (c->gate && !closes && (u->ranges & range_bit(c->old))) return with_gate(g, u, src, c->gate);
    if (u->op == UOP_REDUCE && n == 1) return src[0];
    return uop_with_n(g, u, src, n);
}

void kernel_change(Kernel *k, const Change *c)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), **map = NEW_N(a, const UOp *, k->root->id + 1);
    for (uint32_t i = 0; i < n; i++)
        map[order[i]->id] = order[i] == c->old ? c->value : change_node(k->g, order[i], map, c);
    k->root = graph_rewrite(k->g, map[k->root->id], rules_symbolic(), 0, NULL);
    arena_free(a);
}

/* Loops of stages inside the kernel have numbers too, though they are no axes. */
uint64_t opt_numbers(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t used = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE) used |= range_bit(order[i]);
    arena_free(a);
    return used;
}

static int free_number(const Kernel *k)
{
    uint64_t used = opt_numbers(k);
    return ~used ? __builtin_ctzll(~used) : 64;
}

static const UOp *symbolic_parts(Graph *g, const UOp *size, int64_t f)
{
    return graph_rewrite(g, index_math(g, UOP_IDIV, index_math(g, UOP_ADD, size, uop_index(g, f - 1)), uop_index(g, f)),
                         rules_symbolic(), 0, NULL);
}

static const UOp *at_most(Graph *g, const UOp *a, const UOp *most)
{
    return UOP(g, UOP_WHERE, DT_VOID, NO_ARG, UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, a, most), a, most);
}

/* Factor 0 is the whole axis. Where a factor does not divide, the last part of an UPCAST or LOCAL begins early enough
 * to end with the axis: it overlaps the part before, and no access needs a gate. Of an axis of symbolic size, which may
 * be shorter than the factor, the elements beyond the end are the last one again; in a reduce they are the identity.
 * One that PADTO made a multiple of the factor, or that is one, is divided exactly. */
static TgStatus split(Kernel *k, const OptOp *o, const UOp *const *axis)
{
    const UOp *r = axis[o->axis];
    bool fixed = uop_is_const(r->src[0]), whole = !o->factor || (fixed && o->factor == r->src[0]->vmax);
    int64_t size = r->src[0]->vmax, f = whole ? size : o->factor;
    int number = free_number(k);
    bool exact = !fixed && !whole && f > 0 && index_divisor(r->src[0]) % f == 0;
    bool overlap = !whole && !exact && f < size && (size % f || !fixed) &&
        (o->target == AXIS_UPCAST || o->target == AXIS_LOCAL) && !o->top && range_type(r) == AXIS_LOOP &&
        kernel_is_pure(k);
    bool gated = !fixed && !whole && !exact && f < size && range_type(r) == AXIS_REDUCE;
    if (!fixed && !exact && !overlap && !gated && !(whole && (o->target == AXIS_GLOBAL || o->target == AXIS_THREAD)))
        return fail(TG_USAGE, "optops: axis %d has a symbolic size", o->axis);
    if (f < 1 || (size % f && !exact && !overlap && !gated))
        return fail(TG_USAGE, "optops: %lld does not divide axis %d of size %lld", (long long)f, o->axis,
                    (long long)size);
    if (!strchr(target_rule[o->target].from, axis_letter[range_type(r)]))
        return fail(TG_USAGE, "optops: axis %d of type %c cannot become %s", o->axis, axis_letter[range_type(r)],
                    target_name[o->target]);
    if (f > target_rule[o->target].most)
        return fail(TG_USAGE, "optops: %s of %lld; at most %d", target_name[o->target], (long long)f,
                    target_rule[o->target].most);
    if (number == 64) return fail(TG_USAGE, "optops: more than 64 ranges");
    Graph *g = k->g;
    Change c = { .old = r };
    const UOp *mine =
        uop_range(g, whole ? range_number(r) : number, whole ? r->src[0] : uop_index(g, f), (AxisType)o->target);
    if (whole) {
        c.value = c.list[0] = mine;
        c.n = 1;
    } else {
        const UOp *parts = fixed ? uop_index(g, (size + f - 1) / f) : symbolic_parts(g, r->src[0], f);
        const UOp *rest = uop_range(g, range_number(r), parts, range_type(r)), *outer = o->top ? mine : rest,
                  *inner = o->top ? rest : mine;
        const UOp *start = index_math(g, UOP_MUL, outer, inner->src[0]), *last = uop_index(g, size - f);
        if (overlap && fixed)
            start = UOP(g, UOP_WHERE, DT_VOID, NO_ARG, UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, start, last), start, last);
        c.value = index_math(g, UOP_ADD, start, inner);
        if (gated) c.gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, c.value, r->src[0]);
        else if (!fixed && !exact) c.value = at_most(g, c.value, index_math(g, UOP_ADD, r->src[0], uop_index(g, -1)));
        c.list[0] = outer;
        c.list[1] = inner;
        c.n = 2;
    }
    kernel_change(k, &c);
    return TG_OK;
}

static TgStatus padto(Kernel *k, const OptOp *o, const UOp *const *axis)
{
    const UOp *r = axis[o->axis];
    int64_t size = r->src[0]->vmax, m = o->factor;
    AxisType t = range_type(r);
    bool fixed = uop_is_const(r->src[0]);
    if (m < 2) return fail(TG_USAGE, "optops: PADTO of axis %d to a multiple of %lld", o->axis, (long long)m);
    if (t != AXIS_LOOP && t != AXIS_REDUCE && t != AXIS_GLOBAL) return fail(TG_USAGE, "optops: PADTO of a split axis");
    int64_t padded = (size + m - 1) / m * m;
    if (fixed && padded > 4 * size)
        return fail(TG_USAGE, "optops: PADTO makes axis %d more than four times as long", o->axis);
    if (fixed ? padded == size : index_divisor(r->src[0]) % m == 0) return TG_OK;
    const UOp *bound = fixed ? uop_index(k->g, padded)
                             : index_math(k->g, UOP_MUL, symbolic_parts(k->g, r->src[0], m), uop_index(k->g, m));
    const UOp *wide = uop_range(k->g, range_number(r), bound, t);
    Change c = { .old = r,
                 .value = wide,
                 .list = { wide },
                 .n = 1,
                 .gate = UOP(k->g, UOP_CMPLT, DT_VOID, NO_ARG, wide, r->src[0]) };
    kernel_change(k, &c);
    return TG_OK;
}

static bool is_reduced(Kernel *k, const UOp *range)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    bool found = false;
    for (uint32_t i = 0; i < count; i++) found |= order[i]->op == UOP_REDUCE && ends_range(order[i], range);
    arena_free(a);
    return found;
}

/* Every sum along one of these axes is one along the other too. */
static bool share_sums(const Kernel *k, const UOp *one, const UOp *two)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    bool share = true;
    for (uint32_t i = 0; i < count; i++)
        share &= order[i]->op != UOP_REDUCE || ends_range(order[i], one) == ends_range(order[i], two);
    arena_free(a);
    return share;
}

/* Two loops of the output, or two of the same sums. */
static TgStatus swap(Kernel *k, const OptOp *o, const UOp *const *axis, uint32_t n)
{
    if (o->factor < 0 || (uint32_t)o->factor >= n)
        return fail(TG_USAGE, "optops: SWAP with axis %d of %u", o->factor, n);
    const UOp *a = axis[o->axis], *b = axis[o->factor];
    bool reduced = is_reduced(k, a);
    if (reduced != is_reduced(k, b) || (reduced && !share_sums(k, a, b)))
        return fail(TG_USAGE, "optops: SWAP of a reduce axis with one that is not of the same sums");
    Arena *scratch = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &count),
              **map = NEW_N(scratch, const UOp *, k->root->id + 1), *src[72];
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        for (uint32_t s = 0; s < u->nsrc; s++) {
            src[s] = map[u->src[s]->id];
            if (u->op == (reduced ? UOP_REDUCE : UOP_END) && s && (u->src[s] == a || u->src[s] == b))
                src[s] = u->src[s] == a ? b : a;
        }
        map[u->id] = uop_with(k->g, u, src);
    }
    k->root = map[k->root->id];
    arena_free(scratch);
    return TG_OK;
}

/* REDUCE(v; outer.., axis..) becomes REDUCE(REDUCE(v; axis..); outer..): each iteration of the outer loops has a sum of
 * its own, so that a long sum rounds like a short one. What a TC sums stays inside. */
static TgStatus nest(Kernel *k, const OptOp *o, const UOp *r)
{
    Arena *a = arena_new();
    uint32_t count;
    bool done = false, held = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count), **map = NEW_N(a, const UOp *, k->root->id + 1),
              *src[72];
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        uint32_t at = 0;
        for (uint32_t s = 0; s < u->nsrc; s++) {
            src[s] = map[u->src[s]->id];
            if (s > 1 && u->src[s] == r && u->op == UOP_REDUCE && !u->arg.blob) at = s;
        }
        for (uint32_t s = 1; s < at; s++) held |= wmma_holds(k, o, u->src[s]);
        if (at) {
            const UOp *inner = uop_reduce_like(k->g, u, src[0], src + at, u->nsrc - at);
            map[u->id] = uop_reduce_like(k->g, u, inner, src + 1, at - 1);
            done = true;
        } else map[u->id] = uop_with(k->g, u, src);
    }
    if (!held) k->root = map[k->root->id];
    arena_free(a);
    if (held) return fail(TG_USAGE, "optops: NEST of axis %d would sum part of a TC outside of it", o->axis);
    return done ? TG_OK : fail(TG_USAGE, "optops: NEST of an axis that is no inner axis of a reduce");
}

/* Two neighbouring loops of the output are one, of which parts may go beyond the end of the inner one: rows of pixels
 * that are as many as registers hold, whatever the picture's width. Places in memory are quotients and remainders. */
static TgStatus merge(Kernel *k, const OptOp *o, const UOp *const *axis, uint32_t n)
{
    const UOp *a = axis[o->axis], *b = (uint32_t)o->axis + 1 < n ? axis[o->axis + 1] : NULL;
    if (!b || range_type(a) != AXIS_LOOP || range_type(b) != AXIS_LOOP)
        return fail(TG_USAGE, "optops: MERGE of axis %d and the next, which are not two loops", o->axis);
    if (!uop_is_const(a->src[0]) || !uop_is_const(b->src[0]) || a->src[0]->vmax > INT32_MAX / b->src[0]->vmax)
        return fail(TG_USAGE, "optops: MERGE of axis %d and the next, whose sizes are symbolic or large", o->axis);
    Arena *scratch = arena_new();
    const UOp *root = ranges_merged(k, a, b, scratch);
    arena_free(scratch);
    if (!root) return fail(TG_USAGE, "optops: MERGE of axis %d and the next, which are no neighbours", o->axis);
    k->root = root;
    return TG_OK;
}

/* Vectors lie along this axis of replicas, in place of that which expand finds best. */
static TgStatus lanes(Kernel *k, const UOp *axis, const Target *t)
{
    for (uint32_t i = 0; i < k->opts.count; i++)
        if (k->opts.op[i].kind == OPT_TC) return fail(TG_USAGE, "optops: LANES in a kernel with a TC");
    if (!expand_serves(k, axis, t))
        return fail(TG_USAGE, "optops: LANES of an axis that is no UPCAST or UNROLL of a vector's size");
    k->lanes |= range_bit(axis);
    return TG_OK;
}

/* THREAD loops lie outside of all others: the caller runs a part of them. */
/* UPCAST axes are no loops in the end. */
static bool threads_outermost(Kernel *k)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        bool inside = false;
        for (uint32_t s = 1; order[i]->op == UOP_END && s < order[i]->nsrc; s++) {
            AxisType type = range_type(order[i]->src[s]);
            ok &= type != AXIS_THREAD || !inside;
            inside |= type != AXIS_THREAD && type != AXIS_UPCAST;
        }
    }
    arena_free(a);
    return ok;
}

/* They copy what the loops read, in the loops' order, and then one may leave it: the loops stay as they are from then
 * on. */
bool opt_is_last(const OptOp *o)
{
    return o->kind == OPT_PACK || o->kind == OPT_STAGE || o->kind == OPT_STREAM || o->kind == OPT_CARRY;
}

bool opt_same(const OptList *a, const OptList *b)
{
    return a->count == b->count && !memcmp(a->op, b->op, a->count * sizeof *a->op);
}

bool kernel_streams(const Kernel *k, uint32_t slot)
{
    for (uint32_t i = 0; i < k->opts.count; i++)
        if (k->opts.op[i].kind == OPT_STREAM && (uint32_t)k->opts.op[i].axis == slot) return true;
    return false;
}

/* Whole vectors of a parameter's lines pass the caches by: they neither wait for the lines that they replace nor push
 * out what is read. Only the backend's text differs. */
static TgStatus opt_stream(const Kernel *k, uint32_t slot, const Target *t)
{
    if (!t->has_streams) return fail(TG_USAGE, "optops: STREAM on a device without such stores");
    if (slot >= k->nparam || !k->param[slot].written || k->param[slot].read || k->param[slot].guard)
        return fail(TG_USAGE, "optops: STREAM of parameter %u, which is not written alone", slot);
    if (kernel_streams(k, slot)) return fail(TG_USAGE, "optops: parameter %u has a STREAM", slot);
    return TG_OK;
}

/* May a value have more replicas than expand makes? Which axis becomes lanes says expand, so it is tried where all of
 * them together are too many. A TC and the PACKs behind it take replicas away. */
static bool is_too_long(const Kernel *k, const Target *t)
{
    for (uint32_t i = 0; i < k->opts.count; i++)
        if (k->opts.op[i].kind == OPT_TC) return false;
    const UOp *axis[64];
    uint32_t naxis = opt_axes(k, axis, 64), n;
    Arena *a = arena_new();
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    double most = 1;
    for (uint32_t i = 0; i < n; i++) {
        double replicas = 1;
        for (uint32_t j = 0; j < naxis; j++)
            if ((order[i]->ranges & range_bit(axis[j])) &&
                (range_type(axis[j]) == AXIS_UPCAST || range_type(axis[j]) == AXIS_UNROLL))
                replicas *= (double)axis[j]->src[0]->vmax;
        if (replicas > most) most = replicas;
    }
    arena_free(a);
    if (most <= REPLICAS_MAX) return false;
    Kernel *tried = kernel_clone(k);
    TgStatus status = kernel_expand(tried, t);
    kernel_free(tried);
    if (status != TG_OK) status_clear();
    return status != TG_OK;
}

TgStatus opt_apply(Kernel *k, const OptOp *o, const Target *t)
{
    const UOp *axis[64], *before = k->root;
    uint64_t lanes_before = k->lanes;
    uint32_t n = opt_axes(k, axis, 64);
    if (k->opts.count == OPT_MAX) return fail(TG_USAGE, "optops: more than %d ops", OPT_MAX);
    if (!opt_is_last(o) && k->opts.count && opt_is_last(&k->opts.op[k->opts.count - 1]))
        return fail(TG_USAGE, "optops: PACK, STAGE, STREAM and CARRY come last");
    if (k->opts.count && k->opts.op[k->opts.count - 1].kind == OPT_CARRY)
        return fail(TG_USAGE, "optops: CARRY comes last of all");
    if (o->kind == OPT_STAGE) {
        TRY(opt_stage(k, o, axis, n, t));
    } else if (o->kind == OPT_PACK) {
        TRY(opt_pack(k, (uint32_t)o->axis, o->top));
    } else if (o->kind == OPT_STREAM) {
        TRY(opt_stream(k, (uint32_t)o->axis, t));
    } else if (o->kind == OPT_NOLOCALS) {
        if (!t->has_locals) return fail(TG_USAGE, "optops: NOLOCALS on a device without locals");
    } else {
        if (o->axis < 0 || (uint32_t)o->axis >= n) return fail(TG_USAGE, "optops: axis %d of %u", o->axis, n);
        bool held = wmma_holds(k, o, axis[o->axis]) ||
            (o->kind == OPT_SWAP && o->factor >= 0 && (uint32_t)o->factor < n && wmma_holds(k, o, axis[o->factor])) ||
            (o->kind == OPT_MERGE && (uint32_t)o->axis + 1 < n && wmma_holds(k, o, axis[o->axis + 1]));
        if (held) return fail(TG_USAGE, "optops: axis %d is part of a TC", o->axis);
        if (o->kind == OPT_SPLIT) TRY(split(k, o, axis));
        else if (o->kind == OPT_PADTO) TRY(padto(k, o, axis));
        else if (o->kind == OPT_SWAP) TRY(swap(k, o, axis, n));
        else if (o->kind == OPT_NEST) TRY(nest(k, o, axis[o->axis]));
        else if (o->kind == OPT_MERGE) TRY(merge(k, o, axis, n));
        else if (o->kind == OPT_LANES) TRY(lanes(k, axis[o->axis], t));
        else if (o->kind == OPT_KEEP) TRY(opt_keep(k, axis[o->axis], t));
        else if (o->kind == OPT_CARRY) TRY(opt_carry(k, o, axis, n, t));
        else if (k->lanes) return fail(TG_USAGE, "optops: TC behind LANES");
        else TRY(opt_tc(k, o, axis, n, t));
    }
    if (!threads_outermost(k)) {
        k->root = before;
        return fail(TG_USAGE, "optops: a THREAD axis that is not outermost");
    }
    if (!t->max_block && kept_bytes(k) > t->l2_bytes / 2) {
        k->root = before;
        return fail(TG_USAGE, "optops: more than %lld bytes of LOCAL memory", (long long)(t->l2_bytes / 2));
    }
    bool replicates = o->kind == OPT_SPLIT && (o->target == AXIS_UPCAST || o->target == AXIS_UNROLL);
    if ((replicates || o->kind == OPT_LANES) && is_too_long(k, t)) {
        k->root = before;
        k->lanes = lanes_before;
        return fail(TG_USAGE, "optops: more than %d replicas of a value", REPLICAS_MAX);
    }
    k->opts.op[k->opts.count++] = *o;
    return TG_OK;
}

bool opt_try(OptList *l, Kernel *k, OptOp op, const Target *t)
{
    if (l->count >= OPT_MAX || opt_apply(k, &op, t) != TG_OK) return false;
    l->op[l->count++] = op;
    return true;
}

TgStatus opt_apply_list(Kernel *k, const OptList *l, const Target *t)
{
    for (uint32_t i = 0; i < l->count; i++) TRY(opt_apply(k, &l->op[i], t));
    return TG_OK;
}
