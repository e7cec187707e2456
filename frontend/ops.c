/* The registry: rows of ops.def, sorted by name, domain and version, found by bisection; beside it what the standard has, from the onnx package of the build.
 * To add an operator: a row in ops.def and a function in an ops_*.c. */
#include "frontend/narrow.h"

#include <stdlib.h>
#include <string.h>

#define OPERATOR(domain, name, since, least, most, fn) U fn(Graph *g, const Ctx *c);
#include "frontend/ops.def"
#undef OPERATOR

const OpRow op_rows[] = {
#define OPERATOR(domain, name, since, least, most, fn) { domain, name, since, least, most, fn },
#include "frontend/ops.def"
#undef OPERATOR
};
const uint32_t op_row_count = sizeof op_rows / sizeof *op_rows;

static int order(const OpRow *r, const char *domain, const char *name, int64_t since)
{
    int by_name = strcmp(r->name, name);
    int by_domain = by_name ? by_name : strcmp(r->domain, domain);
    return by_domain ? by_domain : (r->since > since) - (r->since < since);
}

const OpRow *op_find(const char *domain, const char *name, int64_t opset)
{
    if (!strcmp(domain, "ai.onnx")) domain = "";
    uint32_t lo = 0, hi = op_row_count;
    while (lo < hi) {                                   /* lo: rows at or before (name, domain, opset) */
        uint32_t mid = lo + (hi - lo) / 2;
        if (order(&op_rows[mid], domain, name, opset) <= 0) lo = mid + 1;
        else hi = mid;
    }
    const OpRow *r = lo ? &op_rows[lo - 1] : NULL;
    return r && !strcmp(r->name, name) && !strcmp(r->domain, domain) ? r : NULL;
}

/* ---- what the standard has ---- */

typedef struct { const char *domain, *name; int32_t since; const char *types; int32_t tests; } StandardRow;
static const StandardRow standard[] = {
#define STANDARD(domain, name, since, types, tests) { domain, name, since, types, tests },
#include "standard_rows.h"
#undef STANDARD
};
enum { STANDARD_COUNT = sizeof standard / sizeof *standard };

static bool in_standard(const OpRow *r)
{
    for (int32_t k = 0; k < STANDARD_COUNT; k++)
        if (!strcmp(standard[k].domain, r->domain) && !strcmp(standard[k].name, r->name)) return true;
    return false;
}

/* "1 10 seq": numbers of types, and words. */
static void read_types(const char *s, TgOperator *out)
{
    uint32_t n = 0;
    for (char *end; *s; s = *end ? end + 1 : end) {
        long type = strtol(s, &end, 10);
        if (end == s) {
            end += strcspn(s, " ");
            out->sequence |= *s == 's', out->optional |= *s == 'o', out->map |= *s == 'm';
        } else if (n < sizeof out->type / sizeof *out->type) out->type[n++] = (TgType)type;
    }
}

int32_t tg_operator(int32_t index, TgOperator *out)
{
    if (index >= 0 && index < STANDARD_COUNT) {
        const StandardRow *s = &standard[index];
        *out = (TgOperator){ .domain = s->domain, .name = s->name, .since_version = s->since, .covered = op_find(s->domain, s->name, s->since) != NULL, .tests = s->tests };
        return read_types(s->types, out), 1;
    }
    index -= STANDARD_COUNT;
    for (uint32_t k = 0; k < op_row_count && index >= 0; k++)
        if (!in_standard(&op_rows[k]) && !index--) return *out = (TgOperator){ .domain = op_rows[k].domain, .name = op_rows[k].name, .since_version = op_rows[k].since, .covered = 1, .tests = -1 }, 1;
    return 0;
}

int32_t tg_type_covered(TgType type) { return type == TG_STRING || narrow_is((int32_t)type) || dtype_from_onnx((int32_t)type) != DT_VOID; }
