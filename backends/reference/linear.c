/* Kernels in form 6: instructions in order, executed as a device would: every instruction where it stands, every access
 * checked, every operand defined and in scope. A CPU kernel is one thread that runs THREAD ranges in full. A GPU kernel
 * (it has SPECIALs) runs a workgroup at a time: each of its threads runs until a BARRIER or its end, then the next;
 * LOCAL memory belongs to the workgroup, REG memory and values to the thread. A SHUFFLE is a stop too: each thread
 * shows its value, and takes its neighbour's when it goes on. Two places to show serve, because no thread is more than
 * one SHUFFLE ahead.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/scalar.h"

enum { SPECIALS_MAX = 6, THREADS_MAX = 1024, WARP = 32, LANES_MAX = 64 };

typedef struct {
    int64_t *value;                 /* by place */
    bool *defined;                  /* by place of a value's first lane */
    void **memory;                  /* REG, by place of the BUFFER */
    uint32_t pc, shuffles;
    bool done, waits;               /* waits: at a SHUFFLE, its value shown */
    int64_t special[SPECIALS_MAX], shown[2][LANES_MAX];
} Thread;
typedef struct {
    const Kernel *k;
    const RefMem *mem;
    const int64_t *vars;
    Arena *arena;
    const UOp *const *line;
    uint32_t count, *other;         /* by position: RANGE <-> END, IF -> ENDIF */
    uint32_t *place, places;        /* where a node's lanes stand among a thread's values, by id */
    void **local;                   /* LOCAL, by place of the BUFFER */
    const UOp *special[SPECIALS_MAX];
    int64_t size[SPECIALS_MAX];
    uint32_t nspecial;
    int64_t first, end;             /* parts, values of the THREAD range, that run */
    Thread *thread;                 /* of the workgroup */
    uint32_t nthread;
    TgStatus status;
} Machine;

static void broken(Machine *m, TgStatus code, const char *what, const UOp *u, int64_t v)
{
    if (!m->status)
        m->status = fail(code, "reference: kernel %s: %s (%s %%%u, %lld)", m->k->name, what, op_name((Op)u->op), u->id,
                         (long long)v);
}

static const int64_t *operand(Machine *m, Thread *t, const UOp *u)
{
    static const int64_t zeros[1];
    if (u->op == UOP_CONST) return &u->arg.i;
    uint32_t at = m->place[u->id];
    if (t->defined[at]) return &t->value[at];
    broken(m, TG_INTERNAL, "an operand is not defined here", u, 0);
    return zeros;
}

/* ---- memory ---- */

static void *memory(Machine *m, Thread *t, const UOp *b, int64_t *count)
{
    *count = 0;
    if (b->op == UOP_PARAM) {
        if (b->arg.i >= m->k->nparam) return NULL;
        *count = m->mem[b->arg.i].size_bytes / dtype_size(b->dtype);
        return m->mem[b->arg.i].data;
    }
    if (b->op != UOP_BUFFER) return NULL;
    void **p = buffer_space(b) == SPACE_REG ? &t->memory[m->place[b->id]] : &m->local[m->place[b->id]];
    *count = uop_numel(b);
    if (!*p) *p = arena_alloc(m->arena, (size_t)(*count * dtype_size(b->dtype)) + 1);
    return *p;
}

/* The element of lane l; -1 and an error when it is out of bounds. */
static int64_t element(Machine *m, Thread *t, const UOp *a, uint32_t l, int64_t count)
{
    int64_t at = l;
    if (a->op == UOP_SHRINK) at += *operand(m, t, a->src[1]->src[0]);
    if (a->op == UOP_INDEX) at = operand(m, t, a->src[1])[ref_lanes(a->src[1]) == 1 ? 0 : l];
    if (a->op == UOP_INDEX && a->nsrc != 2) broken(m, TG_INTERNAL, "an index is not flat", a, a->nsrc - 1);
    if (at >= 0 && at < count) return at;
    broken(m, TG_INTERNAL, "an access is out of bounds", a, at);
    return -1;
}

