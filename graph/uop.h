/* UOps: the one node type of every stage, from tensors to instructions.
 *
 * A UOp is (op, dtype, arg, src), interned: equal nodes of a Graph are one pointer. Ids are dense and ascend from
 * sources to users, so an array indexed by id is a pass's memo and descending ids are a topological order. Nodes are
 * never changed or freed one by one. Two levels share it. Tensor level: values have shapes, movement ops and REDUCE
 * over axes. Kernel level: everything is a scalar (shape ()) under RANGEs, memory is read by LOAD(INDEX(PARAM, i...));
 * after `expand` a value may have shape (L): a vector of L lanes. To add an op: a row in uops.def, and a test.
 */
#ifndef TG_UOP_H
#define TG_UOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef enum {
#define OP(name, ...) UOP_##name,
#include "graph/uops.def"
#undef OP
    UOP_COUNT
} Op;

typedef enum {
#define TYPE(name, ...) DT_##name,
#include "graph/dtype.def"
#undef TYPE
    DT_COUNT
} DType;

typedef enum { KIND_VOID, KIND_BOOL, KIND_UINT, KIND_SINT, KIND_FLOAT } Kind;
typedef struct {
    const char *name, *c_name;
    uint8_t bits, kind;
    int32_t onnx;
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

static inline bool dtype_is_float(DType t) { return dtype_info[t].kind == KIND_FLOAT; }
static inline bool dtype_is_half(DType t) { return t == DT_F16 || t == DT_BF16; }
static inline bool dtype_is_int(DType t) { return dtype_info[t].kind == KIND_SINT || dtype_info[t].kind == KIND_UINT; }
static inline int64_t dtype_size(DType t) { return dtype_info[t].bits / 8; }
DType dtype_from_onnx(int32_t type);            /* DT_VOID when not covered */
int64_t dtype_min(DType t);                     /* integers and bool; INT64_MIN for floats */
int64_t dtype_max(DType t);                     /* u64 is cut to INT64_MAX */

enum { FLAG_ALU = 1, FLAG_COMM = 2, FLAG_MOVE = 4, FLAG_EFFECT = 8, FLAG_SUGAR = 16 };
typedef struct {
    const char *name, *meaning;
    uint8_t min_src, var_src, flags, dtype_rule, shape_rule, minmax_rule;
} OpInfo;
extern const OpInfo op_info[UOP_COUNT];
static inline bool op_is(Op op, int flag) { return (op_info[op].flags & flag) != 0; }

/* Where memory lives. */
typedef enum { SPACE_GLOBAL, SPACE_LOCAL, SPACE_REG } AddrSpace;

/* Axis types of a RANGE, with the spec's letters. */
typedef enum {
    AXIS_GLOBAL,
    AXIS_LOCAL,
    AXIS_WARP,
    AXIS_THREAD,
    AXIS_LOOP,
    AXIS_REDUCE,
    AXIS_GROUP_REDUCE,
    AXIS_UPCAST,
    AXIS_UNROLL,
    AXIS_COUNT
} AxisType;
extern const char axis_letter[AXIS_COUNT];      /* "glwtLRGur" */

/* Interned bytes: equal contents, equal pointer. Lists of integers, names, configurations without pointers. */
typedef struct { uint32_t size; uint32_t hash; uint8_t data[] __attribute__((aligned(8))); } Blob;

/* What an op needs besides sources. i: CONST value (the double's bits for floats, sign-extended else), slots, numbers;
 * blob: lists and names. */
typedef struct { int64_t i; const Blob *blob; } Arg;

typedef struct UOp UOp;
typedef struct { uint32_t rank; const UOp *dim[]; } Shape;    /* dims are DT_INDEX scalars, mostly CONST; interned */

struct UOp {
    uint32_t id, hash, nsrc;
    uint8_t op, dtype;
    uint16_t tag;               /* for a pass's own use; part of identity; 0 else */
    Arg arg;
    const Shape *shape;
    /* bounds of an integer or bool value; the dtype's range when unknown; floats: INT64_MIN, INT64_MAX */
    int64_t vmin, vmax;
    /* RANGEs (bit = number) that the value depends on and that no REDUCE or END has closed */
    uint64_t ranges;
    const UOp *src[];
};

typedef struct Graph Graph;

/* What stands behind a tensor-level BUFFER(slot): constants have data, others are made by the plan. */
/* zeroed: what no kernel writes of it (a halo) must read as zero. halo: where these zeros are (sched/halo.h), or NULL.
 */
/* guard: it is the word of a GUARD (guard.h), outside of the memory plan's lifetimes. */
typedef struct {
    DType dtype;
    const Shape *shape;
    const void *data;
    size_t size_bytes;
    const char *name;
    bool zeroed;
    uint32_t value;     /* its name in lists of choices (sched/choices.h); 0: none */
    const struct Halo *halo;
    const struct Guard *guard;
} BufferInfo;

Graph *graph_new(void);
void graph_free(Graph *g);
Arena *graph_arena(Graph *g);
/* Which node of the model a UOp computes for, counted from 1; 0: none is known. What is built belongs to the node that
 * was named last; while none is (0), to the one that its sources or what it takes the place of belong to. A graph in
 * which none was ever named keeps nothing of it. graph_origin: what was named before. */
uint32_t graph_origin(Graph *g, uint32_t node);
uint32_t uop_origin(const Graph *g, const UOp *u);
/* Of a CALL of a part that repeats: which node stands for each of the first repetition's (blocks.c), in pairs. */
typedef struct { uint32_t of, is; } Renamed;
typedef struct { uint32_t count; Renamed node[]; } Renames;
void graph_rename(Graph *g, const UOp *call, const Renamed *node, uint32_t count);
uint32_t graph_renamed(Graph *g, const UOp *call, uint32_t node);       /* node itself where nothing is known */
struct Guard *graph_place(Graph *g);                        /* guard.c: what is built now belongs to */
struct Map *graph_calls(Graph *g);                          /* guard.c: places of CALLs by id */
struct Map *graph_data_sizes(Graph *g); /* custom.c: DEFINE_VARs of data-dependent sizes, by id */
void **graph_folds(Graph *g);                                /* fold.c's memo, in the graph's arena */
uint32_t graph_count(const Graph *g);                        /* ids are below this */
const UOp *graph_node(const Graph *g, uint32_t id);
/* The first failure of a builder; TG_OK when none. The message is the thread's last error. */
TgStatus graph_error(const Graph *g);
void graph_error_clear(Graph *g);
void graph_error_is(Graph *g, TgStatus code);                       /* of a failure that is there, another status */
/* What builders took for granted of symbolic sizes without a proof, the last first: that two are equal (doubts), that
 * one is not negative (needs). */
typedef struct Doubt { const struct Doubt *next; const UOp *size[2]; } Doubt;
const Doubt *graph_doubts(const Graph *g);
const Doubt *graph_needs(const Graph *g);
void graph_doubt(Graph *g, const UOp *a, const UOp *b);
void graph_need(Graph *g, const UOp *size);
/* ERROR, status TG_BAD_MODEL */
const UOp *graph_fail(Graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const UOp *graph_fail_code(Graph *g, TgStatus code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Construction. dtype counts only where uops.def says ARG (else pass DT_VOID). A wrong arity or shape is our own
 * mistake (assert). */
const UOp *uop_new(Graph *g, Op op, DType dtype, Arg arg, const UOp *const *src, uint32_t nsrc);
const UOp *uop_tagged(Graph *g, const UOp *u, uint16_t tag);
/* of an EXP2 (decompose.c): its operand is an integer, an infinity or NaN; its result is not denormal and no 0; its
 * result is 0 where the operand is below -126 (vectors of f32) */
enum { WHOLE_TAG = 2, NORMAL_TAG = 4, FLUSH_TAG = 8 };
/* of a MAX of floats and of a REDUCE by it: where an operand is NaN, any of them may be the result, since what reads it
 * is NaN by another way */
enum { LOOSE_TAG = 16 };
/* same op, dtype, arg and count; other sources */
const UOp *uop_with(Graph *g, const UOp *u, const UOp *const *src);
/* and another count */
const UOp *uop_with_n(Graph *g, const UOp *u, const UOp *const *src, uint32_t n);
const Blob *graph_blob(Graph *g, const void *data, size_t size);
const Blob *graph_ints(Graph *g, const int64_t *v, uint32_t n);
const Shape *graph_shape(Graph *g, const UOp *const *dim, uint32_t rank);

#define UOP0(g, op, dt, arg) uop_new((g), (op), (dt), (arg), NULL, 0)
#define UOP(g, op, dt, arg, ...) \
    uop_new((g), (op), (dt), (arg), (const UOp *const[]){ __VA_ARGS__ }, \
            sizeof((const UOp *const[]){ __VA_ARGS__ }) / sizeof(UOp *))
#define NO_ARG ((Arg){ 0, NULL })
#define ARG_I(n) ((Arg){ (n), NULL })

/* Constants. A float value is rounded to its dtype; an integer is wrapped. */
const UOp *uop_int(Graph *g, DType t, int64_t v);
const UOp *uop_float(Graph *g, DType t, double v);
const UOp *uop_const_like(Graph *g, DType t, double v);      /* either, from a small number */
const UOp *uop_index(Graph *g, int64_t v);                   /* DT_INDEX */
const UOp *uop_bool(Graph *g, bool v);
/* The BUFFER or PARAM behind AFTERs; another value is itself. */
static inline const UOp *uop_memory(const UOp *u)
{
    while (u->op == UOP_AFTER) u = u->src[0];
    return u;
}

/* What an address (INDEX, SHRINK) is in, PARAM or BUFFER; of other nodes themselves. */
static inline const UOp *uop_addressed(const UOp *u)
{
    while (u->op == UOP_INDEX || u->op == UOP_SHRINK || u->op == UOP_AFTER) u = u->src[0];
    return u;
}

static inline bool uop_is_memory(const UOp *u) { return u->op == UOP_PARAM || u->op == UOP_BUFFER; }
static inline bool uop_is_address(const UOp *u)
{
    return (u->op == UOP_INDEX || u->op == UOP_SHRINK) && uop_is_memory(uop_addressed(u));
}

static inline bool uop_is_const(const UOp *u) { return u->op == UOP_CONST; }
bool uop_constants(const UOp *u);                             /* are all its sources CONST? */
/* What a reduce by op (ADD, MUL, MAX) starts with. */
const UOp *uop_neutral(Graph *g, Op op, DType t);
double uop_const_float(const UOp *u);                        /* CONST of a float dtype */
static inline int64_t uop_const_int(const UOp *u) { return u->arg.i; }
bool uop_is_int_const(const UOp *u, int64_t v);              /* CONST of an integer or bool dtype with that value */
/* Evaluates an element-wise op on constants, exactly as the spec and core.md say (wrap, floor division, NaN-keeping
 * MAX, rounding to the dtype). Values are Arg.i encodings. false: undefined (division by zero) or not element-wise. */
bool uop_eval(Op op, DType dtype, DType src_dtype, const int64_t *v, int64_t *out);
/* The value of an expression of constants, element-wise ops and leaves, whose values `leaf` finds. false: a leaf has
 * none, or an operation's result is undefined. */
typedef bool LeafValue(const void *from, const UOp *leaf, int64_t *out);
bool uop_value(const UOp *u, LeafValue *leaf, const void *from, int64_t *out);
/* v modulo the range of an integer type; bool: is it not 0 */
int64_t dtype_wrap(DType t, int64_t v);
double dtype_round(DType t, double v);                       /* nearest value of a float dtype, ties to even */

/* Ranges. number < 64, unique in a kernel. */
const UOp *uop_range(Graph *g, int number, const UOp *bound, AxisType type);
static inline int range_number(const UOp *r) { return (int)(r->arg.i & 0xff); }
static inline AxisType range_type(const UOp *r) { return (AxisType)(r->arg.i >> 8); }
static inline uint64_t range_bit(const UOp *r) { return UINT64_C(1) << range_number(r); }
/* How far the integer u moves when the range moves by one; NO_STEP: it is not linear in it. */
#define NO_STEP INT64_MIN
int64_t range_step(const UOp *u, const UOp *range);
/* ranges that values loaded in u depend on: where a position is looked up, those that say which */
uint64_t range_data(Graph *g, const UOp *u);
int64_t range_reach(const UOp *u, const UOp *range);         /* the same with symbolic sizes at their largest */
/* a STACK of lanes of one vector or two of the same length, more than one; of one: of[1] is NULL */
bool uop_is_shuffle(const UOp *u, const UOp *of[2]);

/* REDUCE: arg.i is the Op (ADD, MAX, MUL); arg.blob the axes at tensor level, NULL at kernel level. */
const UOp *uop_reduce_ranges(Graph *g, Op op, const UOp *value, const UOp *const *range, uint32_t n);
/* with the operation of `like` and its tag */
const UOp *uop_reduce_like(Graph *g, const UOp *like, const UOp *value, const UOp *const *range, uint32_t n);

/* BUFFER: arg.i = slot | space << 32. Tensor-level ones have a row in the graph. */
const UOp *uop_buffer(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot, AddrSpace space);
static inline int64_t buffer_slot(const UOp *b) { return b->arg.i & 0xffffffff; }
static inline AddrSpace buffer_space(const UOp *b) { return (AddrSpace)(b->arg.i >> 32); }
static inline bool uop_is_global(const UOp *u)
{
    return u->op == UOP_PARAM || (u->op == UOP_BUFFER && buffer_space(u) == SPACE_GLOBAL);
}
/* a new tensor-level BUFFER; info is copied, data are not */
const UOp *graph_add_buffer(Graph *g, const BufferInfo *info);
BufferInfo *graph_buffer(Graph *g, int64_t slot);
uint32_t graph_buffer_count(const Graph *g);
/* those from the nth on, of a trial: nobody uses them */
void graph_drop_buffers(Graph *g, uint32_t n);
const UOp *uop_param(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot);
const UOp *uop_var(Graph *g, const char *name, int64_t least, int64_t largest);     /* DEFINE_VAR */
const char *var_name(const UOp *var);

/* Shapes. */
static inline uint32_t uop_rank(const UOp *u) { return u->shape->rank; }
static inline const UOp *uop_dim(const UOp *u, uint32_t k) { return u->shape->dim[k]; }
bool shape_static(const Shape *s);                            /* every dim is CONST */
bool uop_static(const UOp *u);
int64_t uop_size(const UOp *u, uint32_t k);                   /* dim k, or its largest value when symbolic */
int64_t uop_numel(const UOp *u);                              /* product of sizes (largest values), saturating */
const UOp *uop_sizes(Graph *g, const UOp *const *dim, uint32_t rank);         /* STACK of sizes, as RESHAPE takes it */
static inline const int64_t *blob_ints(const Blob *b) { return (const int64_t *)(const void *)b->data; }
static inline uint32_t blob_count(const Blob *b) { return b->size / 8; }
/* Is it one of the axes of this REDUCE, of tensor level? */
static inline bool reduce_is_over(const UOp *reduce, uint32_t axis)
{
    bool found = false;
    for (uint32_t k = 0; k < blob_count(reduce->arg.blob) && !found; k++)
        found = blob_ints(reduce->arg.blob)[k] == axis;
    return found;
}

/* Walks. Both return arena arrays of the nodes that root reaches, sources first; explicit stack. */
const UOp **uop_toposort(Graph *g, const UOp *const *root, uint32_t nroot, Arena *arena, uint32_t *count);
/* One root's, in the order of a walk of sources: the same for equal dags, whatever their ids. */
const UOp **uop_postorder(Graph *g, const UOp *root, Arena *arena, uint32_t *count);
/* Copies a dag into another graph. memo: arena array made by the caller with graph_count(from) zeros, or NULL for one
 * call. */
const UOp *uop_copy(Graph *to, const UOp *u, const UOp **memo);
/* Replaces nodes: map[id] (NULL: keep) for every node of the dag; sources first. */
const UOp *uop_substitute(Graph *g, const UOp *root, const UOp *const *from, const UOp *const *to, uint32_t n);

/* Names, and the text form: one line a node, `%3 = ADD.f32 %1 %2`, that graph_parse reads back (print.c). */
static inline const char *op_name(Op op) { return op_info[op].name; }
static inline const char *dtype_name(DType t) { return dtype_info[t].name; }
#endif
