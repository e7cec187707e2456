/* See dims.h. In: ports, sizes seen, ranges requested. Out: variables for an import, and their values for a run. */
#include "frontend/import/dims.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/values/ports.h"
#include "graph/print.h"

enum { REACH_LEAST = 1024, REACH_TIMES = 4, STEP_MOST = 64, NAME_LEN = 20, LOOK_MOST = 1 << 16, VALUE_MOST = 1 << 30 };

/* ---- what a session knows ---- */

static const char *symbol_of(const Model *m, uint32_t input, int32_t axis)
{
    const ValueDef *v = &m->graph.input[input];
    const char *s = v->kind == VALUE_TENSOR && axis < v->rank ? v->dim[axis].symbol : NULL;
    return s && *s ? s : NULL;
}

static bool same_symbol(const char *a, const char *b) { return a && b && !strcmp(a, b); }

static TgStatus ask_range(FreeDims *f, const Model *m, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    char *dots = NULL, *end = NULL;
    int64_t least = equals ? strtoll(equals + 1, &dots, 10) : 0,
            largest = dots && !strncmp(dots, "..", 2) ? strtoll(dots + 2, &end, 10) : 0;
    bool found = false;
    if (end != text + len || least < 1 || largest < least)
        return fail(TG_USAGE, "--dim: '%.*s' is wrong; SYMBOL=1..64 is wanted", (int)len, text);
    for (uint32_t i = 0; i < f->ninput; i++)
        for (int32_t k = 0; k < m->graph.input[i].rank; k++) {
            const char *s = symbol_of(m, i, k);
            bool named = s && strlen(s) == (size_t)(equals - text) && !memcmp(s, text, strlen(s)),
                 any = *text == '*' && equals == text + 1 && m->graph.input[i].kind == VALUE_TENSOR &&
                m->graph.input[i].dim[k].size < 0;
            if (!named && !any) continue;
            f->axis[i][k] = (FreeDim){ .least = least, .largest = largest };
            found = true;
        }
    return found ? TG_OK : fail(TG_USAGE, "--dim: no input has a dimension '%.*s'", (int)(equals - text), text);
}

TgStatus free_dims_new(FreeDims *out, Arena *a, const Model *m, const char *text)
{
    *out = (FreeDims){ .ninput = m->graph.ninput,
                       .valued = NEW_N(a, bool, m->graph.ninput + 1),
                       .axis = arena_alloc(a, sizeof *out->axis * (m->graph.ninput + 1)) };
    for (size_t len; text && *text; text += len, text += *text == ',') {
        len = strcspn(text, ",");
        TRY(ask_range(out, m, text, len));
    }
    for (uint32_t i = 0; i < out->ninput; i++)
        for (int32_t k = 0; m->graph.input[i].kind == VALUE_TENSOR && k < m->graph.input[i].rank && k < TG_MAX_RANK;
             k++)
            out->axis[i][k].free = m->graph.input[i].dim[k].size < 0;
    return TG_OK;
}

FreeDims free_dims_copy(Arena *a, const FreeDims *f)
{
    FreeDims copy = *f;
    copy.valued = arena_copy(a, f->valued, sizeof *f->valued * (f->ninput + 1));
    copy.axis = arena_copy(a, f->axis, sizeof *f->axis * (f->ninput + 1));
    return copy;
}

TgStatus free_dims_check(const FreeDims *f, const Model *m, const TgTensor *input)
{
    for (uint32_t i = 0; i < f->ninput; i++)
        for (int32_t k = 0; k < input[i].rank; k++) {
            const FreeDim *d = &f->axis[i][k];
            const char *s = symbol_of(m, i, k);
            int64_t size = input[i].shape[k];
            if (!d->least) continue;
            if (size < d->least || size > d->largest)
                return fail(TG_BAD_INPUT, "input '%s': axis %d (%s) is %ld; %ld..%ld is wanted", m->graph.input[i].name,
                            k, s ? s : "*", (long)size, (long)d->least, (long)d->largest);
            for (uint32_t j = 0; j <= i; j++)
                for (int32_t l = 0; l < (j < i ? input[j].rank : k); l++)
                    if (same_symbol(s, symbol_of(m, j, l)) && input[j].shape[l] != size)
                        return fail(TG_BAD_INPUT, "input '%s': axis %d (%s) is %ld; that of input '%s' is %ld",
                                    m->graph.input[i].name, k, s, (long)size, m->graph.input[j].name,
                                    (long)input[j].shape[l]);
        }
    return TG_OK;
}

