/* Bytes of machine instructions: general registers with REX, vectors with EVEX, tiles with VEX. An operand that lies in
 * the frame is brought to a spare register, or stays the instruction's memory operand where that is free. Branches have
 * 32 bits; they and places in the pool, which stands behind the code, are filled in at the end. */
#include "backends/x86/mir.h"

#include <stdlib.h>
#include <string.h>

const MirRow mir_row[M_ROWS] = {
#define MIR(name, form, ...) { #name, FORM_##form, __VA_ARGS__ },
#include "backends/x86/mir.def"
#undef MIR
};

typedef struct {
    size_t at;
    int64_t to;
} Fix; /* 32 bits at `at`, counted from their end: to a label, or pool byte */
typedef struct {
    const Mcode *m;
    Bytes *out;
    size_t begin;
    size_t *label;
    Fix *fix, *pool;
    size_t nfix, npool, cap;
    bool failed;
} Encoder;

static void byte(Encoder *e, unsigned b)
{
    Bytes *o = e->out;
    if (o->size == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 1 << 16;
        uint8_t *more = realloc(o->data, cap);
        if (!more) {
            e->failed = true;
            return;
        }
        o->data = more, o->cap = cap;
    }
    o->data[o->size++] = (uint8_t)b;
}

static void bytes(Encoder *e, uint64_t v, int n)
{
    for (int k = 0; k < n; k++) byte(e, (unsigned)(v >> (8 * k)) & 255);
}

/* ---- memory operands ---- */

/* base, index: numbers of machine registers, -1: none. pool: disp is a byte of the pool */
typedef struct {
    int base, index, scale;
    int64_t disp;
    bool pool;
} Mem;
enum { FRAME_BASE = RSP };

static unsigned log2_of(int n) { return (unsigned)__builtin_ctz((unsigned)n); }

/* reg: bits of modrm.reg; n: what an 8-bit displacement counts in, 0: it has 32 bits; tail: bytes behind it */
static void modrm_mem(Encoder *e, unsigned reg, const Mem *a, int n, int tail)
{
    reg = (reg & 7) << 3;
    if (a->pool) {
        byte(e, reg | 5);
        if (e->npool < e->cap) e->pool[e->npool++] = (Fix){ e->out->size, a->disp - tail };
        bytes(e, 0, 4);
        return;
    }
    bool small = n && a->disp % n == 0 && a->disp / n >= -128 && a->disp / n < 128,
         none = !a->disp && (a->base & 7) != RBP;
    unsigned mod = a->base < 0 ? 0 : none ? 0 : small ? 0x40 : 0x80;
    if (a->index < 0 && a->base >= 0 && (a->base & 7) != RSP) {
        byte(e, mod | reg | (unsigned)(a->base & 7));
    } else {
        byte(e, mod | reg | 4);
        byte(e,
             log2_of(a->scale ? a->scale : 1) << 6 | (unsigned)(a->index < 0 ? 4 : a->index & 7) << 3 |
                 (unsigned)(a->base < 0 ? 5 : a->base & 7));
    }
    if (a->base < 0 || mod == 0x80) bytes(e, (uint64_t)a->disp, 4);
    else if (mod == 0x40) byte(e, (unsigned)(a->disp / n) & 255);
}

static unsigned high(int r) { return r < 0 ? 0 : (unsigned)r >> 3 & 1; }

/* ---- general instructions ---- */

static void rex(Encoder *e, bool w, int reg, int index, int base, bool force)
{
    unsigned b = 0x40 | (unsigned)w << 3 | high(reg) << 2 | high(index) << 1 | high(base);
    if (b != 0x40 || force) byte(e, b);
}

static void rr(Encoder *e, bool w, unsigned op, int reg, int rm)
{
    rex(e, w, reg, -1, rm, false);
    if (op > 255) byte(e, op >> 8);
    byte(e, op & 255);
    byte(e, 0xc0 | (unsigned)(reg & 7) << 3 | (unsigned)(rm & 7));
}

