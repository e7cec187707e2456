/* The walk over instructions and the scalar expressions that C-like languages share. To add an op: a row in simple[] or
 * a case in cr_op. */
#include "backends/cstyle.h"
#include "graph/guard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    HELPER_IDIV = 1,
    HELPER_IMOD = 2,
    HELPER_FMOD = 4,
    HELPER_INDEX = 8,
    HELPER_NONZERO = 16,
    HELPER_SIZE = 32,
    HELPER_BROADCAST = 64,
    HELPER_FINITE = 128,
    HELPER_MAX = 256
};

const char *cr_text(CRender *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    return s;
}

void cr_line(CRender *r, const char *fmt, ...)
{
    va_list ap;
    for (int i = 0; i < r->depth; i++) text_bytes(r->out, "    ", 4);
    va_start(ap, fmt);
    text_vadd(r->out, fmt, ap);
    va_end(ap);
    text_bytes(r->out, "\n", 1);
}

/* ---- facts ---- */

uint32_t cr_lanes(const UOp *u) { return u->shape->rank == 1 ? (uint32_t)uop_size(u, 0) : 1; }

bool cr_by_lanes(const CRender *r, const UOp *u)
{
    uint32_t n = cr_lanes(u);
    return n > 1 && (!r->style->vectors || (n & (n - 1)) || (u->dtype == DT_INDEX && !r->vector[u->id]));
}

static const char *type_name(const CRender *r, DType t)
{
    return r->style->type ? r->style->type(t) : dtype_info[t].c_name;
}

const char *cr_type(const CRender *r, const UOp *u)
{
    return u->dtype == DT_INDEX && r->style->narrow_index && fits_int(u) ? "int" : type_name(r, (DType)u->dtype);
}

/* ---- expressions ---- */

static const char *const simple[UOP_COUNT] = {
    [UOP_ADD] = "(%s + %s)",        [UOP_MUL] = "(%s * %s)",         [UOP_DIV] = "(%s / %s)", [UOP_CMPLT] = "(%s < %s)",
    [UOP_CMPNE] = "(%s != %s)",     [UOP_XOR] = "(%s ^ %s)",         [UOP_OR] = "(%s | %s)",  [UOP_AND] = "(%s & %s)",
    [UOP_WHERE] = "(%s ? %s : %s)", [UOP_MULACC] = "(%s * %s + %s)",
};
static const char *const function[UOP_COUNT] = {
    [UOP_TRUNC] = "trunc", [UOP_SQRT] = "sqrt", [UOP_EXP2] = "exp2",
    [UOP_LOG2] = "log2",   [UOP_SIN] = "sin",   [UOP_POW] = "pow",
};

static const char *float_const(CRender *r, const UOp *u)
{
    double v = uop_const_float(u);
    const char *f = u->dtype == DT_F64 ? "" : "f";
    if (isnan(v)) return cr_text(r, "(0.0%s / 0.0%s)", f, f);
    if (isinf(v)) return cr_text(r, "%s(1.0%s / 0.0%s)", v < 0 ? "-" : "", f, f);
    const char *s = cr_text(r, u->dtype == DT_F64 ? "%.17g" : "%.9g", v);
    return cr_text(r, strpbrk(s, ".e") ? "%s%s" : "%s.0%s", s, f);
}

static const char *int_const(CRender *r, const UOp *u)
{
    int64_t v = u->arg.i;
    bool wide =
        u->dtype == DT_I64 || u->dtype == DT_U64 || (u->dtype == DT_INDEX && !(r->style->narrow_index && fits_int(u)));
    if (v == INT64_MIN) return "(-9223372036854775807L - 1)";
    if (u->dtype == DT_I32 && v == INT32_MIN) return "(-2147483647 - 1)";
    if (u->dtype == DT_U64) return cr_text(r, "%luUL", (unsigned long)v);
    if (u->dtype == DT_U32) return cr_text(r, "%luU", (unsigned long)v);
    return cr_text(r, wide && !fits_int(u) ? "%ldL" : "%ld", (long)v);
}

