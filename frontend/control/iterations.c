/* Loops whose iterations only a run distinguishes (a branch of another shape, a sequence of a length that data
 * choose): the body is a model of its own, run once an iteration by a session inside. In: a node whose trip count,
 * condition, first states and scanned values are known, or are requested (shape_query.h), as is what the body takes
 * from outside. Out: constants. So a program with such a loop is used only for inputs that give the same values, and
 * what the loop made of them is remembered while the import is tried again. A sequence to which the body only appends
 * is never given to it (find_lists); another one, of tensors of one form, is given as the rows of one (tuple.h): so the
 * number of programs does not grow with the iterations. Must hold: an iteration's values are copied before the next one
 * runs, which may write the same memory.
 */
#include "frontend/control/iterations.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/import/shape_query.h"
#include "frontend/values/values.h"
#include "graph/base/memory.h"

enum { ROUNDS_MAX = 1 << 20 };

/* What a loop has made of its inputs; out NULL: nothing yet, it is to be run. path: the node and the calls of functions
 * that it stands in. */
struct Iterations { struct Iterations *next; uint64_t path; uint32_t nin; const TgTensor *in, *out; };

/* The rows of all iterations so far: of one form, loose (values.h); data grow. */
typedef struct { TgTensor t; char *data; size_t cap; } Rows;
typedef struct { TgTensor *item; int64_t n, cap; } List;

typedef struct {
    Graph *g;
    const Ctx *c;
    Arena *arena;                   /* of the program */
    const RoundsNode *node;
    const GraphDef *body;
    Model model;                    /* the body */
    /* head: of a Loop its trip count and condition, which stand before its states; tail: the condition among outputs */
    uint32_t head, tail, states, scans, rows, captured, ninit;
    const char **name;              /* [captured] from outside: inputs behind the scanned ones, by */
    uint32_t *level;                /* [nin] (Outside) */
    bool *list;                     /* [states] */
    TgTensor *in;                   /* [nin] head, states, scanned values as a whole, captured ones */
} Body;

static uint32_t count_inputs(const Body *b) { return b->head + b->states + b->scans + b->captured; }

/* ---- names ---- */

/* Names that graphs use and make which see those of one frame; around: of the call around it. */
typedef struct Names {
    struct Names *around;
    Import *frame;
    Map used, made, graphs;
} Names;

static Names *names_new(Arena *a, Import *frame)
{
    Names *n = NEW(a, Names);
    n->frame = frame;
    map_init(&n->used, a);
    map_init(&n->made, a);
    map_init(&n->graphs, a);
    return n;
}

/* Those of the frame, which is n's or of a call around it. */
static Names *names_at(Names *n, const Import *frame)
{
    for (; n->frame->call != frame->call; n = n->around)
        if (!n->around) n->around = names_new(n->used.arena, n->frame->call->im);
    return n;
}

/* What d uses and makes, with graphs inside of it and those that calls of functions have passed on to its nodes. */
static void mark_names(Names *n, const GraphDef *d)
{
    if (map_get(&n->graphs, &d, sizeof d)) return;
    map_put(&n->graphs, &d, sizeof d, n);
    for (uint32_t k = 0; k < d->ninput; k++) map_puts(&n->made, d->input[k].name, n);
    for (uint32_t k = 0; k < d->ninit; k++) map_puts(&n->made, d->init[k].name, n);
    for (uint32_t k = 0; k < d->nnode; k++) {
        const Node *node = &d->node[k];
        for (uint32_t i = 0; i < node->nin; i++) map_puts(&n->used, node->in[i], n);
        for (uint32_t i = 0; i < node->nout; i++) map_puts(&n->made, node->out[i], n);
        for (uint32_t i = 0; i < node->nattr; i++) {
            Import *frame = n->frame;
            const Attr *attr = attr_resolve(&node->attr[i], &frame);
            if (attr && attr->graph) mark_names(names_at(n, frame), attr->graph);
        }
    }
    for (uint32_t k = 0; k < d->noutput; k++) map_puts(&n->used, d->output[k].name, n);
}

