/* Host functions: operators whose result's shape, or whose order of work, depends on data. They run between kernels on host pointers.
 * In: arguments, dense and row-major, of the call's types and shapes (sizes may be symbolic: host_dim). Out: results, room for their largest size, written densely
 * for their true size; and that size into its variable. Must hold: no wild access whatever the data; a bad index is TG_BAD_INPUT; ties go to the lower index.
 * To add one: a function, a row of `table`, and an importer that makes the CALL.
 */
#include "frontend/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/host_util.h"
#include "graph/custom.h"
#include "graph/scalar.h"

/* ---- shapes and numbers ---- */

int64_t host_dim(const HostCall *call, uint32_t tensor, uint32_t axis, const int64_t *vars)
{
    const UOp *d = call->tensor[tensor].shape->dim[axis];
    return uop_is_const(d) ? uop_const_int(d) : plan_eval(call->plan, d, vars);
}

int64_t host_product(const HostCall *call, uint32_t tensor, uint32_t from, uint32_t to, const int64_t *vars)
{
    int64_t n = 1;
    for (uint32_t k = from; k < to; k++) n *= host_dim(call, tensor, k, vars);
    return n;
}

void *host_result(const HostCall *call, void *const *args, uint32_t k)
{
    for (uint32_t i = 0; i < call->nout; i++)
        if (call->result[i] == k) return args[call->nin + i];
    return NULL;
}

void *host_scratch(size_t size)
{
    static _Thread_local struct { void *p; size_t cap; } kept;
    if (size <= kept.cap) return kept.p;
    free(kept.p);
    kept.cap = size + size / 2;
    kept.p = malloc(kept.cap);
    if (!kept.p) abort();
    return kept.p;
}

double host_float(DType t, const void *p, int64_t i)
{
    int64_t v = scalar_load(t, p, i);
    return dtype_is_float(t) ? scalar_real(v) : (double)v;
}

/* A number that orders as the element does: -0 and 0 are one, NaN is above all. */
int64_t host_key(DType t, const void *p, int64_t i)
{
    if (t == DT_U64) return (int64_t)(((const uint64_t *)p)[i] ^ UINT64_C(1) << 63);
    if (!dtype_is_float(t)) return scalar_load(t, p, i);
    double v = host_float(t, p, i);
    int64_t bits;
    if (isnan(v)) return INT64_MAX;
    v += 0.0;
    memcpy(&bits, &v, 8);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* ---- NonZero ---- */

/* Bytes of bools are mostly 0: eight are skipped at once. */
static int64_t nonzero_bytes(const uint8_t *p, int64_t numel, int64_t *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < numel; i++) {
        uint64_t eight;
        while (i + 8 <= numel && (memcpy(&eight, p + i, 8), !eight)) i += 8;
        if (i == numel || !p[i]) continue;
        if (out) out[n] = i;
        n++;
    }
    return n;
}

static bool is_nonzero(DType t, const void *p, int64_t i) { return dtype_is_float(t) ? host_float(t, p, i) != 0 : scalar_load(t, p, i) != 0; }

int64_t nonzero_find(int dtype, const void *data, int64_t numel, int64_t *out)
{
    int64_t n = 0;
    if (dtype_size((DType)dtype) == 1) return nonzero_bytes(data, numel, out);
    for (int64_t i = 0; i < numel; i++) {
        if (!is_nonzero((DType)dtype, data, i)) continue;
        if (out) out[n] = i;
        n++;
    }
    return n;
}

/* x -> positions [rank, n] i64 and n. With one axis the flat positions are the result. */
static TgStatus host_nonzero(const HostCall *call, void *const *args, int64_t *vars)
{
    const HostTensor *x = &call->tensor[0];
    uint32_t rank = x->shape->rank;
    int64_t numel = host_product(call, 0, 0, rank, vars), *out = host_result(call, args, 0);
    int64_t *flat = rank == 1 ? out : host_scratch((size_t)(numel + 1) * 8), n = nonzero_find(x->dtype, args[0], numel, flat);
    for (uint32_t k = rank; out && rank > 1 && k-- > 0;) {
        int64_t size = host_dim(call, 0, k, vars);
        for (int64_t i = 0; i < n; i++) out[k * n + i] = flat[i] % size, flat[i] /= size;
    }
    vars[call->var[0]] = n;
    return TG_OK;
}

/* ---- TopK ---- */

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

void host_best(HostItem *item, int64_t n, int64_t k)
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