static void rm(Encoder *e, bool w, unsigned op, int reg, const Mem *a, bool byte_reg)
{
    rex(e, w, reg, a->index, a->base, byte_reg);
    if (op > 255) byte(e, op >> 8);
    byte(e, op & 255);
    modrm_mem(e, (unsigned)reg, a, 1, 0);
}

static void move(Encoder *e, int dst, int src)
{
    if (dst != src) rr(e, true, 0x89, src, dst);
}

static void number(Encoder *e, int dst, int64_t v)
{
    if (v == 0) rr(e, false, 0x31, dst, dst); /* changes flags: never between a test and its use */
    else if (v > 0 && v <= UINT32_MAX)
        rex(e, false, -1, -1, dst, false), byte(e, 0xb8 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 4);
    else if (v == (int32_t)v)
        rex(e, true, -1, -1, dst, false), byte(e, 0xc7), byte(e, 0xc0 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 4);
    else rex(e, true, -1, -1, dst, false), byte(e, 0xb8 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 8);
}

/* op /ext of dst with a number: add 0, or 1, and 4, sub 5, xor 6, cmp 7 */
static void with_number(Encoder *e, int ext, int dst, int64_t v)
{
    bool small = v >= -128 && v < 128;
    rex(e, true, -1, -1, dst, false);
    byte(e, small ? 0x83 : 0x81);
    byte(e, 0xc0 | (unsigned)ext << 3 | (unsigned)(dst & 7));
    bytes(e, (uint64_t)v, small ? 1 : 4);
}

static void jump(Encoder *e, int cond, uint32_t label)
{
    byte(e, 0x0f), byte(e, 0x80 | (unsigned)cond);
    if (e->nfix < e->cap) e->fix[e->nfix++] = (Fix){ e->out->size, label };
    bytes(e, 0, 4);
}

/* ---- vector instructions ---- */

typedef struct {
    unsigned map, pp, w, code;
    int width;
    int mask;
    bool zero, broadcast;
} Evex;

/* reg, v: vectors (or general, by what the instruction says); b: register when a is NULL */
static void evex(Encoder *e, Evex x, int reg, int v, int b, const Mem *a, int element, int imm_bytes)
{
    int index = a ? a->index : -1, base = a ? a->base : b;
    unsigned x_bit = a ? high(index) : (unsigned)b >> 4 & 1;
    byte(e, 0x62);
    byte(e,
         (high(reg) ^ 1) << 7 | (x_bit ^ 1) << 6 | (high(base) ^ 1) << 5 | (((unsigned)reg >> 4 & 1) ^ 1) << 4 | x.map);
    byte(e, x.w << 7 | (~(unsigned)v & 15) << 3 | 4 | x.pp);
    unsigned length = x.width == 64 ? 2 : x.width == 32 ? 1 : 0;
    byte(e,
         (unsigned)x.zero << 7 | length << 5 | (unsigned)x.broadcast << 4 | (((unsigned)v >> 4 & 1) ^ 1) << 3 |
             (unsigned)x.mask);
    byte(e, x.code);
    if (a) modrm_mem(e, (unsigned)reg, a, element, imm_bytes);
    else byte(e, 0xc0 | (unsigned)(reg & 7) << 3 | (unsigned)(b & 7));
}

static const Evex load_full = { 1, 0, 0, 0x10, 0, 0, false, false }, store_full = { 1, 0, 0, 0x11, 0, 0, false, false };

static Evex sized(Evex x, int width) { return x.width = width, x; }

static void vmove(Encoder *e, int dst, int src, int width)
{
    if (dst != src) evex(e, sized(load_full, width), dst, 0, src, NULL, 0, 0);
}

static void vload(Encoder *e, int dst, const Mem *a, int size, int width)
{
    if (size == 4 || size == 8) evex(e, (Evex){ 1, 1, size == 8, 0x6e, 16, 0, false, false }, dst, 0, 0, a, size, 0);
    else evex(e, sized(load_full, width), dst, 0, 0, a, width, 0);
}

static void vstore(Encoder *e, int src, const Mem *a, int size, int width)
{
    if (size == 4 || size == 8) evex(e, (Evex){ 1, 1, size == 8, 0x7e, 16, 0, false, false }, src, 0, 0, a, size, 0);
    else evex(e, sized(store_full, width), src, 0, 0, a, width, 0);
}