static bool lane_open(Machine *m, Thread *t, const UOp *u, uint32_t l)
{
    return u->nsrc < 3 || operand(m, t, u->src[2])[ref_lanes(u->src[2]) == 1 ? 0 : l];
}

static void load(Machine *m, Thread *t, const UOp *u, int64_t *out)
{
    const UOp *a = u->src[0], *b = uop_addressed(a);
    int64_t count;
    void *p = memory(m, t, b, &count);
    if (!p) broken(m, TG_INTERNAL, "no memory", a, 0);
    for (uint32_t l = 0; l < ref_lanes(u) && !m->status; l++) {
        if (!lane_open(m, t, u, l)) {
            out[l] = operand(m, t, u->src[1])[ref_lanes(u->src[1]) == 1 ? 0 : l];
            continue;
        }
        int64_t at = element(m, t, a, l, count);
        if (at >= 0) out[l] = scalar_load((DType)b->dtype, p, at);
    }
}

static void store(Machine *m, Thread *t, const UOp *u)
{
    const UOp *a = u->src[0], *b = uop_addressed(a);
    int64_t count;
    void *p = memory(m, t, b, &count);
    uint32_t n = uop_is_address(a) ? ref_lanes(a) : (uint32_t)count;
    const int64_t *v = operand(m, t, u->src[1]);
    if (!p) broken(m, TG_INTERNAL, "no memory", a, 0);
    for (uint32_t l = 0; l < n && !m->status; l++) {
        int64_t at = lane_open(m, t, u, l) ? element(m, t, a, l, count) : -1;
        if (at >= 0) scalar_store((DType)b->dtype, p, at, v[ref_lanes(u->src[1]) == 1 ? 0 : l]);
    }
}

/* ---- instructions ---- */

static void compute(Machine *m, Thread *t, const UOp *u, int64_t *out)
{
    const int64_t *src[3];
    if (u->op == UOP_GUARD) {
        int64_t count, *word = memory(m, t, uop_addressed(u->src[2]), &count);
        for (uint32_t l = 0; l < ref_lanes(u) && !m->status; l++)
            out[l] = ref_guard(u, operand(m, t, u->src[0])[ref_lanes(u->src[0]) == 1 ? 0 : l],
                               operand(m, t, u->src[1])[ref_lanes(u->src[1]) == 1 ? 0 : l], word);
    } else if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) {
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = operand(m, t, u->src[k]);
        if (!m->status && !ref_alu(u, src, out)) broken(m, TG_BAD_INPUT, "division by zero", u, 0);
    } else if (u->op == UOP_LOAD) load(m, t, u, out);
    else if (u->op == UOP_STACK)
        for (uint32_t l = 0; l < u->nsrc; l++) out[l] = *operand(m, t, u->src[l]);
    else if (u->op == UOP_INDEX) {
        int64_t l = *operand(m, t, u->src[1]);
        if (l < 0 || l >= ref_lanes(u->src[0])) broken(m, TG_INTERNAL, "no such lane", u, l);
        else *out = operand(m, t, u->src[0])[l];
    } else if (u->op == UOP_REDUCE && u->arg.blob) {
        const int64_t *v = operand(m, t, u->src[0]);
        *out = v[0];
        for (uint32_t l = 1; l < ref_lanes(u->src[0]); l++)
            uop_eval((Op)u->arg.i, (DType)u->dtype, (DType)u->dtype, (int64_t[]){ *out, v[l] }, out);
    } else if (u->op == UOP_DEFINE_VAR) {
        uint32_t k = 0;
        while (k < m->k->nvar && m->k->var[k] != u) k++;
        if (k < m->k->nvar) *out = m->vars[k];
        else broken(m, TG_USAGE, "a size without a value", u, 0);
    } else if (u->op == UOP_SPECIAL) {
        for (uint32_t k = 0; k < m->nspecial; k++)
            if (m->special[k] == u) *out = t->special[k];
    } else broken(m, TG_UNSUPPORTED, "no instruction", u, 0);
}

