/* Kernels: what rangeify cuts a graph into, and the forms they take until a backend renders them.
 *
 * 1. After rangeify (N-dimensional). root = SINK(END(STORE(INDEX(PARAM slot, i..), value [, gate]), range..)..).
 * Everything is scalar. value reads memory by LOAD(INDEX(PARAM slot, i..) [, alt, gate]) and contains REDUCE(value,
 * range..; op). RANGEs are numbered from 0, types LOOP (of an END) and REDUCE. GUARD(value, bound, INDEX(PARAM word,
 * 0)) is the value, checked (graph/guard.h). A value that several loops read is staged: INDEX(AFTER(BUFFER space,
 * END(STORE(INDEX(BUFFER, j..), v), j..)), i..) under LOAD, space LOCAL. Nodes are placed by what they depend on: a
 * REDUCE that depends on an outer range only is computed once per iteration of it. So the dependence sets of the
 * inlined REDUCEs and staged ENDs must form a chain with the END's own ranges in order (rangeify keeps to it, the
 * verifier checks it).
 * 2. After layout: INDEX has one flat index. Buffers are flat.
 * 3. After optimize: RANGEs are split and typed by OptOps.
 *    TC makes WMMA(a, b, 0) of MUL(CAST a, CAST b): still that product, a scalar; its arg names the row of
 * graph/wmma.def and the ranges that make the tile (graph/wmma.h).
 * 4. After expand: UPCAST and UNROLL ranges are gone: replicas, or a lane axis of L as shape (L). A lane-contiguous
 * access is SHRINK(PARAM, STACK(i), STACK(L)) under LOAD or STORE; other vector accesses are INDEX(PARAM, i) with i of
 * shape (L). An operand of shape () beside one of shape (L) means all lanes. WMMA(A, B, accumulator) is the whole
 * operation: fragments of shape (elements a lane), STACKs of scalars; INDEX of it, or of the REDUCE over the loops of k
 * around it, is one element of C. It reads the same of all lanes of its WARP range. With one lane A and B are LOADs of
 * windows SHRINK(memory, begin, span): rows of 64 bytes, at a stride, which wmma_stride finds in the span; C goes to
 * LOCAL memory and is read there. A horizontal reduction is REDUCE with axes {0} and a shape of (1). A term of a sum
 * that is a sum of floats itself has the tag TERM_TAG: linearize tells it from the sum of the terms.
 * 5. After select: only what the device says; DIV, MIN, MULACC, MAX for it.
 * 6. After linearize: LINEAR of instructions in order:
 *      PARAM, DEFINE_VAR, BUFFER (LOCAL array, or REG variable of shape () or (L)), CONST, SPECIAL      definitions
 *      RANGE .. END(RANGE)                   a loop; THREAD ranges run over the part of the caller (begin .. end)
 *      INDEX, SHRINK                         addresses, used only by LOAD and STORE: no instruction of their own
 *      LOAD(address [, alt, gate]), LOAD(REG)   values; STORE(address, value [, gate]), STORE(REG, value)
 *      INDEX(v, CONST l) of a vector v       lane l;   STACK(s..) of scalars: a vector
 *      REDUCE(v) with axes {0}               across the lanes of v
 *      ALU, CAST, BITCAST, WHERE, BARRIER, IF, ENDIF
 *      WMMA(A, B, accumulator)               accumulator: a value of a REG variable (LOAD or the WMMA before), or zeros
 *    Every node stands after its sources and inside the loops that it depends on. A value is computed where it stands:
 * LOAD(REG) reads the variable there.
 */
#ifndef TG_KERNEL_H
#define TG_KERNEL_H
#include "graph/uop.h"

/* a join of a hundred results of unknown size has as many variables */
enum { KERNEL_PARAMS = 64, KERNEL_VARS = 256 };
enum { TERM_TAG = 1 };

/* One OptOp: a row of a list that prints as "SPLIT 2 16 UPCAST", parses and replays. Axis numbers count the kernel's
 * ranges as `opt_axes` lists them. */
