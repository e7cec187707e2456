/* Instructions of AVX2 (with FMA, F16C, BMI2) in the place of those that have no VEX form. Comes in: instructions as
 * lower.c writes them for AVX-512, on vectors of at most 32 bytes. Goes out: the same results by rows of mir.def that
 * AVX2 has. A result is written by the last instruction of those that give it: its register may be an operand's. What
 * has no place here is left out by mcode_has, and done lane by lane. To add one: a case in one() and in mcode_has. */
#include <string.h>

#include "backends/x86/mir.h"

enum { LANES = 16 };                                            /* bytes in which PSHUFB moves bytes */

bool mcode_has(const Mcode *m, int op)
{
    if (op >= M_ROWS) return true;
    const MirRow *r = &mir_row[op];
    bool replaced = r->form == FORM_MASK || r->form == FORM_NARROW || op == M_PERM2D;
    return m->avx2 ? r->sets & SETS_AVX2 || replaced : r->sets & SETS_AVX512;
}

/* ---- what replacements are made of ---- */

static Reg vector(Mcode *m, int width) { return mcode_reg(m, CLASS_VECTOR, width); }

static Reg put(Mcode *m, int op, Reg dst, Reg a, Reg b, int width)
{
    return mcode_give(m, op, dst, a, b, 0, width);
}

/* An element of the pool in all lanes. */
static Reg spread(Mcode *m, Place at, int bytes, int width)
{
    int full = bytes == 8 ? 32 : width;                         /* of 8 bytes there is no broadcast to 16 */
    Reg r = put(m, bytes == 4 ? M_BCASTSS : M_BCASTSD, vector(m, full), 0, 0, full);
    m->ins[m->count - 1].at = at;
    return r;
}

static Reg spread_bits(Mcode *m, int64_t bits, int bytes, int width)
{
    return spread(m, (Place){ .kind = AT_POOL, .disp = mcode_pool(m, &bits, (uint32_t)bytes) }, bytes, width);
}

static void blend(Mcode *m, Reg dst, Reg mask, Reg a, Reg b, int size, int width)
{
    put(m, M_BLEND, dst, a, b, width);
    m->ins[m->count - 1].c = mask, m->ins[m->count - 1].size = (uint8_t)size;
}

/* The low `to` bytes of each lane of `from` bytes, side by side. */
static Reg cut(Mcode *m, Reg dst, Reg a, int from, int to, int width)
{
    uint8_t table[2 * LANES];
    int each = LANES / from;
    memset(table, 0x80, sizeof table);                          /* 0 */
    for (int half = 0; half < width / LANES; half++)
        for (int k = 0; k < each; k++)
            for (int b = 0; b < to; b++) table[LANES * half + (half * each + k) * to + b] = (uint8_t)(k * from + b);
    bool both = width > LANES;
    Reg moved = put(m, M_PSHUFB, both ? vector(m, width) : dst, a, 0, width);
    m->ins[m->count - 1].at = (Place){ .kind = AT_POOL, .disp = mcode_pool(m, table, (uint32_t)width) };
    if (!both) return dst;
    Reg upper = mcode_give(m, M_UPPER, vector(m, LANES), moved, 0, 1, width);
    return put(m, M_POR, dst, moved, upper, LANES);
}

/* A mask of 32-bit lanes as one of lanes of `size` bytes. */
static Reg mask_of(Mcode *m, Reg mask, int size, int width)
{
    if (size == 4) return mask;
    if (size == 8) return put(m, M_SXDQ, vector(m, width), 0, mask, width);
    return cut(m, vector(m, width), mask, 4, size, m->reg[mask].width);
}

/* ---- replacements ---- */

static Reg widened(Mcode *m, Reg a, int bytes, bool is_unsigned, int width)
{
    return put(m, bytes == 1 ? is_unsigned ? M_ZXBD : M_SXBD : is_unsigned ? M_ZXWD : M_SXWD, vector(m, width), 0, a,
               width);
}

