/* plan_make and memplan on random schedules, against a byte-level simulation: who owns each block of memory, and which
 * steps may overtake each other. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/plan.h"

enum { BUFFERS = 40, ITEMS = 60, BLOCK = 256 };

static const Target cpu = { .kind = "cpu", .threads = 2, .has_threads = true },
                    clearing = { .kind = "cpu", .threads = 2, .has_threads = true, .clears_halos = true },
                    gpu = { .kind = "cuda" };
static uint32_t seed;
static uint32_t rnd(uint32_t n) { return (seed = seed * 1664525 + 1013904223) / 65536 % n; }

typedef struct {
    Graph *g;
    Schedule s;
    const UOp *buffer[BUFFERS];
    bool ready[BUFFERS], once[BUFFERS];
    uint32_t n;
    Kernel kernel[ITEMS];
    uint8_t data[64];
} Case;

/* Zeroed ones have one of two sizes, and each of these one halo. */
static const UOp *vec(Graph *g, int64_t n, int64_t input, const void *data, bool zeroed)
{
    static const Halo halo[2] = { { .rank = 1 }, { .rank = 2 } };
    if (zeroed) n = n % 2 + 100;
    const UOp *dim = uop_index(g, n);
    if (input >= 0) return uop_param(g, DT_F32, &dim, 1, input);
    return graph_add_buffer(g,
                            &(BufferInfo){ .dtype = DT_F32,
                                           .shape = graph_shape(g, &dim, 1),
                                           .data = data,
                                           .size_bytes = (size_t)n * 4,
                                           .zeroed = zeroed,
                                           .halo = zeroed ? &halo[n - 100] : NULL });
}

static void add_param(Kernel *k, const UOp *b, bool read, bool written)
{
    k->param[k->nparam++] = (KernelParam){ b, written, read };
}

/* A made buffer that a kernel may add to (a scatter): not one of its arguments, and made at load only by what runs at
 * load. NULL: none this time. */
static const UOp *scatter_target(const Case *c, const Kernel *k, bool once)
{
    uint32_t at = 8 + rnd(BUFFERS - 8);
    for (uint32_t p = 0; p < k->nparam; p++)
        if (k->param[p].buffer == c->buffer[at]) return NULL;
    return c->once[at] == once ? c->buffer[at] : NULL;
}

/* A kernel reads ready buffers and makes the next one, or adds to one that a kernel made. */
static void add_item(Case *c, uint32_t i)
{
    Kernel *k = &c->kernel[i];
    bool once = true;
    snprintf(k->key, sizeof k->key, "key%u", i);
    snprintf(k->name, sizeof k->name, "k%u", i);
    for (uint32_t n = 1 + rnd(3); n; n--) {
        uint32_t at = rnd(c->n);
        add_param(k, c->buffer[at], true, false);
        once &= c->once[at];
    }
    if (c->n < BUFFERS) {
        c->buffer[c->n] = vec(c->g, 1 + rnd(2000), -1, NULL, rnd(8) == 0);
        c->once[c->n] = once;
        add_param(k, c->buffer[c->n++], false, true);
    } else {
        const UOp *b = scatter_target(c, k, once);
        if (b) add_param(k, b, true, true);
    }
    if (rnd(2)) k->thread_bound = uop_index(c->g, 1 + rnd(4));
    c->s.item[c->s.count++] = (ScheduleItem){ .kind = ITEM_KERNEL, .once = once, .kernel = k };
}

static void make_case(Case *c, uint32_t n)
{
    memset(c, 0, sizeof *c);
    c->g = graph_new();
    c->s.g = c->g;
    c->s.item = calloc(ITEMS, sizeof *c->s.item);
    c->s.output = calloc(8, sizeof *c->s.output);
    for (c->n = 0; c->n < 8; c->n++) {
        c->once[c->n] = c->n >= 4;
        c->buffer[c->n] = c->n < 4 ? vec(c->g, 100, c->n, NULL, false) : vec(c->g, 16, -1, c->data, false);
    }
    for (uint32_t i = 0; i < n; i++) add_item(c, i);
    c->s.noutput = 4;
    for (uint32_t k = 0; k < 4; k++) c->s.output[k] = c->buffer[rnd(c->n)];
}

static void free_case(Case *c)
{
    free(c->s.item);
    free(c->s.output);
    graph_free(c->g);
}

/* ---- the simulation ---- */

typedef struct { int64_t begin, end; } Blocks;

/* Every space has its own part of one line of blocks. */
static Blocks blocks(const Plan *p, uint32_t b)
{
    const PlanBuffer *m = &p->buffer[b];
    int64_t persist = p->arena_bytes / BLOCK, other = persist + p->persist_bytes / BLOCK, first = m->offset / BLOCK;
    if (m->kind == MEM_PERSIST) first += persist;
    else if (m->kind != MEM_ARENA) return (Blocks){ other + b, other + b + 1 };
    return (Blocks){ first, first + (m->size_bytes + BLOCK - 1) / BLOCK };
}

