/* `tgrun cache list|verify|prune`: the folder of compiled kernels. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/report.h"
#include "bench/say.h"
#include "bench/verbs.h"

enum { KINDS = 16 };
typedef struct { char name[32]; int64_t files, bytes, oldest; } Kind;
typedef struct {
    Kind kind[KINDS];
    uint32_t kinds;
    int64_t bad, bad_bytes;
    bool tell_bad;
} Folder;

static void count(void *user, const TgCacheFile *f)
{
    Folder *d = user;
    uint32_t k = 0;
    while (k < d->kinds && strcmp(d->kind[k].name, f->kind)) k++;
    if (k == d->kinds && k + 1 < KINDS) snprintf(d->kind[d->kinds++].name, sizeof d->kind->name, "%.31s", f->kind);
    Kind *kind = &d->kind[k < KINDS ? k : KINDS - 1];
    if (!kind->files || f->used < kind->oldest) kind->oldest = f->used;
    kind->files++;
    kind->bytes += f->size_bytes;
    if (f->good) return;
    d->bad++;
    d->bad_bytes += f->size_bytes;
    if (d->tell_bad)
        say_note("%s/%s: cut, damaged, of another secret or version, or not only ours to write", f->kind, f->key);
}

static int by_name(const void *a, const void *b) { return strcmp(((const Kind *)a)->name, ((const Kind *)b)->name); }

static json_t *kinds_json(const Folder *d)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < d->kinds; k++)
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I}", "kind", d->kind[k].name, "files",
                                        (json_int_t)d->kind[k].files, "bytes", (json_int_t)d->kind[k].bytes, "oldest",
                                        (json_int_t)d->kind[k].oldest));
    return list;
}

static TgStatus list_or_verify(const Args *a, bool verify)
{
    Folder d = { .tell_bad = verify };
    TgStatus status = tg_cache_list(args_text(a, OPT_cache_dir, NULL), verify, count, &d);
    if (status != TG_OK) return say_library_error(status);
    status = d.bad ? TG_DIFFERS : TG_OK;
    qsort(d.kind, d.kinds, sizeof *d.kind, by_name);
    if (args_has(a, OPT_json)) {
        json_t *j = json_pack("{s:s, s:o, s:I, s:b, s:i}", "schema", "tgrun.cache/1", "kinds", kinds_json(&d), "bad",
                              (json_int_t)d.bad, "ok", status == TG_OK, "exit", (int)status);
        TgStatus written = json_write(j, args_text(a, OPT_json, ""));
        return written == TG_OK ? status : written;
    }
    int64_t files = 0, bytes = 0;
    char text[32];
    for (uint32_t k = 0; k < d.kinds; k++) {
        char day[16];
        strftime(day, sizeof day, "%Y-%m-%d", localtime(&(time_t){ (time_t)d.kind[k].oldest }));
        printf("%-16s %7ld files %12s   the oldest of %s\n", d.kind[k].name, (long)d.kind[k].files,
               bytes_text(text, (double)d.kind[k].bytes), day);
        files += d.kind[k].files;
        bytes += d.kind[k].bytes;
    }
    printf("%-16s %7ld files %12s\n", "all", (long)files, bytes_text(text, (double)bytes));
    if (verify) printf("%ld of %ld files are good\n", (long)(files - d.bad), (long)files);
    return status;
}

static TgStatus prune(const Args *a)
{
    int64_t removed[2], left[2],
        most = args_has(a, OPT_cache_size) ? (int64_t)args_real(a, OPT_cache_size, 0) : INT64_MAX;
    TgStatus status = tg_cache_prune(args_text(a, OPT_cache_dir, NULL), most, removed, left);
    if (status != TG_OK) return say_library_error(status);
    if (args_has(a, OPT_json)) {
        json_t *j = json_pack("{s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:b, s:i}", "schema", "tgrun.cache/1", "removed",
                              "files", (json_int_t)removed[0], "bytes", (json_int_t)removed[1], "left", "files",
                              (json_int_t)left[0], "bytes", (json_int_t)left[1], "ok", 1, "exit", 0);
        return json_write(j, args_text(a, OPT_json, ""));
    }
    char text[2][32];
    printf("%ld files, %s removed; %ld files, %s left\n", (long)removed[0], bytes_text(text[0], (double)removed[1]),
           (long)left[0], bytes_text(text[1], (double)left[1]));
    return TG_OK;
}

TgStatus verb_cache(const Args *a, const char *what)
{
    bool list = !strcmp(what, "list") || !strcmp(what, "verify");
    if (list && args_has(a, OPT_cache_size))
        return say_error(TG_USAGE, "--cache-size: has no effect on cache %s; it is for cache prune", what);
    if (!strcmp(what, "list")) return list_or_verify(a, false);
    if (!strcmp(what, "verify")) return list_or_verify(a, true);
    if (!strcmp(what, "prune")) return prune(a);
    return say_error(TG_USAGE, "cache: '%s' is wrong; list, verify or prune is wanted", what);
}