/* ---- sequences to which iterations only append ---- */

static uintptr_t listed(const Map *list, const char *name) { return *name ? (uintptr_t)map_gets(list, name) : 0; }

static bool scope_appends(const GraphDef *d, Map *list);

/* Does it look at a list? */
static bool reads(const GraphDef *d, const Map *list)
{
    for (uint32_t k = 0; k < d->nnode; k++) {
        for (uint32_t i = 0; i < d->node[k].nin; i++)
            if (listed(list, d->node[k].in[i])) return true;
        for (uint32_t i = 0; i < d->node[k].nattr; i++)
            if (d->node[k].attr[i].graph && reads(d->node[k].attr[i].graph, list)) return true;
    }
    for (uint32_t k = 0; k < d->noutput; k++)
        if (listed(list, d->output[k].name)) return true;
    return false;
}

/* An If whose branches both append to a list, or neither does. */
static bool if_appends(const Node *n, Map *list)
{
    const GraphDef *branch[2] = { NULL, NULL };
    for (uint32_t k = 0; k < n->nattr; k++)
        if (n->attr[k].graph) branch[!strcmp(n->attr[k].name, "else_branch")] = n->attr[k].graph;
    if (!branch[0] || !branch[1] || !scope_appends(branch[0], list) || !scope_appends(branch[1], list)) return false;
    for (uint32_t k = 0; k < n->nout; k++) {
        uintptr_t of = k < branch[0]->noutput && k < branch[1]->noutput ? listed(list, branch[0]->output[k].name) : 0;
        if (k >= branch[0]->noutput || k >= branch[1]->noutput || of != listed(list, branch[1]->output[k].name))
            return false;
        if (of) map_puts(list, n->out[k], (void *)of);
    }
    return true;
}

static bool node_appends(const Node *n, Map *list)
{
    uintptr_t first = n->nin ? listed(list, n->in[0]) : 0;
    bool standard = !*n->domain || !strcmp(n->domain, "ai.onnx");
    for (uint32_t k = 1; k < n->nin; k++)
        if (listed(list, n->in[k])) return false;
    if (standard && !strcmp(n->op, "If")) return !first && if_appends(n, list);
    if (first &&
        !(standard && (!strcmp(n->op, "Identity") || (!strcmp(n->op, "SequenceInsert") && (n->nin < 3 || !*n->in[2])))))
        return false;
    if (first) map_puts(list, n->out[0], (void *)first);
    for (uint32_t k = 0; k < n->nattr; k++)
        if (n->attr[k].graph && reads(n->attr[k].graph, list)) return false;
    return true;
}

/* list: names of what a state was and of what has been appended to it, by the number of the state and 1. */
static bool scope_appends(const GraphDef *d, Map *list)
{
    for (uint32_t k = 0; k < d->nnode; k++)
        if (!node_appends(&d->node[k], list)) return false;
    return true;
}

/* Which states are sequences that nothing in the body looks at: each iteration is given an empty one, and what it
 * appends is moved. Else each length would be a program of its own. */
static void find_lists(Body *b)
{
    Map list;
    b->list = NEW_N(b->arena, bool, b->states + 1);
    for (uint32_t k = 0; k < b->states; k++) {
        bool fits = b->in[b->head + k].type == TG_SEQUENCE;
        map_init(&list, b->arena);
        map_puts(&list, b->body->input[b->head + k].name, (void *)1);
        fits = fits && scope_appends(b->body, &list);
        for (uint32_t i = 0; fits && i < b->body->noutput; i++)
            fits = (listed(&list, b->body->output[i].name) != 0) == (i == b->tail + k);
        b->list[k] = fits;
    }
}

/* ---- the body as a model ---- */

