/* CUDA C of one kernel, on cstyle: vectors are one scalar a lane; a contiguous access whose position is provably a
 * multiple is one load or store of up to 16 bytes. No header is included: the 16-bit floats are structs of ours that
 * convert by instruction, and every operation on them rounds once, from float. LOCAL buffers lie one behind the other
 * in dynamic shared memory, 64 bytes aligned, in the order of their definitions. */
#include <stdio.h>
#include <string.h>

#include "backends/cstyle.h"
#include "backends/cuda/cuda.h"
#include "graph/base/number.h"
#include "graph/wmma.h"

static const char *type_name(DType t)
{
    return t == DT_F16 ? "tg_f16" : t == DT_BF16 ? "tg_bf16" : dtype_info[t].c_name;
}

/* ---- expressions ---- */

static bool narrow_op(Text *out, const UOp *u, const char *const *o)
{
    static const char *const infix[UOP_COUNT] = { [UOP_ADD] = "+", [UOP_MUL] = "*", [UOP_DIV] = "/" };
    static const char *const function[UOP_COUNT] = {
        [UOP_SQRT] = "sqrtf", [UOP_EXP2] = "exp2f", [UOP_LOG2] = "log2f", [UOP_SIN] = "sinf", [UOP_TRUNC] = "truncf"
    };
    const char *t = type_name((DType)u->dtype);
    if (infix[u->op]) text_add(out, "%s((float)%s %s (float)%s)", t, o[0], infix[u->op], o[1]);
    else if (function[u->op]) text_add(out, "%s(%s((float)%s))", t, function[u->op], o[0]);
    else if (u->op == UOP_RECIP) text_add(out, "%s(1.0f / (float)%s)", t, o[0]);
    else if (u->op == UOP_MULACC) text_add(out, "%s(fmaf((float)%s, (float)%s, (float)%s))", t, o[0], o[1], o[2]);
    else if (u->op == UOP_POW) text_add(out, "%s(powf((float)%s, (float)%s))", t, o[0], o[1]);
    else if (u->op == UOP_CAST) text_add(out, "%s((float)%s)", t, o[0]);
    return infix[u->op] || function[u->op] || u->op == UOP_RECIP || u->op == UOP_MULACC || u->op == UOP_POW ||
        u->op == UOP_CAST;
}

static void float_const(Text *out, const UOp *u)
{
    double v = uop_const_float(u);
    bool wide = u->dtype == DT_F64, narrow = dtype_is_half((DType)u->dtype);
    char digits[40];
    number_print(digits, sizeof digits, wide ? "%.17g" : "%.9g", v);
    if (narrow) text_add(out, "%s(", type_name((DType)u->dtype));
    if (v != v) text_add(out, wide ? "__longlong_as_double(0x7ff8000000000000)" : "__int_as_float(0x7fc00000)");
    else if (v - v != 0)
        text_add(out, "%s%s", v < 0 ? "-" : "",
                 wide ? "__longlong_as_double(0x7ff0000000000000)" : "__int_as_float(0x7f800000)");
    else text_add(out, "%s%s%s", digits, strpbrk(digits, ".e") ? "" : ".0", wide ? "" : "f");
    if (narrow) text_add(out, ")");
}

static bool cuda_op(Text *out, const UOp *u, const char *const *o)
{
    DType t = (DType)u->dtype;
    if (u->op == UOP_CONST && dtype_is_float(t)) return float_const(out, u), true;
    /* C++ computes in a wider type */
    if (u->op == UOP_BITCAST)
        return text_add(out, "tg_bits<%s>((%s)(%s))", type_name(t), type_name((DType)u->src[0]->dtype), o[0]), true;
    if (u->op == UOP_MULACC && (t == DT_F32 || t == DT_F64))
        return text_add(out, t == DT_F32 ? "fmaf(%s, %s, %s)" : "fma(%s, %s, %s)", o[0], o[1], o[2]), true;
    return dtype_is_half(t) && narrow_op(out, u, o);
}

/* ---- contiguous accesses ---- */

