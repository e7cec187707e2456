/* A kernel's LINEAR as machine instructions on virtual registers: what must be known before, then instruction by
 * instruction.
 *
 * A REG variable is one register: what is loaded
 * of it is that register where nothing is stored to it before the value's last use, and what is stored there is
 * computed there where nobody needs the old value any more (a sum's chain of operations included).
 */
#include "backends/x86/lower.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/tiles.h"
#include "backends/x86/values.h"
#include "graph/wmma.h"

/* ---- facts ---- */

/* What an instruction reads: called for each operand and, of an address, its position. */
typedef void Read(Lower *l, const UOp *u, uint32_t at);

static void read_operand(Lower *l, const UOp *u, uint32_t at, Read *f)
{
    int64_t sum = 0;
    if (!uop_is_address(u)) {
        f(l, u, at);
        return;
    }
    const UOp *p = x_without_constants(x_position(u), &sum), *m = uop_addressed(u);
    if (p) f(l, p, at);
    if (m->op == UOP_BUFFER && buffer_space(m) == SPACE_REG) l->array[m->id] = true;
    l->needed[m->id] = true;
}

static bool acts(const UOp *u)
{
    return op_is((Op)u->op, FLAG_EFFECT) || u->op == UOP_RANGE || u->op == UOP_IF || u->op == UOP_ENDIF;
}

static bool reads(const Lower *l, const UOp *u)
{
    bool none = u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_END || uop_is_address(u);
    return !none && (acts(u) || l->needed[u->id]);
}

/* Is it lanes of one or two vectors (of) that one instruction moves? */
static bool is_permuted(Lower *l, const UOp *u, const UOp *of[2])
{
    return u->op == UOP_STACK && x_is_vector(l, u) && uop_is_shuffle(u, of) && x_is_vector(l, of[0]) &&
        element_bytes((DType)u->dtype) == 4 && (!of[1] || x_is_vector(l, of[1]));
}

/* What u's instructions read: of lanes that are moved together the vectors that they are of. */
static void read_sources(Lower *l, const UOp *u, uint32_t at, Read *f)
{
    const UOp *of[2];
    if (is_permuted(l, u, of))
        for (int k = 0; k < 2 && of[k]; k++) f(l, of[k], at);
    else
        for (uint32_t k = 0; k < u->nsrc; k++) {
            read_operand(l, u->src[k], at, f);
            if (x_only_jumps(l, u->src[k])) read_sources(l, u->src[k], at, f);
        }
}

static void read_operands(Lower *l, uint32_t at, Read *f)
{
    if (reads(l, l->line[at])) read_sources(l, l->line[at], at, f);
}

/* Is source k of the instruction a condition on which it jumps? */
static bool jumps_on(const Lower *l, const UOp *u, uint32_t k)
{
    const UOp *c = u->src[k];
    if (cr_lanes(c) > 1 || c->dtype != DT_BOOL || l->block[l->place[c->id]] != l->block[l->place[u->id]]) return false;
    if (u->op == UOP_LOAD || u->op == UOP_STORE) return k == 2;
    return u->op == UOP_IF || x_only_jumps(l, u);
}

static void find_jumps(Lower *l)
{
    for (uint32_t i = l->count; i-- > 0;)
        for (uint32_t k = 0; k < l->line[i]->nsrc; k++)
            if (!jumps_on(l, l->line[i], k)) l->valued[l->line[i]->src[k]->id] = true;
}

static void is_needed(Lower *l, const UOp *u, uint32_t at)
{
    (void)at;
    l->needed[u->id] = true;
}

static void is_used(Lower *l, const UOp *u, uint32_t at)
{
    uint32_t from = l->place[u->id];
    l->uses[from]++;
    l->last[from] = at;
    if (l->block[at] != l->block[from]) l->outside[from] = true;
}

