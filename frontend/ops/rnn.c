/* Recurrent operators: LSTM, GRU, RNN.
 * In: x [T,B,I], weights a direction. Out: Y [T,D,B,H], last states [D,B,H]. The input's share of every gate and step
 * is one matrix product before the loop; the loop carries [D,B,H] states of both directions at once, the backward one
 * reading its steps in reverse. A step is one matrix product of all gates and element-wise work on its parts. Half
 * precision is computed in f32. Must hold: beyond an element's length its states stay and its rows are 0. To add a
 * cell: its step function and its number of gates.
 */
#include <string.h>

#include "frontend/ops/activation.h"
#include "frontend/control/loop.h"
#include "frontend/input_names.h"
#include "frontend/ops/quant.h"

/* ---- a cell ---- */

enum { ACTS = 3 };
typedef struct Rnn Rnn;
typedef void (*CellStep)(Graph *g, const Rnn *r, U step, const U *state, U *next);
struct Rnn {
    uint32_t gates, acts, states, dirs;
    int64_t hidden;
    U steps;                        /* DT_INDEX */
    CellStep cell;
    bool reverse, both;             /* direction: reverse only; forward and reverse */
    Act act[2][ACTS];
    double clip;                    /* 0: none */
    bool input_forget, linear_before_reset;
    U w, rec;                       /* weights as the standard has them: [D,G*H,I], [D,G*H,H] */
    /* NULL, or [D,1,1 or G*H] of w and rec, which are whole numbers: then what they are multiplied with is quantised by
     * its range */
    U scale[2];
    U x;                            /* [T,D,B,G*H]: the input's share and biases */
    U r;                            /* [D,H,G*H]: recurrent weights, transposed */
    U peep[3];                      /* [D,1,H] or NULL: input, output, forget */
    U hidden_bias;                  /* GRU with linear_before_reset: [D,1,H] */
    U length;                       /* i64 [1,B,1], or NULL: all steps */
};

static U input_share(Graph *g, const Rnn *r, U step) { return loop_slice(g, r->x, 0, step); }

/* Gates from .. to-1 of [D,..,G*H]. */
static U part(Graph *g, const Rnn *r, U x, uint32_t from, uint32_t to)
{
    return slice_i(g, x, 2, from * r->hidden, to * r->hidden);
}

static U before_act(Graph *g, const Rnn *r, U x)
{
    return r->clip > 0 ? clamp(g, x, scalar(g, x->dtype, -r->clip), scalar(g, x->dtype, r->clip)) : x;
}

/* Activation k of each direction on [D,B,H]. */
static U apply_each(Graph *g, const Rnn *r, uint32_t k, U x)
{
    if (!r->both || act_same(r->act[0][k], r->act[1][k])) return act_apply(g, r->act[0][k], x);
    U part[2] = { act_apply(g, r->act[0][k], slice_i(g, x, 0, 0, 1)),
                  act_apply(g, r->act[1][k], slice_i(g, x, 0, 1, 2)) };
    return cat(g, part, 2, 0);
}

static U activate(Graph *g, const Rnn *r, uint32_t k, U x) { return apply_each(g, r, k, before_act(g, r, x)); }
static U peeped(Graph *g, const Rnn *r, U x, U c, uint32_t k)
{
    return r->peep[k] ? add(g, x, mul(g, r->peep[k], c)) : x;
}

/* x times weights whose scale is given, as integers: the range of x is that over axes. */
static U whole_product(Graph *g, U x, U w, U scale, const int64_t *axes, uint32_t n)
{
    U part[3];
    dynamic_range(g, x, axes, n, true, part);
    return mul(g, cast(g, matmul(g, centred(g, part[0], part[2]), w), DT_F32), mul(g, part[1], scale));
}

/* The state's share of every gate. */
static U recur(Graph *g, const Rnn *r, U h)
{
    return r->scale[1] ? whole_product(g, h, r->r, r->scale[1], (int64_t[]){ 1, 2 }, 2) : matmul(g, h, r->r);
}

static void rnn_step(Graph *g, const Rnn *r, U step, const U *state, U *next)
{
    next[0] = activate(g, r, 0, add(g, input_share(g, r, step), recur(g, r, state[0])));
}

