/* Hints that bring memory near before it is needed, printed between the instructions of a kernel. What they say is
 * never needed for a right result.
 *
 * A tile's epilogue: what is read and written behind a sum (a residual, the result) is requested before the sum, else
 * each row of the tile waits for memory by itself. The next panel: a loop nest `for panel { for tile { for k ..
 * panel[k] }}` reads a panel of packed constants from memory in its first tile and from the cache in the others; the
 * others request the next panel meanwhile, each for its share: at tile j of J and element q of P, that is element (j P
 * + q) / J. Tile registers request a line after each operation, since their loads take all the buffers that wait for
 * lines when many are requested at once.
 *
 * Rows: where loops follow one another in each iteration of an outer loop (a row's maximum, its exponentials and their
 * sum, its results), the one that computes most requests what the loops before it will read of the next row, and what
 * the loops behind it read and write of this one.
 */
#include "backends/cpu/cpu.h"

enum {
    NEST = 16,
    HINTS = 64,
    LEAST_TRIPS = 16,
    LEAST_SUM = 64,
    LEAST_BYTES = 64 << 10,
    LEAST_PANEL = 4096,
    MOST_PANEL = 1 << 20,
    MOST_TILES = 4096,
    SIBLINGS = 8,
    WHOLE_WORK = 8,                                          /* of an operation that is many instructions */
    LEAST_WORK = 6,                                          /* operations of a vector behind which a line comes */
    LEAST_ROW = 1024,
    MOST_ROW = 16 << 10,
    FRACTION = 30                                            /* bits of a quotient by a constant */
};
/* open loops, outermost first, where instruction `at` stands */
typedef struct { const UOp *range[NEST]; uint32_t n, at; } Nest;

static bool nest_of(const UOp *linear, const UOp *u, Nest *s)
{
    s->n = 0;
    for (s->at = 0; s->at < linear->nsrc && linear->src[s->at] != u; s->at++) {
        const UOp *v = linear->src[s->at];
        if (v->op == UOP_END) s->n--;
        if (v->op != UOP_RANGE) continue;
        if (s->n == NEST) return false;
        s->range[s->n++] = v;
    }
    return s->n > 0;
}

static const UOp *index_of(const UOp *address)
{
    if (address->op == UOP_INDEX) return address->src[1];
    return address->op == UOP_SHRINK && address->src[1]->op == UOP_STACK && address->src[1]->nsrc
        ? address->src[1]->src[0]
        : NULL;
}

static bool large_param(const UOp *address)
{
    const UOp *m = address->op == UOP_INDEX || address->op == UOP_SHRINK ? address->src[0] : NULL;
    return m && m->op == UOP_PARAM && uop_numel(m) * dtype_size((DType)m->dtype) >= LEAST_BYTES;
}

/* ---- the next panel ---- */

static bool read_before(const UOp *linear, uint32_t at, const UOp *param)
{
    while (at-- && linear->src[at]->op != UOP_RANGE)
        if (linear->src[at]->op == UOP_LOAD && linear->src[at]->src[0]->src[0] == param) return true;
    return false;
}

/* What counts panels in index i: the range, or what is left of it where threads share pairs of a panel and something
 * outside. NULL: nothing does. step: from panel to panel. */
static const UOp *counter_of(const UOp *i, const UOp *range, int64_t *step)
{
    *step = range_step(i, range);
    if (*step != NO_STEP) return range;
    const UOp *found = NULL;
    if (i->op == UOP_MOD && i->src[0] == range && uop_is_const(i->src[1])) return *step = 1, i;
    if (i->op == UOP_MUL && uop_is_const(i->src[1]) && (found = counter_of(i->src[0], range, step)))
        *step *= i->src[1]->arg.i;
    if (i->op == UOP_ADD && (i->src[0]->ranges & i->src[1]->ranges & range_bit(range)) == 0)
        found = counter_of(i->src[i->src[1]->ranges & range_bit(range) ? 1 : 0], range, step);
    return found;
}

/* The place of this iteration's share of the next panel, as text, and the bytes that an iteration reads of this one
 * over the number of tiles; NULL: there is no such nest, or the loop is short. */
