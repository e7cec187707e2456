/* What templates/model.c.in has of a plan: steps are blocks, arguments, then the call, by one thread or by all. In a
 * chain each thread takes its parts through all kernels (sched/chain.h); jumps are gotos.
 */
#include <string.h>

#include "backends/c/c.h"
#include "backends/cpu/cpu.h"
#include "graph/custom.h"

typedef struct {
    Text *out;
    const Listing *l;
    const Plan *p;
    const CWeights *w;
    const Target *target;
    int threads;
    Arena *arena;
    uint32_t helper;
    const Step *step;                           /* whose sizes are meant */
    TgStatus status;
} Writer;

/* ---- sizes ---- */

static const char *of_caller(const void *from, const UOp *var)
{
    const Writer *w = from;
    for (uint32_t k = 0; k < w->l->nsize; k++)
        if (!strcmp(w->l->size[k].variable, var_name(var)))
            return arena_printf(w->arena, "(sizes[%u] / %lld)", k, (long long)w->l->size[k].step);
    return "0";
}

static const char *of_plan(const void *from, const UOp *var)
{
    const Writer *w = from;
    return arena_printf(w->arena, "m->v[%d]", (int)plan_var(w->p, var_name(var)));
}

/* Kernels of one text may have other names for the sizes than their step. */
static const char *of_kernel(const void *from, const UOp *var)
{
    const Writer *w = from;
    const Kernel *k = w->p->kernel[w->step->kernel];
    uint32_t i = 0;
    while (i + 1 < k->nvar && strcmp(var_name(k->var[i]), var_name(var))) i++;
    return arena_printf(w->arena, "m->v[%u]", w->step->var[i]);
}

static const char *size(Writer *w, const UOp *u, const char *(*leaf)(const void *from, const UOp *var))
{
    const char *s = "0";
    TgStatus status = cstyle_size(&s, w->arena, &c11_style, u, leaf, w, &w->helper);
    if (status != TG_OK && w->status == TG_OK) w->status = status;
    return s;
}

/* So many bytes, elements of `width`. */
static const char *bytes(Writer *w, int64_t width, const UOp *const *dim, uint32_t rank,
                         const char *(*leaf)(const void *from, const UOp *var))
{
    const char *s = arena_printf(w->arena, "%lldL", (long long)width);
    for (uint32_t k = 0; k < rank; k++) s = arena_printf(w->arena, "%s * %s", s, size(w, dim[k], leaf));
    return s;
}

/* ---- steps ---- */

static const char *place(const Writer *w, uint32_t buffer)
{
    const PlanBuffer *b = &w->p->buffer[buffer];
    switch (b->kind) {
    case MEM_ARENA: return arena_printf(w->arena, "m->values + %lld", (long long)b->offset);
    case MEM_PERSIST: return arena_printf(w->arena, "m->kept + %lld", (long long)b->offset);
    case MEM_CONST: return arena_printf(w->arena, "CONSTANT(%lld)", (long long)w->w->at[buffer]);
    case MEM_INPUT: return arena_printf(w->arena, "INPUT(%lld)", (long long)b->offset);
    default: return arena_printf(w->arena, "m->out[%lld]", (long long)b->offset);
    }
}

static void arguments(Writer *w, const Step *s, bool windows)
{
    text_add(w->out, "        void *const args[] = { ");
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &w->p->buffer[s->arg[k]];
        text_add(w->out, k ? ", " : "");
        if (windows && b->window)
            text_add(w->out, "WINDOW(%s, %lldL * t - p / %lldL * %lldL - %lldL)", place(w, s->arg[k]),
                     (long long)b->window, (long long)b->every, (long long)b->stride, (long long)b->first);
        else text_add(w->out, "%s", place(w, s->arg[k]));
    }
    text_add(w->out, "%s };\n        const long n[] = { ", s->narg ? "" : "NULL");
    for (uint32_t k = 0; k < s->nvar; k++) text_add(w->out, "%sm->v[%u]", k ? ", " : "", s->var[k]);
    text_add(w->out, "%s };\n", s->nvar ? "" : "0");
}

static bool is_shared(const Writer *w, const Step *s)
{
    return cpu_worth_sharing(w->target, w->threads, w->p->kernel[s->kernel], s->thread_count);
}

