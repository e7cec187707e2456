/* C with GCC's and Clang's vector types. Scalars, loops and addresses come from backends/cstyle.c; here are
 * instructions on vectors of 2, 4 .. lanes (vectors.h) and the frame of a kernel. What wants machine instructions: a
 * row in helper[] (helpers.c). */
#include <string.h>

#include "backends/cpu/vectors.h"
#include "graph/wmma.h"

/* ---- instructions on vectors ---- */

static void define(CRender *r, const UOp *u, const char *s)
{
    const char *t = cv_type(r, cv_element(r, u), cr_lanes(u));
    cr_line(r, "const %s %s = %s;", t, cr_name(r, u), s);
}

/* Memory's lanes as a value: bools become a mask. */
static const char *vector_at(CRender *r, const UOp *a, uint32_t lanes)
{
    const char *s = cr_text(r, "*(const %s *)(%s + %s)", cv_memory(r, cv_element_of((DType)a->dtype), lanes),
                            cr_memory(r, a), cr_position(r, a, 0));
    return a->dtype == DT_BOOL ? cr_text(r, "((%s)(%s != 0))", cv_type(r, E_I8, lanes), s) : s;
}

static const char *gather_item(CRender *r, const UOp *u, uint32_t l)
{
    const char *s = cr_element(r, u->src[0], l);
    return u->nsrc > 2 ? cr_text(r, "(%s ? %s : %s)", cr_lane(r, u->src[2], l), s, cr_lane(r, u->src[1], l)) : s;
}

/* The float type whose masked access moves elements of this type, or -1. */
static int masked_as(int e, uint32_t lanes)
{
    uint32_t bytes = cv_kind[e].bytes * lanes;
    if (cv_kind[e].bytes < 4 || lanes < 4 || bytes > 64) return -1;
    return cv_kind[e].bytes == 4 ? E_F32 : E_F64;
}

/* What of an INDEX's position differs by lane, where that fits the machine's gather; NULL: it is loaded lane by lane.
 */
static const UOp *gathered_by(const UOp *load)
{
    const UOp *a = load->src[0], *at = a->op == UOP_INDEX ? a->src[1] : NULL;
    uint32_t lanes = cr_lanes(load);
    if (!at || (lanes & (lanes - 1)) || load->dtype == DT_BOOL ||
        masked_as(cv_element_of((DType)load->dtype), lanes) < 0)
        return NULL;
    while (at->op == UOP_ADD && (cr_lanes(at->src[0]) == 1 || cr_lanes(at->src[1]) == 1))
        at = at->src[cr_lanes(at->src[0]) == 1];
    return cr_lanes(at) == lanes && fits_int(at) && (at->op != UOP_STACK || uop_constants(at)) ? at : NULL;
}

static void gather(CRender *r, const UOp *u, const UOp *part, uint32_t lanes)
{
    int e = cv_element(r, u), m = masked_as(e, lanes);
    const char *t = cv_type(r, e, lanes), *f = cv_type(r, m, lanes), *base = cr_memory(r, u->src[0]),
               *at = cv_whole(r, part, E_I32, lanes);
    for (const UOp *i = u->src[0]->src[1]; i != part; i = i->src[cr_lanes(i->src[0]) == 1])
        base = cr_text(r, "%s + %s", base, cr_value(r, i->src[cr_lanes(i->src[0]) > 1]));
    cv_want(r, H_GATHER);
    if (u->nsrc < 3) define(r, u, cr_text(r, "(%s)tg_gather_%s(%s, %s)", t, f, base, at));
    else
        define(r, u,
               cr_text(r, "(%s)tg_gather_if_%s(%s, %s, %s, (%s)%s)", t, f, base, at,
                       cv_whole(r, u->src[2], E_I32, lanes), f, cv_whole(r, u->src[1], e, lanes)));
}

static const char *all_true(CRender *r, const UOp *gate, uint32_t lanes)
{
    if (lanes == 16 || lanes == 8 || lanes == 4) {
        cv_want(r, H_ALL);
        return cr_text(r, "tg_all_i32x%u(%s)", lanes, cv_whole(r, gate, E_I32, lanes));
    }
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++) text_add(&t, "%s%s[%u]", l ? " & " : "", cr_value(r, gate), l);
    const char *s = cr_text(r, "%s", t.s);
    text_free(&t);
    return s;
}