static void define(Machine *m, Thread *t, const UOp *u)
{
    uint32_t at = m->place[u->id];
    compute(m, t, u, &t->value[at]);
    t->defined[at] = true;
}

/* Values made inside a block are unknown behind it. */
static void leave(Machine *m, Thread *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) t->defined[m->place[m->line[i]->id]] = false;
}

/* Where iteration i of a loop begins, or behind the loop; at its RANGE, or at its END. Of the THREAD range those parts
 * run that were requested. */
static void enter_loop(Machine *m, Thread *t, const UOp *r, int64_t i)
{
    uint32_t at = m->place[r->id], end = m->line[t->pc]->op == UOP_RANGE ? m->other[t->pc] : t->pc,
             begin = m->other[end];
    bool parts = range_type(r) == AXIS_THREAD;
    if (parts && i < m->first) i = m->first;
    bool more = i < *operand(m, t, r->src[0]) && (!parts || i < m->end);
    t->value[at] = i;
    t->defined[at] = more;
    if (more) t->pc = begin + 1;
    else leave(m, t, begin, end), t->pc = end + 1;
}

/* First visit: shows the value (true: stop here). Second: takes the neighbour's. */
static bool shuffle(Machine *m, Thread *t, const UOp *u)
{
    uint32_t lanes = ref_lanes(u), side = t->shuffles & 1, me = (uint32_t)(t - m->thread),
             other = me ^ (uint32_t)u->arg.i, at = m->place[u->id];
    if (lanes > LANES_MAX) broken(m, TG_UNSUPPORTED, "too many lanes", u, lanes);
    if (u->arg.i >= WARP || other >= m->nthread) broken(m, TG_INTERNAL, "no such neighbour", u, other);
    if (m->status) return false;
    t->waits = !t->waits;
    if (t->waits) return memcpy(t->shown[side], operand(m, t, u->src[0]), lanes * sizeof(int64_t)), true;
    if (m->thread[other].shuffles + m->thread[other].waits < t->shuffles + 1)
        broken(m, TG_INTERNAL, "a neighbour does not take part", u, other);
    memcpy(&t->value[at], m->thread[other].shown[side], lanes * sizeof(int64_t));
    t->defined[at] = true;
    t->shuffles++;
    t->pc++;
    return false;
}

/* Operand s of the only lane: a vector, or read from its window's values. */
static void tile(Machine *m, Thread *t, const UOp *u, uint32_t s, int64_t *out)
{
    const Wmma *w = wmma_of(u);
    int64_t n = wmma_operand(u, s), columns = wmma_tiled(w) ? 64 / dtype_size(w->a) : n,
            stride = wmma_tiled(w) ? wmma_stride(u, s) : n;
    const int64_t *v = operand(m, t, u->src[s]);
    for (int64_t i = 0; i < n && !m->status; i++) out[i] = v[i / columns * stride + i % columns];
}

/* A WMMA is done by all lanes of a warp: the first visit shows a thread's fragments (true: stop here), the second takes
 * the others'. */
