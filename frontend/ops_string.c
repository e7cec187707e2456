/* Operators that look into strings. In: string tensors known at import (text.h). Out: constants, so that nothing of the strings reaches the graph; a session compiles
 * once for each value of such an input. Case follows Unicode by the C.UTF-8 tables of the C library; patterns are POSIX extended regular expressions with \w \d \s \b.
 * To add one: a function here, a row in ops.def, a row in text_use.
 */
#include <locale.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "frontend/narrow.h"
#include "frontend/text.h"
#include "graph/base/map.h"
#include "graph/base/number.h"
#include "graph/base/text.h"
#include "graph/guard.h"

static bool attr_strings(Graph *g, const Ctx *c, const char *name, const char *const **out, uint32_t *n)
{
    const Attr *a = attr_find(c, name);
    *out = NULL, *n = 0;
    if (!a) return false;
    if (a->type != ATTR_STRINGS) return fail_node(g, c, TG_BAD_MODEL, name, "wanted strings"), false;
    return *out = a->strings, *n = a->n, true;
}

/* ---- characters ---- */

/* One code point; bytes that are none stand for themselves. */
static uint32_t decode(const char **s)
{
    const unsigned char *p = (const unsigned char *)*s;
    int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : 0;
    uint32_t v = more ? *p & (0x3f >> more) : *p;
    for (int k = 1; k <= more; k++) {
        if ((p[k] & 0xc0) != 0x80) return *s += 1, *p;
        v = v << 6 | (p[k] & 0x3f);
    }
    *s += more + 1;
    return v;
}

static void encode(Text *t, uint32_t v)
{
    char b[4];
    if (v < 0x80) b[0] = (char)v, text_bytes(t, b, 1);
    else if (v < 0x800) b[0] = (char)(0xc0 | v >> 6), b[1] = (char)(0x80 | (v & 63)), text_bytes(t, b, 2);
    else if (v < 0x10000) b[0] = (char)(0xe0 | v >> 12), b[1] = (char)(0x80 | (v >> 6 & 63)), b[2] = (char)(0x80 | (v & 63)), text_bytes(t, b, 3);
    else b[0] = (char)(0xf0 | v >> 18), b[1] = (char)(0x80 | (v >> 12 & 63)), b[2] = (char)(0x80 | (v >> 6 & 63)), b[3] = (char)(0x80 | (v & 63)), text_bytes(t, b, 4);
}

typedef enum { CASE_NONE, CASE_LOWER, CASE_UPPER } Case;

static const char *with_case(Graph *g, const char *s, Case how, locale_t where)
{
    Text t = { 0 };
    if (how == CASE_NONE) return s;
    while (*s) {
        uint32_t v = decode(&s);
        encode(&t, where ? (uint32_t)(how == CASE_LOWER ? towlower_l((wint_t)v, where) : towupper_l((wint_t)v, where)) : v < 128 && how == CASE_LOWER && v >= 'A' && v <= 'Z' ? v + 32 : v);
    }
    const char *out = arena_strndup(graph_arena(g), t.s ? t.s : "", t.len);
    text_free(&t);
    return out;
}

/* ---- StringNormalizer ---- */

static bool is_listed(const char *s, const char *const *list, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (!strcmp(s, list[k])) return true;
    return false;
}

U op_string_normalizer(Graph *g, const Ctx *c)
{
    const char **s, *const *stop, *action = attr_str(g, c, "case_change_action", "NONE");
    int64_t n, kept = 0;
    uint32_t stops;
    bool exact = attr_bool(g, c, "is_case_sensitive", false);
    Case how = !strcmp(action, "LOWER") ? CASE_LOWER : !strcmp(action, "UPPER") ? CASE_UPPER : CASE_NONE;
    if (how == CASE_NONE && strcmp(action, "NONE")) return fail_node(g, c, TG_BAD_MODEL, "case_change_action", "is '%s'; wanted LOWER, UPPER or NONE", action);
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    uint32_t rank = uop_rank(text_numbers(c->in[0]));
    if (rank < 1 || rank > 2 || (rank == 2 && uop_size(text_numbers(c->in[0]), 0) != 1)) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "wanted [n] or [1, n]");
    attr_strings(g, c, "stopwords", &stop, &stops);
    locale_t where = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    const char **folded = NEW_N(graph_arena(g), const char *, stops + 1);
    for (uint32_t k = 0; k < stops; k++) folded[k] = exact ? stop[k] : with_case(g, stop[k], CASE_LOWER, where);
    for (int64_t k = 0; k < n; k++) {
        if (is_listed(exact ? s[k] : with_case(g, s[k], CASE_LOWER, where), folded, stops)) continue;
        s[kept++] = with_case(g, s[k], how, where);
    }
    if (where) freelocale(where);
    if (!kept) s[kept++] = "";
    return ok(g) ? text_list(g, import_pool(c), s, rank == 2 ? (int64_t[]){ 1, kept } : &kept, rank) : NULL;
}

