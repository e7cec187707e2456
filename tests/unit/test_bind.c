/* Outputs in the caller's memory, and runs in a thread of the library's: of sizes that vary with the inputs, of sizes
 * that a run finds, of wrong sizes; what is not written beyond them; many runs under way in sessions that share; some
 * of a model's outputs alone. */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pbtext.h"
#include "tgrun.h"

/* y = Relu(x), z = NonZero(x), t = Cast(x, string): x f32[n] */
static const char text[] = "1:8 8{2:13} 7{1{1:'x' 2:'y' 4:'Relu'} 1{1:'x' 2:'z' 4:'NonZero'} "
                           "1{1:'x' 2:'t' 4:'Cast' 5{1:'to' 20:2 3:8}} 11{1:'x' 2{1{1:1 2{1{2:'n'}}}}} "
                           "12{1:'y' 2{1{1:1}}} 12{1:'z' 2{1{1:7}}} 12{1:'t' 2{1{1:8}}}}";

enum { MOST = 64, GUARD = 16 };
static Text bytes;

static TgSession *open_it(void)
{
    TgOptions o;
    TgSession *s = NULL;
    tg_options_default(&o);
    o.device = "cpu", o.no_cache = 1, o.threads = 2, o.compiler = "cc";
    TgStatus status = tg_open_memory(&s, bytes.s, bytes.len, NULL, &o);
    if (status != TG_OK) print_error("%s\n", tg_error());
    assert_int_equal(status, TG_OK);
    return s;
}

static TgTensor input(float *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++) x[k] = (float)(k % 3 - 1);
    return (TgTensor){ .type = TG_F32, .rank = 1, .shape = { n }, .data = x, .size_bytes = (size_t)n * 4 };
}

static void agrees(const TgTensor *y, const float *data, const float *x, int64_t n)
{
    assert_ptr_equal(y->data, data);
    assert_int_equal(y->size_bytes, n * 4);
    for (int64_t k = 0; k < n; k++) assert_true(data[k] == (x[k] > 0 ? x[k] : 0));
    for (int64_t k = n; k < n + GUARD; k++) assert_true(data[k] == -7);
}

static void sizes_of_inputs(void **state)
{
    (void)state;
    TgSession *s = open_it();
    TgTensor y[3], taken;
    float x[MOST], out[MOST + GUARD];
    for (int64_t n = 1; n <= MOST; n += 9) {
        TgTensor in = input(x, n);
        for (int64_t k = 0; k < MOST + GUARD; k++) out[k] = -7;
        assert_int_equal(tg_bind_output(s, 0, out, (size_t)n * 4), TG_OK);
        assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
        agrees(&y[0], out, x, n);
        assert_int_equal(tg_take(&taken, s, 0), TG_USAGE);
        assert_int_equal(tg_bind_output(s, 0, out, (size_t)n * 4 + 4), TG_OK);
        assert_int_equal(tg_run(s, &in, 1, y), TG_BAD_INPUT);
        assert_non_null(strstr(tg_error(), "is bound to it"));
    }
    TgTensor in = input(x, 8);
    memcpy(out, x, 8 * sizeof *out);
    in.data = out;
    assert_int_equal(tg_bind_output(s, 0, out, 32), TG_OK);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    for (int k = 0; k < 8; k++) assert_true(out[k] == (x[k] > 0 ? x[k] : 0));
    in.data = x;
    assert_int_equal(tg_bind_output(s, 0, NULL, 0), TG_OK);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    assert_ptr_not_equal(y[0].data, out);
    assert_int_equal(tg_take(&taken, s, 0), TG_OK);
    tg_tensor_free(&taken);
    assert_int_equal(tg_bind_output(s, 2, out, 8), TG_USAGE);
    assert_non_null(strstr(tg_error(), "holds strings"));
    assert_int_equal(tg_bind_output(s, 3, out, 8), TG_USAGE);
    tg_close(s);
}

static void sizes_of_a_run(void **state)
{
    (void)state;
    TgSession *s = open_it();
    TgTensor y[3];
    float x[MOST];
    int64_t places[MOST];
    for (int64_t n = 2; n <= MOST; n += 13) {
        TgTensor in = input(x, n);
        int64_t zeros = (n + 1) / 3, found = n - zeros, at = 0;
        assert_int_equal(tg_bind_output(s, 1, places, (size_t)found * 8), TG_OK);
        assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
        assert_ptr_equal(y[1].data, places);
        for (int64_t k = 0; k < n; k++)
            if (x[k] != 0) assert_int_equal(places[at++], k);
        assert_int_equal(at, found);
        assert_int_equal(tg_bind_output(s, 1, places, (size_t)found * 8 + 8), TG_OK);
        assert_int_equal(tg_run(s, &in, 1, y), TG_BAD_INPUT);
    }
    tg_close(s);
}

