/* Reorder: what must keep the order of its axes (an input, an output that is read again: keys of an attention that are
 * a cache) is copied into another, where a product would read along its reduce axis alone and so has no lanes; or where
 * the windows of a convolution would ask for each element whether it lies inside, and walk far from channel to channel.
 *
 * Comes in: kernels in form 2 with indices of one expression an axis. Goes out: before such a kernel a copy into a
 * BUFFER of its own, which votes then order, and the kernel's parameter stands for that. Must hold: rows of the product
 * pay for the copy, at the fewest that sizes allow. */
#include <stdlib.h>

#include "graph/base/memory.h"
#include "sched/layout.h"

/* PAYS: times that a copy's cost is saved; CHANNELS, WINDOW_FLOPS: of windows, and operations for each element, that
 * pay for theirs (two cores, AVX2: 256 to 256 channels of 64 x 64, 3 x 3 dilated by 2: 316 ms, 42 copied; 32 to 32 of
 * 16 x 56 x 56, 3 x 3 x 3: 397, 26; depthwise, 96 of 56 x 56, 7 x 7: 1.7, 0.4; AVX-512, 960 of 7 x 7, 5 x 5: 0.23,
 * 0.05). STORE_FLOPS: for each result, which hide that lines of its channels are in one set (AVX-512, 64 channels of
 * 64 x 64: of 16, 3 x 3, 0.65 ms copied, 0.44 as they lie; of 64, 5 x 5, 4.4, 5.0). */
enum { OPERANDS = 2, PAYS = 2, CHANNELS = 8, WINDOW_FLOPS = 48, STORE_FLOPS = 512 };

/* May a loop along this index's last axis be lanes? */
static bool has_lanes(const UOp *index)
{
    const UOp *last = index->src[index->nsrc - 1];
    return last->op == UOP_RANGE && range_type(last) == AXIS_LOOP;
}

/* The one INDEX that an operand of the product reads; NULL: it is more than a load and arithmetic with constants. */
static const UOp *operand(const UOp *u)
{
    while (u->op != UOP_LOAD) {
        const UOp *from = NULL;
        for (uint32_t i = 0; i < u->nsrc; i++) {
            if (!u->src[i]->ranges) continue;
            if (from) return NULL;
            from = u->src[i];
        }
        if (!from || !op_is((Op)u->op, FLAG_ALU)) return NULL;
        u = from;
    }
    const UOp *index = index_of(u);
    return u->nsrc == 1 && index->op == UOP_INDEX && index->src[0]->op == UOP_PARAM && index->nsrc > 2 ? index : NULL;
}

/* Iterations of the loops that read each element anew, at the fewest. */
static double rows_of(const Access *a, const UOp *index)
{
    double rows = 1;
    for (uint32_t i = 0; i < a->nrange; i++)
        if (range_type(a->range[i]) == AXIS_LOOP && !(index->ranges & range_bit(a->range[i])))
            rows *= (double)a->range[i]->src[0]->vmin;
    return rows;
}

static bool read_once(const Access *a, const UOp *index)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->nload; i++) n += a->load[i]->src[0] == index->src[0];
    return n == 1;
}

/* Of one head or group of several, too: h * 64 + d. */
static bool runs_along_reduce(const Access *a, const UOp *last)
{
    for (uint32_t i = 0; i < a->nrange; i++)
        if (range_type(a->range[i]) == AXIS_REDUCE && range_step(last, a->range[i]) == 1) return true;
    return false;
}

