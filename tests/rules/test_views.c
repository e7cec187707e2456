/* Chains of views as index math: random reshape, permute, shrink, pad, flip and stride maps are written as rangeify
 * writes them, simplified, and compared with the plain map at every point. A table of chains that must come out without
 * any division stands below.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graph/print.h"
#include "graph/rewrite.h"
#include "tests/test.h"

enum { RANK = 6, DEEP = 6 };
typedef struct { const UOp *i[RANK], *valid; int64_t size[RANK]; int rank; } View;

static uint64_t seed = 1;
static int64_t rnd(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static const UOp *alu(Graph *g, Op op, const UOp *a, const UOp *b) { return UOP(g, op, DT_VOID, NO_ARG, a, b); }
static const UOp *plus(Graph *g, const UOp *a, int64_t k) { return alu(g, UOP_ADD, a, uop_index(g, k)); }
static const UOp *times(Graph *g, const UOp *a, int64_t k) { return alu(g, UOP_MUL, a, uop_index(g, k)); }

/* The value of an expression at given ranges, slowly. */
static int64_t value_at(const UOp *u, const int64_t *range)
{
    int64_t v[3] = { 0 }, r = 0;
    if (u->op == UOP_CONST) return u->arg.i;
    if (u->op == UOP_RANGE) return range[range_number(u)];
    for (uint32_t k = 0; k < u->nsrc; k++) v[k] = value_at(u->src[k], range);
    /* no division by zero, no variable left behind */
    assert_true(u->nsrc && uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &r));
    return r;
}

static uint32_t count_ops(const UOp *u, Op a, Op b)
{
    uint32_t n = u->op == a || u->op == b;
    for (uint32_t k = 0; k < u->nsrc; k++) n += count_ops(u->src[k], a, b);
    return n;
}

/* ---- views from the outside in: sizes are those of the source's source, as the walk goes on ---- */

static void reshape_to(Graph *g, View *v, const int64_t *size, int rank)
{
    const UOp *flat = uop_index(g, 0);
    for (int k = 0; k < v->rank; k++) flat = alu(g, UOP_ADD, times(g, flat, v->size[k]), v->i[k]);
    for (int k = rank; k-- > 0;) {
        v->i[k] = alu(g, UOP_MOD, flat, uop_index(g, size[k]));
        flat = alu(g, UOP_IDIV, flat, uop_index(g, size[k]));
        v->size[k] = size[k];
    }
    v->rank = rank;
}

/* Into factors at random, at most RANK axes. */
static void random_reshape(Graph *g, View *v)
{
    int64_t n = 1, size[RANK];
    int rank = 0;
    for (int k = 0; k < v->rank; k++) n *= v->size[k];
    while (rank < RANK - 1 && n > 1) {
        int64_t f = 1 + rnd(n < 9 ? n : 9);
        while (n % f) f--;
        if (rnd(4) == 0) f = n;
        if (f > 1 || rnd(5) == 0) size[rank++] = f;
        n /= f;
    }
    if (n > 1 || !rank) size[rank++] = n;
    for (int k = rank; k-- > 1;) {
        int j = (int)rnd(k + 1);
        int64_t t = size[k];
        size[k] = size[j], size[j] = t;
    }
    reshape_to(g, v, size, rank);
}

static void random_permute(View *v)
{
    for (int k = v->rank; k-- > 1;) {
        int j = (int)rnd(k + 1);
        const UOp *t = v->i[k];
        int64_t s = v->size[k];
        v->i[k] = v->i[j], v->i[j] = t;
        v->size[k] = v->size[j], v->size[j] = s;
    }
}

static const UOp *and_(Graph *g, const UOp *a, const UOp *b) { return alu(g, UOP_AND, a, b); }

static void random_step(Graph *g, View *v)
{
    int k = (int)rnd(v->rank);
    int64_t n = v->size[k], a = rnd(3), b = rnd(3);
    const UOp *i = v->i[k];
    switch (rnd(8)) {
    case 0: case 1: case 2: random_reshape(g, v); break;
    case 3: random_permute(v); break;
    case 4: v->i[k] = plus(g, times(g, i, -1), n - 1); break;                                     /* flip */
    /* shrink of a larger source */
    case 5: v->i[k] = plus(g, i, a); v->size[k] = n + a + b; break;
    case 6: v->i[k] = times(g, i, 1 + a); v->size[k] = (n - 1) * (1 + a) + 1 + b; break;          /* stride */
    default: /* pad of a smaller source */
        if (n <= a + b) break;
        v->i[k] = plus(g, i, -a);
        v->size[k] = n - a - b;
        const UOp *no = alu(g, UOP_CMPLT, v->i[k], uop_index(g, 0));
        v->valid = and_(g, v->valid, alu(g, UOP_CMPNE, no, uop_bool(g, true)));
        v->valid = and_(g, v->valid, alu(g, UOP_CMPLT, v->i[k], uop_index(g, v->size[k])));
    }
}