/* A vector gate: the machine's masked access; for small types one access when all lanes are on, else lane by lane. */
static void masked_load(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = cv_element(r, u), m = masked_as(e, lanes);
    const char *t = cv_type(r, e, lanes), *f = cv_type(r, m, lanes), *gate = cv_whole(r, u->src[2], E_I32, lanes);
    cv_want(r, H_MASKED);
    define(r, u,
           cr_text(r, "(%s)tg_load_%s(%s + %s, %s, (%s)%s)", t, f, cr_memory(r, a), cr_position(r, a, 0), gate, f,
                   cv_whole(r, u->src[1], e, lanes)));
}

static void gated_load(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = cv_element(r, u);
    const char *all = all_true(r, u->src[2], lanes), *at = vector_at(r, a, lanes),
               *alt = cv_whole(r, u->src[1], e, lanes), *v = cr_name(r, u);
    const char *one = cr_text(r, "%s[%s + l]", cr_memory(r, a), cr_position(r, a, 0));
    cr_line(r, "%s %s = %s;", cv_type(r, e, lanes), v, alt);
    cr_line(r, "if (%s) %s = %s;", all, v, at);
    cr_line(r, "else for (int l = 0; l < %u; l++) if (%s[l]) %s[l] = %s;", lanes, cr_value(r, u->src[2]), v,
            u->dtype == DT_BOOL ? cr_text(r, "-(%s != 0)", one) : one);
}

static void load_line(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = cv_element(r, u);
    const UOp *part = gathered_by(u);
    if (c_is_variable(r, a)) define(r, u, cr_memory(r, a));
    else if (part) gather(r, u, part, lanes);
    else if (a->op == UOP_INDEX) define(r, u, cv_list(r, e, lanes, gather_item, u));
    else if (u->nsrc < 3 || u->src[2]->vmin == 1) define(r, u, vector_at(r, a, lanes));
    else if (cr_lanes(u->src[2]) == 1)
        define(r, u,
               cr_text(r, "%s ? (%s)%s : %s", cr_value(r, u->src[2]), cv_type(r, e, lanes), vector_at(r, a, lanes),
                       cv_whole(r, u->src[1], e, lanes)));
    else if (masked_as(e, lanes) >= 0) masked_load(r, u, lanes);
    else gated_load(r, u, lanes);
}

static void scatter(CRender *r, const UOp *u, uint32_t lanes)
{
    for (uint32_t l = 0; l < lanes; l++) {
        const char *gate = u->nsrc > 2 ? cr_text(r, "if (%s) ", cr_lane(r, u->src[2], l)) : "";
        cr_line(r, "%s%s = %s;", gate, cr_element(r, u->src[0], l), cr_lane(r, u->src[1], l));
    }
}

static const char *stored(CRender *r, const UOp *v, DType t, uint32_t lanes)
{
    if (t == DT_BOOL) return cr_text(r, "(%s)(%s & 1)", cv_type(r, E_U8, lanes), cv_whole(r, v, E_I8, lanes));
    return cv_whole(r, v, cv_element_of(t), lanes);
}