static bool never_negative(const UOp *u) { return u->vmin >= 0; }

static const char *division(CRender *r, const UOp *u, const char *const *o)
{
    const UOp *a = u->src[0], *b = u->src[1];
    bool div = u->op == UOP_IDIV, is_unsigned = dtype_info[u->dtype].kind == KIND_UINT;
    if (b->vmin > 0 && (never_negative(a) || is_unsigned))
        return cr_text(r, div ? "(%s / %s)" : "(%s %% %s)", o[0], o[1]);
    if (is_unsigned) return cr_text(r, div ? "(%s ? %s / %s : 0)" : "(%s ? %s %% %s : 0)", o[1], o[0], o[1]);
    if (b->vmin > 0 && div) return cr_text(r, "(%s / %s - (%s %% %s < 0))", o[0], o[1], o[0], o[1]);
    if (b->vmin > 0) return cr_text(r, "(%s %% %s + (%s %% %s < 0 ? %s : 0))", o[0], o[1], o[0], o[1], o[1]);
    r->helpers |= div ? HELPER_IDIV : HELPER_IMOD;
    return cr_text(r, "((%s)tg_%s(%s, %s))", cr_type(r, u), div ? "idiv" : "imod", o[0], o[1]);
}

static const char *shift(CRender *r, const UOp *u, const char *const *o)
{
    const UOp *n = u->src[1];
    const char *sign = u->op == UOP_SHL ? "<<" : ">>";
    int bits = dtype_info[u->dtype].bits;
    if (n->vmin >= 0 && n->vmax < bits) return cr_text(r, "(%s %s %s)", o[0], sign, o[1]);
    const char *limit = n->dtype == DT_U64 || n->vmin >= 0 ? "" : cr_text(r, "%s >= 0 && ", o[1]);
    bool fill = u->op == UOP_SHR && dtype_info[u->dtype].kind == KIND_SINT;
    return cr_text(r, "(%s%s < %d ? %s %s %s : %s)", limit, o[1], bits, o[0], sign, o[1],
                   fill ? cr_text(r, "(%s < 0 ? -1 : 0)", o[0]) : "0");
}

/* select has made sure that a float fits (graph/rules/decompose.c); of a NaN small integers take the low bits of what
 * the machine makes of it, which are 0. */
static const char *cast(CRender *r, const UOp *u, const char *a)
{
    DType to = (DType)u->dtype, from = (DType)u->src[0]->dtype;
    if (to == DT_BOOL) return cr_text(r, "(%s != 0)", a);
    if (dtype_is_float(from) && dtype_is_int(to) && dtype_info[to].bits < 32)
        return cr_text(r, "((%s)(int)%s)", type_name(r, to), a);
    if (dtype_is_float(from) && to == DT_U32) return cr_text(r, "((unsigned int)(long)%s)", a);
    return cr_text(r, "((%s)%s)", cr_type(r, u), a);
}

static const char *guard(CRender *r, const UOp *u, const char *const *o)
{
    static const struct { uint32_t helper; const char *name; } row[] = {
        [GUARD_INDEX] = { HELPER_INDEX, "index" }, [GUARD_NONZERO] = { HELPER_NONZERO, "nonzero" }, [GUARD_SIZE] = { HELPER_SIZE, "size" }, [GUARD_BROADCAST] = { HELPER_BROADCAST, "broadcast" },
        [GUARD_FINITE] = { HELPER_FINITE, "finite" },
    };
    GuardKind kind = guard_kind(u->arg);
    r->helpers |= row[kind].helper;
    return cr_text(r, "((%s)tg_%s(%s, %s, %s))", cr_type(r, u), row[kind].name, o[0], o[1], o[2]);
}