/* The operand that a copy would give lanes to; NULL: none. */
static const UOp *wants_copy(const Schedule *s, Layout *all, const Kernel *k, const Access *a, const uint8_t *once)
{
    const UOp *lane = layout_lane(s, k, a, once), *found = NULL;
    if (!lane || !dtype_is_float((DType)a->product->dtype)) return NULL;
    for (uint32_t i = 0; i < OPERANDS; i++) {
        const UOp *index = operand(a->product->src[i]);
        if (!index || has_lanes(index)) return NULL;
        const UOp *last = index->src[index->nsrc - 1];
        const Layout *l = layout_of(all, buffer_of(k, index));
        bool keeps = (!l || l->fixed) && !k->param[index->src[0]->arg.i].written;
        bool lanes = keeps && runs_along_reduce(a, last) && layout_bare_axis(index, lane) >= 0;
        if (lanes && read_once(a, index)) found = index;
    }
    double saved = found ? 2 * LANE_NS_PER_FLOP * rows_of(a, found) : 0;
    return saved > 2 * ELEMENT_NS * PAYS ? found : NULL;
}

static uint64_t constant_ranges(const Schedule *s, const Kernel *k, const Access *a, const uint8_t *once)
{
    uint64_t constants = 0;
    for (uint32_t i = 0; i < a->nload; i++)
        if (layout_constant(s, k, a->load[i], once)) constants |= a->load[i]->ranges;
    return constants;
}

/* Does it move along some axis with a loop of constants and another, a window's place, and along another axis, which is
 * long, with loops of constants alone, channels? */
static bool has_windows(const UOp *index, uint64_t constants)
{
    bool window = false, channels = false;
    for (uint32_t i = 1; i < index->nsrc; i++) {
        uint64_t with = index->src[i]->ranges & constants, without = index->src[i]->ranges & ~constants;
        window |= with && without;
        channels |= with && !without && uop_dim(index->src[0], i - 1)->vmin >= CHANNELS;
    }
    return window && channels;
}

/* Would its channels, which are lanes then, be stored in steps of pages, so that a vector's lines are more than their
 * set of the first cache holds, after few operations? */
static bool stores_by_pages(const Kernel *k, Layout *all, const Access *a, uint64_t constants, const Target *t)
{
    bool pages = false;
    if (t->vector_bytes / (int64_t)sizeof(float) <= t->l1_bytes / PAGE) return false;
    for (uint32_t i = 0; i < a->nstore; i++) {
        const UOp *index = a->store[i], *b = buffer_of(k, index);
        const Layout *l = layout_of(all, b);
        int64_t step = dtype_size((DType)b->dtype);
        bool busy = (double)k->flops >= (double)STORE_FLOPS * (double)uop_numel(b);
        for (uint32_t axis = index->nsrc; (!l || l->fixed) && !busy && axis-- > 1; step *= uop_size(b, axis - 1))
            pages |= axis + 1 < index->nsrc && (index->src[axis]->ranges & constants) && step % PAGE == 0;
    }
    return pages;
}

/* Operations, also where a product's numbers are integers, which flops does not count. */
static double operations(const Kernel *k, const Access *a)
{
    double products = a->product ? 2 : 0;
    for (uint32_t i = 0; i < a->nrange; i++) products *= (double)a->range[i]->src[0]->vmin;
    return (double)k->flops > products ? (double)k->flops : products;
}

/* What is read by windows, often enough to pay for a copy; NULL: nothing. */
static const UOp *wants_windows(const Schedule *s, Layout *all, const Kernel *k, const Access *a, const uint8_t *once,
                                const Target *t)
{
    uint64_t constants = constant_ranges(s, k, a, once);
    if (stores_by_pages(k, all, a, constants, t)) return NULL;
    for (uint32_t i = 0; i < a->nload; i++) {
        const UOp *index = a->load[i], *b = buffer_of(k, index);
        const Layout *l = layout_of(all, b);
        bool keeps = (!l || l->fixed) && !k->param[index->src[0]->arg.i].written &&
            !layout_constant(s, k, index, once);
        if (keeps && read_once(a, index) && has_windows(index, constants) &&
            operations(k, a) >= (double)WINDOW_FLOPS * (double)uop_numel(b))
            return index;
    }
    return NULL;
}

/* ---- the copy ---- */