/* The next axis of an input, elements last; < 0: there is none, as of sequences, optionals and maps. */
static int32_t axis_after(const TgTensor *t, int32_t axis)
{
    if (holds_tensors(t)) return -1;
    bool values = (t->type == TG_I64 || t->type == TG_I32) && t->data && tensor_count(t) <= DIMS_VALUES;
    if (++axis < t->rank) return axis;
    if (axis < TG_MAX_RANK) axis = TG_MAX_RANK;
    return values && axis - TG_MAX_RANK < tensor_count(t) ? axis : -1;
}

#define FOR_AXES(k, t) for (int32_t k = axis_after(t, -1); k >= 0; k = axis_after(t, k))

static int64_t size_at(const TgTensor *t, int32_t axis)
{
    int32_t e = axis - TG_MAX_RANK;
    return e < 0 ? t->shape[axis] : t->type == TG_I64 ? ((const int64_t *)t->data)[e] : ((const int32_t *)t->data)[e];
}

/* The sizes of pictures: if one changes, others soon will. */
static void vary_together(FreeDims *f, uint32_t i, const TgTensor *t)
{
    bool any = false;
    for (int32_t k = 1; k < t->rank && t->rank >= 4; k++) any |= f->axis[i][k].free && f->axis[i][k].varies;
    for (int32_t k = 1; k < t->rank && any; k++) f->axis[i][k].varies |= f->axis[i][k].free && t->shape[k] > 1;
}

void free_dims_see(FreeDims *f, const TgTensor *input)
{
    for (uint32_t i = 0; i < f->ninput; i++)
        FOR_AXES(k, &input[i]) {
            FreeDim *d = &f->axis[i][k];
            int64_t size = size_at(&input[i], k);
            if (!f->any) d->first = d->fewest = size;
            d->varies |= d->first != size;
            if (size > d->most) d->most = size;
            if (size < d->fewest) d->fewest = size;
        }
    f->any = true;
    for (uint32_t i = 0; i < f->ninput; i++) vary_together(f, i, &input[i]);
}

/* ---- the variables of a program ---- */

/* A name for C and for people: the symbol's letters and a number. */
static const char *name_of(Arena *a, const char *symbol, uint32_t number)
{
    char *name = arena_printf(a, "%.*s_%u", NAME_LEN, symbol ? symbol : "dim", number);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return name;
}

static int64_t reach_of(int64_t most)
{
    int64_t reach = REACH_LEAST;
    while (reach < REACH_TIMES * most) reach *= 2;
    return reach;
}

/* The variable of an axis that came before, of the same symbol and size. */
static int32_t shared(const Dims *d, const Model *m, const TgTensor *input, uint32_t i, int32_t k)
{
    for (uint32_t j = 0; j <= i; j++)
        for (int32_t l = 0; l < (j < i ? input[j].rank : k); l++)
            if (d->of[j][l] >= 0 && same_symbol(symbol_of(m, i, k), symbol_of(m, j, l)) &&
                input[j].shape[l] == input[i].shape[k])
                return d->of[j][l];
    return -1;
}

/* A value may be no size. A size of 1 is built in though it varies: what is broadcast, a row, a single new token are
 * other kernels. */
static bool may_vary(const FreeDims *f, uint32_t i, const TgTensor *t, int32_t axis)
{
    const FreeDim *x = &f->axis[i][axis];
    if (axis >= TG_MAX_RANK) return f->valued[i] && x->varies && x->fewest >= 0 && x->most <= VALUE_MOST;
    return x->least || (x->varies && t->shape[axis] > 1);
}

