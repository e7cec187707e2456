/* Host functions of object detectors: NonMaxSuppression, RoiAlign with a number of samples that depends on the region.
 * See host.c. */
#include <math.h>
#include <string.h>

#include "frontend/host/host.h"
#include "frontend/host/util.h"
#include "graph/custom.h"

typedef struct { float x0, y0, x1, y1; } Box;

static Box box_at(const float *p, bool centre)
{
    if (centre) return (Box){ p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2 };
    bool x = p[1] < p[3], y = p[0] < p[2];
    return (Box){ p[x ? 1 : 3], p[y ? 0 : 2], p[x ? 3 : 1], p[y ? 2 : 0] };
}

/* Boxes that were kept, side by side, so that a new one meets several at once. */
typedef struct {
    float *x0, *y0, *x1, *y1, *area;
} Kept;
enum { BLOCK = 32 };

/* Without a division, so that it is quick: finds what meets, and what nearly does. */
static bool may_meet(const Kept *k, int64_t from, int64_t to, Box b, float area, float limit)
{
    const float *restrict x0 = k->x0, *restrict y0 = k->y0, *restrict x1 = k->x1, *restrict y1 = k->y1,
                          *restrict own = k->area;
    float most = limit * (limit > 0 ? 0.999999f : 1.000001f);
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t i = from; i < to; i++) {
        float w = (b.x1 < x1[i] ? b.x1 : x1[i]) - (b.x0 > x0[i] ? b.x0 : x0[i]),
              h = (b.y1 < y1[i] ? b.y1 : y1[i]) - (b.y0 > y0[i] ? b.y0 : y0[i]);
        w = w > 0 ? w : 0, h = h > 0 ? h : 0;
        float both = w * h;
        found |= both > most * (area + own[i] - both);
    }
    return found;
}

static bool meets_block(const Kept *k, int64_t from, int64_t to, Box b, float area, float limit)
{
    if (!may_meet(k, from, to, b, area, limit)) return false;
    for (int64_t i = from; i < to; i++) {
        float w = (b.x1 < k->x1[i] ? b.x1 : k->x1[i]) - (b.x0 > k->x0[i] ? b.x0 : k->x0[i]),
              h = (b.y1 < k->y1[i] ? b.y1 : k->y1[i]) - (b.y0 > k->y0[i] ? b.y0 : k->y0[i]);
        float both = w * h, either = area + k->area[i] - both;
        if (w > 0 && h > 0 && area > 0 && k->area[i] > 0 && either > 0 && both / either > limit) return true;
    }
    return false;
}

static bool meets_any(const Kept *k, int64_t from, int64_t to, Box b, float limit)
{
    float area = (b.x1 - b.x0) * (b.y1 - b.y0);
    for (int64_t i = from; i < to; i += BLOCK)
        if (meets_block(k, i, i + BLOCK < to ? i + BLOCK : to, b, area, limit)) return true;
    return false;
}

static void keep(const Kept *k, int64_t i, Box b)
{
    k->x0[i] = b.x0, k->y0[i] = b.y0, k->x1[i] = b.x1, k->y1[i] = b.y1;
    k->area[i] = (b.x1 - b.x0) * (b.y1 - b.y0);
}

/* Strips of x at least as wide as any box: a box meets only those that begin in its own strip or one beside it. */
enum { STRIPS = 1024 };
typedef struct {
    double begin, scale;
    int64_t count, first[STRIPS + 1], end[STRIPS];
} Strips;

static int64_t strip_of(const Strips *s, Box b)
{
    double at = ((double)b.x0 - s->begin) * s->scale;
    return at > 0 ? at < (double)s->count ? (int64_t)at : s->count - 1 : 0;
}

/* Room in each strip for the candidates that begin there. Few candidates, or bounds that are not finite, make one
 * strip. */
static void make_strips(Strips *s, const Box *box, const uint64_t *item, int64_t count)
{
    double low = INFINITY, high = -INFINITY, widest = 0;
    bool many = count > 4 * BLOCK;
    for (int64_t i = 0; i < count && many; i++) {
        Box b = box[(uint32_t)item[i]];
        double x0 = (double)b.x0, wide = (double)b.x1 - x0;
        many = isfinite(b.x0) && isfinite(b.x1);
        low = x0 < low ? x0 : low, high = x0 > high ? x0 : high, widest = wide > widest ? wide : widest;
    }
    double width = widest * 1.001 > (high - low) / (STRIPS - 1) ? widest * 1.001 : (high - low) / (STRIPS - 1);
    many = many && width > 0;
    s->begin = low, s->scale = many ? 1 / width : 0;
    s->count = many ? (int64_t)((high - low) * s->scale) + 1 : 1;
    if (s->count > STRIPS) s->count = STRIPS;
    memset(s->first, 0, (size_t)(s->count + 1) * sizeof *s->first);
    for (int64_t i = 0; i < count && many; i++) s->first[strip_of(s, box[(uint32_t)item[i]]) + 1]++;
    for (int64_t i = 0; i < s->count; i++) s->first[i + 1] += s->first[i], s->end[i] = s->first[i];
}

