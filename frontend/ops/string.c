/* Operators that look into strings. In: string tensors (text.h). Out: constants where the strings are known at import,
 * else calls of a host function that does the same work at each run (text_work.h). To add one: a worker there, a
 * function here, a row in ops.def, a row in text_use.
 */
#include <string.h>

#include "frontend/import/import.h"
#include "frontend/host/pattern.h"
#include "frontend/import/shape_query.h"
#include "frontend/host/text_work.h"
#include "frontend/input_names.h"
#include "graph/base/text.h"
#include "graph/custom.h"
#include "graph/guard.h"

static bool attr_strings(Graph *g, const Ctx *c, const char *name, const char *const **out, uint32_t *n)
{
    const Attr *a = attr_find(c, name);
    *out = NULL, *n = 0;
    if (!a) return false;
    if (a->type != ATTR_STRINGS) return fail_node(g, c, TG_BAD_MODEL, name, "wanted strings"), false;
    return *out = a->strings, *n = a->n, true;
}

/* ---- work on strings ---- */

/* bytes that are looked into at import; pieces of a string that there is room for at first */
enum { KNOWN_MAX = 1 << 24, PIECES_LEAST = 256 };

/* A worker, and what it works on: numbers of strings x (and y), or numbers that become strings. t: of results that are
 * like x; counts: the pieces of each string too. */
typedef struct {
    const char *name;
    U x, y;
    DType t;
    Text attr;
    bool counts;
} Job;

static const void *known_data(Graph *g, U x)
{
    size_t size;
    static const int64_t none;
    return !uop_static(x) ? NULL : !uop_numel(x) ? &none : data_of(g, x, KNOWN_MAX, &size);
}

/* Those that are known are worked on now. */
static bool work_now(Graph *g, const Ctx *c, const Job *j, Work *w, size_t out_bytes)
{
    const void *x = known_data(g, j->x), *y = j->y ? known_data(g, j->y) : NULL;
    if (!x || (j->y && !y)) return false;
    uint32_t rank = uop_rank(j->x);
    *w = (Work){ .pool = import_pool(c),
                 .attr = arena_copy(graph_arena(g), j->attr.s, j->attr.len + 1),
                 .x = x,
                 .y = y,
                 .type = type_of(j->x),
                 .n = uop_numel(j->x),
                 .lists = rank == 2 ? uop_size(j->x, 0) : 1,
                 .length = rank ? uop_size(j->x, rank - 1) : 1 };
    w->out = arena_alloc(graph_arena(g), out_bytes + 8);
    if (j->counts) w->count = NEW_N(graph_arena(g), int64_t, w->n + 1);
    TgStatus status = text_worker(j->name)->fn(w);
    if (status != TG_OK) work_free(w), fail_node(g, c, status, NULL, "%s", tg_error());
    return true;
}

/* Strings that the pool numbers anew at each run. */
static U called(Graph *g, const Ctx *c, const Job *j, const UOp *const *var, uint32_t nvar)
{
    if (c->im->run->known) c->im->run->known->makes_text = true;
    return call_new(g, custom_new(g, j->name, j->attr.s, j->attr.len, var, nvar), (U[]){ j->x, j->y }, j->y ? 2 : 1);
}

static U size_found(Graph *g, const Ctx *c, const UOp **var, const char *what, int64_t most)
{
    *var = size_var(g, what, 0, most);
    return size_answered(c->im->run, *var);
}

static U done(Job *j, U result)
{
    text_free(&j->attr);
    return result;
}

static uint32_t sizes_of(U x, const UOp **dim)
{
    for (uint32_t k = 0; k < uop_rank(x); k++) dim[k] = uop_dim(x, k);
    return uop_rank(x);
}

/* One of type t for each element of x. */
static U each(Graph *g, const Ctx *c, Job *j)
{
    Work w;
    const UOp *dim[TG_MAX_RANK + 1];
    uint32_t rank = sizes_of(j->x, dim);
    int64_t shape[TG_MAX_RANK + 1];
    size_t bytes = uop_static(j->x) ? (size_t)uop_numel(j->x) * (size_t)dtype_size(j->t) : 0;
    if (!work_now(g, c, j, &w, bytes)) return done(j, call_result(g, called(g, c, j, NULL, 0), 0, j->t, dim, rank));
    for (uint32_t k = 0; k < rank; k++) shape[k] = fixed_size(g, j->x, k);
    return done(j, ok(g) ? tensor_const(g, j->t, shape, rank, w.out, bytes, "") : NULL);
}