static const UOp *new_buffer(Graph *g, const UOp *like)
{
    int64_t bytes = uop_numel(like) * dtype_size((DType)like->dtype);
    return graph_add_buffer(g, &(BufferInfo){ .dtype = (DType)like->dtype, .shape = like->shape,
                                              .size_bytes = (size_t)bytes });
}

static Kernel *copy_kernel(const UOp *to, const UOp *from)
{
    Kernel *k = mem_zeros(1, sizeof *k);
    Graph *g = k->g = graph_new();
    const UOp *dim[AXES], *src[2][AXES + 1];
    uint32_t rank = uop_rank(from);
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = uop_copy(g, uop_dim(from, i), NULL);
        src[0][i + 1] = src[1][i + 1] = uop_range(g, (int)i, dim[i], AXIS_LOOP);
    }
    for (int i = 0; i < 2; i++) src[i][0] = uop_param(g, (DType)from->dtype, dim, rank, i);
    const UOp *value = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src[1], rank + 1));
    src[0][0] = UOP(g, UOP_STORE, DT_VOID, NO_ARG, uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src[0], rank + 1), value);
    k->root = UOP(g, UOP_SINK, DT_VOID, NO_ARG, uop_new(g, UOP_END, DT_VOID, NO_ARG, src[0], rank + 1));
    k->param[k->nparam++] = (KernelParam){ .buffer = to, .written = true };
    k->param[k->nparam++] = (KernelParam){ .buffer = from, .read = true };
    kernel_vars(k);
    return k;
}

/* The copy's item, and what it writes instead of what the reader read. */
static ScheduleItem copy_item(Schedule *s, ScheduleItem *reader, uint32_t slot, Layout *all)
{
    const UOp *from = reader->kernel->param[slot].buffer, *to = new_buffer(s->g, from);
    all[buffer_slot(to)].rank = uop_rank(to);
    reader->kernel->param[slot].buffer = to;
    return (ScheduleItem){ .kind = ITEM_KERNEL, .kernel = copy_kernel(to, from), .origins = reader->origins };
}

static Facts *facts_of_copy(Kernel *k, Arena *scratch)
{
    Facts *f = NEW(scratch, Facts);
    kernel_count(k);
    layout_accesses(&f->access, k, scratch);
    return f;
}

/* Items of functions' first calls are counted from the items in front. */
static void move_functions(Schedule *s, const uint32_t *place)
{
    for (uint32_t i = 0; i < s->nfunction; i++) {
        struct FunctionUse *f = &s->function[i];
        uint32_t end = place[f->first + f->count];
        f->first = place[f->first];
        f->count = end - f->first;
    }
}

Facts **layout_reorder(Schedule *s, Layout *all, Facts **facts, const uint8_t *once, Arena *scratch, const Target *t)
{
    int64_t *slot = NEW_N(scratch, int64_t, s->count + 1);
    uint32_t *place = NEW_N(scratch, uint32_t, s->count + 1), copies = 0, at = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        const Kernel *k = item->kernel && !item->once && facts[i]->access.product ? item->kernel : NULL;
        const UOp *index = k ? wants_copy(s, all, k, &facts[i]->access, once) : NULL;
        if (k && !index) index = wants_windows(s, all, k, &facts[i]->access, once, t);
        slot[i] = index ? index->src[0]->arg.i : -1;
        copies += index != NULL;
    }
    if (!copies) return facts;
    ScheduleItem *item = mem_zeros(s->count + copies, sizeof *item);
    Facts **moved = NEW_N(scratch, Facts *, s->count + copies + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        place[i] = at;
        if (slot[i] >= 0) {
            item[at] = copy_item(s, &s->item[i], (uint32_t)slot[i], all);
            moved[at] = facts_of_copy(item[at].kernel, scratch);
            at++;
        }
        item[at] = s->item[i];
        moved[at++] = facts[i];
    }
    place[s->count] = at;
    move_functions(s, place);
    mem_free(s->item);
    s->item = item;
    s->count = s->cap = at;
    return moved;
}