/* ---- regular expressions ---- */

/* \w \d \s inside brackets become ranges, other escapes there the character itself. Outside, the C library knows \w \s \b; \d is written out. */
static void translate(Text *t, const char *s)
{
    bool inside = false, dash = false;
    for (; *s; s++) {
        if (*s == '\\' && s[1]) {
            char ch = *++s;
            if (ch == 'd') text_add(t, inside ? "0-9" : "[0-9]");
            else if (!inside) text_add(t, "\\%c", ch);
            else if (ch == 'w') text_add(t, "a-zA-Z0-9_");
            else if (ch == 's') text_add(t, "[:space:]");
            else if (ch == '-') dash = true;
            else text_bytes(t, &ch, 1);
            continue;
        }
        if (*s == '(' && s[1] == '?' && s[2] == ':') {
            text_add(t, "(");
            s += 2;
            continue;
        }
        if (inside && *s == ']' && dash) text_add(t, "-"), dash = false;                     /* at the end it is no range */
        if (*s == '[') inside = true;
        if (*s == ']') inside = false;
        text_bytes(t, s, 1);
    }
}

/* The C library writes repeats out and goes down into brackets: patterns of a few bytes could take all memory or the stack. */
static bool pattern_fits(const char *s)
{
    enum { NESTED_MAX = 100, COPIES_MAX = 10000, LENGTH_MAX = 10000 };
    double copies = 1;
    int depth = 0;
    if (strlen(s) > LENGTH_MAX) return false;
    for (; *s; s++) {
        depth += (*s == '(') - (*s == ')');
        int least = 0, most = 0;
        if (*s == '{' && sscanf(s, "{%d,%d", &least, &most) > 0) copies *= most > least ? most : least > 1 ? least : 1;
        if (depth > NESTED_MAX || copies > COPIES_MAX) return false;
    }
    return true;
}

static bool compile(Graph *g, const Ctx *c, regex_t *out, const char *field, const char *pattern, bool full)
{
    Text t = { 0 };
    if (!pattern_fits(pattern)) return fail_node(g, c, TG_LIMIT, field, "the pattern is too long, nested too deep, or repeats too often"), false;
    if (full) text_add(&t, "^(");
    translate(&t, pattern);
    text_add(&t, full ? ")$" : "");
    int bad = regcomp(out, t.s ? t.s : "", REG_EXTENDED);
    text_free(&t);
    return bad ? fail_node(g, c, TG_UNSUPPORTED, field, "the pattern '%s' is not covered", pattern), false : true;
}

U op_regex_full_match(Graph *g, const Ctx *c)
{
    const char **s;
    int64_t n, shape[TG_MAX_RANK];
    regex_t re;
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    U like = text_numbers(c->in[0]);
    if (!attr_find(c, "pattern")) return fail_node(g, c, TG_BAD_MODEL, "pattern", "is missing");
    if (!compile(g, c, &re, "pattern", attr_str(g, c, "pattern", ""), true)) return NULL;
    uint8_t *hit = NEW_N(graph_arena(g), uint8_t, n + 1);
    for (int64_t k = 0; k < n; k++) hit[k] = !regexec(&re, s[k], 0, NULL, 0);
    regfree(&re);
    for (uint32_t k = 0; k < uop_rank(like); k++) shape[k] = fixed_size(g, like, k);
    return tensor_const(g, DT_BOOL, shape, uop_rank(like), hit, (size_t)n, "");
}

/* ---- pieces ---- */

typedef struct { const char **s; int64_t n, cap; Arena *arena; } Pieces;

static void add_piece(Pieces *p, const char *s, size_t len)
{
    if (p->n == p->cap) {
        const char **grown = NEW_N(p->arena, const char *, p->cap = p->cap ? 2 * p->cap : 8);
        if (p->n) memcpy(grown, p->s, sizeof *grown * (size_t)p->n);
        p->s = grown;
    }
    p->s[p->n++] = arena_strndup(p->arena, s, len);
}