static DimVar var_of(Arena *a, const FreeDims *f, const Model *m, const TgTensor *t, uint32_t i, int32_t axis,
                     uint32_t number)
{
    const FreeDim *x = &f->axis[i][axis];
    bool value = axis >= TG_MAX_RANK;
    const char *name = name_of(a, value ? m->graph.input[i].name : symbol_of(m, i, axis), number);
    return (DimVar){ name,
                     x->least                  ? x->least
                         : value && !x->fewest ? 0
                                               : 1,
                     x->least ? x->largest : reach_of(x->most),
                     1,
                     size_at(t, axis),
                     x->most > 1 ? x->most : 1,
                     x->least != 0,
                     value,
                     false,
                     NULL,
                     NULL,
                     0 };
}

Dims *dims_new(Arena *a, const FreeDims *f, const Model *m, const TgTensor *input)
{
    Dims *d = NEW(a, Dims);
    d->arena = a;
    d->ninput = f->ninput;
    d->of = arena_alloc(a, sizeof *d->of * (f->ninput + 1));
    d->var = NEW_N(a, DimVar, f->ninput * DIMS_AXES + 1);
    for (uint32_t i = 0; i < f->ninput; i++) {
        for (int32_t k = 0; k < DIMS_AXES; k++) d->of[i][k] = -1;
        FOR_AXES(k, &input[i]) {
            if (!may_vary(f, i, &input[i], k) || (k < TG_MAX_RANK && (d->of[i][k] = shared(d, m, input, i, k)) >= 0))
                continue;
            d->of[i][k] = (int32_t)d->nvar;
            d->var[d->nvar] = var_of(a, f, m, &input[i], i, k, d->nvar);
            d->nvar++;
        }
    }
    return d->nvar ? d : NULL;
}

int32_t dims_find(const Dims *d, uint32_t input, int32_t axis)
{
    int32_t v = d && input < d->ninput ? d->of[input][axis] : -1;
    return v < 0 || d->var[v].fixed ? -1 : v;
}

int32_t dims_find_value(const Dims *d, uint32_t input, int64_t element)
{
    return element < DIMS_VALUES ? dims_find(d, input, TG_MAX_RANK + (int32_t)element) : -1;
}

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* The variable, or what it follows from. */
static U variable(Graph *g, const Dims *d, const DimVar *v)
{
    if (v->fixed) return uop_index(g, v->at_hand / v->step);
    if (!v->of) return uop_var(g, v->name, up(v->least, v->step), v->largest / v->step);
    U sum = uop_index(g, v->plus);
    for (uint32_t k = 0; k < d->nvar; k++)
        if (v->of[k]) sum = dim_add(g, dim_mul(g, variable(g, d, &d->var[k]), uop_index(g, v->of[k])), sum);
    return sum;
}

U dims_size(Graph *g, const Dims *d, uint32_t input, int32_t axis, int64_t size)
{
    int32_t at = dims_find(d, input, axis);
    return at < 0 ? uop_index(g, size) : dim_mul(g, variable(g, d, &d->var[at]), uop_index(g, d->var[at].step));
}

static int64_t follows(const Dims *d, const DimVar *v, const int64_t *value)
{
    int64_t sum = v->plus;
    for (uint32_t k = 0; k < d->nvar; k++)
        if (v->of[k]) sum += v->of[k] * (d->var[k].fixed ? d->var[k].at_hand / d->var[k].step : value[k]);
    return sum;
}

bool dims_values(const Dims *d, const TgTensor *input, int64_t *value)
{
    for (uint32_t k = 0; k < d->nvar; k++) value[k] = -1;
    for (uint32_t i = 0; i < d->ninput; i++)
        FOR_AXES(k, &input[i]) {
            int32_t at = dims_find(d, i, k);
            const DimVar *v = at < 0 ? NULL : &d->var[at];
            int64_t size = size_at(&input[i], k);
            if (!v) continue;
            if (size < v->least || size > v->largest || size % v->step ||
                (value[at] >= 0 && value[at] != size / v->step))
                return false;
            value[at] = size / v->step;
        }
    for (uint32_t k = 0; k < d->nvar; k++)
        if (d->var[k].of && !d->var[k].fixed && value[k] >= 0 && value[k] != follows(d, &d->var[k], value))
            return false;
    return true;
}