static void check_owners(const Plan *p)
{
    int64_t n = (p->arena_bytes + p->persist_bytes) / BLOCK + p->nbuffer;
    uint32_t *owner = malloc(sizeof *owner * (size_t)n);
    for (int64_t k = 0; k < n; k++) owner[k] = UINT32_MAX;
    for (uint32_t b = 0; b < p->nbuffer; b++) {
        Blocks r = blocks(p, b);
        bool full = p->buffer[b].zeroed || p->buffer[b].kind == MEM_INPUT || p->buffer[b].kind == MEM_CONST;
        assert_true(r.begin >= 0 && r.end <= n &&
                    p->buffer[b].offset % (p->buffer[b].kind < MEM_CONST ? BLOCK : 1) == 0);
        for (int64_t k = r.begin; full && k < r.end; k++) owner[k] = b;
    }
    for (int run = 0; run < 2; run++)           /* the second run must find what the first left of it alone */
        for (uint32_t i = 0; i < p->nstep; i++) {
            const Step *s = &p->step[i];
            if (run && s->once) continue;
            for (int write = 0; write < 2; write++)
                for (uint32_t a = 0; a < s->narg; a++)
                    for (int64_t k = blocks(p, s->arg[a]).begin; k < blocks(p, s->arg[a]).end; k++) {
                        if (write && (s->access[a] & ACCESS_WRITE)) owner[k] = s->arg[a];
                        if (!write && (s->access[a] & ACCESS_READ)) assert_int_equal(owner[k], s->arg[a]);
                    }
            for (uint32_t a = 0; a < s->narg; a++)      /* a kernel's own arguments do not meet */
                for (int64_t k = blocks(p, s->arg[a]).begin; k < blocks(p, s->arg[a]).end; k++)
                    assert_int_equal(owner[k], s->arg[a]);
        }
    free(owner);
}

/* Pairs of zeroed buffers in one memory; only those whose zeros lie at the same places may be. */
static uint32_t count_shared(const Plan *p)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < p->nbuffer; a++)
        for (uint32_t b = 0; b < a; b++) {
            const PlanBuffer *x = &p->buffer[a], *y = &p->buffer[b];
            if (!x->zeroed || !y->zeroed || x->offset >= y->offset + y->size_bytes ||
                y->offset >= x->offset + x->size_bytes)
                continue;
            assert_true(x->offset == y->offset && x->size_bytes == y->size_bytes);
            n++;
        }
    return n;
}

/* A halo in the arena is made by the one step that first stores what it surrounds; the number of such halos. */
static uint32_t check_halos(const Plan *p)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < p->nbuffer; b++) {
        bool used = false;
        assert_true(!p->buffer[b].halo || (p->buffer[b].kind == MEM_ARENA && !p->buffer[b].zeroed));
        for (uint32_t i = 0; i < p->nstep; i++)
            for (uint32_t a = 0; a < p->step[i].narg; a++) {
                if (p->step[i].arg[a] != b) continue;
                assert_int_equal(p->step[i].access[a] & ACCESS_CLEAR, p->buffer[b].halo && !used ? ACCESS_CLEAR : 0);
                used = true;
            }
        n += p->buffer[b].halo != NULL;
    }
    return n;
}

static bool must_order(const Plan *p, const Step *a, const Step *b)
{
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++) {
            Blocks x = blocks(p, a->arg[i]), y = blocks(p, b->arg[j]);
            if (((a->access[i] | b->access[j]) & ACCESS_WRITE) && x.begin < y.end && y.begin < x.end) return true;
        }
    return false;
}

static void check_syncs(const Plan *p, const Target *t)
{
    uint32_t nsync = 0, last = 0;
    for (uint32_t j = 0; j < p->nstep; j++) {
        bool needed = false;
        if (j && p->step[j].once != p->step[j - 1].once) last = j;
        for (uint32_t i = 0; i < j; i++) {
            /* copies and host functions may be shared by all threads */
            bool kernels = p->step[i].kind == STEP_KERNEL && p->step[j].kind == STEP_KERNEL;
            bool serial = t->has_threads && kernels && p->step[i].thread_count == 1 && p->step[j].thread_count == 1,
                 between = p->step[i].once != p->step[j].once;
            for (uint32_t k = i + 1; k <= j; k++) between |= p->step[k].sync;
            if (!serial && must_order(p, &p->step[i], &p->step[j])) {
                assert_true(between);
                needed |= i >= last;
            }
        }
        assert_true(!p->step[j].sync || needed);
        if (p->step[j].sync) last = j, nsync += !p->step[j].once;
    }
    assert_int_equal(nsync, p->nsync);
}

static void random_schedules(void **state)
{
    (void)state;
    Case *c = malloc(sizeof *c);
    static const Target *const targets[] = { &cpu, &gpu, &clearing };
    uint32_t shared = 0, cleared[3] = { 0 };
    for (seed = 1; seed < 200000; seed += 1000) {
        uint32_t keep = seed;
        make_case(c, 5 + rnd(ITEMS - 5));
        for (int k = 0; k < 3; k++) {
            Plan *p = NULL;
            assert_int_equal(plan_make(&p, &c->s, targets[k]), TG_OK);
            check_owners(p);
            shared += count_shared(p);
            cleared[k] += check_halos(p);
            check_syncs(p, targets[k]);
            plan_free(p);
        }
        free_case(c);
        seed = keep;
    }
    assert_true(shared > 20 && cleared[2] > 20);
    assert_true(!cleared[0] && !cleared[1]);
    free(c);
}

