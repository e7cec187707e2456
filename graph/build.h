/* Builders: the vocabulary in which operators are written. Tensor level; broadcasting is numpy's and implicit in ALU
 * ops. A failing builder (shapes that do not fit) records graph_fail once and returns an ERROR node; builders pass
 * ERROR nodes through, so that no status check interrupts a formula. Sizes are `const UOp *` of DT_INDEX (CONST or
 * symbolic); the _i forms take integers.
 */
#ifndef TG_BUILD_H
#define TG_BUILD_H
#include "graph/uop.h"

typedef const UOp *U;

enum { RANK_MAX = 60 };              /* of a builder's operands and results */
static inline bool is_error(U x) { return x->op == UOP_ERROR; }
/* An axis counted from either end as 0 .. rank-1; out of range: graph_fail and -1. what: the builder's name. */
int64_t axis_of(Graph *g, const char *what, int64_t axis, uint32_t rank);

/* Sizes: DT_INDEX scalars, folded and simplified, so that equal sizes are one pointer. dim_div floors. */
U dim_add(Graph *g, U a, U b);
U dim_sub(Graph *g, U a, U b);
U dim_mul(Graph *g, U a, U b);
U dim_div(Graph *g, U a, U b);
U dim_max(Graph *g, U a, U b);
U dim_min(Graph *g, U a, U b);
U dim_product(Graph *g, const U *dim, uint32_t n);
U dim_simplify(Graph *g, U size);
/* known to be equal; where it is not, that is a doubt (uop.h) */
bool same_size(Graph *g, U a, U b);
/* Where a data-dependent size meets another, it is taken to fit, and the kernels that read what it belongs to check
 * that (guard.h). */
/* known to be equal, or may be by a run's data; not: that is a doubt */
bool may_agree(Graph *g, U a, U b);
/* x, whose size on the axis may_agree with this one, with it */
U sized(Graph *g, U x, int64_t axis, U size);
/* makes a's axis i and b's axis j one size; false: they cannot be */
bool one_size(Graph *g, U *a, int64_t i, U *b, int64_t j);
/* of two that broadcast; NULL: they do not, which may be a doubt */
U common_size(Graph *g, U a, U b);
/* x with the common size on the axis, unless it has 1 there */
U stretched(Graph *g, U x, int64_t axis, U size);
/* x, with which it is checked that a is this common size or 1 */
U beside_size(Graph *g, U x, U a, U size);
/* dim k as a number: a symbolic one is taken for its largest value, which is a doubt; one that depends on data is
 * unsupported */
int64_t fixed_size(Graph *g, U x, uint32_t k);
int64_t fixed_numel(Graph *g, U x);                              /* the same of all */

/* constants */
/* scalar of dtype t; `like` may be NULL; else expanded to its shape */
U full(Graph *g, DType t, double value, U like);
U scalar(Graph *g, DType t, double value);
/* BUFFER over data (not copied) */
U tensor_const(Graph *g, DType t, const int64_t *shape, uint32_t rank, const void *data, size_t size_bytes,
               const char *name);
U iota(Graph *g, U size, DType t);                               /* [0, 1, .. size-1] of dtype t */

/* movement; axes may be negative */
U reshape(Graph *g, U x, const U *dim, uint32_t rank);
U reshape_i(Graph *g, U x, const int64_t *dim, uint32_t rank);
U expand(Graph *g, U x, const U *dim, uint32_t rank);            /* right-aligned broadcast, adds leading axes */
U expand_like(Graph *g, U x, U like);
/* x in memory of its own: computed once, whoever reads it */
U contiguous(Graph *g, U x);
U permute(Graph *g, U x, const int64_t *order, uint32_t n);
U transpose(Graph *g, U x);                                      /* swaps the last two axes */
U unsqueeze(Graph *g, U x, int64_t axis);                        /* axis counts in the result */
U squeeze(Graph *g, U x, int64_t axis);
U flip(Graph *g, U x, const bool *axes);
U flip_axis(Graph *g, U x, int64_t axis);
/* fill: scalar of x's dtype, NULL: 0; negative sizes crop */
U pad(Graph *g, U x, const U *before, const U *after, U fill);
U pad_i(Graph *g, U x, const int64_t *before, const int64_t *after, U fill);
U shrink(Graph *g, U x, const U *begin, const U *size);
U slice(Graph *g, U x, int64_t axis, U begin, U size);           /* size elements from begin */
U slice_i(Graph *g, U x, int64_t axis, int64_t begin, int64_t end);
/* step may be negative; begin is the first element */
U slice_step(Graph *g, U x, int64_t axis, int64_t begin, int64_t size, int64_t step);
U cat(Graph *g, const U *x, uint32_t n, int64_t axis);
U stack(Graph *g, const U *x, uint32_t n, int64_t axis);
U windows(Graph *g, U x, uint32_t naxes, const int64_t *kernel, const int64_t *stride, const int64_t *dilation);
/* over the last naxes axes: [.., H, W] -> [.., oh, ow, kh, kw], views only */
U tile(Graph *g, U x, const U *repeats);                          /* sizes */
U flatten(Graph *g, U x, int64_t axis);                          /* to 2-d */

