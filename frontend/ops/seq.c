/* Sequences and optionals (tuple.h): lengths are known at import, and positions, but for that of an element among equal
 * forms; of sequences as rows neither is. To add one: a function here, a row in ops.def and a name in
 * `takes_sequences`. */
#include "frontend/values/tuple.h"

#include <string.h>

#include "frontend/import/import.h"
#include "frontend/control/loop.h"
#include "frontend/input_names.h"
#include "frontend/values/ports.h"
#include "graph/custom.h"
#include "graph/guard.h"

bool takes_sequences(const char *op)
{
    static const char *const name[] = {
        "CastMap",       "DictVectorizer",     "Identity",           "If",         "Loop",       "ConcatFromSequence",
        "Optional",      "OptionalGetElement", "OptionalHasElement", "Scan",       "SequenceAt", "SequenceConstruct",
        "SequenceErase", "SequenceInsert",     "SequenceLength",     "SequenceMap"
    };
    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        if (!strcmp(op, name[k])) return true;
    return false;
}

/* Input 0, which must be one, maybe as rows. */
static U sequence_in(Graph *g, const Ctx *c)
{
    U s = maps_apart(g, c->in[0]);
    return is_sequence(s) || is_rows(s) ? s
                                        : (fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not a sequence"), NULL);
}

/* ---- sequences as rows ---- */

static U rows_part(U s, uint32_t i) { return special_part(s->src[0], i); }
static U rows_length(U s) { return uop_dim(rows_part(s, 0), 0); }

/* What f makes of the rows, or of their real and imaginary parts. */
static U rows_by(Graph *g, U s, U (*f)(Graph *g, U rows, U at), U at)
{
    int32_t kind = special_kind(s->src[0]);
    U part[2];
    for (uint32_t i = 0; i < special_parts(kind); i++) part[i] = f(g, rows_part(s, i), at);
    return special_wrap(g, part, kind);
}

static U row_known(Graph *g, U rows, U at) { return squeeze(g, slice(g, rows, 0, at, uop_index(g, 1)), 0); }
static U rows_taken(Graph *g, U rows, U at) { return take(g, rows, at, 0); }

U rows_apart(Graph *g, U x)
{
    if (!is_rows(x) || !uop_is_const(rows_length(x))) return x;
    int64_t n = uop_const_int(rows_length(x));
    U *v = NEW_N(graph_arena(g), U, n + 1);
    for (int64_t k = 0; k < n; k++) v[k] = rows_by(g, x, row_known, uop_index(g, k));
    return sequence_new(g, v, (uint32_t)n);
}

static U rows_at(Graph *g, U s, U at)
{
    return rows_by(g, s, rows_taken, position_in(g, reshape_i(g, at, NULL, 0), rows_length(s)));
}

/* x before that row; NULL: as the last one. */
static U row_inserted(Graph *g, U rows, U x, U at)
{
    U n = uop_dim(rows, 0), more = dim_add(g, n, uop_index(g, 1)), both[2] = { rows, unsqueeze(g, x, 0) };
    if (!at) return cat(g, both, 2, 0);
    U each = iota(g, more, DT_I64), last = cast(g, dim_sub(g, n, uop_index(g, 1)), DT_I64), here = eq(g, each, at);
    for (uint32_t k = 0; k < uop_rank(x); k++) here = unsqueeze(g, here, -1);
    return where(g, here, both[1], take(g, rows, min_(g, sub(g, each, cast(g, lt(g, at, each), DT_I64)), last), 0));
}

static U rows_insert(Graph *g, const Ctx *c, U s)
{
    U x = c->in[SequenceInsert_tensor],
      at = c->in[SequenceInsert_position] ? cast(g, reshape_i(g, c->in[SequenceInsert_position], NULL, 0), DT_I64)
                                          : NULL,
      n = rows_length(s), part[2];
    int32_t kind = special_kind(x);
    bool alike = kind == special_kind(s->src[0]);
    for (uint32_t i = 0; alike && i < special_parts(kind); i++) {
        U row = row_known(g, rows_part(s, i), uop_index(g, 0)), y = special_part(x, i);
        alike = y->dtype != DT_VOID && y->dtype == row->dtype && y->shape == row->shape;
    }
    if (!alike)
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[SequenceInsert_tensor],
                         "a tensor of another form in a sequence whose length is a variable");
    graph_at(g, node_label(c->node), c->node->op, at ? c->node->in[SequenceInsert_position] : NULL);
    if (at)
        at = place_in(g, where(g, lt(g, at, uop_int(g, DT_I64, 0)), add(g, at, cast(g, n, DT_I64)), at),
                      dim_add(g, n, uop_index(g, 1)));
    for (uint32_t i = 0; i < special_parts(kind); i++)
        part[i] = row_inserted(g, rows_part(s, i), special_part(x, i), at);
    return rows_new(g, special_wrap(g, part, kind));
}

