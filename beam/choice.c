/* Which list a kernel gets, and the name under which the database knows this device. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "beam/beam.h"

enum { LISTS_VERSION = 1 };         /* of what lists mean: a higher one forgets those that were learned */

void choice_init(Choice *c, TuneDb *db, const Backend *b, const Device *d)
{
    char name[128] = "", features[256] = "", compiler[128] = "";
    c->db = db;
    c->target = b->target(d);
    b->describe(d, name, features);
    if (b->compiler) b->compiler(d, compiler);
    snprintf(c->device, sizeof c->device, "%s|%s|%s|%d|%s|%d.%d.%d-%d", b->name, name, features, c->target->threads, compiler, TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH, LISTS_VERSION);
}

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
    if (k->key[0] && tunedb_best(c->db, k->key, c->device, &t) && is_legal(k, &t.opts, c->target)) return *out = t.opts, true;
    heuristic_opts(out, k, c->target);
    return false;
}
