/* The rewrite engine. In: rows of rules (rewrite.h). Out: the same graph, each node replaced by its normal form.
 *
 * A RuleSet is one list of rows an op. Before a row's pattern is looked at, one AND tells whether the ops that it wants
 * among the sources are there (op numbers modulo 64: two ops may share a bit, which costs a look, never a wrong
 * answer). A pattern is solved as a stack of goals (pattern, node); a commutative op is the only branch, and since
 * bound slots are a bit mask handed down by value, going back costs nothing. The driver keeps an explicit stack of
 * frames, one a node under work, so a chain of a million nodes does not touch the C stack; its memo maps a node to its
 * normal form and is what makes shared nodes cost once. What must hold: a row keeps dtype and shape (checked: a result
 * that does not is refused), and each table makes something smaller (its head says what).
 */
#include "graph/rewrite.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"

enum { GOALS = 24, FRAME_STEPS = 1000 };

typedef struct { const Rule *rule; uint64_t needs; } Row;
struct RuleSet { Row *row[UOP_COUNT]; uint32_t count[UOP_COUNT]; };

/* ---- compiling tables ---- */

static uint64_t op_bit(Op op) { return UINT64_C(1) << (op & 63); }

static uint64_t needs_of(const Pat *p)
{
    uint64_t m = 0;
    for (int k = 0; p->kind == PAT_OP && k < 4 && p->src[k]; k++)
        if (p->src[k]->kind != PAT_ANY) m |= op_bit(p->src[k]->kind == PAT_OP ? (Op)p->src[k]->op : UOP_CONST);
    return m;
}

static void row_add(RuleSet *s, Op op, const Rule *r)
{
    uint32_t n = s->count[op]++;
    if (!(n & (n - 1))) s->row[op] = mem_grow(s->row[op], (n ? 2 * n : 1) * sizeof(Row));
    s->row[op][n] = (Row){ r, needs_of(r->see) };
}

const RuleSet *ruleset_new(const RuleTable *const *table, uint32_t n)
{
    RuleSet *s = mem_zeros(1, sizeof *s);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < table[t]->count; i++) {
            const Rule *r = &table[t]->rule[i];
            if (r->see->kind == PAT_OP) row_add(s, (Op)r->see->op, r);
            else
                for (int op = 0; op < UOP_COUNT; op++) row_add(s, (Op)op, r);
        }
    return s;
}

void ruleset_free(const RuleSet *set)
{
    if (!set) return;
    for (int op = 0; op < UOP_COUNT; op++) mem_free(set->row[op]);
    mem_free((void *)(uintptr_t)set);
}

const RuleSet *ruleset_once(const RuleSet *_Atomic *kept, const RuleTable *const *table, uint32_t n)
{
    const RuleSet *set = atomic_load_explicit(kept, memory_order_acquire), *other = NULL;
    if (set) return set;
    set = ruleset_new(table, n);
    for (int op = 0; op < UOP_COUNT; op++) mem_keep(set->row[op]);
    mem_keep((void *)(uintptr_t)set);
    if (atomic_compare_exchange_strong(kept, &other, set)) return set;
    ruleset_free(set);
    return other;
}

/* ---- matching and building ---- */

typedef struct { const Pat *pat; const UOp *node; } Goal;

static bool has_value(const UOp *u, int8_t value)
{
    if (u->op != UOP_CONST) return false;
    if (!dtype_is_float((DType)u->dtype)) return u->arg.i == value;
    double v = uop_const_float(u);
    return v == value && !(v == 0 && signbit(v));           /* -0 is not "zero": x + -0 and x + 0 differ */
}

/* The dtype of a small value among the sources of a template: that of its neighbours; a WHERE's condition is no
 * neighbour. */
static DType value_dtype(const Pat *p, int at, const UOp *const *built, const UOp *root)
{
    if (p->op == UOP_WHERE && at == 0) return DT_BOOL;
    for (int k = p->op == UOP_WHERE; k < 4 && p->src[k]; k++)
        if (k != at && built[k]) return (DType)built[k]->dtype;
    return (DType)root->dtype;
}

static const UOp *build(const Match *m, const Pat *p)
{
    if (p->kind == PAT_ANY || p->kind == PAT_CONST) return m->slot[p->slot];
    if (p->kind == PAT_VALUE) return uop_const_like(m->g, (DType)m->root->dtype, p->value);
    const UOp *src[4] = { NULL };
    uint32_t n = 0;
    for (; n < 4 && p->src[n]; n++)
        if (p->src[n]->kind != PAT_VALUE) src[n] = build(m, p->src[n]);
    for (uint32_t k = 0; k < n; k++)
        if (!src[k]) src[k] = uop_const_like(m->g, value_dtype(p, (int)k, src, m->root), p->src[k]->value);
    return uop_new(m->g, (Op)p->op, (DType)m->root->dtype, NO_ARG, src, n);
}

