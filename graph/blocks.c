/* Blocks: parts of a graph that repeat one behind the other, a network's layers, become one FUNCTION and a CALL each.
 *
 * Comes in: values and their placements. Goes out: the same values; what a block reads from elsewhere are arguments,
 * what others read of it are results. All of them had memory as their placement, so no kernel changes. A unit is a
 * value in memory with what is computed for it alone, down to other memory: a kernel in the making. Two are alike when
 * their expressions are equal but for the memory that they read; units in the order of ids make a line of signs, in
 * which repetitions are found: the period and place that spare most units. Then the blocks are compared wholly: which
 * unit reads which, which arguments are one. Must hold: nothing between two units of a block depends on it, as blocks
 * are intervals of a topological order. Calls of other kinds are in no block. Constants in memory (a joined or folded
 * weight) belong to the block when only one of its units reads them.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/blocks.h"

enum { PERIOD_MAX = 512, LEAST_SPARED = 2, RESULTS_MAX = 64 };
#define SHARED UINT32_MAX
typedef struct Group Group;
typedef struct {
    const UOp *root, **leaf;        /* leaf: memory that is read, in the order of the walk */
    uint64_t *line, hash;           /* the expression as words */
    uint32_t nline, nleaf, block, place;      /* of its group: which block, and which unit of it */
    const Group *group;
    bool alone;                     /* in no block */
} Unit;
struct Group { uint32_t first, period, times; bool *result; struct Group *next; };
typedef struct {
    Graph *g;
    Placements *placements;
    Arena *arena;
    const UOp *sink, **order;       /* graph_outer of the sink */
    uint32_t norder, nnode, nunit;
    uint8_t *constant;              /* by id: depends on constants only */
    uint32_t *unit_of, *reader;     /* by id, + 1: the unit whose root it is; the only unit that reads it, or SHARED */
    uint32_t *seen, *number, epoch; /* by id: a walk's mark */
    int64_t base;                   /* the next PARAM that nobody uses */
    Unit *unit;
    Group *group;
} Blocks;

/* ---- facts ---- */

static bool is_memory(const UOp *u) { return u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_GETTUPLE; }
static bool in_memory(const Blocks *b, const UOp *u) { return placement_of(b->placements, u) >= PLACED_MEMORY; }

static bool is_data(const Blocks *b, const UOp *u)
{
    return u->op == UOP_BUFFER && buffer_space(u) == SPACE_GLOBAL && graph_buffer(b->g, buffer_slot(u))->data;
}

static void find_base(Blocks *b)
{
    for (uint32_t id = 0; id < b->nnode; id++) {
        const UOp *u = graph_node(b->g, id);
        if (u->op == UOP_PARAM && u->arg.i >= b->base) b->base = u->arg.i + 1;
    }
}

static void find_constants(Blocks *b)
{
    for (uint32_t i = 0; i < b->norder; i++) {
        const UOp *u = b->order[i];
        bool c = is_memory(u) ? is_data(b, u) : u->op != UOP_DEFINE_VAR && u->op != UOP_CALL && !is_scope(u);
        for (uint32_t k = 0; c && k < u->nsrc; k++) c = b->constant[u->src[k]->id];
        b->constant[u->id] = c;
    }
}

static void find_units(Blocks *b)
{
    b->unit = NEW_N(b->arena, Unit, b->norder + 1);
    for (uint32_t i = 0; i < b->norder; i++) {
        const UOp *u = b->order[i];
        bool computed = in_memory(b, u) && !b->constant[u->id] && !is_memory(u);
        if (!computed && u->op != UOP_CALL) continue;
        b->unit[b->nunit] = (Unit){ .root = u, .alone = !computed || placement_of(b->placements, u) == PLACED_JOIN };
        b->unit_of[u->id] = ++b->nunit;
    }
}

