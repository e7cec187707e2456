/* Tensor level: chains of movement ops become one, and those that move nothing go. In: any tensor graph. Out: the same
 * values and shapes. Each row takes a node away, or turns a PERMUTE into a RESHAPE. Element-wise identities of
 * symbolic.c ride along: what they drop need not be scheduled.
 */
#include "graph/rules/pat.h"
#include "graph/rules/poly.h"
#include "graph/rules/rules.h"

enum { RANK_MAX = 64 };

static const UOp *sizes_of(Graph *g, const Shape *s) { return uop_sizes(g, s->dim, s->rank); }

static const UOp *plus(Graph *g, const UOp *a, const UOp *b)
{
    Poly s;
    return poly_of(&s, g, a) && poly_add(&s, b, 1) ? poly_build(&s) : ALU2(g, ADD, a, b);
}

/* ---- same shape, nothing moved ---- */

static bool all_zero(const UOp *offsets)
{
    for (uint32_t k = 0; k < offsets->nsrc; k++)
        if (!uop_is_int_const(offsets->src[k], 0)) return false;
    return true;
}

static bool same_shape(const Match *m) { return m->root->shape == m->slot[X]->shape; }
static bool nothing_cut(const Match *m) { return same_shape(m) && all_zero(m->slot[Y]); }

static bool is_identity(const Match *m)
{
    const Blob *b = m->root->arg.blob;
    for (uint32_t k = 0; k < blob_count(b); k++)
        if (blob_ints(b)[k] != (m->root->op == UOP_PERMUTE ? k : 0)) return false;
    return true;
}

/* ---- two of a kind ---- */

static const UOp *reshape_once(const Match *m)
{
    return UOP(m->g, UOP_RESHAPE, DT_VOID, NO_ARG, m->slot[X], sizes_of(m->g, m->root->shape));
}
static const UOp *expand_once(const Match *m)
{
    return UOP(m->g, UOP_EXPAND, DT_VOID, NO_ARG, m->slot[X], sizes_of(m->g, m->root->shape));
}

static const UOp *permute_once(const Match *m)
{
    const int64_t *outer = blob_ints(m->root->arg.blob), *inner = blob_ints(m->root->src[0]->arg.blob);
    int64_t to[RANK_MAX];
    uint32_t n = uop_rank(m->root);
    for (uint32_t k = 0; k < n; k++) to[k] = inner[outer[k]];
    return UOP(m->g, UOP_PERMUTE, DT_VOID, ((Arg){ 0, graph_ints(m->g, to, n) }), m->slot[X]);
}

static const UOp *flip_once(const Match *m)
{
    const int64_t *outer = blob_ints(m->root->arg.blob), *inner = blob_ints(m->root->src[0]->arg.blob);
    int64_t to[RANK_MAX];
    uint32_t n = uop_rank(m->root);
    for (uint32_t k = 0; k < n; k++) to[k] = outer[k] ^ inner[k];
    return UOP(m->g, UOP_FLIP, DT_VOID, ((Arg){ 0, graph_ints(m->g, to, n) }), m->slot[X]);
}

/* SHRINK of SHRINK and PAD of PAD: the offsets add. */
static const UOp *offsets_add(const Match *m)
{
    const UOp *at[RANK_MAX], *outer = m->root->src[1], *inner = m->root->src[0]->src[1];
    for (uint32_t k = 0; k < outer->nsrc; k++) at[k] = plus(m->g, outer->src[k], inner->src[k]);
    return UOP(m->g, (Op)m->root->op, DT_VOID, NO_ARG, m->slot[X], uop_sizes(m->g, at, outer->nsrc), m->root->src[2]);
}

/* ---- one undoes the other ---- */

/* SHRINK(PAD(x)) that sees only x: a SHRINK of x. */
static const UOp *shrink_inside_pad(const Match *m)
{
    const UOp *x0 = m->slot[X], *off = m->root->src[1], *pad_off = m->root->src[0]->src[1], *at[RANK_MAX];
    for (uint32_t k = 0; k < off->nsrc; k++) {
        const UOp *size = uop_dim(m->root, k);
        if (off->src[k]->op != UOP_CONST || pad_off->src[k]->op != UOP_CONST) {
            if (off->src[k] != pad_off->src[k] || size != uop_dim(x0, k)) return NULL;
            at[k] = uop_index(m->g, 0);
            continue;
        }
        int64_t a = off->src[k]->arg.i - pad_off->src[k]->arg.i;
        if (a < 0 || (size != uop_dim(x0, k) && a + size->vmax > uop_dim(x0, k)->vmin) || (size == uop_dim(x0, k) && a))
            return NULL;
        at[k] = uop_index(m->g, a);
    }
    return UOP(m->g, UOP_SHRINK, DT_VOID, NO_ARG, x0, uop_sizes(m->g, at, off->nsrc), m->root->src[2]);
}

