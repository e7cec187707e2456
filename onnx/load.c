/* A file or memory -> Model. In: a path or bytes, from anybody. Out: a Model that holds its mappings until model_free,
 * or one line that says what is wrong and, for bytes that are no protobuf, where. Steps: map (files.c), recognise,
 * unpack (wire.c), build and check (model.c, names.c, calls.c, tensor.c), digest.
 */
#include <string.h>

#include "graph/base/memory.h"
#include "onnx/loader.h"

/* What people pass for a model. Tried after the bytes turned out not to be one. */
static const struct { size_t at, size; const char *bytes, *what; } others[] = {
    { 0, 34, "version https://git-lfs.github.com", "is a Git LFS pointer, not a model: fetch the real file with `git lfs pull`" },
    { 0, 2, "\x1f\x8b", "is a gzip file, not a model: unpack it first" },
    { 0, 4, "PK\3\4", "is a zip file, not a model" },
    { 0, 6, "\xfd" "7zXZ", "is an xz file, not a model: unpack it first" },
    { 0, 4, "\x28\xb5\x2f\xfd", "is a zstd file, not a model: unpack it first" },
    { 0, 6, "\x93NUMPY", "is a numpy file, not a model" },
    { 0, 4, "\x89HDF", "is an HDF5 file, not a model" },
    { 0, 4, "GGUF", "is a GGUF file, not an ONNX model" },
    { 4, 4, "ORTM", "is an ORT flatbuffer, not an ONNX model" },
    { 4, 4, "TFL3", "is a TensorFlow Lite file, not an ONNX model" },
    { 257, 5, "ustar", "is a tar archive, not a model: unpack it first" },
    { 0, 1, "<", "is HTML or XML text, not a model: the download was an error page, maybe" },
    { 0, 1, "{", "is JSON text, not a model" },
};

static TgStatus recognise(Bytes file, TgStatus otherwise)
{
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (file.size >= others[k].at + others[k].size &&
            !memcmp(file.data + others[k].at, others[k].bytes, others[k].size))
            return fail(TG_BAD_MODEL, "%s", others[k].what);
    return otherwise;
}

static TgStatus build(Model *m, const Onnx__ModelProto *p, const TensorSource *source, const ModelData *given)
{
    Arena *scratch = arena_new();
    TgStatus status = given ? model_data_give(source->files, scratch, given) : TG_OK;
    if (status == TG_OK) status = model_build(m, p, source, scratch);
    if (status == TG_OK && given) status = model_data_check(m, source->files, scratch, given);
    arena_free(scratch);
    return status;
}

/* Takes files. */
static TgStatus load(Model **out, Arena *arena, Files *files, Bytes file, const char *path, const ModelData *given)
{
    ProtobufCMessage *message;
    const Wire wire = { file, arena, TG_BAD_MODEL };
    const TensorSource source = { &wire, files, arena, DENSE_LIMIT };
    Undo undo;
    undo_push(&undo, files_undo, files);
    Model *m = NEW(arena, Model);
    *m = (Model){ .path = arena_strdup(arena, path),
                  .file_data = file.data,
                  .file_bytes = file.size,
                  .owner = files,
                  .arena = arena };
    files_digest(files, file);
    TgStatus status = wire_unpack(&message, &wire, &onnx__model_proto__descriptor);
    if (status == TG_BAD_MODEL) status = recognise(file, status);
    if (status == TG_OK) status = build(m, (const Onnx__ModelProto *)message, &source, given);
    undo_pop(&undo);
    if (status != TG_OK) return model_free(m), status;
    files_digest_hex(files, m->hash);
    *out = m;
    return TG_OK;
}

TgStatus model_load(Model **out, const char *path, const ModelData *given)
{
    Bytes file;
    Files *files;
    Arena *arena = arena_new();
    TgStatus status = files_open(&files, &file, arena, path);
    if (status == TG_OK) return load(out, arena, files, file, path, given);
    arena_free(arena);
    return status;
}

TgStatus model_load_bytes(Model **out, const void *data, size_t size, const char *folder, const ModelData *given)
{
    Files *files;
    Arena *arena = arena_new();
    TgStatus status = size ? files_open_memory(&files, arena, folder) : fail(TG_BAD_MODEL, "is empty");
    if (status == TG_OK) return load(out, arena, files, (Bytes){ data, size }, "", given);
    arena_free(arena);
    return status;
}

TgStatus model_load_files(Model **out, const ModelFile *model, const ModelFile *external, uint32_t n, const char *hash)
{
    Files *files;
    Arena *arena = arena_new();
    NamedBytes *named = NEW_N(arena, NamedBytes, n + 1);
    for (uint32_t k = 0; k < n; k++)
        named[k] = (NamedBytes){ external[k].name, { external[k].data, external[k].size_bytes } };
    TgStatus status = files_open_all(&files, arena, named, n, hash);
    if (status == TG_OK) return load(out, arena, files, (Bytes){ model->data, model->size_bytes }, "", NULL);
    arena_free(arena);
    return status;
}

bool model_external(const Model *m, uint32_t k, ModelFile *out)
{
    NamedBytes f;
    for (uint32_t i = 0; files_at(m->owner, i, &f); i++) {
        if (!*f.name || k--) continue;
        *out = (ModelFile){ f.name, f.bytes.data, f.bytes.size };
        return true;
    }
    return false;
}

void model_forget(const Model *m, const void *data, size_t bytes) { files_forget(m->owner, (Bytes){ data, bytes }); }

void model_forget_all(const Model *m) { files_forget_all(m->owner); }

void model_free(Model *m)
{
    if (!m) return;
    files_free(m->owner);
    arena_free(m->arena);
}