static void arena_is_tight(void **state)
{
    (void)state;
    Life chain[6];
    for (uint32_t k = 0; k < 6; k++) chain[k] = (Life){ .size_bytes = 1024, .first = k, .last = k + 1 };
    assert_int_equal(memplan_place(chain, 6, BLOCK), 2048);
    Life two[] = { { 4096, 0, 0, 9 }, { 1000, 0, 0, 4 }, { 1024, 0, 5, 9 }, { 0, 0, 1, 2 } };
    assert_int_equal(memplan_place(two, 4, BLOCK), 5120);
    assert_int_equal(memplan_place(NULL, 0, BLOCK), 0);
}

/* An input, a constant and a value returned twice are outputs too: by copies. Equal keys are one kernel. Unused buffers
 * vanish. */
static void outputs_and_keys(void **state)
{
    (void)state;
    Case *c = malloc(sizeof *c);
    make_case(c, 0);
    for (uint32_t i = 0; i < 2; i++) {
        Kernel *k = &c->kernel[i];
        strcpy(k->key, "same");
        strcpy(k->name, "e_100");
        add_param(k, c->buffer[c->n] = vec(c->g, 100, -1, NULL, false), false, true);
        add_param(k, i ? c->buffer[c->n - 1] : c->buffer[1], true, false);
        c->n++;
        c->s.item[c->s.count++] = (ScheduleItem){ .kind = ITEM_KERNEL, .kernel = k };
    }
    const UOp *out[] = { c->buffer[9], c->buffer[1], c->buffer[9], c->buffer[4], c->buffer[8] };
    memcpy(c->s.output, out, sizeof out);
    c->s.noutput = 5;
    Plan *p;
    assert_int_equal(plan_make(&p, &c->s, &cpu), TG_OK);
    Text t = { 0 };
    plan_print(&t, p);
    const char *want = "plan: 5 steps, 1 kernels, 7 buffers, arena 0 bytes, persistent 0 bytes, 1 syncs, 0 flops\n"
                       "  b0    output 4 f32[100] 400 bytes\n"
                       "  b1    input 1 f32[100] 400 bytes\n"
                       "  b2    output 0 f32[100] 400 bytes\n"
                       "  b3    output 1 f32[100] 400 bytes\n"
                       "  b4    output 2 f32[100] 400 bytes\n"
                       "  b5    const f32[16] 64 bytes\n"
                       "  b6    output 3 f32[16] 64 bytes\n"
                       "run:   (| waits for all, + part by part behind the one before, > writes)\n"
                       "    e_100 >b0 b1\n"
                       "    e_100 >b2 b0\n"
                       "    copy >b3 b1\n"
                       "  | copy >b4 b2\n"
                       "    copy >b6 b5\n";
    assert_string_equal(t.s, want);
    assert_int_equal(p->ninput, 2);
    text_free(&t);
    plan_free(p);
    free_case(c);
    free(c);
}

static void symbolic_sizes(void **state)
{
    (void)state;
    Case *c = malloc(sizeof *c);
    make_case(c, 0);
    const UOp *n = uop_var(c->g, "n", 1, 64), *m = uop_var(c->g, "m", 1, 8);
    const UOp *dim = UOP(c->g, UOP_MUL, DT_VOID, NO_ARG, n, uop_index(c->g, 3));
    Kernel *k = &c->kernel[0];
    k->var = &m;
    k->nvar = 1;
    k->thread_bound = n;
    add_param(k, uop_param(c->g, DT_F32, &dim, 1, 0), true, false);
    add_param(k, graph_add_buffer(c->g, &(BufferInfo){ .dtype = DT_F32, .shape = graph_shape(c->g, &dim, 1) }), false,
              true);
    c->s.item[c->s.count++] = (ScheduleItem){ .kind = ITEM_KERNEL, .kernel = k };
    c->s.noutput = 1;
    c->s.output[0] = k->param[1].buffer;
    Plan *p;
    assert_int_equal(plan_make(&p, &c->s, &cpu), TG_OK);
    int64_t vars[2];
    assert_int_equal(p->nvar, 2);
    vars[plan_var(p, "n")] = 5;
    vars[plan_var(p, "m")] = 7;
    assert_int_equal(plan_eval(p, dim, vars), 15);
    assert_int_equal(plan_eval(p, m, vars), 7);
    assert_int_equal(p->buffer[0].size_bytes, 64 * 3 * 4);
    assert_int_equal(p->step[0].thread_count, -1);
    plan_free(p);
    free_case(c);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_schedules), cmocka_unit_test(arena_is_tight),
                                        cmocka_unit_test(outputs_and_keys), cmocka_unit_test(symbolic_sizes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