static const char *plain_op(CRender *r, const UOp *u, const char *const *o)
{
    DType t = (DType)u->dtype;
    bool is_float = dtype_is_float(t);
    const char *f = t == DT_F64 ? "" : "f";
    switch (u->op) {
    case UOP_CONST: return is_float ? float_const(r, u) : int_const(r, u);
    case UOP_CAST: return cast(r, u, o[0]);
    case UOP_BITCAST:
        return cr_text(r, "(((union { %s a; %s b; }){ %s }).b)", cr_type(r, u->src[0]), cr_type(r, u), o[0]);
    case UOP_RECIP: return cr_text(r, "(1.0%s / %s)", f, o[0]);
    case UOP_MAX:
        if (!is_float || u->tag == LOOSE_TAG) return cr_text(r, "(%s > %s ? %s : %s)", o[0], o[1], o[0], o[1]);
        r->helpers |= HELPER_MAX;
        return cr_text(r, "tg_max%s(%s, %s)", f, o[0], o[1]);
    case UOP_MIN: return cr_text(r, "(%s < %s ? %s : %s)", o[1], o[0], o[1], o[0]);
    case UOP_IDIV: return division(r, u, o);
    case UOP_MOD:
        if (!is_float) return division(r, u, o);
        r->helpers |= HELPER_FMOD;
        return cr_text(r, "((%s)tg_fmod(%s, %s))", type_name(r, t), o[0], o[1]);
    case UOP_SHL: case UOP_SHR: return shift(r, u, o);
    case UOP_GUARD: return guard(r, u, o);
    case UOP_ADD: if (t == DT_BOOL) return cr_text(r, "(%s | %s)", o[0], o[1]); break;
    default: break;
    }
    if (function[u->op]) {
        const char *name = cr_text(r, "%s%s%s", r->style->math, function[u->op], f);
        return op_info[u->op].min_src > 1 ? cr_text(r, "%s(%s, %s)", name, o[0], o[1])
                                          : cr_text(r, "%s(%s)", name, o[0]);
    }
    if (simple[u->op]) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        return cr_text(r, simple[u->op], o[0], o[1], op_info[u->op].min_src > 2 ? o[2] : "");
#pragma GCC diagnostic pop
    }
    r->status = fail(TG_UNSUPPORTED, "kernel %s: %s.%s has no rendering in %s", r->k->name, op_name((Op)u->op),
                     dtype_name(t), r->style->name);
    return "0";
}

/* C computes small integers as int: the result is cut back to the type. */
static bool wraps(const UOp *u)
{
    bool small = dtype_is_int((DType)u->dtype) && dtype_info[u->dtype].bits < 32;
    return small &&
        (u->op == UOP_ADD || u->op == UOP_MUL || u->op == UOP_SHL || u->op == UOP_XOR || u->op == UOP_MULACC ||
         u->op == UOP_IDIV);
}

const char *cr_op(CRender *r, const UOp *u, const char *const *operand)
{
    Text t = { 0 };
    const char *wide[3], *s;
    bool widen = r->style->narrow_index && u->dtype == DT_INDEX && !fits_int(u);
    for (uint32_t k = 0; widen && k < u->nsrc && k < 3; k++)
        wide[k] = u->src[k]->dtype == DT_INDEX && fits_int(u->src[k]) ? cr_text(r, "(long)%s", operand[k]) : operand[k];
    if (r->style->op && r->style->op(&t, u, operand)) s = cr_text(r, "%s", t.s);
    else s = plain_op(r, u, widen ? wide : operand);
    text_free(&t);
    return wraps(u) ? cr_text(r, "((%s)%s)", cr_type(r, u), s) : s;
}

/* ---- values ---- */

const char *cr_name(CRender *r, const UOp *u)
{
    if (!r->name[u->id]) r->name[u->id] = ++r->names;
    return r->expr[u->id] = cr_text(r, "v%u", r->name[u->id]);
}

/* Kernels that differ in what sizes are called alone are one text, and compiled once. */
static const char *variable(CRender *r, const UOp *var)
{
    uint32_t k = 0;
    while (k < r->k->nvar && strcmp(var_name(r->k->var[k]), var_name(var))) k++;
    return cr_text(r, "n%u", k);
}