static U row_erased(Graph *g, U rows, U at)
{
    U less = dim_sub(g, uop_dim(rows, 0), uop_index(g, 1)), each = iota(g, less, DT_INDEX);
    return at ? take(g, rows, add(g, each, cast(g, le(g, at, each), DT_INDEX)), 0)
              : slice(g, rows, 0, uop_index(g, 0), less);
}

static U rows_erase(Graph *g, U s, U at)
{
    return rows_new(g,
                    rows_by(g, s, row_erased, at ? position_in(g, reshape_i(g, at, NULL, 0), rows_length(s)) : NULL));
}

/* One behind the other along an axis; fresh: along a new one. */
static U rows_joined(Graph *g, U rows, int64_t axis, bool fresh)
{
    int64_t order[TG_MAX_RANK + 1], rank = uop_rank(rows);
    U dim[TG_MAX_RANK + 1];
    for (int64_t k = 0; k < rank; k++) order[k] = k < axis ? k + 1 : k == axis ? 0 : k;
    U y = permute(g, rows, order, (uint32_t)rank);
    if (fresh) return y;
    for (int64_t k = 0; k + 1 < rank; k++)
        dim[k] = k == axis ? dim_mul(g, uop_dim(y, (uint32_t)k), uop_dim(y, (uint32_t)k + 1))
                           : uop_dim(y, (uint32_t)(k + (k > axis)));
    return reshape(g, y, dim, (uint32_t)rank - 1);
}

/* The position that input i names, -1 being the last of n; `otherwise` when absent. */
static bool position(Graph *g, const Ctx *c, uint32_t i, int64_t n, int64_t otherwise, int64_t *out)
{
    const int64_t *v;
    uint32_t count;
    *out = otherwise;
    if (!c->in[i]) return true;
    if (!input_ints(g, c, i, &v, &count)) return false;
    if (count == 1 && v[0] >= -n && v[0] < n) return *out = v[0] < 0 ? v[0] + n : v[0], true;
    return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "position %lld in a sequence of %lld",
                     count == 1 ? (long long)v[0] : 0, (long long)n),
           false;
}

U op_sequence_empty(Graph *g, const Ctx *c) { (void)c; return sequence_new(g, NULL, 0); }

U op_sequence_construct(Graph *g, const Ctx *c)
{
    for (uint32_t k = 0; k < c->nin; k++)
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
    return sequence_new(g, c->in, c->nin);
}

U op_sequence_insert(Graph *g, const Ctx *c)
{
    U s = sequence_in(g, c);
    int64_t at;
    if (s && is_rows(s)) return rows_insert(g, c, s);
    if (!s || !position(g, c, SequenceInsert_position, (int64_t)s->nsrc + 1, s->nsrc, &at)) return NULL;
    if (s->nsrc >= SEQUENCE_MAX) return fail_node(g, c, TG_LIMIT, NULL, "a sequence of more than %d", SEQUENCE_MAX);
    const int64_t *v;
    uint32_t n;
    if (c->in[SequenceInsert_position] && input_ints(g, c, SequenceInsert_position, &v, &n) && v[0] < 0)
        at--; /* counted from the end of what is there */
    if (at < 0)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[SequenceInsert_position], "position %lld in a sequence of %u",
                         (long long)v[0], s->nsrc);
    const UOp **out = NEW_N(graph_arena(g), const UOp *, s->nsrc + 1);
    for (uint32_t k = 0; k <= s->nsrc; k++)
        out[k] = k < at ? s->src[k] : k == at ? c->in[SequenceInsert_tensor] : s->src[k - 1];
    return sequence_new(g, out, s->nsrc + 1);
}

U op_sequence_erase(Graph *g, const Ctx *c)
{
    U s = sequence_in(g, c);
    int64_t at;
    uint32_t n = 0;
    if (s && is_rows(s)) return rows_erase(g, s, c->in[SequenceErase_position]);
    if (!s || !position(g, c, SequenceErase_position, s->nsrc, (int64_t)s->nsrc - 1, &at)) return NULL;
    if (!s->nsrc) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is empty");
    const UOp **out = NEW_N(graph_arena(g), const UOp *, s->nsrc);
    for (uint32_t k = 0; k < s->nsrc; k++)
        if (k != at) out[n++] = s->src[k];
    return sequence_new(g, out, n);
}

/* Part i of each element. */
static const U *parts_of(Graph *g, U s, uint32_t i)
{
    const UOp **v = NEW_N(graph_arena(g), const UOp *, s->nsrc + 1);
    for (uint32_t k = 0; k < s->nsrc; k++) v[k] = special_part(s->src[k], i);
    return v;
}

