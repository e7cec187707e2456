/* Sums that are known to be zero: a loop that only adds products of a factor that a gate makes 0 runs only where one of
 * its gates is open.
 *
 * Comes in: form 6 (after linearize, on a CPU). Goes out: the same with some innermost loops under an IF, whose
 * condition is the OR of the gates. So the taps of a dilated convolution that see only the pad cost nothing, though no
 * halo of zeros could serve them. Must hold: all that the loop stores are variables, each its own old value plus
 * products; one factor of each product is a LOAD with alt 0 whose gate does not change in the loop, the other a
 * constant of the model: zero times an infinity that data bring is no zero, and is summed. (A weight that is no number
 * leaves no trace in a sum that only pads would have brought it to; its other sums tell.)
 */
#include "sched/sched.h"

enum { GATES = 16, LEAST_TRIPS = 16 };
typedef struct { const UOp *range, *gate[GATES]; uint32_t n; } Gates;

static bool add_gate(Gates *s, const UOp *gate)
{
    for (uint32_t k = 0; k < s->n; k++)
        if (s->gate[k] == gate) return true;
    if (s->n == GATES || gate->shape->rank || (gate->ranges & range_bit(s->range))) return false;
    s->gate[s->n++] = gate;
    return true;
}

static bool is_zero(const UOp *u)
{
    return u->op == UOP_CONST && dtype_is_float((DType)u->dtype) && uop_const_float(u) == 0;
}
static const UOp *gate_of(const UOp *u)
{
    return u->op == UOP_LOAD && u->nsrc > 2 && is_zero(u->src[1]) ? u->src[2] : NULL;
}

/* Known at load: constants of the model, as they are or in lanes. */
static bool is_weight(const Kernel *k, const UOp *u)
{
    if (u->op == UOP_LOAD)
        return u->src[0]->op != UOP_BUFFER && u->src[0]->src[0]->op == UOP_PARAM &&
            k->param[u->src[0]->src[0]->arg.i].constant;
    bool weight =
        u->op == UOP_CONST || (u->nsrc && (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_STACK || u->op == UOP_INDEX));
    for (uint32_t i = 0; i < u->nsrc && weight; i++) weight = is_weight(k, u->src[i]);
    return weight;
}

/* v is the variable's old value plus products of weights and what gates make zero. */
static bool adds_gated(const Kernel *k, Gates *s, const UOp *v, const UOp *variable)
{
    for (; v->op == UOP_MULACC; v = v->src[2]) {
        bool second = !gate_of(v->src[0]);
        const UOp *gate = gate_of(v->src[second]);
        if (!gate || !is_weight(k, v->src[!second]) || !add_gate(s, gate)) return false;
    }
    return v->op == UOP_LOAD && v->src[0] == variable;
}

/* Where the innermost loop that begins at i ends; 0: it is none, or it may not be left out. */
static uint32_t skippable(const Kernel *k, uint32_t i, Gates *s)
{
    const UOp *linear = k->linear;
    *s = (Gates){ .range = linear->src[i] };
    if (s->range->op != UOP_RANGE || range_type(s->range) == AXIS_THREAD || s->range->src[0]->vmax < LEAST_TRIPS)
        return 0;
    while (++i < linear->nsrc && linear->src[i]->op != UOP_END) {
        const UOp *u = linear->src[i];
        if (u->op == UOP_RANGE || u->op == UOP_IF || u->op == UOP_BARRIER || u->op == UOP_WMMA) return 0;
        if (u->op == UOP_STORE && (u->src[0]->op != UOP_BUFFER || !adds_gated(k, s, u->src[1], u->src[0]))) return 0;
    }
    return s->n ? i : 0;
}

/* Is u an instruction of this block or one around it already? */
static bool stands(const UOp *const *line, uint32_t n, const UOp *u)
{
    uint32_t closed = 0;
    while (n--) {
        if (!closed && line[n] == u) return true;
        if (line[n]->op == UOP_END || line[n]->op == UOP_ENDIF) closed++;
        else if (closed && (line[n]->op == UOP_RANGE || line[n]->op == UOP_IF)) closed--;
    }
    return false;
}

static uint32_t push_gates(Kernel *k, const Gates *s, const UOp **line, uint32_t n)
{
    const UOp *open = s->gate[0];
    for (uint32_t j = 1; j < s->n; j++) {
        open = UOP(k->g, UOP_OR, DT_VOID, NO_ARG, open, s->gate[j]);
        if (!stands(line, n, open)) line[n++] = open;
    }
    line[n++] = UOP(k->g, UOP_IF, DT_VOID, NO_ARG, open);
    return n;
}

void kernel_skip_zeros(Kernel *k)
{
    const UOp *old = k->linear, *begin = NULL;
    Arena *a = arena_new();
    const UOp **line = NEW_N(a, const UOp *, (size_t)old->nsrc * (GATES + 2));
    uint32_t n = 0, end = 0;
    for (uint32_t i = 0; i < old->nsrc; i++) {
        Gates s;
        uint32_t to = begin ? 0 : skippable(k, i, &s);
        if (to) {
            n = push_gates(k, &s, line, n);
            begin = line[n - 1];
            end = to;
        }
        line[n++] = old->src[i];
        if (begin && i == end) {
            line[n++] = UOP(k->g, UOP_ENDIF, DT_VOID, NO_ARG, begin);
            begin = NULL;
        }
    }
    if (n > old->nsrc) k->linear = uop_new(k->g, UOP_LINEAR, DT_VOID, NO_ARG, line, n);
    arena_free(a);
}