/* Users first: a source belongs to the unit of its users, if that is one. */
static void find_readers(Blocks *b)
{
    for (uint32_t i = b->norder; i-- > 0;) {
        const UOp *u = b->order[i];
        uint32_t mine = u == b->sink ? SHARED : b->unit_of[u->id] ? b->unit_of[u->id] : b->reader[u->id];
        for (uint32_t k = 0; k < u->nsrc && !is_scope(u); k++) {
            uint32_t *of = &b->reader[u->src[k]->id];
            *of = !*of || *of == mine ? mine : SHARED;
        }
    }
}

/* ---- a unit's expression ---- */

static bool ends(const Blocks *b, const UOp *u)
{
    return is_memory(u) || (in_memory(b, u) && (!b->constant[u->id] || b->reader[u->id] == SHARED)) || is_scope(u);
}

typedef struct { const UOp *u; uint32_t next; } Frame;
typedef struct {
    Frame *stack;
    uint64_t *word;
    const UOp **leaf, **node;       /* node: all that was walked over, by number */
    uint32_t cap, words, nword, leaves, nleaf, nodes, nnode;
} Walk;

static void put(Walk *w, uint64_t v)
{
    if (w->nword == w->words) w->word = mem_grow(w->word, (w->words = w->words ? 2 * w->words : 256) * sizeof *w->word);
    w->word[w->nword++] = v;
}

static void put_leaf(Walk *w, const Blocks *b, const UOp *u)
{
    if (w->nleaf == w->leaves)
        w->leaf = mem_grow(w->leaf, (w->leaves = w->leaves ? 2 * w->leaves : 64) * sizeof *w->leaf);
    w->leaf[w->nleaf++] = u;
    put(w, UINT64_MAX - (b->constant[u->id] ? is_data(b, u) ? 2 : 1 : 0));
    put(w, u->dtype);
    put(w, (uintptr_t)u->shape);
}

static void put_node(Walk *w, const Blocks *b, const UOp *u)
{
    put(w, (uint64_t)u->nsrc << 32 | (uint64_t)u->tag << 16 | (uint64_t)u->dtype << 8 | u->op);
    put(w, (uint64_t)u->arg.i);
    put(w, (uintptr_t)u->arg.blob);
    put(w, (uintptr_t)u->shape);
    put(w, placement_of(b->placements, u));
    for (uint32_t k = 0; k < u->nsrc; k++) put(w, b->number[u->src[k]->id]);
}

/* Sources first, each node once; nodes are numbered as they come. */
static void walk(Blocks *b, Walk *w, const UOp *root)
{
    uint32_t top = 0, count = 0;
    b->epoch++;
    w->nword = w->nleaf = 0;
    if (!w->cap) w->stack = mem_new((w->cap = 64) * sizeof *w->stack);
    w->stack[top++] = (Frame){ root, 0 };
    while (top) {
        Frame *f = &w->stack[top - 1];
        const UOp *u = f->u;
        bool leaf = u != root && ends(b, u);
        while (!leaf && f->next < u->nsrc && b->seen[u->src[f->next]->id] == b->epoch) f->next++;
        if (!leaf && f->next < u->nsrc) {
            const UOp *next = u->src[f->next];
            if (top == w->cap) w->stack = mem_grow(w->stack, (w->cap *= 2) * sizeof *w->stack);
            w->stack[top++] = (Frame){ next, 0 };
            continue;
        }
        if (leaf) put_leaf(w, b, u);
        else put_node(w, b, u);
        if (count == w->nodes) w->node = mem_grow(w->node, (w->nodes = w->nodes ? 2 * w->nodes : 64) * sizeof *w->node);
        w->node[count] = u;
        b->seen[u->id] = b->epoch;
        b->number[u->id] = count++;
        top--;
    }
    w->nnode = count;
}

static void walk_free(Walk *w)
{
    mem_free(w->stack);
    mem_free(w->word);
    mem_free(w->leaf);
    mem_free(w->node);
}