/* Rows of pieces as one tensor of the input's shape and an axis for the longest row, shorter ones filled. */
static U padded_rows(Graph *g, const Ctx *c, U like, const Pieces *row, int64_t n, const char *fill)
{
    int64_t shape[TG_MAX_RANK + 1], longest = 0;
    for (int64_t k = 0; k < n; k++) longest = row[k].n > longest ? row[k].n : longest;
    const char **all = NEW_N(graph_arena(g), const char *, n * longest + 1);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < longest; j++) all[k * longest + j] = j < row[k].n ? row[k].s[j] : fill;
    for (uint32_t k = 0; k < uop_rank(like); k++) shape[k] = fixed_size(g, like, k);
    shape[uop_rank(like)] = longest;
    return text_list(g, import_pool(c), all, shape, uop_rank(like) + 1);
}

static size_t characters(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t k = 0; k < len; k++) n += (s[k] & 0xc0) != 0x80;
    return n;
}

/* com.microsoft Tokenizer: what matches tokenexp, or what lies between separators (an empty one: every character). Rows are marked where any of them holds a token. */
U op_tokenizer(Graph *g, const Ctx *c)
{
    const char **s, *const *sep, *expression = attr_str(g, c, "tokenexp", "");
    int64_t n, least = attr_int(g, c, "mincharnum", 1);
    uint32_t seps;
    bool mark = attr_bool(g, c, "mark", false), found = false;
    regex_t re;
    Text joined = { 0 };
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    attr_strings(g, c, "separators", &sep, &seps);
    if (!*expression && !seps) return fail_node(g, c, TG_BAD_MODEL, "tokenexp", "is missing, and separators too");
    bool by_character = !*expression && seps == 1 && !*sep[0];
    for (uint32_t k = 0; k < seps && !*expression; k++) text_add(&joined, "%s(%s)", k ? "|" : "", sep[k]);
    bool good = by_character || compile(g, c, &re, "tokenexp", *expression ? expression : joined.s, false);
    text_free(&joined);
    if (!good) return NULL;
    Pieces *row = NEW_N(graph_arena(g), Pieces, n + 1);
    for (int64_t k = 0; k < n; k++) {
        const char *p = s[k];
        regmatch_t m;
        row[k].arena = graph_arena(g);
        if (mark) add_piece(&row[k], "\x02", 1);
        while (*p) {
            const char *from = p, *to;
            if (by_character) decode(&p), to = p;
            else if (regexec(&re, p, 1, &m, p == s[k] ? 0 : REG_NOTBOL)) to = *expression ? from : p + strlen(p), p += strlen(p);
            else if (*expression) from = p + m.rm_so, to = p + m.rm_eo, p = m.rm_eo > m.rm_so ? to : to + (*to != 0);
            else to = p + m.rm_so, p += m.rm_eo > 0 ? m.rm_eo : 1;
            if (to == from || (int64_t)characters(from, (size_t)(to - from)) < least) continue;
            add_piece(&row[k], from, (size_t)(to - from));
            found = true;
        }
        if (mark) add_piece(&row[k], "\x03", 1);
    }
    if (!by_character) regfree(&re);
    for (int64_t k = 0; k < n && !found; k++) row[k].n = 0;
    return padded_rows(g, c, text_numbers(c->in[0]), row, n, attr_str(g, c, "pad_value", ""));
}