static bool multiply(Machine *m, Thread *t, const UOp *u)
{
    const Wmma *w = wmma_of(u);
    uint32_t side = t->shuffles & 1, me = (uint32_t)(t - m->thread), first = me / WARP * WARP, at = m->place[u->id];
    int na = wmma_operand(u, 0), nb = wmma_operand(u, 1);
    int64_t *a, *b;
    if (w->lanes > 1 && (na + nb > LANES_MAX || first + (uint32_t)w->lanes > m->nthread))
        broken(m, TG_INTERNAL, "a WMMA without a whole warp", u, m->nthread);
    if (m->status) return false;
    t->waits = w->lanes > 1 && !t->waits;
    if (t->waits) {
        memcpy(t->shown[side], operand(m, t, u->src[0]), (size_t)na * sizeof(int64_t));
        memcpy(t->shown[side] + na, operand(m, t, u->src[1]), (size_t)nb * sizeof(int64_t));
        return true;
    }
    ArenaMark mark = arena_mark(m->arena);
    a = arena_alloc(m->arena, sizeof *a * (size_t)((na + nb) * w->lanes));
    b = a + na * w->lanes;
    if (w->lanes == 1) tile(m, t, u, 0, a), tile(m, t, u, 1, b);
    for (uint32_t l = 0; w->lanes > 1 && l < (uint32_t)w->lanes; l++) {
        const Thread *other = &m->thread[first + l];
        if (other != t && other->shuffles + other->waits < t->shuffles + 1)
            broken(m, TG_INTERNAL, "a neighbour does not take part", u, l);
        memcpy(a + l * (uint32_t)na, other->shown[side], (size_t)na * sizeof *a);
        memcpy(b + l * (uint32_t)nb, other->shown[side] + na, (size_t)nb * sizeof *b);
    }
    const int64_t *acc = operand(m, t, u->src[2]);
    if (!m->status) memcpy(&t->value[at], acc, ref_lanes(u) * sizeof *acc), ref_wmma(u, me % WARP, a, b, &t->value[at]);
    arena_release(m->arena, mark);
    t->defined[at] = true;
    t->shuffles += w->lanes > 1;
    t->pc++;
    return false;
}

/* Runs t to its next BARRIER or SHUFFLE (true) or its end. */
static bool run(Machine *m, Thread *t)
{
    while (t->pc < m->count && !m->status) {
        const UOp *u = m->line[t->pc];
        switch ((Op)u->op) {
        case UOP_PARAM:
        case UOP_BUFFER:
        case UOP_CONST:
        case UOP_AFTER:
        case UOP_ENDIF:
        case UOP_GROUP:
        case UOP_SINK: t->pc++; break;
        case UOP_RANGE: enter_loop(m, t, u, 0); break;
        case UOP_END: {
            const UOp *r = m->line[m->other[t->pc]];
            enter_loop(m, t, r, t->value[m->place[r->id]] + 1);
            break;
        }
        case UOP_IF:
            if (*operand(m, t, u->src[0])) t->pc++;
            else t->pc = m->other[t->pc] + 1;
            break;
        case UOP_STORE: store(m, t, u), t->pc++; break;
        case UOP_BARRIER: t->pc++; return true;
        case UOP_SHUFFLE:
            if (shuffle(m, t, u)) return true;
            break;
        case UOP_WMMA:
            if (multiply(m, t, u)) return true;
            break;
        default:
            if (!uop_is_address(u) && !(u->op == UOP_STACK && !u->nsrc)) define(m, t, u);
            t->pc++;
        }
    }
    t->done = true;
    return false;
}

/* ---- preparation ---- */

static void give_place(Machine *m, const UOp *u)
{
    if (m->place[u->id]) return;
    m->place[u->id] = m->places + 1;
    m->places += u->op == UOP_BUFFER || u->op == UOP_PARAM ? 1 : ref_lanes(u) + 1;
}

static bool match_blocks(Machine *m)
{
    uint32_t *stack = NEW_N(m->arena, uint32_t, m->count + 1), top = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const UOp *u = m->line[i];
        give_place(m, u);
        for (uint32_t k = 0; k < u->nsrc; k++) give_place(m, u->src[k]), give_place(m, uop_addressed(u->src[k]));
        if (uop_is_address(u) && u->op == UOP_SHRINK) give_place(m, u->src[1]->src[0]);
        if (u->op == UOP_SPECIAL && m->nspecial < SPECIALS_MAX) m->special[m->nspecial++] = u;
        if (u->op == UOP_RANGE || u->op == UOP_IF) stack[top++] = i;
        if (u->op != UOP_END && u->op != UOP_ENDIF) continue;
        bool paired = top && (m->line[stack[top - 1]]->op == UOP_RANGE) == (u->op == UOP_END);
        for (uint32_t k = 0; paired && u->op == UOP_END && k < u->nsrc; k++)
            if (u->src[k]->op == UOP_RANGE && u->src[k] != m->line[stack[top - 1]]) paired = false;
        if (!paired) return broken(m, TG_INTERNAL, "a block ends that is not open", u, i), false;
        m->other[i] = stack[--top];
        m->other[stack[top]] = i;
    }
    if (top) broken(m, TG_INTERNAL, "a block does not end", m->line[stack[top - 1]], top);
    return !m->status;
}

