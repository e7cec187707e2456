/* Tensor files by suffix, for users of the library: what they bring and take away. The formats themselves are in onnx/npy.c. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/npy.h"

typedef enum { FORM_NPY, FORM_NPZ, FORM_PB, FORM_NONE } Form;

/* `x.npz:key`: *key is where the key starts, after the colon. */
static Form form_of(const char *path, size_t *path_len, const char **key)
{
    static const char *const suffix[] = { ".npy", ".npz", ".pb" };
    const char *member = strstr(path, ".npz:");
    *key = NULL;
    *path_len = strlen(path);
    if (!strcmp(path, "-")) return FORM_NPY;
    if (member) {
        *key = member + strlen(".npz:");
        *path_len = (size_t)(*key - 1 - path);
        return FORM_NPZ;
    }
    for (int f = 0; f < FORM_NONE; f++) {
        size_t n = strlen(suffix[f]);
        if (*path_len > n && !strcmp(path + *path_len - n, suffix[f])) return (Form)f;
    }
    return FORM_NONE;
}

static TgStatus read_all(char **data, size_t *size, const char *path)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t cap = 0, got = 1;
    *data = NULL;
    *size = 0;
    if (!f) return fail(TG_BAD_INPUT, "%s", strerror(errno));
    while (got) {
        if (*size == cap) {
            cap = cap ? cap * 2 : 1 << 16;
            char *grown = realloc(*data, cap);
            if (!grown) break;
            *data = grown;
        }
        got = fread(*data + *size, 1, cap - *size, f);
        *size += got;
    }
    bool bad = got || ferror(f);
    if (f != stdin) fclose(f);
    return bad ? fail(TG_BAD_INPUT, "cannot be read") : TG_OK;
}

/* bfloat16 has no type in npy: the same bits come as uint16. */
static TgStatus adopt_type(TgTensor *t, TgType want)
{
    if (!want || t->type == want) return TG_OK;
    if (want == TG_BF16 && t->type == TG_U16) return t->type = want, TG_OK;
    TgType is = t->type;
    tg_tensor_free(t);
    return fail(TG_BAD_INPUT, "the file holds %s; %s is wanted", tg_type_name(is), tg_type_name(want));
}

static TgStatus read_form(TgTensor *out, const char *path, Form form, const char *key)
{
    char *data;
    size_t size;
    if (form == FORM_NPZ) return npz_read(out, path, key);
    TgStatus status = read_all(&data, &size, path);
    if (status == TG_OK) status = form == FORM_NPY ? npy_read_bytes(out, data, size) : pb_read_bytes(out, data, size);
    free(data);
    return status;
}

TgStatus tg_tensor_read(TgTensor *out, const char *path, TgType want)
{
    size_t len;
    const char *key;
    Form form = form_of(path, &len, &key);
    *out = (TgTensor){ 0 };
    if (form == FORM_NONE) return fail(TG_BAD_INPUT, "%s: the suffix tells no format; .npy, .npz or .pb is wanted", path);
    char *file = strndup(path, len);
    if (!file) return fail(TG_LIMIT, "%s: no memory for its name", path);
    TgStatus status = read_form(out, file, form, key);
    if (status == TG_OK) status = adopt_type(out, want);
    if (status != TG_OK) status_prefix(path);
    free(file);
    return status;
}

TgStatus tg_tensor_write(const TgTensor *t, const char *name, const char *path)
{
    size_t len;
    const char *key;
    Form form = form_of(path, &len, &key);
    TgStatus status;
    if (form == FORM_NPY) status = npy_write_file(t, path);
    else if (form == FORM_PB) status = pb_write_file(t, name, path);
    else return fail(TG_USAGE, "%s: the suffix tells no format that is written; .npy or .pb is wanted", path);
    if (status != TG_OK) status_prefix(path);
    return status;
}

void tg_tensor_free(TgTensor *t)
{
    free(t->data);
    *t = (TgTensor){ 0 };
}