typedef enum {
    OPT_SPLIT,
    OPT_PADTO,
    OPT_SWAP,
    OPT_NOLOCALS,
    OPT_TC,
    OPT_PACK,
    OPT_STAGE,
    OPT_NEST,
    OPT_MERGE,
    OPT_LANES,
    OPT_STREAM,
    OPT_KEEP,
    OPT_CARRY,
    OPT_COUNT
} OptKind;
/* SWAP: factor is the other axis; SPLIT, PACK: top is TOP, NARROW; TC: factor as tc.c says; PACK, STAGE, STREAM: axis
 * is the param; STAGE: factor is the axis of its iterations, target its depth; NEST: axis and the reduce axes inside of
 * it sum separately; MERGE: axis and the next; LANES: vectors lie along the axis; KEEP: keep.c; CARRY: factor is the
 * first loop inside, carry.c */
typedef struct {
    uint8_t kind;
    int8_t axis;
    uint8_t target;
    bool top;
    int32_t factor;
} OptOp;
enum { OPT_MAX = 24 };
typedef struct { OptOp op[OPT_MAX]; uint32_t count; } OptList;

/* A parameter of a kernel: which tensor-level BUFFER of the model's graph stands behind PARAM(slot). constant: known at
 * load, so that it can be packed; part of the key, as is far: what is written is read, if at all, when no cache holds
 * it. guard: the word of a GUARD, no data. */
typedef struct {
    const UOp *buffer;
    bool written, read, constant, guard, far;
} KernelParam;

static inline int64_t size_in_bytes(const UOp *memory)
{
    return uop_numel(memory) * dtype_size((DType)memory->dtype);
}

/* A packed constant (OptOp PACK): the expression that is stored, its index among the loops, elements of the copy. */
typedef struct { const UOp *value, *at; int64_t numel; } KernelPack;

/* What part p of a kernel (a value of its THREAD range) touches of a parameter, in bytes: from p / every * stride +
 * first on, at most span. */
typedef struct {
    int64_t stride;                 /* -1: parts do not lie at equal distances */
    int64_t every;                  /* parts, one behind the other, that touch the same; 1 where all do (stride 0) */
    int64_t first, span;            /* span 0: not known */
    int64_t touched;                /* of the span */
    uint64_t ranges;                /* on which the index depends */
} Slice;

typedef struct Kernel {
    Graph *g;                       /* holds root; scratch of its own: many kernels are worked on at once */
    struct Kernel *owner;           /* whose graph it is; NULL: its own */
    const UOp *root;                /* form 1 .. 5 */
    const UOp *linear;              /* form 6, or NULL */
    /* of a kernel that has forgotten its code: what kernel_param_bytes, kernel_vectors and kernel_overlaps said before
     */
    const int64_t *param_bytes;
    bool vectors, overlaps;
    uint32_t nparam;
    KernelParam param[KERNEL_PARAMS];
    uint32_t nvar;
    const UOp **var;                /* DEFINE_VARs, in the order of the arguments; at most KERNEL_VARS */
    OptList opts;                   /* applied, in order */
    OptList chain;                  /* what a chain wants of it, first of all (chain.h): so many parts */
    int64_t chain_parts;
    Slice slice[KERNEL_PARAMS];     /* of the parts that opts make */
    uint64_t in_place;              /* params where the one that is stored may lie (in_place.c), once lowered */
    uint64_t lanes;                 /* ranges along which vectors lie because a list says so (LANES) */
    uint64_t rings;                 /* ranges whose iterations fill staged tiles in turn (STAGE of depth 2) */
    const KernelPack *pack[KERNEL_PARAMS];      /* NULL: not packed */
    const struct Region **reads, **stores;      /* by param, what a launch touches (regions.h); NULL: not known */
    char name[64];                  /* e.g. "r_56_64_9_3f2a91c0": reduce or element-wise (r, e), sizes, key */
    /* XXH3-128 of the canonical form 2, hex: equal kernels in different places have one key */
    char key[33];
    int64_t flops, bytes;           /* a launch */
    double needed, executed;        /* work.c, float operations: of its part of the graph; of a launch, as lowered */
    const UOp *thread_bound;        /* trip count of the THREAD range, or NULL */
    const UOp *grid[3], *block[3];  /* GPU launch sizes (DT_INDEX), or NULL */
    int64_t local_bytes, shared_bytes;     /* scratch a thread (CPU LOCAL), shared memory a workgroup (GPU) */
} Kernel;