typedef struct { const Dims *dims; const int64_t *value; } Values;

static bool value_of_var(const void *from, const UOp *u, int64_t *out)
{
    const Values *v = from;
    for (uint32_t k = 0; u->op == UOP_DEFINE_VAR && k < v->dims->nvar; k++)
        if (!strcmp(v->dims->var[k].name, var_name(u))) return *out = v->value[k], true;
    return false;
}

/* What a size is for these values; INT64_MIN: it depends on data. */
static int64_t eval(const Dims *d, const UOp *u, const int64_t *value)
{
    int64_t out;
    return uop_value(u, value_of_var, &(Values){ d, value }, &out) ? out : INT64_MIN;
}

bool dims_hold(const Dims *d, const Graph *g, const int64_t *value)
{
    for (const Doubt *x = graph_needs(g); x; x = x->next) {
        int64_t size = eval(d, x->size[0], value);
        if (size < 0 && size != INT64_MIN) return false;
    }
    return true;
}

bool dims_narrow(Dims *d)
{
    DimVar *most = NULL;
    for (uint32_t k = 0; k < d->nvar; k++) {
        DimVar *v = &d->var[k];
        if (v->requested || v->fixed || v->of || v->largest / 2 < v->seen) continue;
        if (!most || v->largest * most->seen > most->largest * v->seen) most = v;
    }
    if (most) most->largest /= 2;
    return most != NULL;
}

double dims_share(const Dims *d, const UOp *size)
{
    int64_t largest[d->nvar + 1];
    for (uint32_t k = 0; k < d->nvar; k++) largest[k] = d->var[k].largest / d->var[k].step;
    int64_t now = uop_is_const(size) || size->vmax < 1 ? INT64_MIN : eval(d, size, largest);
    return now == INT64_MIN || now >= size->vmax ? 1 : (double)now / (double)size->vmax;
}

/* ---- less freedom ---- */

static void mark(const Dims *d, const UOp *u, bool *in)
{
    for (uint32_t k = 0; u->op == UOP_DEFINE_VAR && k < d->nvar; k++) in[k] |= !strcmp(d->var[k].name, var_name(u));
    for (uint32_t k = 0; k < u->nsrc; k++) mark(d, u->src[k], in);
}

static int32_t first_marked(const Dims *d, const bool *in)
{
    for (uint32_t k = 0; k < d->nvar; k++)
        if (in[k] && !d->var[k].fixed) return (int32_t)k;
    return -1;
}

double dims_bytes(const Dims *d, const UOp *value)
{
    bool before[d->nvar + 1];
    double bytes = dtype_size((DType)value->dtype);
    memset(before, 0, sizeof before);
    for (uint32_t i = 0; i < uop_rank(value); i++) {
        const UOp *size = uop_dim(value, i);
        bool in[d->nvar + 1];
        memset(in, 0, sizeof in);
        mark(d, size, in);
        for (uint32_t k = 0; k < d->nvar; k++) {
            if (in[k] && before[k]) return 0;
            before[k] |= in[k];
        }
        bytes *= (double)size->vmax * dims_share(d, size);
    }
    return bytes;
}

/* u as the sum of of[k] times variable k, times `times`, added to of and *plus; false: it is none. */
static bool add_terms(const Dims *d, const UOp *u, int64_t times, int64_t *of, int64_t *plus)
{
    if (uop_is_const(u)) return *plus += times * uop_const_int(u), true;
    for (uint32_t k = 0; u->op == UOP_DEFINE_VAR && k < d->nvar; k++)
        if (!strcmp(d->var[k].name, var_name(u))) return of[k] += times, true;
    if (u->op == UOP_ADD) return add_terms(d, u->src[0], times, of, plus) && add_terms(d, u->src[1], times, of, plus);
    return u->op == UOP_MUL && uop_is_const(u->src[1]) &&
        add_terms(d, u->src[0], times * uop_const_int(u->src[1]), of, plus);
}

