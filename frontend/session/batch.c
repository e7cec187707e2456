#include "frontend/session/batch.h"

#include <string.h>

#include "frontend/import/import.h"
#include "frontend/values/ports.h"
#include "graph/base/memory.h"
#include "graph/base/spare.h"
#include "graph/blocks.h"
#include "graph/custom.h"
#include "graph/vmap.h"

/* ---- which inputs ---- */

static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, len) && (at[len] == ',' || !at[len])) return true;
    return false;
}

/* Each name of the list is an input's. */
static TgStatus check_list(const char *list, const GraphDef *g)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t len = strcspn(at, ",");
        bool found = false;
        for (uint32_t k = 0; k < g->ninput; k++)
            found |= strlen(g->input[k].name) == len && !strncmp(g->input[k].name, at, len);
        if (!found) return fail(TG_USAGE, "batch_inputs: the model has no input '%.*s'", (int)len, at);
    }
    return TG_OK;
}

static TgStatus check_input(const ValueDef *v)
{
    if (v->rank < 0 || v->rank >= TG_MAX_RANK || tg_type_bits((TgType)v->type) < 8)
        return fail(TG_UNSUPPORTED, "batch: input '%s' is no tensor of known rank with elements of whole bytes",
                    v->name);
    if (v->rank && v->dim[0].size < 0)
        return fail(TG_USAGE, "batch: axis 0 of input '%s' is free: a size for it does what a batch does", v->name);
    return TG_OK;
}

TgStatus batch_new(Batch **out, Arena *a, const Model *m, const TgOptions *o)
{
    const GraphDef *g = &m->graph;
    Batch *b = *out = NULL;
    if (o->batch < 0) return fail(TG_USAGE, "batch: %d is negative", (int)o->batch);
    if (!o->batch) return o->batch_inputs ? fail(TG_USAGE, "batch_inputs: there is no batch") : TG_OK;
    if (o->dims) return fail(TG_USAGE, "batch: sizes that vary do not go with it");
    TRY(check_list(o->batch_inputs, g));
    b = NEW(a, Batch);
    *b = (Batch){ .n = o->batch,
                  .ninput = g->ninput,
                  .noutput = g->noutput,
                  .mapped = NEW_N(a, bool, g->ninput + 1),
                  .in_front = NEW_N(a, bool, g->ninput + 1),
                  .one = NEW_N(a, TgTensor, g->ninput + 1),
                  .output = NEW_N(a, TgTensor, g->noutput + 1) };
    for (uint32_t k = 0; k < g->ninput; k++) {
        const ValueDef *v = &g->input[k];
        if (v->kind != VALUE_TENSOR) return fail(TG_UNSUPPORTED, "batch: input '%s' is no tensor", v->name);
        b->mapped[k] = !o->batch_inputs || is_listed(o->batch_inputs, v->name);
        if (b->mapped[k]) TRY(check_input(v));
        b->in_front[k] = !v->rank || v->dim[0].size != 1;
    }
    *out = b;
    return TG_OK;
}

void batch_free(Batch *b)
{
    for (uint32_t k = 0; b && k < b->noutput; k++) spare_free(b->output[k].data);
    if (b) arena_free(b->words);
}

void batch_port(const Batch *b, TgPort *port, int32_t input)
{
    bool in_front = input >= 0 ? b->in_front[input] : port->rank == 0 || (port->rank > 0 && port->shape[0] > 1);
    if (port->rank < 0 || port->rank >= TG_MAX_RANK || (input >= 0 && !b->mapped[input])) return;
    if (in_front) {
        memmove(port->shape + 1, port->shape, (size_t)port->rank * sizeof *port->shape);
        memmove(port->symbol + 1, port->symbol, (size_t)port->rank * sizeof *port->symbol);
        port->rank++;
    }
    if (in_front || port->shape[0] == 1) port->shape[0] = b->n;
    port->symbol[0] = port->shape[0] < 0 ? port->symbol[0] : NULL;
}

/* ---- samples ---- */

TgStatus batch_sample(const Batch *b, const Model *m, TgTensor *one, const TgTensor *all, int32_t k)
{
    for (uint32_t i = 0; i < b->ninput; i++) {
        one[i] = all[i];
        if (!b->mapped[i]) continue;
        if (holds_tensors(&all[i]) || all[i].rank < 1 || all[i].shape[0] != b->n)
            return fail(TG_BAD_INPUT, "'%s': axis 0 is %ld; the batch is %d", m->graph.input[i].name,
                        all[i].rank < 1 || holds_tensors(&all[i]) ? 0L : (long)all[i].shape[0], b->n);
        one[i].size_bytes = all[i].size_bytes / (size_t)b->n;
        one[i].data = k < 0 || !all[i].data ? NULL : (char *)all[i].data + (size_t)k * one[i].size_bytes;
        if (b->in_front[i]) memmove(one[i].shape, all[i].shape + 1, (size_t)--one[i].rank * sizeof *one[i].shape);
        else one[i].shape[0] = 1;
    }
    return TG_OK;
}

/* ---- all at once ---- */