/* Initializers of the frame in which the body stands stay what they are, other values become inputs. */
static bool capture_names(Body *b, const Names *n, uint32_t level, TensorDef *init)
{
    Import *im = b->c->im;
    for (uint32_t k = 0; k < n->used.count; k++) {
        const char *name = arena_strndup(b->arena, n->used.entry[k].key, n->used.entry[k].key_len);
        const Value *v = !*name || map_gets(&n->made, name) ? NULL : import_find(n->frame, name);
        uint32_t at = count_inputs(b);
        if (!v || v->missing) continue;
        if (v->init && !level) init[b->ninit] = *v->init, init[b->ninit++].name = name;
        else if (!value_of(im, v->value ? v->value : import_constant(b->g, im->run->pool, v->init), b->arena,
                           &b->in[at]))
            return false;
        else b->level[at] = level, b->name[b->captured++] = name;
    }
    return true;
}

/* What the body takes from outside. */
static bool capture_values(Body *b, TensorDef **init)
{
    Arena *a = b->arena;
    Names *names = names_new(a, b->node->body.frame);
    uint32_t first = count_inputs(b), count = 0, level = 0;
    mark_names(names, b->body);
    for (const Names *n = names; n; n = n->around) count += n->used.count;
    TgTensor *in = NEW_N(a, TgTensor, first + count + 1);
    memcpy(in, b->in, first * sizeof *in);
    b->in = in;
    b->name = NEW_N(a, const char *, count + 1);
    b->level = NEW_N(a, uint32_t, first + count + 1);
    *init = NEW_N(a, TensorDef, b->body->ninit + count + 1);
    if (b->body->ninit) memcpy(*init, b->body->init, b->body->ninit * sizeof **init);
    b->ninit = b->body->ninit;
    for (const Names *n = names; n; n = n->around)
        if (!capture_names(b, n, level++, *init)) return false;
    return true;
}

static void make_model(Body *b, const TensorDef *init)
{
    Arena *a = b->arena;
    uint32_t nin = count_inputs(b), own = nin - b->captured;
    ValueDef *in = NEW_N(a, ValueDef, nin), *out = NEW_N(a, ValueDef, b->body->noutput);
    for (uint32_t k = 0; k < nin; k++)
        in[k] =
            (ValueDef){ .name = k < own ? b->body->input[k].name : b->name[k - own], .kind = VALUE_ANY, .rank = -1 };
    for (uint32_t k = b->head; k < b->head + b->states; k++)
        if (b->in[k].type == TG_SEQUENCE && !b->list[k - b->head]) in[k].kind = VALUE_ROWS;
    for (uint32_t k = 0; k < b->body->noutput; k++)
        out[k] = (ValueDef){ .name = b->body->output[k].name, .kind = VALUE_UNKNOWN, .rank = -1 };
    b->model = *b->c->im->run->model;
    b->model.graph = (GraphDef){ .name = b->body->name,
                                 .nnode = b->body->nnode,
                                 .node = b->body->node,
                                 .ninput = nin,
                                 .input = in,
                                 .noutput = b->body->noutput,
                                 .output = out,
                                 .ninit = b->ninit,
                                 .init = init };
    b->model.opset = b->node->body.frame->opset, b->model.nopset = b->node->body.frame->nopset;
}

/* ---- iterations ---- */

static TgStatus add_row(Rows *r, const TgTensor *t, int64_t iteration)
{
    TgTensor form = *t;
    if (holds_tensors(t)) return fail(TG_BAD_MODEL, "a scan output of a loop is no tensor");
    form.data = NULL;
    if (!iteration) r->t = form;
    if (!port_same(&r->t, t)) return fail(TG_BAD_MODEL, "rows of a loop differ in type or shape");
    size_t at = t->size_bytes * (size_t)iteration;
    if (at + t->size_bytes > r->cap) r->data = mem_grow(r->data, r->cap = 2 * (at + t->size_bytes) + 64);
    if (t->size_bytes) memcpy(r->data + at, t->data, t->size_bytes);
    return TG_OK;
}

