/* Text of a graph and back (print.h). A line: `%id = OP[.dtype] [(%src ..)] [attributes] [# shape]`; what follows # is
 * for the reader only. Attributes, each only where it says something: a CONST's value; n=NUMBER LETTER of a RANGE;
 * op=NAME and axes=[..] of a REDUCE; slot= and space= of memory; name=".." min= max= of a DEFINE_VAR; arg=NUMBER;
 * ints=[..], text="..", hex=.. for the bytes of any other op; tag=NUMBER. A new op needs nothing here unless its arg
 * wants a nicer name.
 */
#include "graph/print.h"

#include "graph/base/number.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const space_name[] = { "global", "local", "reg" };
enum { SPACES = 3, SRC_MAX = 1 << 20 };

/* ---- writing ---- */

static bool printable(const Blob *b)
{
    for (uint32_t i = 0; i < b->size; i++)
        if (!isprint(b->data[i]) || b->data[i] == '"' || b->data[i] == '\\') return false;
    return b->size > 0;
}

static void print_ints(Text *t, const char *name, const Blob *b)
{
    text_add(t, " %s=[", name);
    for (uint32_t i = 0; i < blob_count(b); i++) text_add(t, "%s%" PRId64, i ? "," : "", blob_ints(b)[i]);
    text_add(t, "]");
}

static void print_blob(Text *t, const UOp *u)
{
    const Blob *b = u->arg.blob;
    bool list = u->op == UOP_PERMUTE || u->op == UOP_FLIP || u->op == UOP_REDUCE || u->op == UOP_COPY;
    if (list && b->size % 8 == 0) print_ints(t, u->op == UOP_REDUCE ? "axes" : "ints", b);
    else if (printable(b)) text_add(t, " text=\"%.*s\"", (int)b->size, (const char *)b->data);
    else {
        text_add(t, " hex=");
        for (uint32_t i = 0; i < b->size; i++) text_add(t, "%02x", b->data[i]);
        if (!b->size) text_add(t, "-");
    }
}

/* The shortest decimal that reads back to the same value. */
static void print_float(Text *t, double v)
{
    char s[40];
    for (int digits = 6; digits <= 17; digits++) {
        number_print(s, sizeof s, "%.*g", digits, v);
        if (number_parse(s, NULL) == v) break;
    }
    text_add(t, "%s", isnan(v) ? "nan" : s);
}

static void print_const(Text *t, const UOp *u)
{
    if (dtype_is_float((DType)u->dtype)) print_float(t, uop_const_float(u));
    else if (u->dtype == DT_BOOL) text_add(t, "%s", u->arg.i ? "true" : "false");
    else text_add(t, "%" PRId64, u->arg.i);
}

static void print_arg(Text *t, const UOp *u)
{
    int64_t i = u->arg.i;
    switch (u->op) {
    case UOP_CONST: text_add(t, " "), print_const(t, u); return;
    case UOP_RANGE: text_add(t, " n=%d %c", range_number(u), axis_letter[range_type(u)]); return;
    case UOP_REDUCE: text_add(t, " op=%s", op_name((Op)i)); break;
    case UOP_PARAM: text_add(t, " slot=%" PRId64, i); break;
    case UOP_BUFFER: text_add(t, " slot=%" PRId64 " space=%s", buffer_slot(u), space_name[buffer_space(u)]); break;
    case UOP_DEFINE_VAR:
        text_add(t, " name=\"%s\" min=%" PRId64 " max=%" PRId64, var_name(u), u->vmin, u->vmax);
        return;
    default:
        if (i || (u->op == UOP_COPY && !u->arg.blob)) text_add(t, " arg=%" PRId64, i);
    }
    if (u->arg.blob) print_blob(t, u);
}

static void print_shape(Text *t, const UOp *u)
{
    text_add(t, "  # [");
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        text_add(t, k ? ", " : "");
        uop_print_expr(t, uop_dim(u, k));
    }
    text_add(t, "]");
}

void graph_print(Text *t, Graph *g, const UOp *root)
{
    Arena *scratch = arena_new();
    uint32_t n, *number = NEW_N(scratch, uint32_t, root->id + 1);
    const UOp **order = uop_toposort(g, &root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        number[u->id] = i;
        text_add(t, "%%%u = %s", i, op_name((Op)u->op));
        if (u->dtype != DT_VOID) text_add(t, ".%s", dtype_name((DType)u->dtype));
        for (uint32_t k = 0; k < u->nsrc; k++)
            text_add(t, "%s%%%u%s", k ? " " : " (", number[u->src[k]->id], k + 1 == u->nsrc ? ")" : "");
        print_arg(t, u);
        if (u->tag) text_add(t, " tag=%u", u->tag);
        if (uop_rank(u)) print_shape(t, u);
        text_add(t, "\n");
    }
    arena_free(scratch);
}

