/* Free dimensions: which variables a program gets, what takes freedom from them, and which inputs it then serves. */
#include "tests/test.h"

#include <string.h>

#include "frontend/import/dims.h"

/* x [n, m], y [n, 4]: sizes seen run by run. */
static const DimDef nm[] = { { -1, "n" }, { -1, "m" } }, n4[] = { { -1, "n" }, { 4, NULL } };
static const ValueDef inputs[] = { { .name = "x", .kind = VALUE_TENSOR, .type = TG_F32, .rank = 2, .dim = nm },
                                   { .name = "y", .kind = VALUE_TENSOR, .type = TG_F32, .rank = 2, .dim = n4 } };
static const Model model = { .graph = { .ninput = 2, .input = inputs } };

typedef struct {
    Arena *a;
    Graph *g;
    FreeDims f;
    TgTensor in[2];
    Dims *d;
} Case;

static void see(Case *c, int64_t n, int64_t m)
{
    c->in[0] = (TgTensor){ .type = TG_F32, .rank = 2, .shape = { n, m } };
    c->in[1] = (TgTensor){ .type = TG_F32, .rank = 2, .shape = { n, 4 } };
    free_dims_see(&c->f, c->in);
}

static Case new_case(int64_t n, int64_t m, const char *ranges)
{
    Case c = { .a = arena_new(), .g = graph_new() };
    assert_int_equal(free_dims_new(&c.f, c.a, &model, ranges), TG_OK);
    see(&c, 7, 5);
    see(&c, n, m);
    c.d = dims_new(c.a, &c.f, &model, c.in);
    return c;
}

static void free_case(Case *c)
{
    graph_free(c->g);
    arena_free(c->a);
}

static U size_of(Case *c, uint32_t input, int32_t axis)
{
    return dims_size(c->g, c->d, input, axis, c->in[input].shape[axis]);
}

static bool serves(Case *c, int64_t n, int64_t m)
{
    int64_t value[4];
    see(c, n, m);
    return dims_values(c->d, c->in, value) && dims_hold(c->d, c->g, value);
}

static void what_changes_is_a_variable(void **state)
{
    (void)state;
    Case c = new_case(7, 5, NULL);
    assert_null(c.d);
    free_case(&c);
    c = new_case(9, 5, NULL);
    assert_int_equal(c.d->nvar, 1);                     /* equal symbols are one */
    assert_ptr_equal(size_of(&c, 0, 0), size_of(&c, 1, 0));
    assert_true(uop_is_int_const(size_of(&c, 0, 1), 5) && serves(&c, 1, 5) && serves(&c, 1000, 5));
    free_case(&c);
    c = new_case(7, 5, "m=2..6");
    assert_int_equal(c.d->nvar, 1);
    assert_true(serves(&c, 7, 2) && serves(&c, 7, 6) && !serves(&c, 7, 1) && !serves(&c, 7, 7));
    free_case(&c);
    c = new_case(7, 5, "*=1..8");
    assert_int_equal(c.d->nvar, 2);
    free_case(&c);
}

/* a == b without a proof, for m = 24 at hand: the range of m and the step that are left; none: 0. */
static void doubt(const char *what, U (*a)(Graph *g, U m), U (*b)(Graph *g, U m), int64_t least, int64_t largest,
                  int64_t step)
{
    Case c = new_case(7, 24, NULL);
    for (int i = 0; i < 10; i++) {
        Graph *g = graph_new();
        U m = dims_size(g, c.d, 0, 1, 24), p = a(g, m), q = b(g, m);
        bool equal = same_size(g, p, q);
        bool again = !equal && dims_refine(c.d, g, NULL);
        graph_free(g);
        if (!again) break;
    }
    const DimVar *v = &c.d->var[0];
    bool right = v->fixed ? !step : v->least == least && v->largest == largest && v->step == step;
    if (!right)
        print_message("%s: %s %ld..%ld step %ld\n", what, v->fixed ? "built in" : "variable", (long)v->least,
                      (long)v->largest, (long)v->step);
    assert_true(right);
    free_case(&c);
}

static U itself(Graph *g, U m) { return (void)g, m; }
static U halves(Graph *g, U m) { return dim_mul(g, dim_div(g, m, uop_index(g, 2)), uop_index(g, 2)); }
static U eighths(Graph *g, U m) { return dim_mul(g, dim_div(g, m, uop_index(g, 8)), uop_index(g, 8)); }

static U at_most_100(Graph *g, U m)
{
    return dim_sub(g, dim_add(g, m, uop_index(g, 100)), dim_max(g, m, uop_index(g, 100)));
}
static U at_least_20(Graph *g, U m) { return dim_max(g, m, uop_index(g, 20)); }
static U twenty_four(Graph *g, U m) { return (void)m, uop_index(g, 24); }

