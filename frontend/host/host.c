/* Host functions: operators whose result's shape, or whose order of work, depends on data. They run between kernels on
 * host pointers. In: arguments, dense and row-major, of the call's types and shapes (sizes may be symbolic: host_dim).
 * Out: results, room for their largest size, written densely for their true size; and that size into its variable. Must
 * hold: no wild access whatever the data; a bad index is TG_BAD_INPUT; ties go to the lower index. To add one: a
 * function, a row of `table`, and an importer that makes the CALL.
 */
#include "frontend/host/host.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/host/util.h"
#include "frontend/host/text_work.h"
#include "graph/base/memory.h"
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

static pthread_key_t scratch_key;           /* frees a thread's scratch when it ends */
static void make_scratch_key(void) { pthread_key_create(&scratch_key, mem_free); }

void *host_scratch(size_t size)
{
    static _Thread_local struct { void *p; size_t cap; } kept;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_scratch_key);
    if (size <= kept.cap) return kept.p;
    mem_free(kept.p);
    kept.p = NULL, kept.cap = 0;
    pthread_setspecific(scratch_key, NULL);
    kept.p = mem_new(size + size / 2);
    kept.cap = size + size / 2;
    mem_keep(kept.p);
    pthread_setspecific(scratch_key, kept.p);
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

/* Without a branch, which half of the elements would miss. mask: without the sign of zero. */
static inline int64_t nonzero_words(const char *p, size_t size, uint64_t mask, int64_t numel, int64_t *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < numel; i++) {
        uint64_t word = 0;
        memcpy(&word, p + (size_t)i * size, size);
        if (out) out[n] = i;
        n += (word & mask) != 0;
    }
    return n;
}

int64_t nonzero_find(int dtype, const void *data, int64_t numel, int64_t *out)
{
    size_t size = (size_t)dtype_size((DType)dtype);
    uint64_t mask = dtype_is_float((DType)dtype) ? ~(UINT64_C(1) << (8 * size - 1)) : UINT64_MAX;
    switch (size) {
    case 1: return nonzero_bytes(data, numel, out);
    case 2: return nonzero_words(data, 2, mask, numel, out);
    case 4: return nonzero_words(data, 4, mask, numel, out);
    default: return nonzero_words(data, 8, mask, numel, out);
    }
}

/* x -> positions [rank, n] i64 and n. With one axis the flat positions are the result. */
static TgStatus host_nonzero(const HostCall *call, void *const *args, int64_t *vars)
{
    const HostTensor *x = &call->tensor[0];
    uint32_t rank = x->shape->rank;
    int64_t numel = host_product(call, 0, 0, rank, vars), *out = host_result(call, args, 0);
    int64_t *flat = rank == 1 ? out : host_scratch((size_t)(numel + 1) * 8),
            n = nonzero_find(x->dtype, args[0], numel, flat);
    for (uint32_t k = rank; out && rank > 1 && k-- > 0;) {
        int64_t size = host_dim(call, 0, k, vars), row = 0;
        for (int64_t i = 0; i < n; i++) {
            if (flat[i] - row * size >= size) row = flat[i] / size;     /* they ascend */
            out[k * n + i] = flat[i] - row * size;
            flat[i] = row;
        }
    }
    vars[call->var[0]] = n;
    return TG_OK;
}

/* ---- ScatterND, ScatterElements ---- */

static void combine(ScatterOp op, DType t, char *out, int64_t i, const char *update, int64_t j)
{
    int64_t size = dtype_size(t);
    if (op == SCATTER_SET) {
        host_copy(size, out + i * size, update + j * size);
    } else if (op == SCATTER_MAX || op == SCATTER_MIN) {
        int64_t a = host_key(t, out, i), b = host_key(t, update, j);
        bool nan = dtype_is_float(t) && (a == INT64_MAX || b == INT64_MAX);     /* it stays, and wins */
        if (nan ? b == INT64_MAX : op == SCATTER_MAX ? b > a : b < a)
            host_copy(size, out + i * size, update + j * size);
    } else if (dtype_is_float(t)) {
        double a = host_float(t, out, i), b = host_float(t, update, j);
        scalar_store(t, out, i, scalar_of(op == SCATTER_ADD ? a + b : a * b));
    } else {
        uint64_t a = (uint64_t)scalar_load(t, out, i), b = (uint64_t)scalar_load(t, update, j);
        scalar_store(t, out, i,
                     (int64_t)(t == DT_BOOL            ? (op == SCATTER_ADD ? a | b : a & b)
                                   : op == SCATTER_ADD ? a + b
                                                       : a * b));
    }
}