/* The rows as one tensor; of no iterations, of the declared form, unknown sizes being 0. */
static TgStatus stack_rows(Body *b, uint32_t k, const Rows *r, int64_t iterations, TgTensor *out)
{
    const ValueDef *d = &b->body->output[b->tail + b->states + k];
    TgTensor form = r->t;
    if (!iterations) {
        if (!d->type || d->rank < 0)
            return fail(TG_UNSUPPORTED, "rows of a loop of no iterations, whose form is not declared");
        form = (TgTensor){ .type = (TgType)d->type, .rank = d->rank };
        for (int32_t i = 0; i < d->rank; i++) form.shape[i] = d->dim[i].size < 0 ? 0 : d->dim[i].size;
    }
    if (form.rank == TG_MAX_RANK) return fail(TG_LIMIT, "rows of rank %d", form.rank);
    memmove(form.shape + 1, form.shape, (size_t)form.rank * sizeof *form.shape);
    form.shape[0] = iterations, form.rank++;
    form.size_bytes = iterations ? r->t.size_bytes * (size_t)iterations : 0;
    form.data = r->data;
    value_copy(b->arena, out, &form);
    if (iterations) value_pack(out);
    return TG_OK;
}

static TgStatus append(Arena *a, List *l, const TgTensor *sequence)
{
    int64_t more = sequence->shape[0];
    if (l->n + more > l->cap) {
        TgTensor *grown = NEW_N(a, TgTensor, l->cap = 2 * (l->n + more) + 8);
        if (l->n) memcpy(grown, l->item, (size_t)l->n * sizeof *grown);
        l->item = grown;
    }
    for (int64_t k = 0; k < more; k++) value_copy(a, &l->item[l->n++], (const TgTensor *)sequence->data + k);
    return l->n <= SEQUENCE_MAX ? TG_OK : fail(TG_LIMIT, "a sequence of more than %d values", SEQUENCE_MAX);
}

static TgStatus condition_of(const TgTensor *t, bool *go_on)
{
    if (t->type != TG_BOOL || tensor_count(t) != 1)
        return fail(TG_BAD_MODEL, "the first output of a loop's body, the condition, is no bool of one element");
    *go_on = *(const bool *)t->data;
    return TG_OK;
}

static bool may_be_rows(const Body *b, uint32_t state)
{
    return b->model.graph.input[b->head + state].kind == VALUE_ROWS;
}

/* As the next iteration is given it: one program serves the rows of any length. */
static void take_state(const Body *b, uint32_t k, Arena *a, TgTensor *to, const TgTensor *from)
{
    bool rows = from->type == TG_SEQUENCE && from->rank == ROWS_RANK;
    const TgTensor *all = from->data;
    if (rows && !all->shape[0]) hold(a, to, TG_SEQUENCE, 0);
    else if (rows || !may_be_rows(b, k) || !value_stack(a, to, from)) value_copy(a, to, rows ? all : from);
}

/* in: of this iteration, whose states become those of the next; a: holds them until the iteration after that. */
static TgStatus one_iteration(Body *b, TgSession *s, TgTensor *in, const TgTensor *scan, List *list, Rows *row,
                          int64_t iteration, Arena *a, bool *go_on)
{
    TgTensor *out = NEW_N(a, TgTensor, b->body->noutput + 1), *state = in + b->head;
    if (b->head) memcpy(in[0].data, &iteration, sizeof iteration);
    for (uint32_t k = 0; k < b->scans; k++) {
        int64_t axis = b->node->axis[k];
        value_slice(a, &state[b->states + k], &scan[k], axis,
                    b->node->reverse[k] ? scan[k].shape[axis] - 1 - iteration : iteration);
        value_pack(&state[b->states + k]);
    }
    TRY(tg_run(s, in, (int32_t)count_inputs(b), out));
    if (b->tail) TRY(condition_of(&out[0], go_on));
    out += b->tail;
    for (uint32_t k = 0; k < b->states; k++) {
        bool holder = holds_tensors(&state[k]) || holds_tensors(&out[k]);
        if ((!holder && state[k].type != out[k].type) || (may_be_rows(b, k) && out[k].type != TG_SEQUENCE))
            return fail(TG_BAD_MODEL, "state %u of a loop changes its type", k);
        if (b->list[k]) TRY(append(b->arena, &list[k], &out[k]));
        else take_state(b, k, a, &state[k], &out[k]);
    }
    out += b->states;
    for (uint32_t k = 0; k < b->rows; k++) {
        TgTensor t;
        value_copy(out[k].type == TG_STRING ? b->arena : a, &t, &out[k]);
        value_loosen(a, &t);
        TRY(add_row(&row[k], &t, iteration));
    }
    return TG_OK;
}

