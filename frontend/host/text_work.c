/* See text_work.h. Case follows Unicode by the C.UTF-8 tables of the C library. To add one: a function, a row of
 * `table`, and an importer (ops/string.c). */
#include "frontend/host/text_work.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "frontend/host/pattern.h"
#include "graph/base/arena.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/base/number.h"
#include "graph/base/text.h"

/* ---- rows ---- */

static void add_item(Work *w, int64_t number)
{
    Rows *r = &w->rows;
    if (r->n == r->room) r->item = mem_grow(r->item, (size_t)(r->room = r->room ? 2 * r->room : 64) * sizeof *r->item);
    r->item[r->n++] = number;
}

static void add_piece(Work *w, const char *s, size_t len) { add_item(w, pool_add(w->pool, s, len)); }

static int64_t row_start(const Work *w, int64_t k) { return k ? w->rows.end[k - 1] : 0; }

int64_t text_longest(const Work *w)
{
    int64_t longest = 0;
    for (int64_t k = 0; k < w->n; k++)
        if (w->rows.end[k] - row_start(w, k) > longest) longest = w->rows.end[k] - row_start(w, k);
    return longest;
}

void text_pad(const Work *w, int64_t longest, int64_t *out)
{
    int64_t fill = *(const int64_t *)(const void *)w->attr;
    for (int64_t k = 0; k < w->n; k++) {
        int64_t from = row_start(w, k), n = w->rows.end[k] - from;
        if (n) memcpy(out + k * longest, w->rows.item + from, (size_t)n * sizeof *out);
        for (int64_t j = n; j < longest; j++) out[k * longest + j] = fill;
    }
}

void work_free(Work *w)
{
    mem_free(w->rows.item);
    mem_free(w->rows.end);
    w->rows = (Rows){ 0 };
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
    else if (v < 0x10000)
        b[0] = (char)(0xe0 | v >> 12), b[1] = (char)(0x80 | (v >> 6 & 63)), b[2] = (char)(0x80 | (v & 63)),
        text_bytes(t, b, 3);
    else
        b[0] = (char)(0xf0 | v >> 18), b[1] = (char)(0x80 | (v >> 12 & 63)), b[2] = (char)(0x80 | (v >> 6 & 63)),
        b[3] = (char)(0x80 | (v & 63)), text_bytes(t, b, 4);
}

static size_t characters(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t k = 0; k < len; k++) n += (s[k] & 0xc0) != 0x80;
    return n;
}

/* s in that case, in t's memory, or s itself. */
static const char *with_case(Text *t, const char *s, TextCase how, locale_t where)
{
    if (how == CASE_NONE) return s;
    t->len = 0;
    text_bytes(t, "", 0);
    while (*s) {
        uint32_t v = decode(&s);
        if (v < 128)
            v = how == CASE_LOWER && v >= 'A' && v <= 'Z'   ? v + 32
                : how == CASE_UPPER && v >= 'a' && v <= 'z' ? v - 32
                                                            : v;
        else if (where) v = (uint32_t)(how == CASE_LOWER ? towlower_l((wint_t)v, where) : towupper_l((wint_t)v, where));
        encode(t, v);
    }
    return t->s;
}

static locale_t unicode;
static void make_unicode(void) { unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL); }

/* Of this file alone: the program's locale stays what it is. */
static locale_t cases(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_unicode);
    return unicode;
}

const char *text_lower(Arena *arena, const char *s)
{
    Text t = { 0 };
    s = arena_strdup(arena, with_case(&t, s, CASE_LOWER, cases()));
    text_free(&t);
    return s;
}

static TgStatus normalize(Work *w)
{
    const NormalizeAttr *a = (const void *)w->attr;
    const char *stop = w->attr + sizeof *a;
    const int64_t *x = w->x;
    Arena *arena = a->stops ? arena_new() : NULL;
    Map stops;
    Text lower = { 0 }, out = { 0 };
    locale_t where = cases();
    if (arena) map_init(&stops, arena);
    for (int32_t k = 0; k < a->stops; k++, stop += strlen(stop) + 1) map_put_held(&stops, stop, strlen(stop), arena);
    for (int64_t k = 0; k < w->n; k++) {
        const char *s = pool_text(w->pool, x[k]),
                   *seen = a->stops && !a->exact ? with_case(&lower, s, CASE_LOWER, where) : s;
        if (a->stops && map_get(&stops, seen, strlen(seen))) continue;
        s = with_case(&out, s, (TextCase)a->how, where);
        add_piece(w, s, strlen(s));
    }
    if (!w->rows.n) add_item(w, 0);
    text_free(&lower), text_free(&out);
    if (arena) arena_free(arena);
    return TG_OK;
}