static const UOp *finish(Match *m, const Rule *r)
{
    if (r->only_if && !r->only_if(m)) return NULL;
    const UOp *to = r->write ? build(m, r->write) : r->make(m);
    if (!to || to == m->root || to->dtype != m->root->dtype || to->shape != m->root->shape) return NULL;
    return to;
}

static const UOp *solve(Match *m, const Rule *r, const Goal *given, uint32_t n, uint32_t bound)
{
    Goal goal[GOALS];
    memcpy(goal, given, n * sizeof *goal);
    while (n) {
        const Pat *p = goal[--n].pat;
        const UOp *u = goal[n].node;
        switch ((PatKind)p->kind) {
        case PAT_VALUE:
            if (!has_value(u, p->value)) return NULL;
            continue;
        case PAT_CONST:
            if (u->op != UOP_CONST) return NULL;
            /* fall through */
        case PAT_ANY:
            if (bound >> p->slot & 1) {
                if (m->slot[p->slot] != u) return NULL;
            } else m->slot[p->slot] = u, bound |= 1u << p->slot;
            continue;
        case PAT_OP: break;
        }
        if (u->op != p->op) return NULL;
        uint32_t want = 0;
        while (want < 4 && p->src[want]) want++;
        if (u->nsrc < want || (u->nsrc > want && !p->any_more)) return NULL;
        if (want == 2 && op_is((Op)u->op, FLAG_COMM) && u->src[0] != u->src[1]) {
            goal[n] = (Goal){ p->src[1], u->src[1] };
            goal[n + 1] = (Goal){ p->src[0], u->src[0] };
            const UOp *to = solve(m, r, goal, n + 2, bound);
            if (to) return to;
            goal[n++] = (Goal){ p->src[1], u->src[0] };
            goal[n++] = (Goal){ p->src[0], u->src[1] };
        } else
            for (uint32_t k = want; k-- > 0;) goal[n++] = (Goal){ p->src[k], u->src[k] };
    }
    return finish(m, r);
}

static const UOp *apply_rows(const RuleSet *s, Match *m, const Rule **fired)
{
    const UOp *u = m->root;
    uint32_t n = s->count[u->op];
    uint64_t have = 0;
    for (uint32_t k = 0; k < u->nsrc; k++) have |= op_bit((Op)u->src[k]->op);
    for (const Row *row = s->row[u->op], *end = row + n; row < end; row++) {
        if (row->needs & ~have) continue;
        const UOp *to = solve(m, row->rule, &(Goal){ row->rule->see, u }, 1, 0);
        if (to) return *fired = row->rule, to;
    }
    return NULL;
}

/* What a row builds computes for the node of the model that its root did. */
static const UOp *apply(const RuleSet *s, Match *m, const Rule **fired)
{
    if (!s->count[m->root->op]) return NULL;
    uint32_t origin = uop_origin(m->g, m->root);
    if (!origin) return apply_rows(s, m, fired);
    uint32_t before = graph_origin(m->g, origin);
    const UOp *to = apply_rows(s, m, fired);
    graph_origin(m->g, before);
    return to;
}

const UOp *ruleset_apply(const RuleSet *set, Graph *g, const UOp *u, void *user)
{
    const Rule *fired;
    Match m = { .g = g, .root = u, .user = user };
    return apply(set, &m, &fired);
}

/* ---- the driver ---- */

typedef struct { const UOp *from, *now; uint32_t next, steps; } Frame;
enum { MEMO_BLOCK = 32 };             /* ids */
struct Rewriter {
    Graph *g;
    const RuleSet *set;
    void *user;
    unsigned flags;
    const UOp **memo;                   /* blocks of results by id, NULL where there is none yet */
    uint32_t *memo_block, memo_blocks;  /* by id / MEMO_BLOCK: 1 and the place in memo, or 0 */
    uint32_t memo_used, memo_cap;
    Frame *frame;
    uint32_t top, cap;
    const UOp **src;
    uint32_t src_cap;
};

/* Nodes made together are requested together, so that blocks of ids share a place. NULL: the block has none yet. */
static const UOp **memo_of(const Rewriter *r, const UOp *u)
{
    uint32_t block = u->id / MEMO_BLOCK < r->memo_blocks ? r->memo_block[u->id / MEMO_BLOCK] : 0;
    return block ? r->memo + (size_t)(block - 1) * MEMO_BLOCK + u->id % MEMO_BLOCK : NULL;
}

static const UOp *memo_get(const Rewriter *r, const UOp *u)
{
    const UOp **to = memo_of(r, u);
    return to ? *to : NULL;
}