/* mask register k1 from, and to, lanes of 32 bits that are all or nothing */
static void mask_from(Encoder *e, int vector, int width)
{
    evex(e, (Evex){ 2, 2, 0, 0x39, width, 0, false, false }, 1, 0, vector, NULL, 0, 0);
}
static void mask_to(Encoder *e, int vector, int width)
{
    evex(e, (Evex){ 2, 2, 0, 0x38, width, 0, false, false }, vector, 0, 1, NULL, 0, 0);
}

/* moves of lanes under a mask, by their size: 0F, 6F from and 7F to memory */
static Evex lanes_move(int size, bool store, int width)
{
    return (Evex){ 1, size >= 4 ? 2 : 3, size == 8 || size == 2, store ? 0x7f : 0x6f, width, 1, false, false };
}

/* ---- operands ---- */

static const RegInfo *info(const Encoder *e, Reg r) { return &e->m->reg[r]; }
static Mem slot(const Encoder *e, Reg r) { return (Mem){ FRAME_BASE, -1, 1, info(e, r)->slot, false }; }

static int general(Encoder *e, Reg r, int spare)
{
    if (info(e, r)->machine >= 0) return info(e, r)->machine;
    Mem a = slot(e, r);
    rm(e, true, 0x8b, spare, &a, false);
    return spare;
}

static int vec(Encoder *e, Reg r, int spare)
{
    if (info(e, r)->machine >= 0) return info(e, r)->machine;
    Mem a = slot(e, r);
    int width = info(e, r)->width;
    vload(e, spare, &a, width, width);
    return spare;
}

static int target(const Encoder *e, Reg r, int spare) { return info(e, r)->machine >= 0 ? info(e, r)->machine : spare; }

/* What was computed in a spare register goes to its place in the frame. */
static void finish(Encoder *e, Reg r, int in)
{
    if (info(e, r)->machine >= 0) return;
    Mem a = slot(e, r);
    if (info(e, r)->cls == CLASS_GENERAL) rm(e, true, 0x89, in, &a, false);
    else vstore(e, in, &a, info(e, r)->width, info(e, r)->width);
}

static Mem memory(Encoder *e, const Place *at)
{
    if (at->kind == AT_POOL) return (Mem){ -1, -1, 1, at->disp, true };
    int index = at->index ? general(e, at->index, RDX) : -1;
    if (at->kind == AT_FRAME) return (Mem){ FRAME_BASE, index, at->scale, at->disp, false };
    return (Mem){ general(e, at->base, RCX), index, at->scale, at->disp, false };
}

/* ---- rows of mir.def ---- */

static Evex of_row(const MirRow *r, const Ins *i)
{
    return (Evex){ r->map, r->pp, r->w, r->code, i->width, 0, false, i->broadcast };
}

/* The last operand: a register, or memory in *a. */
static int last(Encoder *e, const Ins *i, Reg b, Mem *a, bool *in_memory)
{
    *in_memory = i->at.kind != AT_NONE && !b;
    if (*in_memory) return *a = memory(e, &i->at), 0;
    return vec(e, b, VECTOR_SPARE + 1);
}

