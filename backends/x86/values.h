/* What lower.c and its operations share: registers, constants, and values as an instruction takes them.
 *
 * A value is held in one register (a scalar, or a vector of a power of two lanes and at most the machine's bytes) or in
 * one register a lane. Constants are no registers: they are numbers in the instruction or elements of the pool. A float
 * that is loaded stands in all lanes of its register (splat), so that it serves a vector's operation as it is.
 */
#ifndef TG_X86_VALUES_H
#define TG_X86_VALUES_H
#include "backends/cstyle.h"
#include "backends/x86/mir.h"
#include "sched/kernel.h"

/* of a vector; operands of dot products whose halves are kept */
enum { MOST_BYTES = 64, MOST_LANES = 64, DOT_HALVES = 8 };
typedef enum { HELD_NOT, HELD_ONE, HELD_LANES } Held;
typedef struct {
    uint8_t held, splat; /* splat: bytes of the register in which each element is the same */
    uint32_t lanes, stored_in; /* stored_in: 1 + the block in which its lanes were stored in the frame */
    int64_t stored_at;
    Reg r, *lane;
} Val;
typedef struct { Reg even, odd; } Halves;
typedef struct {
    Reg i;
    uint32_t top, end, loop;
} OpenLoop; /* end: label; loop: row of Mcode */

typedef struct {
    Mcode *m;
    const Kernel *k;
    const UOp *const *line;
    uint32_t count, at;
    Val *val; /* by id */
    bool *needed, *array; /* by id; array: a REG that is indexed */
    /* by id: the last position where it stands (LOAD(REG) may stand several times), and how many there are */
    uint32_t *place, *times;
    bool *computed_with;            /* by id: it stands elsewhere than in an address */
    bool *valued;                   /* by id: it stands elsewhere than in conditions of jumps in its block */
    /* by position: the block, the last use of what is computed there and how many there are, up to where it stands
     * again; whether one is in another block */
    uint32_t *block, *last, *uses;
    bool *outside;
    const UOp **target; /* by id: the REG variable that it is computed in */
    bool *alias; /* by position of LOAD(REG): the variable's register serves */
    Reg args, vars, begin, end, scratch;
    Reg *param, *var;
    int64_t *offset; /* by id of a BUFFER: bytes in scratch or frame */
    int64_t local;
    OpenLoop open[64];
    uint32_t nopen, ifs[64], nifs;
    struct Tiles *tiles; /* NULL: the kernel has none */
    struct { const UOp *of; Reg r; uint32_t block; } spread;        /* the last operand of a dot product in all lanes */
    /* bytes at even and odd places of operands of dot products, as halves of words; `made` of them so far */
    struct { const UOp *of; Halves part; uint32_t block; } halves[DOT_HALVES];
    uint32_t made;
    TgStatus status;
} Lower;

Reg x_general(Lower *l);
Reg x_vector(Lower *l, int width_bytes);
Reg x_reg(Lower *l, const UOp *u); /* a new one for a value of u's type */
Reg x_lane_reg(Lower *l, DType t); /* for a lane of it */
Ins *x_put(Lower *l, int op); /* valid until the next */
Reg x_give(Lower *l, int op, Reg dst, Reg a, Reg b, int64_t imm); /* dst */
void x_unsupported(Lower *l, const UOp *u);
int64_t x_frame(Lower *l, int bytes, int align);
int64_t x_pool(Lower *l, const void *data, uint32_t bytes); /* bytes: a power of 2, to which it is aligned */

static inline Place in_frame(int64_t at) { return (Place){ .kind = AT_FRAME, .disp = at }; }
static inline Place in_pool(int64_t at) { return (Place){ .kind = AT_POOL, .disp = at }; }
static inline bool fits_32(const UOp *u) { return u->vmin >= INT32_MIN && u->vmax <= INT32_MAX; }
static inline bool full_float(DType t) { return t == DT_F32 || t == DT_F64; }
static inline bool is_signed(DType t) { return dtype_info[t].kind == KIND_SINT; }
/* bytes of an element in a vector, and in memory */
static inline int element_bytes(DType t) { return t == DT_BOOL || t == DT_INDEX ? 4 : (int)dtype_size(t); }
static inline int memory_bytes(DType t) { return t == DT_INDEX ? 8 : (int)dtype_size(t); }
static inline uint32_t most_bytes(const Lower *l) { return (uint32_t)mcode_vector_bytes(l->m); }
static inline int round_width(uint32_t bytes) { return bytes <= 16 ? 16 : bytes <= 32 ? 32 : 64; }

bool x_is_vector(const Lower *l, const UOp *u); /* is it held in one vector register? */
int x_width_of(const UOp *u);
int64_t x_const_bits(const UOp *u); /* as a general register has it; floats: their bits */
Place x_const_place(Lower *l, const UOp *u); /* its element in the pool; of bool all bits */
Reg x_scalar(Lower *l, const UOp *u);
Reg x_spread(Lower *l, const UOp *u, int width);              /* a scalar in all lanes of a vector */
Val *x_value(Lower *l, const UOp *u);
Reg x_lane(Lower *l, const UOp *u, uint32_t k);
const Reg *x_lanes(Lower *l, const UOp *u, uint32_t n); /* each in a register, valid in this block */
/* a vector, of a scalar in all its lanes; and from registers that hold its lanes, in dst, which is given back */
Reg x_whole(Lower *l, const UOp *u, int width);
Reg x_assemble(Lower *l, DType t, const Reg *lane, uint32_t n, Reg dst);

/* An operand: a register that holds it, or 0: u. */
typedef struct {
    const UOp *u;
    Reg r;
} Opnd;
Reg x_operand(Lower *l, Opnd o); /* of a scalar operation */

/* access.c: loads, stores, and what of an address others look at */
void x_load(Lower *l, const UOp *u);
void x_store(Lower *l, const UOp *u);
bool x_is_variable(const Lower *l, const UOp *m); /* a REG that is one register */
const UOp *x_position(const UOp *a); /* of INDEX or SHRINK */
const UOp *x_without_constants(const UOp *at, int64_t *sum); /* that are added to it; NULL: there is nothing else */
Place x_place(Lower *l, const UOp *a);
/* the value u lies in these registers, one a lane; of a vector: in one register */
void x_hold_lanes(Lower *l, const UOp *u, Reg *lane, uint32_t n);
void x_hold_value(Lower *l, const UOp *u, Reg *lane, uint32_t n);

/* Element-wise operations. The result is in dst, which may be a variable that an operand reads. */
void x_scalar_op(Lower *l, const UOp *u, const Opnd *o, Reg dst); /* scalar.c */
/* vector.c. lanes: of operands that are vectors; 1: floats. False, and nothing is written: the machine has no such
 * operation. */
bool x_vector_op(Lower *l, const UOp *u, const Opnd *o, uint32_t lanes, Reg dst);
void x_across(Lower *l, const UOp *u); /* REDUCE over lanes */
bool x_changes_in_place(const UOp *u); /* x_vector_op is one instruction */
/* Is it a condition that jumps alone evaluate? */
bool x_only_jumps(const Lower *l, const UOp *u);
void x_jump_unless(Lower *l, const UOp *condition, uint32_t label);
void x_jump_if(Lower *l, Reg a, Reg b, int64_t imm, Cond cond, uint32_t label); /* b 0: imm */
void x_hold(Lower *l, const UOp *u, Reg r);
#endif
