/* What a backend wants of a plan while it runs: variables, sizes, the zeros of halos, steps with nothing to do, what
 * guards noted; and the plan as text. Comes in: a plan that plan_make has finished (plan_may_idle: a step of it). */
#include "graph/base/memory.h"
#include "sched/plan.h"

#include <stdlib.h>
#include <string.h>

#include "graph/custom.h"
#include "graph/print.h"

int32_t plan_var(const Plan *p, const char *name)
{
    for (uint32_t k = 0; k < p->nvar; k++)
        if (!strcmp(p->var_name[k], name)) return (int32_t)k;
    return -1;
}

typedef struct { const Plan *plan; const int64_t *vars; } PlanVars;

static bool plan_leaf(const void *from, const UOp *u, int64_t *out)
{
    const PlanVars *p = from;
    int32_t k = u->op == UOP_DEFINE_VAR ? plan_var(p->plan, var_name(u)) : -1;
    if (k >= 0) *out = p->vars[k];
    return k >= 0;
}

int64_t plan_eval(const Plan *p, const UOp *u, const int64_t *vars)
{
    int64_t v;
    return uop_value(u, plan_leaf, &(PlanVars){ p, vars }, &v) ? v : INT64_MIN;
}

/* Fills what lies in the window of [from, to) bytes of it. */
static void fill(const PlanBuffer *b, char *window, int64_t from, int64_t to)
{
    if (from < 0) from = 0;
    if (to > b->window) to = b->window;
    if (from < to) memset(window + from, b->border->fill, (size_t)(to - from));
}

void plan_border(const PlanBuffer *b, char *window)
{
    const Border *f = b->border;
    int64_t at = (f->at - b->first) % f->pitch;
    for (at -= f->pitch; f->gap && at < b->window; at += f->pitch) fill(b, window, at, at + f->gap);
}

void plan_border_ends(const PlanBuffer *b, const Step *s, char *window, int64_t begin, int64_t end, int64_t parts)
{
    const Border *f = b->border;
    int64_t base = begin * b->stride + b->first;
    if (begin < s->before) fill(b, window, 0, f->from - base);
    if (end + s->after > parts)
        fill(b, window, (parts - 1) * b->stride + f->to - base, (end - 1) * b->stride + f->end - base);
}

void plan_clear(const Plan *p, const Halo *h, const int64_t *vars, void *data, int part, int parts)
{
    int64_t size[HALO_RANK];
    for (uint32_t k = 0; k < h->rank; k++) size[k] = plan_eval(p, h->axis[k].size, vars);
    halo_clear(h, size, plan_eval(p, h->element, vars), data, part, parts);
}

/* Are all variables of u the step's own? What a loop stores row by row has as many rows as there were iterations, which
 * its end tells, and an iteration's kernel does not ask. */
static bool has_vars(const Plan *p, const Step *s, const UOp *u)
{
    int32_t at = u->op == UOP_DEFINE_VAR ? plan_var(p, var_name(u)) : -1;
    bool own = u->op != UOP_DEFINE_VAR;
    for (uint32_t k = 0; k < s->nvar && !own; k++) own = (int32_t)s->var[k] == at;
    for (uint32_t k = 0; k < u->nsrc && own; k++) own = has_vars(p, s, u->src[k]);
    return own;
}

/* Has all that s writes a size that may be 0, and that is 0 with these variables (NULL: any)? */
static bool writes_no_slice(const Plan *p, const Step *s, const int64_t *vars)
{
    bool none = true;
    for (uint32_t i = 0; i < s->narg && none; i++) {
        const Shape *shape = p->buffer[s->arg[i]].shape;
        none = !(s->access[i] & ACCESS_WRITE);
        for (uint32_t k = 0; k < shape->rank && !none; k++)
            none = shape->dim[k]->vmin < 1 && shape->dim[k]->vmax == 1 && has_vars(p, s, shape->dim[k]) &&
                (!vars || plan_eval(p, shape->dim[k], vars) < 1);
    }
    return none;
}

bool plan_may_idle(const Plan *p, const Step *s) { return writes_no_slice(p, s, NULL); }
bool plan_idle(const Plan *p, const Step *s, const int64_t *vars) { return s->may_idle && writes_no_slice(p, s, vars); }

TgStatus plan_guards(const Plan *p, void *words, TgStatus code)
{
    int64_t *word = words;
    TgStatus status = TG_OK;
    for (uint32_t k = 0; k < p->nguard && status == TG_OK; k++)
        if (word[GUARD_WORDS * k + 1]) status = guard_fail(p->guard[k], code, &word[GUARD_WORDS * k]);
    if (status != TG_OK) memset(words, 0, GUARD_BYTES * (size_t)p->nguard);
    return status;
}

/* ---- text ---- */