/* Pieces of each string: x's axes, and one for the longest row, the others filled. */
static U pieces(Graph *g, const Ctx *c, Job *j, U *count)
{
    Work w;
    const UOp *dim[TG_MAX_RANK + 1], *var, *call;
    uint32_t rank = sizes_of(j->x, dim);
    int64_t shape[TG_MAX_RANK + 1], most = c->im->run->known ? c->im->run->known->pieces : 0;
    if (rank >= TG_MAX_RANK) return done(j, fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u", rank));
    j->counts = count != NULL;
    if (!work_now(g, c, j, &w, 0)) {
        dim[rank] = size_found(g, c, &var, "pieces", most > PIECES_LEAST ? most : PIECES_LEAST);
        call = called(g, c, j, &var, 1);
        if (count) *count = call_result(g, call, 1, DT_I64, dim, rank);
        return done(j, call_result(g, call, 0, DT_I64, dim, rank + 1));
    }
    if (!ok(g)) return done(j, NULL);
    int64_t longest = text_longest(&w), n = w.n * longest, *out = NEW_N(graph_arena(g), int64_t, n + 1);
    text_pad(&w, longest, out);
    work_free(&w);
    for (uint32_t k = 0; k < rank; k++) shape[k] = fixed_size(g, j->x, k);
    shape[rank] = longest;
    if (count) *count = tensor_const(g, DT_I64, shape, rank, w.count, (size_t)w.n * 8, "");
    return done(j, tensor_const(g, DT_I64, shape, rank + 1, out, (size_t)n * 8, ""));
}

/* Numbers of input i's strings. */
static U strings_in(Graph *g, const Ctx *c, uint32_t i)
{
    const Known *known = c->im->run->known;
    if (!is_text(c->in[i])) return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "is not of strings"), NULL;
    U x = text_numbers(c->in[i]);
    return known && known->strings && !known_data(g, x) ? fail_data(g, c, i), NULL : x;
}

static void put_text(Text *t, const char *s) { text_bytes(t, s, strlen(s) + 1); }

/* ---- StringNormalizer ---- */

/* A list that may become shorter. */
static U kept_strings(Graph *g, const Ctx *c, Job *j)
{
    Work w;
    const UOp *var;
    uint32_t rank = uop_rank(j->x);
    U n = uop_dim(j->x, rank - 1), one = uop_index(g, 1);
    const NormalizeAttr *a = (const void *)j->attr.s;
    if (!work_now(g, c, j, &w, 0)) {
        bool stays = !a->stops && n->vmin > 0;
        U size = stays ? n : size_found(g, c, &var, "kept", n->vmax > 1 ? n->vmax : 1);
        return done(
            j, call_result(g, called(g, c, j, &var, !stays), 0, DT_I64, rank == 2 ? (U[]){ one, size } : &size, rank));
    }
    int64_t kept = w.rows.n, *out = arena_copy(graph_arena(g), w.rows.item, (size_t)kept * 8);
    work_free(&w);
    return done(
        j,
        ok(g) ? tensor_const(g, DT_I64, rank == 2 ? (int64_t[]){ 1, kept } : &kept, rank, out, (size_t)kept * 8, "")
              : NULL);
}

U op_string_normalizer(Graph *g, const Ctx *c)
{
    const char *const *stop, *action = attr_str(g, c, "case_change_action", "NONE");
    uint32_t stops;
    bool exact = attr_bool(g, c, "is_case_sensitive", false);
    TextCase how = !strcmp(action, "LOWER") ? CASE_LOWER : !strcmp(action, "UPPER") ? CASE_UPPER : CASE_NONE;
    Job j = { .name = "text_normalize", .x = strings_in(g, c, 0) };
    if (!j.x) return NULL;
    if (how == CASE_NONE && strcmp(action, "NONE"))
        return fail_node(g, c, TG_BAD_MODEL, "case_change_action", "is '%s'; wanted LOWER, UPPER or NONE", action);
    uint32_t rank = uop_rank(j.x);
    if (rank < 1 || rank > 2 || (rank == 2 && uop_size(j.x, 0) != 1))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "wanted [n] or [1, n]");
    attr_strings(g, c, "stopwords", &stop, &stops);
    if (!ok(g)) return NULL;
    NormalizeAttr a = { .how = (int32_t)how, .exact = exact, .stops = (int32_t)stops };
    text_bytes(&j.attr, (const char *)&a, sizeof a);
    for (uint32_t k = 0; k < stops; k++)
        put_text(&j.attr, exact ? stop[k] : text_lower(graph_arena(g), stop[k]));
    U y = kept_strings(g, c, &j);
    return y ? text_wrap(g, y) : NULL;
}

