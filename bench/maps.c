#include "bench/maps.h"

#include <stdlib.h>

#include "bench/report.h"
#include "bench/say.h"
#include "bench/values.h"

static bool all_strings(const json_t *rows)
{
    json_t *row, *entry;
    size_t i, k;
    json_array_foreach(rows, i, row)
        json_array_foreach(row, k, entry) if (!json_is_string(json_array_get(entry, 0))) return false;
    return json_array_size(json_array_get(rows, 0)) > 0;
}

/* Element `column` of every [key, value] of these rows, as a tensor of that shape. */
static TgStatus column_read(TgTensor *out, const json_t *rows, size_t column, TgType type, const int64_t *shape,
                            int32_t rank, const char *path)
{
    TgTensor t;
    json_t *row, *entry;
    size_t i, k;
    int64_t n = 0;
    if (!tensor_new(&t, type, shape, rank)) return say_error(TG_LIMIT, "%s: no memory", path);
    json_array_foreach(rows, i, row) json_array_foreach(row, k, entry) {
        json_t *v = json_array_get(entry, column);
        if (type == TG_STRING ? !json_is_string(v) : !json_is_number(v)) {
            free(t.data);
            return say_error(TG_BAD_INPUT, "%s: map %zu: %s %zu is no %s", path, i, column ? "value" : "key", k,
                             type == TG_STRING ? "string" : "number");
        }
        if (type == TG_STRING) ((const char **)t.data)[n++] = json_string_value(v);
        else if (json_is_integer(v)) value_put_int(type, t.data, n++, json_integer_value(v));
        else value_put(type, t.data, n++, json_real_value(v));
    }
    bool copied = tensor_copy(out, &t);                         /* strings are the file's */
    free(t.data);
    return copied ? TG_OK : say_error(TG_LIMIT, "%s: no memory", path);
}

static TgStatus same_keys(const json_t *rows, const char *path)
{
    json_t *row, *entry, *first = json_array_get(rows, 0);
    size_t i, k;
    json_array_foreach(rows, i, row) {
        if (!json_is_array(row) || json_array_size(row) != json_array_size(first))
            return say_error(TG_BAD_INPUT, "%s: map %zu does not have the %zu keys of the first", path, i,
                             json_array_size(first));
        json_array_foreach(
            row, k,
            entry) if (!json_equal(json_array_get(entry, 0),
                                   json_array_get(json_array_get(first, k),
                                                  0))) return say_error(TG_BAD_INPUT,
                                                                        "%s: map %zu: key %zu is not that of the first",
                                                                        path, i, k);
    }
    return TG_OK;
}

/* A map's values are of the last type in the port. */
static TgType value_type(const TgPort *p)
{
    TgType t = TG_F32;
    for (int k = 0; k < TG_MAX_INSIDE && p->inside[k]; k++) t = p->inside[k];
    return t;
}

static TgStatus fill(TgTensor *out, const json_t *rows, bool many, const TgPort *port, const char *path)
{
    int64_t shape[2] = { (int64_t)json_array_size(rows), (int64_t)json_array_size(json_array_get(rows, 0)) };
    TgStatus status = same_keys(rows, path);
    if (status != TG_OK) return status;
    *out = (TgTensor){
        .type = TG_MAP, .rank = 1, .shape = { 2 }, .data = calloc(2, sizeof *out), .size_bytes = 2 * sizeof *out
    };
    if (!out->data) return say_error(TG_LIMIT, "%s: no memory", path);
    TgTensor *part = out->data;
    json_t *first = json_pack("[O]", json_array_get(rows, 0) ? json_array_get(rows, 0) : json_null());
    status = column_read(&part[0], first, 0, all_strings(rows) ? TG_STRING : TG_I64, shape + 1, 1, path);
    json_decref(first);
    return status == TG_OK
        ? column_read(&part[1], rows, 1, value_type(port), many ? shape : shape + 1, many ? 2 : 1, path)
        : status;
}

TgStatus map_read(TgTensor *out, const char *path, const TgPort *port)
{
    json_error_t e;
    json_t *file = json_load_file(path, 0, &e), *value = json_object_get(file, "value");
    bool many = port->type != TG_MAP;
    *out = (TgTensor){ 0 };
    if (!file) return say_error(TG_BAD_INPUT, "%s:%d: %s", path, e.line, e.text);
    json_t *rows = many ? json_incref(value) : json_pack("[O]", value ? value : json_null());
    TgStatus status = json_is_array(value) ? fill(out, rows, many, port, path)
                                           : say_error(TG_BAD_INPUT, "%s: 'value' is missing; a list of %s is wanted",
                                                       path, many ? "maps" : "keys and values");
    json_decref(rows);
    json_decref(file);
    if (status != TG_OK) tg_tensor_free(out);
    return status;
}

static json_t *element(const TgTensor *t, int64_t i)
{
    if (t->type == TG_STRING) return json_string(((const char *const *)t->data)[i]);
    return type_is_integer(t->type) ? json_integer(value_get_int(t->type, t->data, i))
                                    : json_real(value_get(t->type, t->data, i));
}

static json_t *row_json(const TgTensor *keys, const TgTensor *values, int64_t row)
{
    json_t *map = json_array();
    for (int64_t k = 0; k < keys->shape[0]; k++)
        json_array_append_new(map, json_pack("[o, o]", element(keys, k), element(values, row * keys->shape[0] + k)));
    return map;
}

TgStatus map_write(const TgTensor *map, const char *name, const char *path)
{
    const TgTensor *keys = map->data, *values = keys + 1;
    if (map->type != TG_MAP) return say_error(TG_USAGE, "%s: only maps go to a .json file", path);
    json_t *rows = values->rank > 1 ? json_array() : row_json(keys, values, 0);
    for (int64_t i = 0; values->rank > 1 && i < values->shape[0]; i++)
        json_array_append_new(rows, row_json(keys, values, i));
    return json_write(json_pack("{s:s, s:o}", "name", name, "value", rows), path);
}