/* ---- NonMaxSuppression ---- */

typedef struct {
    int64_t limit, n;
    float iou, least;
    const Box *box;
    uint64_t *item, *spare;
    Kept kept;
} Nms;

/* One class of one picture: best first, each that overlaps none before it. Returns how many; item holds them. */
static int64_t suppress(const Nms *s, const float *score)
{
    int64_t count = 0, kept = 0;
    Strips strips;
    for (int64_t i = 0; i < s->n; i++)
        if (score[i] > s->least) s->item[count++] = host_item(score[i], i, true);
    host_sort(s->item, s->spare, count);
    make_strips(&strips, s->box, s->item, count);
    for (int64_t i = 0; i < count && kept < s->limit; i++) {
        Box b = s->box[(uint32_t)s->item[i]];
        int64_t at = strip_of(&strips, b);
        bool met = false;
        for (int64_t t = at ? at - 1 : 0; t <= at + 1 && t < strips.count && !met; t++)
            met = meets_any(&s->kept, strips.first[t], strips.end[t], b, s->iou);
        if (met) continue;
        s->item[kept++] = s->item[i];
        keep(&s->kept, strips.end[at]++, b);
    }
    return kept;
}

/* boxes [B,N,4] f32, scores [B,C,N] f32, most a class (i64), overlap limit, least score (f32) -> [n,3] i64 of (picture,
 * class, box); and n. */
TgStatus host_nms(const HostCall *call, void *const *args, int64_t *vars)
{
    const NmsAttr *a = custom_attr(call->call->src[0], NULL);
    int64_t batch = host_dim(call, 1, 0, vars), classes = host_dim(call, 1, 1, vars), n = host_dim(call, 1, 2, vars),
            *out = host_result(call, args, 0), count = 0;
    uint64_t *item = host_scratch((size_t)(n + 1) * (2 * sizeof *item + 9 * sizeof(float)));
    Box *box = (Box *)(item + 2 * n);
    float *room = (float *)(box + n);
    Nms s = { *(const int64_t *)args[2],
              n,
              *(const float *)args[3],
              *(const float *)args[4],
              box,
              item,
              item + n,
              { room, room + n, room + 2 * n, room + 3 * n, room + 4 * n } };
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < n; i++) box[i] = box_at((const float *)args[0] + (b * n + i) * 4, a->centre);
        for (int64_t k = 0; k < classes; k++) {
            int64_t kept = suppress(&s, (const float *)args[1] + (b * classes + k) * n);
            for (int64_t i = 0; i < kept; i++, count++)
                if (out) memcpy(out + count * 3, (int64_t[]){ b, k, (uint32_t)item[i] }, 24);
        }
    }
    vars[call->var[0]] = count;
    return TG_OK;
}

/* ---- RoiAlign ---- */

enum { VECTORS = 4 };          /* vectors of channels that share a cell's weights */

static TgStatus check_region(double dy, double dx, int64_t r, int64_t picture, int64_t pictures)
{
    if (picture < 0 || picture >= pictures)
        return fail(TG_BAD_INPUT, "picture %lld of %lld", (long long)picture, (long long)pictures);
    return fabs(dy) < 65536 && fabs(dx) < 65536 ? TG_OK : fail(TG_BAD_INPUT, "region %lld is too large", (long long)r);
}

#define REAL float
#define INT int32_t
#define ROI(name) name##_single
#define CEIL ceilf
#define MAX fmaxf
#include "frontend/host/roi.h"

#define REAL double
#define INT int64_t
#define ROI(name) name##_double
#define CEIL ceil
#define MAX fmax
#include "frontend/host/roi.h"

/* x [N,H,W,C], regions [R,4], pictures [R] i64 -> [R,C,h,w]. A part is some of the regions; each checks them all. */
TgStatus host_roi_align_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts)
{
    const RoiAttr *a = custom_attr(call->call->src[0], NULL);
    return (a->wide ? roi_align_double : roi_align_single)(call, args, vars, part, parts);
}

TgStatus host_roi_align(const HostCall *call, void *const *args, int64_t *vars)
{
    return host_roi_align_part(call, args, vars, 0, 1);
}