/* Bytes: after which addresses share a set of the first cache; of a cache's line. */
enum { PAGE = 4096, LINE = 64 };

/* What a core or an SM, its caches and its memory do: measured (backends/cpu/rates.c), or typical of such a device. */
typedef struct {
    double hz;                      /* cycles a second */
    double fma, load, store;        /* of whole vectors, a cycle */
    double l2_rate, l3_rate;        /* bytes a cycle, from the second and third cache to one core */
    double memory_rate;             /* bytes a second from memory, to all cores together */
    double phase_s;                 /* seconds: until all threads have begun and ended a phase; of a launch */
    int64_t measured;               /* 0: typical ones */
} Rates;
extern const Rates typical_cpu, typical_gpu;

/* What the stages need to know of a device; a backend fills it (backends/backend.h). */
typedef struct Target {
    const char *kind;               /* "cpu", "cuda", "reference" */
    int32_t vector_bytes;           /* widest vector register, 64 for AVX-512; 16 for CUDA (float4) */
    int32_t vector_registers;       /* 32, 16 */
    int32_t threads;                /* cores, or SMs */
    int64_t l1_bytes, l2_bytes;     /* a core's caches; shared memory a workgroup on CUDA */
    int64_t l3_bytes;               /* of the cache that cores share; 0: none */
    bool has_streams;               /* stores that pass the caches by */
    bool has_locals, has_threads, has_fma, has_f16, has_bf16;
    bool has_exp2;                  /* 2^x of f32 in few instructions */
    bool clears_halos;              /* a step can zero the halo of what its kernel stores */
    uint32_t wmma;                  /* rows of graph/wmma.def that it has: bit = WmmaRow */
    /* of bf16 that a number of f32 becomes in products under a sum (parts.c); 0: it stays */
    int32_t parts;
    bool plain;                     /* sums over windows stay as they are (winograd.c) */
    int32_t max_block, warp;
    int32_t devices;                /* of this kind, among which a graph is divided; 0 is one. threads: each has */
    int32_t rank;                   /* 0: they are this process's; else processes, of which this is number rank - 1 */
    Rates rates;                    /* hz 0: not known, read by target_rates */
} Target;
static inline const Rates *target_rates(const Target *t)
{
    return t->rates.hz > 0 ? &t->rates : t->max_block ? &typical_gpu : &typical_cpu;
}
/* Threads for work on kernels: of a CPU those that runs have, else of all cores. */
uint32_t target_workers(const Target *t);
/* Bytes of values that a core's part of a kernel may go over again and again: most of its second cache. */
static inline int64_t cache_room(const Target *t) { return t->l2_bytes * 7 / 10; }
/* The product, maybe widened, that a REDUCE is of; NULL: u is none, or of something else. */
static inline const UOp *reduced_product(const UOp *u)
{
    const UOp *p = u->op == UOP_REDUCE ? u->src[0] : NULL;
    while (p && p->op == UOP_CAST) p = p->src[0];
    return p && p->op == UOP_MUL ? p : NULL;
}
/* Every element is computed from memory that the kernel does not write: computing one twice does no harm. */
bool kernel_is_pure(const Kernel *k);
static inline int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a < 0 ? -a : a; }
/* The next number that no RANGE, and the next slot that no BUFFER of a kernel has. */
int range_free(const UOp *const *order, uint32_t n);
int64_t local_free(const UOp *const *order, uint32_t n);
/* Of an expression over the kernel's own variables, as its arguments have them; 0: it has none. */
int64_t kernel_value(const Kernel *k, const UOp *u, const int64_t *vars);
#endif