/* ---- in threads of the library's ---- */

typedef struct {
    TgSession *s;
    TgTensor in, y[3];
    float x[MOST];
    TgStatus status;
    char error[200];
    atomic_int done;
} Call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

/* Those that are selected are computed alone, in their order; what a run of others would need is not made. */
static void selected(void **state)
{
    (void)state;
    TgSession *s = open_it(), *other = NULL;
    TgTensor y[3];
    TgPort port;
    float x[MOST];
    TgTensor in = input(x, 9);
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 1, 0 }, 2), TG_OK);
    assert_int_equal(tg_output_count(s), 2);
    assert_int_equal(tg_output(s, 0, &port), TG_OK);
    assert_string_equal(port.name, "z");
    assert_int_equal(tg_output(s, 2, &port), TG_USAGE);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    assert_int_equal(y[0].shape[1], 6);
    assert_true(((float *)y[1].data)[8] == x[8]);
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 0 }, 1), TG_OK);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    TgNode node;
    int32_t kinds = 0;
    while (tg_node(s, kinds, &node)) kinds++;
    assert_int_equal(kinds, 1);
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 0, 0 }, 2), TG_USAGE);
    assert_non_null(strstr(tg_error(), "output 'y' is named twice"));
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 3 }, 1), TG_USAGE);
    assert_non_null(strstr(tg_error(), "output 3: the model has 3"));
    assert_int_equal(tg_output_count(s), 1);
    assert_int_equal(tg_select_outputs(s, NULL, 0), TG_OK);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    assert_int_equal(y[2].shape[0], 9);
    assert_int_equal(tg_share(&other, s, NULL), TG_OK);
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 0 }, 1), TG_USAGE);
    tg_close(other);
    assert_int_equal(tg_select_outputs(s, (const int32_t[]){ 2 }, 1), TG_OK);
    assert_int_equal(tg_run(s, &in, 1, y), TG_OK);
    assert_int_equal(y[0].type, TG_STRING);
    tg_close(s);
}

static void done(void *user, TgStatus status, const char *error)
{
    Call *c = user;
    pthread_mutex_lock(&lock);
    c->status = status;
    strncpy(c->error, error ? error : "", sizeof c->error - 1);
    atomic_store(&c->done, 1);
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

static void wait_for(Call *c)
{
    pthread_mutex_lock(&lock);
    while (!atomic_load(&c->done)) pthread_cond_wait(&more, &lock);
    atomic_store(&c->done, 0);
    pthread_mutex_unlock(&lock);
}

static void runs_under_way(void **state)
{
    (void)state;
    enum { CALLS = 4, TIMES = 30 };
    static Call c[CALLS];
    for (int k = 0; k < CALLS; k++) {
        if (k) assert_int_equal(tg_share(&c[k].s, c[0].s, NULL), TG_OK);
        else c[0].s = open_it();
    }
    for (int r = 0; r < TIMES; r++) {
        for (int k = 0; k < CALLS; k++) {
            c[k].in = input(c[k].x, 3 + (r + 7 * k) % (MOST - 3));
            assert_int_equal(tg_run_async(c[k].s, &c[k].in, 1, c[k].y, done, &c[k]), TG_OK);
        }
        for (int k = 0; k < CALLS; k++) {
            wait_for(&c[k]);
            assert_int_equal(c[k].status, TG_OK);
            for (int64_t i = 0; i < c[k].in.shape[0]; i++)
                assert_true(((float *)c[k].y[0].data)[i] == (c[k].x[i] > 0 ? c[k].x[i] : 0));
        }
    }
    c[0].in.rank = 2, c[0].in.shape[1] = 1;
    assert_int_equal(tg_run_async(c[0].s, &c[0].in, 1, c[0].y, done, &c[0]), TG_OK);
    wait_for(&c[0]);
    assert_int_equal(c[0].status, TG_BAD_INPUT);
    assert_non_null(strstr(c[0].error, "'x'"));
    for (int k = CALLS; k-- > 0;) tg_close(c[k].s);
}

int main(void)
{
    bytes = pb_text(text);
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_of_inputs), cmocka_unit_test(sizes_of_a_run),
                                        cmocka_unit_test(runs_under_way), cmocka_unit_test(selected) };
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    text_free(&bytes);
    return bad;
}