/* StringSplit: at a delimiter, or at runs of blanks; a second output counts the pieces. */
U op_string_split(Graph *g, const Ctx *c)
{
    const char **s, *delimiter = attr_str(g, c, "delimiter", "");
    int64_t n, most = attr_int(g, c, "maxsplit", INT64_MAX), shape[TG_MAX_RANK];
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    if (most < 0) return fail_node(g, c, TG_BAD_MODEL, "maxsplit", "is %lld; wanted 0 or more", (long long)most);
    U like = text_numbers(c->in[0]);
    Pieces *row = NEW_N(graph_arena(g), Pieces, n + 1);
    int64_t *count = NEW_N(graph_arena(g), int64_t, n + 1);
    size_t len = strlen(delimiter);
    for (int64_t k = 0; k < n; k++) {
        const char *p = s[k], *end;
        row[k].arena = graph_arena(g);
        if (len) {
            for (; row[k].n < most && (end = strstr(p, delimiter)); p = end + len) add_piece(&row[k], p, (size_t)(end - p));
            if (*s[k]) add_piece(&row[k], p, strlen(p));
        } else {
            for (p += strspn(p, " \t\n\r\f\v"); *p; p += strspn(p, " \t\n\r\f\v")) {
                size_t m = row[k].n < most ? strcspn(p, " \t\n\r\f\v") : strlen(p);
                add_piece(&row[k], p, m);
                p += m;
            }
        }
        count[k] = row[k].n;
    }
    for (uint32_t k = 0; k < uop_rank(like); k++) shape[k] = fixed_size(g, like, k);
    return outputs(g, c, (U[]){ padded_rows(g, c, like, row, n, ""), tensor_const(g, DT_I64, shape, uop_rank(like), count, (size_t)n * 8, "") }, 2);
}

U op_string_concat(Graph *g, const Ctx *c)
{
    const char **a, **b;
    int64_t na, nb, shape[TG_MAX_RANK];
    if (!is_text(c->in[0]) || !is_text(c->in[1])) return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs are not of strings");
    U x = text_numbers(c->in[0]), y = text_numbers(c->in[1]), both = add(g, x, y);
    if (both->op == UOP_ERROR) return both;
    const UOp *in[CTX_INPUTS] = { text_wrap(g, expand_like(g, x, both)), text_wrap(g, expand_like(g, y, both)) };
    Ctx wide_ctx = *c;
    wide_ctx.in = in;
    if (!input_text(g, &wide_ctx, 0, &a, &na) || !input_text(g, &wide_ctx, 1, &b, &nb)) return NULL;
    for (int64_t k = 0; k < na; k++) a[k] = arena_printf(graph_arena(g), "%s%s", a[k], b[k]);
    for (uint32_t k = 0; k < uop_rank(both); k++) shape[k] = fixed_size(g, both, k);
    return text_list(g, import_pool(c), a, shape, uop_rank(both));
}

/* ---- TfIdfVectorizer ---- */

typedef struct { const char *mode; int64_t least, most, skips, columns; uint32_t grams, counts, npool, weights; const int64_t *start, *column, *pool; const float *weight; } TfIdf;

static bool read_tfidf(Graph *g, const Ctx *c, TfIdf *t, bool text)
{
    const char *const *words;
    t->mode = attr_str(g, c, "mode", "TF");
    if (strcmp(t->mode, "TF") && strcmp(t->mode, "IDF") && strcmp(t->mode, "TFIDF")) return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted TF, IDF or TFIDF", t->mode), false;
    t->least = attr_int(g, c, "min_gram_length", 1), t->most = attr_int(g, c, "max_gram_length", 1), t->skips = attr_int(g, c, "max_skip_count", 0);
    if (!attr_ints(g, c, "ngram_counts", &t->start, &t->counts) || !attr_ints(g, c, "ngram_indexes", &t->column, &t->grams) || !t->counts || !t->grams)
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "ngram_counts", "or ngram_indexes is missing"), false : false;
    attr_floats(g, c, "weights", &t->weight, &t->weights);
    if (!attr_ints(g, c, "pool_int64s", &t->pool, &t->npool) && attr_strings(g, c, "pool_strings", &words, &t->npool)) {
        int64_t *v = NEW_N(graph_arena(g), int64_t, t->npool + 1);
        for (uint32_t k = 0; k < t->npool; k++) v[k] = pool_add(import_pool(c), words[k], strlen(words[k]));
        t->pool = v;
        if (!text) return fail_node(g, c, TG_BAD_MODEL, "pool_strings", "with an input of numbers"), false;
    } else if (text) return fail_node(g, c, TG_BAD_MODEL, "pool_int64s", "with an input of strings"), false;
    for (uint32_t k = 0; k < t->grams; k++) {
        if (t->column[k] < 0 || t->column[k] > 1 << 24) return fail_node(g, c, TG_BAD_MODEL, "ngram_indexes", "%lld", (long long)t->column[k]), false;
        if (t->column[k] >= t->columns) t->columns = t->column[k] + 1;
    }
    for (uint32_t k = 0; k < t->counts; k++)
        if (t->start[k] < 0 || t->start[k] > t->npool || (k && t->start[k] < t->start[k - 1])) return fail_node(g, c, TG_BAD_MODEL, "ngram_counts", "%lld", (long long)t->start[k]), false;
    if (t->least < 1 || t->most < t->least || t->most > t->counts || t->skips < 0 || (t->weights && t->weights != t->grams)) return fail_node(g, c, TG_BAD_MODEL, "max_gram_length", "and its fellows do not fit the pool"), false;
    return ok(g);
}

