/* One run of a program: numbers for strings and bytes for narrow elements on the way in, memory for outputs, the
 * backend's run, and the way back; results that go to the caller's memory. */
#include "frontend/session/program.h"

#include <string.h>

#include "frontend/values/narrow.h"
#include "frontend/values/text.h"
#include "graph/base/memory.h"
#include "graph/base/spare.h"

/* ---- outputs ---- */

TgStatus program_outputs(Program *p, void *const *direct)
{
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        if (b->kind != MEM_OUTPUT || p->out[b->offset]->data || (direct && direct[b->offset])) continue;
        p->out[b->offset]->data = spare_alloc((size_t)b->size_bytes + 64);
        if (!p->out[b->offset]->data)
            return fail(TG_LIMIT, "no memory for output %ld (%ld bytes)", (long)b->offset, (long)b->size_bytes);
    }
    return TG_OK;
}

static TgStatus output_shapes(Program *p)
{
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        if (b->kind != MEM_OUTPUT) continue;
        TgTensor *y = p->out[b->offset];
        int64_t numel = 1;
        for (uint32_t k = 0; k < b->shape->rank; k++) {
            int64_t size = plan_eval(p->plan, b->shape->dim[k], p->vars);
            if (size == INT64_MIN)
                return fail(TG_INTERNAL, "size %u of output %ld is not known after the run", k, (long)b->offset);
            if (size < 0)
                return fail(TG_BAD_INPUT, "'output %ld': axis %u would have size %ld: an input is too short",
                            (long)b->offset, k, (long)size);
            numel *= size;
            if ((int32_t)k < y->rank) y->shape[k] = size;
        }
        y->size_bytes = (size_t)(numel * dtype_size(b->dtype));
    }
    return TG_OK;
}

/* ---- strings: the graph sees numbers of a pool; and packed elements ---- */

/* Sizes may vary from run to run. */
static void *own_memory(Program *p, uint32_t i, const TgTensor *x, size_t width)
{
    int64_t n = tensor_count(x);
    if (!p->own[i] || n > p->room[i]) {
        int64_t room = p->own[i] ? 2 * n : n;
        p->own[i] = arena_alloc(p->arena, (size_t)room * width + 1);
        p->room[i] = room;
    }
    return p->own[i];
}

static const int64_t *numbers_of(Program *p, StringPool *pool, uint32_t i, const TgTensor *x)
{
    const char *const *s = x->data;
    int64_t *number = own_memory(p, i, x, sizeof *number);
    for (int64_t k = 0; k < tensor_count(x); k++) number[k] = pool_add(pool, s[k], strlen(s[k]));
    return number;
}

/* The pool of one run: strings that the model does not know live until the next. */
static StringPool *pool_of_run(Program *p)
{
    bool any = p->imported.makes_text;
    for (uint32_t i = 0; i < p->ninput; i++) any |= p->imported.input_text[i];
    if (!any) return p->imported.pool;
    arena_free(p->words);
    p->words = NULL;
    return pool_above(p->words = arena_beside(p->arena), p->imported.pool);
}

static void strings_of(const StringPool *pool, TgTensor *y)
{
    for (size_t k = 0; k < y->size_bytes / 8; k++) {
        int64_t number;
        memcpy(&number, (char *)y->data + 8 * k, 8);
        const char *s = pool_text(pool, number);
        memcpy((char *)y->data + 8 * k, &s, sizeof s);
    }
}

static const void *bytes_of(Program *p, uint32_t i, const TgTensor *x)
{
    uint8_t *bytes = own_memory(p, i, x, 1);
    narrow_unpack(bytes, x->data, tensor_count(x), (int32_t)x->type);
    return bytes;
}

/* Elements of a narrow output, from a byte each to their packed form, in place. */
static void pack(TgTensor *y)
{
    int64_t n = tensor_count(y), bits = narrow_bits((int32_t)y->type);
    narrow_pack(y->data, y->data, n, (int32_t)y->type);
    y->size_bytes = (size_t)((n * bits + 7) / 8);
}

/* ---- outputs in the caller's memory ---- */

/* Does a step of the run find this size? The others follow from the inputs. */
static bool size_is_found(const Program *p, const UOp *size)
{
    bool found = size->op == UOP_DEFINE_VAR;
    for (uint32_t k = 0; p->dims && k < p->dims->nvar && found; k++)
        found = strcmp(p->dims->var[k].name, var_name(size)) != 0;
    for (uint32_t k = 0; k < size->nsrc && !found; k++) found = size_is_found(p, size->src[k]);
    return found;
}

static TgStatus check_bound(const Bound *bound, uint32_t result, int64_t bytes)
{
    if (bytes == (int64_t)bound[result].size_bytes) return TG_OK;
    return fail(TG_BAD_INPUT, "output %u has %ld bytes; memory of %zu is bound to it", result, (long)bytes,
                bound[result].size_bytes);
}