static void three(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    bool mem;
    int a = vec(e, i->a, VECTOR_SPARE), b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, VECTOR_SPARE);
    evex(e, of_row(r, i), dst, a, b, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

/* dst = a * b + c: by the form that overwrites the operand that lies in dst. */
static void multiply_add(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m = { 0 };
    bool b_mem = !i->b, c_mem = !i->c;
    if (b_mem || c_mem) m = memory(e, &i->at);
    int a = vec(e, i->a, VECTOR_SPARE), b = b_mem ? -1 : vec(e, i->b, VECTOR_SPARE + 1),
        c = c_mem ? -1 : vec(e, i->c, VECTOR_SPARE + 2),
        dst = target(e, i->dst, c_mem ? VECTOR_SPARE : VECTOR_SPARE + 2);
    Evex x = of_row(r, i);
    enum { F132 = 0x98, F213 = 0xa8, F231 = 0xb8 };
    int v, last_one = -1;
    if (c_mem) { /* dst = v * dst + memory */
        if (dst != a && dst != b) vmove(e, dst, a, i->width), a = dst;
        x.code = F213, v = dst == a ? b : a;
    } else if (b_mem && dst == a && dst != c) {
        x.code = F132, v = c; /* dst = dst * memory + v */
    } else if (!b_mem && dst == a && dst != c) {
        x.code = F213, v = b, last_one = c;
    } else if (!b_mem && dst == b && dst != c) {
        x.code = F213, v = a, last_one = c;
    } else {
        vmove(e, dst, c, i->width);
        x.code = F231, v = a, last_one = b;
    }
    bool mem = b_mem || c_mem;
    evex(e, x, dst, v, last_one, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, 0);
    finish(e, i->dst, dst);
}

static void accumulate(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, VECTOR_SPARE), b = vec(e, i->b, VECTOR_SPARE + 1), dst = target(e, i->dst, VECTOR_SPARE + 2),
        c = vec(e, i->c, VECTOR_SPARE + 2);
    vmove(e, dst, c, i->width);
    evex(e, of_row(r, i), dst, a, b, NULL, 0, 0);
    finish(e, i->dst, dst);
}

static void two(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    bool mem;
    int b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, VECTOR_SPARE);
    Evex x = of_row(r, i);
    bool copies = i->op == M_BCASTSS || i->op == M_BCASTSD; /* reads one element of memory by itself */
    x.broadcast = i->broadcast && !copies;
    evex(e, x, dst, 0, b, mem ? &m : NULL, copies || x.broadcast ? r->bytes : 0, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

static void by_number(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, VECTOR_SPARE), dst = target(e, i->dst, VECTOR_SPARE);
    evex(e, of_row(r, i), r->ext, dst, a, NULL, 0, 1);
    byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

static void narrow(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, VECTOR_SPARE), dst = target(e, i->dst, VECTOR_SPARE + 1);
    evex(e, of_row(r, i), a, 0, dst, NULL, 0, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

/* size: how many lanes */
static void compare(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    bool mem;
    int a = vec(e, i->a, VECTOR_SPARE), b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, VECTOR_SPARE);
    evex(e, of_row(r, i), 1, a, b, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, 1);
    byte(e, (unsigned)i->imm);
    mask_to(e, dst, i->size * 4 <= 16 ? 16 : i->size * 4 <= 32 ? 32 : 64);
    finish(e, i->dst, dst);
}

/* ---- vectors beyond the table ---- */

static int mask_width(const Ins *i)
{
    int lanes = i->width / i->size;
    return lanes <= 4 ? 16 : lanes <= 8 ? 32 : 64;
}

static void pick(Encoder *e, const Ins *i)
{
    int a = vec(e, i->a, VECTOR_SPARE), b = vec(e, i->b, VECTOR_SPARE + 1), c = vec(e, i->c, VECTOR_SPARE + 2),
        dst = target(e, i->dst, VECTOR_SPARE + 2);
    mask_from(e, c, mask_width(i));
    Evex blend = { 2, 1, i->size == 8 || i->size == 2, i->size >= 4 ? 0x64 : 0x66, i->width, 1, false, false };
    evex(e, blend, dst, b, a, NULL, 0, 0);
    finish(e, i->dst, dst);
}

static void max_nan(Encoder *e, const Ins *i)
{
    bool d = i->size == 8;
    int a = vec(e, i->a, VECTOR_SPARE), b = vec(e, i->b, VECTOR_SPARE + 1), dst = target(e, i->dst, VECTOR_SPARE + 2),
        in = dst == b && dst != a ? VECTOR_SPARE + 2 : dst;
    Evex ordered = { 1, d, d, 0xc2, i->width, 0, false, false }, max = { 1, d, d, 0x5f, i->width, 1, false, false };
    evex(e, ordered, 1, a, a, NULL, 0, 1);
    byte(e, 7);
    vmove(e, in, a, i->width);
    evex(e, max, in, a, b, NULL, 0, 0);
    vmove(e, dst, in, i->width);
    finish(e, i->dst, dst);
}

/* What follows is left out where k1 has no lane: a masked access to a page that is missing reads nothing, and takes
 * hundreds of cycles. Returns where it begins. */
static size_t if_any_lane(Encoder *e)
{
    bytes(e, 0xc998f8c5, 4);                                    /* kortestw k1, k1 */
    byte(e, 0x74), byte(e, 0);                                  /* jz */
    return e->out->size;
}

static void end_if(Encoder *e, size_t begin)
{
    if (!e->failed) e->out->data[begin - 1] = (uint8_t)(e->out->size - begin);
}

static void load_masked(Encoder *e, const Ins *i)
{
    int c = vec(e, i->c, VECTOR_SPARE), dst = target(e, i->dst, VECTOR_SPARE + 1);
    mask_from(e, c, mask_width(i));
    int a = vec(e, i->a, VECTOR_SPARE);
    vmove(e, dst, a, i->width);
    size_t begin = if_any_lane(e);
    Mem m = memory(e, &i->at);
    evex(e, lanes_move(i->size, false, i->width), dst, 0, 0, &m, 0, 0);
    end_if(e, begin);
    finish(e, i->dst, dst);
}

static void store_masked(Encoder *e, const Ins *i)
{
    int c = vec(e, i->c, VECTOR_SPARE), a = vec(e, i->a, VECTOR_SPARE + 1);
    mask_from(e, c, mask_width(i));
    size_t begin = if_any_lane(e);
    Mem m = memory(e, &i->at);
    evex(e, lanes_move(i->size, true, i->width), a, 0, 0, &m, 0, 0);
    end_if(e, begin);
}

/* A mask of all bits in k1. */
static void mask_all(Encoder *e)
{
    number(e, RAX, 0xffff);
    byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x92), byte(e, 0xc8); /* kmovw k1, eax */
}

