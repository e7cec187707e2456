/* Host functions that order: TopK, Unique; and what they and others sort with. See host.c.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "frontend/host.h"
#include "frontend/host_util.h"
#include "graph/custom.h"
#include "graph/scalar.h"

enum { FEW = 64, BLOCK = 32, GROUPS = 1024, COLUMNS = 16 };

/* ---- lists ---- */

uint64_t host_item(float value, int64_t index, bool largest)
{
    uint32_t u;
    value += 0.0f;
    memcpy(&u, &value, 4);
    u = isnan(value) ? UINT32_MAX : u ^ (u >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
    return (uint64_t)(largest ? ~u : u) << 32 | (uint32_t)index;
}

static void sort_few(uint64_t *item, int64_t n)
{
    for (int64_t i = 1, j; i < n; i++) {
        uint64_t x = item[i];
        for (j = i; j > 0 && item[j - 1] > x; j--) item[j] = item[j - 1];
        item[j] = x;
    }
}

/* Eight bits a pass; equal ones stay in order. An even number of passes ends where it began. */
void host_sort(uint64_t *item, uint64_t *spare, int64_t n)
{
    if (n <= FEW) {
        sort_few(item, n);
        return;
    }
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t at[257] = { 0 };
        uint64_t *from = item;
        for (int64_t i = 0; i < n; i++) at[(item[i] >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++) at[k + 1] += at[k];
        for (int64_t i = 0; i < n; i++) spare[at[item[i] >> shift & 255]++] = item[i];
        item = spare;
        spare = from;
    }
}

/* ---- TopK ---- */

/* May one of them be better than the limit? Every NaN may, and all where the limit is one. */
static bool any_better(const float *x, int64_t n, float limit, bool largest)
{
    int found = 0;
    if (largest) {
#pragma omp simd reduction(| : found)
        for (int64_t i = 0; i < n; i++) found |= !(x[i] <= limit);
    } else {
#pragma omp simd reduction(| : found)
        for (int64_t i = 0; i < n; i++) found |= !(x[i] >= limit);
    }
    return found;
}

/* How many items select_best keeps at once: the k best, as many that may be better. */
static int64_t select_room(int64_t n, int64_t k) { return (2 * k < n ? 2 * k : n) + 1; }

static int64_t insert(uint64_t *item, int64_t count, int64_t most, uint64_t new)
{
    int64_t j = count < most ? count++ : most - 1;
    for (; j > 0 && item[j - 1] > new; j--) item[j] = item[j - 1];
    item[j] = new;
    return count;
}

/* How many are at least that. */
static int64_t count_from(const float *x, int64_t n, float least)
{
    int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (int64_t i = 0; i < n; i++) count += x[i] >= least;
    return count;
}

/* What the k best are all better than, and few others: told by the best of groups, which lie side by side, of which k or a few more are. NaN do not count. NAN: nothing is known. */
static float first_limit(const float *x, int64_t n, int64_t k, bool largest)
{
    float group[GROUPS], low = FLT_MAX, high = -FLT_MAX, sign = largest ? 1 : -1;
    int64_t groups = n / 8 < GROUPS ? n / 8 & ~INT64_C(15) : GROUPS;
    if (k > FEW || groups < 2 * k) return NAN;
    for (int64_t i = 0; i < groups; i++) group[i] = -FLT_MAX;
    for (int64_t from = 0; from + groups <= n; from += groups) {
#pragma omp simd
        for (int64_t i = 0; i < groups; i++) group[i] = sign * x[from + i] > group[i] ? sign * x[from + i] : group[i];
    }
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < groups; i++) low = group[i] < low ? group[i] : low, high = group[i] > high ? group[i] : high;
    if (high > FLT_MAX) high = FLT_MAX;
    for (int64_t step = 0, count = groups; step < 16 && count > k + k / 4; step++) {
        float middle = low / 2 + high / 2;
        int64_t more = count_from(group, groups, middle);
        if (more < k) high = middle;
        else low = middle, count = more;
    }
    return low > -FLT_MAX ? sign * nextafterf(low, -INFINITY) : NAN;
}

/* The k best of n to the front of item, best first, k > 0. Few are kept in order; many gather, and when there is no room for more, are sorted. */
static void select_best(const float *x, int64_t n, int64_t k, bool largest, uint64_t *item, uint64_t *spare)
{
    int64_t count = 0, room = select_room(n, k);
    uint64_t last = UINT64_MAX;
    float limit = first_limit(x, n, k, largest);
    for (int64_t i = 0; i < n; i++) {
        if (i % BLOCK == 0)
            while (i + BLOCK <= n && !any_better(x + i, BLOCK, limit, largest)) i += BLOCK;
        if (i == n) break;
        if (largest ? x[i] <= limit : x[i] >= limit) continue;
        uint64_t new = host_item(x[i], i, largest);
        if (new > last) continue;
        if (k <= FEW) count = insert(item, count, k, new);
        else item[count++] = new;
        if (k > FEW && count == room) host_sort(item, spare, count), count = k;
        else if (k > FEW || count < k) continue;
        last = item[k - 1];
        limit = x[(uint32_t)last];
    }
    host_sort(item, spare, count);
}