/* Gates in the order input, output, forget, cell. */
static void lstm_step(Graph *g, const Rnn *r, U step, const U *state, U *next)
{
    U c = state[1], one = scalar(g, c->dtype, 1), all = add(g, input_share(g, r, step), recur(g, r, state[0]));
    U i = activate(g, r, 0, peeped(g, r, part(g, r, all, 0, 1), c, 0));
    U f = r->input_forget ? sub(g, one, i) : activate(g, r, 0, peeped(g, r, part(g, r, all, 2, 3), c, 2));
    next[1] = add(g, mul(g, f, c), mul(g, i, activate(g, r, 1, part(g, r, all, 3, 4))));
    U o = activate(g, r, 0, peeped(g, r, part(g, r, all, 1, 2), next[1], 1));
    /* the cell state itself is not clipped: so does onnxruntime, which other engines follow */
    next[0] = mul(g, o, apply_each(g, r, 2, next[1]));
}

/* Gates in the order update, reset, hidden. Where the product is all gates' it is stored, and what is added to two of
 * them is not stored beside it. */
static void gru_step(Graph *g, const Rnn *r, U step, const U *state, U *next)
{
    U h = state[0], x = input_share(g, r, step),
      all = matmul(g, h, r->linear_before_reset ? r->r : part(g, r, r->r, 0, 2));
    U gate[2], two = r->linear_before_reset ? NULL : add(g, part(g, r, x, 0, 2), all), share;
    for (int64_t k = 0; k < 2; k++)
        gate[k] = activate(g, r, 0,
                           two ? part(g, r, two, k, k + 1)
                               : add(g, part(g, r, x, k, k + 1), part(g, r, all, k, k + 1)));
    U z = gate[0], reset = gate[1];
    if (r->linear_before_reset) {
        share = part(g, r, all, 2, 3);
        share = mul(g, reset, r->hidden_bias ? add(g, share, r->hidden_bias) : share);
    } else {
        share = matmul(g, mul(g, reset, h), part(g, r, r->r, 2, 3));
    }
    U fresh = activate(g, r, 1, add(g, part(g, r, x, 2, 3), share));
    next[0] = add(g, mul(g, sub(g, scalar(g, h->dtype, 1), z), fresh), mul(g, z, h));
}

/* One iteration of the loop: the cell, and what is beyond an element's length. */
static bool iteration_of(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    const Rnn *r = user;
    r->cell(g, r, step, state, next);
    row[0] = next[0];
    *keep = NULL;
    if (r->length) {
        U alive = lt(g, cast(g, step, DT_I64), r->length);
        row[0] = where(g, alive, next[0], scalar(g, next[0]->dtype, 0));
        for (uint32_t k = 0; k < r->states; k++) next[k] = where(g, alive, next[k], state[k]);
    }
    return graph_error(g) == TG_OK;
}

/* ---- attributes ---- */

/* Names a direction; their parameters are taken in order by those that have one. */
static bool activations(Graph *g, const Ctx *c, Rnn *r, const ActKind *otherwise)
{
    const Attr *names = attr_find(c, "activations");
    const float *alpha, *beta;
    uint32_t nalpha, nbeta, ia = 0, ib = 0, wanted = r->acts * r->dirs;
    attr_floats(g, c, "activation_alpha", &alpha, &nalpha);
    attr_floats(g, c, "activation_beta", &beta, &nbeta);
    if (names && names->type == ATTR_STRINGS && names->n && names->n != wanted)
        return fail_node(g, c, TG_BAD_MODEL, "activations", "has %u values; wanted %u", names->n, wanted), false;
    for (uint32_t k = 0; k < wanted; k++) {
        Act *f = &r->act[k / r->acts][k % r->acts];
        ActKind kind = otherwise[k % r->acts];
        *f = act_of(kind);
        if (names && names->n && !act_named(g, c, "activations", names->strings[k], ACT_CELLS, f)) return false;
        if (act_takes(f->kind) > 0 && ia < nalpha) f->a = (double)alpha[ia++];
        if (act_takes(f->kind) > 1 && ib < nbeta) f->b = (double)beta[ib++];
    }
    return true;
}