/* ---- patterns, tokens, pieces ---- */

static bool pattern_fits(Graph *g, const Ctx *c, const char *field, const char *pattern)
{
    char why[256];
    TgStatus status = pattern_check(pattern, why, sizeof why);
    return status == TG_OK || (fail_node(g, c, status, field, "the pattern '%.80s' %s", pattern, why), false);
}

U op_regex_full_match(Graph *g, const Ctx *c)
{
    const char *pattern = attr_str(g, c, "pattern", "");
    Job j = { .name = "text_match", .x = strings_in(g, c, 0), .t = DT_BOOL };
    if (!j.x) return NULL;
    if (!attr_find(c, "pattern")) return fail_node(g, c, TG_BAD_MODEL, "pattern", "is missing");
    if (!pattern_fits(g, c, "pattern", pattern)) return NULL;
    put_text(&j.attr, pattern);
    return each(g, c, &j);
}

static U in_rows(Graph *g, const Ctx *c, Job *j, U *count)
{
    U y = pieces(g, c, j, count);
    return y ? text_wrap(g, y) : NULL;
}

/* com.microsoft Tokenizer: what matches tokenexp, or what lies between separators (an empty one: every character). */
U op_tokenizer(Graph *g, const Ctx *c)
{
    const char *const *sep, *expression = attr_str(g, c, "tokenexp", "");
    uint32_t seps;
    Text joined = { 0 };
    Job j = { .name = "text_tokens", .x = strings_in(g, c, 0) };
    if (!j.x) return NULL;
    attr_strings(g, c, "separators", &sep, &seps);
    if (!*expression && !seps) return fail_node(g, c, TG_BAD_MODEL, "tokenexp", "is missing, and separators too");
    const char *fill = attr_str(g, c, "pad_value", "");
    TokenAttr a = { .fill = pool_add(import_pool(c), fill, strlen(fill)),
                    .least = attr_int(g, c, "mincharnum", 1),
                    .mark = attr_bool(g, c, "mark", false),
                    .by = *expression           ? BY_PATTERN
                        : seps == 1 && !*sep[0] ? BY_CHARACTER
                                                : BY_SEPARATOR };
    text_add(&joined, "%s", expression);
    for (uint32_t k = 0; k < seps && a.by == BY_SEPARATOR; k++) text_add(&joined, "%s(%s)", k ? "|" : "", sep[k]);
    bool good =
        ok(g) && (a.by == BY_CHARACTER || pattern_fits(g, c, *expression ? "tokenexp" : "separators", joined.s));
    text_bytes(&j.attr, (const char *)&a, sizeof a);
    put_text(&j.attr, joined.s);
    text_free(&joined);
    return good ? in_rows(g, c, &j, NULL) : done(&j, NULL);
}

/* StringSplit: at a delimiter, or at runs of blanks; a second output counts the pieces. */
U op_string_split(Graph *g, const Ctx *c)
{
    SplitAttr a = { .most = attr_int(g, c, "maxsplit", INT64_MAX) };
    Job j = { .name = "text_split", .x = strings_in(g, c, 0) };
    U count = NULL;
    if (!j.x) return NULL;
    if (a.most < 0) return fail_node(g, c, TG_BAD_MODEL, "maxsplit", "is %lld; wanted 0 or more", (long long)a.most);
    text_bytes(&j.attr, (const char *)&a, sizeof a);
    put_text(&j.attr, attr_str(g, c, "delimiter", ""));
    U y = in_rows(g, c, &j, &count);
    return y ? outputs(g, c, (U[]){ y, count }, 2) : NULL;
}