static TgStatus full_match(Work *w)
{
    Matcher *m;
    const int64_t *x = w->x;
    TRY(matcher_of(&m, w->attr, true, w->n));
    TgStatus status = TG_OK;
    for (int64_t k = 0; k < w->n && status == TG_OK; k++) {
        const char *s = pool_text(w->pool, x[k]);
        size_t begin, end;
        bool found = false;
        status = matcher_next(m, s, strlen(s), 0, &begin, &end, &found);
        ((uint8_t *)w->out)[k] = found;
    }
    return status;
}

/* ---- pieces ---- */

static void end_row(Work *w, int64_t k)
{
    w->rows.end[k] = w->rows.n;
    if (w->count) w->count[k] = w->rows.n - row_start(w, k);
}

static void rows_of(Work *w) { w->rows.end = mem_zeros((size_t)w->n + 1, sizeof *w->rows.end); }

static bool add_token(Work *w, const TokenAttr *a, const char *s, size_t len)
{
    if (!len || (int64_t)characters(s, len) < a->least) return false;
    add_piece(w, s, len);
    return true;
}

/* The tokens of one string; *any: there is one. */
static TgStatus tokens_of(Work *w, Matcher *m, const TokenAttr *a, const char *s, bool *any)
{
    size_t len = strlen(s), at = 0, from = 0, begin, end;
    bool found = true;
    for (const char *p = s; a->by == BY_CHARACTER && *p;) {
        const char *first = p;
        decode(&p);
        *any |= add_token(w, a, first, (size_t)(p - first));
    }
    while (a->by != BY_CHARACTER && at < len) {
        TRY(matcher_next(m, s, len, at, &begin, &end, &found));
        if (!found) break;
        if (a->by == BY_PATTERN) *any |= add_token(w, a, s + begin, end - begin);
        else if (end > begin) *any |= add_token(w, a, s + from, begin - from), from = end;
        at = end > begin ? end : begin + 1;
        while (at < len && (s[at] & 0xc0) == 0x80 && end == begin) at++;
    }
    if (a->by == BY_SEPARATOR) *any |= add_token(w, a, s + from, len - from);
    return TG_OK;
}

/* Rows are marked where any of them holds a token. */
static TgStatus tokenize(Work *w)
{
    const TokenAttr *a = (const void *)w->attr;
    const int64_t *x = w->x;
    Matcher *m = NULL;
    TgStatus status = a->by == BY_CHARACTER ? TG_OK : matcher_of(&m, w->attr + sizeof *a, false, w->n);
    bool any = false;
    rows_of(w);
    for (int64_t k = 0; k < w->n && status == TG_OK; k++) {
        if (a->mark) add_piece(w, "\x02", 1);
        status = tokens_of(w, m, a, pool_text(w->pool, x[k]), &any);
        if (a->mark) add_piece(w, "\x03", 1);
        end_row(w, k);
    }
    if (!any) memset(w->rows.end, 0, (size_t)w->n * sizeof *w->rows.end);
    return status;
}

/* At a delimiter, or at runs of blanks. */
static TgStatus split_at(Work *w)
{
    static const char blanks[] = " \t\n\r\f\v";
    const SplitAttr *a = (const void *)w->attr;
    const char *delimiter = w->attr + sizeof *a, *end;
    const int64_t *x = w->x;
    size_t len = strlen(delimiter);
    rows_of(w);
    for (int64_t k = 0; k < w->n; k++) {
        const char *s = pool_text(w->pool, x[k]), *p = s;
        for (int64_t n = 0; len && n < a->most && (end = strstr(p, delimiter)); n++, p = end + len)
            add_piece(w, p, (size_t)(end - p));
        if (len && *s) add_piece(w, p, strlen(p));
        if (!len) p += strspn(p, blanks);
        for (int64_t n = 0; !len && *p; n++, p += strspn(p, blanks)) {
            size_t m = n < a->most ? strcspn(p, blanks) : strlen(p);
            add_piece(w, p, m);
            p += m;
        }
        end_row(w, k);
    }
    return TG_OK;
}

static TgStatus concat(Work *w)
{
    const int64_t *x = w->x;
    Text t = { 0 };
    for (int64_t k = 0; k < w->n; k++) {
        t.len = 0;
        text_add(&t, "%s%s", pool_text(w->pool, x[k]), pool_text(w->pool, w->y[k]));
        ((int64_t *)w->out)[k] = pool_add(w->pool, t.s, t.len);
    }
    text_free(&t);
    return TG_OK;
}