const char *cr_value(CRender *r, const UOp *u)
{
    if (u->op == UOP_CONST) return cr_op(r, u, NULL);
    if (u->op == UOP_DEFINE_VAR) return variable(r, u);
    if (uop_is_address(u)) return cr_text(r, "(%s + %s)", cr_memory(r, u), cr_position(r, u, 0)); /* of a GUARD */
    if (r->expr[u->id]) return r->expr[u->id];
    r->status = fail(TG_INTERNAL, "kernel %s: %s is used before it is computed", r->k->name, op_name((Op)u->op));
    return "0";
}

static const char *op_of_lane(CRender *r, const UOp *u, uint32_t lane)
{
    const char *o[3] = { "", "", "" };
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) o[k] = cr_lane(r, u->src[k], lane);
    return cr_op(r, u, o);
}

const char *cr_lane(CRender *r, const UOp *u, uint32_t lane)
{
    if (cr_lanes(u) == 1 && u->op != UOP_STACK) return cr_value(r, u);
    if (u->op == UOP_STACK) return cr_value(r, u->src[lane]);
    if (!cr_by_lanes(r, u)) return cr_text(r, u->dtype == DT_BOOL ? "(%s[%u] & 1)" : "%s[%u]", cr_value(r, u), lane);
    if ((op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) && !r->name[u->id]) return op_of_lane(r, u, lane);
    return cr_text(r, "v%u_%u", r->name[u->id], lane);
}

const char *cr_memory(CRender *r, const UOp *address)
{
    const UOp *m = uop_addressed(address);
    if (m->op == UOP_PARAM) return cr_text(r, "p%ld", (long)m->arg.i);
    return cr_text(r, "%c%ld", buffer_space(m) == SPACE_REG ? 'r' : 's', (long)buffer_slot(m));
}

const char *cr_position(CRender *r, const UOp *a, uint32_t lane)
{
    if (a->op == UOP_INDEX) return cr_lane(r, a->src[1], lane);
    const UOp *i = a->src[1]->src[0];
    if (uop_is_const(i)) return cr_text(r, "%ld", (long)(i->arg.i + lane));
    return lane ? cr_text(r, "%s + %u", cr_value(r, i), lane) : cr_value(r, i);
}

const char *cr_element(CRender *r, const UOp *a, uint32_t lane)
{
    return cr_text(r, "%s[%s]", cr_memory(r, a), cr_position(r, a, lane));
}

/* ---- instructions ---- */

bool c_is_variable(const CRender *r, const UOp *m)
{
    return m->op == UOP_BUFFER && buffer_space(m) == SPACE_REG && !r->array[m->id];
}

static const char *place(CRender *r, const UOp *to, uint32_t lane, uint32_t lanes)
{
    if (!c_is_variable(r, to)) return cr_element(r, to, lane);
    return lanes > 1 ? cr_text(r, "%s_%u", cr_memory(r, to), lane) : cr_memory(r, to);
}

static const char *load_of_lane(CRender *r, const UOp *u, uint32_t lane)
{
    const char *s = place(r, u->src[0], lane, cr_lanes(u));
    return u->nsrc > 2 ? cr_text(r, "%s ? %s : %s", cr_lane(r, u->src[2], lane), s, cr_lane(r, u->src[1], lane)) : s;
}

static void store_line(CRender *r, const UOp *u)
{
    uint32_t n = cr_lanes(u->src[0]) > cr_lanes(u->src[1]) ? cr_lanes(u->src[0]) : cr_lanes(u->src[1]);
    for (uint32_t l = 0; l < n; l++) {
        const char *gate = u->nsrc > 2 ? cr_text(r, "if (%s) ", cr_lane(r, u->src[2], l)) : "";
        cr_line(r, "%s%s = %s;", gate, place(r, u->src[0], l, n), cr_lane(r, u->src[1], l));
    }
}