static void read_units(Blocks *b)
{
    Walk w = { 0 };
    for (uint32_t i = 0; i < b->nunit; i++) {
        Unit *u = &b->unit[i];
        walk(b, &w, u->root);
        u->nline = w.nword;
        u->nleaf = w.nleaf;
        u->line = arena_copy(b->arena, w.word, w.nword * sizeof *w.word);
        u->leaf = w.nleaf ? arena_copy(b->arena, w.leaf, w.nleaf * sizeof *w.leaf) : NULL;
        for (uint32_t k = 0; k < u->nline; k++)
            u->hash = (u->hash ^ u->hash >> 29 ^ u->line[k]) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    walk_free(&w);
}

/* ---- repetitions ---- */

static bool alike(const Unit *a, const Unit *c)
{
    return a->hash == c->hash && !a->alone && !c->alone && a->nline == c->nline &&
        !memcmp(a->line, c->line, a->nline * sizeof *a->line);
}

/* What each leaf of a block is: a unit of the block, or an argument, numbered as they come. Returns how many arguments.
 */
static uint32_t links(Blocks *b, uint32_t first, uint32_t period, uint32_t *out, const UOp **arg)
{
    uint32_t n = 0;
    b->epoch++;
    for (uint32_t i = first; i < first + period; i++)
        for (uint32_t k = 0; k < b->unit[i].nleaf; k++) {
            const UOp *u = b->unit[i].leaf[k];
            uint32_t at = b->unit_of[u->id];
            if (at > first && at <= first + period) {
                *out++ = at - 1 - first;
                continue;
            }
            if (b->seen[u->id] != b->epoch) {
                b->seen[u->id] = b->epoch;
                b->number[u->id] = n;
                if (arg) arg[n] = u;
                n++;
            }
            *out++ = period + b->number[u->id];
        }
    return n;
}

static uint32_t leaves_of(const Blocks *b, const Group *r)
{
    uint32_t n = 0;
    for (uint32_t i = r->first; i < r->first + r->period; i++) n += b->unit[i].nleaf;
    return n;
}

/* The longest run of blocks that are linked alike: false when there are no two. */
static bool trim(Blocks *b, Group *r)
{
    ArenaMark mark = arena_mark(b->arena);
    uint32_t n = leaves_of(b, r), from = 0, best = 0, length = 1, *one = NEW_N(b->arena, uint32_t, n + 1),
             *two = NEW_N(b->arena, uint32_t, n + 1);
    links(b, r->first, r->period, one, NULL);
    for (uint32_t t = 1; t < r->times; t++) {
        links(b, r->first + t * r->period, r->period, two, NULL);
        if (memcmp(one, two, n * sizeof *one)) from = t;
        if (t + 1 - from > length) length = t + 1 - from, best = from;
        uint32_t *last = one;
        one = two, two = last;
    }
    arena_release(b->arena, mark);
    *r = (Group){ .first = r->first + best * r->period, .period = r->period, .times = length };
    return length > 1;
}

static uint32_t spared(const Group *r) { return r->period * (r->times - 1); }

static void longer(Group *best, uint32_t first, uint32_t period, uint32_t run)
{
    Group r = { .first = first, .period = period, .times = run / period + 1 };
    if (r.times > 1 && spared(&r) > spared(best)) *best = r;
}

/* The repetition among units lo .. hi - 1 that spares most, the shortest such period; refused: periods that are none on
 * a second look. */
static Group most_spared(const Blocks *b, uint32_t lo, uint32_t hi, const bool *refused)
{
    Group best = { .period = 1, .times = 1 };
    for (uint32_t p = 1; p <= (hi - lo) / 2 && p < PERIOD_MAX; p++) {
        uint32_t run = 0;
        for (uint32_t i = lo; i + p < hi && !refused[p]; i++) {
            if (alike(&b->unit[i], &b->unit[i + p])) run++;
            else longer(&best, i - run, p, run), run = 0;
            if (i + p + 1 == hi) longer(&best, i + 1 - run, p, run);
        }
    }
    return best;
}

static void search(Blocks *b, uint32_t lo, uint32_t hi)
{
    bool refused[PERIOD_MAX] = { false };
    for (;;) {
        Group found = most_spared(b, lo, hi, refused);
        if (spared(&found) < LEAST_SPARED) return;
        uint32_t period = found.period;
        if (!trim(b, &found) || spared(&found) < LEAST_SPARED) {
            refused[period] = true;
            continue;
        }
        Group *r = arena_copy(b->arena, &found, sizeof found);
        r->next = b->group;
        b->group = r;
        for (uint32_t i = 0; i < r->period * r->times; i++) {
            Unit *u = &b->unit[r->first + i];
            u->group = r, u->block = i / r->period, u->place = i % r->period;
        }
        search(b, lo, r->first);
        memset(refused, 0, sizeof refused);
        lo = r->first + r->period * r->times;
    }
}

/* ---- results ---- */

static void read_by(Blocks *b, const UOp *u, const Unit *reader)
{
    const Unit *of = b->unit_of[u->id] ? &b->unit[b->unit_of[u->id] - 1] : NULL;
    if (of && of->group && !(reader && reader->group == of->group && reader->block == of->block))
        of->group->result[of->place] = true;
}

static void find_results(Blocks *b)
{
    for (Group *r = b->group; r; r = r->next) r->result = NEW_N(b->arena, bool, r->period);
    for (uint32_t i = 0; i < b->nunit; i++)
        for (uint32_t k = 0; k < b->unit[i].nleaf; k++) read_by(b, b->unit[i].leaf[k], &b->unit[i]);
    for (uint32_t k = 0; k < b->sink->nsrc; k++) read_by(b, b->sink->src[k], NULL);
}

static uint32_t results_of(const Group *r)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < r->period; m++) n += r->result[m];
    return n;
}