static void kernel_step(Writer *w, const Step *s)
{
    const Kernel *k = w->p->kernel[s->kernel];
    const char *count = s->thread_count >= 0 ? arena_printf(w->arena, "%lld", (long long)s->thread_count)
                                             : size(w, k->thread_bound, of_kernel);
    text_add(w->out, "    {                               /* %s */\n", k->name);
    arguments(w, s, false);
    text_add(w->out, "        %s(m, %s_k%u, args, n, %s);\n    }\n", is_shared(w, s) ? "all" : "one", w->l->name,
             s->kernel, count);
}

static void copy_step(Writer *w, const Step *s)
{
    const PlanBuffer *b = &w->p->buffer[s->arg[0]];
    text_add(w->out, "    memmove(%s, %s, (size_t)(%s));\n", place(w, s->arg[0]), place(w, s->arg[1]),
             bytes(w, dtype_size(b->dtype), b->shape->dim, b->shape->rank, of_plan));
}

static const char *goes_on(const Writer *w, const Step *s, const Control *c, const char *iteration)
{
    const char *trip = c->has_trip ? arena_printf(w->arena, "*(const int64_t *)(%s)", place(w, s->arg[0]))
                                   : arena_printf(w->arena, "%lldL", (long long)c->trip);
    return c->has_keep ? arena_printf(w->arena, "%s < %s && *(const unsigned char *)(%s)", iteration, trip,
                                      place(w, s->arg[c->has_trip]))
                       : arena_printf(w->arena, "%s < %s", iteration, trip);
}

static void set(const Writer *w, int32_t var, const char *value)
{
    if (var >= 0) text_add(w->out, "    m->v[%d] = %s;\n", var, value);
}

/* As sched/steps.c does. */
static void control_step(Writer *w, const Step *s)
{
    const Control *c = s->call->control;
    if (s->host == control_if) {
        set(w, c->flag, arena_printf(w->arena, "*(const unsigned char *)(%s) != 0", place(w, s->arg[0])));
    } else if (s->host == control_begin) {
        set(w, c->step, "0");
        set(w, c->count, "0");
        set(w, c->flag, goes_on(w, s, c, "0"));
    } else {
        const char *next = arena_printf(w->arena, "m->v[%d] + 1", c->step);
        set(w, c->count, next);
        set(w, c->flag, arena_printf(w->arena, "!(%s)", goes_on(w, s, c, next)));
        text_add(w->out, "    m->v[%d] += !m->v[%d];\n", c->step, c->flag);
    }
}

static void host_step(Writer *w, const Step *s)
{
    const HostCall *c = s->call;
    if (c->control) control_step(w, s);
    else if (w->status == TG_OK)
        w->status = fail_at(TG_UNSUPPORTED, c->at ? c->at->node : NULL, c->at ? c->at->op : NULL, NULL,
                            "the function '%s' of the library has no C source", custom_name(c->call->src[0]));
}

static const char *window_of(const Writer *w, uint32_t buffer)
{
    return arena_printf(w->arena, "WINDOW(%s, %lldL * t)", place(w, buffer), (long long)w->p->buffer[buffer].window);
}

/* As plan_border does, for all groups of parts. */
static void border_rows(Writer *w, const Step *s)
{
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &w->p->buffer[s->arg[k]];
        const Border *f = b->border;
        if (!f || !f->gap || !(s->access[k] & ACCESS_WRITE)) continue;
        text_add(w->out,
                 "    for (long at = %lldL; at < %lldL; at += %lldL)\n"
                 "        FILL(%s, %lldL, %d, at, at + %lldL);\n",
                 (long long)((f->at - b->first) % f->pitch - f->pitch), (long long)b->window, (long long)f->pitch,
                 window_of(w, s->arg[k]), (long long)b->window, f->fill, (long long)f->gap);
    }
}