/* ---- one expression ---- */

enum { DEPTH = 40 };                        /* deeper parts print as ".." */
enum { BIND_WHERE, BIND_OR, BIND_AND, BIND_COMPARE, BIND_SUM, BIND_PRODUCT, BIND_UNARY };
typedef struct { uint8_t op, binds; const char *text; } Infix;
static const Infix infix[] = {
    { UOP_OR, BIND_OR, " | " },        { UOP_AND, BIND_AND, " & " },       { UOP_CMPLT, BIND_COMPARE, " < " }, { UOP_CMPNE, BIND_COMPARE, " != " },
    { UOP_ADD, BIND_SUM, " + " },      { UOP_MUL, BIND_PRODUCT, "*" },     { UOP_IDIV, BIND_PRODUCT, " // " }, { UOP_MOD, BIND_PRODUCT, " % " },
    { UOP_DIV, BIND_PRODUCT, " / " },  { UOP_SHL, BIND_PRODUCT, " << " },  { UOP_SHR, BIND_PRODUCT, " >> " },  { UOP_XOR, BIND_OR, " ^ " },
};

static void expr(Text *t, const UOp *u, int outer, int depth);

static void call(Text *t, const char *name, const UOp *u, uint32_t from, const char *brackets, int depth)
{
    text_add(t, "%s%c", name, brackets[0]);
    for (uint32_t k = from; k < u->nsrc; k++) {
        if (k > from) text_add(t, ", ");
        expr(t, u->src[k], BIND_WHERE, depth);
    }
    text_add(t, "%c", brackets[1]);
}

static bool leaf(Text *t, const UOp *u)
{
    switch (u->op) {
    case UOP_CONST: print_const(t, u); return true;
    case UOP_RANGE: text_add(t, "r%d", range_number(u)); return true;
    case UOP_PARAM: text_add(t, "p%" PRId64, u->arg.i); return true;
    case UOP_BUFFER:
        text_add(t, "%s%" PRId64, buffer_space(u) == SPACE_GLOBAL ? "b" : space_name[buffer_space(u)], buffer_slot(u));
        return true;
    case UOP_DEFINE_VAR: text_add(t, "%s", var_name(u)); return true;
    default: return false;
    }
}

static void expr(Text *t, const UOp *u, int outer, int depth)
{
    const Infix *in = NULL;
    if (leaf(t, u)) return;
    if (!depth--) {
        text_add(t, "..");
        return;
    }
    for (size_t k = 0; k < sizeof infix / sizeof *infix; k++)
        if (infix[k].op == u->op) in = &infix[k];
    bool inverts = u->op == UOP_CMPNE && u->src[0]->dtype == DT_BOOL && uop_is_int_const(u->src[1], 1),
         where = u->op == UOP_WHERE;
    int binds = inverts ? BIND_UNARY : where ? BIND_WHERE : in ? in->binds : BIND_UNARY;
    bool parens = (in || where) && !inverts && (binds < outer || (binds == outer && binds != BIND_SUM && !where));
    if (parens) text_add(t, "(");
    if (inverts) text_add(t, "!"), expr(t, u->src[0], BIND_UNARY, depth);
    else if (in)
        expr(t, u->src[0], binds - (binds == BIND_PRODUCT && u->src[0]->op == UOP_MUL), depth),
            text_add(t, "%s", in->text), expr(t, u->src[1], binds, depth);
    else if (where) {
        expr(t, u->src[0], BIND_OR, depth), text_add(t, " ? ");
        expr(t, u->src[1], BIND_OR, depth), text_add(t, " : ");
        expr(t, u->src[2], BIND_WHERE, depth);
    } else if (u->op == UOP_INDEX) expr(t, u->src[0], BIND_UNARY, depth), call(t, "", u, 1, "[]", depth);
    else if (u->op == UOP_CAST || u->op == UOP_BITCAST)
        call(t, u->op == UOP_CAST ? dtype_name((DType)u->dtype) : "bits", u, 0, "()", depth);
    else if (u->op == UOP_REDUCE) call(t, u->arg.i == UOP_ADD ? "sum" : op_name((Op)u->arg.i), u, 0, "()", depth);
    else call(t, op_name((Op)u->op), u, 0, "()", depth);
    if (parens) text_add(t, ")");
}