static Thread *threads_new(Machine *m, uint32_t n)
{
    Thread *t = NEW_N(m->arena, Thread, n);
    uint32_t size = m->places + 1;
    for (uint32_t i = 0; i < n; i++)
        t[i] = (Thread){ .value = NEW_N(m->arena, int64_t, size),
                         .defined = NEW_N(m->arena, bool, size),
                         .memory = NEW_N(m->arena, void *, size) };
    return t;
}

static bool in_block(const UOp *special) { return special->arg.blob && special->arg.blob->data[0] == 'l'; }

static void measure(Machine *m)
{
    RefVar var[KERNEL_VARS];
    for (uint32_t k = 0; k < m->k->nvar; k++) var[k] = (RefVar){ m->k->var[k], m->vars[k] };
    for (uint32_t k = 0; k < m->nspecial; k++)
        if (!ref_size(m->special[k]->src[0], var, m->k->nvar, &m->size[k]))
            broken(m, TG_UNSUPPORTED, "a size that is no formula", m->special[k], 0);
}

/* One workgroup: threads differ in their `l` specials. */
static void run_group(Machine *m, int64_t group)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < m->nspecial; k++)
        if (in_block(m->special[k])) n *= m->size[k];
    if (n > THREADS_MAX) {
        broken(m, TG_LIMIT, "too many threads in a workgroup", m->line[0], n);
        return;
    }
    ArenaMark mark = arena_mark(m->arena);
    Thread *t = threads_new(m, (uint32_t)n);
    m->thread = t;
    m->nthread = (uint32_t)n;
    m->local = NEW_N(m->arena, void *, m->places + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest[2] = { group, i };
        for (uint32_t k = 0; k < m->nspecial; k++) {
            int64_t *r = &rest[in_block(m->special[k])];
            t[i].special[k] = *r % m->size[k];
            *r /= m->size[k];
        }
    }
    for (bool waiting = true; waiting && !m->status;) {
        waiting = false;
        for (int64_t i = 0; i < n && !m->status; i++)
            if (!t[i].done) waiting |= run(m, &t[i]);
    }
    arena_release(m->arena, mark);
}

TgStatus ref_exec_linear(const Kernel *k, const RefMem *mem, const int64_t *vars)
{
    return ref_exec_parts(k, mem, vars, 0, INT64_MAX);
}

TgStatus ref_exec_parts(const Kernel *k, const RefMem *mem, const int64_t *vars, int64_t first, int64_t end)
{
    Machine m = { .k = k,
                  .mem = mem,
                  .vars = vars,
                  .arena = arena_new(),
                  .line = k->linear->src,
                  .count = k->linear->nsrc,
                  .first = first,
                  .end = end };
    int64_t groups = 1;
    m.other = NEW_N(m.arena, uint32_t, m.count + 1);
    m.place = NEW_N(m.arena, uint32_t, graph_count(k->g));
    if (match_blocks(&m)) {
        measure(&m);
        for (uint32_t i = 0; i < m.nspecial; i++)
            if (!in_block(m.special[i])) groups *= m.size[i];
        for (int64_t i = 0; i < groups && !m.status; i++) run_group(&m, i);
    }
    arena_free(m.arena);
    return m.status;
}
