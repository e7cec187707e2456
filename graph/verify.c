/* The verifier (verify.h). In: a root and the stage that made it. Out: the first row that some node breaks.
 * A row says at which stages, of which nodes, what must hold; a few rows look at the graph as a whole. To add one: a
 * row, and a broken graph in tests/unit/test_verify.c.
 */
#include "graph/base/memory.h"
#include "graph/verify.h"

#include <stdlib.h>

#include "graph/print.h"
#include "graph/wmma.h"

enum {
    TENSOR = 1 << VERIFY_TENSOR,
    RANGEIFY = 1 << VERIFY_RANGEIFY,
    LAYOUT = 1 << VERIFY_LAYOUT,
    OPTIMIZE = 1 << VERIFY_OPTIMIZE,
    EXPAND = 1 << VERIFY_EXPAND,
    SELECT = 1 << VERIFY_SELECT,
    LINEAR = 1 << VERIFY_LINEAR,
    KERNEL = RANGEIFY | LAYOUT | OPTIMIZE | EXPAND | SELECT | LINEAR,
    SCALAR = RANGEIFY | LAYOUT | OPTIMIZE,
    FLAT = KERNEL & ~RANGEIFY,
    VECTOR = EXPAND | SELECT | LINEAR,
    ALL = TENSOR | KERNEL,
};

/* ---- of which nodes ---- */

static bool is_alu(const UOp *u) { return op_is((Op)u->op, FLAG_ALU); }
static bool is_compare(const UOp *u) { return u->op == UOP_CMPLT || u->op == UOP_CMPNE; }
static bool is_where(const UOp *u) { return u->op == UOP_WHERE; }
static bool is_load(const UOp *u) { return u->op == UOP_LOAD; }
static bool is_store(const UOp *u) { return u->op == UOP_STORE; }
static bool is_index(const UOp *u) { return u->op == UOP_INDEX; }
static bool is_range(const UOp *u) { return u->op == UOP_RANGE; }
static bool is_end(const UOp *u) { return u->op == UOP_END; }
static bool is_reduce(const UOp *u) { return u->op == UOP_REDUCE; }
static bool is_value(const UOp *u)
{
    return is_alu(u) || u->op == UOP_LOAD || u->op == UOP_CONST || u->op == UOP_RANGE;
}

static bool same_operands(const UOp *u)
{
    return is_alu(u) && u->nsrc > 1 && u->op != UOP_WHERE;
}

static bool moves_tensors(const UOp *u)
{
    switch (u->op) {
    case UOP_PERMUTE:
    case UOP_FLIP:
    case UOP_RESHAPE:
    case UOP_EXPAND:
    case UOP_PAD:
    case UOP_CAT:
    case UOP_IOTA:
    case UOP_CONTIGUOUS:
    case UOP_CONTIGUOUSBACKWARD:
    case UOP_COPY:
    case UOP_DETACH: case UOP_FUNCTION: case UOP_CALL: case UOP_TUPLE: case UOP_GETTUPLE: case UOP_BIND: return true;
    default: return false;
    }
}

static bool is_lowered(const UOp *u)
{
    return u->op == UOP_RANGE || u->op == UOP_END || u->op == UOP_STORE || u->op == UOP_SPECIAL ||
        u->op == UOP_LINEAR || u->op == UOP_WMMA;
}
static bool is_refused(const UOp *u)
{
    return u->op == UOP_INS || u->op == UOP_ATOMICADD || u->op == UOP_ERROR || op_is((Op)u->op, FLAG_SUGAR);
}

/* ---- what must hold ---- */

static bool never(const UOp *u) { return u->op >= UOP_COUNT; }
static bool scalar_shape(const UOp *u) { return !u->shape->rank; }
static bool vector_shape(const UOp *u) { return u->shape->rank <= 1 && uop_static(u); }
static bool one_dtype(const UOp *u)
{
    return u->src[1]->dtype == u->src[0]->dtype || u->op == UOP_SHL || u->op == UOP_SHR;
}
static bool bool_result(const UOp *u) { return u->dtype == DT_BOOL; }
static bool where_types(const UOp *u) { return u->src[0]->dtype == DT_BOOL && u->src[1]->dtype == u->src[2]->dtype; }

static bool is_address(const UOp *at)
{
    Op m = (Op)uop_addressed(at)->op;
    return m == UOP_PARAM || m == UOP_BUFFER;
}

