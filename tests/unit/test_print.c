/* graph_print and graph_parse: text -> graph -> text changes nothing, for written and for random graphs; expressions
 * read as one would write them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "graph/print.h"
#include "tests/test.h"

static uint64_t seed = 7;
static uint32_t rnd(uint32_t n)
{
    return (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}

static void assert_round_trip(Graph *g, const UOp *root)
{
    Text a = { 0 }, b = { 0 };
    Graph *h = graph_new();
    graph_print(&a, g, root);
    const UOp *back = graph_parse(h, a.s);
    if (!back) print_error("%s\n%s", tg_error(), a.s);
    assert_non_null(back);
    assert_int_equal(back->hash == root->hash, 1);
    graph_print(&b, h, back);
    assert_string_equal(a.s, b.s);
    graph_free(h);
    text_free(&a);
    text_free(&b);
}

static const UOp *random_scalar(Graph *g, const UOp **pool, uint32_t n)
{
    static const double hard[] = { 0, -0.0, 1, 0.1, -1e-42, 3.4e38, INFINITY, -INFINITY, NAN, 5e-324 };
    const UOp *a = pool[rnd(n)], *b = pool[rnd(n)];
    switch (rnd(8)) {
    case 0: return uop_float(g, rnd(2) ? DT_F32 : DT_F64, hard[rnd(10)]);
    case 1: return uop_int(g, (DType)(DT_BOOL + rnd(DT_INDEX)), (int64_t)rnd(1u << 31) - (1 << 30));
    case 2: return uop_range(g, (int)rnd(64), uop_index(g, 1 + rnd(9)), (AxisType)rnd(AXIS_COUNT));
    case 3: return uop_var(g, "batch", 1, 1 + rnd(100));
    case 4: return UOP(g, UOP_CAST, (DType)(1 + rnd(DT_COUNT - 1)), NO_ARG, a);
    case 5: return uop_tagged(g, a, (uint16_t)rnd(5));
    case 6:
        return UOP(g, UOP_WHERE, DT_VOID, NO_ARG, UOP(g, UOP_CAST, DT_BOOL, NO_ARG, a), b,
                   UOP(g, UOP_CAST, (DType)b->dtype, NO_ARG, a));
    default: return UOP(g, (Op)(UOP_ADD + rnd(3)), DT_VOID, NO_ARG, a, UOP(g, UOP_CAST, (DType)a->dtype, NO_ARG, b));
    }
}

static void random_graphs(void **state)
{
    (void)state;
    for (int k = 0; k < 300; k++) {
        Graph *g = graph_new();
        const UOp *pool[40];
        uint32_t n = 1;
        pool[0] = uop_index(g, 3);
        for (; n < 40; n++) pool[n] = random_scalar(g, pool, n);
        assert_round_trip(g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, pool, n));
        graph_free(g);
    }
}

static const char tensor_text[] =
    "%0 = CONST.index 4\n"
    "%1 = CONST.index 6\n"
    "%2 = STACK.index (%0 %1)  # [2]\n"
    "%3 = BUFFER.f32 (%2) slot=0 space=global  # [4, 6]\n"
    "%4 = PERMUTE.f32 (%3) ints=[1,0]  # [6, 4]\n"
    "%5 = REDUCE.f32 (%4) op=MAX axes=[1]  # [6, 1]\n"
    "%6 = CUSTOMFUNCTION text=\"topk\"\n"
    "%7 = SINK (%5 %6)\n";

static void written_text(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Text t = { 0 };
    const UOp *u = graph_parse(g, tensor_text);
    assert_non_null(u);
    graph_print(&t, g, u);
    assert_string_equal(t.s, tensor_text);
    assert_int_equal(graph_buffer_count(g), 1);
    text_free(&t);
    graph_free(g);
}

static void bad_text(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "\n\n",
                                       "%1 = CONST.index 4",
                                       "%0 = NONSENSE",
                                       "%0 = ADD.f32 (%0 %0)",
                                       "%0 = CONST.index",
                                       "%0 = CONST 3",
                                       "%0 = CONST.f99 3",
                                       "%0 = CONST.index 4\n%1 = ADD.index (%0)",
                                       "%0 = CONST.index 4 what",
                                       "%0 = RANGE.index n=70 L",
                                       "%0 = DEFINE_VAR.index min=1" };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        Graph *g = graph_new();
        assert_null(graph_parse(g, bad[k]));
        graph_free(g);
    }
}

static void expressions(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Text t = { 0 };
    const UOp *i = uop_range(g, 0, uop_index(g, 9), AXIS_LOOP), *j = uop_range(g, 1, uop_index(g, 64), AXIS_LOOP),
              *n = uop_index(g, 64);
#define ALU(o, ...) UOP(g, UOP_##o, DT_VOID, NO_ARG, __VA_ARGS__)
    const UOp *flat = ALU(ADD, ALU(MUL, i, n), j), *p = ALU(CMPNE, ALU(CMPLT, flat, n), uop_bool(g, true));
    uop_print_expr(&t,
                   ALU(WHERE, ALU(AND, p, ALU(CMPLT, j, i)), ALU(MOD, flat, uop_index(g, 7)),
                       ALU(MAX, i, ALU(IDIV, j, ALU(MUL, i, n)))));
#undef ALU
    assert_string_equal(t.s, "!(r0*64 + r1 < 64) & r1 < r0 ? (r0*64 + r1) % 7 : MAX(r0, r1 // (r0*64))");
    text_free(&t);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs), cmocka_unit_test(written_text),
                                        cmocka_unit_test(bad_text), cmocka_unit_test(expressions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
