/* Data that a caller gives in place of what a model's file says (TgData).
 *
 * In: TgOptions.data. Out: files in memory (files_give), an initializer's under a name that no file has, so that who
 * keeps a model's files (kept.c, compiled.c) keeps these too, and the model's digest has them. An entry without effect
 * is refused: a name that the model does not read, a type or a shape that is not the model's.
 */
#include <string.h>

#include "graph/base/map.h"
#include "onnx/loader.h"

const char *model_data_name(Arena *arena, const char *initializer) { return arena_printf(arena, "/%s", initializer); }

static const char *name_of(Arena *arena, const TgData *d)
{
    return d->initializer ? model_data_name(arena, d->initializer) : d->file;
}

TgStatus model_data_give(Files *files, Arena *arena, const ModelData *data)
{
    for (int64_t k = 0; k < data->n; k++) {
        const TgData *d = &data->at[k];
        if (!d->initializer == !d->file)
            return fail(TG_USAGE, "data %lld: either initializer or file is named", (long long)k);
        if (d->file && (!*d->file || *d->file == '/'))
            return fail(TG_USAGE, "data %lld: file '%s' is no external file's name", (long long)k, d->file);
        if (d->value.size_bytes && !d->value.data)
            return fail(TG_USAGE, "data %lld: its value has no data", (long long)k);
        if (!files_give(files, name_of(arena, d), (Bytes){ d->value.data, d->value.size_bytes }))
            return fail(TG_USAGE, "data %lld: '%s' is given twice", (long long)k,
                        d->initializer ? d->initializer : d->file);
    }
    return TG_OK;
}

static TgStatus check_initializer(const Model *m, const TgData *d)
{
    const TensorDef *t = m->graph.init, *end = t + m->graph.ninit;
    while (t < end && strcmp(t->name, d->initializer)) t++;
    if (t == end) return fail_at(TG_BAD_INPUT, NULL, NULL, d->initializer, "data: the model has no such initializer");
    if ((int32_t)d->value.type != t->type)
        return fail_at(TG_BAD_INPUT, NULL, NULL, d->initializer, "data: the initializer is of type %s; %s is given",
                       tg_type_name((TgType)t->type), tg_type_name(d->value.type));
    if (d->value.rank != (int32_t)t->rank)
        return fail_at(TG_BAD_INPUT, NULL, NULL, d->initializer, "data: the initializer is of rank %u; %d is given",
                       t->rank, d->value.rank);
    for (uint32_t k = 0; k < t->rank; k++)
        if (d->value.shape[k] != t->shape[k])
            return fail_at(TG_BAD_INPUT, NULL, NULL, d->initializer,
                           "data: axis %u of the initializer is %lld; %lld is given", k, (long long)t->shape[k],
                           (long long)d->value.shape[k]);
    return TG_OK;
}

TgStatus model_data_check(const Model *m, const Files *files, Arena *scratch, const ModelData *data)
{
    for (int64_t k = 0; k < data->n; k++) {
        const TgData *d = &data->at[k];
        if (d->initializer) TRY(check_initializer(m, d));
        if (!files_read(files, name_of(scratch, d)))
            return fail_at(TG_BAD_INPUT, NULL, NULL, d->initializer ? d->initializer : d->file,
                           d->initializer ? "data: the initializer is sparse" : "data: the model reads no such file");
    }
    return TG_OK;
}
