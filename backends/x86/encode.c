/* Bytes of machine instructions: general registers with REX, vectors with EVEX or (AVX2) VEX, tiles with VEX. An
 * operand that lies in the frame is brought to a spare register, or stays the instruction's memory operand where that
 * is free. Branches have 32 bits; they and places in the pool, which stands behind the code, are filled in at the end.
 * Vector instructions are encode_vector.c's. */
#include <string.h>

#include "backends/x86/encode.h"

const MirRow mir_row[M_ROWS] = {
#define MIR(name, form, map, pp, w, code, ext, imm, bytes, sets) \
    { #name, FORM_##form, map, pp, w, code, ext, imm, bytes, SETS_##sets },
#include "backends/x86/mir.def"
#undef MIR
};

/* ---- general ---- */

static void load(Encoder *e, const Ins *i)
{
    Mem m = memory(e, &i->at);
    int dst = target(e, i->dst, RAX);
    static const uint16_t zero[9] = { [1] = 0x0fb6, [2] = 0x0fb7, [4] = 0x8b, [8] = 0x8b },
                          sign[9] = { [1] = 0x0fbe, [2] = 0x0fbf, [4] = 0x63, [8] = 0x8b };
    rm(e, i->imm || i->size == 8, i->imm ? sign[i->size] : zero[i->size], dst, &m, false);
    finish(e, i->dst, dst);
}

static void store(Encoder *e, const Ins *i)
{
    Mem m = memory(e, &i->at);
    int a = general(e, i->a, RAX);
    if (i->size == 2) byte(e, 0x66);
    rm(e, i->size == 8, i->size == 1 ? 0x88 : 0x89, a, &m, i->size == 1);
}

static void extend(Encoder *e, const Ins *i)
{
    int a = general(e, i->a, RAX), dst = target(e, i->dst, RAX);
    if (i->size == 4 && !i->imm) rr(e, false, 0x89, a, dst);
    else if (i->size == 4) rr(e, true, 0x63, dst, a);
    else {
        rex(e, i->imm, dst, -1, a, true);
        byte(e, 0x0f), byte(e, (i->imm ? 0xbe : 0xb6) + (i->size == 2));
        byte(e, 0xc0 | (unsigned)(dst & 7) << 3 | (unsigned)(a & 7));
    }
    finish(e, i->dst, dst);
}

static void arithmetic(Encoder *e, const Ins *i)
{
    int a = general(e, i->a, RAX), b = i->b ? general(e, i->b, RCX) : -1, dst = target(e, i->dst, RAX);
    /* by what the machine numbers them: or 1, and 4, xor 6; an addition is lea's */
    int number_of = i->op == M_OR ? 1 : i->op == M_AND ? 4 : 6;
    if (i->op == M_MUL && b < 0) {
        bool small = i->imm >= -128 && i->imm < 128;
        rex(e, true, dst, -1, a, false), byte(e, small ? 0x6b : 0x69),
            byte(e, 0xc0 | (unsigned)(dst & 7) << 3 | (unsigned)(a & 7));
        bytes(e, (uint64_t)i->imm, small ? 1 : 4);
    } else if (i->op == M_ADD) { /* lea: no operand is overwritten */
        Mem m = { a, b, 1, b < 0 ? i->imm : 0, false };
        rm(e, true, 0x8d, dst, &m, false);
    } else if (b < 0) {
        move(e, dst, a);
        with_number(e, number_of, dst, i->imm);
    } else {
        if (dst == b && dst != a) {
            int t = a;
            a = b, b = t;
        } /* they all commute */
        move(e, dst, a);
        if (i->op == M_MUL) rr(e, true, 0x0faf, dst, b);
        else rr(e, true, (unsigned)number_of << 3 | 1, b, dst);
    }
    finish(e, i->dst, dst);
}

/* shlx, shrx, sarx (VEX), or by a number */
static void shift(Encoder *e, const Ins *i)
{
    int a = general(e, i->a, RAX), dst = target(e, i->dst, RAX);
    if (!i->b) {
        move(e, dst, a);
        rex(e, true, -1, -1, dst, false), byte(e, 0xc1);
        byte(e,
             0xc0 |
                 (i->op == M_SHL       ? 4u
                      : i->op == M_SHR ? 5u
                                       : 7u)
                     << 3 |
                 (unsigned)(dst & 7)),
            byte(e, (unsigned)i->imm);
    } else {
        int b = general(e, i->b, RCX);
        unsigned pp = i->op == M_SHL ? 1 : i->op == M_SHR ? 3 : 2;
        byte(e, 0xc4), byte(e, (high(dst) ^ 1) << 7 | 0x40 | (high(a) ^ 1) << 5 | 2);
        byte(e, 0x80 | (~(unsigned)b & 15) << 3 | pp), byte(e, 0xf7);
        byte(e, 0xc0 | (unsigned)(dst & 7) << 3 | (unsigned)(a & 7));
    }
    finish(e, i->dst, dst);
}

static void compare_general(Encoder *e, const Ins *i)
{
    int a = general(e, i->a, RAX);
    if (i->b) rr(e, true, 0x39, general(e, i->b, RCX), a);
    else with_number(e, 7, a, i->imm);
}

static void set(Encoder *e, const Ins *i)
{
    int dst = target(e, i->dst, RAX);
    compare_general(e, i);
    byte(e, 0x0f), byte(e, 0x90u | i->cond), byte(e, 0xc0); /* al */
    rr(e, false, 0x0fb6, dst, RAX);
    finish(e, i->dst, dst);
}

static void divide(Encoder *e, const Ins *i)
{
    bool is_signed = i->op == M_DIVIDE_SIGNED || i->op == M_REMAINDER_SIGNED, wide = i->size == 8;
    int b = general(e, i->b, RCX), dst = target(e, i->dst, RAX);
    move(e, RAX, general(e, i->a, RAX));
    if (is_signed) rex(e, wide, -1, -1, -1, false), byte(e, 0x99);
    else rr(e, false, 0x31, RDX, RDX);
    rr(e, wide, 0xf7, is_signed ? 7 : 6, b);
    move(e, dst, i->op == M_DIVIDE || i->op == M_DIVIDE_SIGNED ? RAX : RDX);
    finish(e, i->dst, dst);
}

static void choose(Encoder *e, const Ins *i)
{
    int c = general(e, i->c, RCX), a = general(e, i->a, RAX), b = general(e, i->b, RDX), dst = target(e, i->dst, RCX);
    rr(e, true, 0x85, c, c);
    if (dst == a) rr(e, true, 0x0f44, dst, b); /* cmove: b where c is 0 */
    else move(e, dst, b), rr(e, true, 0x0f45, dst, a);
    finish(e, i->dst, dst);
}

static const uint8_t saved[] = { RBX, RBP, 12, 13, 14, 15 };
static void push(Encoder *e, int r, bool pop)
{
    rex(e, false, -1, -1, r, false), byte(e, (pop ? 0x58u : 0x50u) | (unsigned)(r & 7));
}

/* The frame begins at the stack pointer, aligned to a line; the old one lies in its first word. */
static void entry(Encoder *e, const Ins *i)
{
    static const uint8_t from[] = { 7, 6, RDX, RCX, 8 };
    Mem first = { RSP, -1, 1, 0, false };
    for (unsigned k = 0; k < sizeof saved; k++) push(e, saved[k], false);
    move(e, RAX, RSP);
    with_number(e, 5, RSP, (e->m->frame_bytes + 63) & ~63);
    with_number(e, 4, RSP, -64);
    rm(e, true, 0x89, RAX, &first, false);
    /* an argument's register may be another's: all go by way of the red words that the frame keeps for them */
    for (unsigned k = 0; k < 5; k++) {
        Mem word = { RSP, -1, 1, 8 + 8 * (int)k, false };
        rm(e, true, 0x89, from[k], &word, false);
    }
    for (unsigned k = 0; k < 5; k++) {
        const RegInfo *r = info(e, i->dst + k);
        Mem word = { RSP, -1, 1, 8 + 8 * (int)k, false };
        if (r->first == UINT32_MAX) continue;
        int dst = target(e, i->dst + k, RAX);
        rm(e, true, 0x8b, dst, &word, false);
        finish(e, i->dst + k, dst);
    }
}

static void leave(Encoder *e)
{
    Mem first = { RSP, -1, 1, 0, false };
    byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x77); /* vzeroupper */
    rm(e, true, 0x8b, RSP, &first, false);
    for (unsigned k = sizeof saved; k-- > 0;) push(e, saved[k], true);
    byte(e, 0xc3);
}