static void find_uses(Lower *l)
{
    uint32_t open[128] = { 0 }, depth = 0, serial = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->line[i];
        l->block[i] = open[depth];
        for (uint32_t k = 0; k < u->nsrc && u->op != UOP_INDEX; k++) l->computed_with[u->src[k]->id] = true;
        l->place[u->id] = i;
        l->times[u->id]++;
        if ((u->op == UOP_RANGE || u->op == UOP_IF) && depth < 127) open[++depth] = ++serial;
        if ((u->op == UOP_END || u->op == UOP_ENDIF) && depth) depth--;
    }
    find_jumps(l);
    for (uint32_t i = l->count; i-- > 0;) read_operands(l, i, is_needed);
    for (uint32_t i = 0; i < l->count; i++) read_operands(l, i, is_used);
}

/* ---- variables and what is computed in them ---- */

static bool is_load_of(const UOp *u, const UOp *reg) { return u->op == UOP_LOAD && u->src[0] == reg; }

/* Is reg's old value unused behind position `from`, up to `to`? */
static bool unused(const Lower *l, const UOp *reg, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i <= to && i < l->count; i++) {
        const UOp *u = l->line[i];
        if (is_load_of(u, reg) && l->needed[u->id] && (i > from || l->last[i] > from)) return false;
        if (i > from && i < to && u->op == UOP_STORE && u->src[0] == reg) return false;
    }
    return true;
}

static bool may_be_in(const Lower *l, const UOp *v, const UOp *reg, uint32_t store)
{
    uint32_t at = l->place[v->id];
    return x_changes_in_place(v) && l->times[v->id] == 1 && l->uses[at] == 1 &&
        at < store && l->block[at] == l->block[store] && !l->target[v->id] && unused(l, reg, at, store) &&
        (x_is_vector(l, v) || cr_lanes(v) == 1);
}

/* The value that is stored, and those whose sum it goes on, as far as they are nobody else's. */
static void find_targets(Lower *l)
{
    for (uint32_t s = 0; s < l->count; s++) {
        const UOp *u = l->line[s];
        if (u->op != UOP_STORE || !x_is_variable(l, u->src[0]) || u->nsrc > 2) continue;
        const UOp *reg = u->src[0], *v = u->src[1];
        while (v && may_be_in(l, v, reg, s)) {
            l->target[v->id] = reg;
            v = v->op == UOP_MULACC || v->op == UOP_WMMA ? v->src[2] : v->src[0];
        }
    }
}

static bool writes(const Lower *l, uint32_t i, const UOp *reg)
{
    const UOp *u = l->line[i];
    return u->op == UOP_STORE ? u->src[0] == reg : l->target[u->id] == reg;
}

static void find_aliases(Lower *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->line[i];
        if (u->op != UOP_LOAD || !x_is_variable(l, u->src[0]) || l->outside[i]) continue;
        bool same = true;
        for (uint32_t k = i + 1; k < l->last[i] && same; k++) same = !writes(l, k, u->src[0]);
        l->alias[i] = same;
    }
}

/* ---- loops and branches ---- */

static void range(Lower *l, const UOp *u)
{
    Mcode *m = l->m;
    OpenLoop *o = &l->open[l->nopen++];
    bool thread = range_type(u) == AXIS_THREAD, known = u->src[0]->op == UOP_CONST && !thread;
    Reg end = thread ? l->end : known ? 0 : x_scalar(l, u->src[0]);
    *o = (OpenLoop){ .i = x_general(l), .top = ++m->labels, .end = ++m->labels };
    if (thread) x_give(l, M_MOVE, o->i, l->begin, 0, 0);
    else x_give(l, M_CONST, o->i, 0, 0, 0);
    if (!known || u->src[0]->arg.i < 1) x_jump_if(l, o->i, end, known ? u->src[0]->arg.i : 0, COND_NOT_LESS, o->end);
    if (m->nloop == m->loop_cap) {
        Loop *more = NEW_N(m->arena, Loop, m->loop_cap * 2);
        memcpy(more, m->loop, m->nloop * sizeof *more);
        m->loop = more, m->loop_cap *= 2;
    }
    o->loop = m->nloop++;
    m->loop[o->loop] = (Loop){ m->count, 0 };
    x_put(l, M_LABEL)->label = o->top;
    x_hold(l, u, o->i);
}

