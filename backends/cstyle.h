/* Rendering shared by C-like languages: walks a LINEAR (kernel.h, form 6) and prints one line an instruction. What
 * differs between languages is in a CStyle.
 *
 * Names: PARAM slot 3 is p3, a BUFFER in LOCAL s<slot>, in REG r<slot>, a RANGE i<number>, a DEFINE_VAR its own name
 * after n_, other values v1, v2 .. in order. A scalar that is used once, in its own block, is written where it is used;
 * everything else is a constant of its own. Vectors of positions (DT_INDEX) that serve addresses only are one scalar a
 * lane in every language.
 */
#ifndef TG_CSTYLE_H
#define TG_CSTYLE_H
#include "sched/kernel.h"
#include "graph/base/text.h"

typedef struct CRender CRender;

typedef struct CStyle {
    const char *name;
    /* the language has vector types (GCC/Clang); else vectors become one scalar variable a lane */
    bool vectors;
    bool narrow_index;              /* positions that fit are int, not long */
    const char *math;               /* before sqrtf and its like: "__builtin_" or "" */
    const char *inline_function;    /* before a helper function: "static inline" */
    /* opening of the function, parameters included, and its end */
    void (*prologue)(Text *out, const Kernel *k, const char *name);
    void (*epilogue)(Text *out, const Kernel *k);
    /* expression of an element-wise op (or CONST) on rendered scalar operands, e.g. "fmaxf(a,b)"; NULL or false: the
     * shared table serves */
    bool (*op)(Text *out, const UOp *u, const char *const *operand);
    const char *(*type)(DType t);   /* C name of a scalar type; NULL: dtype.def's */
    /* prints a whole instruction (vectors, WMMA, SPECIAL, LOCAL buffers); NULL or false: the shared way */
    bool (*line)(CRender *r, const UOp *u);
    /* what of an INDEX's position is computed as a vector of its lanes; NULL: each lane is a scalar */
    const UOp *(*vector_part)(const UOp *load);
    /* what must stand before the function, requested when its body is known; may be NULL */
    void (*preamble)(CRender *r, Text *out);
} CStyle;

/* For the hooks. Strings live as long as the rendering. */
struct CRender {
    Text *out;
    const CStyle *style;
    const Kernel *k;
    Arena *arena;
    int depth;
    uint32_t block, names, helpers;
    uint64_t used[8];               /* the style's own marks, for its preamble */
    int64_t local_offset;
    uint32_t *name, *uses, *def_block;          /* by node id */
    /* by node id: not to be inlined; needed as a whole vector; a REG that is indexed; the style's own */
    uint8_t *split, *vector, *array, *note;
    const char **expr;
    void *own;                      /* the style's own, in the arena */
    TgStatus status;
};
uint32_t cr_lanes(const UOp *u);                             /* 1 for shapes () and (1) */
bool cr_by_lanes(const CRender *r, const UOp *u);            /* a vector that is kept as one scalar a lane */
const char *cr_name(CRender *r, const UOp *u);               /* of a value that is being defined */
const char *cr_value(CRender *r, const UOp *u);              /* name or expression: a scalar, or a whole vector */
const char *cr_lane(CRender *r, const UOp *u, uint32_t lane);
/* p0[i] of an INDEX, p0[i + lane] of a SHRINK */
const char *cr_element(CRender *r, const UOp *address, uint32_t lane);
const char *cr_position(CRender *r, const UOp *address, uint32_t lane);      /* the index alone */
const char *cr_memory(CRender *r, const UOp *address);       /* p0, s1, r2: what an address or a REG access stands on */
const char *cr_type(const CRender *r, const UOp *u);         /* of a scalar, or of one lane */
/* u's scalar expression on other operands */
const char *cr_op(CRender *r, const UOp *u, const char *const *operand);
void cr_line(CRender *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *cr_text(CRender *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

TgStatus cstyle_render(Text *out, const CStyle *style, const Kernel *k, const char *name);
/* A size (DT_INDEX over DEFINE_VARs) as an expression, in the arena; leaf: what a variable is called. helper gets the
 * functions that it calls, as cstyle_helpers prints them. */
TgStatus cstyle_size(const char **out, Arena *a, const CStyle *style, const UOp *size,
                     const char *(*leaf)(const void *from, const UOp *var), const void *from, uint32_t *helper);
void cstyle_helpers(Text *out, const CStyle *style, uint32_t helper);
static inline bool fits_int(const UOp *u) { return u->vmin >= INT32_MIN && u->vmax <= INT32_MAX; }
bool c_is_variable(const CRender *r, const UOp *memory);        /* a scalar of C, not an array */
#endif