uint64_t host_item(float value, int64_t index, bool largest)
{
    uint32_t u;
    value += 0.0f;
    memcpy(&u, &value, 4);
    u = isnan(value) ? UINT32_MAX : u ^ (u >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
    return (uint64_t)(largest ? ~u : u) << 32 | (uint32_t)index;
}

/* Eight bits a pass; equal ones stay in order. An even number of passes ends where it began. */
void host_sort(uint64_t *item, uint64_t *spare, int64_t n)
{
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

/* A heap sees all but moves few. */
static bool sorts(DType t, int64_t n, int64_t k) { return t == DT_F32 && n < INT32_MAX && (double)k * log2((double)k + 1) * log2((double)n / (double)(k + !k)) > (double)n; }

/* Places of the k best of a row; room: 3 n numbers. */
static const int64_t *best_of_row(DType t, const void *x, int64_t from, int64_t step, int64_t n, int64_t k, bool largest, uint64_t *room)
{
    int64_t *place = (int64_t *)room + 2 * n;
    HostItem *item = (HostItem *)room;
    if (sorts(t, n, k)) {
        for (int64_t i = 0; i < n; i++) room[i] = host_item(((const float *)x)[from + i * step], i, largest);
        host_sort(room, room + n, n);
        for (int64_t i = 0; i < k; i++) place[i] = (int64_t)(uint32_t)room[i];
        return place;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t key = host_key(t, x, from + i * step);
        item[i] = (HostItem){ largest ? key : ~key, i };
    }
    host_best(item, n, k);
    for (int64_t i = 0; i < k; i++) place[i] = item[i].index;
    return place;
}

/* x -> values, indices i64: the k best along the axis, best first. */
static TgStatus host_topk(const HostCall *call, void *const *args, int64_t *vars)
{
    const TopkAttr *a = custom_attr(call->call->src[0], NULL);
    DType t = call->tensor[0].dtype;
    uint32_t axis = (uint32_t)a->axis;
    int64_t n = host_dim(call, 0, axis, vars), k = host_dim(call, 1, axis, vars), outer = host_product(call, 0, 0, axis, vars);
    int64_t inner = host_product(call, 0, axis + 1, call->tensor[0].shape->rank, vars), size = dtype_size(t);
    int64_t *index = host_result(call, args, 1);
    char *value = host_result(call, args, 0);
    uint64_t *room = host_scratch((size_t)(n + 1) * 3 * sizeof *room);
    if (k > n || k < 0) return fail(TG_BAD_INPUT, "k is %lld; the axis has size %lld", (long long)k, (long long)n);
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t from = row / inner * n * inner + row % inner, to = row / inner * k * inner + row % inner;
        const int64_t *place = best_of_row(t, args[0], from, inner, n, k, a->largest, room);
        for (int64_t i = 0; i < k; i++) {
            if (value) memcpy(value + (to + i * inner) * size, (char *)args[0] + (from + place[i] * inner) * size, (size_t)size);
            if (index) index[to + i * inner] = place[i];
        }
    }
    return TG_OK;
}

/* ---- ScatterND, ScatterElements ---- */

static void copy_one(int64_t size, char *out, const char *from)
{
    switch (size) {
    case 1: *out = *from; break;
    case 2: memcpy(out, from, 2); break;
    case 4: memcpy(out, from, 4); break;
    default: memcpy(out, from, 8); break;
    }
}

static void combine(ScatterOp op, DType t, char *out, int64_t i, const char *update, int64_t j)
{
    int64_t size = dtype_size(t);
    if (op == SCATTER_SET) {
        copy_one(size, out + i * size, update + j * size);
    } else if (op == SCATTER_MAX || op == SCATTER_MIN) {
        int64_t a = host_key(t, out, i), b = host_key(t, update, j);
        bool take = op == SCATTER_MAX ? b > a : (b < a && a != INT64_MAX) || b == INT64_MAX;
        if (take) copy_one(size, out + i * size, update + j * size);
    } else if (dtype_is_float(t)) {
        double a = host_float(t, out, i), b = host_float(t, update, j);
        scalar_store(t, out, i, scalar_of(op == SCATTER_ADD ? a + b : a * b));
    } else {
        uint64_t a = (uint64_t)scalar_load(t, out, i), b = (uint64_t)scalar_load(t, update, j);
        scalar_store(t, out, i, (int64_t)(t == DT_BOOL ? (op == SCATTER_ADD ? a | b : a & b) : op == SCATTER_ADD ? a + b : a * b));
    }
}

static TgStatus bad_index(int64_t v, int64_t size)
{
    return fail(TG_BAD_INPUT, "index %lld; the axis has size %lld", (long long)v, (long long)size);
}

/* Row j of the indices names a slice of the output. */
static TgStatus scatter_nd(const HostCall *call, void *const *args, int64_t *vars, ScatterOp op)
{
    const HostTensor *x = &call->tensor[0], *idx = &call->tensor[1];
    uint32_t depth = (uint32_t)host_dim(call, 1, idx->shape->rank - 1, vars);
    int64_t rows = host_product(call, 1, 0, idx->shape->rank - 1, vars), slice = host_product(call, 0, depth, x->shape->rank, vars);
    for (int64_t j = 0; j < rows; j++) {
        int64_t at = 0;
        for (uint32_t k = 0; k < depth; k++) {
            int64_t v = scalar_load(idx->dtype, args[1], j * depth + k), size = host_dim(call, 0, k, vars);
            if (v < -size || v >= size) return bad_index(v, size);
            at = at * size + (v < 0 ? v + size : v);
        }
        for (int64_t i = 0; i < slice; i++) combine(op, x->dtype, args[3], at * slice + i, args[2], j * slice + i);
    }
    return TG_OK;
}

/* Element j of the updates goes to its own place, but for the axis, where the index tells. at: of the present place, without the axis' share. */
static TgStatus scatter_elements(const HostCall *call, void *const *args, int64_t *vars, ScatterOp op, uint32_t axis)
{
    const HostTensor *x = &call->tensor[0], *idx = &call->tensor[1];
    uint32_t rank = x->shape->rank;
    int64_t n = host_product(call, 1, 0, rank, vars), size = host_dim(call, 0, axis, vars), along = host_product(call, 0, axis + 1, rank, vars), at = 0;
    int64_t count[rank + 1], step[rank + 1], now[rank + 1];
    for (uint32_t k = 0; k < rank; k++) count[k] = host_dim(call, 1, k, vars), step[k] = k == axis ? 0 : host_product(call, 0, k + 1, rank, vars), now[k] = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t v = idx->dtype == DT_I64 ? ((const int64_t *)args[1])[j] : ((const int32_t *)args[1])[j];
        if (v < -size || v >= size) return bad_index(v, size);
        combine(op, x->dtype, args[3], at + (v < 0 ? v + size : v) * along, args[2], j);
        for (uint32_t k = rank; k-- > 0; now[k] = 0) {
            at += step[k];
            if (++now[k] < count[k]) break;
            at -= step[k] * count[k];
        }
    }
    return TG_OK;
}