static void end(Lower *l, const UOp *u)
{
    const UOp *r = u->src[u->nsrc - 1];
    if (!l->nopen) {
        x_unsupported(l, u);
        return;
    }
    OpenLoop *o = &l->open[--l->nopen];
    r = u->src[0]->op == UOP_RANGE ? u->src[0] : r;
    bool thread = range_type(r) == AXIS_THREAD, known = r->src[0]->op == UOP_CONST && !thread;
    Reg bound = thread ? l->end : known ? 0 : x_scalar(l, r->src[0]);
    x_give(l, M_ADD, o->i, o->i, 0, 1);
    x_jump_if(l, o->i, bound, known ? r->src[0]->arg.i : 0, COND_LESS, o->top);
    l->m->loop[o->loop].end = l->m->count - 1;
    x_put(l, M_LABEL)->label = o->end;
}

/* ---- values ---- */

static void buffer(Lower *l, const UOp *u)
{
    DType t = (DType)u->dtype;
    uint32_t n = cr_lanes(u);
    int64_t bytes = uop_numel(u) * memory_bytes(t);
    if (buffer_space(u) == SPACE_LOCAL) {
        l->offset[u->id] = l->local;
        l->local += (bytes + 63) & ~INT64_C(63);
    } else if (l->array[u->id]) {
        l->offset[u->id] = x_frame(l, (int)bytes, MOST_BYTES);
    } else if (n == 1 || x_is_vector(l, u)) {
        x_hold(l, u, x_reg(l, u));
    } else {
        Reg *lane = NEW_N(l->m->arena, Reg, n);
        for (uint32_t k = 0; k < n; k++) lane[k] = x_lane_reg(l, t);
        x_hold_lanes(l, u, lane, n);
    }
}

/* Lanes of one or two vectors of 32-bit elements by one instruction. */
static bool permute(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *of[2];
    if (!is_permuted(l, u, of)) return false;
    int width = x_width_of(u) > x_width_of(of[0]) ? x_width_of(u) : x_width_of(of[0]);
    uint32_t table[16] = { 0 }, other = (uint32_t)width / 4;
    for (uint32_t k = 0; k < n; k++)
        table[k] = (uint32_t)u->src[k]->src[1]->arg.i + (u->src[k]->src[0] != of[0] ? other : 0);
    Reg a = x_whole(l, of[0], width), b = of[1] ? x_whole(l, of[1], width) : a, places = x_vector(l, width),
        r = x_vector(l, width);
    Ins *i = x_put(l, M_VLOAD);
    i->dst = places, i->width = i->size = (uint8_t)width, i->at = in_pool(x_pool(l, table, (uint32_t)width));
    i = x_put(l, M_PERM2D);
    i->dst = r, i->a = a, i->b = b, i->c = places, i->width = (uint8_t)width;
    x_hold(l, u, r);
    return true;
}

static void stack(Lower *l, const UOp *u, uint32_t n)
{
    if (!x_is_vector(l, u) || uop_constants(u) || permute(l, u, n)) return; /* looked through where it is used */
    Reg *lane = NEW_N(l->m->arena, Reg, n);
    for (uint32_t k = 0; k < n; k++) lane[k] = x_scalar(l, u->src[k]);
    if (l->computed_with[u->id]) x_hold_value(l, u, lane, n);
    else x_hold_lanes(l, u, lane, n);
}

static void lane_of_vector(Lower *l, const UOp *u) { x_hold(l, u, x_lane(l, u->src[0], (uint32_t)u->src[1]->arg.i)); }