/* Sequences that are lists start empty, others as rows where they can; what is scanned is cut. */
static TgStatus first_inputs(Body *b, TgTensor *in, List *list, TgTensor *scan, int64_t *number, bool *yes)
{
    if (b->head) {
        in[0] = (TgTensor){ .type = TG_I64, .data = number, .size_bytes = sizeof *number };
        in[1] = (TgTensor){ .type = TG_BOOL, .data = yes, .size_bytes = sizeof *yes };
    }
    for (uint32_t k = 0; k < b->scans; k++)
        value_loosen(b->arena, memcpy(&scan[k], &in[b->head + b->states + k], sizeof *scan));
    for (uint32_t k = 0; k < b->states; k++) {
        if (!b->list[k]) take_state(b, k, b->arena, &in[b->head + k], &b->in[b->head + k]);
        if (!b->list[k]) continue;
        TRY(append(b->arena, &list[k], &in[b->head + k]));
        hold(b->arena, &in[b->head + k], TG_SEQUENCE, 0);
    }
    return TG_OK;
}

static TgStatus all_iterations(Body *b, TgSession *s, int64_t trip, bool go_on, TgTensor *out)
{
    Arena *a[2] = { arena_new(), arena_new() };
    Rows *row = NEW_N(b->arena, Rows, b->rows + 1);
    TgTensor *in = arena_copy(b->arena, b->in, count_inputs(b) * sizeof *in),
             *scan = NEW_N(b->arena, TgTensor, b->scans + 1);
    List *list = NEW_N(b->arena, List, b->states + 1);
    int64_t iteration = 0, number = 0;
    bool yes = true;
    TgStatus status = first_inputs(b, in, list, scan, &number, &yes);
    for (; iteration < trip && go_on && status == TG_OK; iteration++) {
        arena_free(a[iteration & 1]);
        a[iteration & 1] = arena_new();
        status = iteration < ROUNDS_MAX
            ? one_iteration(b, s, in, scan, list, row, iteration, a[iteration & 1], &go_on)
            : fail(TG_LIMIT, "more than %d iterations of a loop that is done iteration by iteration", ROUNDS_MAX);
    }
    for (uint32_t k = 0; k < b->states && status == TG_OK; k++) {
        TgTensor last;
        value_copy(b->arena, &last, &in[b->head + k]);
        if (may_be_rows(b, k) && last.type != TG_SEQUENCE) value_apart(b->arena, &out[k], &last);
        else out[k] = last;
        if (b->list[k] && list[k].n)
            memcpy(hold(b->arena, &out[k], TG_SEQUENCE, (uint32_t)list[k].n), list[k].item,
                   (size_t)list[k].n * sizeof *list->item);
    }
    for (uint32_t k = 0; k < b->rows; k++) {
        if (status == TG_OK) status = stack_rows(b, k, &row[k], iteration, &out[b->states + k]);
        mem_free(row[k].data);
    }
    arena_free(a[0]);
    arena_free(a[1]);
    return status;
}

/* ---- what is remembered ---- */

static uint64_t path_of(const Ctx *c)
{
    uint64_t h = 0;
    for (; c; c = c->im->call) h = (h ^ (uint64_t)(uintptr_t)c->node) * UINT64_C(0x9e3779b97f4a7c15);
    return h;
}

static const TgTensor *remembered(const Known *known, uint64_t path, const TgTensor *in, uint32_t nin)
{
    for (const struct Iterations *r = known->iterations; r; r = r->next) {
        bool same = r->out && r->path == path && r->nin == nin;
        for (uint32_t k = 0; same && k < nin; k++) same = port_same(&r->in[k], &in[k]);
        if (same) return r->out;
    }
    return NULL;
}