/* The index is a vector register: bit 4 of its number is V'. */
static void gather(Encoder *e, const Ins *i)
{
    int index = vec(e, i->b, VECTOR_SPARE + 1), dst = target(e, i->dst, VECTOR_SPARE + 2);
    if (i->c) mask_from(e, vec(e, i->c, VECTOR_SPARE), mask_width(i));
    else mask_all(e);
    if (i->a) vmove(e, dst, vec(e, i->a, VECTOR_SPARE), i->width);
    int base = general(e, i->at.base, RCX), disp = (int)i->at.disp;
    bool d = i->size == 8;
    byte(e, 0x62);
    byte(e,
         (high(dst) ^ 1) << 7 | (high(index) ^ 1) << 6 | (high(base) ^ 1) << 5 | (((unsigned)dst >> 4 & 1) ^ 1) << 4 |
             2);
    byte(e, (unsigned)d << 7 | 15 << 3 | 4 | 1);
    byte(e, (i->width == 64 ? 2u : i->width == 32 ? 1u : 0u) << 5 | (((unsigned)index >> 4 & 1) ^ 1) << 3 | 1);
    byte(e, 0x92);
    byte(e, 0x80 | (unsigned)(dst & 7) << 3 | 4);
    byte(e, log2_of(i->size) << 6 | (unsigned)(index & 7) << 3 | (unsigned)(base & 7));
    bytes(e, (uint64_t)disp, 4);
    finish(e, i->dst, dst);
}

static void all_lanes(Encoder *e, const Ins *i)
{
    int a = vec(e, i->a, VECTOR_SPARE), dst = target(e, i->dst, RAX);
    mask_from(e, a, i->width);
    byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x93), byte(e, 0xc1); /* kmovw eax, k1 */
    with_number(e, 4, RAX, (1 << i->size) - 1);
    with_number(e, 7, RAX, (1 << i->size) - 1);
    rex(e, false, -1, -1, RAX, true), byte(e, 0x0f), byte(e, 0x94), byte(e, 0xc0);
    rr(e, false, 0x0fb6, dst, RAX);
    finish(e, i->dst, dst);
}

