/* The verifier: one broken graph a row, as text, and the row's name in the message. */
#include <string.h>

#include "graph/print.h"
#include "graph/verify.h"
#include "tests/test.h"

#define TOP \
    "%0 = CONST.index 4\n%1 = STACK.index (%0)\n%2 = PARAM.f32 (%1) slot=0\n%3 = RANGE.index (%0) n=0 L\n%4 = " \
    "INDEX.f32 (%2 %3)\n"

typedef struct { const char *says; VerifyStage stage; const char *text; } Case;
static const Case broken[] = {
    { "this op is refused", VERIFY_TENSOR, "%0 = CONST.f32 1\n%1 = NEG.f32 (%0)\n%2 = SINK (%1)" },
    { "tensor ops end", VERIFY_RANGEIFY, TOP "%5 = PERMUTE.f32 (%2) ints=[0]\n%6 = SINK (%5)" },
    { "loops begin", VERIFY_TENSOR, TOP "%5 = SINK (%3)" },
    { "operands have one dtype", VERIFY_SELECT, TOP "%5 = LOAD.f32 (%4)\n%6 = ADD.f32 (%5 %0)\n%7 = STORE (%4 %6)\n%8 = END (%7 %3)\n%9 = SINK (%8)" },
    { "WHERE takes", VERIFY_LAYOUT, TOP "%5 = LOAD.f32 (%4)\n%6 = WHERE.f32 (%3 %5 %5)\n%7 = STORE (%4 %6)\n%8 = END (%7 %3)\n%9 = SINK (%8)" },
    { "INDEX takes integers", VERIFY_RANGEIFY, TOP "%5 = CONST.f32 1\n%6 = INDEX.f32 (%2 %5)\n%7 = LOAD.f32 (%6)\n%8 = SINK (%7)" },
    { "REDUCE is of", VERIFY_RANGEIFY, TOP "%5 = LOAD.f32 (%4)\n%6 = REDUCE.f32 (%5 %3) op=XOR\n%7 = SINK (%6)" },
    { "REDUCE has axes", VERIFY_TENSOR, "%0 = CONST.index 4\n%1 = STACK.index (%0)\n%2 = PARAM.f32 (%1) slot=0\n%3 = REDUCE.f32 (%2 %0) op=ADD axes=[0]\n%4 = SINK (%3)" },
    { "END closes ranges", VERIFY_OPTIMIZE, TOP "%5 = LOAD.f32 (%4)\n%6 = STORE (%4 %5)\n%7 = END (%6 %3 %0)\n%8 = SINK (%7)" },
    { "ranges are LOOP", VERIFY_LAYOUT, "%0 = CONST.index 4\n%1 = RANGE.index (%0) n=0 g\n%2 = SINK (%1)" },
    { "UPCAST and UNROLL end", VERIFY_EXPAND, "%0 = CONST.index 4\n%1 = RANGE.index (%0) n=0 u\n%2 = SINK (%1)" },
    { "LOAD takes", VERIFY_LAYOUT, TOP "%5 = LOAD.f32 (%4 %3)\n%6 = SINK (%5)" },
    { "LOAD takes", VERIFY_LAYOUT, TOP "%5 = LOAD.index (%3)\n%6 = SINK (%5)" },
    { "STORE takes", VERIFY_LAYOUT, TOP "%5 = STORE (%4 %3)\n%6 = END (%5 %3)\n%7 = SINK (%6)" },
    { "memory is flat", VERIFY_LAYOUT, "%0 = CONST.index 4\n%1 = STACK.index (%0 %0)\n%2 = PARAM.f32 (%1) slot=0\n%3 = SINK (%2)" },
    { "an access meets", VERIFY_LAYOUT, TOP "%5 = ADD.index (%3 %0)\n%6 = INDEX.f32 (%2 %5)\n%7 = LOAD.f32 (%6)\n%8 = SINK (%7)" },
    { "one number names one range", VERIFY_LAYOUT, TOP "%5 = CONST.index 5\n%6 = RANGE.index (%5) n=0 L\n%7 = SINK (%3 %6)" },
    { "every loop is closed", VERIFY_LAYOUT, TOP "%5 = LOAD.f32 (%4)\n%6 = STORE (%4 %5)\n%7 = SINK (%6)" },
    { "the root is a SINK", VERIFY_LAYOUT, TOP },
    { "the root is a LINEAR", VERIFY_LINEAR, TOP },
    { "instructions stand in order", VERIFY_LINEAR, TOP "%5 = LOAD.f32 (%4)\n%6 = STORE (%4 %5)\n%7 = END (%6 %3)\n%8 = LINEAR (%0 %2 %3 %6 %5 %7)" },
    { "instructions stand in order", VERIFY_LINEAR, TOP "%5 = END (%4 %3)\n%6 = LINEAR (%0 %2 %5)" },
};

static void each_row_complains(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        Graph *g = graph_new();
        const UOp *root = graph_parse(g, broken[k].text);
        if (!root) print_error("%s\n", tg_error());
        assert_non_null(root);
        TgStatus s = verify(g, root, broken[k].stage);
        if (s != TG_INTERNAL || !strstr(tg_error(), broken[k].says))
            print_error("expected '%s', got %d '%s'\n", broken[k].says, s, tg_error());
        assert_int_equal(s, TG_INTERNAL);
        assert_non_null(strstr(tg_error(), broken[k].says));
        graph_free(g);
    }
}

static void a_legal_kernel_passes(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *root = graph_parse(
        g, TOP "%5 = LOAD.f32 (%4)\n%6 = ADD.f32 (%5 %5)\n%7 = STORE (%4 %6)\n%8 = END (%7 %3)\n%9 = SINK (%8)");
    for (VerifyStage s = VERIFY_RANGEIFY; s <= VERIFY_SELECT; s++) assert_int_equal(verify(g, root, s), TG_OK);
    const UOp *linear =
        graph_parse(g, TOP "%5 = LOAD.f32 (%4)\n%6 = STORE (%4 %5)\n%7 = END (%6 %3)\n%8 = LINEAR (%0 %2 %3 %5 %6 %7)");
    assert_int_equal(verify(g, linear, VERIFY_LINEAR), TG_OK);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_row_complains), cmocka_unit_test(a_legal_kernel_passes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