static void doubts_take_freedom(void **state)
{
    (void)state;
    doubt("halved and doubled", itself, halves, 1, 1024, 2);
    doubt("by eight", itself, eighths, 1, 1024, 8);
    doubt("a table of 100", itself, at_most_100, 1, 100, 1);
    doubt("at least 20", itself, at_least_20, 20, 1024, 1);
    doubt("a number", itself, twenty_four, 0, 0, 0);
}

static void equal_variables_become_one(void **state)
{
    (void)state;
    Case c = new_case(24, 24, NULL);
    assert_int_equal(c.d->nvar, 2);
    assert_false(same_size(c.g, size_of(&c, 0, 0), size_of(&c, 0, 1)));
    assert_true(dims_refine(c.d, c.g, NULL));
    assert_ptr_equal(size_of(&c, 0, 0), size_of(&c, 0, 1));
    assert_true(serves(&c, 9, 9) && !serves(&c, 9, 8));
    free_case(&c);
}

/* The second size is the first and three: x [n, m] with m = n + 3. */
static void a_size_follows_by_a_sum(void **state)
{
    (void)state;
    Case c = new_case(9, 12, NULL);
    assert_false(same_size(c.g, dim_add(c.g, size_of(&c, 0, 0), uop_index(c.g, 3)), size_of(&c, 0, 1)));
    assert_true(dims_refine(c.d, c.g, NULL));
    assert_true(same_size(c.g, dim_add(c.g, size_of(&c, 0, 0), uop_index(c.g, 3)), size_of(&c, 0, 1)));
    assert_true(serves(&c, 20, 23) && !serves(&c, 20, 24));
    free_case(&c);
    /* which of the two is larger does not matter where they are equal */
    c = new_case(9, 12, NULL);
    U a = dim_add(c.g, size_of(&c, 0, 0), uop_index(c.g, 3)), b = size_of(&c, 0, 1);
    assert_false(same_size(c.g, dim_max(c.g, a, b), a));
    assert_true(dims_refine(c.d, c.g, NULL));
    assert_true(serves(&c, 20, 23) && !serves(&c, 20, 22));
    free_case(&c);
    /* a size of 1 is built in, but where a range is requested */
    c = new_case(9, 1, "m=1..64");
    assert_int_equal(c.d->nvar, 2);
    free_case(&c);
    c = new_case(9, 1, NULL);
    assert_int_equal(c.d->nvar, 1);
    free_case(&c);
}

/* A window of 5 elements: what is shorter is not this program's. */
static void needs_are_looked_at(void **state)
{
    (void)state;
    Case c = new_case(7, 24, NULL);
    graph_need(c.g, dim_sub(c.g, size_of(&c, 0, 1), uop_index(c.g, 5)));
    assert_true(serves(&c, 7, 5) && !serves(&c, 7, 4));
    see(&c, 7, 4);
    assert_true(dims_doubted(c.d, c.g, c.in));
    free_case(&c);
}

/* Of the largest value, until ranges are narrowed; of what grows with a size's square nothing is known. */
static void bytes_follow_the_ranges(void **state)
{
    (void)state;
    Case c = new_case(9, 8, NULL);
    assert_int_equal(c.d->nvar, 2);
    U n = size_of(&c, 0, 0), m = size_of(&c, 0, 1);
    U value = uop_param(c.g, DT_F32, (U[]){ n, m, uop_index(c.g, 3) }, 3, 0),
      square = uop_param(c.g, DT_F32, (U[]){ n, n }, 2, 1);
    double all = dims_bytes(c.d, value);
    assert_true(all == 12.0 * (double)n->vmax * (double)m->vmax && dims_bytes(c.d, square) == 0);
    assert_true(dims_narrow(c.d) && dims_bytes(c.d, value) == all / 2);
    free_case(&c);
}

static void ranges_are_checked(void **state)
{
    (void)state;
    static const char *const wrong[] = { "n",      "n=",      "n=1",    "n=1..", "n=0..4",
                                         "n=4..3", "n=1..4x", "k=1..4", "=1..4", "n=1..4,m" };
    Case c = new_case(7, 5, "n=1..8");
    FreeDims f;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        assert_int_equal(free_dims_new(&f, c.a, &model, wrong[k]), TG_USAGE);
    assert_int_equal(free_dims_check(&c.f, &model, c.in), TG_OK);
    see(&c, 9, 5);
    assert_int_equal(free_dims_check(&c.f, &model, c.in), TG_BAD_INPUT);
    see(&c, 8, 5);
    c.in[1].shape[0] = 7;
    assert_int_equal(free_dims_check(&c.f, &model, c.in), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 'y': axis 0 (n) is 7; that of input 'x' is 8"));
    free_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_changes_is_a_variable), cmocka_unit_test(doubts_take_freedom),
        cmocka_unit_test(equal_variables_become_one), cmocka_unit_test(a_size_follows_by_a_sum),
        cmocka_unit_test(needs_are_looked_at),        cmocka_unit_test(bytes_follow_the_ranges),
        cmocka_unit_test(ranges_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
