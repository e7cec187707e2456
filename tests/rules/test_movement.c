/* Rows of movement.c: random chains of movement ops on a small tensor; each row alone and the whole set must keep every
 * element where it was. Every row must fire. */
#include <stdlib.h>

#include "graph/print.h"
#include "graph/rules/rules.h"
#include "tests/test.h"

enum { RANK = 5, CHAINS = 6000, LARGEST = 400 };

static uint64_t seed = 1;
static int64_t rnd(int64_t n)
{
    return (int64_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}

/* ---- what an element is ---- */

static int64_t flat_of(const UOp *u, const int64_t *at)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < uop_rank(u); k++) n = n * uop_size(u, k) + at[k];
    return n;
}

static void unflat(const UOp *u, int64_t n, int64_t *at)
{
    for (uint32_t k = uop_rank(u); k-- > 0; n /= uop_size(u, k)) at[k] = n % uop_size(u, k);
}

/* The element of u at `at`: a number that tells PARAM and place, 0 for padding. */
static int64_t element(const UOp *u, const int64_t *at)
{
    const UOp *s = u->nsrc ? u->src[0] : NULL;
    int64_t to[RANK] = { 0 }, v;
    uint32_t n = uop_rank(u);
    switch (u->op) {
    case UOP_PARAM: return flat_of(u, at) + 1 + 1000 * (u->arg.i + 1);
    case UOP_RESHAPE: unflat(s, flat_of(u, at), to); return element(s, to);
    case UOP_PERMUTE:
        for (uint32_t k = 0; k < n; k++) to[blob_ints(u->arg.blob)[k]] = at[k];
        return element(s, to);
    case UOP_FLIP:
        for (uint32_t k = 0; k < n; k++) to[k] = blob_ints(u->arg.blob)[k] ? uop_size(u, k) - 1 - at[k] : at[k];
        return element(s, to);
    case UOP_EXPAND:
        for (uint32_t k = 0; k < n; k++) to[k] = uop_size(s, k) == 1 ? 0 : at[k];
        return element(s, to);
    case UOP_SHRINK:
        for (uint32_t k = 0; k < n; k++) to[k] = at[k] + u->src[1]->src[k]->arg.i;
        return element(s, to);
    case UOP_PAD:
        for (uint32_t k = 0; k < n; k++)
            if ((to[k] = at[k] - u->src[1]->src[k]->arg.i) < 0 || to[k] >= uop_size(s, k)) return 0;
        return element(s, to);
    case UOP_CAT:
        for (uint32_t k = 0; k < n; k++) to[k] = at[k];
        for (uint32_t k = 0; k < u->nsrc; k++) {
            if (to[u->arg.i] < (v = uop_size(u->src[k], (uint32_t)u->arg.i))) return element(u->src[k], to);
            to[u->arg.i] -= v;
        }
        break;
    case UOP_CONTIGUOUS: case UOP_DETACH: return element(s, at);
    default: break;
    }
    assert_true(false);
    return 0;
}

static void assert_same(Graph *g, const char *name, const UOp *was, const UOp *now)
{
    int64_t at[RANK];
    assert_ptr_equal(was->shape, now->shape);
    for (int64_t i = 0; i < uop_numel(was); i++) {
        unflat(was, i, at);
        if (element(was, at) == element(now, at)) continue;
        Text t = { 0 };
        graph_print(&t, g, was);
        text_add(&t, "->\n");
        graph_print(&t, g, now);
        print_error("%s: element %d differs\n%s", name, (int)i, t.s);
        assert_true(false);
    }
}

/* ---- random chains ---- */

static const UOp *sizes(Graph *g, const int64_t *v, uint32_t n)
{
    const UOp *d[RANK];
    for (uint32_t k = 0; k < n; k++) d[k] = uop_index(g, v[k]);
    return uop_sizes(g, d, n);
}

static const UOp *reshaped(Graph *g, const UOp *u)
{
    int64_t left = uop_numel(u), v[RANK];
    uint32_t n = 0;
    while (n < RANK - 1 && (left > 1 || rnd(3))) {
        int64_t f = 1 + rnd(6);
        while (left % f) f--;
        v[n++] = f, left /= f;
    }
    v[n++] = left;
    return UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, u, sizes(g, v, n));
}

static const UOp *permuted(Graph *g, const UOp *u)
{
    int64_t order[RANK];
    uint32_t n = uop_rank(u);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t j = (uint32_t)rnd(k + 1);
        order[k] = order[j], order[j] = k;
    }
    return UOP(g, UOP_PERMUTE, DT_VOID, ((Arg){ 0, graph_ints(g, order, n) }), u);
}

