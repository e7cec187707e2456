/* Numbers, texts and bytes come back as they were written, and expressions as the nodes that they were; what ends too
 * early or names what cannot be is bad, wherever it ends. */
#include "tests/test.h"

#include <math.h>
#include <string.h>

#include "graph/build.h"
#include "graph/custom.h"
#include "graph/serial.h"

static const int64_t numbers[] = { 0, 1, -1, 63, 64, -64, -65, 1 << 20, INT64_MAX, INT64_MIN, INT64_MIN + 1 };
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static ByteReader reader_of(const Text *t, size_t size)
{
    return (ByteReader){ (const uint8_t *)t->s, (const uint8_t *)t->s + size, false };
}

static void write_all(Text *t)
{
    for (int k = 0; k < NUMBERS; k++) put_int(t, numbers[k]);
    put_text(t, "a text");
    put_text(t, "");
    put_text(t, NULL);
    put_float(t, -0.1);
    put_bytes(t, "\0\1\2", 3);
    put_bytes(t, NULL, 0);
}

static bool read_all(ByteReader *r, Arena *a)
{
    bool same = true;
    size_t size;
    for (int k = 0; k < NUMBERS; k++) same &= get_int(r) == numbers[k];
    const char *text = get_text(r, a), *empty = get_text(r, a), *none = get_text(r, a);
    same &= text && !strcmp(text, "a text") && empty && !*empty && !none && get_float(r) == -0.1;
    const void *bytes = get_bytes(r, &size);
    same &= size == 3 && !memcmp(bytes, "\0\1\2", 3);
    same &= !get_bytes(r, &size) && !size;
    return same && !r->bad;
}

static void test_bytes(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Text t = { 0 };
    write_all(&t);
    ByteReader r = reader_of(&t, t.len);
    assert_true(read_all(&r, a));
    assert_ptr_equal(r.at, r.end);
    for (size_t size = 0; size < t.len; size++) {
        r = reader_of(&t, size);
        assert_false(read_all(&r, a));
        assert_true(r.bad && r.at <= r.end);
    }
    text_free(&t);
    arena_free(a);
}

/* sizes of a shape over two variables, and a function of the host that sets one of them */
static void write_graph(UOpWriter *w, Graph *g)
{
    const UOp *n = uop_var(g, "n", 1, 64), *m = uop_var(g, "m", 0, 9), *one = uop_index(g, 1);
    const UOp *dim[] = { dim_mul(g, dim_add(g, n, one), m), n, one };
    shape_write(w, graph_shape(g, dim, 3));
    uop_write(w, custom_new(g, "function", "attr", 5, &m, 1));
    uop_write(w, NULL);
    uop_write(w, n);
}

static bool read_graph(UOpReader *r)
{
    Graph *g = r->g;
    const Shape *s = shape_read(r);
    const UOp *f = uop_read(r), *none = uop_read(r), *n = uop_read(r), *m = uop_var(g, "m", 0, 9);
    if (r->in->bad) return false;
    assert_ptr_equal(n, uop_var(g, "n", 1, 64));
    assert_ptr_equal(s->dim[0], dim_mul(g, dim_add(g, n, uop_index(g, 1)), m));
    assert_int_equal(s->dim[0]->vmax, 65 * 9);
    assert_ptr_equal(s->dim[1], n);
    assert_null(none);
    assert_ptr_equal(f, custom_new(g, "function", "attr", 5, &m, 1));
    return true;
}

static void test_expressions(void **state)
{
    (void)state;
    Text t = { 0 };
    Graph *g = graph_new();
    UOpWriter w = { .out = &t };
    map_init(&w.of, graph_arena(g));
    write_graph(&w, g);
    assert_false(w.bad);
    for (size_t size = 0; size <= t.len; size++) {
        Graph *other = graph_new();
        ByteReader in = reader_of(&t, size);
        assert_true(read_graph(&(UOpReader){ .in = &in, .g = other }) == (size == t.len));
        graph_free(other);
    }
    uop_write(&w, uop_param(g, DT_F32, NULL, 0, 0));
    assert_true(w.bad);
    text_free(&t);
    graph_free(g);
}

static void test_other_nodes(void **state)
{
    (void)state;
    static const int64_t bad[][8] = {
        { 2 },                                                  /* a number that was not given */
        { -1, UOP_PARAM, DT_F32, 0, 0, 0, 0 },                  /* no expression */
        { -1, UOP_COUNT, DT_INDEX, 0, 0, 0, 0 },
        { -1, UOP_CONST, DT_COUNT, 0, 0, 0, 0 },
        { -1, UOP_ADD, DT_INDEX, 0, 0, 0, 0 },                  /* without operands */
        { -1, UOP_CONST, DT_INDEX, 0, 0, 0, 1, 0 },             /* with one */
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        Text t = { 0 };
        Graph *g = graph_new();
        for (int i = 0; i < 8; i++) put_int(&t, bad[k][i]);
        ByteReader in = reader_of(&t, t.len);
        assert_null(uop_read(&(UOpReader){ .in = &in, .g = g }));
        assert_true(in.bad);
        text_free(&t);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_other_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
