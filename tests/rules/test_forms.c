/* How good is the algebra? Index expressions as reshapes, pads, windows and symbolic sizes write them, and the form
 * that must come out. A row is text on both sides: `expression | condition under which it is requested`. Ranges: a<8,
 * b<64, c<3, d<7, e<12; i<N, j<M, k<N+1, where N, M are sizes from 1 to 1000; x is any i32 of data. A better form may
 * replace an expected one; a worse one is a regression of every kernel.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "graph/print.h"
#include "graph/rewrite.h"
#include "tests/test.h"

typedef const UOp *U;
typedef struct { Graph *g; const char *at; } Reader;

static U op2(Graph *g, Op op, U a, U b) { return UOP(g, op, DT_VOID, NO_ARG, a, b); }
static U negated(Graph *g, U a) { return op2(g, UOP_CMPNE, a, uop_bool(g, true)); }

static U name(Graph *g, char c)
{
    U n = uop_var(g, "N", 1, 1000), m = uop_var(g, "M", 1, 1000);
    switch (c) {
    case 'a': return uop_range(g, 0, uop_index(g, 8), AXIS_LOOP);
    case 'b': return uop_range(g, 1, uop_index(g, 64), AXIS_LOOP);
    case 'c': return uop_range(g, 2, uop_index(g, 3), AXIS_LOOP);
    case 'd': return uop_range(g, 3, uop_index(g, 7), AXIS_LOOP);
    case 'e': return uop_range(g, 4, uop_index(g, 12), AXIS_LOOP);
    case 'i': return uop_range(g, 5, n, AXIS_LOOP);
    case 'j': return uop_range(g, 6, m, AXIS_LOOP);
    case 'k': return uop_range(g, 7, op2(g, UOP_ADD, n, uop_index(g, 1)), AXIS_LOOP);
    case 'x': return UOP(g, UOP_CAST, DT_INDEX, NO_ARG, uop_param(g, DT_I32, NULL, 0, 0));
    case 'N': return n;
    case 'M': return m;
    default: return NULL;
    }
}

/* ---- text to nodes: `? :` binds least, then & and |, comparisons, + and -, * // %, ! ---- */

static U ternary(Reader *r);

static bool eat(Reader *r, const char *s)
{
    r->at += strspn(r->at, " ");
    if (strncmp(r->at, s, strlen(s))) return false;
    r->at += strlen(s);
    return true;
}

static U primary(Reader *r)
{
    if (eat(r, "!")) return negated(r->g, primary(r));
    if (eat(r, "-")) return op2(r->g, UOP_MUL, primary(r), uop_index(r->g, -1));
    if (eat(r, "(")) {
        U u = ternary(r);
        assert_true(eat(r, ")"));
        return u;
    }
    if (eat(r, "true")) return uop_bool(r->g, true);
    if (eat(r, "false")) return uop_bool(r->g, false);
    char *end;
    if (isdigit((unsigned char)*r->at)) {
        U u = uop_index(r->g, strtoll(r->at, &end, 10));
        return r->at = end, u;
    }
    U u = name(r->g, *r->at++);
    assert_non_null(u);
    return u;
}

static U product(Reader *r)
{
    for (U u = primary(r);;) {
        if (eat(r, "//")) u = op2(r->g, UOP_IDIV, u, primary(r));
        else if (eat(r, "*")) u = op2(r->g, UOP_MUL, u, primary(r));
        else if (eat(r, "%")) u = op2(r->g, UOP_MOD, u, primary(r));
        else return u;
    }
}

static U sum(Reader *r)
{
    for (U u = product(r);;) {
        if (eat(r, "+")) u = op2(r->g, UOP_ADD, u, product(r));
        else if (eat(r, "-")) u = op2(r->g, UOP_ADD, u, op2(r->g, UOP_MUL, product(r), uop_index(r->g, -1)));
        else return u;
    }
}

static U comparison(Reader *r)
{
    U u = sum(r);
    if (eat(r, "!=")) return op2(r->g, UOP_CMPNE, u, sum(r));
    if (eat(r, "==")) return negated(r->g, op2(r->g, UOP_CMPNE, u, sum(r)));
    if (eat(r, ">=")) return negated(r->g, op2(r->g, UOP_CMPLT, u, sum(r)));
    return eat(r, "<") ? op2(r->g, UOP_CMPLT, u, sum(r)) : u;
}

static U logic(Reader *r)
{
    for (U u = comparison(r);;) {
        if (eat(r, "&")) u = op2(r->g, UOP_AND, u, comparison(r));
        else if (r->at += strspn(r->at, " "), !strncmp(r->at, "||", 2))
            r->at += 2, u = op2(r->g, UOP_OR, u, comparison(r));
        else return u;
    }
}