static void vector_store(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0], *gate = u->nsrc > 2 && u->src[2]->vmin != 1 ? u->src[2] : NULL;
    int e = cv_element_of((DType)a->dtype), m = gate && cr_lanes(gate) > 1 ? masked_as(e, lanes) : -1;
    if (a->op == UOP_INDEX) {
        scatter(r, u, lanes);
        return;
    }
    const char *v = stored(r, u->src[1], (DType)a->dtype, lanes), *to = cv_memory(r, e, lanes);
    if (m >= 0) {
        cv_want(r, H_MASKED);
        cr_line(r, "tg_store_%s(%s + %s, %s, (%s)%s);", cv_type(r, m, lanes), cr_memory(r, a), cr_position(r, a, 0),
                cv_whole(r, gate, E_I32, lanes), cv_type(r, m, lanes), v);
        return;
    }
    const char *at = cr_text(r, "%s + %s", cr_memory(r, a), cr_position(r, a, 0));
    uint32_t bytes = lanes * (uint32_t)cv_kind[e].bytes;
    if (!gate && bytes >= 16 && bytes <= 64 && a->src[0]->op == UOP_PARAM &&
        kernel_streams(r->k, (uint32_t)a->src[0]->arg.i)) {
        cv_want(r, H_STREAM);
        cr_line(r, "tg_stream(%s, %u, %s, %s);", to, bytes, at, v);
    } else if (!gate || cr_lanes(gate) == 1)
        cr_line(r, "%s*(%s *)(%s) = %s;", gate ? cr_text(r, "if (%s) ", cr_value(r, gate)) : "", to, at, v);
    else {
        cr_line(r, "{");
        r->depth++;
        cr_line(r, "const %s x = %s;", cv_type(r, e, lanes), v);
        cr_line(r, "if (%s) *(%s *)(%s) = x;", all_true(r, gate, lanes), to, at);
        cr_line(r, "else for (int l = 0; l < %u; l++) if (%s[l]) (%s)[l] = x[l];", lanes, cr_value(r, gate), at);
        r->depth--;
        cr_line(r, "}");
    }
}

/* n lanes of x beginning with `from`; beyond the last of its `width` come the same again. */
static const char *lanes_from(CRender *r, const char *x, uint32_t from, uint32_t n, uint32_t width)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < n; l++) text_add(&t, ", %u", from + l < width ? from + l : from);
    const char *s = cr_text(r, "__builtin_shufflevector(%s, %s%s)", x, x, t.s ? t.s : "");
    text_free(&t);
    return s;
}

/* A horizontal reduction: halves are joined, the last four lanes without leaving their register. */
static void across(CRender *r, const UOp *u)
{
    int e = cv_element(r, u->src[0]);
    bool mask = u->dtype == DT_BOOL, max = u->arg.i == UOP_MAX && !mask;
    const char *x = cr_value(r, u->src[0]), *v = cr_name(r, u),
               *sign = u->arg.i == UOP_MUL ? mask ? "&" : "*"
        : mask                             ? "|"
                                           : "+";
    uint32_t width = cr_lanes(u->src[0]);
    for (uint32_t h = width / 2; h > 0 && width > 2; h /= 2) {
        uint32_t n = h < 4 ? 4 : h;
        const char *t = cv_type(r, e, n), *a = n == width ? x : cr_text(r, "%s_%ua", v, h),
                   *b = cr_text(r, "%s_%ub", v, h);
        if (n < width) cr_line(r, "const %s %s = %s;", t, a, lanes_from(r, x, 0, n, width));
        cr_line(r, "const %s %s = %s;", t, b, lanes_from(r, x, h, n, width));
        cr_line(r, "const %s %s_%u = %s;", t, v, h,
                max ? cv_max(r, a, b, u->tag == LOOSE_TAG, e, n) : cr_text(r, "%s %s %s", a, sign, b));
        x = cr_text(r, "%s_%u", v, h);
        width = n;
    }
    const char *last = width > 2 ? cr_text(r, "%s[0]", x)
        /* so it is no branch on data: an instruction, and one that is foreseen */
        : max ? cr_text(r, "%s[0] != %s[0] ? %s[0] : %s[0] > %s[1] ? %s[0] : %s[1]", x, x, x, x, x, x, x)
              : cr_text(r, "%s[0] %s %s[1]", x, sign, x);
    cr_line(r, mask ? "const %s %s = (%s) & 1;" : "const %s %s = %s;", cr_type(r, u), v, last);
}

static void dot_product(CRender *r, const UOp *u, uint32_t lanes)
{
    const char *c = cv_whole(r, u->src[2], cv_element(r, u), lanes);
    cv_want(r, H_DOT);
    cv_type(r, E_I32, lanes);                                       /* a's lanes are made as such */
    define(r, u, cr_text(r, "tg_%s(%s, %s, %s)", wmma_of(u)->name, c, cr_value(r, u->src[0]), cr_value(r, u->src[1])));
}