static bool attributes(Graph *g, const Ctx *c, Rnn *r, const ActKind *otherwise)
{
    const char *direction = attr_str(g, c, "direction", "forward");
    r->reverse = !strcmp(direction, "reverse");
    r->both = !strcmp(direction, "bidirectional");
    r->dirs = r->both ? 2 : 1;
    if (!r->reverse && !r->both && strcmp(direction, "forward"))
        return fail_node(g, c, TG_BAD_MODEL, "direction", "'%s' is none of forward, reverse, bidirectional", direction),
               false;
    r->clip = attr_float(g, c, "clip", 0);
    if (attr_find(c, "clip") && !(r->clip > 0))
        return fail_node(g, c, TG_BAD_MODEL, "clip", "is %g; wanted a positive number", r->clip), false;
    r->input_forget = attr_bool(g, c, "input_forget", false);
    r->linear_before_reset = attr_bool(g, c, "linear_before_reset", false);
    return activations(g, c, r, otherwise);
}

/* Sizes that fit each other; then H is known. */
static bool check_shapes(Graph *g, const Ctx *c, Rnn *r, U x, uint32_t initial, uint32_t peephole)
{
    U w = r->w, rec = r->rec;
    if (uop_rank(x) != 3 || uop_rank(w) != 3 || uop_rank(rec) != 3)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "X, W and R must have rank 3"), false;
    if (!uop_static(w) || !uop_static(rec))
        return fail_node(g, c, TG_UNSUPPORTED, NULL, "weights of symbolic size are not covered"), false;
    int64_t h = r->hidden = uop_size(rec, 2), d = r->dirs, n = r->gates * h;
    r->steps = uop_dim(x, 0);
    if (uop_size(rec, 0) != d || uop_size(rec, 1) != n)
        return fail_node(g, c, TG_BAD_MODEL, "R", "its shape does not fit %u gates in %u directions", r->gates,
                         r->dirs),
               false;
    if (uop_size(w, 0) != d || uop_size(w, 1) != n || uop_dim(w, 2) != uop_dim(x, 2))
        return fail_node(g, c, TG_BAD_MODEL, "W", "its shape does not fit"), false;
    if (attr_int(g, c, "hidden_size", h) != h)
        return fail_node(g, c, TG_BAD_MODEL, "hidden_size", "differs from R's %lld", (long long)h), false;
    if (c->in[RNN_B] &&
        (uop_rank(c->in[RNN_B]) != 2 || !same_size(g, uop_dim(c->in[RNN_B], 0), uop_index(g, d)) ||
         !same_size(g, uop_dim(c->in[RNN_B], 1), uop_index(g, 2 * n))))
        return fail_node(g, c, TG_BAD_MODEL, "B", "its shape does not fit"), false;
    if (peephole && !shape_ok(g, c, peephole, (U[]){ uop_index(g, d), uop_index(g, 3 * h) }, 2)) return false;
    if (c->in[RNN_sequence_lens] &&
        (uop_rank(c->in[RNN_sequence_lens]) != 1 || uop_dim(c->in[RNN_sequence_lens], 0) != uop_dim(x, 1)))
        return fail_node(g, c, TG_BAD_MODEL, "sequence_lens", "wanted one length an element"), false;
    for (uint32_t k = initial; k < initial + r->states; k++)
        if (c->in[k] && (uop_rank(c->in[k]) != 3 || uop_numel(c->in[k]) != d * uop_size(x, 1) * h))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k], "its shape does not fit"), false;
    return ok(g);
}

/* ---- time ---- */

/* Lengths that are not all T, as [1,B,1]; a longer or negative one fails. */
static U lengths(Graph *g, const Ctx *c, U steps)
{
    int64_t v[256];
    uint32_t n;
    if (!c->in[RNN_sequence_lens]) return NULL;
    bool full = ints_of(g, c->in[RNN_sequence_lens], v, 256, &n);
    for (uint32_t k = 0; full && k < n; k++) full = uop_is_int_const(steps, v[k]);
    return full ? NULL
                : reshape(g, input_count(g, c, RNN_sequence_lens, steps),
                          (U[]){ uop_index(g, 1), uop_dim(c->in[RNN_sequence_lens], 0), uop_index(g, 1) }, 3);
}