/* How good it is that variable k follows from the others, by sum of[j] v[j] + plus = 0; 0: it cannot. Best is one for
 * which nobody requested, whose terms are all positive. */
static int rank_of(const Dims *d, uint32_t k, const int64_t *of, int64_t plus)
{
    const DimVar *v = &d->var[k];
    int64_t by = -of[k];
    bool positive = plus / (by ? by : 1) >= 0, any = false;
    if (v->fixed || v->of || !by || plus % by) return 0;
    for (uint32_t j = 0; j < d->nvar; j++) {
        if (j == k) continue;
        if (of[j] % by) return 0;
        positive &= of[j] / by >= 0;
        any |= of[j] != 0;
    }
    return !any ? 0 : 1 + 4 * positive + 2 * !v->requested + v->value;
}

/* Everything that followed from k follows from what k follows from. */
static void replace_term(Dims *d, uint32_t k)
{
    const DimVar *v = &d->var[k];
    for (uint32_t i = 0; i < d->nvar; i++) {
        DimVar *w = &d->var[i];
        int64_t times = w->of ? w->of[k] : 0;
        if (!times) continue;
        w->of[k] = 0;
        w->plus += times * v->plus;
        for (uint32_t j = 0; j < d->nvar; j++) w->of[j] += times * v->of[j];
    }
}

/* Of a variable that is another one and a number the range is the other one's too. */
static void narrow_source(Dims *d, const DimVar *v)
{
    DimVar *one = NULL;
    for (uint32_t k = 0; k < d->nvar; k++) {
        if (!v->of[k]) continue;
        if (one || v->of[k] != 1 || v->step != d->var[k].step) return;
        one = &d->var[k];
    }
    if (!one || one->fixed) return;
    if (one->least < v->least - v->plus * v->step) one->least = v->least - v->plus * v->step;
    if (one->largest > v->largest - v->plus * v->step && v->requested) one->largest = v->largest - v->plus * v->step;
}

/* Sizes that are equal by a sum: one of its variables follows from the others. */
static bool derive(Dims *d, const UOp *a, const UOp *b)
{
    int64_t of[d->nvar + 1], plus = 0, now = 0;
    int best = -1, most = 0;
    memset(of, 0, sizeof of);
    if (!add_terms(d, a, 1, of, &plus) || !add_terms(d, b, -1, of, &plus)) return false;
    for (uint32_t k = 0; k < d->nvar; k++) now += of[k] * (d->var[k].at_hand / d->var[k].step);
    for (uint32_t k = 0; k < d->nvar && now + plus == 0; k++)
        if (rank_of(d, k, of, plus) >= (most ? most : 1)) most = rank_of(d, k, of, plus), best = (int)k;
    if (best < 0) return false;
    DimVar *v = &d->var[best];
    v->of = NEW_N(d->arena, int64_t, d->nvar + 1);
    v->plus = plus / -of[best];
    for (uint32_t k = 0; k < d->nvar; k++)
        if (k != (uint32_t)best) v->of[k] = of[k] / -of[best];
    replace_term(d, (uint32_t)best);
    narrow_source(d, v);
    return true;
}

/* What a size asks which of two is larger, and they are equal at hand: a cache and what is new are as long as their
 * mask. */
static bool derive_inside(Dims *d, const UOp *u)
{
    if ((u->op == UOP_MAX || u->op == UOP_CMPLT) && derive(d, u->src[0], u->src[1])) return true;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (derive_inside(d, u->src[k])) return true;
    return false;
}

/* Whether the two sizes of a doubt are equal when variable k is `size` and the others are as at hand. */
static bool equal_at(const Dims *d, const Doubt *x, uint32_t k, int64_t size)
{
    int64_t value[d->nvar + 1];
    for (uint32_t i = 0; i < d->nvar; i++) value[i] = (i == k ? size : d->var[i].at_hand) / d->var[i].step;
    return eval(d, x->size[0], value) == eval(d, x->size[1], value);
}