/* What the group before this one leaves for it, and as plan_border_ends does. */
static void group_windows(Writer *w, const Step *s, const PlanChain *c)
{
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &w->p->buffer[s->arg[k]];
        const Border *f = b->border;
        const char *window = window_of(w, s->arg[k]);
        long long bytes = b->window, stride = b->stride, first = b->first;
        if (!(s->access[k] & ACCESS_WRITE)) continue;
        if (b->kept)
            text_add(w->out, "        if (p > begin) memmove(%s, (char *)%s + %lldL, %lldL);\n", window, window,
                     (long long)c->group * stride, (long long)b->kept);
        if (!f) continue;
        text_add(w->out, "        if (p < %lldL) FILL(%s, %lldL, %d, 0, %lldL - p * %lldL);\n", (long long)s->before,
                 window, bytes, f->fill, (long long)f->from - first, stride);
        text_add(w->out,
                 "        if (last + %lldL > %lldL)\n"
                 "            FILL(%s, %lldL, %d, %lldL - p * %lldL, (last - 1 - p) * %lldL + %lldL);\n",
                 (long long)s->after, (long long)c->parts, window, bytes, f->fill,
                 (long long)((c->parts - 1) * b->stride + f->to - b->first), stride, stride, (long long)f->end - first);
    }
}

/* The parts of a group that the step does. */
static const char *parts_of(const Writer *w, const Step *s, const PlanChain *c)
{
    long long before = s->before, after = s->after, n = c->parts;
    if (!before && !after) return "p, last";
    return arena_printf(w->arena,
                        "p > begin ? p + %lldL : p > %lldL ? p - %lldL : 0, "
                        "last + %lldL < %lldL ? last + %lldL : %lldL",
                        after, before, before, after, n, after, n);
}

/* A chain of steps from `first` on: a function of its own, one thread's parts. */
static void chain_function(Writer *w, uint32_t number)
{
    const PlanChain *c = &w->p->chain[number];
    long long n = c->parts, group = c->group, every = c->every;
    text_add(w->out,
             "static void chain_%u(const %s *m, int t, int threads)\n{\n"
             "    const long begin = %lldL * t / threads, end = %lldL * (t + 1) / threads;\n",
             number, w->l->name, n, n);
    for (uint32_t i = c->first; i <= c->last; i++) border_rows(w, &w->p->step[i]);
    text_add(w->out,
             "    for (long p = begin, last; p < end; p = last) {\n"
             "        last = p + %lld < end ? p + %lld : end;\n",
             group, group);
    if (every > 1)
        text_add(w->out, "        const long served = p / %lld;\n"
                 "        if (last > (served + 1) * %lld) last = (served + 1) * %lld;\n",
                 every, every, every);
    for (uint32_t i = c->first; i <= c->last; i++) {
        const Step *s = &w->p->step[i];
        bool coarse = s->thread_count < c->parts;
        if (s->once != w->p->step[c->first].once) continue;
        group_windows(w, s, c);
        if (coarse) text_add(w->out, "        if (p == begin || p %% %lld == 0) ", every);
        else text_add(w->out, "        ");
        text_add(w->out, "{                           /* %s */\n", w->p->kernel[s->kernel]->name);
        arguments(w, s, true);
        text_add(w->out, "        %s_k%u(args, n, %s, m->scratch + SCRATCH * t);\n        }\n", w->l->name,
                 s->kernel, coarse ? "served, served + 1" : parts_of(w, s, c));
    }
    text_add(w->out, "    }\n}\n\n");
}

static void chain_step(Writer *w, uint32_t number)
{
    const PlanChain *c = &w->p->chain[number];
    bool shared = false;
    for (uint32_t i = c->first; i <= c->last; i++) shared |= is_shared(w, &w->p->step[i]);
    text_add(w->out, shared ? "    PARALLEL(chain_%u(m, t, THREADS))\n" : "    chain_%u(m, 0, 1);\n", number);
}

static bool is_target(const Plan *p, uint32_t step)
{
    for (uint32_t i = 0; i < p->nstep; i++)
        if (p->step[i].kind == STEP_JUMP && p->step[i].target == step) return true;
    return false;
}

static void one_step(Writer *w, uint32_t i)
{
    const Step *s = w->step = &w->p->step[i];
    if (s->may_idle && w->status == TG_OK)
        w->status = fail(TG_UNSUPPORTED, "a loop or slice that may be empty has no C source");
    if (s->chain) {
        if (w->p->chain[s->chain - 1].first == i) chain_step(w, s->chain - 1);
    } else if (s->kind == STEP_KERNEL) kernel_step(w, s);
    else if (s->kind == STEP_COPY) copy_step(w, s);
    else if (s->kind == STEP_JUMP) text_add(w->out, "    if (!m->v[%u]) goto step_%u;\n", s->var[0], s->target);
    else host_step(w, s);
}

