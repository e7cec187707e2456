/* See rangeify.h. Facts about nodes before the sweep: what it takes to compute one, what it is made of, and where the
 * sweep, which meets users first, would have to know more. */
#include "sched/rangeify.h"

/* Of one kernel's operations upon operations. */
enum { MAX_DEPTH = 1000 };

bool node_is_leaf(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_BUFFER:
    case UOP_PARAM:
    case UOP_CONST:
    case UOP_IOTA:
    case UOP_DEFINE_VAR:
    case UOP_BIND:
    case UOP_GETTUPLE: return true;
    default: return false;
    }
}

bool node_is_memory(const UOp *u) { return u->op == UOP_BUFFER || u->op == UOP_PARAM || u->op == UOP_GETTUPLE; }

/* Sources that carry values (sizes and offsets of movement ops do not). */
uint32_t node_values(const UOp *u)
{
    if (node_is_leaf(u)) return 0;
    if (op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_REDUCE) return 1;
    return u->nsrc;
}

/* ---- facts about nodes, before the sweep ---- */

/* What lies behind views; is a PAD among them? */
static const UOp *behind_views(const UOp *u, bool *padded)
{
    for (; op_is((Op)u->op, FLAG_MOVE); u = u->src[0]) *padded |= u->op == UOP_PAD;
    return u;
}

bool node_fills(const UOp *u)
{
    bool padded = false, other = false;
    return u->op == UOP_WHERE && uop_is_const(behind_views(u->src[0], &padded)) && padded &&
        uop_is_const(behind_views(u->src[2], &other));
}

static float own_cost(const UOp *u)
{
    if (node_fills(u)) return 0;
    switch ((Op)u->op) {
    case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: return 10;
    case UOP_SQRT: case UOP_RECIP: case UOP_DIV: case UOP_MOD: case UOP_IDIV: return 4;
    case UOP_CAST: return dtype_size((DType)u->dtype) > dtype_size((DType)u->src[0]->dtype) ? 0 : 1;
    default: return op_is((Op)u->op, FLAG_ALU) ? 1 : 0;
    }
}

/* A kernel of very many operations one upon another would help nobody, and its compiler least: the value at the limit
 * lies in memory. */
static void limit_depth(Rangeify *r, const UOp *u, uint32_t ns)
{
    uint16_t depth = 0;
    for (uint32_t k = 0; k < ns; k++) {
        const UOp *s = u->src[k];
        if (!r->forced[s->id] && s->op != UOP_REDUCE && r->depth[s->id] > depth) depth = r->depth[s->id];
    }
    r->depth[u->id] = depth + op_is((Op)u->op, FLAG_ALU);
    if (r->depth[u->id] == MAX_DEPTH && op_is((Op)u->op, FLAG_ALU)) r->forced[u->id] = 1;
}

void facts_gather(Rangeify *r, const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        uint32_t ns = node_values(u), loads = node_is_memory(u) && uop_numel(u) > 1;
        bool constant = u->op == UOP_CONST || u->op == UOP_IOTA ||
            (u->op == UOP_BUFFER && graph_buffer(r->g, buffer_slot(u))->data),
             reduces = u->op == UOP_REDUCE;
        float cost = own_cost(u);
        for (uint32_t k = 0; k < ns; k++) {
            const UOp *s = u->src[k];
            if (r->users[s->id] < 2) r->users[s->id]++;
            r->shown[s->id] |= !op_is((Op)u->op, FLAG_ALU);
            constant = (k == 0 || constant) && r->constant[s->id];
            if (r->forced[s->id] || s->op == UOP_CONTIGUOUS) {
                loads++;
                continue;
            }
            reduces |= r->reduces[s->id];
            if (s->op != UOP_REDUCE) cost += r->cost[s->id], loads += r->loads[s->id];
            else loads++;
        }
        r->constant[u->id] = constant && u->op != UOP_CALL && uop_static(u);
        r->reduces[u->id] = reduces;
        r->cost[u->id] = cost > 1e6f ? 1e6f : cost;
        r->loads[u->id] = (uint8_t)(loads > 200 ? 200 : loads);
        limit_depth(r, u, ns);
    }
}