/* ---- tiles: VEX, map 2 ---- */

static void vex_tile(Encoder *e, unsigned pp, unsigned code, int reg, int v, int rm_or_base, int index)
{
    byte(e, 0xc4);
    byte(e, 0x80 | (high(index) ^ 1) << 6 | (high(rm_or_base) ^ 1) << 5 | 2);
    byte(e, (~(unsigned)v & 15) << 3 | pp);
    byte(e, code);
    if (index >= 0) {
        byte(e, ((rm_or_base & 7) == RBP ? 0x44u : 0x04u) | (unsigned)reg << 3);
        byte(e, (unsigned)(index & 7) << 3 | (unsigned)(rm_or_base & 7));
        if ((rm_or_base & 7) == RBP) byte(e, 0);
    } else {
        byte(e, 0xc0 | (unsigned)reg << 3 | (unsigned)rm_or_base);
    }
}

static void tile_ins(Encoder *e, const Ins *i)
{
    int reg = (int)(i->imm & 255), a = (int)(i->imm >> 8 & 255), b = (int)(i->imm >> 16 & 255);
    switch (i->op) {
    case M_TILES: {
        Mem m = memory(e, &i->at);
        byte(e, 0xc4), byte(e, 0xe2), byte(e, 0x78), byte(e, 0x49);
        modrm_mem(e, 0, &m, 0, 0);
        break;
    }
    case M_TILES_DONE: byte(e, 0xc4), byte(e, 0xe2), byte(e, 0x78), byte(e, 0x49), byte(e, 0xc0); break;
    case M_TILE_ZERO: vex_tile(e, 3, 0x49, reg, 0, 0, -1); break;
    case M_TILE_BF16: vex_tile(e, 2, 0x5c, reg, b, a, -1); break;
    case M_TILE_U8: vex_tile(e, 1, 0x5e, reg, b, a, -1); break;
    default: {
        Mem m = memory(e, &i->at);
        vex_tile(e, i->op == M_TILE_LOAD ? 3 : 2, 0x4b, reg, 0, m.base, m.index);
    }
    }
}