/* ---- numbers ---- */

/* As strtod and strtoll read them in the C locale. */
static TgStatus to_numbers(Work *w)
{
    const NumberAttr *a = (const void *)w->attr;
    const int64_t *x = w->x;
    for (int64_t k = 0; k < w->n; k++) {
        const char *s = pool_text(w->pool, x[k]);
        if (a->real) ((double *)w->out)[k] = number_parse(s, NULL);
        else ((int64_t *)w->out)[k] = strtoll(s, NULL, 10);
    }
    return TG_OK;
}

/* Integers in full, floats with as many digits as their type carries. */
static TgStatus from_numbers(Work *w)
{
    Text t = { 0 };
    for (int64_t k = 0; k < w->n; k++) {
        int64_t v = scalar_load(w->type, w->x, k);
        t.len = 0;
        if (dtype_is_float(w->type)) text_add(&t, w->type == DT_F64 ? "%.17g" : "%.8g", scalar_real(v));
        else text_add(&t, dtype_info[w->type].kind == KIND_UINT ? "%llu" : "%lld", (long long)v);
        ((int64_t *)w->out)[k] = pool_add(w->pool, t.s, t.len);
    }
    text_free(&t);
    return TG_OK;
}

/* ---- n-grams ---- */

static const int64_t *tfidf_start(const TfIdfAttr *a) { return (const int64_t *)(a + 1); }
static const uint32_t *tfidf_slots(const TfIdfAttr *a)
{
    return (const void *)((const char *)(tfidf_start(a) + a->counts + a->grams + a->items) +
                          (size_t)a->grams * sizeof(float));
}

uint64_t gram_hash(const int64_t *item, int64_t n, int64_t step)
{
    uint64_t h = 0;
    for (int64_t k = 0; k < n; k++) h = (h ^ (uint64_t)item[k * step]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 32;
    return h;
}

static bool same_gram(const int64_t *gram, const int64_t *item, int64_t n, int64_t step)
{
    for (int64_t k = 0; k < n; k++)
        if (gram[k] != item[k * step]) return false;
    return true;
}

/* Adds to `out` how often each n-gram of length n, its items at stride `step`, occurs in the row. */
static void count_grams(const TfIdfAttr *a, const int64_t *row, int64_t length, int64_t n, int64_t step, float *out)
{
    const int64_t *start = tfidf_start(a), *column = start + a->counts, *pool = column + a->grams;
    const uint32_t *slot = tfidf_slots(a);
    int64_t first = 0, to = n < a->counts ? start[n] : a->items;
    for (int64_t k = 1; k < n; k++) first += (start[k] - start[k - 1]) / k;
    int64_t last = first + (to - start[n - 1]) / n;
    for (int64_t at = 0; at + (n - 1) * step < length; at++)
        for (uint64_t h = gram_hash(row + at, n, step);; h++) {
            int64_t gram = (int64_t)slot[h & (uint64_t)(a->slots - 1)] - 1;
            if (gram < 0) break;
            if (gram >= first && gram < last && same_gram(pool + start[n - 1] + (gram - first) * n, row + at, n, step))
                out[column[gram]] += 1;
        }
}

static TgStatus tfidf(Work *w)
{
    const TfIdfAttr *a = (const void *)w->attr;
    const int64_t *x = w->x, *column = tfidf_start(a) + a->counts;
    const float *weight = (const void *)(column + a->grams + a->items);
    for (int64_t r = 0; r < w->lists; r++) {
        float *y = (float *)w->out + r * a->columns;
        memset(y, 0, (size_t)a->columns * sizeof *y);
        for (int64_t n = a->least; n <= a->most; n++)
            for (int64_t skip = 0; skip <= (n > 1 ? a->skips : 0) && skip < w->length; skip++)
                count_grams(a, x + r * w->length, w->length, n, skip + 1, y);
        for (int64_t k = 0; k < a->grams && a->mode != MODE_TF; k++) {
            float *f = &y[column[k]], by = a->weighted ? weight[k] : 1;
            *f = a->mode == MODE_IDF ? (*f > 0 ? by : 0) : *f * by;
        }
    }
    return TG_OK;
}

static const WorkRow table[] = {
    { "text_normalize", normalize, true }, { "text_match", full_match, false }, { "text_tokens", tokenize, true }, { "text_split", split_at, true },
    { "text_concat", concat, false }, { "text_to_numbers", to_numbers, false }, { "text_of_numbers", from_numbers, false }, { "text_tfidf", tfidf, false },
};

const WorkRow *text_worker(const char *name)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name)) return &table[k];
    return NULL;
}
