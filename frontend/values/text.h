/* Strings. A pool numbers the strings of one import; a string tensor is a TUPLE with a tag around an i64 tensor of
 * numbers. What only moves strings (Gather, Reshape,
 * ..) moves numbers, at run time too; what looks into them (StringNormalizer, ..) is a host function, which numbers
 * what it makes behind the import's strings (text_work.h).
 */
#ifndef TG_TEXT_VALUES_H
#define TG_TEXT_VALUES_H
#include "frontend/frontend.h"

typedef struct StringPool StringPool;
StringPool *pool_new(Arena *arena);
/* strings that base lacks, numbered behind its; base stays as it is */
StringPool *pool_above(Arena *arena, const StringPool *base);
/* the string's number; numbers ascend from 0, the empty string */
int64_t pool_add(StringPool *p, const char *s, size_t len);
const char *pool_text(const StringPool *p, int64_t number);        /* "" when there is none */

U text_wrap(Graph *g, U numbers);
bool is_text(U x);
static inline U text_numbers(U x) { return x->src[0]; }
/* May an operator's inputs be strings, of narrow types (narrow.h) or complex (complex.h)? MOVES: it sees what stands
 * for them, and its outputs are of their type; LINEAR: so with complex ones, whose parts may be mixed, and with
 * strings, which may not (Ctx.text): those that are not there are empty; ASKS: it sees what stands for them; KNOWS: it
 * sees the wrapped value. Which of these types they may be the standard says. */
typedef enum { TEXT_NO, TEXT_MOVES, TEXT_LINEAR, TEXT_ASKS, TEXT_KNOWS } TextUse;
TextUse text_use(const char *op);

StringPool *import_pool(const Ctx *c);
U import_constant(Graph *g, StringPool *pool, const TensorDef *t);  /* import_tensor, and strings and narrow types */
U text_constant(Graph *g, StringPool *p, const TensorDef *t);
/* Input i's strings, row-major, which become part of the graph; false and an error when they depend on data. */
bool input_text(Graph *g, const Ctx *c, uint32_t i, const char ***out, int64_t *n);
U text_to_numbers(Graph *g, const Ctx *c, DType to);               /* Cast of input 0 (ops/string.c) */
U numbers_to_text(Graph *g, const Ctx *c);
/* Strings of one run, on its thread: host functions number what they make in its pool. begin returns the one before,
 * for end. wanted: pieces of a string, more than there was room for. */
StringPool *text_begin(StringPool *of_run);
int64_t text_end(StringPool *before);
StringPool *text_pool(void);
void text_wants(int64_t pieces);
U text_list(Graph *g, StringPool *p, const char *const *s, const int64_t *shape, uint32_t rank);
#endif
