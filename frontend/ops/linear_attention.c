/* LinearAttention (27): attention whose memory of all keys and values is one matrix a head, S [d_k, d_v], that each
 * step decays, corrects and reads. In: queries, keys, values as [batch, steps, heads * size]. Out: as they came, and
 * the last S. Steps are iterations of a loop (loop.h) that carries S [batch, heads, d_k, d_v] in f32; what each reads
 * lies with the steps first: columns [T,B,H,d,1] and rows [T,B,H,1,d] of which an iteration takes its own.
 */
#include <math.h>
#include <string.h>

#include "frontend/control/loop.h"
#include "frontend/input_names.h"

typedef struct {
    int64_t steps, heads, kv_heads;
    U query;                        /* [T,B,H,groups,d_k], scaled: each head of keys serves the queries of a group */
    U key;                          /* [T,B,H,d_k,1] */
    U value;                        /* [T,B,H,1,d_v] */
    U decay;                        /* [T,B,H,d_k or 1,1]: its exponential; NULL: 1 */
    /* [T,B,H or 1,1,1]: how much of the difference to what S has for the key is added; NULL: the value itself is */
    U beta;
} Linear;

static U at(Graph *g, U x, U step) { return loop_slice(g, x, 0, step); }

static bool iteration_of(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    const Linear *l = user;
    U s = l->decay ? mul(g, at(g, l->decay, step), state[0]) : state[0], k = at(g, l->key, step),
      v = at(g, l->value, step);
    if (l->beta) v = mul(g, at(g, l->beta, step), sub(g, v, sum(g, mul(g, k, s), 2, true)));
    next[0] = add(g, s, mul(g, k, v));
    row[0] = matmul(g, at(g, l->query, step), next[0]);
    *keep = NULL;
    return ok(g);
}

/* [B,T,heads*size] as [T,B,heads,..], the parts of the last axis in two. */
static U steps_first(Graph *g, const Ctx *c, uint32_t i, int64_t heads, int64_t a, int64_t b)
{
    U x = wide(g, c->in[i]);
    if (uop_rank(x) != 3 || uop_dim(x, 0) != uop_dim(c->in[0], 0) || uop_dim(x, 1) != uop_dim(c->in[0], 1) ||
        !uop_is_int_const(uop_dim(x, 2), heads * a * b))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "wanted [batch, steps, %lld]", (long long)(heads * a * b));
    U dim[] = { uop_dim(x, 0), uop_dim(x, 1), uop_index(g, heads), uop_index(g, a), uop_index(g, b) };
    return permute(g, reshape(g, x, dim, 5), (int64_t[]){ 1, 0, 2, 3, 4 }, 5);
}

/* The input of the gate `name`: there exactly when the rule has one. */
static bool gate_ok(Graph *g, const Ctx *c, uint32_t i, const char *name, bool wanted)
{
    if (wanted == (c->in[i] != NULL)) return true;
    return fail_node(g, c, TG_BAD_MODEL, name,
                     wanted ? "is missing; update_rule wants it" : "is there; update_rule has none"),
           false;
}

