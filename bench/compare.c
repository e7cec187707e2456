#include "bench/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/stats.h"
#include "bench/values.h"

/* ---- parts ---- */

enum { PART = 1 << 18 };            /* elements */

/* Elements first .. of t, at most PART, as a row. */
static TgTensor part_of(const TgTensor *t, int64_t first)
{
    int64_t left = tensor_numel(t) - first;
    return (TgTensor){ .type = t->type,
                       .rank = 1,
                       .shape = { left < PART ? left : PART },
                       .data = (char *)t->data + first * tg_type_bits(t->type) / 8 };
}

/* A part of a mapped tensor that has been looked at leaves memory, so that the whole never stands there. The page that
 * the next one begins on stays. */
static void let_go(const TgTensor *part)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)part->data & ~(page - 1),
              end = (uintptr_t)part->data + (uintptr_t)(part->shape[0] * tg_type_bits(part->type) / 8);
    if ((end & ~(page - 1)) > first) madvise((void *)first, (end & ~(page - 1)) - first, MADV_DONTNEED);
}

/* ---- tolerances ---- */

/* A row a dtype, and one for what else float32 may have been computed in: atol is a multiple of the reference's rms. */
static const struct { TgType type; char precision; double rtol, atol_rms; } automatic[] = {
    { TG_F32, 's', 1e-3, 1e-3 }, { TG_F32, 'f', 3e-2, 3e-2 },
    { TG_F32, 0, 1e-4, 5e-5 }, { TG_F16, 0, 1e-2, 2e-3 }, { TG_BF16, 0, 3e-2, 1e-2 }, { TG_F64, 0, 1e-7, 1e-9 },
};

double tensor_rms(const TgTensor *t, bool mapped)
{
    double sum = 0;
    int64_t n = tensor_numel(t), count = 0;
    for (int64_t first = 0; first < n; first += PART) {
        TgTensor part = part_of(t, first);
        for (int64_t i = 0; i < part.shape[0]; i++) {
            double v = value_get(t->type, part.data, i);
            if (!isfinite(v)) continue;
            sum += v * v;
            count++;
        }
        if (mapped) let_go(&part);
    }
    return count ? sqrt(sum / (double)count) : 0;
}

/* Roundings in another order move a coarse value to a neighbour, layers above it to the next: onnxruntime's own
 * optimised and plain results differ by two steps. */
static const double STEPS = 3;

static Tolerance of_type(TgType type, char precision, double rms)
{
    for (size_t i = 0; i < sizeof automatic / sizeof *automatic; i++)
        if (automatic[i].type == type && (!automatic[i].precision || automatic[i].precision == precision))
            return (Tolerance){ automatic[i].rtol, automatic[i].atol_rms * rms };
    return (Tolerance){ 0, 0 };
}

/* A float32 output that is a cast of float16 is held to float16's. */
static Tolerance automatic_tolerance(const TgPort *port, const Bound *want, char precision)
{
    TgType type = want->tensor.type;
    if (!type_is_float(type)) return (Tolerance){ 0, 0 };
    double rms = tensor_rms(&want->tensor, want->mapped);
    Tolerance t = of_type(type, precision, rms), half = of_type(port->rounded, 0, rms);
    bool wider = port->rounded && type == TG_F32;
    return (Tolerance){ wider ? fmax(t.rtol, half.rtol) : t.rtol,
                        fmax(wider ? fmax(t.atol, half.atol) : t.atol, STEPS * port->step) };
}

/* The last of `V` and `NAME:V` that applies. Names may hold colons, so the last colon counts. */
static bool given(const Args *a, Opt o, const char *name, double *out)
{
    bool found = false;
    for (uint32_t i = 0; i < a->value[o].count; i++) {
        const char *s = a->value[o].v[i], *colon = strrchr(s, ':');
        if (colon && (strlen(name) != (size_t)(colon - s) || memcmp(name, s, strlen(name)))) continue;
        found |= parse_real(colon ? colon + 1 : s, out);
    }
    return found;
}

/* The last of `TASK` and `NAME=TASK` that applies. */
static Task task_for(const Args *a, const char *name)
{
    Task t = { TASK_AUTO, 0 };
    for (uint32_t i = 0; i < a->value[OPT_tolerance].count; i++) {
        const char *s = a->value[OPT_tolerance].v[i], *equals = strrchr(s, '=');
        if (!equals || (strlen(name) == (size_t)(equals - s) && !memcmp(name, s, strlen(name)))) task_of(s, &t);
    }
    return t;
}

Tolerance tolerance_for(const Args *a, const TgPort *port, const Bound *want)
{
    bool standard = task_for(a, port->name).kind == TASK_STANDARD;
    Tolerance t = standard && type_is_float(want->tensor.type)
        ? (Tolerance){ 1e-3, 1e-7 }
        : automatic_tolerance(port, want, *args_text(a, OPT_precision, "exact"));
    given(a, OPT_rtol, port->name, &t.rtol);
    given(a, OPT_atol, port->name, &t.atol);
    return t;
}

/* ---- differences ---- */