/* Lanes of one or two vectors, in a new order. */
static const char *shuffle(CRender *r, const UOp *u, const UOp *const *of, uint32_t lanes)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++)
        text_add(&t, ", %u", (unsigned)u->src[l]->src[1]->arg.i + (u->src[l]->src[0] != of[0] ? cr_lanes(of[0]) : 0));
    const char *s =
        cr_text(r, "__builtin_shufflevector(%s, %s%s)", cr_value(r, of[0]), cr_value(r, of[of[1] != NULL]), t.s);
    text_free(&t);
    return s;
}

static const char *stack_item(CRender *r, const UOp *u, uint32_t l) { return cr_value(r, u->src[l]); }

static bool store_line(CRender *r, const UOp *u)
{
    const UOp *a = u->src[0];
    uint32_t n = cr_lanes(a) > cr_lanes(u->src[1]) ? cr_lanes(a) : cr_lanes(u->src[1]);
    if (n < 2 || (n & (n - 1))) return false;
    if (c_is_variable(r, a)) cr_line(r, "%s = %s;", cr_memory(r, a), cv_whole(r, u->src[1], cv_element(r, a), n));
    else vector_store(r, u, n);
    return true;
}

static bool vector_line(CRender *r, const UOp *u)
{
    const UOp *of[2];
    uint32_t n = cr_lanes(u);
    if (u->op == UOP_RANGE) return cpu_prefetch_epilogue(r, u), false;
    if (u->op == UOP_END) return cpu_prefetch_rows(r, u), false;
    if (cpu_tile_line(r, u)) return true;
    if (u->op == UOP_STORE) return store_line(r, u);
    if (u->op == UOP_REDUCE && cr_lanes(u->src[0]) > 1 && !cr_by_lanes(r, u->src[0])) return across(r, u), true;
    if (n < 2 || (n & (n - 1)) || cr_by_lanes(r, u)) return false;
    if (u->op == UOP_LOAD) return cpu_prefetch_panel(r, u), load_line(r, u, n), true;
    if (uop_is_shuffle(u, of)) return define(r, u, shuffle(r, u, of, n)), true;
    if (u->op == UOP_STACK) return define(r, u, cv_list(r, cv_element(r, u), n, stack_item, u)), true;
    if (c_is_variable(r, u)) return cr_line(r, "%s %s;", cv_type(r, cv_element(r, u), n), cr_memory(r, u)), true;
    if (u->op == UOP_WMMA) return dot_product(r, u, n), true;
    if (!op_is((Op)u->op, FLAG_ALU) && u->op != UOP_BITCAST) return false;
    define(r, u, cv_op(r, u, cv_element(r, u), n));
    return true;
}

/* ---- scalars of our own, the frame ---- */

static const char *scalar_type(DType t)
{
    return t == DT_F16 || t == DT_BF16 ? "unsigned short" : dtype_info[t].c_name;
}

/* v is a value of the type already: nothing to round. */
unsigned cpu_half_bits(DType t, double v)
{
    float f = (float)v;
    uint32_t i;
    memcpy(&i, &f, 4);
    if (t == DT_BF16) return i >> 16;
    uint32_t sign = i >> 16 & 0x8000, a = i & 0x7fffffff;
    if (a >= 0x7f800000) return a > 0x7f800000 ? 0x7e00 : sign | 0x7c00;
    if (a < 0x38800000) return sign | (unsigned)(__builtin_fabs(v) * 0x1p24);
    return sign | ((a - 0x38000000) >> 13);
}

/* Compilers make a branch of it, which data mispredict. */
static bool is_choice(const UOp *u) { return u->op == UOP_WHERE && u->dtype == DT_F32 && cr_lanes(u) == 1; }

