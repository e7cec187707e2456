/* Host functions that order: TopK, Unique; and what they and others sort with. See host.c.
 */
#include <math.h>
#include <string.h>

#include "frontend/host/host.h"
#include "frontend/host/util.h"
#include "graph/custom.h"
#include "graph/scalar.h"

/* RANKED: elements of a row that are compared all with all, LANES at once; of at most LANES they are found one by one;
 * LANES_BEST: that columns side by side find at once, of LANES_WORK / k elements or, as few as LANES_FEW, of
 * LANES_LONG; LANES_ROW: elements of a row that lies side by side, beyond which it is searched by itself (two of 512 in
 * 1024 rows: 0.59 ms at once, 0.18 by themselves) */
enum {
    FEW = 64,
    BLOCK = 32,
    GROUPS = 4096,
    GROUPS_LEAST = 64,
    STEPS = 16,
    COLUMNS = 16,
    RANKED = 64,
    LANES = 8,
    LANES_BEST = 16,
    LANES_WORK = 2048,
    LANES_FEW = 8,
    LANES_LONG = 256,
    LANES_ROW = 96
};

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

/* ---- keyed lists ---- */

typedef struct { uint64_t key; int64_t index; } Keyed;

static void keyed_few(Keyed *item, int64_t n)
{
    for (int64_t i = 1, j; i < n; i++) {
        Keyed x = item[i];
        for (j = i; j > 0 && item[j - 1].key > x.key; j--) item[j] = item[j - 1];
        item[j] = x;
    }
}

/* By key: eight bits a pass, as many as the keys' range has; equal ones stay in order. Returns the sorted list, which
 * is one of the two. */
static Keyed *keyed_sort(Keyed *item, Keyed *spare, int64_t n)
{
    uint64_t least = UINT64_MAX, most = 0;
    if (n <= FEW) return keyed_few(item, n), item;
    for (int64_t i = 0; i < n; i++) {
        if (item[i].key < least) least = item[i].key;
        if (item[i].key > most) most = item[i].key;
    }
    for (int shift = 0; shift < 64 && (most - least) >> shift; shift += 8) {
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

/* ---- TopK ---- */

/* at, to: where the columns of a call begin, in what is read and in what is made; inner: between elements of one */
typedef struct {
    int64_t n, k, inner, at[COLUMNS], to[COLUMNS];
    bool largest;
    Keyed *item, *spare;
    void *rows;
} Topk;

/* How many items are kept at once: the k best, and about as many that may be better. */
static int64_t select_room(int64_t n, int64_t k) { return 2 * k + BLOCK < n ? 2 * k + BLOCK : n + 1; }

static int64_t row_room(int64_t n) { return n + 16; }

typedef void TopkColumns(const Topk *s, const void *x, void *value, int64_t *index, int64_t columns);

#define PROCESSOR
#define ON(name) name
#include "frontend/host/topks.h"
#undef PROCESSOR
#undef ON

#ifdef __x86_64__
#define PROCESSOR __attribute__((target("avx2")))
#define ON(name) name##_avx2
#include "frontend/host/topks.h"
#undef PROCESSOR
#undef ON
#define PROCESSOR __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ON(name) name##_avx512
#include "frontend/host/topks.h"
#undef PROCESSOR
#undef ON
#endif

static TopkColumns *topk_columns(DType t)
{
    TopkColumns *const *columns_of = columns;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) columns_of = columns_avx2;
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) columns_of = columns_avx512;
#endif
    return columns_of[t == DT_F32 ? 0 : t == DT_F64 ? 1 : t == DT_I32 ? 2 : 3];
}

static Topk topk_room(int64_t n, int64_t k, int64_t inner, bool largest)
{
    Topk s = { .n = n, .k = k, .inner = inner, .largest = largest };
    size_t items = (size_t)select_room(n, k);
    s.item = host_scratch(2 * items * sizeof *s.item + (size_t)row_room(n) * COLUMNS * 8);
    s.spare = s.item + items;
    s.rows = s.spare + items;
    return s;
}

/* x (f32, f64, i32 or i64) -> values, indices i64: the k best along the axis, best first. A part is some of the rows.
 */