static void general_ins(Encoder *e, const Ins *i)
{
    int r;
    switch (i->op) {
    case M_MOVE: r = target(e, i->dst, RAX), move(e, r, general(e, i->a, RAX)), finish(e, i->dst, r); break;
    case M_CONST: r = target(e, i->dst, RAX), number(e, r, i->imm), finish(e, i->dst, r); break;
    case M_ADDRESS: {
        Mem m = memory(e, &i->at);
        r = target(e, i->dst, RAX), rm(e, true, 0x8d, r, &m, false), finish(e, i->dst, r);
        break;
    }
    case M_ADD:
    case M_MUL:
    case M_AND:
    case M_OR:
    case M_XOR: arithmetic(e, i); break;
    case M_SHL:
    case M_SHR:
    case M_SAR: shift(e, i); break;
    case M_LOAD: load(e, i); break;
    case M_STORE: store(e, i); break;
    case M_EXTEND: extend(e, i); break;
    case M_SET: set(e, i); break;
    case M_CHOOSE: choose(e, i); break;
    case M_DIVIDE:
    case M_REMAINDER:
    case M_DIVIDE_SIGNED:
    case M_REMAINDER_SIGNED: divide(e, i); break;
    case M_ENTRY: entry(e, i); break;
    case M_RETURN: leave(e); break;
    case M_LABEL: e->label[i->label] = e->out->size; break;
    case M_JUMP_ZERO: r = general(e, i->a, RAX), rr(e, true, 0x85, r, r), jump(e, COND_EQUAL, i->label); break;
    case M_JUMP_IF: compare_general(e, i), jump(e, i->cond, i->label); break;
    default:
        if (i->op >= M_TILES && i->op <= M_TILE_U8) tile_ins(e, i);
        else e->failed = true;
    }
}

static void one(Encoder *e, const Ins *i)
{
    if (i->op >= M_MOVE) general_ins(e, i);
    else if (i->op >= M_ROWS) encode_vector(e, i);
    else encode_row(e, i);
}

static void patch(Encoder *e, size_t at, size_t to)
{
    uint32_t distance = (uint32_t)(to - (at + 4));
    memcpy(e->out->data + at, &distance, 4);
}

TgStatus mcode_encode(Bytes *out, const Mcode *m)
{
    size_t cap = m->count + 16;
    Encoder e = { .m = m, .out = out, .begin = out->size, .cap = cap, .spare = mcode_vectors(m) - SPARE_VECTORS };
    e.label = NEW_N(m->arena, size_t, m->labels + 1);
    e.fix = NEW_N(m->arena, Fix, cap), e.pool = NEW_N(m->arena, Fix, cap);
    for (uint32_t k = 0; k < m->count && !e.failed; k++) one(&e, &m->ins[k]);
    while (!e.failed && out->size % 64) byte(&e, 0xcc);
    size_t pool = out->size;
    for (uint32_t k = 0; k < m->pool_bytes && !e.failed; k++) byte(&e, m->pool[k]);
    while (!e.failed && out->size % 64) byte(&e, 0xcc);
    if (e.failed) return fail(TG_UNSUPPORTED, "no machine code: an instruction cannot be encoded");
    for (size_t k = 0; k < e.nfix; k++) patch(&e, e.fix[k].at, e.label[e.fix[k].to]);
    for (size_t k = 0; k < e.npool; k++) patch(&e, e.pool[k].at, pool + (size_t)e.pool[k].to);
    return TG_OK;
}
