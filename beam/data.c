/* Numbers by a hash of (slot, element): the same on both sides of a comparison, in every process. Integers that are
 * used as positions stay where every access that depends on them lies inside its parameter, as far as bounds can tell.
 */
#include "beam/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/guard.h"
#include "graph/scalar.h"

/* ---- positions ---- */

typedef struct { const UOp *load[32]; uint32_t n; } Loads;

static void find_loads(Loads *l, const UOp *u, Graph *g)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(g, &u, 1, a, &count);
    l->n = 0;
    for (uint32_t i = 0; i < count && l->n < 32; i++)
        if (order[i]->op == UOP_LOAD && !dtype_is_float((DType)order[i]->dtype) && order[i]->dtype != DT_BOOL)
            l->load[l->n++] = order[i];
    arena_free(a);
}

/* Does the access stay inside when every integer read for it is below m? */
static bool inside(Graph *g, const UOp *access, const Loads *l, int64_t m)
{
    const UOp *to[32], *var = uop_var(g, "position", 0, m - 1);
    for (uint32_t i = 0; i < l->n; i++)
        to[i] = l->load[i]->dtype == DT_INDEX ? var : UOP(g, UOP_CAST, (DType)l->load[i]->dtype, NO_ARG, var);
    const UOp *at = uop_substitute(g, access->src[1], l->load, to, l->n);
    return at->vmin >= 0 && at->vmax < uop_numel(access->src[0]);
}

static uint64_t slots_of(const Loads *l)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->load[i]->src[0]->src[0]->op == UOP_PARAM) slots |= UINT64_C(1) << l->load[i]->src[0]->src[0]->arg.i;
    return slots;
}

/* Parameters that hold positions, and below what these stay. */
static uint64_t positions(const Kernel *k, int64_t *limit)
{
    static const int64_t most[] = { 1024, 256, 64, 16, 4, 2, 1 };
    Graph *g = graph_new();
    Arena *a = arena_new();
    uint32_t n, at = 0;
    uint64_t slots = 0;
    const UOp *root = uop_copy(g, k->root, NULL), **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        Loads l;
        /* good indices, all different */
        while (u->op == UOP_GUARD && guard_kind(u->arg) == GUARD_INDEX && most[at] > 1 && most[at] > u->src[1]->vmin)
            at++;
        if (u->op != UOP_INDEX || u->nsrc != 2 || u->src[0]->op != UOP_PARAM) continue;
        find_loads(&l, u->src[1], g);
        slots |= slots_of(&l);
        while (l.n && most[at] > 1 && !inside(g, u, &l, most[at])) at++;
    }
    *limit = most[at];
    arena_free(a);
    graph_free(g);
    return slots;
}

/* ---- numbers ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

static double special(uint64_t r)
{
    static const double value[] = { NAN, INFINITY, -INFINITY, 1e-40, -1e-40, -0.0, 0.0, 5e-324 };
    return value[r & 7];
}

static int64_t element(DType t, uint64_t r, bool hostile, int64_t limit)
{
    double u = (double)(r >> 40) / (double)(1 << 24);
    if (dtype_is_float(t)) return scalar_of(hostile && r % 499 == 7 ? special(r >> 20) : 2 * u - 0.5);
    if (t == DT_BOOL) return (int64_t)(r >> 40 & 1);
    return limit ? (int64_t)(u * (double)limit) : 1 + (int64_t)(u * 100);
}

static void fill_floats(float *p, int64_t n, uint64_t seed, bool hostile)
{
    for (int64_t i = 0; i < n; i++) p[i] = (float)scalar_real(element(DT_F32, mix(seed + (uint64_t)i), hostile, 0));
}

/* Long arrays repeat: what matters is that neighbours differ. */
static void fill_block(DType t, void *p, int64_t n, uint32_t slot, bool hostile, int64_t limit)
{
    enum { PERIOD = 65521 * 4 };
    int64_t first = n < PERIOD ? n : PERIOD, size = dtype_size(t);
    uint64_t seed = mix(slot + 1);
    if (t == DT_F32) fill_floats(p, first, seed, hostile);
    else
        for (int64_t i = 0; i < first; i++) scalar_store(t, p, i, element(t, mix(seed + (uint64_t)i), hostile, limit));
    for (int64_t done = first; done < n; done += first)
        memcpy((char *)p + done * size, p, (size_t)((n - done < first ? n - done : first) * size));
}