static uint32_t chunk(const UOp *address, uint32_t lanes)
{
    int64_t size = dtype_size((DType)address->dtype),
            at = address->op == UOP_SHRINK ? index_divisor(address->src[1]->src[0]) : 1;
    uint32_t n = (uint32_t)(16 / size);
    while (n > 1 && (lanes % n || at % n)) n /= 2;
    return n;
}

static const char *as_vector(CRender *r, const UOp *address, uint32_t lane, uint32_t n, const char *qualifier)
{
    return cr_text(r, "*(%stg_vec<%s, %u> *)(%s + %s)", qualifier, type_name((DType)address->dtype), n,
                   cr_memory(r, address), cr_position(r, address, lane));
}

static bool is_memory(const UOp *address)
{
    return address->op == UOP_SHRINK && (address->src[0]->op == UOP_PARAM || address->src[0]->op == UOP_BUFFER);
}

static bool vector_load(CRender *r, const UOp *u)
{
    uint32_t lanes = cr_lanes(u), n = is_memory(u->src[0]) ? chunk(u->src[0], lanes) : 1;
    const char *t = type_name((DType)u->dtype),
               *gate = u->nsrc > 2 && cr_lanes(u->src[2]) == 1 ? cr_value(r, u->src[2]) : NULL;
    if (n < 2 || (u->nsrc > 2 && !gate)) return false;
    const char *name = cr_name(r, u);
    for (uint32_t l = 0; l < lanes; l += n) {
        const char *from = as_vector(r, u->src[0], l, n, "const ");
        if (!gate) cr_line(r, "const tg_vec<%s, %u> %s_%uq = %s;", t, n, name, l, from);
        for (uint32_t i = 0; !gate && i < n; i++)
            cr_line(r, "const %s %s_%u = %s_%uq.v[%u];", t, name, l + i, name, l, i);
        for (uint32_t i = 0; gate && i < n; i++)
            cr_line(r, "%s %s_%u = %s;", t, name, l + i, cr_lane(r, u->src[1], l + i));
        if (gate) cr_line(r, "if (%s) {", gate);
        if (gate) cr_line(r, "    const tg_vec<%s, %u> %s_%uq = %s;", t, n, name, l, from);
        for (uint32_t i = 0; gate && i < n; i++) cr_line(r, "    %s_%u = %s_%uq.v[%u];", name, l + i, name, l, i);
        if (gate) cr_line(r, "}");
    }
    return true;
}

static bool vector_store(CRender *r, const UOp *u)
{
    uint32_t lanes = cr_lanes(u->src[0]), n = is_memory(u->src[0]) ? chunk(u->src[0], lanes) : 1;
    if (n < 2 || (u->nsrc > 2 && cr_lanes(u->src[2]) > 1)) return false;
    const char *gate = u->nsrc > 2 ? cr_text(r, "if (%s) ", cr_value(r, u->src[2])) : "";
    for (uint32_t l = 0; l < lanes; l += n) {
        Text v = { 0 };
        for (uint32_t i = 0; i < n; i++) text_add(&v, "%s%s", i ? ", " : "", cr_lane(r, u->src[1], l + i));
        cr_line(r, "%s%s = tg_vec<%s, %u>{ { %s } };", gate, as_vector(r, u->src[0], l, n, ""),
                type_name((DType)u->src[0]->dtype), n, v.s);
        text_free(&v);
    }
    return true;
}

/* ---- threads ---- */

static void special_line(CRender *r, const UOp *u)
{
    const char *name = (const char *)u->arg.blob->data, *t = cr_type(r, u);
    cr_line(r, "const %s %s = (%s)%s.%c;", t, cr_name(r, u), t, name[0] == 'g' ? "blockIdx" : "threadIdx",
            "xyz"[name[4] - '0']);
}

static void shared_line(CRender *r, const UOp *u)
{
    cr_line(r, "%s *const %s = (%s *)(tg_shared + %ld);", type_name((DType)u->dtype), cr_memory(r, u),
            type_name((DType)u->dtype), (long)r->local_offset);
    r->local_offset += (uop_numel(u) * dtype_size((DType)u->dtype) + 63) & ~INT64_C(63);
}

