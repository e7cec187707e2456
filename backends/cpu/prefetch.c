/* Hints that bring memory near before it is needed, printed between the instructions of a kernel. What they say is
 * never needed for a right result.
 *
 * A tile's epilogue: what is read and written behind a sum (a residual, the result) is requested before the sum, else
 * each row of the tile waits for memory by itself. The next panel: a loop nest `for panel { for tile { for k ..
 * panel[k] }}` reads a panel of packed constants from memory in its first tile and from the cache in the others; the
 * others request the next panel meanwhile, each for its share: at tile j of J and element q of P, that is element (j P
 * + q) / J. Tile registers request a line after each operation, since their loads take all the buffers that wait for
 * lines when many are requested at once.
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
    LINE = 64,
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

static const char *index_text(CRender *r, const UOp *u)
{
    if (u->op == UOP_RANGE || uop_is_const(u)) return cr_value(r, u);
    if (u->op != UOP_ADD && u->op != UOP_MUL) return NULL;
    const char *a = index_text(r, u->src[0]), *b = a ? index_text(r, u->src[1]) : NULL;
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
        const char *text = i && k == n && !i->shape->rank ? index_text(r, i) : NULL;
        if (!text) continue;
        seen[n++] = a;
        cr_line(r, "__builtin_prefetch(%s + %s, %d);", cr_memory(r, a), text, u->op == UOP_STORE);
    }
}
