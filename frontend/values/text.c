/* See text.h. */
#include "frontend/values/text.h"

#include <string.h>

#include "frontend/import/import.h"

enum { STRINGS = 2, CONTENT_MAX = 1 << 24 };          /* tag; strings of an input that an importer may look into */

struct StringPool {
    Arena *arena;
    const StringPool *base;
    Map number;
    const char **text;
    int64_t first, count, cap;
};

static StringPool *pool_behind(Arena *arena, const StringPool *base, int64_t first)
{
    StringPool *p = NEW(arena, StringPool);
    *p = (StringPool){ .arena = arena, .base = base, .first = first };
    map_init(&p->number, arena);
    return p;
}

StringPool *pool_new(Arena *arena)
{
    StringPool *p = pool_behind(arena, NULL, 0);
    pool_add(p, "", 0);
    return p;
}

StringPool *pool_above(Arena *arena, const StringPool *base) { return pool_behind(arena, base, base->count); }

int64_t pool_add(StringPool *p, const char *s, size_t len)
{
    intptr_t known = p->base ? (intptr_t)map_get(&p->base->number, s, len) : 0;
    if (!known) known = (intptr_t)map_get(&p->number, s, len);
    if (known) return known - 1;
    if (p->count == p->cap) {
        const char **grown = NEW_N(p->arena, const char *, p->cap = p->cap ? 2 * p->cap : 64);
        if (p->count) memcpy(grown, p->text, sizeof *grown * (size_t)p->count);
        p->text = grown;
    }
    p->text[p->count] = arena_strndup(p->arena, s, len);
    map_put(&p->number, s, len, (void *)(intptr_t)(p->first + p->count + 1));
    return p->first + p->count++;
}

const char *pool_text(const StringPool *p, int64_t number)
{
    if (p->base && number < p->first) return pool_text(p->base, number);
    return number >= p->first && number - p->first < p->count ? p->text[number - p->first] : "";
}

U text_wrap(Graph *g, U numbers)
{
    if (numbers->op == UOP_ERROR || is_text(numbers)) return numbers;
    return uop_tagged(g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, &numbers, 1), STRINGS);
}

bool is_text(U x) { return x->op == UOP_TUPLE && x->tag == STRINGS; }