static U ternary(Reader *r)
{
    U p = logic(r);
    if (!eat(r, "?")) return p;
    U a = ternary(r);
    assert_true(eat(r, ":"));
    return UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, p, a, ternary(r));
}

/* ---- rows ---- */

typedef struct { const char *from, *to; } Form;
static const Form form[] = {
    /* reshapes that undo each other */
    { "(a*64 + b) // 64", "a" },
    { "(a*64 + b) % 64", "b" },
    { "((a*64 + b) // 16) % 4", "b // 16" },
    { "(a*64 + b) // 16", "a*4 + b // 16" },
    { "((a*3 + c)*7 + d) // 21 * 21 + ((a*3 + c)*7 + d) % 21", "a*21 + c*7 + d" },
    { "(b % 8) + (b // 8)*8", "b" },
    { "(b % 8)*5 + (b // 8)*40 + 3", "b*5 + 3" },
    { "(b // 4 % 4)*4 + b % 4", "b % 16" },
    { "(b // 8 // 4)*4 + b // 8 % 4", "b // 8" },
    { "(b + 13) % 4 + ((b + 13) // 4) % 8 * 4 + (b + 13) // 32 * 32", "b + 13" },
    { "b // 4 // 2", "b // 8" },
    { "b*3 + 5 - (b*3 + 1) % 4", "(b*3 + 1) // 4*4 + 4" },
    { "b % 32 % 8", "b % 8" },
    { "b % 32 // 8", "b // 8 % 4" },
    { "(a*8 + b % 8) % 4", "b % 4" },
    { "(b*6 + 4) // 4", "(b*3 + 2) // 2" },
    { "(b*6 + 5) % 4", "b % 2*2 + 1" },
    { "(7 - a) % 8", "-a + 7" },
    { "(a + 16) // 8", "2" },
    { "(a*9 + d) % 9 + (a*9 + d) // 9", "a + d" },
    /* no negative numerator is left */
    { "(b - 1) // 4", "(b + 3) // 4 - 1" },
    { "(b - 1) % 4", "(b + 3) % 4" },
    { "b // -8", "(64 - b) // 8 - 8" },
    /* comparisons */
    { "a*64 + b < 128", "a < 2" },
    { "a*2 + c < 8", "a*2 + c < 8" },
    { "a*4 + c < 8", "a < 2" },
    { "b // 8 < 3", "b < 24" },
    { "3 < a", "!(a < 4)" },
    { "a + 1 < 1", "false" },
    { "a*6 + 3 < 10", "a < 2" },
    { "-a < -3", "!(a < 4)" },
    { "a*4 != 6", "true" },
    { "a != 0", "!(a < 1)" },
    { "a + 5 == a + c + 5", "c < 1" },
    /* conditions */
    { "a < 4 & a < 6", "a < 4" },
    { "a < 3 & a >= 3", "false" },
    { "a < 4 & a >= 3", "a == 3" },
    { "a < 3 & a*2 + c < 20", "a < 3" },
    { "!(a < 3 || b < 4)", "!(a < 3) & !(b < 4)" },
    { "a < 3 ? (a < 3 ? b : d) : d", "a < 3 ? b : d" },
    { "a < 3 ? (b < 5 ? c : d) : d", "a < 3 & b < 5 ? c : d" },
    { "!(a < 3) ? b : d", "a < 3 ? d : b" },
    /* where a condition holds */
    { "(a + 5) // 8 | a < 3", "0" },
    { "(a*2 + c - 1) % 16 | a*2 + c >= 1", "a*2 + c - 1" },
    { "(a*2 + c + 15) % 16 | a*2 + c >= 1", "a*2 + c - 1" },
    { "(b + c) // 32 | b + c < 32", "0" },
    { "b % 16 | b == 5", "5" },
    { "a < 5 ? b : d | a < 3", "b" },
    /* symbolic sizes */
    { "(i*M + j) // M", "i" },
    { "(i*M + j) % M", "j" },
    { "((i*M + j)*3 + c) // (M*3)", "i" },
    { "((i*M + j)*3 + c) % (M*3)", "j*3 + c" },
    { "((a*N + i)*M + j) // (N*M)", "a" },
    { "((a*N + i)*M + j) // M % N", "i" },
    { "(a*(N + 1) + k) // (N + 1)", "a" },
    { "(a*(N + 1) + k) % (N + 1)", "k" },
    { "(a*(N + 1)*64 + k*64 + b) // ((N + 1)*64)", "a" },
    { "i < N", "true" },
    { "k < N + 1", "true" },
    { "i + N < N", "false" },
    { "x // N // M", "x // (N*M)" },
    { "(N*4 + a) // N", "4 + a // N" },
    { "x // N * N + x % N", "x" },
    { "a*64 + (x // (N*4))*N*8 + (x % (N*4))*2", "a*64 + x*2" },
    { "(i*4 + c) // 4", "i" },
};

