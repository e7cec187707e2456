/* The registry: rows of ops.def, sorted by name, domain and version, then those of microsoft.def, sorted by name, found
 * by bisection. To add an operator: a row there and a function in a file of its topic. */
#include "frontend/frontend.h"

#include <string.h>

#define OPERATOR(domain, name, since, least, most, fn) U fn(Graph *g, const Ctx *c);
#include "frontend/ops/ops.def"
#undef OPERATOR
#define MICROSOFT(name, fn, ...) U fn(Graph *g, const Ctx *c);
#include "frontend/import/microsoft.def"
#undef MICROSOFT

#define OPERATOR(...) +1
enum {
    STANDARD_ROWS =
#include "frontend/ops/ops.def"
};
#undef OPERATOR

const OpRow op_rows[] = {
#define OPERATOR(domain, name, since, least, most, fn) { domain, name, since, least, most, fn },
#include "frontend/ops/ops.def"
#undef OPERATOR
#define MICROSOFT(name, fn, least, least_in, most_in, ...) { "com.microsoft", #name, 1, least, most_in, fn },
#include "frontend/import/microsoft.def"
#undef MICROSOFT
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
    bool own = !strcmp(domain, "com.microsoft");
    uint32_t lo = own ? STANDARD_ROWS : 0, hi = own ? op_row_count : STANDARD_ROWS, first = lo;
    while (lo < hi) {                                   /* lo: rows at or before (name, domain, opset) */
        uint32_t mid = lo + (hi - lo) / 2;
        if (order(&op_rows[mid], domain, name, opset) <= 0) lo = mid + 1;
        else hi = mid;
    }
    const OpRow *r = lo > first ? &op_rows[lo - 1] : NULL;
    return r && !strcmp(r->name, name) && !strcmp(r->domain, domain) ? r : NULL;
}