TgStatus host_topk_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts)
{
    const TopkAttr *a = custom_attr(call->call->src[0], NULL);
    DType t = call->tensor[0].dtype;
    uint32_t axis = (uint32_t)a->axis;
    int64_t n = host_dim(call, 0, axis, vars), k = host_dim(call, 1, axis, vars),
            outer = host_product(call, 0, 0, axis, vars);
    int64_t inner = host_product(call, 0, axis + 1, call->tensor[0].shape->rank, vars),
            *index = host_result(call, args, 1);
    char *value = host_result(call, args, 0);
    if (k > n || k < 0) return fail(TG_BAD_INPUT, "k is %lld; the axis has size %lld", (long long)k, (long long)n);
    Topk s = topk_room(n, k, inner, a->largest);
    TopkColumns *find = topk_columns(t);
    int64_t end = outer * inner * (part + 1) / parts;
    for (int64_t column = outer * inner * part / parts, columns; column < end && k; column += columns) {
        columns = end - column < COLUMNS ? end - column : COLUMNS;
        for (int64_t c = 0; c < columns; c++) {
            int64_t row = (column + c) / inner, of_row = (column + c) % inner;
            s.at[c] = row * n * inner + of_row;
            s.to[c] = row * k * inner + of_row;
        }
        find(&s, args[0], value, index, columns);
    }
    return TG_OK;
}

TgStatus host_topk(const HostCall *call, void *const *args, int64_t *vars)
{
    return host_topk_part(call, args, vars, 0, 1);
}

/* ---- Unique ---- */

/* Keys of rows that are compared, `width` each. */
typedef struct { const int64_t *key; int64_t width; } Rows;

static int row_order(const Rows *r, int64_t a, int64_t b)
{
    const int64_t *x = r->key + a * r->width, *y = r->key + b * r->width;
    for (int64_t k = 0; k < r->width; k++)
        if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
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

/* Row numbers in order of the rows, equal ones in their own; again[i]: the i-th equals the one before. room: 4 n
 * numbers. */
static void sort_rows(const Rows *r, int64_t *sorted, bool *again, int64_t *room, int64_t n)
{
    if (r->width == 1) {
        Keyed *item = (Keyed *)room;
        for (int64_t i = 0; i < n; i++) item[i] = (Keyed){ (uint64_t)r->key[i] ^ UINT64_C(1) << 63, i };
        item = keyed_sort(item, (Keyed *)(room + 2 * n), n);
        for (int64_t i = 0; i < n; i++) sorted[i] = item[i].index, again[i] = i && item[i].key == item[i - 1].key;
    } else {
        for (int64_t i = 0; i < n; i++) sorted[i] = i;
        row_sort(r, sorted, room, n);
        for (int64_t i = 0; i < n; i++) again[i] = i && !row_order(r, sorted[i - 1], sorted[i]);
    }
}

/* Rows x [N, W] -> distinct rows [n, W], where each is first [n], which one each row is [N], how often each occurs [n];
 * and n. In order of value or of first sight. */
TgStatus host_unique(const HostCall *call, void *const *args, int64_t *vars)
{
    const UniqueAttr *a = custom_attr(call->call->src[0], NULL);
    DType t = call->tensor[0].dtype;
    int64_t rows = host_dim(call, 0, 0, vars), width = host_dim(call, 0, 1, vars), n = 0,
            *out_first = host_result(call, args, 1), *inverse = host_result(call, args, 2),
            *count = host_result(call, args, 3);
    size_t bytes = (size_t)(width * dtype_size(t));
    int64_t *room = host_scratch((size_t)(rows + 1) * 41 + (size_t)(rows * width) * 8), *sorted = room + 4 * rows,
            *key = sorted + rows, *group = room, *number = room + rows, *first = room + 2 * rows;
    bool *again = (bool *)(key + rows * width);
    char *y = host_result(call, args, 0);
    for (int64_t i = 0; i < rows * width; i++) key[i] = host_key(t, args[0], i);
    sort_rows(&(Rows){ key, width }, sorted, again, room, rows);
    /* the first row that equals it, the sort being stable */
    for (int64_t i = 0; i < rows; i++) group[sorted[i]] = again[i] ? group[sorted[i - 1]] : sorted[i];
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
    for (int64_t i = 0; i < n && y && bytes; i++)
        memcpy(y + (size_t)i * bytes, (char *)args[0] + (size_t)first[i] * bytes, bytes);
    vars[call->var[0]] = n;
    return TG_OK;
}