static bool load_sources(const UOp *u)
{
    if (!is_address(u->src[0])) return false;
    return u->nsrc == 1 || (u->nsrc == 3 && u->src[1]->dtype == u->dtype && u->src[2]->dtype == DT_BOOL);
}

static bool store_sources(const UOp *u)
{
    return is_address(u->src[0]) && u->src[1]->dtype == u->src[0]->dtype &&
        (u->nsrc == 2 || (u->nsrc == 3 && u->src[2]->dtype == DT_BOOL));
}

static bool integer_indices(const UOp *u)
{
    for (uint32_t k = 1; k < u->nsrc; k++)
        if (!dtype_is_int((DType)u->src[k]->dtype)) return false;
    return u->nsrc - 1 <= u->src[0]->shape->rank;
}

static bool flat_memory(const UOp *u) { return u->shape->rank == 1; }
static bool closes_ranges(const UOp *u)
{
    for (uint32_t k = 1; k < u->nsrc; k++)
        if (u->src[k]->op != UOP_RANGE) return false;
    return true;
}

/* A loop's bound may not depend on the loop, and a positive constant or symbol says how far it goes. */
static bool range_bound(const UOp *u)
{
    return u->src[0]->dtype == DT_INDEX && !(u->src[0]->ranges & range_bit(u)) && range_number(u) < 64;
}
static bool reduce_op(const UOp *u) { return u->arg.i == UOP_ADD || u->arg.i == UOP_MAX || u->arg.i == UOP_MUL; }

static bool reduce_axes(const UOp *u)
{
    if (!u->arg.blob) return false;
    for (uint32_t k = 0; k < blob_count(u->arg.blob); k++)
        if (blob_ints(u->arg.blob)[k] < 0 || blob_ints(u->arg.blob)[k] >= (int64_t)uop_rank(u)) return false;
    return u->nsrc == 1;
}

static bool reduce_ranges(const UOp *u) { return !u->arg.blob && u->nsrc > 1 && closes_ranges(u); }
static bool no_lane_range(const UOp *u) { return range_type(u) != AXIS_UPCAST && range_type(u) != AXIS_UNROLL; }
static bool first_types(const UOp *u) { return range_type(u) == AXIS_LOOP || range_type(u) == AXIS_REDUCE; }

/* A constant index far outside: the interval of an ungated access does not meet the buffer at all. */
static bool may_be_inside(const UOp *u)
{
    const UOp *at = u->src[0];
    if (u->nsrc > 1 || at->op != UOP_INDEX || at->nsrc != 2 || !uop_is_global(at->src[0]) || uop_rank(at->src[0]) != 1)
        return true;
    return at->src[1]->vmax >= 0 && at->src[1]->vmin < uop_size(at->src[0], 0);
}

static bool is_wmma(const UOp *u) { return u->op == UOP_WMMA; }

typedef struct {
    const char *name;
    unsigned stages;
    bool (*of)(const UOp *u), (*holds)(const UOp *u);
} Row;
static const Row row[] = {
    { "this op is refused",                                ALL,                   is_refused,    never },
    { "tensor ops end with rangeify",                      KERNEL,                moves_tensors, never },
    { "loops begin with rangeify",                         TENSOR,                is_lowered,    never },
    { "operands have one dtype",                           ALL,                   same_operands, one_dtype },
    { "a comparison is bool",                              ALL,                   is_compare,    bool_result },
    { "WHERE takes a bool and two of one dtype",           ALL,                   is_where,      where_types },
    { "INDEX takes integers, at most one an axis",         ALL,                   is_index,      integer_indices },
    { "REDUCE is of ADD, MAX or MUL",                      ALL,                   is_reduce,     reduce_op },
    { "REDUCE has axes of its source",                     TENSOR,                is_reduce,     reduce_axes },
    { "REDUCE closes ranges",                              SCALAR,                is_reduce,     reduce_ranges },
    { "END closes ranges",                                 KERNEL,                is_end,        closes_ranges },
    { "a loop's bound stands outside it",                  KERNEL,                is_range,      range_bound },
    { "ranges are LOOP or REDUCE",                         RANGEIFY | LAYOUT,     is_range,      first_types },
    { "UPCAST and UNROLL end with expand",                 VECTOR,                is_range,      no_lane_range },
    { "values are scalars",                                SCALAR,                is_value,      scalar_shape },
    { "values are scalars or vectors",                     VECTOR,                is_value,      vector_shape },
    { "LOAD takes an address, or with it alt and a gate",  KERNEL,                is_load,       load_sources },
    { "STORE takes an address, a value and maybe a gate",  KERNEL,                is_store,      store_sources },
    { "a WMMA is a row, and fits it",                      KERNEL,                is_wmma,       wmma_fits },
    { "memory is flat",                                    FLAT,                  uop_is_global,     flat_memory },
    { "an access meets its buffer",                        FLAT & SCALAR,         is_load,       may_be_inside },
};

