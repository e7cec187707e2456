/* How bytes of instructions are written, for encode.c and encode_vector.c: prefixes, memory operands, and operands that
 * lie in the frame. */
#ifndef TG_ENCODE_H
#define TG_ENCODE_H
#include <stdlib.h>

#include "backends/x86/mir.h"
#include "graph/base/memory.h"

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
    int spare; /* the first of the vectors for operands that lie in the frame */
    bool failed;
} Encoder;

static inline void byte(Encoder *e, unsigned b)
{
    Bytes *o = e->out;
    if (o->size == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 1 << 16;
        uint8_t *more = mem_grow(o->data, cap);
        o->data = more, o->cap = cap;
    }
    o->data[o->size++] = (uint8_t)b;
}

static inline void bytes(Encoder *e, uint64_t v, int n)
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

static inline unsigned log2_of(int n) { return (unsigned)__builtin_ctz((unsigned)n); }

/* reg: bits of modrm.reg; n: what an 8-bit displacement counts in, 0: it has 32 bits; tail: bytes behind it */
static inline void modrm_mem(Encoder *e, unsigned reg, const Mem *a, int n, int tail)
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

static inline unsigned high(int r) { return r < 0 ? 0 : (unsigned)r >> 3 & 1; }

/* ---- general instructions ---- */

static inline void rex(Encoder *e, bool w, int reg, int index, int base, bool force)
{
    unsigned b = 0x40 | (unsigned)w << 3 | high(reg) << 2 | high(index) << 1 | high(base);
    if (b != 0x40 || force) byte(e, b);
}

static inline void rr(Encoder *e, bool w, unsigned op, int reg, int rm)
{
    rex(e, w, reg, -1, rm, false);
    if (op > 255) byte(e, op >> 8);
    byte(e, op & 255);
    byte(e, 0xc0 | (unsigned)(reg & 7) << 3 | (unsigned)(rm & 7));
}

static inline void rm(Encoder *e, bool w, unsigned op, int reg, const Mem *a, bool byte_reg)
{
    rex(e, w, reg, a->index, a->base, byte_reg);
    if (op > 255) byte(e, op >> 8);
    byte(e, op & 255);
    modrm_mem(e, (unsigned)reg, a, 1, 0);
}

static inline void move(Encoder *e, int dst, int src)
{
    if (dst != src) rr(e, true, 0x89, src, dst);
}

static inline void number(Encoder *e, int dst, int64_t v)
{
    if (v == 0) rr(e, false, 0x31, dst, dst); /* changes flags: never between a test and its use */
    else if (v > 0 && v <= UINT32_MAX)
        rex(e, false, -1, -1, dst, false), byte(e, 0xb8 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 4);
    else if (v == (int32_t)v)
        rex(e, true, -1, -1, dst, false), byte(e, 0xc7), byte(e, 0xc0 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 4);
    else rex(e, true, -1, -1, dst, false), byte(e, 0xb8 | (unsigned)(dst & 7)), bytes(e, (uint64_t)v, 8);
}

/* the address of one of x86_functions */
static inline void function(Encoder *e, int dst, uint32_t f)
{
    Bytes *o = e->out;
    rex(e, true, -1, -1, dst, false), byte(e, 0xb8 | (unsigned)(dst & 7));
    o->call = mem_grow(o->call, (o->ncall + 1) * sizeof *o->call);
    o->call[o->ncall++] = (X86Call){ (uint32_t)o->size, f };
    bytes(e, 0, 8);
}

/* op /ext of dst with a number: add 0, or 1, and 4, sub 5, xor 6, cmp 7 */
static inline void with_number(Encoder *e, int ext, int dst, int64_t v)
{
    bool small = v >= -128 && v < 128;
    rex(e, true, -1, -1, dst, false);
    byte(e, small ? 0x83 : 0x81);
    byte(e, 0xc0 | (unsigned)ext << 3 | (unsigned)(dst & 7));
    bytes(e, (uint64_t)v, small ? 1 : 4);
}

static inline void jump(Encoder *e, int cond, uint32_t label)
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
} Vcode;

/* reg, v: vectors (or general, by what the instruction says); base: register when there is no memory operand */
static inline void vex(Encoder *e, unsigned map, unsigned pp, unsigned w, bool wide, int reg, int v, int index,
                       int base)
{
    byte(e, 0xc4);
    byte(e, (high(reg) ^ 1) << 7 | (high(index) ^ 1) << 6 | (high(base) ^ 1) << 5 | map);
    byte(e, w << 7 | (~(unsigned)v & 15) << 3 | (unsigned)wide << 2 | pp);
}

static inline void evex(Encoder *e, Vcode x, int reg, int v, int b, const Mem *a)
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
}