/* dst = lanes of 32 bits in which a is less than b, or is not b. */
static void compare_integers(Mcode *m, const Ins *i)
{
    enum { LESS = 1 };                                          /* as vpcmp numbers it; 4: not equal */
    int bytes = mir_row[i->op].bytes, width = i->width;
    bool is_unsigned = i->op == M_PCMPUB || i->op == M_PCMPUW || i->op == M_PCMPUD || i->op == M_PCMPUQ;
    Reg a = i->a, b = i->b;
    if (bytes < 4) {
        width = i->size * 4 <= 16 ? 16 : 32;
        a = widened(m, a, bytes, is_unsigned, width), b = widened(m, b, bytes, is_unsigned, width);
        bytes = 4;
    } else if (is_unsigned && i->imm == LESS) {
        Reg top = spread_bits(m, bytes == 4 ? INT32_MIN : INT64_MIN, bytes, width);
        a = put(m, M_PXOR, vector(m, width), a, top, width), b = put(m, M_PXOR, vector(m, width), b, top, width);
    }
    Reg lanes = bytes == 4 ? i->dst : vector(m, width);
    if (i->imm == LESS) {
        put(m, bytes == 4 ? M_PCMPGTD : M_PCMPGTQ, lanes, b, a, width);
    } else {
        Reg same = put(m, bytes == 4 ? M_PCMPEQD : M_PCMPEQQ, vector(m, width), a, b, width);
        put(m, M_PXOR, lanes, same, spread_bits(m, -1, 4, width), width);
    }
    if (bytes == 8) cut(m, i->dst, lanes, 8, 4, width);
}

static void compare_doubles(Mcode *m, const Ins *i)
{
    Ins wide = *i;
    wide.dst = vector(m, i->width);
    *mcode_put(m, i->op) = wide;
    cut(m, i->dst, wide.dst, 8, 4, i->width);
}

static void max_nan(Mcode *m, const Ins *i)
{
    enum { UNORDERED = 3 };
    bool d = i->size == 8;
    Reg max = put(m, d ? M_MAXPD : M_MAXPS, vector(m, i->width), i->a, i->b, i->width),
        nan = mcode_give(m, d ? M_CMPPD : M_CMPPS, vector(m, i->width), i->a, i->a, UNORDERED, i->width);
    blend(m, i->dst, nan, i->a, max, i->size, i->width);
}

/* Places in two vectors: the bit above those of one vector's chooses between them. */
static void permute(Mcode *m, const Ins *i)
{
    int op = i->width == 32 ? M_PERMD : M_PERMILPS, sign = i->width == 32 ? 28 : 29;
    bool one = i->a == i->b;
    Reg from[2] = { i->a, i->b }, to[2];
    for (int k = 0; k < 2 - one; k++) {
        to[k] = one ? i->dst : vector(m, i->width);
        put(m, op, to[k], op == M_PERMD ? i->c : from[k], op == M_PERMD ? from[k] : i->c, i->width);
    }
    if (one) return;
    Reg second = mcode_give(m, M_PSLLD, vector(m, i->width), i->c, 0, sign, i->width);
    blend(m, i->dst, second, to[1], to[0], 4, i->width);
}

static void test(Mcode *m, const Ins *i)
{
    Reg none = put(m, M_PCMPEQD, vector(m, i->width), i->b, spread_bits(m, 0, 4, i->width), i->width);
    put(m, M_PXOR, i->dst, none, spread_bits(m, -1, 4, i->width), i->width);
}

static void load_masked(Mcode *m, const Ins *i)
{
    Ins load = *i;
    load.c = mask_of(m, i->c, i->size, i->width), load.a = 0, load.dst = vector(m, i->width);
    *mcode_put(m, i->op) = load;
    blend(m, i->dst, load.c, load.dst, i->a, i->size, i->width);
}

/* The machine clears the mask. */
static void gather(Mcode *m, const Ins *i)
{
    Ins g = *i;
    g.c = i->c ? put(m, M_VMOVE, vector(m, i->width), 0, mask_of(m, i->c, i->size, i->width), i->width)
               : spread_bits(m, -1, 4, i->width);
    *mcode_put(m, i->op) = g;
}

static Reg general(Mcode *m, int op, Reg a, Reg b, int64_t imm)
{
    return mcode_give(m, op, mcode_reg(m, CLASS_GENERAL, 8), a, b, imm, 0);
}

static Reg float_of(Mcode *m, Reg a, int size)
{
    Reg r = put(m, M_INT_TO_FLOAT, vector(m, 16), a, 0, 16);
    m->ins[m->count - 1].size = (uint8_t)size;
    return r;
}