/* Bit patterns of floats as integers that ascend with the value, so that their difference counts the values between. */
static int64_t ordered_bits(TgType type, const void *data, int64_t i)
{
    int64_t bits, sign;
    if (type == TG_F64) memcpy(&bits, (const char *)data + 8 * i, 8), sign = INT64_MIN;
    else if (type == TG_F32) bits = ((const int32_t *)data)[i], sign = INT32_MIN;
    else bits = ((const int16_t *)data)[i], sign = INT16_MIN;
    return bits < 0 ? sign - bits : bits;
}

static double ulps_between(TgType type, const void *x, const void *y, int64_t i)
{
    return fabs((double)ordered_bits(type, x, i) - (double)ordered_bits(type, y, i));
}

static void note_outside(Comparison *c, int64_t i)
{
    if (c->first < 0) c->first = i;
    c->outside++;
}

/* The largest hundredth of n numbers in a heap, the smallest of them on top: their 99th percentile without holding all.
 */
typedef struct { double *v; size_t count, cap; } Largest;

static void sift_down(Largest *h)
{
    size_t at = 0;
    for (size_t child = 1; child < h->count; at = child, child = 2 * at + 1) {
        if (child + 1 < h->count && h->v[child + 1] < h->v[child]) child++;
        if (h->v[at] <= h->v[child]) return;
        double v = h->v[at];
        h->v[at] = h->v[child];
        h->v[child] = v;
    }
}

static void largest_add(Largest *h, double v)
{
    if (h->count == h->cap) {
        if (v <= h->v[0]) return;
        h->v[0] = v;
        sift_down(h);
        return;
    }
    size_t at = h->count++;
    for (; at && h->v[(at - 1) / 2] > v; at = (at - 1) / 2) h->v[at] = h->v[(at - 1) / 2];
    h->v[at] = v;
}

/* As quantile_sorted of all n. */
static double largest_quantile(Largest *h, size_t n)
{
    double at = 0.99 * (double)(n - 1), low = floor(at);
    size_t from = n - h->count, k = (size_t)low - from;
    sort_doubles(h->v, (uint32_t)h->count);
    return k + 1 < h->count ? h->v[k] + (at - low) * (h->v[k + 1] - h->v[k]) : h->v[k];
}

/* What the parts of a tensor of floats add up to. */
typedef struct {
    double dot, gg, ww;
    size_t finite;
    Largest ulp;
} Sums;

static bool sums_begin(Sums *s, Comparison *c)
{
    *s = (Sums){ .ulp.cap = (size_t)c->numel / 100 + 2 };
    s->ulp.v = malloc(sizeof *s->ulp.v * s->ulp.cap);
    if (!s->ulp.v) snprintf(c->why, sizeof c->why, "no memory to compare %ld values", (long)c->numel);
    return s->ulp.v != NULL;
}

static void sums_end(Sums *s, Comparison *c)
{
    c->ulp99 = s->finite ? largest_quantile(&s->ulp, s->finite) : 0;
    c->cosine = s->gg > 0 && s->ww > 0 ? s->dot / sqrt(s->gg * s->ww) : s->gg == s->ww;
    free(s->ulp.v);
}

static void compare_floats(Comparison *c, Sums *s, const TgTensor *got, const TgTensor *want, int64_t first)
{
    for (int64_t i = 0; i < want->shape[0]; i++) {
        double g = value_get(got->type, got->data, i), w = value_get(want->type, want->data, i), d = fabs(g - w);
        if (g == w || (isnan(g) && isnan(w))) c->not_finite += !isfinite(w), d = 0;
        else if (!(d <= c->used.atol + c->used.rtol * fabs(w)) || !isfinite(g)) note_outside(c, first + i);
        if (!isfinite(g) || !isfinite(w)) continue;
        if (d > c->max_abs) c->max_abs = d;
        s->dot += g * w;
        s->gg += g * g;
        s->ww += w * w;
        s->finite++;
        largest_add(&s->ulp, ulps_between(want->type, got->data, want->data, i));
    }
}

static void compare_integers(Comparison *c, const TgTensor *got, const TgTensor *want, int64_t first)
{
    for (int64_t i = 0; i < want->shape[0]; i++) {
        int64_t g = value_get_int(got->type, got->data, i), w = value_get_int(want->type, want->data, i);
        double d = (double)(g > w ? (uint64_t)g - (uint64_t)w
                                  : (uint64_t)w - (uint64_t)g); /* exact: 2^63 - 1 and 2^63 - 2 differ */
        if (g != w && !(d <= c->used.atol + c->used.rtol * fabs((double)w))) note_outside(c, first + i);
        if (d > c->max_abs) c->max_abs = d;
    }
}

/* Text, and types that are only known by their codes. */
static bool same_element(const TgTensor *a, const TgTensor *b, int64_t i)
{
    size_t size = (size_t)tg_type_bits(a->type) / 8, at = size * (size_t)i;
    if (a->type == TG_STRING) return !strcmp(((const char *const *)a->data)[i], ((const char *const *)b->data)[i]);
    return size ? !memcmp((const char *)a->data + at, (const char *)b->data + at, size)
                : value_get_int(a->type, a->data, i) == value_get_int(b->type, b->data, i);
}