/* ---- the new graph ---- */

/* The first block over PARAMs. arg: what it reads. */
static const UOp *function_of(Blocks *b, const Group *r, const UOp *const *arg, uint32_t narg)
{
    ArenaMark mark = arena_mark(b->arena);
    const UOp **memo = NEW_N(b->arena, const UOp *, b->nnode), *value[RESULTS_MAX];
    int64_t base = b->base;
    uint32_t n = 0;
    b->base += narg;
    for (uint32_t k = 0; k < narg; k++)
        memo[arg[k]->id] = uop_param(b->g, (DType)arg[k]->dtype, arg[k]->shape->dim, uop_rank(arg[k]), base + k);
    for (uint32_t m = 0; m < r->period; m++) {
        const UOp *u = graph_rebuild(b->g, b->unit[r->first + m].root, memo, b->placements);
        if (r->result[m]) value[n++] = u;
    }
    const UOp *f = UOP(b->g, UOP_FUNCTION, DT_VOID, ARG_I(base), uop_new(b->g, UOP_TUPLE, DT_VOID, NO_ARG, value, n));
    arena_release(b->arena, mark);
    return f;
}

/* Units that are alike are walked in one order, so that their nodes correspond. */
static void rename_nodes(Blocks *b, const Group *r, uint32_t first, const UOp *call)
{
    Walk one = { 0 }, two = { 0 };
    Renamed *pair = NULL;
    uint32_t n = 0, cap = 0;
    for (uint32_t m = 0; m < r->period; m++) {
        walk(b, &one, b->unit[r->first + m].root);
        walk(b, &two, b->unit[first + m].root);
        for (uint32_t k = 0; k < one.nnode && k < two.nnode; k++) {
            Renamed p = { uop_origin(b->g, one.node[k]), uop_origin(b->g, two.node[k]) };
            bool leaf = k + 1 < one.nnode && ends(b, one.node[k]),
                 known = leaf || !p.of || !p.is || b->constant[one.node[k]->id];
            for (uint32_t i = 0; i < n && !known; i++) known = pair[i].of == p.of;
            if (known) continue;
            if (n == cap) pair = mem_grow(pair, (cap = cap ? 2 * cap : 16) * sizeof *pair);
            pair[n++] = p;
        }
    }
    graph_rename(b->g, call, pair, n);
    mem_free(pair);
    walk_free(&one);
    walk_free(&two);
}