/* Of a number above the signed ones half is converted, rounded to odd, and taken twice. */
static void unsigned_to_float(Mcode *m, const Ins *i)
{
    Reg big = general(m, M_SHR, i->a, 0, 63), low = general(m, M_AND, i->a, big, 0),
        shifted = general(m, M_SHR, i->a, big, 0), half = general(m, M_OR, shifted, low, 0),
        scale = general(m, M_ADD, big, 0, 1), f = float_of(m, half, i->size), twice = float_of(m, scale, i->size);
    put(m, i->size == 8 ? M_MULPD : M_MULPS, i->dst, f, twice, 16);
}

/* From 2^63 on, that is taken off. */
static void float_to_unsigned(Mcode *m, const Ins *i)
{
    enum { NOT_LESS = 29 };
    bool d = i->size == 8;
    int64_t limit = d ? 0x43e0000000000000 : 0x5f000000, sign = d ? INT64_MIN : INT32_MIN; /* 2^63's bits */
    Reg at = spread_bits(m, limit, i->size, 16), off = spread_bits(m, limit | sign, i->size, 16),
        is_big = mcode_give(m, d ? M_CMPPD : M_CMPPS, vector(m, 16), i->a, at, NOT_LESS, 16);
    Reg rest = put(m, d ? M_ADDPD : M_ADDPS, vector(m, 16), i->a, off, 16), of[2], from[2] = { i->a, rest };
    for (int k = 0; k < 2; k++) {
        of[k] = general(m, M_FLOAT_TO_INT, from[k], 0, 0);
        m->ins[m->count - 1].size = i->size;
    }
    Reg big = general(m, M_TO_GENERAL, is_big, 0, 0);
    m->ins[m->count - 1].size = 4;
    Reg top = general(m, M_CONST, 0, 0, INT64_MIN), high = general(m, M_XOR, of[1], top, 0);
    put(m, M_CHOOSE, i->dst, high, of[0], 0);
    m->ins[m->count - 1].c = big;
}

/* ---- the pass ---- */

static void one(Mcode *m, Ins i)
{
    const MirRow *r = i.op < M_ROWS ? &mir_row[i.op] : NULL;
    bool copies = i.op == M_BCASTSS || i.op == M_BCASTSD;
    if (r && i.broadcast && !copies) mcode_use(m, &i, spread(m, i.at, r->bytes, i.width));
    switch (i.op) {
    case M_CMPPD: compare_doubles(m, &i); return;
    case M_CMPPS: break;
    case M_PERM2D: permute(m, &i); return;
    case M_MAXNAN: max_nan(m, &i); return;
    case M_PICK: blend(m, i.dst, mask_of(m, i.c, i.size, i.width), i.a, i.b, i.size, i.width); return;
    case M_TEST: test(m, &i); return;
    case M_VLOADM: load_masked(m, &i); return;
    case M_VSTOREM: i.c = mask_of(m, i.c, i.size, i.width); break;
    case M_GATHER: gather(m, &i); return;
    case M_CUTWB: cut(m, i.dst, i.a, 2, 1, i.width); return;
    case M_CUTDB: cut(m, i.dst, i.a, 4, 1, i.width); return;
    case M_CUTQB: cut(m, i.dst, i.a, 8, 1, i.width); return;
    case M_CUTDW: cut(m, i.dst, i.a, 4, 2, i.width); return;
    case M_CUTQW: cut(m, i.dst, i.a, 8, 2, i.width); return;
    case M_CUTQD: cut(m, i.dst, i.a, 8, 4, i.width); return;
    case M_INT_TO_FLOAT:
        if (i.imm) {
            unsigned_to_float(m, &i);
            return;
        }
        break;
    case M_FLOAT_TO_INT:
        if (i.imm) {
            float_to_unsigned(m, &i);
            return;
        }
        break;
    default:
        if (r && r->form == FORM_MASK) {
            compare_integers(m, &i);
            return;
        }
    }
    *mcode_put(m, i.op) = i;
}

void mcode_avx2(Mcode *m)
{
    const Ins *from = m->ins;
    uint32_t n = m->count, *first = NEW_N(m->arena, uint32_t, n + 1);
    m->cap = 2 * n, m->ins = NEW_N(m->arena, Ins, m->cap), m->count = 0;
    for (uint32_t k = 0; k < n; k++) first[k] = m->count, one(m, from[k]);
    first[n] = m->count;
    for (uint32_t k = 0; k < m->nloop; k++) {
        m->loop[k].end = first[m->loop[k].end + 1] - 1;
        m->loop[k].begin = first[m->loop[k].begin];
    }
}