/* Adds to `out` how often each n-gram of length n, its items `step` apart, occurs in the row. */
static void count_grams(const TfIdf *t, const int64_t *row, int64_t length, int64_t n, int64_t step, float *out)
{
    int64_t from = t->start[n - 1], to = n < t->counts ? t->start[n] : t->npool, first = 0;
    for (int64_t k = 1; k < n; k++) first += (t->start[k] - t->start[k - 1]) / k;
    for (int64_t at = 0; at + (n - 1) * step < length; at++)
        for (int64_t p = from, gram = first; p + n <= to; p += n, gram++) {
            int64_t same = 0;
            while (same < n && t->pool[p + same] == row[at + same * step]) same++;
            if (same == n && gram < t->grams) out[t->column[gram]] += 1;
        }
}

U op_tf_idf_vectorizer(Graph *g, const Ctx *c)
{
    bool text = is_text(c->in[0]);
    U x = text ? text_numbers(c->in[0]) : c->in[0];
    TfIdf t = { 0 };
    const int64_t *v;
    uint32_t n, rank = uop_rank(x);
    const UOp *in[CTX_INPUTS] = { uop_static(x) ? reshape_i(g, x, (int64_t[]){ uop_numel(x) }, 1) : x };
    Ctx numbers = *c;
    numbers.in = in;
    if (!read_tfidf(g, c, &t, text) || !input_ints(g, &numbers, 0, &v, &n)) return NULL;
    if (rank < 1 || rank > 2) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 1 or 2", rank);
    int64_t length = fixed_size(g, x, rank - 1), rows = rank == 2 ? fixed_size(g, x, 0) : 1, shape[] = { rows, t.columns };
    float *y = NEW_N(graph_arena(g), float, rows * t.columns + 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t gram = t.least; gram <= t.most; gram++)
            for (int64_t skip = 0; skip <= (gram > 1 ? t.skips : 0) && skip < length; skip++) count_grams(&t, v + r * length, length, gram, skip + 1, y + r * t.columns);
    for (int64_t r = 0; r < rows && strcmp(t.mode, "TF"); r++)
        for (uint32_t k = 0; k < t.grams; k++) {
            float *f = &y[r * t.columns + t.column[k]], w = t.weights ? t.weight[k] : 1;
            *f = *t.mode == 'I' ? (*f > 0 ? w : 0) : *f * w;
        }
    return tensor_const(g, DT_F32, rank == 2 ? shape : shape + 1, rank, y, (size_t)(rows * t.columns) * 4, "");
}

/* ---- labels ---- */

/* Numbers of attribute strings, as a constant list. */
static U listed(Graph *g, const Ctx *c, const char *const *s, uint32_t n)
{
    int64_t shape = n;
    return text_numbers(text_list(g, import_pool(c), s, &shape, 1));
}

/* One side of a LabelEncoder: the list of keys or values in whichever type it has; *text tells. NULL: absent. */
static U encoder_list(Graph *g, const Ctx *c, const char *side, bool *text, uint32_t *n)
{
    char name[40];
    const char *const *s;
    const int64_t *i;
    const float *f;
    static const char *const kind[] = { "_tensor", "_strings", "_int64s", "_floats" };
    uint32_t given = 0;
    for (int k = 0; k < 4; k++) given += attr_find(c, strcat(strcpy(name, side), kind[k])) != NULL;
    if (given > 1) return fail_node(g, c, TG_BAD_MODEL, side, "are given in %u types", given);
    const Attr *a = attr_find(c, strcat(strcpy(name, side), "_tensor"));
    *text = false;
    if (a && a->type == ATTR_TENSOR) {
        *n = (uint32_t)a->t->numel, *text = a->t->type == TG_STRING;
        int64_t flat = a->t->numel;
        U x = *text ? text_numbers(text_constant(g, import_pool(c), a->t)) : import_tensor(g, a->t);
        return reshape_i(g, x, &flat, 1);
    }
    int64_t shape;
    if (attr_strings(g, c, strcat(strcpy(name, side), "_strings"), &s, n)) return *text = true, listed(g, c, s, *n);
    if (attr_ints(g, c, strcat(strcpy(name, side), "_int64s"), &i, n)) return shape = *n, tensor_const(g, DT_I64, &shape, 1, i, (size_t)*n * 8, "");
    if (attr_floats(g, c, strcat(strcpy(name, side), "_floats"), &f, n)) return shape = *n, tensor_const(g, DT_F32, &shape, 1, f, (size_t)*n * 4, "");
    return NULL;
}