/* Tensors of one type and shape? */
static bool alike(U s)
{
    for (uint32_t k = 0; k < s->nsrc; k++) {
        U first = special_part(s->src[0], 0), x = special_part(s->src[k], 0);
        if (special_kind(s->src[k]) != special_kind(s->src[0]) || x->dtype == DT_VOID || x->dtype != first->dtype ||
            x->shape != first->shape)
            return false;
    }
    return s->nsrc > 0;
}

/* Where the position is data, or the iteration of a loop. */
static U element_at(Graph *g, U s, U at)
{
    int32_t kind = special_kind(s->src[0]);
    U part[2];
    for (uint32_t i = 0; i < special_parts(kind); i++)
        part[i] = gather(g, stack(g, parts_of(g, s, i), s->nsrc, 0), reshape_i(g, at, NULL, 0), 0);
    return special_wrap(g, part, kind);
}

U op_sequence_at(Graph *g, const Ctx *c)
{
    U s = sequence_in(g, c);
    int64_t at;
    if (!s) return NULL;
    if (is_rows(s)) return rows_at(g, s, c->in[SequenceAt_position]);
    if (!known_scalar(g, c->in[SequenceAt_position]) && alike(s)) return element_at(g, s, c->in[SequenceAt_position]);
    return position(g, c, SequenceAt_position, s->nsrc, 0, &at) ? s->src[at] : NULL;
}

U op_sequence_length(Graph *g, const Ctx *c)
{
    U s = sequence_in(g, c);
    return !s ? NULL : is_rows(s) ? cast(g, rows_length(s), DT_I64) : uop_int(g, DT_I64, s->nsrc);
}

U op_concat_from_sequence(Graph *g, const Ctx *c)
{
    U s = sequence_in(g, c);
    if (!s) return NULL;
    if (!s->nsrc) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is empty");
    int64_t axis, fresh = attr_int(g, c, "new_axis", 0);
    int32_t kind = special_kind(s->src[0]);
    U part[2];
    for (uint32_t k = 0; k < s->nsrc; k++)
        if (special_kind(s->src[k]) != kind)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "holds tensors of different types");
    if (!attr_find(c, "axis")) return fail_node(g, c, TG_BAD_MODEL, "axis", "is missing");
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0),
                 uop_rank(special_part(s->src[0], 0)) + (fresh != 0) - is_rows(s), &axis))
        return NULL;
    for (uint32_t i = 0; i < special_parts(kind); i++)
        part[i] = is_rows(s) ? rows_joined(g, rows_part(s, i), axis, fresh != 0)
            : fresh          ? stack(g, parts_of(g, s, i), s->nsrc, axis)
                             : cat(g, parts_of(g, s, i), s->nsrc, axis);
    return special_wrap(g, part, kind);
}

static U rows_split(Graph *g, U x, int64_t axis, bool drop)
{
    int64_t order[TG_MAX_RANK + 1] = { axis };
    for (uint32_t k = 1; k < uop_rank(x); k++) order[k] = k - (k <= axis);
    U rows = permute(g, x, order, uop_rank(x));
    return rows_new(g, drop ? rows : unsqueeze(g, rows, axis + 1));
}

/* SplitToSequence: pieces of given sizes, of one size (the last may be smaller), or of 1, whose axis keepdims 0 drops.
 */
U op_split_to_sequence(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    int64_t axis, at = 0;
    const int64_t *v = NULL;
    uint32_t n = 0;
    bool scalar_size = c->in[SplitToSequence_split] && uop_rank(c->in[SplitToSequence_split]) == 0,
         drop = !c->in[SplitToSequence_split] && !attr_bool(g, c, "keepdims", true);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis) ||
        (c->in[SplitToSequence_split] && !input_ints(g, c, SplitToSequence_split, &v, &n)))
        return NULL;
    U pieces = uop_dim(x, (uint32_t)axis);
    if (!c->in[SplitToSequence_split] && !uop_is_const(pieces) && !size_from_data(g, pieces))
        return rows_split(g, x, axis, drop);
    if (!uop_is_const(pieces))
        return fail_node(g, c, TG_UNSUPPORTED, "axis", "has a symbolic size, which is not covered");
    int64_t size = fixed_size(g, x, (uint32_t)axis), each = scalar_size ? v[0] : 1,
            count = v && !scalar_size ? n
        : each > 0                    ? (size + each - 1) / each
                                      : -1;
    if (count < 0 || count > SEQUENCE_MAX)
        return fail_node(g, c, TG_BAD_MODEL, "split", "%lld pieces of %lld elements", (long long)count,
                         (long long)size);
    const UOp **out = NEW_N(graph_arena(g), const UOp *, count + 1);
    for (int64_t k = 0; k < count; k++) {
        int64_t take = v && !scalar_size ? v[k] : at + each > size ? size - at : each;
        if (take < 0 || take > size - at)
            return fail_node(g, c, TG_BAD_MODEL, "split", "size %lld at %lld of %lld", (long long)take, (long long)at,
                             (long long)size);
        out[k] = slice_i(g, x, axis, at, at + take);
        if (drop) out[k] = squeeze(g, out[k], axis);
        at += take;
    }
    if (at != size)
        return fail_node(g, c, TG_BAD_MODEL, "split", "sizes add up to %lld on an axis of %lld", (long long)at,
                         (long long)size);
    return sequence_new(g, out, (uint32_t)count);
}