U op_string_concat(Graph *g, const Ctx *c)
{
    if (!is_text(c->in[0]) || !is_text(c->in[StringConcat_Y]))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs are not of strings");
    U x = text_numbers(c->in[0]), y = text_numbers(c->in[StringConcat_Y]), both = add(g, x, y);
    if (both->op == UOP_ERROR) return both;
    Job j = { .name = "text_concat", .x = expand_like(g, x, both), .y = expand_like(g, y, both), .t = DT_I64 };
    put_text(&j.attr, "");
    U z = each(g, c, &j);
    return z ? text_wrap(g, z) : NULL;
}

/* ---- TfIdfVectorizer ---- */

typedef struct {
    TfIdfAttr attr;
    const int64_t *start, *column, *pool;
    const float *weight;
} TfIdf;

static bool read_tfidf(Graph *g, const Ctx *c, TfIdf *t, bool text)
{
    static const char *const name[] = { "TF", "IDF", "TFIDF" };
    const char *const *words, *mode = attr_str(g, c, "mode", "TF");
    TfIdfAttr *a = &t->attr;
    uint32_t counts, grams, items, weights;
    for (a->mode = 0; a->mode < 3 && strcmp(mode, name[a->mode]); a->mode++) {}
    if (a->mode == 3) return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted TF, IDF or TFIDF", mode), false;
    a->least = attr_int(g, c, "min_gram_length", 1), a->most = attr_int(g, c, "max_gram_length", 1),
    a->skips = attr_int(g, c, "max_skip_count", 0);
    if (!attr_ints(g, c, "ngram_counts", &t->start, &counts) || !attr_ints(g, c, "ngram_indexes", &t->column, &grams) ||
        !counts || !grams)
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "ngram_counts", "is missing, or ngram_indexes is"), false : false;
    attr_floats(g, c, "weights", &t->weight, &weights);
    if (!attr_ints(g, c, "pool_int64s", &t->pool, &items) && attr_strings(g, c, "pool_strings", &words, &items)) {
        int64_t *v = NEW_N(graph_arena(g), int64_t, items + 1);
        for (uint32_t k = 0; k < items; k++) v[k] = pool_add(import_pool(c), words[k], strlen(words[k]));
        t->pool = v;
        if (!text) return fail_node(g, c, TG_BAD_MODEL, "pool_strings", "is for strings; the input has numbers"), false;
    } else if (text) return fail_node(g, c, TG_BAD_MODEL, "pool_int64s", "is given, but the input has strings"), false;
    a->counts = counts, a->grams = grams, a->items = items, a->weighted = weights > 0;
    for (uint32_t k = 0; k < grams; k++) {
        if (t->column[k] < 0 || t->column[k] > 1 << 24)
            return fail_node(g, c, TG_BAD_MODEL, "ngram_indexes", "%lld", (long long)t->column[k]), false;
        if (t->column[k] >= a->columns) a->columns = t->column[k] + 1;
    }
    for (uint32_t k = 0; k < counts; k++)
        if (t->start[k] < 0 || t->start[k] > items || (k && t->start[k] < t->start[k - 1]))
            return fail_node(g, c, TG_BAD_MODEL, "ngram_counts", "%lld", (long long)t->start[k]), false;
    if (a->least < 1 || a->most < a->least || a->most > counts || a->skips < 0 || (weights && weights != grams))
        return fail_node(g, c, TG_BAD_MODEL, "max_gram_length",
                         "the lengths, the pool and the weights do not fit each other"),
               false;
    return ok(g);
}