static void buffer_line(CRender *r, const UOp *u)
{
    const char *t = type_name(r, (DType)u->dtype), *m = cr_memory(r, u);
    if (buffer_space(u) == SPACE_LOCAL) {
        cr_line(r, "%s *%s = (%s *)((char *)scratch + %ld);", t, m, t, (long)r->local_offset);
        r->local_offset += (uop_numel(u) * dtype_size((DType)u->dtype) + 63) & ~INT64_C(63);
        return;
    }
    if (r->array[u->id]) cr_line(r, "%s %s[%ld];", t, m, (long)uop_numel(u));
    else if (cr_lanes(u) == 1) cr_line(r, "%s %s;", t, m);
    else for (uint32_t l = 0; l < cr_lanes(u); l++) cr_line(r, "%s %s_%u;", t, m, l);
}

static void range_line(CRender *r, const UOp *u)
{
    const char *i = r->expr[u->id] = cr_text(r, "i%d", range_number(u)), *t = cr_type(r, u);
    bool thread = range_type(u) == AXIS_THREAD;
    const char *first = thread ? "begin" : "0", *end = thread ? "end" : cr_value(r, u->src[0]);
    cr_line(r, "for (%s %s = %s; %s < %s; %s++) {", t, i, first, i, end, i);
    r->depth++;
    r->block++;
}

/* A horizontal reduction, lane by lane: shape (L) to (1). */
static void across_lanes(CRender *r, const UOp *u)
{
    const UOp *x = u->src[0];
    uint32_t n = cr_lanes(x);
    struct {
        UOp u;
        const UOp *src[2];
    } step = { { .op = (uint8_t)u->arg.i,
                 .dtype = u->dtype,
                 .tag = u->tag,
                 .nsrc = 2,
                 .vmin = x->vmin,
                 .vmax = x->vmax },
               { x, x } };
    const char *first = cr_lane(r, x, 0), *name = cr_name(r, u), *t = cr_type(r, u);
    cr_line(r, "%s %s = %s;", t, name, first);
    for (uint32_t l = 1; l < n; l++)
        cr_line(r, "%s = %s;", name, cr_op(r, &step.u, (const char *const[]){ name, cr_lane(r, x, l) }));
}

static const char *expression(CRender *r, const UOp *u, uint32_t lane)
{
    if (u->op == UOP_LOAD) return load_of_lane(r, u, lane);
    if (u->op == UOP_STACK) return cr_value(r, u->src[lane]);
    if (u->op == UOP_INDEX && u->nsrc == 2 && uop_is_const(u->src[1]))
        return cr_lane(r, u->src[0], (uint32_t)u->src[1]->arg.i);
    if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) return op_of_lane(r, u, lane);
    r->status =
        fail(TG_UNSUPPORTED, "kernel %s: %s has no rendering in %s", r->k->name, op_name((Op)u->op), r->style->name);
    return "0";
}

static bool may_inline(const CRender *r, const UOp *u)
{
    return (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST || u->op == UOP_INDEX) && r->uses[u->id] <= 1 &&
        !r->split[u->id];
}

static void value_line(CRender *r, const UOp *u)
{
    uint32_t n = cr_lanes(u);
    if (n == 1 && may_inline(r, u)) {
        r->expr[u->id] = expression(r, u, 0);
        return;
    }
    if (n > 1 && (u->op == UOP_STACK || may_inline(r, u))) return;                       /* cr_lane looks through */
    const char *t = cr_type(r, u), *e = n == 1 ? expression(r, u, 0) : NULL, **lane = NEW_N(r->arena, const char *, n);
    for (uint32_t l = 0; n > 1 && l < n; l++) lane[l] = expression(r, u, l);
    const char *name = cr_name(r, u);
    if (n == 1) cr_line(r, "const %s %s = %s;", t, name, e);
    for (uint32_t l = 0; n > 1 && l < n; l++) cr_line(r, "const %s %s_%u = %s;", t, name, l, lane[l]);
}

