/* A program as source text: what the device's writer must know of it beside its plan, which is the names and sizes of
 * inputs and outputs, and the sizes that vary. */
#include <ctype.h>
#include <string.h>

#include "frontend/session/compiled.h"
#include "frontend/values/narrow.h"

/* The folder's name without what stands behind a dot, as C takes it. */
static const char *identifier(Arena *a, const char *path)
{
    size_t end = strlen(path), n;
    while (end && path[end - 1] == '/') end--;
    const char *base = path + end;
    while (base > path && base[-1] != '/') base--;
    n = strcspn(base, "./");
    bool begins = n && !isdigit((unsigned char)*base) && !(n == 4 && !memcmp(base, "main", n));
    char *s = arena_printf(a, "%s%.*s", begins ? "" : "model_", (int)(n < 60 ? n : 60), base);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 126) *c = '_';
    return s;
}

static TgStatus port_type(const char *what, const char *name, const TgTensor *t, int32_t narrow)
{
    if (holds_tensors(t) || t->type == TG_STRING || narrow || t->type == TG_COMPLEX64 || t->type == TG_COMPLEX128)
        return fail(TG_UNSUPPORTED, "%s '%s': %s has no form in C source", what, name, tg_type_name(t->type));
    return TG_OK;
}

static TgStatus list_inputs(Listing *l, Arena *a, TgSession *s, const Program *p)
{
    ListingPort *port = NEW_N(a, ListingPort, p->nport + 1);
    for (uint32_t i = 0; i < p->nport; i++) {
        const TgTensor *t = &p->input[i];
        const char *name = s->model->graph.input[i].name;
        const UOp **dim = NEW_N(a, const UOp *, (uint32_t)t->rank + 1);
        TRY(port_type("input", name, t, holds_tensors(t) ? 0 : p->imported.input_narrow[i]));
        if (t->data)
            return fail(TG_UNSUPPORTED, "input '%s': sizes depend on its values, which C source would not look at",
                        name);
        for (int32_t k = 0; k < t->rank; k++) dim[k] = dims_size(p->imported.g, p->dims, i, k, t->shape[k]);
        port[i] = (ListingPort){ name, t->type, (uint32_t)t->rank, dim };
    }
    l->input = port;
    l->ninput = p->nport;
    return TG_OK;
}

static TgStatus list_outputs(Listing *l, Arena *a, TgSession *s, const Program *p)
{
    ListingPort *port = NEW_N(a, ListingPort, p->noutput + 1);
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        if (b->kind != MEM_OUTPUT) continue;
        const char *name = s->model->graph.output[b->offset].name;
        TRY(port_type("output", name, p->out[b->offset], p->imported.output_narrow[b->offset]));
        port[b->offset] = (ListingPort){ name, p->out[b->offset]->type, b->shape->rank, b->shape->dim };
    }
    l->output = port;
    l->noutput = p->noutput;
    return TG_OK;
}

/* The symbol of an axis that has this size, else INPUT_AXIS. */
static const char *size_name(Arena *a, const Model *m, const Dims *d, uint32_t var)
{
    for (uint32_t i = 0; i < d->ninput; i++)
        for (int32_t k = 0; k < TG_MAX_RANK; k++) {
            if (d->of[i][k] != (int32_t)var) continue;
            const char *symbol = k < m->graph.input[i].rank ? m->graph.input[i].dim[k].symbol : NULL;
            return symbol && *symbol ? symbol : arena_printf(a, "%s_%d", m->graph.input[i].name, k);
        }
    return d->var[var].name;
}

static void list_sizes(Listing *l, Arena *a, const Model *m, const Program *p)
{
    const Dims *d = p->dims;
    ListingSize *size = NEW_N(a, ListingSize, (d ? d->nvar : 0) + 1);
    for (uint32_t k = 0; d && k < d->nvar; k++) {
        const DimVar *v = &d->var[k];
        if (v->fixed || v->of) continue;
        size[l->nsize++] = (ListingSize){ size_name(a, m, d, k), v->name, v->least, v->largest, v->step,
                                          plan_var(p->plan, v->name) };
    }
    l->size = size;
    for (const Doubt *x = graph_needs(p->imported.g); x; x = x->next) l->nneed++;
    const UOp **need = NEW_N(a, const UOp *, l->nneed + 1), **to = need;
    for (const Doubt *x = graph_needs(p->imported.g); x; x = x->next) *to++ = x->size[0];
    l->need = need;
}

static TgStatus list_all(Listing *l, Arena *a, TgSession *s, const Program *p)
{
    for (uint32_t i = 0; i < p->nresult; i++)
        if (holds_tensors(&p->output[i])) TRY(port_type("output", s->model->graph.output[i].name, &p->output[i], 0));
    TRY(list_inputs(l, a, s, p));
    TRY(list_outputs(l, a, s, p));
    list_sizes(l, a, s->model, p);
    return TG_OK;
}

TgStatus source_write(TgSession *s, const char *folder)
{
    const Program *p = s->program;
    Arena *a = arena_new();
    const char *name = identifier(a, folder);
    Listing l = { .name = name,
                  .model = arena_printf(a, "%s: a model of xxh3 %.12s, compiled by tgrun %s", name, s->model->hash,
                                        tg_version()),
                  .plan = p->plan };
    TgStatus status = list_all(&l, a, s, p);
    if (status == TG_OK) status = s->backend->write(s->device, &l, folder);
    model_forget_all(s->model);
    arena_free(a);
    return status;
}