/* element-wise */
U cast(Graph *g, U x, DType t);
U bitcast(Graph *g, U x, DType t);
U add(Graph *g, U a, U b);
U sub(Graph *g, U a, U b);
U mul(Graph *g, U a, U b);
U div_(Graph *g, U a, U b);          /* floats: rounds once; integers: truncates, as ONNX's Div */
U idiv(Graph *g, U a, U b);          /* integers: floor */
U mod_floor(Graph *g, U a, U b);     /* sign of the divisor */
U mod_trunc(Graph *g, U a, U b);     /* sign of the dividend (C's % and fmod) */
U neg(Graph *g, U x);
U recip(Graph *g, U x);
U max_(Graph *g, U a, U b);
U min_(Graph *g, U a, U b);
U lt(Graph *g, U a, U b);
U gt(Graph *g, U a, U b);
U le(Graph *g, U a, U b);            /* false for NaN */
U ge(Graph *g, U a, U b);
U eq(Graph *g, U a, U b);
U ne(Graph *g, U a, U b);
U and_(Graph *g, U a, U b);
U or_(Graph *g, U a, U b);
U xor_(Graph *g, U a, U b);
U shl(Graph *g, U a, U b);           /* integers; 0 from the width on */
U shr(Graph *g, U a, U b);           /* arithmetic when signed */
U not_(Graph *g, U x);               /* bool: logical; integers: bitwise */
U where(Graph *g, U p, U a, U b);
U sqrt_(Graph *g, U x);
U exp2_(Graph *g, U x);
U log2_(Graph *g, U x);
U sin_(Graph *g, U x);
U exp_(Graph *g, U x);
U exp_below(Graph *g, U x);          /* for sums of terms of which the largest is 1: e^x, x at most 0 */
U log_(Graph *g, U x);
U cos_(Graph *g, U x);
U pow_(Graph *g, U a, U b);
U pow_whole(Graph *g, U a, U b);     /* of floats, one node */
U abs_(Graph *g, U x);
U sign(Graph *g, U x);
U with_sign_of(Graph *g, U size, U x);      /* floats; size has no sign, or is NaN */
U trunc_(Graph *g, U x);
U floor_(Graph *g, U x);
U ceil_(Graph *g, U x);
U round_even(Graph *g, U x);
U clamp(Graph *g, U x, U lo, U hi);  /* lo or hi may be NULL */
U relu(Graph *g, U x);
U sigmoid(Graph *g, U x);
U tanh_(Graph *g, U x);
U erf_(Graph *g, U x);
U is_nan(Graph *g, U x);
U is_inf(Graph *g, U x);
/* THREEFRY 2x32 of u32 counters and keys: 64 random bits in place of the counter */
U like(Graph *g, U x, double v);                                /* a constant of the type of x */
static inline U u32(Graph *g, uint32_t v) { return uop_int(g, DT_U32, v); }
U rotate_left(Graph *g, U x, uint32_t by);                     /* u32 */
void threefry(Graph *g, U x[2], const U key[2]);

/* reductions over axes (may be negative); keepdims false drops them */
U reduce(Graph *g, Op op, U x, const int64_t *axes, uint32_t n, bool keepdims);
U sum(Graph *g, U x, int64_t axis, bool keepdims);
U max_reduce(Graph *g, U x, int64_t axis, bool keepdims);
U min_reduce(Graph *g, U x, int64_t axis, bool keepdims);
U mean(Graph *g, U x, const int64_t *axes, uint32_t n, bool keepdims);
U softmax(Graph *g, U x, int64_t axis);
U log_softmax(Graph *g, U x, int64_t axis);
U argmax(Graph *g, U x, int64_t axis, bool keepdims, bool last);         /* i64 */
/* numpy's: batch axes broadcast, vectors allowed */
U matmul(Graph *g, U a, U b);
U conv(Graph *g, U x, U w, const int64_t *stride, const int64_t *dilation, const int64_t *pad_before,
       const int64_t *pad_after, int64_t groups);
/* x [N,C,d..], w [M,C/groups,k..] -> [N,M,o..]; pads: NULL for none */
/* gathering: INDEX with a shaped index, so it stays an index in the consumer. Indices out of range fail the run
 * (guard.h). */
U gather(Graph *g, U x, U idx, int64_t axis);                            /* ONNX Gather; negative indices wrap */
/* gather without wrap and guard: the caller knows that it is in range */
U take(Graph *g, U x, U idx, int64_t axis);
/* a place to take x at: `at` where there holds, else one that there is: where x may have no row, that of zeros, which x
 * gets */
U place_where(Graph *g, U there, U at, U *x, uint32_t axis);
/* idx counted from the end where negative, guarded: 0 .. size-1 as DT_INDEX */
U position_in(Graph *g, U idx, U size);
U place_in(Graph *g, U idx, U size);                             /* the same in i64, without counting from the end */
U gather_elements(Graph *g, U x, U idx, int64_t axis);
U gather_nd(Graph *g, U x, U idx, int64_t batch_dims);
U one_hot(Graph *g, U idx, U depth, int64_t axis, U off_on);             /* off_on [2] */
/* op ADD or MUL: of x up to each place, from the far end if reverse, without its own if exclusive */
U running(Graph *g, Op op, U x, int64_t axis, bool exclusive, bool reverse);
U tri_mask(Graph *g, U rows, U cols, int64_t diagonal, bool upper);      /* bool [rows, cols] */

/* Known small values: fills out[numel] with scalar UOps (row-major) when x depends on constants and sizes only; NULL
 * data of unknown size: false. This is how shape arithmetic folds at import, symbolic sizes included (fold.c). limit:
 * largest numel. */
bool values_of(Graph *g, U x, const UOp **out, uint32_t limit);
/* The same as integers; false when one is not CONST. */
bool ints_of(Graph *g, U x, int64_t *out, uint32_t limit, uint32_t *count);
/* STACKs of scalars, reshaped */
U from_values(Graph *g, DType t, const UOp *const *v, const int64_t *shape, uint32_t rank);
/* A concrete constant: BUFFER data or CONST or folded; pointer into the graph's arena or the buffer. NULL when unknown.
 */
const void *data_of(Graph *g, U x, uint32_t limit, size_t *size_bytes);
#endif
