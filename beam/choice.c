/* Which list a kernel gets, and the name under which the database knows this device. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "beam/beam.h"

enum { LISTS_VERSION = 2 };         /* of what lists mean: a higher one forgets those that were learned */

void choice_init(Choice *c, TuneDb *db, const Backend *b, const Device *d)
{
    char name[128] = "", features[256] = "", compiler[128] = "";
    c->db = db;
    c->named = NULL;
    c->target = b->target(d);
    b->describe(d, name, features);
    if (b->compiler) b->compiler(d, compiler);
    snprintf(c->device, sizeof c->device, "%s|%s|%s|%d|%s|%d.%d.%d-%d", b->name, name, features, c->target->threads,
             compiler, TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH, LISTS_VERSION);
}

/* ---- lists that the user named ---- */

/* The next line that counts: its kernel's name and its list. */
static bool next_line(const char **at, char name[64], char *list, size_t cap)
{
    while (*at && **at) {
        size_t len = strcspn(*at, "\n"), head = strcspn(*at, ":\n"), start = strspn(*at, " \t\r");
        const char *line = *at;
        *at += len + (line[len] == '\n');
        if (start >= len || line[start] == '#') continue;
        size_t tail = head < len ? head + 1 : len;
        snprintf(name, 64, "%.*s", (int)(head - start), line + start);
        snprintf(list, cap, "%.*s", (int)(len - tail - (len > tail && line[len - 1] == '\r')), line + tail);
        return true;
    }
    return false;
}

enum { LIST_TEXT = 1024 };

static const char schedule[] = "schedule";      /* no kernel's name */

static bool find_named(const Choice *c, const char *of, char *list)
{
    char name[64];
    for (const char *at = c->named; next_line(&at, name, list, LIST_TEXT);)
        if (!strcmp(name, of)) return true;
    return false;
}

TgStatus choice_named_check(const char *named)
{
    char name[64], list[LIST_TEXT];
    OptList l;
    ScheduleList s;
    for (const char *at = named, *line = at; next_line(&at, name, list, sizeof list); line = at) {
        if (!memchr(line, ':', (size_t)(at - line))) return fail(TG_USAGE, "opts: '%s': KERNEL: LIST is wanted", name);
        if ((strcmp(name, schedule) ? opt_parse(&l, list) : schedule_parse(&s, list)) != TG_OK)
            return status_prefix(name), status_prefix("opts"), TG_USAGE;
    }
    return TG_OK;
}

bool choice_is_named(const Choice *c, const Kernel *k)
{
    char list[LIST_TEXT];
    return find_named(c, k->name, list);
}

TgStatus choice_is_legal(const Choice *c, const Kernel *k, const OptList *l)
{
    Kernel *copy = kernel_clone(k);
    TgStatus status = opt_apply_list(copy, l, c->target);
    if (status == TG_OK) status = kernel_lower(copy, c->target, NULL);
    kernel_free(copy);
    return status;
}

/* ---- the choice ---- */

static bool is_legal(const Kernel *k, const OptList *l, const Target *t)
{
    Kernel *copy = kernel_clone(k);
    bool ok = opt_apply_list(copy, l, t) == TG_OK;
    kernel_free(copy);
    if (!ok) status_clear();
    return ok;
}

bool choice_of(OptList *out, const Choice *c, const Kernel *k)
{
    Tuned t;
    char list[LIST_TEXT];
    if (find_named(c, k->name, list) && opt_parse(out, list) == TG_OK) return true;
    if (k->key[0] && tunedb_best(c->db, k->key, c->device, &t) && is_legal(k, &t.opts, c->target))
        return *out = t.opts, true;
    heuristic_opts(out, k, c->target);
    return false;
}

bool choice_names_schedule(const Choice *c)
{
    char list[LIST_TEXT];
    return find_named(c, schedule, list);
}

void choice_schedule(ScheduleList *out, const Choice *c, Graph *g, const UOp *sink)
{
    char list[LIST_TEXT], key[33];
    out->count = 0;
    if (find_named(c, schedule, list) && schedule_parse(out, list) == TG_OK) return;
    schedule_key(key, g, sink);
    if (!tunedb_schedule(c->db, key, c->device, out)) out->count = 0;
}