/* Always a statement of its own: inside another's condition not all lanes would come. The last warp of an odd workgroup
 * is not full. */
static void shuffle_line(CRender *r, const UOp *u)
{
    int64_t threads = r->k->block[0] ? uop_const_int(r->k->block[0]) : 1, rest = threads % 32;
    const char *mask = "0xffffffffu", *t = type_name((DType)u->dtype);
    uint32_t lanes = cr_lanes(u);
    if (rest) mask = cr_text(r, "(threadIdx.x < %ldu ? 0xffffffffu : 0x%xu)", (long)(threads - rest), (1u << rest) - 1);
    const char **value = NEW_N(r->arena, const char *, lanes);
    for (uint32_t l = 0; l < lanes; l++) value[l] = cr_lane(r, u->src[0], l);
    const char *name = cr_name(r, u);
    for (uint32_t l = 0; l < lanes; l++) {
        const char *out = lanes > 1 ? cr_text(r, "%s_%u", name, l) : name;
        if (dtype_is_half((DType)u->dtype))
            cr_line(r,
                    "const %s %s = tg_bits<%s>((unsigned short)__shfl_xor_sync(%s, (unsigned)tg_bits<unsigned "
                    "short>((%s)(%s)), %ld));",
                    t, out, t, mask, t, value[l], (long)u->arg.i);
        else if (dtype_info[u->dtype].bits < 32)
            cr_line(r, "const %s %s = (%s)__shfl_xor_sync(%s, (int)%s, %ld);", t, out, t, mask, value[l],
                    (long)u->arg.i);
        else cr_line(r, "const %s %s = __shfl_xor_sync(%s, %s, %ld);", t, out, mask, value[l], (long)u->arg.i);
    }
}

/* Two 16-bit elements to a register; a lane's parts stand in the instruction's order. */
static void add_registers(CRender *r, Text *out, const UOp *part)
{
    for (uint32_t l = 0; l < cr_lanes(part); l += 2)
        text_add(out, ", tg_pair(%s, %s)", cr_lane(r, part, l), cr_lane(r, part, l + 1));
}

/* A statement of its own: all lanes take part. */
static void wmma_line(CRender *r, const UOp *u)
{
    Text a = { 0 };
    uint32_t n = cr_lanes(u);
    add_registers(r, &a, u->src[0]);
    add_registers(r, &a, u->src[1]);
    for (uint32_t l = 0; l < n; l++) text_add(&a, ", %s", cr_lane(r, u->src[2], l));
    const char *name = cr_name(r, u);
    cr_line(r, "float %s_0, %s_1, %s_2, %s_3;", name, name, name, name);
    cr_line(r, "tg_%s(%s_0, %s_1, %s_2, %s_3%s);", wmma_of(u)->name, name, name, name, name, a.s);
    text_free(&a);
}

static bool cuda_line(CRender *r, const UOp *u)
{
    switch (u->op) {
    case UOP_SPECIAL: special_line(r, u); return true;
    case UOP_BARRIER: cr_line(r, "__syncthreads();"); return true;
    case UOP_SHUFFLE: shuffle_line(r, u); return true;
    case UOP_WMMA: wmma_line(r, u); return true;
    case UOP_BUFFER:
        if (buffer_space(u) == SPACE_LOCAL) shared_line(r, u);
        return buffer_space(u) == SPACE_LOCAL;
    case UOP_LOAD: return cr_lanes(u) > 1 && vector_load(r, u);
    case UOP_STORE: return cr_lanes(u->src[0]) > 1 && vector_store(r, u);
    default: return false;
    }
}

/* ---- the function ---- */

