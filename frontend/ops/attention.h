/* What ops/attention.c lends to other operators of transformers. */
#ifndef TG_ATTENTION_H
#define TG_ATTENTION_H
#include "frontend/frontend.h"

/* [batch, rows, heads * size] -> [batch, heads, rows, size]; of rank 4: x */
U split_heads(Graph *g, const Ctx *c, U x, int64_t heads);
U join_heads(Graph *g, U x);
/* Key j for query i: j <= i + offset + right and j >= i + offset - left; a negative bound is none. offset: i64, [] or
 * [batch, 1, 1, 1]. */
U window_mask(Graph *g, U rows, U cols, U offset, int64_t left, int64_t right);
/* x [batch, rows, heads, size]: its first `size` elements turned in pairs by angles given as cosine and sine, which
 * broadcast to [.., size / 2]. */
U rotate(Graph *g, U x, U cosine, U sine, int64_t size, bool interleaved);
/* rows of a table, by numbers that do not count from the end */
U rows_at(Graph *g, U table, U ids);
/* by the hyperbolic tangent; x in a type that is computed in */
/* Shapes of inputs that may be absent; an error says which does not fit. */
/* as x [batch, heads, rows, size], but for the rows */
bool past_ok(Graph *g, const Ctx *c, uint32_t i, U x);
bool same_rows(Graph *g, const Ctx *c, uint32_t i, uint32_t j);        /* i and j, both past_ok */
bool bias_ok(Graph *g, const Ctx *c, uint32_t i, U q, U keys);         /* [batch or 1, heads or 1, rows, keys] */
double cap_of(Graph *g, const Ctx *c);                                 /* softcap */
/* q [b,h,n,d], k and v [b,h/groups,m,d]: softmax(q k * scale, capped, plus bias, where allowed) v; sink: scores of a
 * further key without a value, [heads or 1, 1, 1], or NULL. stages[0..3]: scores raw, after softcap, with bias and
 * mask, probabilities. softmax: the type to which scores and probabilities are rounded; DT_VOID: none. */
typedef struct {
    U bias, allowed, sink;
    double scale, softcap;
    DType softmax;
} Attend;
U attend(Graph *g, U q, U k, U v, const Attend *a, U stages[4]);
#endif