typedef struct { const Ctx *c; const SubGraph *body; int32_t *kind; } Walk;     /* kind: of each output's rows */

static bool walk_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    const Walk *w = user;
    const Ctx *c = w->c;
    U *in = NEW_N(graph_arena(g), U, c->nin + 1), *out = NEW_N(graph_arena(g), U, c->nout + 1);
    for (uint32_t i = 0; i < c->nin; i++) in[i] = is_rows(c->in[i]) ? rows_by(g, c->in[i], row_known, step) : c->in[i];
    if (import_subgraph(g, c, w->body, in, c->nin, out, c->nout) != TG_OK) return false;
    for (uint32_t o = 0; o < c->nout; o++) {
        row[o] = loop_bare(g, out[o]);
        w->kind[o] = special_kind(out[o]);
        if (row[o]->dtype == DT_VOID) return fail_node(g, c, TG_BAD_MODEL, "body", "output %u is no tensor", o), false;
    }
    (void)state;
    (void)next;
    *keep = NULL;
    return ok(g);
}

/* A loop over the rows of n elements. */
static U rows_walked(Graph *g, const Ctx *c, const SubGraph *body, U n)
{
    Walk w = { c, body, NEW_N(graph_arena(g), int32_t, c->nout + 1) };
    U *row = NEW_N(graph_arena(g), U, c->nout + 1), none = NULL;
    Loop l = {
        .body = walk_iteration, .user = &w, .trip = n, .most = n->vmax, .rows = c->nout, .init = &none, .im = c->im
    };
    for (uint32_t i = 0; i < c->nin; i++)
        if (!c->in[i] || is_sequence(c->in[i]) || (is_rows(c->in[i]) && !same_size(g, rows_length(c->in[i]), n)))
            return fail_node(g, c, TG_UNSUPPORTED, c->node->in[i],
                             "is missing, or of another length, which is a variable");
    if (!loop_build(g, &l, NULL, row)) return NULL;
    for (uint32_t o = 0; o < c->nout; o++) row[o] = rows_new(g, loop_dressed(g, row[o], w.kind[o]));
    return outputs(g, c, row, c->nout);
}

/* SequenceMap: the body for each element; other inputs are sequences walked along, or tensors for all. */
U op_sequence_map(Graph *g, const Ctx *c)
{
    SubGraph body;
    U s = sequence_in(g, c), walked;
    if (!s || !attr_graph(g, c, "body", &body)) return NULL;
    if (is_rows(s)) return rows_walked(g, c, &body, rows_length(s));
    uint32_t n = s->nsrc;
    const UOp **in = NEW_N(graph_arena(g), const UOp *, c->nin + 1),
              **out = NEW_N(graph_arena(g), const UOp *, (uint64_t)c->nout *(n + 1) + 1),
              **one = NEW_N(graph_arena(g), const UOp *, c->nout + 1);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < c->nin; i++) {
            if (!c->in[i] || is_rows(c->in[i]) || (is_sequence(walked = maps_apart(g, c->in[i])) && walked->nsrc != n))
                return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "is missing, or of another length");
            in[i] = is_sequence(walked) ? walked->src[k] : c->in[i];
        }
        if (import_subgraph(g, c, &body, in, c->nin, one, c->nout) != TG_OK) return NULL;
        for (uint32_t o = 0; o < c->nout; o++) out[o * (n + 1) + k] = one[o];
    }
    for (uint32_t o = 0; o < c->nout; o++) one[o] = sequence_new(g, out + o * (n + 1), n);
    return outputs(g, c, one, c->nout);
}

/* ---- optionals ---- */

U op_optional(Graph *g, const Ctx *c) { return c->in[0] ? c->in[0] : optional_empty(g); }
static bool has_element(const Ctx *c) { return c->in[0] && !is_empty_optional(c->in[0]); }
U op_optional_has_element(Graph *g, const Ctx *c) { return uop_bool(g, has_element(c)); }
U op_optional_get_element(Graph *g, const Ctx *c)
{
    return has_element(c) ? c->in[0] : fail_node(g, c, TG_BAD_INPUT, c->node->in[0], "the optional is empty");
}