/* An input's PARAM over all samples, [n, its sizes..]. */
static U over_samples(const Batch *b, Graph *g, U p)
{
    U dim[RANK_MAX], given[RANK_MAX];
    bool in_front = b->in_front[p->arg.i];
    uint32_t rank = uop_rank(p), n = 0;
    dim[0] = given[n++] = uop_index(g, b->n);
    for (uint32_t k = 0; k < rank; k++) dim[k + 1] = uop_dim(p, k);
    for (uint32_t k = in_front ? 0 : 1; k < rank; k++) given[n++] = uop_dim(p, k);
    return reshape(g, uop_param(g, (DType)p->dtype, given, n, p->arg.i), dim, rank + 1);
}

/* [n, 1, rest..] is the batch itself: [n, rest..]. */
static U merged(Graph *g, U y)
{
    U dim[RANK_MAX];
    if (is_error(y) || uop_rank(y) < 2 || !uop_is_int_const(uop_dim(y, 1), 1)) return y;
    dim[0] = uop_dim(y, 0);
    for (uint32_t k = 2; k < uop_rank(y); k++) dim[k - 1] = uop_dim(y, k);
    return reshape(g, y, dim, uop_rank(y) - 1);
}

TgStatus batch_map(const Batch *b, Imported *im)
{
    Graph *g = im->g;
    Arena *arena = arena_new();
    uint32_t count, nx = 0, n = im->sink->nsrc;
    for (uint32_t k = 0; k < b->noutput; k++)
        if (holds_tensors(&im->output[k])) return arena_free(arena), fail(TG_UNSUPPORTED, "output %u holds tensors", k);
    const UOp **u = graph_outer(g, im->sink, arena, &count);
    const UOp **x = NEW_N(arena, const UOp *, b->ninput + 1), **to = NEW_N(arena, const UOp *, b->ninput + 1),
              **out = NEW_N(arena, const UOp *, n + 1);
    for (uint32_t k = 0; k < count; k++)
        if (u[k]->op == UOP_PARAM && (uint64_t)u[k]->arg.i < b->ninput && b->mapped[u[k]->arg.i] && nx < b->ninput) {
            to[nx] = over_samples(b, g, u[k]);
            x[nx++] = u[k];
        }
    TgStatus status = vmap(g, im->sink->src, n, x, to, nx, uop_index(g, b->n), out);
    for (uint32_t k = 0; k < n && status == TG_OK; k++) out[k] = merged(g, out[k]);
    if (status == TG_OK) im->sink = sink_of(g, out, n);
    arena_free(arena);
    return status == TG_OK ? graph_error(g) : status;
}

/* ---- one after another ---- */

static TgStatus room_for_samples(Batch *b, TgTensor *all, const TgTensor *y)
{
    bool in_front = !y->rank || y->shape[0] != 1;
    void *old = all->data;
    size_t had = old ? all->size_bytes : 0, bytes = y->size_bytes * (size_t)b->n;
    if (y->rank + in_front > TG_MAX_RANK) return fail(TG_UNSUPPORTED, "an output of rank %d over samples", y->rank);
    *all = *y;
    if (in_front) memmove(all->shape + 1, y->shape, (size_t)y->rank * sizeof *y->shape);
    all->rank += in_front;
    all->shape[0] = b->n;
    all->size_bytes = bytes;
    all->data = had == bytes ? old : spare_alloc(bytes + 64);
    if (had != bytes) spare_free(old);
    return all->data ? TG_OK : fail(TG_LIMIT, "no memory for the outputs of %d samples", b->n);
}

static bool same_shape(const TgTensor *all, const TgTensor *y, int32_t n)
{
    int32_t front = all->rank - y->rank;
    bool same = all->type == y->type && all->size_bytes == y->size_bytes * (size_t)n && (front == 0 || front == 1);
    for (int32_t k = front ? 0 : 1; same && k < y->rank; k++) same = all->shape[k + front] == y->shape[k];
    return same;
}

TgStatus batch_keep(Batch *b, int32_t k, const TgTensor *y, uint32_t n)
{
    if (!k) {
        arena_free(b->words);
        b->words = NULL;
        arena_keep(b->words = arena_new());
    }
    for (uint32_t i = 0; i < n; i++) {
        TgTensor *all = &b->output[i];
        if (holds_tensors(&y[i]) || tg_type_bits(y[i].type) < 8)
            return fail(TG_UNSUPPORTED, "batch: output %u is no tensor with elements of whole bytes", i);
        if (!k) TRY(room_for_samples(b, all, &y[i]));
        if (!same_shape(all, &y[i], b->n))
            return fail(TG_UNSUPPORTED, "batch: output %u of sample %d has another shape than the first one's", i, k);
        char *at = (char *)all->data + (size_t)k * y[i].size_bytes;
        memcpy(at, y[i].data, y[i].size_bytes);
        for (size_t w = 0; y[i].type == TG_STRING && w < y[i].size_bytes / sizeof(char *); w++)
            ((const char **)(void *)at)[w] = arena_strdup(b->words, ((const char **)y[i].data)[w]);
    }
    return TG_OK;
}