/* The bytes of u, which lie in r, at even and odd places as halves of words: made once a block, of all its products. */
static Halves halves(Lower *l, const UOp *u, Reg r, int shift, int width)
{
    enum { BYTE = 8 };
    Mcode *m = l->m;
    for (uint32_t k = 0; k < DOT_HALVES && l->times[u->id] == 1; k++)
        if (l->halves[k].of == u && l->halves[k].block == l->block[l->at] &&
            m->reg[l->halves[k].part.even].width == width)
            return l->halves[k].part;
    typeof(l->halves[0]) *h = &l->halves[l->made++ % DOT_HALVES];
    h->of = u, h->block = l->block[l->at];
    Reg up = mcode_give(m, M_PSLLW, x_vector(l, width), r, 0, BYTE, width);
    h->part.even = mcode_give(m, shift, x_vector(l, width), up, 0, BYTE, width);
    h->part.odd = mcode_give(m, shift, x_vector(l, width), r, 0, BYTE, width);
    return h->part;
}

/* r = c + the sums of four products of bytes, those of the dot product's first operand, which is a in all lanes,
 * unsigned: products of pairs of halves are exact. */
static void dot_bytes(Lower *l, const UOp *dot, Reg a, Reg b, Reg c, int width, Reg r)
{
    Mcode *m = l->m;
    Halves x = halves(l, dot->src[0], a, M_PSRLW, width), y = halves(l, dot->src[1], b, M_PSRAW, width);
    Reg even = mcode_give(m, M_PMADDWD, x_vector(l, width), x.even, y.even, 0, width),
        odd = mcode_give(m, M_PMADDWD, x_vector(l, width), x.odd, y.odd, 0, width),
        both = mcode_give(m, M_PADDD, x_vector(l, width), even, odd, 0, width);
    mcode_give(m, M_PADDD, r, both, c, 0, width);
}

static void dot(Lower *l, const UOp *u)
{
    int width = x_width_of(u);
    int op = u->arg.i == WMMA_vnni_u8 ? M_DPBUSD : u->arg.i == WMMA_dot_bf16 ? M_DPBF16 : M_COUNT;
    bool bytes = u->arg.i == WMMA_avx_u8;
    if ((op == M_COUNT && !bytes) || !x_is_vector(l, u->src[0]) || !x_is_vector(l, u->src[1])) {
        x_unsupported(l, u);
        return;
    }
    Reg b = x_whole(l, u->src[1], width), c = x_whole(l, u->src[2], width),
        r = l->target[u->id] ? x_value(l, l->target[u->id])->r : x_reg(l, u);
    bool same = l->spread.of == u->src[0] && l->spread.block == l->block[l->at] && l->times[u->src[0]->id] == 1;
    if (!same || l->m->reg[l->spread.r].width != width) {
        l->spread = (typeof(l->spread)){ u->src[0], x_vector(l, width), l->block[l->at] };
        Reg from = x_whole(l, u->src[0], 16);
        Ins *i = x_put(l, M_BCASTSS);
        i->dst = l->spread.r, i->b = from, i->width = (uint8_t)width;
    }
    Reg a = l->spread.r;
    if (bytes) dot_bytes(l, u, a, b, c, width, r);
    else mcode_give(l->m, op, r, a, b, 0, width), l->m->ins[l->m->count - 1].c = c;
    x_hold(l, u, r);
}

/* ---- tiles ---- */

static void tile_zero(void *user, int reg) { x_put(user, M_TILE_ZERO)->imm = reg; }

static void tile_memory(Lower *l, int op, int reg, const UOp *a, int64_t stride)
{
    Place at = x_place(l, a);
    Reg base = x_general(l), step = x_give(l, M_CONST, x_general(l), 0, 0, stride);
    Ins *i = x_put(l, M_ADDRESS);
    i->dst = base, i->at = at;
    i = x_put(l, op);
    i->imm = reg, i->at = (Place){ .kind = AT_ADDRESS, .scale = 1, .base = base, .index = step };
}