static const char *next_panel(CRender *r, const UOp *load, int64_t least_trips, int64_t *bytes)
{
    const UOp *a = load->src[0], *i = a->op == UOP_SHRINK ? index_of(a) : NULL;
    Nest s;
    if (!i || !large_param(a) || !r->k->param[a->src[0]->arg.i].constant || !nest_of(r->k->linear, load, &s) ||
        read_before(r->k->linear, s.at, a->src[0]))
        return NULL;
    uint32_t first = 0;
    while (first < s.n && !(i->ranges & range_bit(s.range[first]))) first++;
    /* the last before the first loop of tiles */
    while (first + 1 < s.n && (i->ranges & range_bit(s.range[first + 1]))) first++;
    int64_t panel = 0, tiles = 1, size = dtype_size((DType)a->dtype);
    const UOp *counter = first < s.n ? counter_of(i, s.range[first], &panel) : NULL;
    const char *tile = "0";
    for (uint32_t k = first + 1; k < s.n; k++) {
        const UOp *length = s.range[k]->src[0];
        if (range_step(i, s.range[k]) < 0 || !uop_is_const(length)) return NULL;
        if (i->ranges & range_bit(s.range[k])) continue;
        tile = cr_text(r, "(%s * %ld + %s)", tile, (long)length->arg.i, cr_value(r, s.range[k]));
        tiles *= length->arg.i;
    }
    const UOp *last = s.range[s.n - 1];
    bool inner = counter && range_step(i, last) > 0 && last->src[0]->vmax >= least_trips && s.n > first + 2;
    if (!inner || tiles < 2 || tiles > MOST_TILES || panel < 1 || panel * size < LEAST_PANEL ||
        panel * size > MOST_PANEL)
        return NULL;
    const char *p = cr_value(r, counter);
    *bytes = range_step(i, last) * size / tiles;
    return cr_text(r, "%s + ((%s + 1) * %ld + ((%s * %ld + (%s - %s * %ld)) * %ld >> %d))", cr_memory(r, a), p,
                   (long)panel, tile, (long)panel, cr_position(r, a, 0), p, (long)panel, (1L << FRACTION) / (long)tiles,
                   FRACTION);
}

void cpu_prefetch_panel(CRender *r, const UOp *load)
{
    int64_t bytes;
    const char *place = next_panel(r, load, LEAST_TRIPS, &bytes);
    if (place) cr_line(r, "__builtin_prefetch(%s);", place);
}

void cpu_prefetch_lines(CRender *r, const UOp *load, CpuAhead *ahead)
{
    int64_t bytes;
    const char *place = next_panel(r, load, 2, &bytes);
    *ahead = (CpuAhead){ .lines = 0 };
    if (!place) return;
    ahead->lines = (uint32_t)((bytes + LINE - 1) / LINE);
    ahead->name = cr_text(r, "ahead%u", r->names++);
    cr_line(r, "const char *%s = (const char *)(%s);", ahead->name, place);
}

/* ---- a tile's epilogue ---- */

/* An index as text, in which `range` is what is said in its place. */
typedef struct { const UOp *range; const char *text; } InPlace;

static const char *index_text(CRender *r, const UOp *u, InPlace by)
{
    if (u == by.range) return by.text;
    if (u->op == UOP_RANGE || uop_is_const(u)) return cr_value(r, u);
    if (u->op != UOP_ADD && u->op != UOP_MUL) return NULL;
    const char *a = index_text(r, u->src[0], by), *b = a ? index_text(r, u->src[1], by) : NULL;
    return b ? cr_text(r, "(%s %c %s)", a, u->op == UOP_ADD ? '+' : '*', b) : NULL;
}

static uint32_t end_of(const UOp *linear, uint32_t at, int64_t *trips)
{
    uint32_t depth = 0;
    for (uint32_t i = at; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        if (u->op == UOP_RANGE) depth++, *trips *= u->src[0]->vmax < 4096 ? u->src[0]->vmax : 4096;
        if (u->op == UOP_END && !--depth) return i;
        if (*trips > 1 << 20) *trips = 1 << 20;
    }
    return linear->nsrc;
}

void cpu_prefetch_epilogue(CRender *r, const UOp *range)
{
    const UOp *linear = r->k->linear, *seen[HINTS];
    Nest s;
    int64_t trips = 1;
    uint32_t n = 0;
    if (range_type(range) != AXIS_REDUCE || !nest_of(linear, range, &s) || range_type(s.range[s.n - 1]) == AXIS_REDUCE)
        return;
    uint32_t at = end_of(linear, s.at, &trips) + 1;
    for (; trips >= LEAST_SUM && at < linear->nsrc && linear->src[at]->op != UOP_END &&
         linear->src[at]->op != UOP_RANGE && n < HINTS;
         at++) {
        const UOp *u = linear->src[at], *a = u->op == UOP_LOAD || u->op == UOP_STORE ? u->src[0] : NULL,
                  *i = a && large_param(a) && u->nsrc < 3 ? index_of(a) : NULL;
        uint32_t k = 0;
        while (k < n && i && (index_of(seen[k]) != i || seen[k]->src[0] != a->src[0])) k++;
        const char *text = i && k == n && !i->shape->rank ? index_text(r, i, (InPlace){ NULL, NULL }) : NULL;
        if (!text) continue;
        seen[n++] = a;
        cr_line(r, "__builtin_prefetch(%s + %s, %d);", cr_memory(r, a), text, u->op == UOP_STORE);
    }
}