TextUse text_use(const char *op)
{
    static const struct { const char *name; TextUse use; } row[] = {
        { "Compress", TEXT_MOVES }, { "Concat", TEXT_MOVES }, { "Expand", TEXT_MOVES }, { "Flatten", TEXT_MOVES }, { "Gather", TEXT_MOVES }, { "GatherElements", TEXT_MOVES },
        { "GatherND", TEXT_MOVES }, { "Reshape", TEXT_MOVES }, { "ScatterElements", TEXT_MOVES }, { "ScatterND", TEXT_MOVES }, { "Slice", TEXT_MOVES }, { "Split", TEXT_MOVES }, { "SplitToSequence", TEXT_MOVES },
        { "CenterCropPad", TEXT_MOVES }, { "DepthToSpace", TEXT_MOVES }, { "OneHot", TEXT_MOVES }, { "Pad", TEXT_MOVES }, { "ReverseSequence", TEXT_MOVES }, { "Scatter", TEXT_MOVES }, { "SpaceToDepth", TEXT_MOVES },
        { "TensorScatter", TEXT_MOVES }, { "Trilu", TEXT_MOVES }, { "ExpandDims", TEXT_MOVES }, { "UnfoldTensor", TEXT_MOVES },
        { "Squeeze", TEXT_MOVES }, { "Tile", TEXT_MOVES }, { "Transpose", TEXT_MOVES }, { "Unsqueeze", TEXT_MOVES }, { "Where", TEXT_MOVES }, { "ArrayFeatureExtractor", TEXT_MOVES },
        { "Col2Im", TEXT_LINEAR }, { "GridSample", TEXT_LINEAR }, { "Resize", TEXT_LINEAR }, { "Upsample", TEXT_LINEAR },
        { "Equal", TEXT_ASKS }, { "RandomNormalLike", TEXT_ASKS }, { "RandomUniformLike", TEXT_ASKS }, { "Shape", TEXT_ASKS }, { "Size", TEXT_ASKS },
        { "BitCast", TEXT_KNOWS }, { "DequantizeLinear", TEXT_KNOWS }, { "Dropout", TEXT_KNOWS }, { "IsInf", TEXT_KNOWS }, { "IsNaN", TEXT_KNOWS }, { "NonZero", TEXT_KNOWS }, { "QLinearMatMul", TEXT_KNOWS },
        { "GatherBlockQuantized", TEXT_KNOWS }, { "QuantizeLinear", TEXT_KNOWS }, { "Unique", TEXT_KNOWS },
        { "Cast", TEXT_KNOWS }, { "CastLike", TEXT_KNOWS }, { "CategoryMapper", TEXT_KNOWS }, { "LabelEncoder", TEXT_KNOWS }, { "MurmurHash3", TEXT_KNOWS }, { "OneHotEncoder", TEXT_KNOWS },
        { "RegexFullMatch", TEXT_KNOWS }, { "StringConcat", TEXT_KNOWS }, { "StringNormalizer", TEXT_KNOWS },
        { "StringSplit", TEXT_KNOWS }, { "TfIdfVectorizer", TEXT_KNOWS }, { "Tokenizer", TEXT_KNOWS }, { "ZipMap", TEXT_KNOWS },
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        if (!strcmp(op, row[k].name)) return row[k].use;
    return TEXT_NO;
}

static _Thread_local struct { StringPool *pool; int64_t wanted; } of_run;

StringPool *text_begin(StringPool *pool)
{
    StringPool *before = of_run.pool;
    of_run.pool = pool, of_run.wanted = 0;
    return before;
}

int64_t text_end(StringPool *before) { return of_run.pool = before, of_run.wanted; }

StringPool *text_pool(void) { return of_run.pool; }

void text_wants(int64_t pieces) { of_run.wanted = pieces; }

StringPool *import_pool(const Ctx *c) { return c->im->run->pool; }

static U numbers_of(Graph *g, int64_t *v, int64_t n, const int64_t *shape, uint32_t rank)
{
    TensorDef t = {
        .name = "", .type = TG_I64, .rank = rank, .shape = shape, .numel = n, .data = v, .size_bytes = (size_t)n * 8
    };
    return text_wrap(g, import_tensor(g, &t));
}

U text_constant(Graph *g, StringPool *p, const TensorDef *t)
{
    int64_t *v = NEW_N(graph_arena(g), int64_t, t->numel + 1);
    const TensorString *s = t->data;
    for (int64_t k = 0; k < t->numel; k++) v[k] = pool_add(p, s[k].s, s[k].len);
    return numbers_of(g, v, t->numel, t->shape, t->rank);
}

U text_list(Graph *g, StringPool *p, const char *const *s, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    int64_t *v = NEW_N(graph_arena(g), int64_t, n + 1);
    for (int64_t k = 0; k < n; k++) v[k] = pool_add(p, s[k], strlen(s[k]));
    return numbers_of(g, v, n, shape, rank);
}

bool input_text(Graph *g, const Ctx *c, uint32_t i, const char ***out, int64_t *n)
{
    U x = c->in[i];
    *n = 0;
    if (!is_text(x)) return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "is not of strings"), false;
    x = text_numbers(x);
    if (!uop_static(x)) return fail_data(g, c, i), false;
    *n = uop_numel(x);
    if (*n > CONTENT_MAX)
        return fail_node(g, c, TG_LIMIT, c->node->in[i], "%lld strings; at most %d", (long long)*n, CONTENT_MAX), false;
    size_t size;
    const int64_t *v = *n ? data_of(g, x, CONTENT_MAX, &size) : NULL;
    if (*n && !v) return fail_data(g, c, i), false;
    *out = NEW_N(graph_arena(g), const char *, *n + 1);
    for (int64_t k = 0; k < *n; k++) (*out)[k] = pool_text(import_pool(c), v[k]);
    return true;
}