static void instruction(CRender *r, const UOp *u)
{
    if (r->style->line && r->style->line(r, u)) return;
    switch (u->op) {
    case UOP_PARAM: case UOP_CONST: case UOP_DEFINE_VAR: case UOP_GROUP: case UOP_SINK: break;
    case UOP_BUFFER: buffer_line(r, u); break;
    case UOP_RANGE: range_line(r, u); break;
    case UOP_IF: cr_line(r, "if (%s) {", cr_value(r, u->src[0])); r->depth++; r->block++; break;
    case UOP_END: case UOP_ENDIF: r->depth--; r->block++; cr_line(r, "}"); break;
    case UOP_STORE: store_line(r, u); break;
    case UOP_REDUCE: across_lanes(r, u); break;
    default: value_line(r, u);
    }
}

/* ---- what must be known before printing ---- */

static bool repeats_operands(const UOp *u)
{
    return u->op == UOP_MAX || u->op == UOP_MIN || u->op == UOP_IDIV || u->op == UOP_MOD || u->op == UOP_SHL ||
        u->op == UOP_SHR;
}

static void use(CRender *r, const UOp *user, const UOp *u)
{
    /* the vector, not its lane */
    if (r->style->vectors && uop_is_shuffle(user, (const UOp *[2]){ 0 })) u = u->src[0];
    if (uop_is_address(u) || (u->op == UOP_STACK && user->op == UOP_SHRINK)) {
        for (uint32_t k = 0; k < u->nsrc; k++)
            if (!(u->op == UOP_SHRINK && k == 2)) use(r, u, u->src[k]);
        if (uop_is_address(u) && u->src[0]->op == UOP_BUFFER) r->array[u->src[0]->id] = 1;
        return;
    }
    bool many = cr_lanes(user) > 1 && cr_lanes(u) == 1;          /* a scalar that every lane repeats */
    r->uses[u->id] += many || repeats_operands(user) ? 2 : 1;
    if (r->def_block[u->id] != r->block) r->split[u->id] = 1;
}

static void count_uses(CRender *r, const UOp *linear)
{
    uint32_t serial = 0, stack[128], top = 0;
    stack[0] = 0;
    for (uint32_t i = 0; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        r->block = stack[top];
        r->def_block[u->id] = r->block;
        bool memory = u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_END || u->op == UOP_ENDIF;
        for (uint32_t k = 0; k < u->nsrc && !memory; k++) use(r, u, u->src[k]);
        if ((u->op == UOP_RANGE || u->op == UOP_IF) && top < 127) stack[++top] = ++serial;
        if ((u->op == UOP_END || u->op == UOP_ENDIF) && top) top--;
    }
    for (uint32_t i = linear->nsrc; i-- > 0;) {
        const UOp *u = linear->src[i],
                  *part = u->op == UOP_LOAD && r->style->vector_part ? r->style->vector_part(u) : NULL;
        if (part) r->vector[part->id] = 1;
        bool whole = r->style->vectors && (cr_lanes(u) > 1 || u->op == UOP_STORE || u->op == UOP_REDUCE) &&
            !(u->dtype == DT_INDEX && !r->vector[u->id] && op_is((Op)u->op, FLAG_ALU));
        for (uint32_t k = 0; whole && k < u->nsrc; k++)
            if (!uop_is_address(u->src[k])) r->vector[u->src[k]->id] = 1;
    }
    r->block = 0;
}