static void between_files(Encoder *e, const Ins *i)
{
    bool q = i->size == 8;
    if (i->op == M_TO_VECTOR) {
        int a = general(e, i->a, RAX), dst = target(e, i->dst, VECTOR_SPARE);
        evex(e, (Evex){ 1, 1, q, 0x6e, 16, 0, false, false }, dst, 0, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else if (i->op == M_TO_GENERAL) {
        int a = vec(e, i->a, VECTOR_SPARE), dst = target(e, i->dst, RAX);
        evex(e, (Evex){ 1, 1, q, 0x7e, 16, 0, false, false }, a, 0, dst, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else if (i->op == M_SPREAD) {
        int a = general(e, i->a, RAX), dst = target(e, i->dst, VECTOR_SPARE);
        unsigned code = i->size == 1 ? 0x7a : i->size == 2 ? 0x7b : 0x7c;
        evex(e, (Evex){ 2, 1, q, code, i->width, 0, false, false }, dst, 0, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else if (i->op == M_INT_TO_FLOAT) {
        int a = general(e, i->a, RAX), dst = target(e, i->dst, VECTOR_SPARE);
        evex(e, (Evex){ 1, 1, 0, 0xef, 16, 0, false, false }, dst, dst, dst, NULL, 0, 0); /* waits for nobody */
        evex(e, (Evex){ 1, q ? 3 : 2, 1, i->imm ? 0x7b : 0x2a, 16, 0, false, false }, dst, dst, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else {
        int a = vec(e, i->a, VECTOR_SPARE), dst = target(e, i->dst, RAX);
        evex(e, (Evex){ 1, q ? 3 : 2, 1, i->imm ? 0x78 : 0x2c, 16, 0, false, false }, dst, 0, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    }
}

static void vector_ins(Encoder *e, const Ins *i)
{
    Mem m;
    int r;
    switch (i->op) {
    case M_VMOVE:
        r = target(e, i->dst, VECTOR_SPARE);
        vmove(e, r, vec(e, i->b, VECTOR_SPARE), i->width);
        finish(e, i->dst, r);
        break;
    case M_VLOAD:
        m = memory(e, &i->at), r = target(e, i->dst, VECTOR_SPARE);
        vload(e, r, &m, i->size, i->width);
        finish(e, i->dst, r);
        break;
    case M_VSTORE:
        r = vec(e, i->a, VECTOR_SPARE), m = memory(e, &i->at);
        vstore(e, r, &m, i->size, i->width);
        break;
    case M_TEST:
        r = vec(e, i->b, VECTOR_SPARE);
        evex(e, (Evex){ 2, 1, 0, 0x27, i->width, 0, false, false }, 1, r, r, NULL, 0, 0);
        r = target(e, i->dst, VECTOR_SPARE);
        mask_to(e, r, i->width);
        finish(e, i->dst, r);
        break;
    case M_VLOADM: load_masked(e, i); break;
    case M_VSTOREM: store_masked(e, i); break;
    case M_PICK: pick(e, i); break;
    case M_MAXNAN: max_nan(e, i); break;
    case M_GATHER: gather(e, i); break;
    case M_ALL: all_lanes(e, i); break;
    default: between_files(e, i);
    }
}

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
    if (i->op >= M_MOVE) {
        general_ins(e, i);
        return;
    }
    if (i->op >= M_ROWS) {
        vector_ins(e, i);
        return;
    }
    const MirRow *r = &mir_row[i->op];
    switch ((MirForm)r->form) {
    case FORM_VVV: three(e, i, r); break;
    case FORM_FMA: multiply_add(e, i, r); break;
    case FORM_ACC: accumulate(e, i, r); break;
    case FORM_VV: two(e, i, r); break;
    case FORM_SHIFT: by_number(e, i, r); break;
    case FORM_NARROW: narrow(e, i, r); break;
    case FORM_MASK: compare(e, i, r); break;
    }
}

static void patch(Encoder *e, size_t at, size_t to)
{
    uint32_t distance = (uint32_t)(to - (at + 4));
    memcpy(e->out->data + at, &distance, 4);
}

TgStatus mcode_encode(Bytes *out, const Mcode *m)
{
    size_t cap = m->count + 16;
    Encoder e = { .m = m, .out = out, .begin = out->size, .cap = cap };
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