static void tile_load(void *user, int reg, const UOp *from, int64_t stride)
{
    tile_memory(user, M_TILE_LOAD, reg, from, stride);
}
static void tile_store(void *user, int reg, const UOp *to) { tile_memory(user, M_TILE_STORE, reg, to, 64); }

static void tile_multiply(void *user, const UOp *wmma, int c, int a, int b)
{
    x_put(user, wmma->arg.i == WMMA_amx_bf16 ? M_TILE_BF16 : M_TILE_U8)->imm = c | a << 8 | b << 16;
}

static void tile_moved(void *user)
{
    Lower *l = user;
    l->status = fail(TG_INTERNAL, "kernel %s: a tile moves", l->k->name);
}

static bool tile(Lower *l, const UOp *u)
{
    static const TileOps ops = { tile_zero, tile_load, tile_store, tile_multiply, tile_moved };
    return l->tiles && tile_instruction(l->tiles, u, &ops, l);
}

static void set_tiles(Lower *l)
{
    uint8_t config[64];
    if (!cpu_has_tiles(l->k) || (l->status = tiles_new(&l->tiles, l->k, l->m->arena))) return;
    tiles_sizes(l->tiles, config);
    x_put(l, M_TILES)->at = in_pool(x_pool(l, config, sizeof config));
}

static bool vector_operands(const Lower *l, const UOp *u)
{
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++)
        if (cr_lanes(u->src[k]) > 1 && !x_is_vector(l, u->src[k]) && !(u->op == UOP_GUARD && k == 2)) return false;
    return true;
}

static void element_wise(Lower *l, const UOp *u, uint32_t n)
{
    Opnd o[3] = { 0 };
    uint32_t sources = u->nsrc < 3 ? u->nsrc : 3;
    for (uint32_t k = 0; k < sources; k++) o[k].u = u->src[k];
    Reg in = l->target[u->id] ? x_value(l, l->target[u->id])->r : 0;
    if (n == 1) {
        Reg dst = in ? in : x_reg(l, u);
        x_scalar_op(l, u, o, dst);
        x_hold(l, u, dst);
        return;
    }
    if (x_is_vector(l, u) && vector_operands(l, u)) {
        Reg dst = in ? in : x_reg(l, u);
        if (x_vector_op(l, u, o, n, dst)) {
            x_hold(l, u, dst);
            return;
        }
    }
    const Reg *of[3] = { 0 };
    for (uint32_t k = 0; k < sources && !(u->op == UOP_GUARD && k == 2); k++)
        if (cr_lanes(u->src[k]) > 1) of[k] = x_lanes(l, u->src[k], n);
    Reg *lane = NEW_N(l->m->arena, Reg, n);
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t k = 0; k < sources; k++) o[k].r = of[k] ? of[k][j] : 0;
        lane[j] = x_lane_reg(l, (DType)u->dtype);
        x_scalar_op(l, u, o, lane[j]);
    }
    if (in) {
        Reg r = x_assemble(l, (DType)u->dtype, lane, n, in);
        x_hold(l, u, r);
        return;
    }
    x_hold_value(l, u, lane, n);
}