/* What an unknown key gives. */
static U encoder_default(Graph *g, const Ctx *c, U values, bool text)
{
    const Attr *a = attr_find(c, "default_tensor");
    if (a && (a->type != ATTR_TENSOR || a->t->numel != 1 || text != (a->t->type == TG_STRING))) return fail_node(g, c, TG_BAD_MODEL, "default_tensor", "is not one element of the values' type");
    if (a) return reshape_i(g, text ? text_numbers(text_constant(g, import_pool(c), a->t)) : import_tensor(g, a->t), NULL, 0);
    if (text) {
        const char *s = attr_str(g, c, "default_string", "_Unused");
        return uop_int(g, DT_I64, pool_add(import_pool(c), s, strlen(s)));
    }
    if (dtype_is_float((DType)values->dtype)) return scalar(g, (DType)values->dtype, attr_find(c, "default_float") ? attr_float(g, c, "default_float", -0.0) : -0.0);
    return uop_int(g, (DType)values->dtype, attr_int(g, c, "default_int64", -1));
}

/* values[first k with keys[k] == x], or the default. */
static U look_up(Graph *g, U x, U keys, U values, U otherwise)
{
    U like = unsqueeze(g, x, -1), same = dtype_is_float((DType)keys->dtype) ? or_(g, eq(g, like, keys), and_(g, is_nan(g, like), is_nan(g, keys))) : eq(g, like, keys);
    U hit = cast(g, same, DT_I32), at = argmax(g, hit, -1, false, false);
    return where(g, ne(g, max_reduce(g, hit, -1, false), uop_int(g, DT_I32, 0)), take(g, values, at, 0), otherwise);
}

U op_label_encoder(Graph *g, const Ctx *c)
{
    bool text_keys, text_values;
    uint32_t nk = 0, nv = 0;
    const char *const *classes;
    U x = is_text(c->in[0]) ? text_numbers(c->in[0]) : c->in[0], keys, values;
    if (c->opset < 2 && attr_strings(g, c, "classes_strings", &classes, &nk)) {         /* both ways between a class and its position */
        U list = listed(g, c, classes, nk), place = iota(g, uop_index(g, nk), DT_I64);
        text_keys = is_text(c->in[0]), text_values = !text_keys;
        keys = text_keys ? list : place, values = text_keys ? place : list, nv = nk;
    } else keys = encoder_list(g, c, "keys", &text_keys, &nk), values = encoder_list(g, c, "values", &text_values, &nv);
    if (!ok(g)) return NULL;
    if (!keys || !values || nk != nv || !nk) return fail_node(g, c, TG_BAD_MODEL, "keys", "and values are missing, or of %u and %u entries", nk, nv);
    if (text_keys != is_text(c->in[0])) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not of the keys' type");
    if (!text_keys && x->dtype != keys->dtype) x = cast(g, x, (DType)keys->dtype);
    U y = look_up(g, x, keys, values, encoder_default(g, c, values, text_values));
    return text_values ? text_wrap(g, y) : y;
}

U op_category_mapper(Graph *g, const Ctx *c)
{
    const char *const *s;
    const int64_t *v;
    uint32_t n, m;
    bool from_text = is_text(c->in[0]);
    if (!attr_strings(g, c, "cats_strings", &s, &n) || !attr_ints(g, c, "cats_int64s", &v, &m) || n != m || !n) return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "cats_strings", "and cats_int64s do not fit") : NULL;
    int64_t shape = n;
    U words = listed(g, c, s, n), numbers = tensor_const(g, DT_I64, &shape, 1, v, (size_t)n * 8, "");
    const char *unknown = attr_str(g, c, "default_string", "_Unused");
    if (from_text) return look_up(g, text_numbers(c->in[0]), words, numbers, uop_int(g, DT_I64, attr_int(g, c, "default_int64", -1)));
    return text_wrap(g, look_up(g, cast(g, c->in[0], DT_I64), numbers, words, uop_int(g, DT_I64, pool_add(import_pool(c), unknown, strlen(unknown)))));
}