static void remember(Known *known, struct Iterations r)
{
    r.next = known->iterations;
    *(known->iterations = NEW(known->arena, struct Iterations)) = r;
}

bool loop_is_run(const Ctx *c)
{
    uint64_t path = path_of(c);
    const struct Iterations *r = c->im->run->known ? c->im->run->known->iterations : NULL;
    while (r && r->path != path) r = r->next;
    return r;
}

typedef struct { const Known *known; TgSession *session; } Opened;

static void undo_open(void *opened)
{
    const Opened *o = opened;
    o->known->bodies.close(o->session);
}

static TgStatus run_body(Body *b, const TensorDef *init, int64_t trip, bool go_on, TgTensor *out)
{
    const Known *known = b->c->im->run->known;
    TgSession *s;
    const Outside outside = { b->node->body.frame, b->level };
    find_lists(b);
    make_model(b, init);
    Undo undo;
    TRY(known->bodies.open(&s, known->bodies.user, &b->model, &outside));
    undo_push(&undo, undo_open, &(Opened){ known, s });
    TgStatus status = all_iterations(b, s, trip, go_on, out);
    undo_pop(&undo);
    known->bodies.close(s);
    return status;
}

/* A trip count or a condition; without data where there is none. */
static bool head_of(Body *b, U x, TgType type, TgTensor *t)
{
    return !x || (value_of(b->c->im, x, b->arena, t) && t->type == type && tensor_count(t) == 1);
}

/* All that the iterations are made of. */
static bool inputs_of(Body *b, TensorDef **init, int64_t *trip, bool *go_on)
{
    const RoundsNode *n = b->node;
    TgTensor head[2] = { 0 };
    TgTensor *in = b->in = NEW_N(b->arena, TgTensor, count_inputs(b) + 1);
    if (!head_of(b, n->trip, TG_I64, &head[0]) || !head_of(b, n->keep, TG_BOOL, &head[1])) return false;
    if (b->head) memcpy(in, head, sizeof head);
    for (uint32_t k = 0; k < n->states; k++)
        if (!n->state[k] || !value_of(b->c->im, n->state[k], b->arena, &in[b->head + k])) return false;
    for (uint32_t k = 0; k < n->scans; k++)
        if (!value_of(b->c->im, n->scan[k], b->arena, &in[b->head + b->states + k])) return false;
    *trip = head[0].data ? *(const int64_t *)head[0].data : INT64_MAX;
    *go_on = !head[1].data || *(const bool *)head[1].data;
    return capture_values(b, init);
}

U *loop_by_iterations(Graph *g, const Ctx *c, const RoundsNode *n)
{
    Known *known = c->im->run->known;
    if (ok(g)) graph_fail_code(g, TG_UNSUPPORTED, "what the iterations of a loop do depends on data");
    if (!known) return NULL;
    uint64_t path = path_of(c);
    if (!loop_is_run(c)) remember(known, (struct Iterations){ .path = path });
    Body b = { .g = g,
               .c = c,
               .arena = known->arena,
               .node = n,
               .body = n->body.def,
               .head = n->counted ? 2 : 0,
               .tail = n->counted,
               .states = n->states,
               .scans = n->scans,
               .rows = n->rows };
    TensorDef *init;
    int64_t trip;
    bool go_on;
    if (!inputs_of(&b, &init, &trip, &go_on)) return NULL;
    const TgTensor *out = remembered(known, path, b.in, count_inputs(&b));
    graph_error_clear(g);
    if (!out) {
        TgTensor *made = NEW_N(b.arena, TgTensor, b.states + b.rows + 1);
        if (import_failure(g, run_body(&b, init, trip, go_on, made)) != TG_OK) return NULL;
        remember(known, (struct Iterations){ NULL, path, count_inputs(&b), b.in, made });
        out = made;
    }
    c->im->run->question = NULL;
    U *v = NEW_N(graph_arena(g), U, b.states + b.rows + 1);
    for (uint32_t k = 0; k < b.states + b.rows; k++) v[k] = value_constant(c->im->run, &out[k]);
    return v;
}