/* reg, v: vectors (or general, by what the instruction says); b: register when a is NULL. element: bytes that a short
 * displacement counts in; 0: there is none */
static inline void vcode(Encoder *e, Vcode x, int reg, int v, int b, const Mem *a, int element, int imm_bytes)
{
    if (e->m->avx2) vex(e, x.map, x.pp, x.w, x.width == 32, reg, v, a ? a->index : -1, a ? a->base : b);
    else evex(e, x, reg, v, b, a);
    byte(e, x.code);
    if (a) modrm_mem(e, (unsigned)reg, a, element && e->m->avx2 ? 1 : element, imm_bytes);
    else byte(e, 0xc0 | (unsigned)(reg & 7) << 3 | (unsigned)(b & 7));
}

static const Vcode load_full = { 1, 0, 0, 0x10, 0, 0, false, false },
                   store_full = { 1, 0, 0, 0x11, 0, 0, false, false };

static inline Vcode sized(Vcode x, int width) { return x.width = width, x; }

static inline void vmove(Encoder *e, int dst, int src, int width)
{
    if (dst != src) vcode(e, sized(load_full, width), dst, 0, src, NULL, 0, 0);
}

static inline void vload(Encoder *e, int dst, const Mem *a, int size, int width)
{
    if (size == 4 || size == 8) vcode(e, (Vcode){ 1, 1, size == 8, 0x6e, 16, 0, false, false }, dst, 0, 0, a, size, 0);
    else vcode(e, sized(load_full, width), dst, 0, 0, a, width, 0);
}

static inline void vstore(Encoder *e, int src, const Mem *a, int size, int width)
{
    if (size == 4 || size == 8) vcode(e, (Vcode){ 1, 1, size == 8, 0x7e, 16, 0, false, false }, src, 0, 0, a, size, 0);
    else vcode(e, sized(store_full, width), src, 0, 0, a, width, 0);
}

/* mask register k1 from, and to, lanes of 32 bits that are all or nothing */
static inline void mask_from(Encoder *e, int vector, int width)
{
    vcode(e, (Vcode){ 2, 2, 0, 0x39, width, 0, false, false }, 1, 0, vector, NULL, 0, 0);
}
static inline void mask_to(Encoder *e, int vector, int width)
{
    vcode(e, (Vcode){ 2, 2, 0, 0x38, width, 0, false, false }, vector, 0, 1, NULL, 0, 0);
}

/* moves of lanes under a mask, by their size: 0F, 6F from and 7F to memory */
static inline Vcode lanes_move(int size, bool store, int width)
{
    return (Vcode){ 1, size >= 4 ? 2 : 3, size == 8 || size == 2, store ? 0x7f : 0x6f, width, 1, false, false };
}

/* ---- operands ---- */

static const RegInfo *info(const Encoder *e, Reg r) { return &e->m->reg[r]; }
static inline Mem slot(const Encoder *e, Reg r) { return (Mem){ FRAME_BASE, -1, 1, info(e, r)->slot, false }; }

static inline int general(Encoder *e, Reg r, int spare)
{
    if (info(e, r)->machine >= 0) return info(e, r)->machine;
    Mem a = slot(e, r);
    rm(e, true, 0x8b, spare, &a, false);
    return spare;
}

static inline int vec(Encoder *e, Reg r, int spare)
{
    if (info(e, r)->machine >= 0) return info(e, r)->machine;
    Mem a = slot(e, r);
    int width = info(e, r)->width;
    vload(e, spare, &a, width, width);
    return spare;
}

static inline int target(const Encoder *e, Reg r, int spare)
{
    return info(e, r)->machine >= 0 ? info(e, r)->machine : spare;
}

/* What was computed in a spare register goes to its place in the frame. */
static inline void finish(Encoder *e, Reg r, int in)
{
    if (info(e, r)->machine >= 0) return;
    Mem a = slot(e, r);
    if (info(e, r)->cls == CLASS_GENERAL) rm(e, true, 0x89, in, &a, false);
    else vstore(e, in, &a, info(e, r)->width, info(e, r)->width);
}

static inline Mem memory(Encoder *e, const Place *at)
{
    if (at->kind == AT_POOL) return (Mem){ -1, -1, 1, at->disp, true };
    int index = at->index ? general(e, at->index, RDX) : -1;
    if (at->kind == AT_FRAME) return (Mem){ FRAME_BASE, index, at->scale, at->disp, false };
    return (Mem){ general(e, at->base, RCX), index, at->scale, at->disp, false };
}

/* encode_vector.c: an instruction that is a row of mir.def, and a vector instruction that is none */
void encode_row(Encoder *e, const Ins *i);
void encode_vector(Encoder *e, const Ins *i);
#endif
