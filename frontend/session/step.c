/* The step between neighbouring values of an output at best, found from the nodes that make it. In: the model. Out: a
 * difference below which two right programs may disagree, since each rounds in its own order and the model then rounds
 * coarsely: one step of a quantisation, the last bit of the 1 that a sigmoid is computed beside. 0: none is known.
 * Likewise the type that an output was rounded to before it was cast to a wider one.
 * To add an operator that coarsens: a row of `coarse`; one that only moves values: a name in `moves`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/session/session.h"

enum { DEPTH = 16, SCALES_MAX = 1 << 16 };

static const char *const moves[] = { "Identity",  "Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                     "Transpose", "Slice",   "Gather",  "Split",   "Concat" };

static const Node *maker(const GraphDef *g, const char *value)
{
    for (uint32_t i = g->nnode; i-- > 0;)
        for (uint32_t k = 0; k < g->node[i].nout; k++)
            if (!strcmp(g->node[i].out[k], value)) return &g->node[i];
    return NULL;
}

static const TensorDef *constant(const GraphDef *g, const char *value)
{
    const Node *n = NULL;
    for (int depth = 0; depth < DEPTH && (n = maker(g, value)) && !strcmp(n->op, "Identity") && n->nin; depth++)
        value = n->in[0];
    for (uint32_t i = 0; i < g->ninit && !n; i++)
        if (!strcmp(g->init[i].name, value)) return &g->init[i];
    for (uint32_t k = 0; n && !strcmp(n->op, "Constant") && k < n->nattr; k++)
        if (n->attr[k].type == ATTR_TENSOR) return n->attr[k].t;
    return NULL;
}

static double largest_scale(const GraphDef *g, const Node *n)
{
    const TensorDef *t = n->nin > 1 ? constant(g, n->in[1]) : NULL;
    double most = 0;
    if (!t || t->type != TG_F32 || t->numel > SCALES_MAX) return 0;
    for (int64_t k = 0; k < t->numel; k++) {
        float scale;
        memcpy(&scale, (const char *)t->data + 4 * k, 4);
        if (isfinite(scale)) most = fmax(most, fabs((double)scale));
    }
    return most;
}

static double beside_one(const GraphDef *g, const Node *n)
{
    (void)g;
    (void)n;
    return 0x1p-23;
}

static const struct {
    const char *op;
    double (*step)(const GraphDef *g, const Node *n);
} coarse[] = { { "DequantizeLinear", largest_scale }, { "Sigmoid", beside_one } };

static double step_of(const GraphDef *g, const char *value, int depth)
{
    const Node *n = depth ? maker(g, value) : NULL;
    double step = 0;
    for (size_t i = 0; n && i < sizeof coarse / sizeof *coarse; i++)
        if (!strcmp(n->op, coarse[i].op)) return coarse[i].step(g, n);
    for (size_t i = 0; n && i < sizeof moves / sizeof *moves; i++)
        for (uint32_t k = 0; !strcmp(n->op, moves[i]) && k < (strcmp(n->op, "Concat") ? 1 : n->nin) && k < n->nin; k++)
            step = fmax(step, step_of(g, n->in[k], depth - 1));
    return step;
}

double model_step(const Model *m, const char *output) { return step_of(&m->graph, output, DEPTH); }

/* ---- casts of narrower numbers ---- */

static bool is_half(TgType t) { return t == TG_F16 || t == TG_BF16; }

static TgType half_or_none(int64_t t) { return is_half((TgType)t) ? (TgType)t : 0; }

/* The half type of a constant or an input of the model. */
static TgType declared_half(const GraphDef *g, const char *value)
{
    for (uint32_t i = 0; i < g->ninit; i++)
        if (!strcmp(g->init[i].name, value)) return half_or_none(g->init[i].type);
    for (uint32_t i = 0; i < g->ninput; i++)
        if (!strcmp(g->input[i].name, value)) return half_or_none(g->input[i].type);
    return 0;
}

/* The half type of a value: that of what its node reads, or of what makes the first of it, and so on up. */
static TgType half_of(const GraphDef *g, const char *value)
{
    const Node *n = maker(g, value);
    TgType t = declared_half(g, value);
    for (int depth = 0; depth < DEPTH && n && !t; depth++, n = n->nin ? maker(g, n->in[0]) : NULL) {
        for (uint32_t k = 0; k < n->nattr; k++)
            if (!strcmp(n->op, "Cast") && !strcmp(n->attr[k].name, "to")) return half_or_none(n->attr[k].i);
        for (uint32_t k = 0; k < n->nin && !t; k++) t = declared_half(g, n->in[k]);
    }
    return t;
}

TgType model_rounded(const Model *m, const char *output)
{
    const GraphDef *g = &m->graph;
    const Node *n = maker(g, output);
    for (int depth = 0; depth < DEPTH && n && n->nin; depth++, n = maker(g, n->in[0])) {
        bool moved = false;
        if (!strcmp(n->op, "Cast")) return half_of(g, n->in[0]);
        for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) moved |= !strcmp(n->op, moves[i]);
        if (!moved) return 0;
    }
    return 0;
}