/* Each gram of the pool goes to the first free slot from its hash on. */
static void put_grams(Graph *g, TfIdf *t, Text *out)
{
    TfIdfAttr *a = &t->attr;
    float *weight = NEW_N(graph_arena(g), float, a->grams + 1);
    for (a->slots = 4; a->slots < 2 * a->grams; a->slots *= 2) {}
    uint32_t *slot = NEW_N(graph_arena(g), uint32_t, a->slots);
    int64_t gram = 0;
    for (int64_t n = 1; n <= a->counts; n++)
        for (int64_t p = t->start[n - 1], end = n < a->counts ? t->start[n] : a->items; p + n <= end && gram < a->grams;
             p += n) {
            uint64_t h = gram_hash(t->pool + p, n, 1);
            while (slot[h & (uint64_t)(a->slots - 1)]) h++;
            slot[h & (uint64_t)(a->slots - 1)] = (uint32_t)++gram;
        }
    if (a->weighted) memcpy(weight, t->weight, (size_t)a->grams * sizeof *weight);
    text_bytes(out, (const char *)a, sizeof *a);
    text_bytes(out, (const char *)t->start, (size_t)a->counts * 8);
    text_bytes(out, (const char *)t->column, (size_t)a->grams * 8);
    text_bytes(out, (const char *)t->pool, (size_t)a->items * 8);
    text_bytes(out, (const char *)weight, (size_t)a->grams * 4);
    text_bytes(out, (const char *)slot, (size_t)a->slots * 4);
}

U op_tf_idf_vectorizer(Graph *g, const Ctx *c)
{
    bool text = is_text(c->in[0]);
    Job j = { .name = "text_tfidf", .x = text ? text_numbers(c->in[0]) : cast(g, c->in[0], DT_I64) };
    TfIdf t = { 0 };
    Work w;
    uint32_t rank = uop_rank(j.x);
    if (!read_tfidf(g, c, &t, text)) return NULL;
    if (rank < 1 || rank > 2) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 1 or 2", rank);
    put_grams(g, &t, &j.attr);
    U columns = uop_index(g, t.attr.columns), dim[] = { uop_dim(j.x, 0), columns };
    int64_t rows = rank == 2 && uop_static(j.x) ? uop_size(j.x, 0) : 1, shape[] = { rows, t.attr.columns };
    size_t bytes = uop_static(j.x) ? (size_t)(rows * t.attr.columns) * 4 : 0;
    if (!work_now(g, c, &j, &w, bytes))
        return done(&j, call_result(g, called(g, c, &j, NULL, 0), 0, DT_F32, rank == 2 ? dim : dim + 1, rank));
    return done(&j, ok(g) ? tensor_const(g, DT_F32, rank == 2 ? shape : shape + 1, rank, w.out, bytes, "") : NULL);
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
    if (attr_ints(g, c, strcat(strcpy(name, side), "_int64s"), &i, n))
        return shape = *n, tensor_const(g, DT_I64, &shape, 1, i, (size_t)*n * 8, "");
    if (attr_floats(g, c, strcat(strcpy(name, side), "_floats"), &f, n))
        return shape = *n, tensor_const(g, DT_F32, &shape, 1, f, (size_t)*n * 4, "");
    return NULL;
}

/* What an unknown key gives. */
static U encoder_default(Graph *g, const Ctx *c, U values, bool text)
{
    const Attr *a = attr_find(c, "default_tensor");
    if (a && (a->type != ATTR_TENSOR || a->t->numel != 1 || text != (a->t->type == TG_STRING)))
        return fail_node(g, c, TG_BAD_MODEL, "default_tensor", "is not one element of the values' type");
    if (a)
        return reshape_i(g, text ? text_numbers(text_constant(g, import_pool(c), a->t)) : import_tensor(g, a->t), NULL,
                         0);
    if (text) {
        const char *s = attr_str(g, c, "default_string", "_Unused");
        return uop_int(g, DT_I64, pool_add(import_pool(c), s, strlen(s)));
    }
    if (dtype_is_float((DType)values->dtype))
        return scalar(g, (DType)values->dtype,
                      attr_find(c, "default_float") ? attr_float(g, c, "default_float", -0.0) : -0.0);
    return uop_int(g, (DType)values->dtype, attr_int(g, c, "default_int64", -1));
}

/* values[first k with keys[k] == x], or the default. */
static U look_up(Graph *g, U x, U keys, U values, U otherwise)
{
    U like = unsqueeze(g, x, -1),
      same = dtype_is_float((DType)keys->dtype) ? or_(g, eq(g, like, keys), and_(g, is_nan(g, like), is_nan(g, keys)))
                                                : eq(g, like, keys);
    U hit = cast(g, same, DT_I32), at = argmax(g, hit, -1, false, false);
    return where(g, ne(g, max_reduce(g, hit, -1, false), uop_int(g, DT_I32, 0)), take(g, values, at, 0), otherwise);
}

