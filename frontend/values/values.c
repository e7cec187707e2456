/* See values.h. To add a kind of value: a case in value_of, value_constant and value_copy. */
#include "frontend/values/values.h"

#include <string.h>

#include "frontend/import/shape_query.h"
#include "frontend/values/tuple.h"

static bool is_packed(TgType type) { return tg_type_bits(type) % 8 != 0; }

/* The bytes of x's elements; false: they are not known. */
static bool bytes_of(Graph *g, U x, const void **data, size_t *size)
{
    *size = 0;
    *data = x->dtype != DT_VOID && uop_static(x) ? data_of(g, x, UINT32_MAX, size) : NULL;
    return *data || (x->dtype != DT_VOID && uop_static(x) && !uop_numel(x));
}

/* Real and imaginary parts side by side. */
static void join_parts(char *out, const void *const part[2], size_t size, size_t width)
{
    for (size_t k = 0; k < size / width; k++)
        for (int i = 0; i < 2; i++) memcpy(out + (2 * k + (size_t)i) * width, (const char *)part[i] + k * width, width);
}

static bool tensor_of(Import *im, U x, Arena *a, TgTensor *t)
{
    x = question_answered(im->run, x);
    int32_t kind = special_kind(x);
    U first = special_part(x, 0);
    const void *data[2];
    size_t size;
    for (uint32_t k = special_parts(kind); k-- > 0;)
        if (!bytes_of(im->run->g, special_part(x, k), &data[k], &size)) return import_query(im, x), false;
    *t = (TgTensor){ .type = kind ? (TgType)kind : (TgType)dtype_info[first->dtype].onnx,
                     .rank = (int32_t)uop_rank(first),
                     .size_bytes = size * special_parts(kind) };
    for (uint32_t k = 0; k < uop_rank(first); k++) t->shape[k] = uop_size(first, k);
    t->data = arena_alloc(a, t->size_bytes + 8);
    if (complex_is(kind)) join_parts(t->data, data, size, (size_t)dtype_size(first->dtype));
    else if (kind == TG_STRING)
        for (size_t k = 0; k < size / 8; k++)
            ((const char **)t->data)[k] = pool_text(im->run->pool, ((const int64_t *)data[0])[k]);
    else if (size) memcpy(t->data, data[0], size);
    if (narrow_is(kind)) value_pack(t);
    return true;
}

static bool rows_of(Import *im, U x, Arena *a, TgTensor *t)
{
    TgTensor rows;
    if (!tensor_of(im, x->src[0], a, &rows)) return false;
    value_apart(a, t, &rows);
    return true;
}

bool value_of(Import *im, U x, Arena *a, TgTensor *t)
{
    if (is_rows(x)) return rows_of(im, x, a, t);
    if (!is_sequence(x) && !is_empty_optional(x) && !is_map(x)) return tensor_of(im, x, a, t);
    TgTensor *held = hold(a, t, is_sequence(x) ? TG_SEQUENCE : is_map(x) ? TG_MAP : TG_OPTIONAL, x->nsrc);
    for (uint32_t k = 0; k < x->nsrc; k++)
        if (!value_of(im, x->src[k], a, &held[k])) return false;
    return true;
}

U value_constant(const Run *run, const TgTensor *t)
{
    uint32_t n = (uint32_t)t->shape[0];
    if (!holds_tensors(t)) return border_constant(run, t);
    U *v = NEW_N(graph_arena(run->g), U, n + 1);
    for (uint32_t k = 0; k < n; k++) v[k] = value_constant(run, (const TgTensor *)t->data + k);
    if (t->type == TG_MAP) return maps_apart(run->g, map_new(run->g, v[0], v[1]));
    return t->type == TG_SEQUENCE ? sequence_new(run->g, v, n) : n ? v[0] : optional_empty(run->g);
}

void value_copy(Arena *a, TgTensor *to, const TgTensor *from)
{
    *to = *from;
    if (holds_tensors(from)) {
        TgTensor *held = hold(a, to, from->type, (uint32_t)from->shape[0]);
        for (int64_t k = 0; k < from->shape[0]; k++) value_copy(a, &held[k], (const TgTensor *)from->data + k);
    } else if (from->type == TG_STRING) {
        const char **s = to->data = NEW_N(a, const char *, tensor_count(from) + 1);
        for (int64_t k = 0; k < tensor_count(from); k++) s[k] = arena_strdup(a, ((const char *const *)from->data)[k]);
    } else to->data = memcpy(arena_alloc(a, from->size_bytes + 8), from->data, from->size_bytes);
}

/* ---- slices and rows ---- */

bool value_stack(Arena *a, TgTensor *rows, const TgTensor *sequence)
{
    const TgTensor *item = sequence->data;
    int64_t n = sequence->shape[0];
    TgTensor form = n ? item[0] : *sequence;
    if (!n || holds_tensors(&form) || is_packed(form.type) || form.rank == TG_MAX_RANK) return false;
    form.data = NULL;
    for (int64_t k = 0; k < n; k++)
        if (!port_same(&form, &item[k])) return false;
    *rows = form;
    memmove(rows->shape + 1, form.shape, (size_t)form.rank * sizeof *form.shape);
    rows->shape[0] = n, rows->rank++;
    rows->size_bytes *= (size_t)n;
    char *out = rows->data = arena_alloc(a, rows->size_bytes + 8);
    for (int64_t k = 0; k < n && form.size_bytes; k++)
        memcpy(out + (size_t)k * form.size_bytes, item[k].data, form.size_bytes);
    const TgTensor borrowed = *rows;
    if (form.type == TG_STRING) value_copy(a, rows, &borrowed);
    return true;
}

void value_apart(Arena *a, TgTensor *sequence, const TgTensor *rows)
{
    int64_t n = rows->shape[0];
    TgTensor *item = hold(a, sequence, TG_SEQUENCE, (uint32_t)n);
    for (int64_t k = 0; k < n; k++) value_slice(a, &item[k], rows, 0, k);
}

void value_loosen(Arena *a, TgTensor *t)
{
    if (!is_packed(t->type)) return;
    uint8_t *bytes = arena_alloc(a, (size_t)tensor_count(t) + 8);
    narrow_unpack(bytes, t->data, tensor_count(t), (int32_t)t->type);
    t->data = bytes;
    t->size_bytes = (size_t)tensor_count(t);
}

void value_pack(TgTensor *t)
{
    if (!is_packed(t->type)) return;
    narrow_pack(t->data, t->data, tensor_count(t), (int32_t)t->type);
    t->size_bytes = (size_t)((tensor_count(t) * tg_type_bits(t->type) + 7) / 8);
}

void value_slice(Arena *a, TgTensor *to, const TgTensor *loose, int64_t axis, int64_t at)
{
    int64_t outer = 1, n = loose->shape[axis];
    for (int64_t k = 0; k < axis; k++) outer *= loose->shape[k];
    size_t inner = outer && n ? loose->size_bytes / (size_t)(outer * n) : 0;
    *to = *loose;
    to->rank--;
    memmove(to->shape + axis, loose->shape + axis + 1, (size_t)(loose->rank - axis - 1) * sizeof *to->shape);
    to->size_bytes = inner * (size_t)outer;
    char *out = to->data = arena_alloc(a, to->size_bytes + 8);
    for (int64_t k = 0; k < outer && inner; k++)
        memcpy(out + (size_t)k * inner, (const char *)loose->data + (size_t)(k * n + at) * inner, inner);
}
