/* tg_tune on a model: what the search took for a winner, and the model is slower with, does not stay. The search is
 * made to err by its own progress report, which plants a list without any OptOp: that is many times as slow as the
 * heuristic's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/session/session.h"
#include "tests/pbtext.h"
#include "tests/test.h"

/* y = MatMul(x, x), x f32[n,n] */
#define SQUARE "2{1{1:1 2{1{2:'n'} 1{2:'n'}}}}"
static const char square[] =
    "1:8 8{2:13} 7{1{1:'x' 1:'x' 2:'y' 3:'square' 4:'MatMul'} 11{1:'x' " SQUARE "} 12{1:'y' " SQUARE "}}";

enum { N = 192 };
typedef struct {
    TgSession *s;
    char folder[64], path[80];
    float x[N * N];
    TgTensor in;
    int planted;
} Case;

static void plant(void *user, const char *what, double done, double total)
{
    Case *c = user;
    const Choice *choice = &c->s->choice;
    (void)done;
    (void)total;
    static const char *const others[] = { "trying", "choosing", "compiling" };       /* not the search itself */
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strncmp(what, others[k], strlen(others[k]))) return;
    tunedb_put_best(choice->db, c->s->program->plan->kernel[0]->key, choice->device,
                    &(Tuned){ .opts = { .count = 0 }, .seconds = 1 });
    c->planted++;
}

static void begin(Case *c)
{
    Text bytes = pb_text(square);
    TgOptions o;
    snprintf(c->folder, sizeof c->folder, "/tmp/tgrun-tune.XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    snprintf(c->path, sizeof c->path, "%s/m.onnx", c->folder);
    FILE *f = fopen(c->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.s, 1, bytes.len, f), bytes.len);
    fclose(f);
    text_free(&bytes);
    tg_options_default(&o);
    o.device = "cpu";
    o.no_cache = 1;
    o.threads = 1;
    o.progress = plant;
    o.progress_user = c;
    assert_int_equal(tg_open(&c->s, c->path, &o), TG_OK);
    for (int i = 0; i < N * N; i++) c->x[i] = (float)(i % 7) / 8;
    c->in = (TgTensor){ .type = TG_F32, .rank = 2, .shape = { N, N }, .data = c->x, .size_bytes = sizeof c->x };
    assert_int_equal(tg_prepare(c->s, &c->in, 1), TG_OK);
}

static void end(Case *c)
{
    tg_close(c->s);
    remove(c->path);
    rmdir(c->folder);
    free(c);
}

static bool best(const Case *c, Tuned *t)
{
    return tunedb_best(c->s->choice.db, c->s->program->plan->kernel[0]->key, c->s->choice.device, t);
}

/* known: the database had a list before, which is there again. */
static void put_back(bool known)
{
    Case *c = calloc(1, sizeof *c);
    Tuned t = { 0 };
    TgInfo i;
    begin(c);
    OptList before = c->s->program->plan->kernel[0]->opts;
    assert_true(before.count > 0);
    if (known)
        tunedb_put_best(c->s->choice.db, c->s->program->plan->kernel[0]->key, c->s->choice.device,
                        &(Tuned){ before, 0.25 });
    assert_int_equal(tg_tune(c->s, &c->in, 1, 0.4, 0), TG_OK);
    assert_true(c->planted > 0);
    assert_true(c->s->program->plan->kernel[0]->opts.count > 0);
    assert_int_equal(tg_info(c->s, &i), TG_OK);
    assert_true(i.run_after_s > 0 && i.run_after_s <= i.run_before_s);
    assert_int_equal(best(c, &t) && t.opts.count == 0, false);
    if (known && !i.kernels_better) assert_true(best(c, &t) && t.seconds == 0.25);
    if (!known && !i.kernels_better) assert_false(best(c, &t));
    end(c);
}

static void unknown_before(void **state) { (void)state, put_back(false); }
static void known_before(void **state) { (void)state, put_back(true); }

/* Nothing to run on: what the search found is taken as it is. */
static void without_data(void **state)
{
    Case *c = calloc(1, sizeof *c);
    Tuned t;
    (void)state;
    begin(c);
    c->in.data = NULL;
    assert_int_equal(tg_tune(c->s, &c->in, 1, 0.2, 0), TG_OK);
    assert_true(best(c, &t));
    assert_int_equal(c->s->program->plan->kernel[0]->opts.count, t.opts.count);
    end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(unknown_before), cmocka_unit_test(known_before),
                                        cmocka_unit_test(without_data) };
    return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}