/* x [T,B,F] with the steps of each element, as many as it has, in reverse. */
static U reversed(Graph *g, const Rnn *r, U x)
{
    if (!r->length) return flip_axis(g, x, 0);
    U t = iota(g, uop_dim(x, 0), DT_I64), step = unsqueeze(g, unsqueeze(g, t, 1), 2);
    U at = where(g, lt(g, step, r->length), sub(g, sub(g, r->length, uop_int(g, DT_I64, 1)), step), step);
    return gather_elements(g, x,
                           clamp(g, expand_like(g, at, x), uop_int(g, DT_I64, 0),
                                 sub(g, cast(g, r->steps, DT_I64), uop_int(g, DT_I64, 1))),
                           0);
}

static bool backward(const Rnn *r, uint32_t dir) { return r->reverse || dir == 1; }

/* x [T,B,I] times each direction's weights, with the biases that are added unchanged: [T,D,B,G*H]. */
static void project(Graph *g, const Ctx *c, Rnn *r, U x)
{
    U part[2], bias = c->in[RNN_B] ? wide(g, c->in[RNN_B]) : NULL;
    int64_t n = r->gates * r->hidden, plain = r->cell == gru_step && r->linear_before_reset ? n - r->hidden : n;
    for (uint32_t d = 0; d < r->dirs; d++) {
        U w = transpose(g, squeeze(g, slice_i(g, r->w, 0, d, d + 1), 0));
        part[d] = r->scale[0]
            ? whole_product(g, x, w, squeeze(g, slice_i(g, r->scale[0], 0, d, d + 1), 0), (int64_t[]){ 0, 1, 2 }, 3)
            : matmul(g, x, w);
        if (bias) {
            U mine = squeeze(g, slice_i(g, bias, 0, d, d + 1), 0), rec = slice_i(g, mine, 0, n, n + plain);
            if (plain < n) rec = pad_i(g, rec, (int64_t[]){ 0 }, (int64_t[]){ n - plain }, NULL);
            part[d] = add(g, part[d], add(g, slice_i(g, mine, 0, 0, n), rec));
        }
        if (backward(r, d)) part[d] = reversed(g, r, part[d]);
    }
    r->x = contiguous(g, stack(g, part, r->dirs, 1));
    if (plain < n && bias) r->hidden_bias = unsqueeze(g, slice_i(g, bias, 1, n + plain, 2 * n), 1);
}

static void recurrent(Graph *g, const Ctx *c, Rnn *r, uint32_t peephole)
{
    U p = peephole && c->in[peephole] ? wide(g, c->in[peephole]) : NULL;
    r->r = transpose(g, r->rec);
    for (uint32_t k = 0; k < 3 && p; k++)
        r->peep[k] = unsqueeze(g, slice_i(g, p, 1, k * r->hidden, (k + 1) * r->hidden), 1);
}

/* Rows [T,D,B,H] with the backward direction's steps in their own order again. */
static U in_order(Graph *g, const Rnn *r, U y)
{
    U part[2];
    for (uint32_t d = 0; d < r->dirs; d++) {
        part[d] = squeeze(g, slice_i(g, y, 1, d, d + 1), 1);
        if (backward(r, d)) part[d] = reversed(g, r, part[d]);
    }
    return stack(g, part, r->dirs, 1);
}

/* layout 1 has the batch first: Y [B,T,D,H], states [B,D,H]. */
static U batch_first(Graph *g, U y)
{
    return uop_rank(y) == 4 ? permute(g, y, (int64_t[]){ 2, 0, 1, 3 }, 4) : permute(g, y, (int64_t[]){ 1, 0, 2 }, 3);
}

static U initial_state(Graph *g, const Rnn *r, U given, U x, bool swapped)
{
    U dim[] = { uop_index(g, r->dirs), uop_dim(x, 1), uop_index(g, r->hidden) };
    if (!given) return expand(g, scalar(g, x->dtype, 0), dim, 3);
    return swapped ? batch_first(g, wide(g, given)) : reshape(g, wide(g, given), dim, 3);
}

