#define _GNU_SOURCE /* strverscmp */
#include "bench/folders.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/say.h"
#include "bench/tokens.h"
#include "bench/values.h"

const char *reader_of(const char *file)
{
    static const char *const ends[] = { ".jpg", ".jpeg", ".png", ".ppm", ".pgm",  ".bmp", ".webp", ".gif",
                                        ".tif", ".tiff", ".jp2", ".wav", ".flac", ".ogg", ".mp3" };
    enum { PICTURES = 11 };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(file, ends[i])) return i < PICTURES ? "image:" : "audio:";
    return "";
}

/* ---- which -i names a folder ---- */

static bool is_folder(const char *s, size_t len)
{
    char path[4096];
    struct stat st;
    if (!len || len >= sizeof path) return false;
    memcpy(path, s, len);
    path[len] = 0;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Where the path stands in a specification, and what reads its files. */
static const char *path_in_spec(const char *s, size_t *len, const char **reader)
{
    const char *at = s;
    *reader = !strncmp(s, "image:", 6) ? "image:" : !strncmp(s, "audio:", 6) ? "audio:" : "";
    at += strlen(*reader);
    *len = **reader ? strcspn(at, ",") : strlen(at);
    if (!is_text_spec(s)) return at;
    at = strstr(s, "):@");
    *reader = "text";
    *len = at ? strlen(at + 3) : 0;
    return at ? at + 3 : s;
}

/* -i's value as a folder, behind NAME= or not; false: it names none. */
static bool folder_in(const char *value, size_t *from, size_t *to, const char **reader)
{
    const char *equals = strchr(value, '=');
    for (int named = 0; named < 2; named++) {
        size_t len;
        if (named && !equals) return false;
        const char *at = path_in_spec(named ? equals + 1 : value, &len, reader);
        if (!is_folder(at, len)) continue;
        *from = (size_t)(at - value);
        *to = *from + len;
        return true;
    }
    return false;
}

/* ---- its files ---- */

static bool suits(const char *file, const char *reader)
{
    bool tensor = ends_with(file, ".npy") || ends_with(file, ".npz") || ends_with(file, ".pb");
    if (*file == '.') return false;
    return !strcmp(reader, "text") || (*reader ? !strcmp(reader_of(file), reader) : tensor);
}

static int by_name(const void *a, const void *b) { return strverscmp(*(char *const *)a, *(char *const *)b); }

/* Names of the files in it; one more than SETS_MAX at most, so that too many are noticed. */
static uint32_t list_files(char **out, const char *dir, const char *reader)
{
    DIR *d = opendir(dir);
    uint32_t n = 0;
    for (struct dirent *e; d && n <= SETS_MAX && (e = readdir(d));) {
        char path[4096 + 300];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (suits(e->d_name, reader) && !stat(path, &st) && S_ISREG(st.st_mode)) out[n++] = strdup(e->d_name);
    }
    if (d) closedir(d);
    qsort(out, n, sizeof *out, by_name);
    return n;
}

static TgStatus add_folder(Folders *f, uint32_t option, const char *value, size_t from, size_t to, const char *reader)
{
    char dir[4096];
    if (f->lists == FOLDERS_MAX) return say_error(TG_USAGE, "-i %s: at most %d folders are wanted", value, FOLDERS_MAX);
    char **file = calloc(SETS_MAX + 1, sizeof *file);
    if (!file) return say_error(TG_LIMIT, "-i %s: no memory for its files", value);
    snprintf(dir, sizeof dir, "%.*s", (int)(to - from), value + from);
    uint32_t n = list_files(file, dir, reader), others = f->count;
    f->list[f->lists].option = option;
    f->list[f->lists].from = from;
    f->list[f->lists].to = to;
    f->list[f->lists++].file = file;
    f->count = n < SETS_MAX ? n : SETS_MAX;
    if (!n)
        return say_error(TG_BAD_INPUT, "-i %s: no file in it is %s", value,
                         *reader == 'i'       ? "a picture"
                             : *reader == 'a' ? "a recording"
                             : *reader        ? "a text"
                                              : "npy, npz or pb (image: or audio: before it reads others)");
    if (n > SETS_MAX)
        return say_error(TG_LIMIT, "-i %s: it has more than %d files; `eval` takes any number", value, SETS_MAX);
    if (f->lists > 1 && n != others)
        return say_error(TG_BAD_INPUT, "-i %s: it has %u files; the folder before it has %u", value, n, others);
    return TG_OK;
}

TgStatus folders_list(Folders *out, const Args *a)
{
    TgStatus status = TG_OK;
    *out = (Folders){ 0 };
    for (uint32_t i = 0; i < a->value[OPT_input].count && status == TG_OK; i++) {
        const char *value = a->value[OPT_input].v[i], *reader;
        size_t from, to;
        if (!folder_in(value, &from, &to, &reader)) continue;
        if (a->program == PROGRAM_TGRUN && a->operand.count > 1 && strcmp(a->operand.v[0], "run"))
            status = say_error(TG_USAGE, "-i %s: a folder is several inputs, which `run` and tgbench take", value);
        else if (args_has(a, OPT_test_data) || args_has(a, OPT_expected))
            status = say_error(TG_USAGE, "-i %s: a folder is several inputs; --%s does not go with it", value,
                               args_has(a, OPT_test_data) ? "test-data" : "expected");
        else status = add_folder(out, i, value, from, to, reader);
    }
    return status;
}

void folders_free(Folders *f)
{
    for (uint32_t i = 0; i < f->lists; i++) {
        for (uint32_t k = 0; k <= SETS_MAX; k++) free(f->list[i].file[k]);
        free(f->list[i].file);
    }
    *f = (Folders){ 0 };
}

/* ---- one of its data sets ---- */

void folders_args(const Folders *f, uint32_t k, Args *one, char (*text)[SPEC_BYTES])
{
    for (uint32_t i = 0; i < f->lists; i++) {
        const char *value = one->value[OPT_input].v[f->list[i].option];
        size_t to = f->list[i].to;
        snprintf(text[i], sizeof text[i], "%.*s%s%s%s", (int)to, value, value[to - 1] == '/' ? "" : "/",
                 f->list[i].file[k], value + to);
        one->value[OPT_input].v[f->list[i].option] = text[i];
    }
}

const char *folders_name(const Folders *f, uint32_t k) { return f->list[0].file[k]; }
