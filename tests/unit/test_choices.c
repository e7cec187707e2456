/* Lists of choices: what they say survives as text, what is wrong is refused, repeated blocks have one name, and each
 * kind changes a schedule. */
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "sched/sched.h"
#include "tests/test.h"

static const Target cpu = { .kind = "cpu", .threads = 2, .has_threads = true, .vector_bytes = 64, .l2_bytes = 1 << 20,
                            .rates = { .hz = 2.6e9 } };

static void text_and_back(void **state)
{
    static const char text[] = "STORE 3fa1c2d0; INLINE 00000007; WINOGRAD ffffffff; DIRECT 10000000; JOIN 00000001; "
                               "SINGLE 00000002; LAST 07c3d519 3";
    ScheduleList l;
    Text t = { 0 };
    (void)state;
    assert_int_equal(schedule_parse(&l, text), TG_OK);
    assert_int_equal(l.count, SCHED_KINDS);
    schedule_print(&t, &l);
    assert_string_equal(t.s, text);
    text_free(&t);
    assert_int_equal(schedule_parse(&l, "  "), TG_OK);
    assert_int_equal(l.count, 0);
}

static void wrong_text(void **state)
{
    static const struct { const char *text, *why; } row[] = {
        { "KEEP 3fa1c2d0", "unknown choice 'KEEP'" },
        { "STORE", "'' is no value: eight hexadecimal digits" },
        { "STORE 3fa1c2d0x", "'3fa1c2d0x' is no value: eight hexadecimal digits" },
        { "STORE -1", "'-1' is no value: eight hexadecimal digits" },
        { "STORE 1 2", "unexpected text '2'" },
        { "LAST 1", "'' is no axis" },
        { "LAST 1 60", "'60' is no axis" },
    };
    Text many = { 0 };
    ScheduleList l;
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        assert_int_equal(schedule_parse(&l, row[k].text), TG_USAGE);
        assert_string_equal(tg_error(), row[k].why);
    }
    for (int k = 0; k <= SCHEDULE_OPS; k++) text_add(&many, "STORE %x;", k);
    assert_int_equal(schedule_parse(&l, many.s), TG_USAGE);
    text_free(&many);
}

/* ---- schedules ---- */

static U constant(Graph *g, const int64_t *size, uint32_t n)
{
    static float zeros[1 << 16];
    U dim[4];
    int64_t count = 1;
    for (uint32_t k = 0; k < n; k++) dim[k] = uop_index(g, size[k]), count *= size[k];
    assert_true(count <= 1 << 16);
    return graph_add_buffer(g, &(BufferInfo){ DT_F32, graph_shape(g, dim, n), zeros, (size_t)count * sizeof *zeros, "w",
                                              false });
}

static U input(Graph *g, const int64_t *size, uint32_t n, int64_t slot)
{
    U dim[4];
    for (uint32_t k = 0; k < n; k++) dim[k] = uop_index(g, size[k]);
    return uop_param(g, DT_F32, dim, n, slot);
}

/* Kernels of a run under a list, which is used whole; offers: the first choice of that kind, or NULL. */
static uint32_t kernels(Graph *g, U y, const ScheduleList *l, ScheduleKind kind, ScheduleOp *offers)
{
    Schedule *s = NULL;
    Choices c = { .used = 0 };
    uint32_t n = 0, buffers = graph_buffer_count(g);
    if (l) c.list = *l;
    assert_int_equal(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), &cpu, &c, NULL), TG_OK);
    if (l) assert_int_equal(s->list.count, l->count);
    for (uint32_t i = 0; i < s->count; i++) n += s->item[i].kernel && !s->item[i].once;
    uint32_t at = 0;
    while (at < c.noffered && c.offered[at].kind != kind) at++;
    assert_true(!offers || at < c.noffered);
    if (offers) *offers = c.offered[at];
    schedule_free(s);
    graph_drop_buffers(g, buffers);
    return n;
}

static uint32_t with(Graph *g, U y, ScheduleOp op)
{
    return kernels(g, y, &(ScheduleList){ { op }, 1 }, 0, NULL);
}

