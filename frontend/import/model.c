/* A whole model: a checked Model and concrete input shapes come in, a tensor graph goes out. When a size depends on the
 * data of a small input, the import starts again with that input's value in the graph (`baked`); on other data, it
 * becomes a question (shape_query.h). */
#include <string.h>

#include "frontend/import/shape_query.h"
#include "frontend/values/ports.h"
#include "frontend/values/tuple.h"

enum { OPSET_NEWEST = 28, ML_OPSET_NEWEST = 5 };      /* of the standard that the tests follow (onnx 1.23) */
enum { BAKED_MAX = 4096, BAKED_BYTES_MAX = 1 << 28 };     /* elements of an input in the graph; of one of bytes */

void import_needs(Import *im, U x)
{
    Arena *arena = arena_new();
    uint32_t n;
    const UOp **u = uop_toposort(im->run->g, &x, 1, arena, &n);
    for (uint32_t k = 0; k < n; k++)
        if (u[k]->op == UOP_PARAM && u[k]->arg.i < im->run->ninput) im->run->need[u[k]->arg.i] = true;
    arena_free(arena);
}

bool import_at_hand(const Import *im, U x, int64_t *out)
{
    while (x->op == UOP_CAST || x->op == UOP_RESHAPE) x = x->src[0];
    if (x->op != UOP_PARAM || x->arg.i >= im->run->ninput) return false;
    const TgTensor *t = im->run->input[x->arg.i];
    if (!t->data || tensor_count(t) != 1 || (t->type != TG_I32 && t->type != TG_I64)) return false;
    *out = t->type == TG_I32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
    return true;
}

bool import_may_know(Import *im, U x, bool floats)
{
    Arena *arena = arena_new();
    uint32_t n, found = 0;
    bool few = true;
    const UOp **u = uop_toposort(im->run->g, &x, 1, arena, &n);
    for (uint32_t k = 0; k < n; k++) {
        if (u[k]->op != UOP_PARAM) continue;
        bool given = u[k]->arg.i < im->run->ninput && im->run->input[u[k]->arg.i]->data;
        few = few && given && uop_numel(u[k]) <= (dtype_is_float((DType)u[k]->dtype) ? floats : IMPORT_LITERAL);
        found++;
    }
    arena_free(arena);
    if (few && found) import_needs(im, x);
    return few && found;
}

bool import_may_be_size(Import *im, U x)
{
    Arena *arena = arena_new();
    uint32_t n;
    bool may = true;
    const UOp **u = uop_toposort(im->run->g, &x, 1, arena, &n);
    for (uint32_t k = 0; k < n && may; k++) {
        bool leaf = !u[k]->nsrc || u[k]->op == UOP_PARAM || u[k]->op == UOP_STACK || u[k]->op == UOP_IOTA;
        may = !dtype_is_float((DType)u[k]->dtype) &&
            (leaf || op_is((Op)u[k]->op, FLAG_MOVE) || op_is((Op)u[k]->op, FLAG_ALU));
        if (u[k]->op == UOP_PARAM) may = may && uop_static(u[k]) && uop_numel(u[k]) <= IMPORT_LITERAL;
    }
    arena_free(arena);
    return may;
}

TgStatus import_opsets(const Model *m)
{
    int64_t version = import_opset(m->opset, m->nopset, ""), ml = import_opset(m->opset, m->nopset, "ai.onnx.ml");
    if (version > OPSET_NEWEST)
        return fail(TG_UNSUPPORTED, "opset %lld of the standard's operators; the newest that is covered is %d",
                    (long long)version, OPSET_NEWEST);
    if (ml > ML_OPSET_NEWEST)
        return fail(TG_UNSUPPORTED, "opset %lld of ai.onnx.ml; the newest that is covered is %d", (long long)ml,
                    ML_OPSET_NEWEST);
    return TG_OK;
}

void import_inputs(Imported *out, const Run *run)
{
    bool *text = NEW_N(graph_arena(run->g), bool, run->ninput + 1);
    int32_t *narrow = NEW_N(graph_arena(run->g), int32_t, run->ninput + 1);
    for (uint32_t k = 0; k < run->ninput; k++) {
        text[k] = run->input[k]->type == TG_STRING;
        narrow[k] = narrow_is((int32_t)run->input[k]->type) ? (int32_t)run->input[k]->type : 0;
    }
    *out =
        (Imported){ .g = run->g, .pool = run->pool, .ninput = run->ninput, .input_text = text, .input_narrow = narrow };
}

/* The calls around a loop's body, in frames of this import: without names but those that are inputs. */
static void frames_around(Import *im, const Import *frame)
{
    for (im->function = frame->function; frame->call; frame = frame->call->im, im = im->call->im) {
        Ctx *call = arena_copy(im->run->arena, frame->call, sizeof *call);
        call->im = arena_copy(im->run->arena, frame->call->im, sizeof *call->im);
        call->im->run = im->run;
        call->im->up = NULL;
        map_init(&call->im->name, im->run->arena);
        im->call = call;
    }
}