static bool read_linear(Graph *g, const Ctx *c, Linear *l)
{
    const char *rule = attr_str(g, c, "update_rule", "gated_delta");
    bool gated = !strncmp(rule, "gated", 5), delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
    int64_t h = l->kv_heads = attr_int(g, c, "kv_num_heads", 0), dk, dv;
    U q = c->in[0], v = c->in[LinearAttention_value];
    l->heads = attr_int(g, c, "q_num_heads", 0);
    if (!delta && strcmp(rule, "linear") && strcmp(rule, "gated"))
        return fail_node(g, c, TG_BAD_MODEL, "update_rule", "is '%s'; wanted linear, gated, delta or gated_delta",
                         rule),
               false;
    if (h < 1 || l->heads < 1 || l->heads % h)
        return fail_node(g, c, TG_BAD_MODEL, "q_num_heads", "%lld heads of queries on %lld of keys",
                         (long long)l->heads, (long long)h),
               false;
    if (uop_rank(q) != 3 || uop_rank(v) != 3 || !uop_is_const(uop_dim(q, 2)) || uop_size(q, 2) % l->heads ||
        !uop_is_const(uop_dim(v, 2)) || uop_size(v, 2) % h)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "query and value must be [batch, steps, heads * size]"), false;
    if (!uop_is_const(uop_dim(q, 1)))
        return fail_node(g, c, TG_UNSUPPORTED, NULL, "a number of steps that depends on data is not covered"), false;
    if (!gate_ok(g, c, 4, "decay", gated) || !gate_ok(g, c, 5, "beta", delta)) return false;
    dk = uop_size(q, 2) / l->heads, dv = uop_size(v, 2) / h, l->steps = uop_size(q, 1);
    double scale = attr_float(g, c, "scale", 0);
    l->query =
        mul(g, steps_first(g, c, 0, h, l->heads / h, dk), scalar(g, DT_F32, scale != 0 ? scale : 1 / sqrt((double)dk)));
    l->key = steps_first(g, c, LinearAttention_key, h, dk, 1);
    l->value = steps_first(g, c, LinearAttention_value, h, 1, dv);
    if (gated)
        l->decay = exp_(g,
                        steps_first(g, c, LinearAttention_decay, h,
                                    uop_rank(c->in[LinearAttention_decay]) == 3 &&
                                            uop_is_int_const(uop_dim(c->in[LinearAttention_decay], 2), h)
                                        ? 1
                                        : dk,
                                    1));
    if (delta)
        l->beta = steps_first(g, c, LinearAttention_beta,
                              uop_rank(c->in[LinearAttention_beta]) == 3 &&
                                      uop_is_int_const(uop_dim(c->in[LinearAttention_beta], 2), 1)
                                  ? 1
                                  : h,
                              1, 1);
    return ok(g);
}

/** LinearAttention: S_t = decay S_{t-1} + k_t (x) v_t, or with beta_t (v_t - what decay S_{t-1} has for k_t); o_t =
 * scale q_t S_t. */
U op_linear_attention(Graph *g, const Ctx *c)
{
    Linear l = { 0 };
    U past = c->in[LinearAttention_past_state], last, row;
    if (!read_linear(g, c, &l)) return NULL;
    U dim[] = { uop_dim(c->in[0], 0), uop_index(g, l.kv_heads), uop_dim(l.key, 3), uop_dim(l.value, 4) };
    if (past && (uop_rank(past) != 4 || memcmp(past->shape->dim, dim, sizeof dim)))
        return fail_node(g, c, TG_BAD_MODEL, "past_state", "wanted [batch, kv_num_heads, d_k, d_v]");
    U first = past ? wide(g, past) : expand(g, scalar(g, DT_F32, 0), dim, 4);
    Loop loop = { .body = iteration_of,
                  .user = &l,
                  .trip = uop_index(g, l.steps),
                  .most = l.steps,
                  .states = 1,
                  .rows = 1,
                  .init = &first };
    if (!loop_build(g, &loop, &last, &row)) return NULL;
    U out[] = { dim[0], uop_dim(c->in[0], 1), dim_mul(g, uop_index(g, l.heads), dim[3]) };
    U y = reshape(g, permute(g, row, (int64_t[]){ 1, 0, 2, 3, 4 }, 5), out, 3);
    return outputs(g, c, (U[]){ narrow(g, y, c->in[0]), narrow(g, last, past ? past : c->in[0]) }, 2);
}

/* com.microsoft: the same, which may also keep the states of several steps. */
U op_linear_attention_ms(Graph *g, const Ctx *c)
{
    if (attr_int(g, c, "state_window", 0)) return fail_node(g, c, TG_UNSUPPORTED, "state_window", "is not covered");
    return op_linear_attention(g, c);
}