/* The same of n elements of one type: side by side, or update from[k] to place[k]. wide: in which sums and products
 * wrap. */
#define EACH(loop, to, with) \
    switch (op) { \
    case SCATTER_SET: loop for (int64_t k = 0; k < n; k++) to = with; break; \
    case SCATTER_ADD: loop for (int64_t k = 0; k < n; k++) to = (Element)((Wide)to + (Wide)with); break; \
    case SCATTER_MUL: loop for (int64_t k = 0; k < n; k++) to = (Element)((Wide)to * (Wide)with); break; \
    case SCATTER_MAX: loop for (int64_t k = 0; k < n; k++) to = with > to || with != with ? with : to; break; \
    case SCATTER_MIN: loop for (int64_t k = 0; k < n; k++) to = with < to || with != with ? with : to; break; \
    }
#define COMBINE(name, type, wide) \
    static void run_##name(ScatterOp op, type *out, const type *update, int64_t n) \
    { \
        typedef type Element; \
        typedef wide Wide; \
        EACH(_Pragma("omp simd"), out[k], update[k]) \
    } \
    static void at_##name(ScatterOp op, type *out, const int64_t *place, const type *update, const int64_t *from, \
                          int64_t n) \
    { \
        typedef type Element; \
        typedef wide Wide; \
        EACH(, out[place[k]], update[from[k]]) \
    }
COMBINE(f32, float, float)
COMBINE(f64, double, double)
COMBINE(i32, int32_t, uint32_t)
COMBINE(i64, int64_t, uint64_t)

static void combine_run(ScatterOp op, DType t, void *out, const void *update, int64_t n)
{
    if (op == SCATTER_SET) memcpy(out, update, (size_t)(n * dtype_size(t)));
    else if (t == DT_F32) run_f32(op, out, update, n);
    else if (t == DT_F64) run_f64(op, out, update, n);
    else if (t == DT_I32) run_i32(op, out, update, n);
    else if (t == DT_I64) run_i64(op, out, update, n);
    else for (int64_t k = 0; k < n; k++) combine(op, t, out, k, update, k);
}

/* Places that are known, so that memory for all of them can be requested at once. */
static void combine_at(ScatterOp op, DType t, void *out, const int64_t *place, const void *update, const int64_t *from,
                       int64_t n)
{
    for (int64_t k = 0; k < n; k++) __builtin_prefetch((char *)out + place[k] * dtype_size(t), 1);
    if (t == DT_F32) at_f32(op, out, place, update, from, n);
    else if (t == DT_F64) at_f64(op, out, place, update, from, n);
    else if (t == DT_I32) at_i32(op, out, place, update, from, n);
    else if (t == DT_I64) at_i64(op, out, place, update, from, n);
    else for (int64_t k = 0; k < n; k++) combine(op, t, out, place[k], update, from[k]);
}

static TgStatus bad_index(int64_t v, int64_t size)
{
    return fail(TG_BAD_INPUT, "index %lld; the axis has size %lld", (long long)v, (long long)size);
}

/* The elements of the result that one of several threads makes. */
typedef struct { int64_t begin, end; } Own;

enum { PLACES = 64 };

/* Places of single elements that gather until there are enough. */
typedef struct { int64_t count, place[PLACES], from[PLACES]; } Places;

static void flush(ScatterOp op, DType t, void *const *args, Places *p)
{
    combine_at(op, t, args[3], p->place, args[2], p->from, p->count);
    p->count = 0;
}