static Import *frame_at(Import *im, uint32_t level)
{
    while (level--) im = im->call->im;
    return im;
}

static TgStatus import_once(Imported *out, Run *run, const TgTensor *input, const bool *baked)
{
    const GraphDef *d = &run->model->graph;
    const Outside *outside = run->known ? run->known->outside : NULL;
    Import im = { .run = run, .opset = run->model->opset, .nopset = run->model->nopset };
    const UOp **value = NEW_N(run->arena, const UOp *, d->noutput + 1);
    TRY(import_opsets(run->model));
    map_init(&im.name, run->arena);
    if (outside) frames_around(&im, outside->frame);
    import_initializers(&im, d);
    for (uint32_t k = 0, slot = 0; k < d->ninput; k++) {
        uint32_t first = slot;
        Value *v = import_bind(frame_at(&im, outside ? outside->level[k] : 0), d->input[k].name);
        v->value = border_input(run, &input[k], k, &slot, baked);
        if (d->input[k].kind == VALUE_ROWS && !holds_tensors(&input[k]))
            v->value = rows_apart(run->g, rows_new(run->g, v->value));
        v->known = !holds_tensors(&input[k]) && baked[first];
        for (uint32_t i = first; i < slot; i++) v->from_data |= baked[i];
    }
    TRY(import_nodes(&im, d->node, d->nnode));
    Imported made;
    import_inputs(&made, run);
    for (uint32_t k = 0; k < d->noutput; k++) TRY(import_lookup(&value[k], &im, NULL, d->output[k].name));
    TRY(border_outputs(&made, d, value));
    *out = made;
    return TG_OK;
}

/* Whether a new try may do better: an input whose value was wanted can be baked in, which was not. Not many floats,
 * where what is made of them can be requested. */
static bool bake_more(const Run *run, bool *baked)
{
    bool more = false;
    for (uint32_t k = 0; k < run->ninput; k++) {
        const TgTensor *t = run->input[k];
        int64_t numel = 1;
        int64_t most = t->type == TG_U8 ? BAKED_BYTES_MAX : BAKED_MAX;                    /* bytes may be a file */
        if (run->question && dtype_is_float(dtype_from_onnx((int32_t)t->type))) most = IMPORT_LITERAL;
        for (int32_t a = 0; a < t->rank; a++) numel = numel > most ? numel : numel * t->shape[a];
        if (!run->need[k] || baked[k] || numel > most || (numel && !t->data)) continue;
        baked[k] = more = true;
    }
    return more;
}

static TgStatus check_inputs(const Model *m, const TgTensor *input, uint32_t ninput)
{
    if (ninput != m->graph.ninput) return fail(TG_BAD_INPUT, "%u inputs; the model has %u", ninput, m->graph.ninput);
    for (uint32_t k = 0; k < ninput; k++) TRY(port_check(&m->graph.input[k], &input[k]));
    return TG_OK;
}

TgStatus import_model(Imported *out, const Model *m, const TgTensor *input, uint32_t ninput, Dims *dims, Known *known)
{
    TRY(check_inputs(m, input, ninput));
    Arena *arena = arena_new();
    uint32_t n = port_parts(NULL, input, ninput);
    const TgTensor **part = NEW_N(arena, const TgTensor *, n + 1);
    bool *baked = known && known->baked ? known->baked : NEW_N(known ? known->arena : arena, bool, n + 1),
         *need = NEW_N(arena, bool, n + 1);
    TgStatus status = TG_OK;
    if (known) known->baked = baked;
    port_parts(part, input, ninput);
    for (bool again = true; again;) {
        Run run = { .g = graph_new(),
                    .arena = arena_new(),
                    .model = m,
                    .input = part,
                    .ninput = n,
                    .need = need,
                    .dims = dims,
                    .known = known };
        run.pool = pool_new(graph_arena(run.g));
        status = import_once(out, &run, input, baked);
        bool doubted = status == TG_OK && dims && dims_doubted(dims, run.g, input),
             bake = status == TG_UNSUPPORTED && bake_more(&run, baked), ask = status != TG_OK && run.question && !bake;
        if (ask) status = question_import(out, &run);
        out->makes_text = known && known->makes_text;
        again = bake ||
            (!ask && (status != TG_OK || doubted) && dims &&
             dims_refine(dims, run.g, status != TG_OK ? tg_error() : NULL));
        if (again && known) known->n = 0;
        if (status == TG_OK && !again) out->baked = arena_copy(graph_arena(run.g), baked, n);
        else graph_free(run.g), out->g = NULL;
        arena_free(run.arena);
    }
    arena_free(arena);
    return status;
}
