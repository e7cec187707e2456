/* See ports.h. A value that fits its declaration has a sound form: other functions rely on that. To add a kind of
 * holder: a case in check. */
#include "frontend/values/ports.h"

#include <stdio.h>
#include <string.h>

#include "frontend/values/complex.h"
#include "frontend/values/narrow.h"
#include "onnx/files/npy.h"

TgTensor *hold(Arena *a, TgTensor *out, TgType type, uint32_t n)
{
    *out = (TgTensor){
        .type = type, .rank = 1, .shape = { n }, .data = NEW_N(a, TgTensor, n + 1), .size_bytes = n * sizeof *out
    };
    return out->data;
}

int64_t tensor_count(const TgTensor *t)
{
    int64_t n = 1;
    for (int32_t k = 0; k < t->rank; k++) n *= t->shape[k];
    return n;
}

uint32_t port_parts(const TgTensor **part, const TgTensor *value, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (holds_tensors(&value[k]))
            count += port_parts(part ? part + count : NULL, value[k].data, (uint32_t)value[k].shape[0]);
        else if (part) part[count++] = &value[k];
        else count++;
    }
    return count;
}

bool port_has_data(const TgTensor *value, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (!value[k].data || (holds_tensors(&value[k]) && !port_has_data(value[k].data, value[k].shape[0])))
            return false;
    return true;
}

TgTensor *port_copy(Arena *a, const TgTensor *value, uint32_t n)
{
    TgTensor *out = NEW_N(a, TgTensor, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        out[k] = value[k];
        out[k].data = holds_tensors(&value[k]) ? port_copy(a, value[k].data, (uint32_t)value[k].shape[0]) : NULL;
    }
    return out;
}

bool port_same(const TgTensor *mine, const TgTensor *t)
{
    if (mine->type != t->type || mine->rank != t->rank ||
        memcmp(mine->shape, t->shape, sizeof *t->shape * (size_t)t->rank))
        return false;
    if (!mine->data) return true;
    if (!t->data || !holds_tensors(mine)) return t->data && tensor_same(mine, t);
    for (int64_t k = 0; k < mine->shape[0]; k++)
        if (!port_same((const TgTensor *)mine->data + k, (const TgTensor *)t->data + k)) return false;
    return true;
}

/* ---- against the declaration; where: the input's name, and its element's position ---- */

static TgStatus check_tensor(const char *where, const ValueDef *d, const TgTensor *t)
{
    int64_t bits = tg_type_bits(t->type);
    if (d->type && d->type != (int32_t)t->type)
        return fail(TG_BAD_INPUT, "input %s is %s; %s is wanted", where, tg_type_name(t->type),
                    tg_type_name((TgType)d->type));
    if (t->type != TG_STRING && !narrow_is((int32_t)t->type) && !complex_is((int32_t)t->type) &&
        dtype_from_onnx((int32_t)t->type) == DT_VOID)
        return fail(TG_UNSUPPORTED, "input %s: type %s is not covered", where, tg_type_name(t->type));
    if (t->rank < 0 || t->rank > TG_MAX_RANK || (d->rank >= 0 && t->rank != d->rank))
        return fail(TG_BAD_INPUT, "input %s has %d dimensions; %d are wanted", where, t->rank, d->rank);
    for (int32_t k = 0; k < t->rank; k++) {
        int64_t want = d->rank < 0 ? -1 : d->dim[k].size;
        if (t->shape[k] < 0 || (t->shape[k] && bits > INT64_MAX / t->shape[k]))
            return fail(TG_BAD_INPUT, "input %s: size %lld of axis %d", where, (long long)t->shape[k], k);
        bits *= t->shape[k] ? t->shape[k] : 1;
        if (want >= 0 && t->shape[k] != want)
            return fail(TG_BAD_INPUT, "input %s: axis %d is %lld; %lld is wanted", where, k, (long long)t->shape[k],
                        (long long)want);
    }
    return TG_OK;
}

/* rank 2: a sequence of maps that share their keys. */
static TgStatus check_map(const char *where, const ValueDef *d, const TgTensor *t, int32_t rank)
{
    const TgTensor *keys = t->data, *values = keys + 1;
    TRY(check_tensor(where, &(ValueDef){ .type = d->key, .rank = 1, .dim = &(DimDef){ .size = -1 } }, keys));
    return check_tensor(
        where,
        &(ValueDef){ .type = d->type,
                     .rank = rank,
                     .dim = (DimDef[]){ { .size = rank == 1 ? keys->shape[0] : -1 }, { .size = keys->shape[0] } } },
        values);
}

static TgStatus check(const char *where, const ValueDef *d, const TgTensor *t);

static bool is_maps(const ValueDef *d) { return d->kind == VALUE_SEQUENCE && d->inside->kind == VALUE_MAP; }

/* A holder of that type, of `least` to `most` tensors. */
static TgStatus check_holder(const char *where, const ValueDef *d, const TgTensor *t, TgType type, int64_t least,
                             int64_t most)
{
    char inside[160];
    if (t->type != type)
        return fail(TG_BAD_INPUT, "input %s is %s; %s is wanted", where, tg_type_name(t->type), tg_type_name(type));
    if (t->rank != 1 || t->shape[0] < least || t->shape[0] > most || (t->shape[0] && !t->data))
        return fail(TG_BAD_INPUT, "input %s holds %lld tensors; a %s has %lld to %lld", where, (long long)t->shape[0],
                    tg_type_name(type), (long long)least, (long long)most);
    if (type == TG_MAP) return is_maps(d) ? check_map(where, d->inside, t, 2) : check_map(where, d, t, 1);
    for (int64_t k = 0; k < t->shape[0]; k++) {
        snprintf(inside, sizeof inside, "%s[%lld]", where, (long long)k);
        TRY(check(inside, d->inside, (const TgTensor *)t->data + k));
    }
    return TG_OK;
}

static TgStatus check(const char *where, const ValueDef *d, const TgTensor *t)
{
    switch (d->kind) {
    case VALUE_SEQUENCE:
        return is_maps(d) && t->type == TG_MAP ? check_holder(where, d, t, TG_MAP, 2, 2)
                                               : check_holder(where, d, t, TG_SEQUENCE, 0, SEQUENCE_MAX);
    case VALUE_ANY: case VALUE_ROWS: return TG_OK;                  /* a program or a graph has made it */
    case VALUE_OPTIONAL:
        return t->type == TG_OPTIONAL ? check_holder(where, d, t, TG_OPTIONAL, 0, 1) : check(where, d->inside, t);
    case VALUE_MAP: return check_holder(where, d, t, TG_MAP, 2, 2);
    default: return check_tensor(where, d, t);
    }
}

/* Whether d is a tensor, or a sequence, optional or map of what is. A map holds tensors alone. */
bool port_covered(const ValueDef *d)
{
    const ValueDef *inside = d->inside;
    if (d->kind == VALUE_MAP) return inside->kind == VALUE_TENSOR;
    if (d->kind == VALUE_SEQUENCE || d->kind == VALUE_OPTIONAL) return port_covered(inside);
    return d->kind == VALUE_TENSOR || d->kind == VALUE_ANY || d->kind == VALUE_ROWS;
}

TgStatus port_check(const ValueDef *d, const TgTensor *t)
{
    char where[128];
    if (!port_covered(d)) return fail(TG_UNSUPPORTED, "input '%s' is of a type that is not covered", d->name);
    snprintf(where, sizeof where, "'%s'", d->name);
    return check(where, d, t);
}