static const char types[] =
    "#ifndef TG_TYPES\n#define TG_TYPES\n"
    "template <class T, int N> struct __align__(sizeof(T) * N) tg_vec { T v[N]; };\n"
    "template <class To, class From> static __device__ __forceinline__ To tg_bits(From from) { union U { From from; To "
    "to; __device__ U() {} } u; u.from = from; return u.to; }\n"
    "struct tg_f16 {\n"
    "    unsigned short x;\n"
    "    tg_f16() = default;\n"
    "    __device__ __forceinline__ explicit tg_f16(float f) { asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(x) : \"f\"(f)); "
    "}\n"
    "    __device__ __forceinline__ operator float() const { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : "
    "\"h\"(x)); return f; }\n"
    "};\n"
    "struct tg_bf16 {\n"
    "    unsigned short x;\n"
    "    tg_bf16() = default;\n"
    "    __device__ __forceinline__ explicit tg_bf16(float f) { unsigned u = __float_as_uint(f); x = f != f ? 0x7fc0 : "
    "(u + 0x7fff + (u >> 16 & 1)) >> 16; }\n"
    "    __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)x << 16); }\n"
    "};\n#endif\n";

/* m16n8k16 of graph/wmma.def. */
static const char mma[] =
    "#ifndef TG_MMA\n#define TG_MMA\n"
    "template <class T> static __device__ __forceinline__ unsigned tg_pair(T a, T b) { return (unsigned)a.x | "
    "(unsigned)b.x << 16; }\n"
    "#define TG_MMA_OF(name, type) \\\n"
    "static __device__ __forceinline__ void name(float &d0, float &d1, float &d2, float &d3, unsigned a0, unsigned a1, "
    "unsigned a2, unsigned a3, \\\n"
    "                                            unsigned b0, unsigned b1, float c0, float c1, float c2, float c3) \\\n"
    "{ \\\n"
    "    asm(\"mma.sync.aligned.m16n8k16.row.col.f32.\" type \".\" type \".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
    "{%8, %9}, {%10, %11, %12, %13};\" \\\n"
    "        : \"=f\"(d0), \"=f\"(d1), \"=f\"(d2), \"=f\"(d3) : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), "
    "\"r\"(b1), \"f\"(c0), \"f\"(c1), \"f\"(c2), \"f\"(c3)); \\\n"
    "}\n"
    "TG_MMA_OF(tg_mma_f16, \"f16\")\nTG_MMA_OF(tg_mma_bf16, \"bf16\")\n#endif\n";

static void preamble(CRender *r, Text *out)
{
    bool used = false;
    text_add(out, "%s", types);
    for (uint32_t i = 0; i < r->k->linear->nsrc; i++) used |= r->k->linear->src[i]->op == UOP_WMMA;
    if (used) text_add(out, "%s", mma);
}

static DType param_type(const Kernel *k, uint32_t slot)
{
    for (uint32_t i = 0; i < k->linear->nsrc; i++)
        if (k->linear->src[i]->op == UOP_PARAM && k->linear->src[i]->arg.i == slot)
            return (DType)k->linear->src[i]->dtype;
    return k->param[slot].buffer ? (DType)k->param[slot].buffer->dtype : DT_U8;
}

static void prologue(Text *out, const Kernel *k, const char *name)
{
    long threads = k->block[0] ? (long)uop_const_int(k->block[0]) : 1;
    text_add(out, "extern \"C\" __global__ void __launch_bounds__(%ld) %s(", threads, name);
    for (uint32_t i = 0; i < k->nparam; i++)
        text_add(out, "%s%s%s *__restrict__ p%u", i ? ", " : "",
                 k->param[i].written || k->param[i].guard ? "" : "const ", type_name(param_type(k, i)), i);
    for (uint32_t i = 0; i < k->nvar; i++) text_add(out, "%sconst long n%u", i || k->nparam ? ", " : "", i);
    text_add(out, ")\n{\n");
    if (k->shared_bytes) text_add(out, "    extern __shared__ __align__(64) unsigned char tg_shared[];\n");
}

static void epilogue(Text *out, const Kernel *k)
{
    (void)k;
    text_add(out, "}\n");
}

static const CStyle style = {
    .name = "CUDA C",
    .narrow_index = true,
    .math = "",
    .inline_function = "static __device__ __forceinline__",
    .prologue = prologue,
    .epilogue = epilogue,
    .op = cuda_op,
    .type = type_name,
    .line = cuda_line,
    .preamble = preamble,
};

TgStatus cuda_render(Text *out, const Kernel *k) { return cstyle_render(out, &style, k, k->name); }