/* A PERMUTE that moves only axes of size 1 is a RESHAPE, which merges with its neighbours. */
static const UOp *permute_of_ones(const Match *m)
{
    int64_t last = -1;
    for (uint32_t k = 0; k < uop_rank(m->root); k++) {
        int64_t from = blob_ints(m->root->arg.blob)[k];
        if (uop_is_int_const(uop_dim(m->root, k), 1)) continue;
        if (from < last) return NULL;
        last = from;
    }
    return reshape_once(m);
}

/* ---- CAT ---- */

static const UOp *cat_one(const Match *m) { return m->root->nsrc == 1 ? m->root->src[0] : NULL; }

static const UOp *cat_flat(const Match *m)
{
    const UOp *u = m->root, *part[256];
    uint32_t n = 0;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        const UOp *s = u->src[k];
        bool open = s->op == UOP_CAT && s->arg.i == u->arg.i;
        uint32_t count = open ? s->nsrc : 1;
        if (n + count > 256) return NULL;
        for (uint32_t j = 0; j < count; j++) part[n++] = open ? s->src[j] : s;
    }
    return n > u->nsrc ? uop_new(m->g, UOP_CAT, DT_VOID, u->arg, part, n) : NULL;
}

/* A SHRINK that sees one part of a CAT only. */
static const UOp *shrink_of_cat(const Match *m)
{
    const UOp *cat = m->root->src[0], *off = m->root->src[1], *at[RANK_MAX];
    uint32_t axis = (uint32_t)cat->arg.i;
    const UOp *size = uop_dim(m->root, axis), *begin = off->src[axis];
    if (begin->op != UOP_CONST || size->op != UOP_CONST) return NULL;
    int64_t skipped = 0;
    for (uint32_t k = 0; k < cat->nsrc; k++) {
        const UOp *n = uop_dim(cat->src[k], axis);
        if (n->op != UOP_CONST) return NULL;
        if (begin->arg.i >= skipped && begin->arg.i + size->arg.i <= skipped + n->arg.i) {
            for (uint32_t i = 0; i < off->nsrc; i++)
                at[i] = i == axis ? uop_index(m->g, begin->arg.i - skipped) : off->src[i];
            return UOP(m->g, UOP_SHRINK, DT_VOID, NO_ARG, cat->src[k], uop_sizes(m->g, at, off->nsrc), m->root->src[2]);
        }
        skipped += n->arg.i;
    }
    return NULL;
}

static const Rule movement[] = {
    /* name                see                               write  only if       make */
    { "reshape-same",      P(RESHAPE, x, y),                 x,     same_shape,   NULL },
    { "expand-same",       P(EXPAND, x, y),                  x,     same_shape,   NULL },
    { "permute-same",      P(PERMUTE, x),                    x,     is_identity,  NULL },
    { "flip-none",         P(FLIP, x),                       x,     is_identity,  NULL },
    { "shrink-all",        P(SHRINK, x, y, z),               x,     nothing_cut,  NULL },
    { "pad-none",          P(PAD, x, y, z),                  x,     nothing_cut,  NULL },
    { "reshape-reshape",   P(RESHAPE, P(RESHAPE, x, y), z),  NULL,  NULL,         reshape_once },
    { "expand-expand",     P(EXPAND, P(EXPAND, x, y), z),    NULL,  NULL,         expand_once },
    { "permute-permute",   P(PERMUTE, P(PERMUTE, x)),        NULL,  NULL,         permute_once },
    { "flip-flip",         P(FLIP, P(FLIP, x)),              NULL,  NULL,         flip_once },
    { "shrink-shrink",     P(SHRINK, P(SHRINK, x, y, z), w, p), NULL, NULL,       offsets_add },
    { "pad-pad",           P(PAD, P(PAD, x, y, z), w, p),    NULL,  NULL,         offsets_add },
    { "shrink-pad",        P(SHRINK, P(PAD, x, y, z), w, p), NULL,  NULL,         shrink_inside_pad },
    { "permute-ones",      P(PERMUTE, x),                    NULL,  NULL,         permute_of_ones },
    { "cat-one",           P_MORE(CAT, x),                   NULL,  NULL,         cat_one },
    { "cat-cat",           P_MORE(CAT, x),                   NULL,  NULL,         cat_flat },
    { "shrink-cat",        P(SHRINK, P_MORE(CAT, x), y, z),  NULL,  NULL,         shrink_of_cat },
    { "contiguous-twice",  P(CONTIGUOUS, P(CONTIGUOUS, x)),  P(CONTIGUOUS, x), NULL, NULL },
    { "detach",            P(DETACH, x),                     x,     NULL,         NULL },
};
const RuleTable table_movement = RULES(movement);

const RuleSet *rules_movement(void)
{
    static const RuleTable *const all[] = { &table_movement, &table_simple, &table_logic };
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 3);
}