void cstyle_helpers(Text *out, const CStyle *style, uint32_t helper)
{
    static const struct { uint32_t bit; const char *name, *body; } row[] = {
        { HELPER_IDIV, "IDIV", "long tg_idiv(long a, long b) { return b == 0 ? 0 : b == -1 ? (long)(0UL - (unsigned long)a) : a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }" },
        { HELPER_IMOD, "IMOD", "long tg_imod(long a, long b) { long m = b == 0 || b == -1 ? 0 : a % b; return m != 0 && (m < 0) != (b < 0) ? m + b : m; }" },
        { HELPER_INDEX, "INDEX", "long tg_index(long v, long n, volatile long *e) { if ((unsigned long)v < (unsigned long)n) return v; e[0] = v; e[1] = n + 1; return 0; }" },
        { HELPER_NONZERO, "NONZERO", "long tg_nonzero(long v, long n, volatile long *e) { if (v != n) return v; e[0] = 0; e[1] = 1; return 1; }" },
        { HELPER_SIZE, "SIZE", "long tg_size(long v, long n, volatile long *e) { if (v == n) return v; e[0] = v; e[1] = n + 1; return 1; }" },
        { HELPER_BROADCAST, "BROADCAST", "long tg_broadcast(long v, long n, volatile long *e) { if (v == n || v == 1) return v; e[0] = v; e[1] = n + 1; return 1; }" },
        { HELPER_FINITE, "FINITE", "float tg_finite(float v, float n, volatile long *e) { if (v - v != 0) e[0] = 0, e[1] = 1; return v; }" },
        /* one instruction, and a choice that is always the same without NaN; of one expression GCC makes branches */
        { HELPER_MAX, "MAX", "float tg_maxf(float a, float b) { float m = a > b ? a : b; return a != a ? a : m; }" },
        { HELPER_MAX, "MAX_F64", "double tg_max(double a, double b) { double m = a > b ? a : b; return a != a ? a : m; }" },
        { HELPER_FMOD, "FMOD", "double tg_fmod(double a, double b) { double m = FMOD(a, b); return m != 0 && (m < 0) != (b < 0) ? m + b : m; }" },
    };
    for (uint32_t k = 0; k < sizeof row / sizeof *row; k++) {
        if (!(helper & row[k].bit)) continue;
        text_add(out, "#ifndef TG_%s\n#define TG_%s\n", row[k].name, row[k].name);
        if (row[k].bit == HELPER_FMOD) text_add(out, "#define FMOD %sfmod\n", style->math);
        text_add(out, "%s %s\n#endif\n", style->inline_function ? style->inline_function : "static inline",
                 row[k].body);
    }
}

TgStatus cstyle_render(Text *out, const CStyle *style, const Kernel *k, const char *name)
{
    Arena *a = arena_new();
    Text body = { 0 };
    uint32_t ids = graph_count(k->g);
    CRender r = { .out = &body,
                  .style = style,
                  .k = k,
                  .arena = a,
                  .depth = 1,
                  .name = NEW_N(a, uint32_t, ids),
                  .uses = NEW_N(a, uint32_t, ids),
                  .def_block = NEW_N(a, uint32_t, ids),
                  .split = NEW_N(a, uint8_t, ids),
                  .vector = NEW_N(a, uint8_t, ids),
                  .array = NEW_N(a, uint8_t, ids),
                  .expr = NEW_N(a, const char *, ids),
                  .note = NEW_N(a, uint8_t, ids) };
    count_uses(&r, k->linear);
    for (uint32_t i = 0; i < k->linear->nsrc && !r.status; i++) instruction(&r, k->linear->src[i]);
    cstyle_helpers(out, style, r.helpers);
    if (style->preamble) style->preamble(&r, out);
    style->prologue(out, k, name);
    if (body.len) text_bytes(out, body.s, body.len);
    style->epilogue(out, k);
    text_free(&body);
    arena_free(a);
    return r.status;
}

typedef struct { CRender r; const char *(*leaf)(const void *from, const UOp *var); const void *from; } Sizes;

static const char *size_text(Sizes *s, const UOp *u)
{
    const char *o[3] = { "", "", "" };
    if (u->op == UOP_DEFINE_VAR) return s->leaf(s->from, u);
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) o[k] = size_text(s, u->src[k]);
    if (u->op == UOP_CONST || op_is((Op)u->op, FLAG_ALU)) return cr_op(&s->r, u, o);
    s->r.status = fail(TG_UNSUPPORTED, "a size is %s, which has no rendering in %s", op_name((Op)u->op),
                       s->r.style->name);
    return "0";
}

TgStatus cstyle_size(const char **out, Arena *a, const CStyle *style, const UOp *size,
                     const char *(*leaf)(const void *from, const UOp *var), const void *from, uint32_t *helper)
{
    const Kernel none = { .name = "" };
    Sizes s = { .r = { .style = style, .k = &none, .arena = a }, .leaf = leaf, .from = from };
    *out = size_text(&s, size);
    *helper |= s.r.helpers;
    return s.r.status;
}