static void forms_come_out(void **state)
{
    uint32_t failed = 0;
    (void)state;
    for (size_t n = 0; n < sizeof form / sizeof *form; n++) {
        Graph *g = graph_new();
        Reader from = { g, form[n].from }, to = { g, form[n].to };
        U u = graph_rewrite(g, ternary(&from), rules_symbolic(), 0, NULL),
          want = graph_rewrite(g, ternary(&to), rules_symbolic(), 0, NULL);
        if (eat(&from, "|"))
            u = graph_rewrite(g, simplify_under(g, u, graph_rewrite(g, logic(&from), rules_symbolic(), 0, NULL)),
                              rules_symbolic(), 0, NULL);
        if (u != want) {
            Text t = { 0 };
            uop_print_expr(&t, u);
            text_add(&t, "   instead of   ");
            uop_print_expr(&t, want);
            print_error("%s: %s\n", form[n].from, t.s);
            text_free(&t);
            failed++;
        }
        graph_free(g);
    }
    assert_int_equal(failed, 0);
}

/* A float cut to u8's ends less z, rounded by what is added and taken away, plus z: it fits, so its CAST compares
 * nothing more than the cut did. Cut to more it does not. */
static void rounded_floats_fit(void **state)
{
    (void)state;
    static const struct {
        double z, more;
        bool fits;
    } row[] = { { 0, 0, true }, { 75, 0, true }, { 255, 0, true }, { 0, 1, false }, { 75, -1, true } };
    for (size_t n = 0; n < sizeof row / sizeof *row; n++) {
        Graph *g = graph_new();
        U one = uop_index(g, 1),
          x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG,
                  UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, DT_F32, &one, 1, 0), uop_index(g, 0)));
        U most = uop_float(g, DT_F32, 255 - row[n].z + row[n].more),
          cut = op2(g, UOP_MAX, x, uop_float(g, DT_F32, -row[n].z));
        U y = op2(g, UOP_ADD, UOP(g, UOP_WHERE, DT_VOID, NO_ARG, op2(g, UOP_CMPLT, most, cut), most, cut),
                  uop_float(g, DT_F32, 0x1.8p23));
        y = op2(g, UOP_ADD, op2(g, UOP_ADD, y, uop_float(g, DT_F32, -0x1.8p23)), uop_float(g, DT_F32, row[n].z));
        U made = graph_rewrite(g, UOP(g, UOP_CAST, DT_U8, NO_ARG, y), rules_select(), 0, NULL);
        assert_int_equal(made->op == UOP_CAST && made->src[0]->op == UOP_ADD, row[n].fits);
        graph_free(g);
    }
}

/* A narrow number that is cut on both sides stays one, so nothing rounds it again on its way to f32; a product of it is
 * rounded. */
static void narrow_floats_are_rounded_once(void **state)
{
    (void)state;
    static const double factor[] = { 1, -1, 0.3 };
    for (size_t n = 0; n < sizeof factor / sizeof *factor; n++) {
        Graph *g = graph_new();
        SelectOptions has = { .has_fma = true };
        U one = uop_index(g, 1),
          x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG,
                  UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, DT_F16, &one, 1, 0), uop_index(g, 0)));
        U cut = op2(g, UOP_MAX, op2(g, UOP_MUL, x, uop_float(g, DT_F16, factor[n])), uop_float(g, DT_F16, 0));
        cut = op2(g, UOP_MAX, op2(g, UOP_MUL, cut, uop_float(g, DT_F16, -1)), uop_float(g, DT_F16, -6));
        U y = op2(g, UOP_MUL, cut, uop_float(g, DT_F16, -1));
        U made = graph_rewrite(g, UOP(g, UOP_CAST, DT_F32, NO_ARG, y), rules_select(), 0, &has);
        uint32_t count, rounded = 0;
        Arena *a = arena_new();
        const UOp **order = uop_toposort(g, &made, 1, a, &count);
        for (uint32_t i = 0; i < count; i++) rounded += order[i]->op == UOP_CAST && order[i]->dtype == DT_F16;
        assert_int_equal(rounded, n == 2);
        arena_free(a);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(forms_come_out), cmocka_unit_test(rounded_floats_fit),
                                        cmocka_unit_test(narrow_floats_are_rounded_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