static inline void push_place(ScatterOp op, DType t, void *const *args, Places *p, Own own, int64_t place, int64_t from)
{
    p->place[p->count] = place;
    p->from[p->count] = from;
    p->count += (uint64_t)(place - own.begin) < (uint64_t)(own.end - own.begin);
    if (p->count == PLACES) flush(op, t, args, p);
}

static inline int64_t index_at(const HostTensor *idx, void *const *args, int64_t j)
{
    return idx->dtype == DT_I64 ? ((const int64_t *)args[1])[j] : ((const int32_t *)args[1])[j];
}

/* Row j of the indices names a slice of the output. */
static TgStatus scatter_nd(const HostCall *call, void *const *args, const int64_t *vars, ScatterOp op, Own own)
{
    const HostTensor *x = &call->tensor[0], *idx = &call->tensor[1];
    uint32_t depth = (uint32_t)host_dim(call, 1, idx->shape->rank - 1, vars);
    int64_t rows = host_product(call, 1, 0, idx->shape->rank - 1, vars),
            slice = host_product(call, 0, depth, x->shape->rank, vars), size = dtype_size(x->dtype), dim[depth + 1];
    Places p = { 0 };
    for (uint32_t k = 0; k < depth; k++) dim[k] = host_dim(call, 0, k, vars);
    if (host_product(call, 2, 0, call->tensor[2].shape->rank, vars) != rows * slice)
        return fail(TG_BAD_INPUT, "the updates do not fill %lld rows of %lld", (long long)rows, (long long)slice);
    for (int64_t j = 0; j < rows; j++) {
        int64_t at = 0;
        for (uint32_t k = 0; k < depth; k++) {
            int64_t v = index_at(idx, args, j * depth + k);
            if (v < -dim[k] || v >= dim[k]) return bad_index(v, dim[k]);
            at = at * dim[k] + (v < 0 ? v + dim[k] : v);
        }
        if (slice == 1) {
            push_place(op, x->dtype, args, &p, own, at, j);
            continue;
        }
        int64_t first = at * slice, begin = first > own.begin ? first : own.begin,
                end = first + slice < own.end ? first + slice : own.end;
        if (begin < end)
            combine_run(op, x->dtype, (char *)args[3] + begin * size,
                        (const char *)args[2] + (j * slice + begin - first) * size, end - begin);
    }
    flush(op, x->dtype, args, &p);
    return TG_OK;
}

/* Element j of the updates goes to its own place, but for the axis, where the index tells. at: of the present place,
 * without the axis' share. */
static TgStatus scatter_elements(const HostCall *call, void *const *args, const int64_t *vars, ScatterOp op,
                                 uint32_t axis, Own own)
{
    const HostTensor *x = &call->tensor[0], *idx = &call->tensor[1];
    uint32_t rank = x->shape->rank;
    int64_t n = host_product(call, 1, 0, rank, vars), size = host_dim(call, 0, axis, vars),
            along = host_product(call, 0, axis + 1, rank, vars), at = 0;
    int64_t count[rank], step[rank], now[rank];
    Places p = { 0 };
    for (uint32_t k = 0; k < rank; k++)
        count[k] = host_dim(call, 1, k, vars), step[k] = k == axis ? 0 : host_product(call, 0, k + 1, rank, vars),
        now[k] = 0;
    for (uint32_t k = 0; k < rank && n; k++)
        if (k != axis && count[k] > host_dim(call, 0, k, vars))
            return fail(TG_BAD_INPUT, "axis %u has %lld indices; the data have %lld", k, (long long)count[k],
                        (long long)host_dim(call, 0, k, vars));
    for (int64_t j = 0; j < n;) {
        for (int64_t end = j + count[rank - 1]; j < end; j++, at += step[rank - 1]) {
            int64_t v = index_at(idx, args, j);
            if (v < -size || v >= size) return bad_index(v, size);
            push_place(op, x->dtype, args, &p, own, at + (v < 0 ? v + size : v) * along, j);
        }
        at -= step[rank - 1] * count[rank - 1];
        for (uint32_t k = rank - 1; k-- > 0; now[k] = 0) {
            at += step[k];
            if (++now[k] < count[k]) break;
            at -= step[k] * count[k];
        }
    }
    flush(op, x->dtype, args, &p);
    return TG_OK;
}