static bool scalar_op(Text *out, const UOp *u, const char *const *o)
{
    DType t = (DType)u->dtype, from = u->nsrc ? (DType)u->src[0]->dtype : DT_VOID;
    if (u->op == UOP_CONST && (t == DT_F16 || t == DT_BF16))
        return text_add(out, "%u", cpu_half_bits(t, uop_const_float(u))), true;
    if (u->op == UOP_EXP2 && t == DT_F32) return text_add(out, "tg_exp2(%s)", o[0]), true;
    if (is_choice(u)) return text_add(out, "tg_choose(%s, %s, %s)", o[0], o[1], o[2]), true;
    if (u->op != UOP_CAST || t == from) return false;
    if (from == DT_F16 || from == DT_BF16)
        return text_add(out, "%s(%s)", from == DT_F16 ? "tg_f16" : "tg_bf16", o[0]), true;
    if (t == DT_F16 || t == DT_BF16)
        return text_add(out, "%s(%s)", t == DT_F16 ? "tg_to_f16" : "tg_to_bf16", o[0]), true;
    return false;
}

static bool is_half(const UOp *u) { return dtype_is_half((DType)u->dtype); }

static void typedefs(const CRender *r, Text *out)
{
    for (int e = 0; e < E_COUNT; e++)
        for (int n = 1; n < 8; n++) {
            int bit = e * 8 + n, lanes = 1 << n;
            const char *name = cv_kind[e].name;
            if (r->used[USED_VALUE + bit / 64] >> (bit % 64) & 1)
                text_add(out, "typedef %s %sx%d __attribute__((vector_size(%d)));\n", cv_kind[e].c, name, lanes,
                         cv_kind[e].bytes * lanes);
            if (r->used[USED_MEMORY + bit / 64] >> (bit % 64) & 1)
                text_add(out, "typedef %sx%d %sx%dm __attribute__((aligned(%d), may_alias));\n", name, lanes, name,
                         lanes, cv_kind[e].bytes);
        }
}

static void preamble(CRender *r, Text *out)
{
    const UOp *l = r->k->linear;
    for (uint32_t i = 0; i < l->nsrc; i++)
        if (l->src[i]->op == UOP_CAST && (is_half(l->src[i]) || is_half(l->src[i]->src[0]))) cv_want(r, H_HALF);
    for (uint32_t i = 0; i < l->nsrc; i++) {
        if (l->src[i]->op == UOP_EXP2 && l->src[i]->dtype == DT_F32) cv_want(r, H_EXP2);
        if (is_choice(l->src[i])) cv_want(r, H_CHOOSE);
    }
    typedefs(r, out);
    if (cpu_has_tiles(r->k)) cpu_tile_sizes(r, out);
    for (int h = 0; h < H_COUNT; h++)
        if (r->used[USED_HELPER] >> h & 1)
            text_add(out, "#ifndef TG_HELPER_%d\n#define TG_HELPER_%d\n%s#endif\n", h, h, cpu_helper[h]);
}

static void prologue(Text *out, const Kernel *k, const char *name)
{
    text_add(out, "void %s(void *const *args, const long *vars, long begin, long end, void *scratch)\n{\n", name);
    for (uint32_t i = 0; i < k->linear->nsrc; i++) {
        const UOp *u = k->linear->src[i];
        const char *t = scalar_type((DType)u->dtype);
        if (u->op == UOP_PARAM)
            text_add(out, "    %s *p%ld = (%s *)args[%ld];\n", t, (long)u->arg.i, t, (long)u->arg.i);
    }
    for (uint32_t i = 0; i < k->nvar; i++) text_add(out, "    const long n%u = vars[%u];\n", i, i);
    if (cpu_has_tiles(k)) text_add(out, "    __asm__ volatile(\"ldtilecfg %%0\" : : \"m\"(TG_TILES_HERE));\n");
}

static void epilogue(Text *out, const Kernel *k)
{
    bool streams = false;
    for (uint32_t i = 0; i < k->nparam; i++) streams |= kernel_streams(k, i);
    if (streams) text_add(out, "    __builtin_ia32_sfence();\n");      /* before others are to see them */
    if (cpu_has_tiles(k)) text_add(out, "    __asm__ volatile(\"tilerelease\" : : );\n");
    text_add(out, "}\n");
}

const CStyle cpu_style = {
    .name = "C",
    .vectors = true,
    .math = "__builtin_",
    .inline_function = "static inline",
    .prologue = prologue,
    .epilogue = epilogue,
    .op = scalar_op,
    .type = scalar_type,
    .line = vector_line,
    .vector_part = gathered_by,
    .preamble = preamble,
};
