/* What string operators do with strings: at import where these are known, else by a host function between kernels at
 * each run (host.c). Strings are numbers of a pool (text.h). */
#ifndef TG_TEXT_WORK_H
#define TG_TEXT_WORK_H
#include "frontend/values/text.h"
#include "graph/scalar.h"

/* Rows of strings of different lengths, one behind the other: row k ends at end[k]. */
typedef struct { int64_t *item, *end, n, room; } Rows;

/* One call. attr: as the importers write it (ops/string.c), text behind a struct. x, y: numbers of strings, row-major,
 * or of `type` what is to be text; out: results of fixed size; rows, count: of others. */
typedef struct {
    StringPool *pool;
    const char *attr;
    const void *x;
    const int64_t *y;
    DType type;
    int64_t n, lists;                   /* elements of x; it is [n] or [lists, n / lists], where that matters */
    int64_t length;                     /* of its last axis */
    void *out;
    int64_t *count;                     /* [n] pieces of each string, or NULL */
    Rows rows;
} Work;

typedef TgStatus (*Worker)(Work *w);
typedef struct { const char *name; Worker fn; bool makes_rows; } WorkRow;
const WorkRow *text_worker(const char *name);           /* NULL: there is none */
/* rows to [n, longest]; the attributes begin with what fills them */
void text_pad(const Work *w, int64_t longest, int64_t *out);
int64_t text_longest(const Work *w);
void work_free(Work *w);
const char *text_lower(Arena *arena, const char *s);

/* how: TextCase; behind: so many stop words, in lower case unless exact */
typedef struct { int32_t how, exact, stops, pad; } NormalizeAttr;
/* fill: number of the string that rows end with; by: TokensBy; behind: the pattern */
typedef struct { int64_t fill, least; int32_t mark, by; } TokenAttr;
typedef struct { int64_t fill, most; } SplitAttr;                                   /* behind: the delimiter */
typedef struct { int32_t real, pad; } NumberAttr;
typedef enum { CASE_NONE, CASE_LOWER, CASE_UPPER } TextCase;
typedef enum { BY_PATTERN, BY_SEPARATOR, BY_CHARACTER } TokensBy;

/* Behind: start[counts], column[grams], pool[items] i64, weight[grams] floats, slot[slots] u32: a gram's number + 1,
 * found by hash. */
typedef struct {
    int64_t least, most, skips, columns, counts, grams, items, slots;
    int32_t mode, weighted;
} TfIdfAttr;
typedef enum { MODE_TF, MODE_IDF, MODE_TFIDF } TfIdfMode;
uint64_t gram_hash(const int64_t *item, int64_t n, int64_t step);
#endif