static void steps(Writer *w, bool once)
{
    for (uint32_t i = 0; i < w->p->nstep; i++) {
        if (w->p->step[i].once != once) continue;
        if (is_target(w->p, i)) text_add(w->out, "step_%u:;\n", i);
        one_step(w, i);
    }
    if (!once && is_target(w->p, w->p->nstep)) text_add(w->out, "step_%u:;\n", w->p->nstep);
}

/* ---- around them ---- */

static int64_t scratch_bytes(const Plan *p)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < p->nkernel; i++)
        if (p->kernel[i]->local_bytes > most) most = p->kernel[i]->local_bytes;
    return (most + PAGE - 1) / PAGE * PAGE + C_ALIGN;               /* threads do not start at equal places of a page */
}

static void kernels(Writer *w)
{
    for (uint32_t i = 0; i < w->p->nkernel; i++) text_add(w->out, "Kernel %s_k%u;\n", w->l->name, i);
}

static void chains(Writer *w)
{
    for (uint32_t k = 0; k < w->p->nchain; k++) chain_function(w, k);
}

static void quoted(Text *out, const char *s)
{
    text_add(out, "\"");
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 32 || c == '"' || c == '\\' || c == '?' || c > 126) text_add(out, "\\%03o", c);
        else text_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

/* Their messages are graph/guard.c's. */
static void guards(Writer *w)
{
    for (uint32_t k = 0; k < w->p->nguard; k++) {
        const Guard *g = w->p->guard[k];
        text_add(w->out, "    { ");
        quoted(w->out, g->node);
        text_add(w->out, ", ");
        quoted(w->out, g->op);
        text_add(w->out, ", %d, %d },\n", g->kind, g->from_end);
        if (g->kind == GUARD_FINITE && w->status == TG_OK)
            w->status = fail(TG_INTERNAL, "a sum that is rewritten has no C source");
    }
}

static void take_sizes(Writer *w)
{
    const Listing *l = w->l;
    for (uint32_t k = 0; k < l->nsize; k++) {
        const ListingSize *z = &l->size[k];
        text_add(w->out,
                 "    if (sizes[%u] < %lld || sizes[%u] > %lld || sizes[%u] %% %lld) {\n"
                 "        snprintf(m->error, sizeof m->error, \"size %%.80s is %%ld; %lld..%lld in steps of %lld is wanted\",\n"
                 "                 %s_size_name[%u], sizes[%u]);\n        return %d;\n    }\n",
                 k, (long long)z->least, k, (long long)z->largest, k, (long long)z->step, (long long)z->least,
                 (long long)z->largest, (long long)z->step, l->name, k, k, C_BAD_SIZE);
    }
    for (uint32_t k = 0; k < l->nneed; k++)
        text_add(w->out,
                 "    if (%s < 0) {\n        snprintf(m->error, sizeof m->error, \"an input is too short\");\n"
                 "        return %d;\n    }\n",
                 size(w, l->need[k], of_caller), C_BAD_SIZE);
    for (uint32_t k = 0; k < w->p->nvar; k++)
        if (w->p->var_value[k]) text_add(w->out, "    m->v[%u] = %lld;\n", k, (long long)w->p->var_value[k]);
    for (uint32_t k = 0; k < l->nsize; k++)
        if (l->size[k].var >= 0)
            text_add(w->out, "    m->v[%d] = sizes[%u] / %lld;\n", l->size[k].var, k, (long long)l->size[k].step);
}

/* A function of a port's number: what each case returns. */
static void cases(Writer *w, const char *head, uint32_t n, const char *(*value)(Writer *w, uint32_t port))
{
    text_add(w->out, "long %s_%s\n{\n    switch (port) {\n", w->l->name, head);
    for (uint32_t i = 0; i < n; i++) text_add(w->out, "    case %u: return %s;\n", i, value(w, i));
    text_add(w->out, "    default: return 0;\n    }\n}\n\n");
}

