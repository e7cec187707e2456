/* Bytes of vector instructions: those that mir.def describes by their form, and those that want more than one. */
#include <string.h>

#include "backends/x86/encode.h"

/* ---- rows of mir.def ---- */

static Vcode of_row(const Encoder *e, const MirRow *r, const Ins *i)
{
    unsigned w = e->m->avx2 && i->op == M_BCASTSD ? 0 : r->w;
    return (Vcode){ r->map, r->pp, w, r->code, i->width, 0, false, i->broadcast };
}

/* The last operand: a register, or memory in *a. */
static int last(Encoder *e, const Ins *i, Reg b, Mem *a, bool *in_memory)
{
    *in_memory = i->at.kind != AT_NONE && !b;
    if (*in_memory) return *a = memory(e, &i->at), 0;
    return vec(e, b, e->spare + 1);
}

static void three(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    bool mem;
    int a = vec(e, i->a, e->spare), b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, e->spare);
    vcode(e, of_row(e, r, i), dst, a, b, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

/* dst = a * b + c: by the form that overwrites the operand that lies in dst. */
static void multiply_add(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m = { 0 };
    bool b_mem = !i->b, c_mem = !i->c;
    if (b_mem || c_mem) m = memory(e, &i->at);
    int a = vec(e, i->a, e->spare), b = b_mem ? -1 : vec(e, i->b, e->spare + 1),
        c = c_mem ? -1 : vec(e, i->c, e->spare + 2),
        dst = target(e, i->dst, c_mem ? e->spare : e->spare + 2);
    Vcode x = of_row(e, r, i);
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
    vcode(e, x, dst, v, last_one, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, 0);
    finish(e, i->dst, dst);
}

static void accumulate(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, e->spare), b = vec(e, i->b, e->spare + 1), dst = target(e, i->dst, e->spare + 2),
        c = vec(e, i->c, e->spare + 2);
    vmove(e, dst, c, i->width);
    vcode(e, of_row(e, r, i), dst, a, b, NULL, 0, 0);
    finish(e, i->dst, dst);
}