static void instruction(Lower *l, const UOp *u)
{
    uint32_t n = cr_lanes(u);
    if (tile(l, u)) return;
    if (!acts(u) && u->op != UOP_BUFFER && !l->needed[u->id]) return;
    if (x_only_jumps(l, u)) return;
    switch (u->op) {
    case UOP_PARAM:
    case UOP_CONST:
    case UOP_DEFINE_VAR:
    case UOP_GROUP:
    case UOP_SINK: break;
    case UOP_BUFFER: buffer(l, u); break;
    case UOP_RANGE: range(l, u); break;
    case UOP_END: end(l, u); break;
    case UOP_IF: x_jump_unless(l, u->src[0], l->ifs[l->nifs++] = ++l->m->labels); break;
    case UOP_ENDIF: x_put(l, M_LABEL)->label = l->ifs[--l->nifs]; break;
    case UOP_LOAD: x_load(l, u); break;
    case UOP_STORE: x_store(l, u); break;
    case UOP_REDUCE: x_across(l, u); break;
    case UOP_WMMA: dot(l, u); break;
    case UOP_STACK: stack(l, u, n); break;
    case UOP_INDEX:
    case UOP_SHRINK:
        if (uop_is_address(u)) break;
        if (u->op == UOP_INDEX && u->nsrc == 2 && uop_is_const(u->src[1])) lane_of_vector(l, u);
        else x_unsupported(l, u);
        break;
    default:
        if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) element_wise(l, u, n);
        else x_unsupported(l, u);
    }
}

/* ---- the frame ---- */

static Reg load_word(Lower *l, Reg base, int64_t k)
{
    Reg r = x_general(l);
    Ins *i = x_put(l, M_LOAD);
    i->dst = r, i->size = 8, i->imm = 0, i->at = (Place){ .kind = AT_ADDRESS, .base = base, .disp = 8 * k };
    return r;
}

static void arguments(Lower *l)
{
    const Kernel *k = l->k;
    Arena *a = l->m->arena;
    Reg *of[] = { &l->args, &l->vars, &l->begin, &l->end, &l->scratch };
    for (int i = 0; i < 5; i++) *of[i] = x_general(l);
    Ins *entry = x_put(l, M_ENTRY);
    entry->dst = l->args; /* and the four behind it */
    l->param = NEW_N(a, Reg, KERNEL_PARAMS);
    l->var = NEW_N(a, Reg, k->nvar + 1);
    for (uint32_t i = 0; i < l->count; i++)
        if (l->line[i]->op == UOP_PARAM) l->param[l->line[i]->arg.i] = load_word(l, l->args, l->line[i]->arg.i);
    for (uint32_t i = 0; i < k->nvar; i++) l->var[i] = load_word(l, l->vars, i);
}

TgStatus mcode_lower(Mcode *m, const Kernel *k)
{
    Arena *a = m->arena;
    uint32_t ids = graph_count(k->g), n = k->linear->nsrc;
    Lower l = { .m = m, .k = k, .line = k->linear->src, .count = n };
    m->cap = 4 * n + 64, m->reg_cap = 4 * n + 64, m->loop_cap = 16, m->pool_cap = 1024, m->nreg = 1,
    m->frame_bytes = FRAME_HEAD;
    m->ins = NEW_N(a, Ins, m->cap), m->reg = NEW_N(a, RegInfo, m->reg_cap), m->loop = NEW_N(a, Loop, m->loop_cap);
    m->pool = NEW_N(a, uint8_t, m->pool_cap);
    l.val = NEW_N(a, Val, ids), l.needed = NEW_N(a, bool, ids), l.array = NEW_N(a, bool, ids);
    l.place = NEW_N(a, uint32_t, ids), l.times = NEW_N(a, uint32_t, ids), l.target = NEW_N(a, const UOp *, ids);
    l.computed_with = NEW_N(a, bool, ids), l.valued = NEW_N(a, bool, ids);
    l.offset = NEW_N(a, int64_t, ids), l.block = NEW_N(a, uint32_t, n), l.last = NEW_N(a, uint32_t, n);
    l.uses = NEW_N(a, uint32_t, n), l.outside = NEW_N(a, bool, n), l.alias = NEW_N(a, bool, n);
    find_uses(&l);
    find_targets(&l);
    find_aliases(&l);
    arguments(&l);
    set_tiles(&l);
    for (l.at = 0; l.at < n && !l.status; l.at++) instruction(&l, l.line[l.at]);
    if (l.tiles) x_put(&l, M_TILES_DONE);
    x_put(&l, M_RETURN);
    return l.status;
}