typedef struct { const UOp *index, *valid; int64_t size[RANK]; int rank; } Case;

static Case random_chain(Graph *g)
{
    Case c = { .rank = 1 + (int)rnd(3) };
    View v = { .rank = c.rank, .valid = uop_bool(g, true) };
    for (int k = 0; k < c.rank; k++) {
        c.size[k] = v.size[k] = 2 + rnd(7);
        v.i[k] = uop_range(g, k, uop_index(g, c.size[k]), AXIS_LOOP);
    }
    for (int n = 1 + (int)rnd(DEEP); n-- > 0;) random_step(g, &v);
    c.index = uop_index(g, 0);
    for (int k = 0; k < v.rank; k++) c.index = alu(g, UOP_ADD, times(g, c.index, v.size[k]), v.i[k]);
    c.valid = v.valid;
    return c;
}

static bool next_point(const Case *c, int64_t *at)
{
    for (int k = c->rank; k-- > 0;) {
        if (++at[k] < c->size[k]) return true;
        at[k] = 0;
    }
    return false;
}

static bool equal_at(const Case *was, const UOp *index, const UOp *valid, const int64_t *at)
{
    bool is = value_at(was->valid, at);
    return is == value_at(valid, at) && (!is || value_at(was->index, at) == value_at(index, at));
}

static void assert_equal_maps(const Case *was, const UOp *index, const UOp *valid)
{
    int64_t at[RANK] = { 0 };
    Text t = { 0 };
    do {
        if (equal_at(was, index, valid, at)) continue;
        const UOp *all[4] = { was->index, was->valid, index, valid };
        for (int k = 0; k < 4; k++) uop_print_expr(&t, all[k]), text_add(&t, "\n");
        print_error("differs at %d %d %d:\n%s", (int)at[0], (int)at[1], (int)at[2], t.s);
        assert_true(false);
    } while (next_point(was, at));
    text_free(&t);
}

static void random_chains_keep_their_map(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0, clauses = 0;
    for (int k = 0; k < 4000; k++) {
        Graph *g = graph_new();
        Case c = random_chain(g);
        const UOp *index = graph_rewrite(g, c.index, rules_symbolic(), 0, NULL),
                  *valid = graph_rewrite(g, c.valid, rules_symbolic(), 0, NULL);
        index = simplify_under(g, index, valid);
        assert_equal_maps(&c, index, valid);
        assert_int_equal(graph_error(g), TG_OK);
        before += count_ops(c.index, UOP_IDIV, UOP_MOD);
        after += count_ops(index, UOP_IDIV, UOP_MOD);
        clauses += count_ops(valid, UOP_CMPLT, UOP_CMPNE);
        graph_free(g);
    }
    print_message("divisions before %llu, after %llu; comparisons %llu\n", (unsigned long long)before,
                  (unsigned long long)after, (unsigned long long)clauses);
}

/* A long chain is linear in time and does not use the C stack. */
static void long_chains_end(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *x = UOP(g, UOP_CAST, DT_F32, NO_ARG, uop_range(g, 0, uop_index(g, 5), AXIS_LOOP)), *y = x;
    for (int i = 0; i < 100000; i++)
        x = UOP(g, UOP_ADD, DT_VOID, NO_ARG, UOP(g, UOP_MUL, DT_VOID, NO_ARG, x, uop_float(g, DT_F32, 1)), y);
    x = graph_rewrite(g, x, rules_symbolic(), 0, NULL);
    assert_int_equal(graph_error(g), TG_OK);
    assert_int_equal(x->op, UOP_ADD);
    const UOp *i = uop_range(g, 1, uop_index(g, 50), AXIS_LOOP), *s = i;
    for (int k = 0; k < 100000; k++)
        s = UOP(g, UOP_ADD, DT_VOID, NO_ARG, UOP(g, UOP_MOD, DT_VOID, NO_ARG, s, uop_index(g, 1 + k % 97)), i);
    graph_rewrite(g, s, rules_symbolic(), 0, NULL);
    assert_int_equal(graph_error(g), TG_OK);
    graph_free(g);
}

int main(int argc, char **argv)
{
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_chains_keep_their_map),
                                        cmocka_unit_test(long_chains_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
