#include "bench/task.h"

#include <math.h>
#include <string.h>

#include "bench/args.h"
#include "bench/values.h"

static const struct { const char *name; double least; double most; } tasks[] = {
    [TASK_AUTO] = { "auto", NAN, NAN },      [TASK_STANDARD] = { "standard", NAN, NAN },
    [TASK_TOP1] = { "top1", 1, 1 },          [TASK_TOP5] = { "top5", 1, 1 },
    [TASK_COSINE] = { "cosine", 0.999, 1 },  [TASK_PSNR] = { "psnr", 40, 1000 },
    [TASK_IOU] = { "iou", 0.95, 1 },
};

const char *task_name(TaskKind kind) { return tasks[kind].name; }

bool task_of(const char *s, Task *out)
{
    const char *equals = strrchr(s, '='), *word = equals ? equals + 1 : s;
    size_t len = strcspn(word, ":");
    if (equals == s) return false;
    for (size_t k = 0; k < sizeof tasks / sizeof *tasks; k++) {
        double least = tasks[k].least;
        if (strlen(tasks[k].name) != len || memcmp(tasks[k].name, word, len)) continue;
        if (word[len] && (isnan(least) || !parse_real(word + len + 1, &least) || least < 0 || least > tasks[k].most))
            return false;
        if (out) *out = (Task){ (TaskKind)k, least };
        return true;
    }
    return false;
}

/* ---- rows ---- */

static double at(const TgTensor *t, int64_t i) { return value_get(t->type, t->data, i); }

/* The place of the largest element, the first of equal ones; -1: none is a number. */
static int64_t largest(const TgTensor *t, int64_t first, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        double v = at(t, first + i);
        if (!isnan(v) && (best < 0 || v > at(t, first + best))) best = i;
    }
    return best;
}

bool among_largest(TgType type, const void *row, int64_t first, int64_t n, int64_t label, int64_t most)
{
    int64_t above = 0;
    if (label < 0 || label >= n) return false;
    double v = value_get(type, row, first + label);
    for (int64_t i = 0; i < n; i++) {
        double other = value_get(type, row, first + i);
        above += other > v || (other == v && i < label);
    }
    return !isnan(v) && above < most;
}

static double share_of_rows(const TgTensor *got, const TgTensor *want, int64_t most)
{
    int64_t n = want->rank ? want->shape[want->rank - 1] : 1, rows = n ? tensor_numel(want) / n : 0, same = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = largest(want, r * n, n);
        same += label < 0 ? largest(got, r * n, n) < 0 : among_largest(got->type, got->data, r * n, n, label, most);
    }
    return rows ? (double)same / (double)rows : 1;
}

/* ---- all elements ---- */

/* What the elements add up to; false: one is no number in one of them alone. */
typedef struct { double dot, gg, ww, square, peak, n; } Sums;

static bool sums_of(Sums *s, const TgTensor *got, const TgTensor *want)
{
    *s = (Sums){ 0 };
    for (int64_t i = 0, n = tensor_numel(want); i < n; i++) {
        double g = at(got, i), w = at(want, i);
        if (g == w && !isfinite(g)) continue;
        if (isnan(g) && isnan(w)) continue;
        if (!isfinite(g) || !isfinite(w)) return false;
        s->dot += g * w;
        s->gg += g * g;
        s->ww += w * w;
        s->square += (g - w) * (g - w);
        s->peak = fmax(s->peak, fabs(w));
        s->n++;
    }
    return true;
}

static double cosine(const TgTensor *got, const TgTensor *want)
{
    Sums s;
    if (!sums_of(&s, got, want)) return -1;
    return s.gg > 0 && s.ww > 0 ? s.dot / sqrt(s.gg * s.ww) : s.gg == s.ww;
}

static double psnr(const TgTensor *got, const TgTensor *want)
{
    Sums s;
    if (!sums_of(&s, got, want)) return 0;
    return s.square > 0 ? fmax(0, 10 * log10(s.peak * s.peak * s.n / s.square)) : INFINITY;
}

static double overlap(const TgTensor *a, const TgTensor *b, int64_t i)
{
    double x[4], y[4];
    bool same = true;
    for (int k = 0; k < 4; k++) {
        x[k] = at(a, i + k);
        y[k] = at(b, i + k);
        same &= x[k] == y[k];
    }
    double w = fmin(x[2], y[2]) - fmax(x[0], y[0]), h = fmin(x[3], y[3]) - fmax(x[1], y[1]),
           both = fmax(w, 0) * fmax(h, 0), whole = (x[2] - x[0]) * (x[3] - x[1]) + (y[2] - y[0]) * (y[3] - y[1]) - both;
    return same ? 1 : whole > 0 ? both / whole : 0;
}

static double mean_overlap(const TgTensor *got, const TgTensor *want)
{
    int64_t n = tensor_numel(want);
    double sum = 0;
    if (!want->rank || want->shape[want->rank - 1] != 4) return NAN;
    for (int64_t i = 0; i < n; i += 4) sum += overlap(got, want, i);
    return n ? 4 * sum / (double)n : 1;
}

double task_measure(TaskKind kind, const TgTensor *got, const TgTensor *want)
{
    switch (kind) {
    case TASK_TOP1: return share_of_rows(got, want, 1);
    case TASK_TOP5: return share_of_rows(got, want, 5);
    case TASK_COSINE: return cosine(got, want);
    case TASK_PSNR: return psnr(got, want);
    case TASK_IOU: return mean_overlap(got, want);
    default: return NAN;
    }
}