typedef struct { int64_t key, index; } HostItem;

static bool better(HostItem a, HostItem b) { return a.key != b.key ? a.key > b.key : a.index < b.index; }

static void sift(HostItem *heap, int64_t n, int64_t i)
{
    HostItem x = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(heap[child], heap[child + 1])) child++;
        if (!better(x, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

/* The k with the largest keys first, in order. k <= n */
static void heap_best(HostItem *item, int64_t n, int64_t k)
{
    for (int64_t i = k / 2; i-- > 0;) sift(item, k, i);                 /* the worst of the first k on top */
    for (int64_t i = k; i < n && k; i++)
        if (better(item[i], item[0])) item[0] = item[i], sift(item, k, 0);
    for (int64_t i = k; i-- > 1;) {
        HostItem worst = item[0];
        item[0] = item[i];
        item[i] = worst;
        sift(item, i, 0);
    }
}

typedef struct { DType t; const void *x; int64_t n, k, inner; bool largest; float *value; int64_t *place; uint64_t *item; HostItem *heap; } Topk;

/* Do floats hold all values? */
static bool by_value(DType t, int64_t n) { return (t == DT_F32 || dtype_size(t) <= 2) && n < INT32_MAX; }

static void floats_to_rows(float *restrict row, const float *restrict x, int64_t n, int64_t step, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) row[c * n + i] = x[i * step + c];
}

/* Columns side by side become rows, so that each line of memory is read once. */
static const float *rows_of(const Topk *s, int64_t from, int64_t columns)
{
    const float *x = s->x;
    if (s->t == DT_F32 && s->inner == 1) return x + from;
    if (s->t == DT_F32) floats_to_rows(s->value, x + from, s->n, s->inner, columns);
    else for (int64_t k = 0; k < columns * s->n; k++) s->value[k] = (float)host_float(s->t, x, from + k % s->n * s->inner + k / s->n);
    return s->value;
}

static void best_by_value(const Topk *s, const float *row)
{
    select_best(row, s->n, s->k, s->largest, s->item, s->item + select_room(s->n, s->k));
    for (int64_t i = 0; i < s->k; i++) s->place[i] = (int64_t)(uint32_t)s->item[i];
}

static void best_by_key(const Topk *s, int64_t from)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t key = host_key(s->t, s->x, from + i * s->inner);
        s->heap[i] = (HostItem){ s->largest ? key : ~key, i };
    }
    heap_best(s->heap, s->n, s->k);
    for (int64_t i = 0; i < s->k; i++) s->place[i] = s->heap[i].index;
}

static void write_best(const Topk *s, int64_t from, int64_t to, char *value, int64_t *index)
{
    int64_t size = dtype_size(s->t);
    for (int64_t i = 0; i < s->k && value; i++) host_copy(size, value + (to + i * s->inner) * size, (const char *)s->x + (from + s->place[i] * s->inner) * size);
    for (int64_t i = 0; i < s->k && index; i++) index[to + i * s->inner] = s->place[i];
}

static void make_room(Topk *s)
{
    size_t n = (size_t)s->n, k = (size_t)s->k, items = 2 * (size_t)select_room(s->n, s->k);
    s->place = host_scratch((k + items) * 8 + n * (COLUMNS * sizeof *s->value > sizeof *s->heap ? COLUMNS * sizeof *s->value : sizeof *s->heap));
    s->item = (uint64_t *)(s->place + k);
    s->value = (void *)(s->item + items);
    s->heap = (void *)(s->item + items);
}

/* x -> values, indices i64: the k best along the axis, best first. A part is some of the rows. */
TgStatus host_topk_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts)
{
    const TopkAttr *a = custom_attr(call->call->src[0], NULL);
    DType t = call->tensor[0].dtype;
    uint32_t axis = (uint32_t)a->axis;
    int64_t n = host_dim(call, 0, axis, vars), k = host_dim(call, 1, axis, vars), outer = host_product(call, 0, 0, axis, vars);
    int64_t inner = host_product(call, 0, axis + 1, call->tensor[0].shape->rank, vars);
    if (k > n || k < 0) return fail(TG_BAD_INPUT, "k is %lld; the axis has size %lld", (long long)k, (long long)n);
    Topk s = { .t = t, .x = args[0], .n = n, .k = k, .inner = inner, .largest = a->largest };
    make_room(&s);
    int64_t end = outer * inner * (part + 1) / parts;
    for (int64_t column = outer * inner * part / parts, columns; column < end && k; column += columns) {
        int64_t at = column % inner, from = column / inner * n * inner + at, to = column / inner * k * inner + at;
        columns = inner - at < COLUMNS ? inner - at : COLUMNS;
        if (columns > end - column) columns = end - column;
        const float *row = by_value(t, n) ? rows_of(&s, from, columns) : NULL;
        for (int64_t c = 0; c < columns; c++) {
            if (row) best_by_value(&s, row + c * n);
            else best_by_key(&s, from + c);
            write_best(&s, from + c, to + c, host_result(call, args, 0), host_result(call, args, 1));
        }
    }
    return TG_OK;
}