static void memo_put(Rewriter *r, const UOp *from, const UOp *to)
{
    uint32_t at = from->id / MEMO_BLOCK, blocks = r->memo_blocks;
    if (at >= blocks) {
        r->memo_blocks = at + at / 2 + 4;
        r->memo_block = mem_grow(r->memo_block, r->memo_blocks * sizeof *r->memo_block);
        memset(r->memo_block + blocks, 0, (r->memo_blocks - blocks) * sizeof *r->memo_block);
    }
    if (!r->memo_block[at]) {
        if (r->memo_used == r->memo_cap)
            r->memo = mem_grow(r->memo, (r->memo_cap = 2 * r->memo_cap + 4) * MEMO_BLOCK * sizeof *r->memo);
        memset(r->memo + (size_t)r->memo_used * MEMO_BLOCK, 0, MEMO_BLOCK * sizeof *r->memo);
        r->memo_block[at] = ++r->memo_used;
    }
    *memo_of(r, from) = to;
}

static void push(Rewriter *r, const UOp *u)
{
    if (r->top == r->cap) r->frame = mem_grow(r->frame, (r->cap = r->cap ? 2 * r->cap : 64) * sizeof *r->frame);
    r->frame[r->top++] = (Frame){ .from = u, .now = u };
}

static void pop(Rewriter *r, const UOp *last, const UOp *to)
{
    const UOp *from = r->frame[--r->top].from;
    memo_put(r, to, to);
    if (last != to) memo_put(r, last, to);
    if (from != to && from != last) memo_put(r, from, to);
}

/* u with its sources in normal form; every one has a memo. */
static const UOp *rebuilt(Rewriter *r, const UOp *u)
{
    if (u->nsrc > r->src_cap) r->src = mem_grow(r->src, (r->src_cap = u->nsrc * 2) * sizeof *r->src);
    for (uint32_t k = 0; k < u->nsrc; k++) r->src[k] = memo_get(r, u->src[k]);
    return uop_with(r->g, u, r->src);
}

/* One step of the node on top: a source to visit first, a row that fires, or its end. Returns the row that fired. */
static const Rule *step(Rewriter *r)
{
    Frame *f = &r->frame[r->top - 1];
    const UOp *u = f->now, *known, *to;
    const Rule *fired = NULL;
    if (f->next == 0 && (r->flags & REWRITE_TOP_DOWN) &&
        (to = apply(r->set, &(Match){ .g = r->g, .root = u, .user = r->user }, &fired))) {
        f->now = to, f->steps++;
        return fired;
    }
    for (; f->next < u->nsrc; f->next++)
        if (!memo_get(r, u->src[f->next])) {
            push(r, u->src[f->next++]);
            return NULL;
        }
    const UOp *v = rebuilt(r, u);
    if (v != f->from && (known = memo_get(r, v))) return pop(r, v, known), NULL;
    if (v == u && (r->flags & REWRITE_TOP_DOWN)) return pop(r, v, v), NULL;
    if (!(to = apply(r->set, &(Match){ .g = r->g, .root = v, .user = r->user }, &fired))) return pop(r, v, v), NULL;
    if ((known = memo_get(r, to))) return pop(r, v, known), fired;
    f->now = to, f->next = 0, f->steps++;
    return fired;
}

static const UOp *drive(Rewriter *r, const UOp *root)
{
    const UOp *known = memo_get(r, root);
    uint64_t steps = 0, limit = 1000000 + 50 * (uint64_t)graph_count(r->g);
    if (known) return known;
    push(r, root);
    while (r->top) {
        const Rule *fired = step(r);
        if (!fired || (++steps < limit && (!r->top || r->frame[r->top - 1].steps < FRAME_STEPS))) continue;
        r->top = 0;
        graph_fail_code(r->g, TG_INTERNAL, "rewriting does not end: rule '%s' fired last", fired->name);
        return root;
    }
    return memo_get(r, root);
}

static void start(Rewriter *r, Graph *g, const RuleSet *set, unsigned flags, void *user)
{
    *r = (Rewriter){ .g = g, .set = set, .flags = flags, .user = user };
}

static void stop(Rewriter *r)
{
    mem_free(r->memo);
    mem_free(r->memo_block);
    mem_free(r->frame);
    mem_free(r->src);
}

const UOp *graph_rewrite(Graph *g, const UOp *root, const RuleSet *set, unsigned flags, void *user)
{
    Rewriter r;
    start(&r, g, set, flags, user);
    root = drive(&r, root);
    stop(&r);
    return root;
}

Rewriter *rewriter_new(Graph *g, const RuleSet *set, void *user)
{
    Rewriter *r = mem_new(sizeof *r);
    start(r, g, set, 0, user);
    return r;
}

const UOp *rewriter_run(Rewriter *r, const UOp *root) { return drive(r, root); }

void rewriter_free(Rewriter *r)
{
    if (!r) return;
    stop(r);
    mem_free(r);
}