static void print_buffer(Text *out, const PlanBuffer *m, uint32_t k)
{
    static const char *const kind[] = { "arena", "persist", "const", "input", "output" };
    text_add(out, "  b%-4u %s", k, kind[m->kind]);
    if (m->kind != MEM_CONST)
        text_add(out, m->kind == MEM_INPUT || m->kind == MEM_OUTPUT ? " %lld" : " @%lld", (long long)m->offset);
    text_add(out, "%s%s %s[",
             m->zeroed     ? " zeroed"
                 : m->halo ? " halo"
                           : "",
             m->once ? " once" : "", dtype_name(m->dtype));
    for (uint32_t d = 0; d < m->shape->rank; d++) {
        if (d) text_add(out, ",");
        uop_print_expr(out, m->shape->dim[d]);
    }
    text_add(out, m->window ? "] %lld bytes, a window of %lld a thread\n" : "] %lld bytes\n", (long long)m->size_bytes,
             (long long)m->window);
}

static void print_exchange(Text *out, const Exchange *e)
{
    text_add(out, e->sends ? "send" : "receive");
    for (uint32_t k = 0; k < e->nmessage; k++)
        text_add(out, " %lld bytes %s %d", (long long)e->message[k].bytes, e->sends ? "to" : "from",
                 e->message[k].peer);
    text_add(out, ":");
}

static void print_step(Text *out, const Plan *p, const Step *s)
{
    static const char *const access[] = { "", "", ">", "<>" };
    const PlanChain *c = s->chain ? &p->chain[s->chain - 1] : NULL;
    bool follows = c && s != &p->step[c->first];
    text_add(out, "  %c ", s->sync ? '|' : follows ? '+' : ' ');
    if (p->devices > 1) text_add(out, s->device < 0 ? "all " : "%-3d ", s->device);
    if (s->kind == STEP_KERNEL) text_add(out, "%s", p->kernel[s->kernel]->name);
    else if (s->kind == STEP_COPY) text_add(out, "copy");
    else if (s->kind == STEP_JUMP) text_add(out, "jump to %u when 0:", s->target);
    else if (s->call->control)
        text_add(out, "host %s", s->host == control_begin ? "loop" : s->host == control_next ? "next" : "if");
    else if (s->call->exchange) print_exchange(out, s->call->exchange);
    else text_add(out, "host %s", custom_name(s->call->call->src[0]));
    for (uint32_t i = 0; i < s->narg; i++)
        text_add(out, " %sb%u", access[s->access[i] & (ACCESS_READ | ACCESS_WRITE)], s->arg[i]);
    for (uint32_t i = 0; i < s->nvar; i++) text_add(out, " %s", p->var_name[s->var[i]]);
    if (s->thread_count != 1)
        text_add(out, s->thread_count < 0 ? "  threads ?" : "  threads %lld", (long long)s->thread_count);
    if (c && s->thread_count < c->parts) text_add(out, ", one before each %lld", (long long)c->every);
    if (c && (s->before || s->after))
        text_add(out, ", %lld before and %lld after each group's", (long long)s->before, (long long)s->after);
    if (c && !follows) text_add(out, "  in groups of %lld", (long long)c->group);
    text_add(out, "\n");
}

void plan_print(Text *out, const Plan *p)
{
    text_add(out,
             "plan: %u steps, %u kernels, %u buffers, arena %lld bytes, persistent %lld bytes, %u syncs, %lld flops\n",
             p->nstep, p->nkernel, p->nbuffer, (long long)p->arena_bytes, (long long)p->persist_bytes, p->nsync,
             (long long)p->flops);
    for (uint32_t k = 0; k < p->nbuffer; k++) print_buffer(out, &p->buffer[k], k);
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (i == 0 || p->step[i].once != p->step[i - 1].once)
            text_add(out, "%s:   (| waits for all, + part by part behind the one before, > writes)\n",
                     p->step[i].once ? "once" : "run");
        print_step(out, p, &p->step[i]);
    }
}

/* The step at which most bytes of the arena are live, and how many. */
static int64_t most_live(const Plan *p, uint32_t *step)
{
    int64_t *change = mem_zeros(p->nstep + 2, sizeof *change), live = 0, most = 0;
    *step = 0;
    for (uint32_t i = 0; i < p->nlife; i++) {
        if (p->life[i].last >= p->nstep) continue;                  /* no step uses it */
        change[p->life[i].first] += p->life[i].size_bytes;
        change[p->life[i].last + 1] -= p->life[i].size_bytes;
    }
    for (uint32_t i = 0; i < p->nstep; i++)
        if ((live += change[i]) > most) most = live, *step = i;
    mem_free(change);
    return most;
}

void plan_print_memory(Text *out, const Plan *p)
{
    uint32_t at;
    int64_t most = most_live(p, &at), sum = 0;
    for (uint32_t i = 0; i < p->nlife; i++) sum += p->life[i].size_bytes;
    text_add(out, "memory: arena %lld bytes for %u buffers of %lld; most are live at step %u: %lld bytes\n",
             (long long)p->arena_bytes, p->nlife, (long long)sum, at, (long long)most);
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        if (p->buffer[k].kind != MEM_ARENA) continue;
        const Life *l = &p->life[p->buffer[k].life];
        text_add(out, "  b%-4u @%-10lld %10lld bytes  steps %u .. %u%s\n", k, (long long)l->offset,
                 (long long)l->size_bytes, l->first, l->last, p->buffer[k].once ? "  once" : "");
    }
}