/* softmax(x) over rows of 200: one kernel, or one a statistic that is stored. */
static void a_statistic_is_stored(void **state)
{
    Graph *g = graph_new();
    U x = input(g, (int64_t[]){ 64, 200 }, 2, 0), top = reduce(g, UOP_MAX, x, (int64_t[]){ 1 }, 1, true),
      e = UOP(g, UOP_EXP2, DT_VOID, NO_ARG, sub(g, x, top)),
      y = mul(g, e, UOP(g, UOP_RECIP, DT_VOID, NO_ARG, reduce(g, UOP_ADD, e, (int64_t[]){ 1 }, 1, true)));
    ScheduleOp store;
    (void)state;
    uint32_t n = kernels(g, y, NULL, SCHED_STORE, &store);
    assert_int_equal(n, 1);
    assert_true(with(g, y, store) > n);
    graph_free(g);
}

/* y = conv(x, w), 3 x 3: tiles are three kernels of a run, the plain sum is one. */
static U convolution(Graph *g, int64_t channels, int64_t size)
{
    U x = input(g, (int64_t[]){ 1, channels, size, size }, 4, 0),
      w = constant(g, (int64_t[]){ channels, channels, 3, 3 }, 4);
    const int64_t kernel[] = { 3, 3 }, one[] = { 1, 1 };
    U view = windows(g, x, 2, kernel, one, one), dim[7]; /* [1, c, h, w, 3, 3] */
    int64_t places = size - 2, sizes[] = { 1, 1, channels, places, places, 3, 3 };
    for (uint32_t k = 0; k < 7; k++) dim[k] = uop_index(g, sizes[k]);
    view = reshape(g, view, dim, 7);
    U of_w[] = { uop_index(g, 1), dim[2], dim[2], dim[0], dim[0], dim[5], dim[6] };
    return reduce(g, UOP_ADD, mul(g, view, reshape(g, w, of_w, 7)), (int64_t[]){ 2, 5, 6 }, 3, false);
}

static void a_sum_is_made_of_tiles(void **state)
{
    Graph *g = graph_new();
    U y = convolution(g, 64, 30);
    ScheduleOp direct;
    (void)state;
    uint32_t tiles = kernels(g, y, NULL, SCHED_DIRECT, &direct);
    assert_true(with(g, y, direct) < tiles);
    graph_free(g);
}

/* Blocks x <- x + max(x, 0) w, with their weights each: all that is chosen for the second is chosen for the third. */
static void blocks_have_one_name(void **state)
{
    enum { BLOCKS = 4, N = 96 };
    Graph *g = graph_new();
    Arena *a = arena_new();
    U x = input(g, (int64_t[]){ 32, N }, 2, 0), sum[BLOCKS];
    uint32_t n;
    (void)state;
    for (int k = 0; k < BLOCKS; k++) {
        U w = constant(g, (int64_t[]){ N, N }, 2);
        x = add(g, x, sum[k] = matmul(g, UOP(g, UOP_MAX, DT_VOID, NO_ARG, x, scalar(g, DT_F32, 0)), w));
    }
    const UOp **order = uop_toposort(g, &x, 1, a, &n);
    const uint32_t *name = value_names(order, n, graph_count(g), a);
    assert_int_equal(name[sum[1]->id], name[sum[2]->id]);
    assert_int_not_equal(name[sum[1]->id], name[x->id]);
    arena_free(a);
    graph_free(g);
}

/* The key of a graph is that of one like it, and another's where a size differs. */
static void keys_of_graphs(void **state)
{
    char key[3][33];
    static const int64_t size[] = { 30, 30, 31 };
    (void)state;
    for (int k = 0; k < 3; k++) {
        Graph *g = graph_new();
        U y = convolution(g, 16, size[k]);
        schedule_key(key[k], g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y));
        graph_free(g);
    }
    assert_string_equal(key[0], key[1]);
    assert_string_not_equal(key[0], key[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back),        cmocka_unit_test(wrong_text),
        cmocka_unit_test(a_statistic_is_stored), cmocka_unit_test(a_sum_is_made_of_tiles),
        cmocka_unit_test(blocks_have_one_name), cmocka_unit_test(keys_of_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