/* data, indices, updates -> data with the updates applied, in order. */
static TgStatus host_scatter(const HostCall *call, void *const *args, int64_t *vars)
{
    const ScatterAttr *a = custom_attr(call->call->src[0], NULL);
    size_t size = (size_t)(host_product(call, 0, 0, call->tensor[0].shape->rank, vars) * dtype_size(call->tensor[0].dtype));
    if (args[3] != args[0] && size) memmove(args[3], args[0], size);
    return a->axis < 0 ? scatter_nd(call, args, vars, (ScatterOp)a->op) : scatter_elements(call, args, vars, (ScatterOp)a->op, (uint32_t)a->axis);
}

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

/* Rows x [N, W] -> distinct rows [n, W], where each is first [n], which one each row is [N], how often each occurs [n]; and n. In order of value or of first sight. */
static TgStatus host_unique(const HostCall *call, void *const *args, int64_t *vars)
{
    const UniqueAttr *a = custom_attr(call->call->src[0], NULL);
    Rows r = { call->tensor[0].dtype, args[0], host_dim(call, 0, 1, vars) };
    int64_t rows = host_dim(call, 0, 0, vars), n = 0, *out_first = host_result(call, args, 1), *inverse = host_result(call, args, 2), *count = host_result(call, args, 3);
    size_t bytes = (size_t)(r.width * dtype_size(r.t));
    int64_t *sorted = host_scratch((size_t)(rows + 1) * 40), *group = sorted + rows + 1, *number = group + rows + 1, *spare = number + rows + 1, *first = spare + rows + 1;
    char *y = host_result(call, args, 0);
    for (int64_t i = 0; i < rows; i++) sorted[i] = i;
    row_sort(&r, sorted, spare, rows);
    for (int64_t i = 0; i < rows; i++) {                                /* group: the first row that equals row i, the sort being stable */
        bool again = i && !row_order(&r, sorted[i - 1], sorted[i]);
        group[sorted[i]] = again ? group[sorted[i - 1]] : sorted[i];
    }
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

/* ---- table ---- */

static const HostEntry table[] = {
    { "nonzero", host_nonzero },
    { "topk", host_topk },
    { "scatter", host_scatter },
    { "unique", host_unique },
    { "nms", host_nms },
    { "roi_align", host_roi_align },
};

const HostEntry *host_find(const char *name)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name)) return &table[k];
    return NULL;
}