static void call_block(Blocks *b, const Group *r, uint32_t first, const UOp *function, const UOp *const *arg,
                       uint32_t narg, const UOp **map)
{
    const UOp **src = NEW_N(b->arena, const UOp *, narg + 1);
    src[0] = function;
    for (uint32_t k = 0; k < narg; k++) src[k + 1] = graph_rebuild(b->g, arg[k], map, b->placements);
    const UOp *call = uop_new(b->g, UOP_CALL, DT_VOID, NO_ARG, src, narg + 1);
    placement_set(b->placements, call, PLACED_OPEN, placement_order(b->placements, b->unit[first].root));
    if (first != r->first) rename_nodes(b, r, first, call);
    for (uint32_t m = 0, n = 0; m < r->period; m++) {
        const UOp *u = b->unit[first + m].root;
        if (!r->result[m]) continue;
        map[u->id] =
            UOP(b->g, UOP_GETTUPLE, (DType)u->dtype, ARG_I(n++), call, uop_sizes(b->g, u->shape->dim, uop_rank(u)));
        placement_move(b->placements, map[u->id], u);
    }
}

static void call_group(Blocks *b, const Group *r, const UOp **map)
{
    uint32_t n = leaves_of(b, r), *link = NEW_N(b->arena, uint32_t, n + 1);
    const UOp **arg = NEW_N(b->arena, const UOp *, n + 1), *function = NULL;
    for (uint32_t t = 0; t < r->times; t++) {
        uint32_t narg = links(b, r->first + t * r->period, r->period, link, arg);
        if (!function) function = function_of(b, r, arg, narg);
        call_block(b, r, r->first + t * r->period, function, arg, narg, map);
    }
}

static const UOp *rewrite(Blocks *b)
{
    const UOp **map = NEW_N(b->arena, const UOp *, b->nnode);
    /* constants first, then as it was: a call stands where its first unit stood */
    for (uint32_t i = 0; i < b->norder; i++) {
        const UOp *u = b->order[i];
        placement_set(b->placements, u, placement_of(b->placements, u), b->constant[u->id] ? u->id : u->id + b->nnode);
    }
    for (uint32_t i = 0; i < b->nunit;) {
        const Group *r = b->unit[i].group;
        if (r && results_of(r) <= RESULTS_MAX) {
            call_group(b, r, map);
            i += r->period * r->times;
        } else graph_rebuild(b->g, b->unit[i++].root, map, b->placements);
    }
    return graph_rebuild(b->g, b->sink, map, b->placements);
}

const UOp *graph_blocks(Graph *g, const UOp *sink, Placements *placements)
{
    uint32_t n = graph_count(g);
    Blocks b = { .g = g, .placements = placements, .arena = arena_new(), .sink = sink, .nnode = n };
    b.order = graph_outer(g, sink, b.arena, &b.norder);
    b.constant = NEW_N(b.arena, uint8_t, n);
    b.unit_of = NEW_N(b.arena, uint32_t, n);
    b.reader = NEW_N(b.arena, uint32_t, n);
    b.seen = NEW_N(b.arena, uint32_t, n);
    b.number = NEW_N(b.arena, uint32_t, n);
    find_constants(&b);
    find_units(&b);
    find_readers(&b);
    read_units(&b);
    search(&b, 0, b.nunit);
    find_results(&b);
    find_base(&b);
    if (b.group) sink = rewrite(&b);
    arena_free(b.arena);
    return sink;
}