/* The last size, from that at hand to the end of the range, up to which all are equal; past it none may be: else it is
 * a matter of multiples, and the answer is -1. */
static int64_t equal_until(const Dims *d, const Doubt *x, uint32_t k, int64_t end)
{
    const DimVar *v = &d->var[k];
    int64_t by = end < v->at_hand ? -v->step : v->step, last = -1;
    bool equal = true;
    for (int64_t i = 0; i < LOOK_MOST && i * llabs(by) <= llabs(end - v->at_hand); i++) {
        int64_t size = v->at_hand + i * by;
        bool now = equal_at(d, x, k, size);
        if (now && !equal) return -1;
        equal = now;
        if (now) last = size;
    }
    return last;
}

/* Sizes that are equal at hand, but not in all of the range: it goes as far as they are. */
static bool shorten(Dims *d, const Doubt *x, const bool *in)
{
    bool any = false;
    for (uint32_t k = 0; k < d->nvar; k++) {
        DimVar *v = &d->var[k];
        if (!in[k] || v->fixed || v->of) continue;
        int64_t least = equal_until(d, x, k, up(v->least, v->step) * v->step),
                largest = equal_until(d, x, k, v->largest);
        if (least < 0 || largest < 0 || least == largest ||
            (least < v->least + v->step && largest > v->largest - v->step))
            continue;
        v->least = least;
        v->largest = largest;
        any = true;
    }
    return any;
}

static bool double_steps(Dims *d, const bool *in)
{
    bool any = false;
    for (uint32_t k = 0; k < d->nvar; k++) {
        DimVar *v = &d->var[k];
        if (!in[k] || v->fixed || v->of || 2 * v->step > STEP_MOST || v->at_hand % (2 * v->step)) continue;
        v->step *= 2;
        for (uint32_t i = 0; i < d->nvar; i++)
            if (d->var[i].of) d->var[i].of[k] *= 2;
        any = true;
    }
    return any;
}

static const Doubt *doubt_of(const Dims *d, Graph *g, bool *in)
{
    for (const Doubt *x = graph_doubts(g); x; x = x->next) {
        mark(d, x->size[0], in);
        mark(d, x->size[1], in);
        if (first_marked(d, in) >= 0) return x;
    }
    return NULL;
}

bool dims_doubted(const Dims *d, Graph *g, const TgTensor *input)
{
    bool in[d->nvar + 1];
    int64_t value[d->nvar + 1];
    memset(in, 0, sizeof in);
    return doubt_of(d, g, in) || !dims_values(d, input, value) || !dims_hold(d, g, value);
}

static const char *why_not(const Dims *d, const Doubt *x, const char *error)
{
    Text t = { 0 };
    if (x) {
        text_add(&t, "%s", "it cannot be shown that ");
        uop_print_expr(&t, x->size[0]);
        text_add(&t, " is ");
        uop_print_expr(&t, x->size[1]);
    } else text_add(&t, "%s", error ? error : "its range does not hold what is at hand");
    const char *out = arena_strdup(d->arena, t.s);
    text_free(&t);
    return out;
}

/* in: those that x is about. */
static bool build_in(Dims *d, const Doubt *x, const bool *in, const char *error, bool values)
{
    bool any = false;
    for (uint32_t k = 0; k < d->nvar; k++) {
        DimVar *v = &d->var[k];
        if (v->fixed || (x && !in[k]) || (values && !v->value)) continue;
        any = v->fixed = true;
        v->why = why_not(d, x, error);
    }
    return any;
}

bool dims_refine(Dims *d, Graph *g, const char *error)
{
    bool in[d->nvar + 1];
    memset(in, 0, sizeof in);
    const Doubt *x = doubt_of(d, g, in);
    if (x &&
        (derive(d, x->size[0], x->size[1]) || derive_inside(d, x->size[0]) || derive_inside(d, x->size[1]) ||
         shorten(d, x, in) || double_steps(d, in)))
        return true;
    /* not every operator takes a value that varies */
    return build_in(d, x, in, error, true) || build_in(d, x, in, error, false);
}