static void compare_bytes(Comparison *c, const TgTensor *got, const TgTensor *want, int64_t first)
{
    for (int64_t i = 0; i < want->shape[0]; i++)
        if (!same_element(got, want, i)) note_outside(c, first + i);
}

/* Complex numbers compare as pairs of reals. */
static TgTensor as_reals(const TgTensor *t)
{
    TgTensor r = *t;
    if (t->type != TG_COMPLEX64 && t->type != TG_COMPLEX128) return r;
    r.type = t->type == TG_COMPLEX64 ? TG_F32 : TG_F64;
    r.shape[r.rank < TG_MAX_RANK ? r.rank++ : TG_MAX_RANK - 1] = 2;
    return r;
}

static void compare_parts(Comparison *c, Sums *s, const TgTensor *got, const TgTensor *want, bool mapped)
{
    for (int64_t first = 0; first < c->numel; first += PART) {
        TgTensor g = part_of(got, first), w = part_of(want, first);
        if (type_is_float(w.type)) compare_floats(c, s, &g, &w, first);
        else if (type_is_integer(w.type)) compare_integers(c, &g, &w, first);
        else compare_bytes(c, &g, &w, first);
        if (mapped) let_go(&w);
    }
}

Comparison compare_tensors(const TgTensor *got_, const Bound *want_, Tolerance t)
{
    TgTensor got = as_reals(got_), want = as_reals(&want_->tensor);
    Comparison c = { .numel = tensor_numel(&want), .first = -1, .used = t, .cosine = 1 };
    char a[96], b[96];
    Sums s;
    tensor_title(&got, a, sizeof a);
    tensor_title(&want, b, sizeof b);
    if (strcmp(a, b)) {
        snprintf(c.why, sizeof c.why, "is %.70s, expected %.70s", a, b);
        return c;
    }
    if (!sums_begin(&s, &c)) return c;
    compare_parts(&c, &s, &got, &want, want_->mapped);
    sums_end(&s, &c);
    if (!type_is_float(want.type)) c.cosine = c.outside == 0;
    double rms = tensor_rms(&want, want_->mapped);
    c.max_rel = rms > 0 ? c.max_abs / rms : c.max_abs > 0 ? INFINITY : 0;
    c.ok = !c.outside && !*c.why;
    return c;
}

/* ---- outputs ---- */

/* A task's measure decides instead of the largest difference. */
static Comparison for_task(Comparison c, Task task, const TgTensor *got, const Bound *want)
{
    bool numbers = type_is_float(want->tensor.type) || type_is_integer(want->tensor.type);
    if (task.kind <= TASK_STANDARD || *c.why || !numbers) return c;
    c.task = task;
    c.measure = task_measure(task.kind, got, &want->tensor);
    c.ok = c.measure >= task.least;
    if (isnan(c.measure))
        snprintf(c.why, sizeof c.why, "--tolerance %s: its last axis has no boxes x0 y0 x1 y1", task_name(task.kind));
    return c;
}

static void add_part(Comparison *all, const Comparison *c, int64_t k)
{
    if (!c->ok && !*all->why && *c->why) snprintf(all->why, sizeof all->why, "[%ld] %.140s", (long)k, c->why);
    if (!c->ok && all->first < 0) all->first = k;
    all->ok &= c->ok;
    all->max_abs = fmax(all->max_abs, c->max_abs);
    all->max_rel = fmax(all->max_rel, c->max_rel);
    all->ulp99 = fmax(all->ulp99, c->ulp99);
    all->cosine = fmin(all->cosine, c->cosine);
    all->numel += c->numel;
    all->outside += c->outside;
    all->not_finite += c->not_finite;
    all->used = c->used;
}

Comparison compare_output(const Args *a, const TgPort *port, const TgTensor *got, const Bound *expected)
{
    const TgTensor *want = &expected->tensor;
    Comparison all = { .ok = true, .first = -1, .cosine = 1 };
    if (got->type == TG_OPTIONAL && want->type != TG_OPTIONAL && got->shape[0])
        got = got->data; /* files may tell an optional's element alone */
    if (!holds_tensors(want))
        return for_task(compare_tensors(got, expected, tolerance_for(a, port, expected)), task_for(a, port->name), got,
                        expected);
    if (got->type != want->type || got->shape[0] != want->shape[0]) {
        char is[70], expected[70];
        tensor_title(got, is, sizeof is);
        tensor_title(want, expected, sizeof expected);
        all.ok = false;
        snprintf(all.why, sizeof all.why, "is %s, expected %s", is, expected);
        return all;
    }
    for (int64_t k = 0; k < want->shape[0]; k++) {
        Comparison c = compare_output(a, port, (const TgTensor *)got->data + k,
                                      &(Bound){ .tensor = ((const TgTensor *)want->data)[k] });
        add_part(&all, &c, k);
    }
    return all;
}