U op_one_hot_encoder(Graph *g, const Ctx *c)
{
    const char *const *s = NULL;
    const int64_t *v = NULL;
    uint32_t n;
    Map known;
    U x = is_text(c->in[0]) ? text_numbers(c->in[0]) : cast(g, c->in[0], DT_I64), cats;
    int64_t shape;
    if (is_text(c->in[0]) && attr_strings(g, c, "cats_strings", &s, &n) && n) cats = listed(g, c, s, n);
    else if (!is_text(c->in[0]) && attr_ints(g, c, "cats_int64s", &v, &n) && n) shape = n, cats = tensor_const(g, DT_I64, &shape, 1, v, (size_t)n * 8, "");
    else return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "cats_int64s", "or cats_strings of the input's type is missing") : NULL;
    map_init(&known, graph_arena(g));
    for (uint32_t k = 0; k < n; k++) {
        const void *key = s ? (const void *)s[k] : &v[k];
        size_t size = s ? strlen(s[k]) : sizeof *v;
        if (map_get(&known, key, size)) return fail_node(g, c, TG_BAD_MODEL, s ? "cats_strings" : "cats_int64s", "entry %u is there twice", k);
        map_put_held(&known, key, size, g);
    }
    U same = eq(g, unsqueeze(g, x, -1), cats);
    if (attr_bool(g, c, "zeros", true)) return cast(g, same, DT_F32);
    U hit = cast(g, same, DT_I32), size = uop_index(g, n), found = ne(g, max_reduce(g, hit, -1, false), uop_int(g, DT_I32, 0));
    U at = guard_index(g, where(g, found, cast(g, argmax(g, hit, -1, false, false), DT_INDEX), size), size, false);      /* what no category fits fails the run */
    return cast(g, eq(g, unsqueeze(g, at, -1), iota(g, size, DT_INDEX)), DT_F32);
}

/* ---- Cast ---- */

/* Strings to numbers, as strtod reads them in the C locale. */
U text_to_numbers(Graph *g, const Ctx *c, DType to)
{
    const char **s;
    int64_t n, shape[TG_MAX_RANK];
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    U like = text_numbers(c->in[0]);
    for (uint32_t k = 0; k < uop_rank(like); k++) shape[k] = fixed_size(g, like, k);
    if (!dtype_is_float(to)) {
        int64_t *v = NEW_N(graph_arena(g), int64_t, n + 1);
        for (int64_t k = 0; k < n; k++) v[k] = strtoll(s[k], NULL, 10);
        return cast(g, tensor_const(g, DT_I64, shape, uop_rank(like), v, (size_t)n * 8, ""), to);
    }
    double *v = NEW_N(graph_arena(g), double, n + 1);
    for (int64_t k = 0; k < n; k++) v[k] = number_parse(s[k], NULL);
    return cast(g, tensor_const(g, DT_F64, shape, uop_rank(like), v, (size_t)n * 8, ""), to);
}

/* Numbers to strings: integers in full, floats with as many digits as their type carries. */
U numbers_to_text(Graph *g, const Ctx *c)
{
    U x = narrow_decode(g, c->in[0]);
    int64_t n = uop_static(x) ? uop_numel(x) : 1 << 20, shape[TG_MAX_RANK];
    const UOp **v = NEW_N(graph_arena(g), const UOp *, n + 1);
    if (n > 4096 || !values_of(g, x, v, (uint32_t)n)) return fail_data(g, c, 0);
    const char **s = NEW_N(graph_arena(g), const char *, n + 1);
    for (int64_t k = 0; k < n; k++) {
        if (!uop_is_const(v[k])) return fail_data(g, c, 0);
        if (dtype_is_float((DType)x->dtype)) s[k] = arena_printf(graph_arena(g), x->dtype == DT_F64 ? "%.17g" : "%.8g", uop_const_float(v[k]));
        else s[k] = arena_printf(graph_arena(g), dtype_info[x->dtype].kind == KIND_UINT ? "%llu" : "%lld", (long long)uop_const_int(v[k]));
    }
    for (uint32_t k = 0; k < uop_rank(x); k++) shape[k] = fixed_size(g, x, k);
    return text_list(g, import_pool(c), s, shape, uop_rank(x));
}