static const char *input_bytes(Writer *w, uint32_t i)
{
    const ListingPort *p = &w->l->input[i];
    return bytes(w, tg_type_bits(p->type) / 8, p->dim, p->rank, of_caller);
}

static const char *output_bytes(Writer *w, uint32_t i)
{
    const ListingPort *p = &w->l->output[i];
    return bytes(w, tg_type_bits(p->type) / 8, p->dim, p->rank, of_plan);
}

static const char *output_room(Writer *w, uint32_t i)
{
    uint32_t b = 0;
    while (w->p->buffer[b].kind != MEM_OUTPUT || w->p->buffer[b].offset != i) b++;
    return arena_printf(w->arena, "%lld", (long long)w->p->buffer[b].size_bytes);
}

static void shapes(Writer *w)
{
    const Listing *l = w->l;
    cases(w, "input_bytes(int port, const long *sizes)", l->ninput, input_bytes);
    cases(w, "output_room(int port)", l->noutput, output_room);
    cases(w, arena_printf(w->arena, "output_bytes(const %s *m, int port)", l->name), l->noutput, output_bytes);
    text_add(w->out, "int %s_output_shape(const %s *m, int port, long *shape)\n{\n    switch (port) {\n", l->name,
             l->name);
    for (uint32_t i = 0; i < l->noutput; i++) {
        text_add(w->out, "    case %u:\n", i);
        for (uint32_t k = 0; k < l->output[i].rank; k++)
            text_add(w->out, "        shape[%u] = %s;\n", k, size(w, l->output[i].dim[k], of_plan));
        text_add(w->out, "        return %u;\n", l->output[i].rank);
    }
    text_add(w->out, "    default: return -1;\n    }\n}");
}

static void input_names(Writer *w)
{
    for (uint32_t k = 0; k < w->l->ninput; k++) quoted(w->out, w->l->input[k].name), text_add(w->out, ", ");
}

static void output_names(Writer *w)
{
    for (uint32_t k = 0; k < w->l->noutput; k++) quoted(w->out, w->l->output[k].name), text_add(w->out, ", ");
}

static void size_names(Writer *w)
{
    for (uint32_t k = 0; k < w->l->nsize; k++) quoted(w->out, w->l->size[k].name), text_add(w->out, ", ");
}

static void once(Writer *w) { steps(w, true); }
static void of_runs(Writer *w) { steps(w, false); }
static void helpers(Writer *w) { cstyle_helpers(w->out, &c11_style, w->helper); }

static void add_number(CFields *f, Arena *a, const char *key, int64_t value)
{
    c_field(f, key, arena_printf(a, "%lld", (long long)value));
}

TgStatus c_plan(CFields *f, Arena *a, const Listing *l, const Target *t, const CWeights *weights)
{
    /* helpers last: the others call them */
    static const struct { const char *key; void (*write)(Writer *w); } part[] = {
        { "kernels", kernels }, { "chains", chains }, { "once", once }, { "steps", of_runs }, { "guards", guards },
        { "input_names", input_names }, { "output_names", output_names }, { "size_names", size_names },
        { "take_sizes", take_sizes }, { "shapes", shapes }, { "helpers", helpers },
    };
    Text text = { 0 };
    Writer w = { .out = &text, .l = l, .p = l->plan, .w = weights, .target = t, .threads = t->threads, .arena = a };
    for (uint32_t k = 0; k < sizeof part / sizeof *part; k++) {
        text_bytes(&text, "", text.len = 0);
        part[k].write(&w);
        c_field(f, part[k].key, arena_strndup(a, text.s, text.len));
    }
    text_free(&text);
    add_number(f, a, "values", (w.p->arena_bytes + 2 * C_ALIGN - 1) / C_ALIGN * C_ALIGN);
    add_number(f, a, "kept", (w.p->persist_bytes + 2 * C_ALIGN - 1) / C_ALIGN * C_ALIGN);
    add_number(f, a, "scratch", scratch_bytes(w.p));
    add_number(f, a, "threads", w.threads);
    add_number(f, a, "variables", w.p->nvar + 1);
    add_number(f, a, "inputs", l->ninput);
    add_number(f, a, "outputs", l->noutput);
    add_number(f, a, "sizes", l->nsize);
    return w.status;
}