void uop_print_expr(Text *out, const UOp *u) { expr(out, u, BIND_WHERE, DEPTH); }

/* ---- reading ---- */

typedef struct {
    Graph *g;
    Arena *scratch;
    const char *at;
    int line;
    const UOp **node;
    uint32_t count, cap;
} Reader;

/* What a line says, before it becomes a node. */
typedef struct {
    Op op;
    DType dtype;
    int64_t i, least, largest;
    uint16_t tag;
    bool valued;
    const Blob *blob;
    const char *name;
    const UOp **src;
    uint32_t nsrc;
} Line;

static const UOp *bad(const Reader *r, const char *what)
{
    fail(TG_USAGE, "graph text, line %d: %s at '%.20s'", r->line, what, r->at);
    return NULL;
}

static void skip_blanks(Reader *r) { r->at += strspn(r->at, " \t"); }

static bool eat(Reader *r, const char *s)
{
    skip_blanks(r);
    size_t n = strlen(s);
    if (strncmp(r->at, s, n)) return false;
    r->at += n;
    return true;
}

static bool read_int(Reader *r, int64_t *out)
{
    char *end;
    *out = strtoll(r->at, &end, 10);
    bool ok = end != r->at;
    r->at = end;
    return ok;
}

static const char *read_word(Reader *r)
{
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
    const char *s = arena_strndup(r->scratch, r->at, n);
    r->at += n;
    return s;
}

static const char *read_quoted(Reader *r)
{
    const char *end = *r->at == '"' ? strchr(r->at + 1, '"') : NULL;
    if (!end) return NULL;
    const char *s = arena_strndup(r->scratch, r->at + 1, (size_t)(end - r->at - 1));
    r->at = end + 1;
    return s;
}

static int find_op(const char *s)
{
    for (int op = 0; op < UOP_COUNT; op++)
        if (!strcmp(s, op_info[op].name)) return op;
    return -1;
}

static int find_dtype(const char *s)
{
    for (int t = 0; t < DT_COUNT; t++)
        if (!strcmp(s, dtype_info[t].name)) return t;
    return -1;
}

static bool read_sources(Reader *r, Line *l)
{
    uint32_t cap = 0;
    int64_t id;
    while (!eat(r, ")")) {
        if (!eat(r, "%") || !read_int(r, &id) || id < 0 || id >= r->count) return false;
        if (l->nsrc == cap) {
            const UOp **more = NEW_N(r->scratch, const UOp *, cap = cap ? 2 * cap : 8);
            if (l->nsrc) memcpy(more, l->src, l->nsrc * sizeof *more);
            l->src = more;
        }
        l->src[l->nsrc++] = r->node[id];
    }
    return true;
}

static bool read_list(Reader *r, Line *l)
{
    int64_t v[256];
    uint32_t n = 0;
    if (!eat(r, "[")) return false;
    while (!eat(r, "]")) {
        if (n == 256 || !read_int(r, &v[n++])) return false;
        eat(r, ",");
    }
    l->blob = graph_ints(r->g, v, n);
    return true;
}

static bool read_hex(Reader *r, Line *l)
{
    size_t n = strspn(r->at, "0123456789abcdef") / 2;
    uint8_t *b = arena_alloc(r->scratch, n + 1);
    for (size_t i = 0; i < n; i++, r->at += 2) b[i] = (uint8_t)strtol((char[]){ r->at[0], r->at[1], 0 }, NULL, 16);
    eat(r, "-");
    l->blob = graph_blob(r->g, b, n);
    return true;
}

static bool read_value(Reader *r, Line *l)
{
    char *end;
    if (dtype_is_float(l->dtype)) {
        double v = number_parse(r->at, &end);
        l->i = uop_float(r->g, l->dtype, v)->arg.i;
        bool ok = end != r->at;
        r->at = end;
        return ok;
    }
    if (l->dtype != DT_BOOL) return read_int(r, &l->i);
    l->i = eat(r, "true");
    return l->i || eat(r, "false");
}

static bool read_space(Reader *r, Line *l)
{
    const char *s = read_word(r);
    for (int64_t k = 0; k < SPACES; k++)
        if (!strcmp(s, space_name[k])) return l->i |= k << 32, true;
    return false;
}

static bool read_range(Reader *r, Line *l)
{
    const char *letter;
    if (!read_int(r, &l->i) || l->i < 0 || l->i > 63) return false;
    skip_blanks(r);
    if (!*r->at || !(letter = memchr(axis_letter, *r->at, AXIS_COUNT))) return false;
    r->at++;
    l->i |= (int64_t)(letter - axis_letter) << 8;
    return true;
}