static const UOp *flipped(Graph *g, const UOp *u)
{
    int64_t flag[RANK];
    for (uint32_t k = 0; k < uop_rank(u); k++) flag[k] = rnd(4) == 0;
    return UOP(g, UOP_FLIP, DT_VOID, ((Arg){ 0, graph_ints(g, flag, uop_rank(u)) }), u);
}

static const UOp *expanded(Graph *g, const UOp *u)
{
    int64_t v[RANK];
    for (uint32_t k = 0; k < uop_rank(u); k++) v[k] = uop_size(u, k) == 1 && rnd(2) ? 1 + rnd(3) : uop_size(u, k);
    return UOP(g, UOP_EXPAND, DT_VOID, NO_ARG, u, sizes(g, v, uop_rank(u)));
}

static const UOp *cut(Graph *g, const UOp *u, Op op)
{
    int64_t at[RANK], v[RANK];
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        int64_t n = uop_size(u, k), more = rnd(3) ? 0 : rnd(3), less = rnd(3) ? 0 : rnd(n);
        if (op == UOP_SHRINK) v[k] = n - less, at[k] = rnd(less + 1);
        else v[k] = n + more, at[k] = rnd(more + 1);
    }
    return UOP(g, op, DT_VOID, NO_ARG, u, sizes(g, at, uop_rank(u)), sizes(g, v, uop_rank(u)));
}

static const UOp *joined(Graph *g, const UOp *u)
{
    const UOp *part[3] = { u, rnd(2) ? u : flipped(g, u), u };
    return uop_rank(u) ? uop_new(g, UOP_CAT, DT_VOID, ARG_I(rnd(uop_rank(u))), part, 1 + (uint32_t)rnd(3)) : u;
}

static const UOp *random_step(Graph *g, const UOp *u)
{
    switch (rnd(11)) {
    case 0: case 1: return reshaped(g, u);
    case 2: return permuted(g, u);
    case 3: return flipped(g, u);
    case 4: return expanded(g, u);
    case 5: case 6: return cut(g, u, UOP_SHRINK);
    case 7: return cut(g, u, UOP_PAD);
    case 8: return joined(g, u);
    case 9: return UOP(g, rnd(2) ? UOP_CONTIGUOUS : UOP_DETACH, DT_VOID, NO_ARG, u);
    default: return cut(g, cut(g, u, UOP_PAD), UOP_SHRINK);
    }
}

static const UOp *random_chain(Graph *g)
{
    const UOp *dim[3];
    for (int k = 0; k < 3; k++) dim[k] = uop_index(g, 1 + rnd(4));
    const UOp *u = uop_param(g, DT_F32, dim, 1 + (uint32_t)rnd(3), 0);
    for (int n = 1 + (int)rnd(6); n-- > 0;) {
        const UOp *next = random_step(g, u);
        if (uop_numel(next) <= LARGEST) u = next;
    }
    return u;
}

/* ---- tests ---- */

static void rows_keep_elements(void **state)
{
    (void)state;
    const RuleSet *set[64];
    uint32_t hits[64] = { 0 }, missed = 0;
    for (uint32_t k = 0; k < table_movement.count; k++)
        set[k] = ruleset_new((const RuleTable *const[]){ &(RuleTable){ "", &table_movement.rule[k], 1 } }, 1);
    for (int i = 0; i < CHAINS; i++) {
        Graph *g = graph_new();
        const UOp *u = random_chain(g);
        for (uint32_t k = 0; k < table_movement.count; k++) {
            const UOp *to = ruleset_apply(set[k], g, u, NULL);
            if (to) hits[k]++, assert_same(g, table_movement.rule[k].name, u, to);
        }
        graph_free(g);
    }
    for (uint32_t k = 0; k < table_movement.count; k++) {
        if (!hits[k]) print_error("row '%s' never fired\n", table_movement.rule[k].name), missed++;
        ruleset_free(set[k]);
    }
    assert_int_equal(missed, 0);
}

static uint32_t ops_in(const UOp *u) { return u->nsrc && u->op != UOP_PARAM ? 1 + ops_in(u->src[0]) : 0; }

static void the_set_keeps_elements(void **state)
{
    uint32_t before = 0, after = 0;
    (void)state;
    for (int i = 0; i < CHAINS; i++) {
        Graph *g = graph_new();
        const UOp *u = random_chain(g), *to = graph_rewrite(g, u, rules_movement(), 0, NULL);
        assert_int_equal(graph_error(g), TG_OK);
        assert_same(g, "all", u, to);
        before += ops_in(u), after += ops_in(to);
        graph_free(g);
    }
    print_message("ops before %u, after %u\n", before, after);
}

int main(int argc, char **argv)
{
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_keep_elements),
                                        cmocka_unit_test(the_set_keeps_elements) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