/* data, indices, updates -> data with the updates applied, in order. A part is some of the result's elements; each
 * looks at all indices. */
static TgStatus host_scatter_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part,
                                  int64_t parts)
{
    const ScatterAttr *a = custom_attr(call->call->src[0], NULL);
    int64_t n = host_product(call, 0, 0, call->tensor[0].shape->rank, vars), size = dtype_size(call->tensor[0].dtype);
    Own own = { n * part / parts & ~INT64_C(63), part + 1 == parts ? n : n * (part + 1) / parts & ~INT64_C(63) };
    if (args[3] != args[0] && own.begin < own.end)
        memmove((char *)args[3] + own.begin * size, (const char *)args[0] + own.begin * size,
                (size_t)((own.end - own.begin) * size));
    return a->axis < 0 ? scatter_nd(call, args, vars, (ScatterOp)a->op, own)
                       : scatter_elements(call, args, vars, (ScatterOp)a->op, (uint32_t)a->axis, own);
}

static TgStatus host_scatter(const HostCall *call, void *const *args, int64_t *vars)
{
    return host_scatter_part(call, args, vars, 0, 1);
}

/* ---- strings ---- */

/* The room of a result's last axis; -1: nobody reads it. */
static int64_t room_of(const HostCall *call, uint32_t result)
{
    for (uint32_t i = 0; i < call->nout; i++)
        if (call->result[i] == result)
            return call->tensor[call->nin + i].shape->dim[call->tensor[call->nin + i].shape->rank - 1]->vmax;
    return -1;
}

static TgStatus put_rows(const HostCall *call, void *const *args, int64_t *vars, const Work *w)
{
    int64_t *out = host_result(call, args, 0), longest = w->rows.end ? text_longest(w) : w->rows.n,
            room = room_of(call, 0);
    if (room >= 0 && longest > room)
        return text_wants(longest),
               fail(TG_LIMIT, "a text of %lld pieces; there is room for %lld", (long long)longest, (long long)room);
    if (out && w->rows.end) text_pad(w, longest, out);
    else if (out) memcpy(out, w->rows.item, (size_t)longest * sizeof *out);
    if (call->call->src[0]->nsrc) vars[call->var[0]] = longest;
    return TG_OK;
}

/* Workers of text_work.h. */
static TgStatus host_text(const HostCall *call, void *const *args, int64_t *vars)
{
    const WorkRow *row = text_worker(custom_name(call->call->src[0]));
    const HostTensor *x = &call->tensor[0];
    uint32_t rank = x->shape->rank;
    Work w = { .pool = text_pool(),
               .attr = custom_attr(call->call->src[0], NULL),
               .x = args[0],
               .y = call->nin > 1 ? args[1] : NULL,
               .type = x->dtype,
               .n = host_product(call, 0, 0, rank, vars),
               .lists = rank == 2 ? host_dim(call, 0, 0, vars) : 1,
               .length = rank ? host_dim(call, 0, rank - 1, vars) : 1,
               .out = row->makes_rows ? NULL : host_result(call, args, 0),
               .count = row->makes_rows ? host_result(call, args, 1) : NULL };
    TgStatus status = row->fn(&w);
    if (status == TG_OK && row->makes_rows) status = put_rows(call, args, vars, &w);
    work_free(&w);
    return status;
}

/* ---- table ---- */

static const HostEntry table[] = {
    { "nonzero", host_nonzero },
    { "topk", host_topk, host_topk_part, 16 << 10 },
    { "scatter", host_scatter, host_scatter_part, 64 << 10 },
    { "unique", host_unique },
    { "nms", host_nms },
    { "roi_align", host_roi_align, host_roi_align_part, 64 << 10 },
    { "picture", host_picture },
    { "picture_size", host_picture_size },
};
static const HostEntry texts = { "text", host_text };               /* all that text_worker knows */

const HostEntry *host_find(const char *name)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name)) return &table[k];
    return text_worker(name) ? &texts : NULL;
}
