/* The registry: rows of ops.def, sorted by name, domain and version, found by bisection. To add an operator: a row in
 * ops.def and a function in an ops_*.c. */
#include "frontend/frontend.h"

#include <string.h>

#define OPERATOR(domain, name, since, least, most, fn) U fn(Graph *g, const Ctx *c);
#include "frontend/ops/ops.def"
#undef OPERATOR

const OpRow op_rows[] = {
#define OPERATOR(domain, name, since, least, most, fn) { domain, name, since, least, most, fn },
#include "frontend/ops/ops.def"
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