static bool read_attribute(Reader *r, Line *l)
{
    const char *s;
    int64_t v;
    if (eat(r, "n=")) return read_range(r, l);
    if (eat(r, "op=")) return (l->i = find_op(read_word(r))) >= 0;
    if (eat(r, "slot=")) return read_int(r, &v) && v >= 0 && v < INT64_C(1) << 32 && (l->i |= v, true);
    if (eat(r, "space=")) return read_space(r, l);
    if (eat(r, "axes=") || eat(r, "ints=")) return read_list(r, l);
    if (eat(r, "hex=")) return read_hex(r, l);
    if (eat(r, "text=")) return (s = read_quoted(r)) && (l->blob = graph_blob(r->g, s, strlen(s)));
    if (eat(r, "name=")) return (l->name = read_quoted(r)) != NULL;
    if (eat(r, "min=")) return read_int(r, &l->least);
    if (eat(r, "max=")) return read_int(r, &l->largest);
    if (eat(r, "arg=")) return read_int(r, &l->i);
    if (eat(r, "tag=")) return read_int(r, &v) && (l->tag = (uint16_t)v, true);
    return l->op == UOP_CONST && (l->valued = read_value(r, l));
}

/* A tensor-level BUFFER has a row in its graph; one without data stands in. */
static void buffer_rows(Reader *r, const UOp *b)
{
    if (b->op != UOP_BUFFER || buffer_space(b) != SPACE_GLOBAL) return;
    while (graph_buffer_count(r->g) <= buffer_slot(b) && buffer_slot(b) < SRC_MAX)
        graph_add_buffer(r->g, &(BufferInfo){ .dtype = (DType)b->dtype, .shape = b->shape });
}

static const UOp *made(Reader *r, const Line *l)
{
    const OpInfo *o = &op_info[l->op];
    if (l->nsrc < o->min_src || (l->nsrc > o->min_src && !o->var_src)) return bad(r, "wrong number of sources");
    if (l->op == UOP_DEFINE_VAR && !l->name) return bad(r, "a variable needs a name");
    if (l->op == UOP_CONST && (l->dtype == DT_VOID || !l->valued)) return bad(r, "a constant needs a type and a value");
    const UOp *u = l->op == UOP_DEFINE_VAR ? uop_var(r->g, l->name, l->least, l->largest)
                                           : uop_new(r->g, l->op, l->dtype, (Arg){ l->i, l->blob }, l->src, l->nsrc);
    buffer_rows(r, u);
    return l->tag ? uop_tagged(r->g, u, l->tag) : u;
}

static const UOp *read_line(Reader *r)
{
    int64_t id;
    Line l = { 0 };
    if (!eat(r, "%") || !read_int(r, &id) || id != r->count || !eat(r, "="))
        return bad(r, "expected the next %number =");
    skip_blanks(r);
    int op = find_op(read_word(r)), dtype = *r->at == '.' ? r->at++, find_dtype(read_word(r)) : DT_VOID;
    if (op < 0) return bad(r, "unknown op");
    if (dtype < 0) return bad(r, "unknown type");
    l.op = (Op)op, l.dtype = (DType)dtype;
    if (eat(r, "(") && !read_sources(r, &l)) return bad(r, "bad source");
    for (skip_blanks(r); *r->at && *r->at != '\n' && *r->at != '#'; skip_blanks(r))
        if (!read_attribute(r, &l)) return bad(r, "bad attribute");
    return made(r, &l);
}

const UOp *graph_parse(Graph *g, const char *text)
{
    Reader r = { .g = g, .scratch = arena_new(), .at = text, .line = 1 };
    const UOp *last = NULL;
    bool ok = true;
    for (; *r.at && ok; r.line++) {
        skip_blanks(&r);
        if (*r.at != '\n' && *r.at != '#' && *r.at) {
            if (r.count == r.cap) {
                const UOp **more = NEW_N(r.scratch, const UOp *, r.cap = r.cap ? 2 * r.cap : 64);
                if (r.count) memcpy(more, r.node, r.count * sizeof *more);
                r.node = more;
            }
            ok = (r.node[r.count++] = last = read_line(&r)) != NULL;
        }
        r.at += strcspn(r.at, "\n");
        r.at += *r.at == '\n';
    }
    arena_free(r.scratch);
    if (ok && !last) fail(TG_USAGE, "graph text: no node");
    return ok ? last : NULL;
}