bool inputs_make(Inputs *in, const Kernel *k, bool hostile)
{
    int64_t limit = 0;
    uint64_t slots = positions(k, &limit);
    *in = (Inputs){ .count = k->nparam };
    for (uint32_t i = 0; i < k->nparam; i++) {
        const UOp *b = k->param[i].buffer;
        int64_t n = uop_numel(b);
        in->size_bytes[i] = (size_t)(n * dtype_size((DType)b->dtype));
        if (!(in->data[i] = mem_try(in->size_bytes[i] + 1))) return inputs_free(in), false;
        fill_block((DType)b->dtype, in->data[i], n, i, hostile && !k->param[i].constant, slots >> i & 1 ? limit : 0);
    }
    return true;
}

void inputs_free(Inputs *in)
{
    for (uint32_t i = 0; i < in->count; i++) mem_free(in->data[i]);
    *in = (Inputs){ 0 };
}

void inputs_fill(void *user, uint32_t slot, void *ptr, size_t size_bytes)
{
    const Inputs *in = user;
    size_t n = in->size_bytes[slot] < size_bytes ? in->size_bytes[slot] : size_bytes;
    memcpy(ptr, in->data[slot], n);
    memset((char *)ptr + n, 0, size_bytes - n);
}

/* ---- comparison ---- */

static double real_at(DType t, const void *p, int64_t i) { return scalar_real(scalar_load(t, p, i)); }

static double unit_of(DType t)
{
    return t == DT_F64 ? 0x1p-52 : t == DT_F16 ? 0x1p-10 : t == DT_BF16 ? 0x1p-7 : 0x1p-23;
}

/* The plain kernel's largest error (0 where it is not known), and the root mean square of what is wanted. */
static void plain_error(const Comparison *c, const void *want, double *error, double *rms)
{
    double sum = 0;
    int64_t n = 0;
    *error = 0;
    for (int64_t i = 0; i < c->numel; i++) {
        double w = real_at(c->dtype, want, i), d = c->oracle && c->plain ? fabs(real_at(c->dtype, c->plain, i) - w) : 0;
        if (!isfinite(w)) continue;
        sum += w * w;
        n++;
        if (isfinite(d) && d > *error) *error = d;
    }
    *rms = n ? sqrt(sum / (double)n) : 0;
}

/* How far the element may lie from what is wanted. */
static double margin(const Comparison *c, double w, double error, double rms)
{
    double scale = unit_of(c->dtype) * (fabs(w) > rms ? fabs(w) : rms);
    return 2 * (c->oracle && c->plain ? error : sqrt(c->terms) * scale) + 4 * scale;
}

static bool close_enough(double g, double w, double most)
{
    if (isnan(w) || isnan(g)) return isnan(w) && isnan(g);
    return isinf(w) || isinf(g) ? w == g : fabs(g - w) <= most;
}

bool results_agree(const Comparison *c, char why[160])
{
    const void *want = c->oracle ? c->oracle : c->plain;
    double error = 0, rms = 0;
    bool real = dtype_is_float(c->dtype);
    if (real) plain_error(c, want, &error, &rms);
    for (int64_t i = 0; i < c->numel; i++) {
        int64_t g = scalar_load(c->dtype, c->got, i), w = scalar_load(c->dtype, want, i);
        double most = real ? margin(c, scalar_real(w), error, rms) : 0;
        if (real ? close_enough(scalar_real(g), scalar_real(w), most) : g == w) continue;
        if (real)
            snprintf(why, 160, "element %lld is %.9g; %.9g is wanted, within %.3g", (long long)i, scalar_real(g),
                     scalar_real(w), most);
        else snprintf(why, 160, "element %lld is %lld; %lld is wanted", (long long)i, (long long)g, (long long)w);
        return false;
    }
    return true;
}