double facts_operations(Rangeify *r, const UOp *u)
{
    ArenaMark mark = arena_mark(r->arena);
    uint32_t n;
    const UOp **order = uop_toposort(r->g, &u, 1, r->arena, &n);
    uint8_t *inside = NEW_N(r->arena, uint8_t, u->id + 1);
    double cost = 0;
    inside[u->id] = 1;
    for (uint32_t i = n; i-- > 0;) {
        if (!inside[order[i]->id]) continue;
        cost += own_cost(order[i]);
        for (uint32_t k = 0; k < node_values(order[i]); k++) {
            const UOp *s = order[i]->src[k];
            if (!node_is_leaf(s) && !r->forced[s->id] && !r->stored[s->id] && s->op != UOP_REDUCE) inside[s->id] = 1;
        }
    }
    arena_release(r->arena, mark);
    return cost;
}

double node_base(const UOp *u)
{
    double n = (double)uop_numel(u);
    for (; op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_INDEX; u = u->src[0])
        if ((double)uop_numel(u->src[0]) < n) n = (double)uop_numel(u->src[0]);
    return n;
}

/* A wider copy of a constant is none: it is read narrow and widened there (PACK may yet make one). */
bool node_only_widens(const UOp *u)
{
    return u->op == UOP_CAST && dtype_is_float((DType)u->dtype) == dtype_is_float((DType)u->src[0]->dtype) &&
        dtype_size((DType)u->dtype) > dtype_size((DType)u->src[0]->dtype);
}

bool node_widens(const UOp *u)
{
    return node_only_widens(u) ||
        (u->op == UOP_CAST && u->dtype == DT_F32 && dtype_is_int((DType)u->src[0]->dtype) &&
         dtype_size((DType)u->src[0]->dtype) < 3);
}

/* A sum of products whose operands are smaller than the product: worth a kernel of its own, never worth repeating. */
bool node_contracts(const UOp *u)
{
    const UOp *p = reduced_product(u);
    return p && 2 * node_base(p->src[0]) <= (double)uop_numel(p) && 2 * node_base(p->src[1]) <= (double)uop_numel(p);
}

static bool is_product(const UOp *u)
{
    return u->op == UOP_MUL && 2 * node_base(u->src[0]) <= (double)uop_numel(u) &&
        2 * node_base(u->src[1]) <= (double)uop_numel(u);
}

/* What the sweep, which meets users first, cannot know yet: element-wise operands of a contraction will be stored, and
 * so will a contraction's result that a row statistic reads besides others. sim stops there. A wrong guess costs
 * nothing: the node's own decision comes later. */
void facts_foresee(Rangeify *r, const UOp *const *order, uint32_t n)
{
    enum { TO_PRODUCT = 1, TO_STATISTIC = 2, HEAVY = 4, STATISTIC = 8 };
    uint8_t *fact = NEW_N(r->arena, uint8_t, r->nnode), *fan = NEW_N(r->arena, uint8_t, r->nnode);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = n; i-- > 0;) {
            const UOp *u = order[i];
            bool passes = op_is((Op)u->op, FLAG_ALU) || op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_INDEX,
                 view = passes && !op_is((Op)u->op, FLAG_ALU);
            uint8_t f = fact[u->id];
            r->multiplied[u->id] = f & TO_PRODUCT;
            if (op_is((Op)u->op, FLAG_ALU) && (f & TO_PRODUCT) && r->cost[u->id] >= 1) r->stored[u->id] = 1;
            if (pass && (f & HEAVY) && !(f & STATISTIC) && (f & TO_STATISTIC) && fan[u->id] > 1 && !view)
                r->stored[u->id] = 1;
            for (uint32_t k = 0; k < node_values(u); k++) {
                uint8_t *s = &fact[u->src[k]->id];
                if (!pass && fan[u->src[k]->id] < 9) fan[u->src[k]->id] += view && fan[u->id] ? fan[u->id] : 1;
                if (is_product(u) || (view && (f & TO_PRODUCT))) *s |= TO_PRODUCT;
                if ((u->op == UOP_REDUCE && !node_contracts(u)) ||
                    (passes && (f & TO_STATISTIC) && !r->stored[u->id] && !is_product(u)))
                    *s |= TO_STATISTIC;
            }
        }
        for (uint32_t i = 0; i < n && !pass; i++) {
            const UOp *u = order[i];
            if (u->op == UOP_REDUCE) {
                fact[u->id] |= node_contracts(u) ? HEAVY : STATISTIC;
                continue;
            }
            for (uint32_t k = 0; k < node_values(u); k++)
                if (!r->stored[u->src[k]->id] && !r->forced[u->src[k]->id])
                    fact[u->id] |= fact[u->src[k]->id] & (HEAVY | STATISTIC);
        }
    }
}
