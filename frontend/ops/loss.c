/* Losses of classifiers. In: scores [n, classes, d..], labels [n, d..], a weight for each class or none. Out: a loss
 * for each label, their sum, or their mean by weight. Labels equal to ignore_index count nothing. To add one: a
 * function here and a row in ops.def.
 */
#include "frontend/frontend.h"
#include "frontend/input_names.h"

#include <string.h>


/* -x at each label, weighted and reduced; x: log probabilities. */
static U label_loss(Graph *g, const Ctx *c, U x)
{
    U label = cast(g, c->in[NegativeLogLikelihoodLoss_target], DT_I64), weight = K(1);
    const char *how = attr_str(g, c, "reduction", "mean");
    if (strcmp(how, "none") && strcmp(how, "sum") && strcmp(how, "mean"))
        return fail_node(g, c, TG_BAD_MODEL, "reduction", "is '%s'; wanted none, sum or mean", how);
    if (uop_rank(x) < 2 || uop_rank(label) + 1 != uop_rank(x))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[NegativeLogLikelihoodLoss_target],
                         "labels of rank %u for scores of rank %u", uop_rank(label), uop_rank(x));
    U dim[TG_MAX_RANK];
    for (uint32_t k = 0; k < uop_rank(label); k++) dim[k] = uop_dim(x, k + (k > 0));
    if (!shape_ok(g, c, NegativeLogLikelihoodLoss_target, dim, uop_rank(label)) ||
        !shape_ok(g, c, NegativeLogLikelihoodLoss_weight, (U[]){ uop_dim(x, 1) }, 1))
        return NULL;
    U skip = attr_find(c, "ignore_index") ? eq(g, label, uop_int(g, DT_I64, attr_int(g, c, "ignore_index", 0))) : NULL;
    U at = skip ? where(g, skip, uop_int(g, DT_I64, 0), label) : label;
    if (c->in[NegativeLogLikelihoodLoss_weight])
        weight = gather(g, wide(g, c->in[NegativeLogLikelihoodLoss_weight]), at, 0);
    weight = expand_like(g, skip ? where(g, skip, K(0), weight) : weight, label);
    U loss = neg(g, mul(g, squeeze(g, gather_elements(g, x, unsqueeze(g, at, 1), 1), 1), weight));
    if (skip) loss = where(g, skip, K(0), loss);
    if (loss->op == UOP_ERROR || !strcmp(how, "none")) return loss;
    int64_t axis[TG_MAX_RANK];
    uint32_t n = uop_rank(loss);
    for (uint32_t k = 0; k < n; k++) axis[k] = k;
    U total = reduce(g, UOP_ADD, loss, axis, n, false);
    return strcmp(how, "mean") ? total : div_(g, total, reduce(g, UOP_ADD, weight, axis, n, false));
}

U op_negative_log_likelihood_loss(Graph *g, const Ctx *c)
{
    U y = label_loss(g, c, wide(g, c->in[0]));
    return y ? narrow(g, y, c->in[0]) : NULL;
}

U op_softmax_cross_entropy_loss(Graph *g, const Ctx *c)
{
    if (uop_rank(c->in[0]) < 2)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 2 or more", uop_rank(c->in[0]));
    U logs = log_softmax(g, wide(g, c->in[0]), 1), y = label_loss(g, c, logs);
    return y ? outputs(g, c, (U[]){ narrow(g, y, c->in[0]), narrow(g, logs, c->in[0]) }, 2) : NULL;
}