/* The operator whose cell r describes. initial, peephole: the inputs that hold the first states and P (0: none). */
static U recurrence(Graph *g, const Ctx *c, Rnn *r, const ActKind *otherwise, uint32_t initial, uint32_t peephole)
{
    bool swapped = attr_bool(g, c, "layout", false);
    U x = wide(g, c->in[0]), first[2], out[3] = { NULL, NULL, NULL };
    if (!r->w) r->w = wide(g, c->in[RNN_W]), r->rec = wide(g, c->in[RNN_R]);
    if (swapped && uop_rank(x) == 3) x = batch_first(g, x);
    if (!attributes(g, c, r, otherwise) || !check_shapes(g, c, r, x, initial, peephole)) return NULL;
    r->length = lengths(g, c, r->steps);
    project(g, c, r, x);
    recurrent(g, c, r, peephole);
    for (uint32_t k = 0; k < r->states; k++) first[k] = initial_state(g, r, c->in[initial + k], x, swapped);
    Loop l = { .body = iteration_of,
               .user = r,
               .trip = r->steps,
               .most = r->steps->vmax,
               .states = r->states,
               .rows = 1,
               .init = first };
    if (!loop_build(g, &l, out + 1, out)) return NULL;
    out[0] = in_order(g, r, out[0]);
    for (uint32_t k = 0; k < 1 + r->states; k++)
        out[k] = narrow(g, swapped ? batch_first(g, out[k]) : out[k], c->in[0]);
    return outputs(g, c, out, 1 + r->states);
}

U op_rnn(Graph *g, const Ctx *c)
{
    Rnn r = { .gates = 1, .acts = 1, .states = 1, .cell = rnn_step };
    return recurrence(g, c, &r, (ActKind[]){ ACT_TANH }, 5, 0);
}

U op_gru(Graph *g, const Ctx *c)
{
    Rnn r = { .gates = 3, .acts = 2, .states = 1, .cell = gru_step };
    return recurrence(g, c, &r, (ActKind[]){ ACT_SIGMOID, ACT_TANH }, 5, 0);
}

U op_lstm(Graph *g, const Ctx *c)
{
    Rnn r = { .gates = 4, .acts = 3, .states = 2, .cell = lstm_step };
    return recurrence(g, c, &r, (ActKind[]){ ACT_SIGMOID, ACT_TANH, ACT_TANH }, 5, 7);
}

/* Weights i of DynamicQuantizeLSTM, [D,n,4H], as the standard has them, less their zero points; *scale as [D,1,1 or
 * 4H]. Both parameters, inputs s and s + 1, are [D] or [D,4H]. */
static U whole_weights(Graph *g, const Ctx *c, uint32_t i, uint32_t s, U *scale)
{
    U w = c->in[i], of[2];
    if (uop_rank(w) != 3) return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted 3", uop_rank(w));
    for (uint32_t k = 0; k < 2; k++) {
        U v = c->in[s + k];
        if (!shape_ok(g, c, s + k, (U[]){ uop_dim(w, 0), uop_dim(w, 2) }, uop_rank(v) == 1 ? 1 : 2)) return NULL;
        of[k] = uop_rank(v) == 1 ? unsqueeze(g, unsqueeze(g, v, 1), 2) : unsqueeze(g, v, 1);
    }
    *scale = of[0];
    return transpose(g, centred(g, w, of[1]));
}

/** DynamicQuantizeLSTM: weights are 8-bit numbers, [D,I,4H] and [D,H,4H]; all of X, and each step the state of a
 * direction, is quantised by its own range. */
U op_dynamic_quantize_lstm(Graph *g, const Ctx *c)
{
    Rnn r = { .gates = 4, .acts = 3, .states = 2, .cell = lstm_step };
    r.w = whole_weights(g, c, MsDynamicQuantizeLSTM_W, 8, &r.scale[0]);
    r.rec = r.w ? whole_weights(g, c, MsDynamicQuantizeLSTM_R, 10, &r.scale[1]) : NULL;
    return r.rec && ok(g) ? recurrence(g, c, &r, (ActKind[]){ ACT_SIGMOID, ACT_TANH, ACT_TANH }, 5, 7) : NULL;
}