static void two(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    bool mem;
    int b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, e->spare);
    Vcode x = of_row(e, r, i);
    bool copies = i->op == M_BCASTSS || i->op == M_BCASTSD; /* reads one element of memory by itself */
    x.broadcast = i->broadcast && !copies;
    vcode(e, x, dst, 0, b, mem ? &m : NULL, copies || x.broadcast ? r->bytes : 0, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

static void by_number(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, e->spare), dst = target(e, i->dst, e->spare);
    vcode(e, of_row(e, r, i), r->ext, dst, a, NULL, 0, 1);
    byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

static void narrow(Encoder *e, const Ins *i, const MirRow *r)
{
    int a = vec(e, i->a, e->spare), dst = target(e, i->dst, e->spare + 1);
    vcode(e, of_row(e, r, i), a, 0, dst, NULL, 0, r->imm);
    if (r->imm) byte(e, (unsigned)i->imm);
    finish(e, i->dst, dst);
}

/* size: how many lanes */
static void compare(Encoder *e, const Ins *i, const MirRow *r)
{
    Mem m;
    if (e->m->avx2) {
        three(e, i, r);
        return;
    }
    bool mem;
    int a = vec(e, i->a, e->spare), b = last(e, i, i->b, &m, &mem), dst = target(e, i->dst, e->spare);
    vcode(e, of_row(e, r, i), 1, a, b, mem ? &m : NULL, i->broadcast ? r->bytes : i->width, 1);
    byte(e, (unsigned)i->imm);
    mask_to(e, dst, i->size * 4 <= 16 ? 16 : i->size * 4 <= 32 ? 32 : 64);
    finish(e, i->dst, dst);
}

void encode_row(Encoder *e, const Ins *i)
{
    const MirRow *r = &mir_row[i->op];
    if (!(r->sets & (e->m->avx2 ? SETS_AVX2 : SETS_AVX512))) e->failed = true;
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

/* ---- vectors beyond the table ---- */

static int mask_width(const Ins *i)
{
    int lanes = i->width / i->size;
    return lanes <= 4 ? 16 : lanes <= 8 ? 32 : 64;
}

static void pick(Encoder *e, const Ins *i)
{
    int a = vec(e, i->a, e->spare), b = vec(e, i->b, e->spare + 1), c = vec(e, i->c, e->spare + 2),
        dst = target(e, i->dst, e->spare + 2);
    mask_from(e, c, mask_width(i));
    Vcode blend = { 2, 1, i->size == 8 || i->size == 2, i->size >= 4 ? 0x64 : 0x66, i->width, 1, false, false };
    vcode(e, blend, dst, b, a, NULL, 0, 0);
    finish(e, i->dst, dst);
}

static void max_nan(Encoder *e, const Ins *i)
{
    bool d = i->size == 8;
    int a = vec(e, i->a, e->spare), b = vec(e, i->b, e->spare + 1), dst = target(e, i->dst, e->spare + 2),
        in = dst == b && dst != a ? e->spare + 2 : dst;
    Vcode ordered = { 1, d, d, 0xc2, i->width, 0, false, false }, max = { 1, d, d, 0x5f, i->width, 1, false, false };
    vcode(e, ordered, 1, a, a, NULL, 0, 1);
    byte(e, 7);
    vmove(e, in, a, i->width);
    vcode(e, max, in, a, b, NULL, 0, 0);
    vmove(e, dst, in, i->width);
    finish(e, i->dst, dst);
}

static void blend(Encoder *e, const Ins *i)
{
    int a = vec(e, i->a, e->spare), b = vec(e, i->b, e->spare + 1), c = vec(e, i->c, e->spare + 2),
        dst = target(e, i->dst, e->spare + 2);
    unsigned code = i->size == 4 ? 0x4a : i->size == 8 ? 0x4b : 0x4c;
    vcode(e, (Vcode){ 3, 1, 0, code, i->width, 0, false, false }, dst, b, a, NULL, 0, 1);
    byte(e, (unsigned)c << 4);
    finish(e, i->dst, dst);
}

/* What follows is left out where k1 (AVX2: the vector mask) has no lane: a masked access to a page that is missing
 * reads nothing, and takes hundreds of cycles. Returns where it begins. */
static size_t if_any_lane(Encoder *e, int mask, int width)
{
    if (e->m->avx2) vcode(e, (Vcode){ 2, 1, 0, 0x0e, width, 0, false, false }, mask, 0, mask, NULL, 0, 0);
    else bytes(e, 0xc998f8c5, 4);                               /* kortestw k1, k1 */
    byte(e, 0x74), byte(e, 0);                                  /* jz */
    return e->out->size;
}

static void end_if(Encoder *e, size_t begin)
{
    if (!e->failed) e->out->data[begin - 1] = (uint8_t)(e->out->size - begin);
}

/* vmaskmov */
static Vcode masked_move(const Ins *i, bool store)
{
    return (Vcode){ 2, 1, 0, (store ? 0x2eu : 0x2cu) + (i->size == 8), i->width, 0, false, false };
}

static void load_masked(Encoder *e, const Ins *i)
{
    int c = vec(e, i->c, e->spare), dst = target(e, i->dst, e->spare + 1);
    if (e->m->avx2) {                                           /* other lanes are 0 or, of none, anything */
        size_t over = if_any_lane(e, c, i->width);
        Mem m = memory(e, &i->at);
        vcode(e, masked_move(i, false), dst, c, 0, &m, 1, 0);
        end_if(e, over);
        finish(e, i->dst, dst);
        return;
    }
    mask_from(e, c, mask_width(i));
    int a = vec(e, i->a, e->spare);
    vmove(e, dst, a, i->width);
    size_t begin = if_any_lane(e, 0, 0);
    Mem m = memory(e, &i->at);
    vcode(e, lanes_move(i->size, false, i->width), dst, 0, 0, &m, 0, 0);
    end_if(e, begin);
    finish(e, i->dst, dst);
}

static void store_masked(Encoder *e, const Ins *i)
{
    int c = vec(e, i->c, e->spare), a = vec(e, i->a, e->spare + 1);
    if (!e->m->avx2) mask_from(e, c, mask_width(i));
    size_t begin = if_any_lane(e, c, i->width);
    Mem m = memory(e, &i->at);
    if (e->m->avx2) vcode(e, masked_move(i, true), a, c, 0, &m, 1, 0);
    else vcode(e, lanes_move(i->size, true, i->width), a, 0, 0, &m, 0, 0);
    end_if(e, begin);
}

/* A mask of all bits in k1. */
static void mask_all(Encoder *e)
{
    number(e, RAX, 0xffff);
    byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x92), byte(e, 0xc8); /* kmovw k1, eax */
}

/* The index is a vector register: bit 4 of its number is V'. AVX2: the mask is a vector, which is cleared. */
static void gather(Encoder *e, const Ins *i)
{
    int index = vec(e, i->b, e->spare + 1), dst = target(e, i->dst, e->spare + 2), mask = 0;
    if (e->m->avx2) mask = vec(e, i->c, e->spare);
    else if (i->c) mask_from(e, vec(e, i->c, e->spare), mask_width(i));
    else mask_all(e);
    if (i->a) vmove(e, dst, vec(e, i->a, dst), i->width);
    int base = general(e, i->at.base, RCX), disp = (int)i->at.disp;
    bool d = i->size == 8;
    if (e->m->avx2) {
        vex(e, 2, 1, d, i->width == 32, dst, mask, index, base);
    } else {
        unsigned registers = (high(dst) ^ 1) << 7 | (high(index) ^ 1) << 6 | (high(base) ^ 1) << 5;
        byte(e, 0x62);
        byte(e, registers | (((unsigned)dst >> 4 & 1) ^ 1) << 4 | 2);
        byte(e, (unsigned)d << 7 | 15 << 3 | 4 | 1);
        byte(e, (i->width == 64 ? 2u : i->width == 32 ? 1u : 0u) << 5 | (((unsigned)index >> 4 & 1) ^ 1) << 3 | 1);
    }
    byte(e, 0x92);
    byte(e, 0x80 | (unsigned)(dst & 7) << 3 | 4);
    byte(e, log2_of(i->size) << 6 | (unsigned)(index & 7) << 3 | (unsigned)(base & 7));
    bytes(e, (uint64_t)disp, 4);
    finish(e, i->dst, dst);
}

static void all_lanes(Encoder *e, const Ins *i)
{
    int a = vec(e, i->a, e->spare), dst = target(e, i->dst, RAX);
    if (e->m->avx2) {                                           /* vmovmskps */
        vcode(e, (Vcode){ 1, 0, 0, 0x50, i->width, 0, false, false }, RAX, 0, a, NULL, 0, 0);
    } else {
        mask_from(e, a, i->width);
        byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x93), byte(e, 0xc1); /* kmovw eax, k1 */
    }
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
        int a = general(e, i->a, RAX), dst = target(e, i->dst, e->spare);
        vcode(e, (Vcode){ 1, 1, q, 0x6e, 16, 0, false, false }, dst, 0, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else if (i->op == M_TO_GENERAL) {
        int a = vec(e, i->a, e->spare), dst = target(e, i->dst, RAX);
        vcode(e, (Vcode){ 1, 1, q, 0x7e, 16, 0, false, false }, a, 0, dst, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else if (i->op == M_SPREAD) {
        int a = general(e, i->a, RAX), dst = target(e, i->dst, e->spare);
        unsigned code = i->size == 1 ? 0x7a : i->size == 2 ? 0x7b : 0x7c;
        if (e->m->avx2) {                                       /* by way of the first lane */
            code = i->size == 1 ? 0x78 : i->size == 2 ? 0x79 : i->size == 4 ? 0x58 : 0x59;
            vcode(e, (Vcode){ 1, 1, q, 0x6e, 16, 0, false, false }, dst, 0, a, NULL, 0, 0);
            vcode(e, (Vcode){ 2, 1, 0, code, i->width, 0, false, false }, dst, 0, dst, NULL, 0, 0);
        } else {
            vcode(e, (Vcode){ 2, 1, q, code, i->width, 0, false, false }, dst, 0, a, NULL, 0, 0);
        }
        finish(e, i->dst, dst);
    } else if (i->op == M_INT_TO_FLOAT) {
        int a = general(e, i->a, RAX), dst = target(e, i->dst, e->spare);
        vcode(e, (Vcode){ 1, 1, 0, 0xef, 16, 0, false, false }, dst, dst, dst, NULL, 0, 0); /* waits for nobody */
        vcode(e, (Vcode){ 1, q ? 3 : 2, 1, i->imm ? 0x7b : 0x2a, 16, 0, false, false }, dst, dst, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    } else {
        int a = vec(e, i->a, e->spare), dst = target(e, i->dst, RAX);
        vcode(e, (Vcode){ 1, q ? 3 : 2, 1, i->imm ? 0x78 : 0x2c, 16, 0, false, false }, dst, 0, a, NULL, 0, 0);
        finish(e, i->dst, dst);
    }
}

/* The registers that the function may change, and that are read behind it, are in the frame meanwhile. */
static void around_call(Encoder *e, uint32_t at, bool load)
{
    for (Reg r = 1; r < e->m->nreg; r++) {
        const RegInfo *v = info(e, r);
        if (!mcode_survives(v, at)) continue;
        Mem m = slot(e, r);
        if (v->cls == CLASS_GENERAL) rm(e, true, load ? 0x8b : 0x89, v->machine, &m, false);
        else if (load) vload(e, v->machine, &m, v->width, v->width);
        else vstore(e, v->machine, &m, v->width, v->width);
    }
}

/* Operands and the result go by way of words of the frame's head: their registers may be each other's. */
static void call(Encoder *e, const Ins *i)
{
    uint32_t at = (uint32_t)(i - e->m->ins);
    Mem word[2] = { { FRAME_BASE, -1, 1, 8, false }, { FRAME_BASE, -1, 1, 16, false } };
    vstore(e, vec(e, i->a, e->spare), &word[0], i->size, 16);
    if (i->b) vstore(e, vec(e, i->b, e->spare), &word[1], i->size, 16);
    around_call(e, at, false);
    for (int k = 0; k < (i->b ? 2 : 1); k++) vload(e, k, &word[k], i->size, 16);
    byte(e, 0xc5), byte(e, 0xf8), byte(e, 0x77);                /* vzeroupper */
    function(e, RAX, (uint32_t)i->imm);
    byte(e, 0xff), byte(e, 0xd0);
    vstore(e, 0, &word[0], i->size, 16);
    around_call(e, at, true);
    int dst = target(e, i->dst, e->spare);
    vload(e, dst, &word[0], i->size, 16);
    finish(e, i->dst, dst);
}

void encode_vector(Encoder *e, const Ins *i)
{
    Mem m;
    int r;
    switch (i->op) {
    case M_VMOVE:
        r = target(e, i->dst, e->spare);
        vmove(e, r, vec(e, i->b, e->spare), i->width);
        finish(e, i->dst, r);
        break;
    case M_VLOAD:
        m = memory(e, &i->at), r = target(e, i->dst, e->spare);
        vload(e, r, &m, i->size, i->width);
        finish(e, i->dst, r);
        break;
    case M_VSTORE:
        r = vec(e, i->a, e->spare), m = memory(e, &i->at);
        vstore(e, r, &m, i->size, i->width);
        break;
    case M_TEST:
        r = vec(e, i->b, e->spare);
        vcode(e, (Vcode){ 2, 1, 0, 0x27, i->width, 0, false, false }, 1, r, r, NULL, 0, 0);
        r = target(e, i->dst, e->spare);
        mask_to(e, r, i->width);
        finish(e, i->dst, r);
        break;
    case M_VLOADM: load_masked(e, i); break;
    case M_VSTOREM: store_masked(e, i); break;
    case M_PICK: pick(e, i); break;
    case M_BLEND: blend(e, i); break;
    case M_MAXNAN: max_nan(e, i); break;
    case M_GATHER: gather(e, i); break;
    case M_ALL: all_lanes(e, i); break;
    case M_CALL: call(e, i); break;
    default: between_files(e, i);
    }
}
