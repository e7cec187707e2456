#include "bench/maps.h"

#include "bench/report.h"
#include "bench/say.h"
#include "bench/values.h"

bool output_is_map(const TgSession *s, int32_t index)
{
    const char *text;
    int64_t number;
    return tg_output_key(s, index, 0, &text, &number) != 0;
}

static TgStatus fill(TgTensor *out, const json_t *rows, const char *path)
{
    json_t *row, *entry;
    size_t i, k, width = json_array_size(json_array_get(rows, 0));
    int64_t shape[2] = { (int64_t)json_array_size(rows), (int64_t)width };
    if (!tensor_new(out, TG_F32, shape, 2)) return say_error(TG_LIMIT, "%s: no memory", path);
    json_array_foreach(rows, i, row) {
        if (json_array_size(row) != width) return say_error(TG_BAD_INPUT, "%s: map %zu has %zu keys; %zu are wanted", path, i, json_array_size(row), width);
        json_array_foreach(row, k, entry) value_put(TG_F32, out->data, (int64_t)(i * width + k), json_number_value(json_array_get(entry, 1)));
    }
    return TG_OK;
}

TgStatus map_read(TgTensor *out, const char *path)
{
    json_error_t e;
    json_t *file = json_load_file(path, 0, &e), *rows = json_object_get(file, "value");
    *out = (TgTensor){ .type = TG_F32 };
    if (!file) return say_error(TG_BAD_INPUT, "%s:%d: %s", path, e.line, e.text);
    TgStatus status = json_is_array(rows) ? fill(out, rows, path) : say_error(TG_BAD_INPUT, "%s: 'value' is missing; a list of maps is wanted", path);
    json_decref(file);
    return status;
}

static json_t *one_map(const TgSession *s, int32_t index, const TgTensor *t, int64_t row)
{
    json_t *map = json_array();
    int64_t width = t->rank > 1 ? t->shape[1] : 1, number;
    const char *text;
    for (int32_t k = 0; k < width && tg_output_key(s, index, k, &text, &number); k++)
        json_array_append_new(map, json_pack("[o, f]", text ? json_string(text) : json_integer(number), value_get(t->type, t->data, row * width + k)));
    return map;
}

TgStatus map_write(const TgSession *s, int32_t index, const char *name, const TgTensor *t, const char *path)
{
    json_t *rows = json_array();
    for (int64_t i = 0; i < (t->rank ? t->shape[0] : 1); i++) json_array_append_new(rows, one_map(s, index, t, i));
    return json_write(json_pack("{s:s, s:o}", "name", name, "value", rows), path);
}