/* ---- rows ---- */

/* A loop among those that follow one another: its instructions, and how much an iteration computes. */
typedef struct { const UOp *range; uint32_t from, to; int64_t work; } Sibling;
typedef struct { const UOp *outer; Sibling loop[SIBLINGS]; uint32_t n; } Siblings;

/* This loop and those that follow or precede it in the body of the loop around it; false: there are others inside, or
 * too many. */
static bool siblings_of(const UOp *linear, const UOp *range, Siblings *s)
{
    Nest nest;
    uint32_t depth = 0, i;
    s->n = 0;
    if (!nest_of(linear, range, &nest)) return false;
    s->outer = nest.range[nest.n - 1];
    for (i = 0; linear->src[i] != s->outer; i++) {}
    for (i++; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        if (u->op == UOP_END && !depth) return s->n > 1;
        if (u->op == UOP_END && --depth == 0) s->loop[s->n - 1].to = i;
        if (u->op == UOP_RANGE && (depth++ || s->n == SIBLINGS || !uop_is_const(u->src[0]))) return false;
        if (u->op == UOP_RANGE) s->loop[s->n++] = (Sibling){ u, i, i, 0 };
        else if (depth && op_is((Op)u->op, FLAG_ALU) && u->dtype != DT_INDEX)
            s->loop[s->n - 1].work += u->op == UOP_EXP2 || u->op == UOP_SCALE || u->op == UOP_DIV ? WHOLE_WORK : 1;
    }
    return false;
}

static const UOp *moved(const UOp *u)
{
    const UOp *a = u->op == UOP_LOAD || u->op == UOP_STORE ? u->src[0] : NULL;
    return a && large_param(a) && index_of(a) && !index_of(a)->shape->rank ? a : NULL;
}

/* Has an instruction before `at` moved elements of this param in this loop, or in one before it? */
static bool has_moved(const UOp *linear, const Siblings *s, uint32_t at, const UOp *param)
{
    for (uint32_t i = s->loop[0].from; i < at; i++) {
        const UOp *a = moved(linear->src[i]);
        if (a && a->src[0] == param) return true;
    }
    return false;
}

/* Elements that an iteration of this loop moves there; 0: they are not one behind the other. */
static int64_t moved_elements(const UOp *linear, const Sibling *l, const UOp *param, int64_t step)
{
    int64_t n = 0;
    for (uint32_t i = l->from; i < l->to; i++) {
        const UOp *u = linear->src[i], *a = moved(u);
        if (a && a->src[0] == param) n += cr_lanes(u->op == UOP_STORE ? u->src[1] : u);
    }
    return n == step ? n : 0;
}

static int64_t all_work(const Sibling *l) { return l->work * l->range->src[0]->vmax; }

static void request_part(CRender *r, const Siblings *s, const Sibling *in, const Sibling *of, const UOp *access,
                         int64_t *work)
{
    const UOp *a = moved(access), *i = index_of(a);
    int64_t size = dtype_size((DType)a->dtype), row = range_step(i, s->outer), step = range_step(i, of->range),
            n = of->range->src[0]->vmax, trips = in->range->src[0]->vmax,
            elements = moved_elements(r->k->linear, of, a->src[0], step), bytes = elements * size * n / trips;
    if (row < 1 || !elements || elements * size * n < LEAST_ROW || elements * size * n > MOST_ROW) return;
    if ((*work -= (bytes + LINE - 1) / LINE * LEAST_WORK) < 0) return;
    const char *at = cr_value(r, in->range);
    if (n != trips) at = cr_text(r, "(%s * %ld / %ld)", at, (long)n, (long)trips);
    const char *text = index_text(r, i, (InPlace){ of->range, at });
    if (!text) return;
    for (int64_t k = 0; k < bytes || k == 0; k += LINE)
        cr_line(r, "__builtin_prefetch(%s + (%s + %ld), %d);", cr_memory(r, a), text,
                (long)((of < in ? row : 0) + k / size), access->op == UOP_STORE);
}

void cpu_prefetch_rows(CRender *r, const UOp *end)
{
    const UOp *linear = r->k->linear, *range = end->src[0];
    Siblings s;
    if (!siblings_of(linear, range, &s)) return;
    const Sibling *most = s.loop;
    for (uint32_t k = 1; k < s.n; k++)
        if (all_work(&s.loop[k]) > all_work(most)) most = &s.loop[k];
    if (most->range != range) return;
    int64_t work = most->work;
    for (const Sibling *l = s.loop; l < s.loop + s.n; l++)
        for (uint32_t i = l->from; l != most && i < l->to; i++) {
            const UOp *a = moved(linear->src[i]);
            if (a && !has_moved(linear, &s, i, a->src[0])) request_part(r, &s, most, l, linear->src[i], &work);
        }
}