static TgStatus broken(const char *name, VerifyStage stage, const UOp *u)
{
    static const char *const stage_name[VERIFY_STAGES] = { "callify", "rangeify", "layout",   "optimize",
                                                           "expand",  "select",   "linearize" };
    Text t = { 0 };
    uop_print_expr(&t, u);
    TgStatus s = fail(TG_INTERNAL, "after %s: %s: %s %s", stage_name[stage], name, op_name((Op)u->op), t.s ? t.s : "");
    text_free(&t);
    return s;
}

/* ---- the graph as a whole ---- */

/* One number names one range: same bound, same type. */
static const UOp *range_twice(const UOp *const *order, uint32_t n)
{
    const UOp *seen[64] = { NULL };
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op != UOP_RANGE) continue;
        const UOp **s = &seen[range_number(order[i])];
        if (*s && *s != order[i]) return order[i];
        *s = order[i];
    }
    return NULL;
}

/* Stands before, or is no instruction: an address, a constant, a GROUP of what stands before. */
static bool stands(const UOp *u, const uint8_t *done)
{
    bool silent = u->op == UOP_STACK || u->op == UOP_CONST || u->op == UOP_INDEX || u->op == UOP_SHRINK ||
        u->op == UOP_AFTER,
         group = u->op == UOP_GROUP;
    for (uint32_t k = 0; group && k < u->nsrc; k++) group &= done[u->src[k]->id];
    return silent || group || done[u->id];
}

/* Sources stand before users; loops nest: an END names the loops that were opened last, innermost first one by one or
 * all at once. */
static const UOp *bad_order(const UOp *linear, uint32_t count)
{
    uint8_t *done = mem_zeros(count, 1);
    const UOp *open[64], *bad = NULL;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < linear->nsrc && !bad; i++) {
        const UOp *u = linear->src[i];
        bool ends = u->op == UOP_END, address = u->op == UOP_INDEX || u->op == UOP_SHRINK;
        for (uint32_t k = 0; k < u->nsrc && !ends && !address; k++)
            if (!stands(u->src[k], done)) bad = u;
        if (u->op == UOP_RANGE && depth < 64) open[depth++] = u;
        for (uint32_t k = u->nsrc; ends && k-- > 0 && !bad;)
            if (u->src[k]->op == UOP_RANGE && (!depth || open[--depth] != u->src[k])) bad = u;
        done[u->id] = 1;
    }
    mem_free(done);
    return bad ? bad : depth ? open[depth - 1] : NULL;
}

static TgStatus as_a_whole(Graph *g, const UOp *root, VerifyStage stage, const UOp *const *order, uint32_t n)
{
    const UOp *bad;
    if (stage == VERIFY_TENSOR) return TG_OK;
    if ((bad = range_twice(order, n))) return broken("one number names one range", stage, bad);
    if (stage == VERIFY_LINEAR) {
        if (root->op != UOP_LINEAR) return broken("the root is a LINEAR", stage, root);
        bad = bad_order(root, graph_count(g));
        return bad ? broken("instructions stand in order and loops nest", stage, bad) : TG_OK;
    }
    if (root->op != UOP_SINK) return broken("the root is a SINK", stage, root);
    return root->ranges ? broken("every loop is closed", stage, root) : TG_OK;
}

TgStatus verify(Graph *g, const UOp *root, VerifyStage stage)
{
    Arena *scratch = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, scratch, &n);
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < n && status == TG_OK; i++)
        for (const Row *r = row; r < row + sizeof row / sizeof *row && status == TG_OK; r++)
            if (r->stages >> stage & 1 && r->of(order[i]) && !r->holds(order[i]))
                status = broken(r->name, stage, order[i]);
    if (status == TG_OK) status = as_a_whole(g, root, stage, order, n);
    arena_free(scratch);
    return status;
}