TgStatus bound_copy(const Bound *bound, TgTensor *output, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (!bound[k].data || bound[k].data == output[k].data) continue;
        TRY(check_bound(bound, k, (int64_t)output[k].size_bytes));
        memcpy(bound[k].data, output[k].data, output[k].size_bytes);
        output[k].data = bound[k].data;
    }
    return TG_OK;
}

/* Is some of it an input's, which is read while outputs are written? */
static bool is_input(const Program *p, const Bound *bound)
{
    bool found = false;
    const char *begin = bound->data, *end = begin + bound->size_bytes;
    for (uint32_t i = 0; i < p->ninput && !found; i++) {
        const char *x = p->given[i]->data;
        found = x && x < end && begin < x + p->given[i]->size_bytes;
    }
    return found;
}

/* Outputs that kernels write where they are bound: those whose bytes are known before the run, and are what a run
 * leaves. */
static TgStatus direct_outputs(const Program *p, const Bound *bound, void **direct)
{
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        uint32_t result = 0;
        if (b->kind != MEM_OUTPUT) continue;
        while (result < p->nresult && p->out[b->offset] != &p->output[result]) result++;
        if (result == p->nresult || !bound[result].data || p->imported.output_narrow[b->offset] ||
            is_input(p, &bound[result]))
            continue;
        int64_t bytes = dtype_size(b->dtype);
        for (uint32_t k = 0; k < b->shape->rank && bytes >= 0; k++) {
            int64_t size = plan_eval(p->plan, b->shape->dim[k], p->vars);
            /* found by a step of the run, or by one of an earlier run */
            bytes = size < 0 || size_is_found(p, b->shape->dim[k]) ? -1 : bytes * size;
        }
        if (bytes < 0) continue;
        TRY(check_bound(bound, result, bytes));
        direct[b->offset] = bound[result].data;
    }
    return TG_OK;
}

/* ---- the run ---- */

static void bind_dims(Program *p, const TgTensor *input)
{
    int64_t value[p->dims->nvar + 1];
    dims_values(p->dims, input, value);
    for (uint32_t k = 0; k < p->dims->nvar; k++) {
        int32_t at = plan_var(p->plan, p->dims->var[k].name);
        if (at >= 0) p->vars[at] = value[k];
    }
}

static void undo_text(void *pool) { text_end(pool); }

static TgStatus run(Program *p, const Backend *b, const TgTensor *input, const Bound *bound, TgTensor *output,
                    double *seconds)
{
    const void *in[p->ninput + 1];
    void *out[p->noutput + 1], *direct[p->noutput + 1];
    StringPool *pool = pool_of_run(p);
    if (p->dims) bind_dims(p, input);
    port_parts(p->given, input, p->nport);
    for (uint32_t i = 0; i < p->ninput; i++) {
        const TgTensor *x = p->given[i];
        in[i] = p->imported.input_text[i] ? (const void *)numbers_of(p, pool, i, x)
            : p->imported.input_narrow[i] ? bytes_of(p, i, x)
                                          : x->data;
    }
    memset(direct, 0, sizeof direct);
    if (bound) TRY(direct_outputs(p, bound, direct));
    TRY(program_outputs(p, direct));
    for (uint32_t i = 0; i < p->noutput; i++) out[i] = direct[i] ? direct[i] : p->out[i]->data;
    StringPool *before = text_begin(pool);
    Undo undo;
    undo_push(&undo, undo_text, before);
    TgStatus status =
        seconds ? b->trace(p->executable, in, out, p->vars, seconds) : b->run(p->executable, in, out, p->vars);
    undo_pop(&undo);
    p->pieces_wanted = text_end(before);
    TRY(status);
    TRY(output_shapes(p));
    for (uint32_t i = 0; i < p->noutput; i++)
        if (p->imported.output_text[i]) strings_of(pool, p->out[i]);
        else if (narrow_is(p->imported.output_narrow[i])) pack(p->out[i]);
    memcpy(output, p->output, sizeof *output * p->nresult);
    for (uint32_t i = 0; i < p->noutput; i++)
        if (direct[i]) output[p->out[i] - p->output].data = direct[i];
    return bound ? bound_copy(bound, output, p->nresult) : TG_OK;
}

TgStatus program_run(Program *p, const Backend *b, const TgTensor *input, const Bound *bound, TgTensor *output)
{
    return run(p, b, input, bound, output, NULL);
}

TgStatus program_trace(Program *p, const Backend *b, const TgTensor *input, double *seconds)
{
    TgTensor output[p->nresult + 1];
    return run(p, b, input, NULL, output, seconds);
}