U op_label_encoder(Graph *g, const Ctx *c)
{
    bool text_keys, text_values;
    uint32_t nk = 0, nv = 0;
    const char *const *classes;
    U x = is_text(c->in[0]) ? text_numbers(c->in[0]) : c->in[0], keys, values;
    /* both ways between a class and its position */
    if (c->opset < 2 && attr_strings(g, c, "classes_strings", &classes, &nk)) {
        U list = listed(g, c, classes, nk), place = iota(g, uop_index(g, nk), DT_I64);
        text_keys = is_text(c->in[0]), text_values = !text_keys;
        keys = text_keys ? list : place, values = text_keys ? place : list, nv = nk;
    } else keys = encoder_list(g, c, "keys", &text_keys, &nk), values = encoder_list(g, c, "values", &text_values, &nv);
    if (!ok(g)) return NULL;
    if (!keys || !values || nk != nv || !nk)
        return fail_node(g, c, TG_BAD_MODEL, "keys", "has %u entries, values %u; wanted as many, and some", nk, nv);
    if (text_keys != is_text(c->in[0]))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not of the keys' type");
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
    if (!attr_strings(g, c, "cats_strings", &s, &n) || !attr_ints(g, c, "cats_int64s", &v, &m) || n != m || !n)
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "cats_strings", "does not fit cats_int64s") : NULL;
    int64_t shape = n;
    U words = listed(g, c, s, n), numbers = tensor_const(g, DT_I64, &shape, 1, v, (size_t)n * 8, "");
    const char *unknown = attr_str(g, c, "default_string", "_Unused");
    if (from_text)
        return look_up(g, text_numbers(c->in[0]), words, numbers,
                       uop_int(g, DT_I64, attr_int(g, c, "default_int64", -1)));
    return text_wrap(g,
                     look_up(g, cast(g, c->in[0], DT_I64), numbers, words,
                             uop_int(g, DT_I64, pool_add(import_pool(c), unknown, strlen(unknown)))));
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
    else if (!is_text(c->in[0]) && attr_ints(g, c, "cats_int64s", &v, &n) && n)
        shape = n, cats = tensor_const(g, DT_I64, &shape, 1, v, (size_t)n * 8, "");
    else
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "cats_int64s", "or cats_strings of the input's type is missing")
                     : NULL;
    map_init(&known, graph_arena(g));
    for (uint32_t k = 0; k < n; k++) {
        const void *key = s ? (const void *)s[k] : &v[k];
        size_t size = s ? strlen(s[k]) : sizeof *v;
        if (map_get(&known, key, size))
            return fail_node(g, c, TG_BAD_MODEL, s ? "cats_strings" : "cats_int64s", "entry %u is there twice", k);
        map_put_held(&known, key, size, g);
    }
    U same = eq(g, unsqueeze(g, x, -1), cats);
    if (attr_bool(g, c, "zeros", true)) return cast(g, same, DT_F32);
    U hit = cast(g, same, DT_I32), size = uop_index(g, n),
      found = ne(g, max_reduce(g, hit, -1, false), uop_int(g, DT_I32, 0));
    /* what no category fits fails the run */
    U at = guard_index(g, where(g, found, cast(g, argmax(g, hit, -1, false, false), DT_INDEX), size), size, false);
    return cast(g, eq(g, unsqueeze(g, at, -1), iota(g, size, DT_INDEX)), DT_F32);
}

/* ---- Cast ---- */

U text_to_numbers(Graph *g, const Ctx *c, DType to)
{
    bool real = dtype_is_float(to);
    Job j = { .name = "text_to_numbers", .x = strings_in(g, c, 0), .t = real ? DT_F64 : DT_I64 };
    if (!j.x) return NULL;
    text_bytes(&j.attr, (const char *)&(NumberAttr){ .real = real }, sizeof(NumberAttr));
    U y = each(g, c, &j);
    return y ? cast(g, y, to) : NULL;
}

U numbers_to_text(Graph *g, const Ctx *c)
{
    Job j = { .name = "text_of_numbers", .x = narrow_decode(g, c->in[0]), .t = DT_I64 };
    if (!ok(g)) return NULL;
    put_text(&j.attr, "");
    U y = each(g, c, &j);
    return y ? text_wrap(g, y) : NULL;
}