TgStatus host_topk(const HostCall *call, void *const *args, int64_t *vars) { return host_topk_part(call, args, vars, 0, 1); }

/* ---- Unique ---- */

typedef struct { DType t; const void *x; int64_t width; } Rows;

static int row_order(const Rows *r, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < r->width; k++) {
        int64_t x = host_key(r->t, r->x, a * r->width + k), y = host_key(r->t, r->x, b * r->width + k);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

/* Stable merge sort of row numbers. */
static void row_sort(const Rows *r, int64_t *v, int64_t *spare, int64_t n)
{
    if (n < 2) return;
    int64_t half = n / 2, i = 0, j = half;
    row_sort(r, v, spare, half);
    row_sort(r, v + half, spare, n - half);
    for (int64_t k = 0; k < n; k++) spare[k] = j == n || (i < half && row_order(r, v[i], v[j]) <= 0) ? v[i++] : v[j++];
    memcpy(v, spare, (size_t)n * sizeof *v);
}

typedef struct { uint64_t key; int64_t row; } Keyed;

/* Rows of one element. Eight bits a pass, as many as the keys' range has; equal ones stay in order. Returns the sorted list, which is one of the two. */
static const Keyed *keyed_sort(const Rows *r, Keyed *item, Keyed *spare, int64_t n)
{
    uint64_t least = UINT64_MAX, range = 0;
    for (int64_t i = 0; i < n; i++) {
        item[i] = (Keyed){ (uint64_t)host_key(r->t, r->x, i) ^ UINT64_C(1) << 63, i };
        if (item[i].key < least) least = item[i].key;
        if (item[i].key > range) range = item[i].key;
    }
    range -= least;
    for (int shift = 0; shift < 64 && n && range >> shift; shift += 8) {
        int64_t at[257] = { 0 };
        Keyed *from = item;
        for (int64_t i = 0; i < n; i++) at[((item[i].key - least) >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++) at[k + 1] += at[k];
        for (int64_t i = 0; i < n; i++) spare[at[(item[i].key - least) >> shift & 255]++] = item[i];
        item = spare;
        spare = from;
    }
    return item;
}

/* Row numbers in order of the rows, equal ones in their own; again[i]: the i-th equals the one before. room: 4 n numbers. */
static void sort_rows(const Rows *r, int64_t *sorted, bool *again, int64_t *room, int64_t n)
{
    if (r->width == 1) {
        const Keyed *item = keyed_sort(r, (Keyed *)room, (Keyed *)(room + 2 * n), n);
        for (int64_t i = 0; i < n; i++) sorted[i] = item[i].row, again[i] = i && item[i].key == item[i - 1].key;
    } else {
        for (int64_t i = 0; i < n; i++) sorted[i] = i;
        row_sort(r, sorted, room, n);
        for (int64_t i = 0; i < n; i++) again[i] = i && !row_order(r, sorted[i - 1], sorted[i]);
    }
}

/* Rows x [N, W] -> distinct rows [n, W], where each is first [n], which one each row is [N], how often each occurs [n]; and n. In order of value or of first sight. */
TgStatus host_unique(const HostCall *call, void *const *args, int64_t *vars)
{
    const UniqueAttr *a = custom_attr(call->call->src[0], NULL);
    Rows r = { call->tensor[0].dtype, args[0], host_dim(call, 0, 1, vars) };
    int64_t rows = host_dim(call, 0, 0, vars), n = 0, *out_first = host_result(call, args, 1), *inverse = host_result(call, args, 2), *count = host_result(call, args, 3);
    size_t bytes = (size_t)(r.width * dtype_size(r.t));
    int64_t *room = host_scratch((size_t)(rows + 1) * 41), *sorted = room + 4 * rows, *group = room, *number = room + rows, *first = room + 2 * rows;
    bool *again = (bool *)(sorted + rows);
    char *y = host_result(call, args, 0);
    sort_rows(&r, sorted, again, room, rows);
    for (int64_t i = 0; i < rows; i++) group[sorted[i]] = again[i] ? group[sorted[i - 1]] : sorted[i];       /* the first row that equals it, the sort being stable */
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = a->sorted ? sorted[i] : i;
        if (group[row] == row) first[n] = row, number[row] = n++;
    }
    if (count) memset(count, 0, (size_t)n * sizeof *count);
    for (int64_t i = 0; i < rows; i++) {
        if (inverse) inverse[i] = number[group[i]];
        if (count) count[number[group[i]]]++;
    }
    if (out_first && n) memcpy(out_first, first, (size_t)n * sizeof *first);
    for (int64_t i = 0; i < n && y && bytes; i++) memcpy(y + (size_t)i * bytes, (char *)args[0] + (size_t)first[i] * bytes, bytes);
    vars[call->var[0]] = n;
    return TG_OK;
}
