/* Machine instructions of x86-64 on virtual registers: between a kernel's LINEAR and its bytes.
 *
 * lower.c writes them for AVX-512 (F, BW, DQ, VL), avx2.c puts those of AVX2 (with FMA, F16C, BMI2) in the place of
 * what has no VEX form, registers.c gives each register a place in the machine or in the frame, encode.c writes bytes.
 * There are two classes: general registers of 64 bits, which hold integers extended to 64 bits by their type's sign,
 * and vectors. A scalar float is the first lane of a vector of 16 bytes. A vector of bool has 32 bits a lane, all or
 * none of them set. Control flow is structured: loops and forward branches, so that a register lives from its first to
 * its last mention, or to the end of the loop that it enters from before.
 */
#ifndef TG_X86_MIR_H
#define TG_X86_MIR_H
#include "backends/x86/x86.h"
#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef uint32_t Reg; /* virtual, from 1; 0: none */
typedef enum { CLASS_GENERAL, CLASS_VECTOR } RegClass;

typedef enum { FORM_VVV, FORM_FMA, FORM_ACC, FORM_VV, FORM_SHIFT, FORM_NARROW, FORM_MASK } MirForm;
typedef enum {
#define MIR(name, ...) M_##name,
#include "backends/x86/mir.def"
#undef MIR
    M_ROWS,
    /* vectors, beyond the table */
    M_VMOVE = M_ROWS, /* dst = b or memory */
    M_VLOAD, /* dst = `size` bytes of memory, the rest 0; 4, 8, or the width */
    M_VSTORE, /* memory = a's first `size` bytes */
    M_VLOADM, /* dst = lanes (of `size` bytes) of memory where the mask c is set, else a's */
    M_VSTOREM, /* the lanes of a where c is set, to memory */
    M_PICK, /* dst = mask c ? a : b, lanes of `size` bytes */
    M_MAXNAN, /* dst = max(a, b), NaN if one is; size 4 or 8 */
    M_BLEND, /* dst = sign of c's lane ? a : b, lanes of `size` bytes, of c as well; AVX2 */
    M_TEST, /* dst = mask of the lanes of b that are not 0; size of a lane */
    M_GATHER, /* dst = memory at base + 32-bit lanes of b * scale where c (0: everywhere) is set, else a's */
    M_ALL, /* general dst = are all lanes of the mask a set */
    M_SPREAD, /* dst = the general a in all lanes, of `size` bytes */
    M_TO_VECTOR, /* dst = general a as bits; size 4 or 8 */
    M_TO_GENERAL, /* general dst = a's first size bytes, zero-extended */
    M_INT_TO_FLOAT, /* dst = (float of size bytes)(general a); imm: a is unsigned */
    M_FLOAT_TO_INT, /* general dst = (integer)(float a of size bytes); imm: unsigned */
    M_CALL, /* dst = the C function of number imm of the floats a and, where it is not 0, b, of size bytes */
    /* general registers; b may be 0: imm */
    M_MOVE,
    M_CONST,
    M_ADD,
    M_MUL,
    M_AND,
    M_OR,
    M_XOR,
    M_SHL,
    M_SHR,
    M_SAR,
    M_ADDRESS, /* dst = the address itself */
    M_LOAD,
    M_STORE, /* `size` bytes, extended by imm: 1 signed, 0 unsigned */
    M_EXTEND, /* dst = a's low `size` bytes, extended likewise */
    M_SET, /* dst = a cond b, 0 or 1; imm 0 for b; cond in lanes */
    M_DIVIDE,
    M_REMAINDER, /* of nonnegative numbers; size 4: both fit in 32 bits */
    M_DIVIDE_SIGNED,
    M_REMAINDER_SIGNED, /* towards zero */
    M_CHOOSE, /* dst = c ? a : b */
    /* control */
    M_ENTRY,
    M_RETURN, /* dst and the four registers behind it are the arguments */
    M_LABEL,
    M_JUMP_ZERO,
    M_JUMP_IF, /* label; of a; a cond b */
    M_TILES,
    M_TILES_DONE,
    M_TILE_ZERO,
    M_TILE_LOAD,
    M_TILE_STORE,
    M_TILE_BF16,
    M_TILE_U8, /* imm: tile numbers */
    M_COUNT
} Mir;
/* of M_SET, M_JUMP_IF: as the machine numbers them */
typedef enum {
    COND_BELOW = 2,
    COND_NOT_BELOW = 3,
    COND_EQUAL = 4,
    COND_NOT_EQUAL = 5,
    COND_LESS = 12,
    COND_NOT_LESS = 13
} Cond;

typedef enum { AT_NONE, AT_ADDRESS, AT_FRAME, AT_POOL } AtKind;
/* base + index * scale + disp; in the frame, or in the pool of constants, disp alone */
typedef struct {
    uint8_t kind, scale;
    Reg base, index;
    int64_t disp;
} Place;

typedef struct {
    uint8_t op, width; /* width: of a vector, in bytes: 16, 32, 64 */
    uint8_t size, cond;
    bool broadcast; /* the memory operand is one element */
    Reg dst, a, b, c;
    uint32_t label;
    int64_t imm;
    Place at;
} Ins;

/* A virtual register: what is known of it, and where it is. */
typedef struct {
    uint8_t cls, width;
    int8_t machine; /* its number; -1: in the frame */
    int32_t slot; /* bytes from the frame's begin; -1: none yet */
    uint32_t first, last; /* twice the number of the instruction, +1 for what is written */
    double weight;
    Reg hint; /* which register it would like to be where that ends */
} RegInfo;

typedef struct {
    uint32_t begin, end;
} Loop; /* instructions */

typedef struct {
    Arena *arena;
    Ins *ins;
    uint32_t count, cap;
    RegInfo *reg;
    uint32_t nreg, reg_cap;
    Loop *loop;
    uint32_t nloop, loop_cap;
    uint8_t *pool;
    uint32_t pool_bytes, pool_cap, labels;
    int32_t frame_bytes;
    bool avx2; /* without AVX-512: VEX forms, 16 vectors of 32 bytes */
} Mcode;

typedef struct {
    const char *name;
    uint8_t form, map, pp, w, code, ext, imm, bytes, sets;
} MirRow;
extern const MirRow mir_row[M_ROWS];
enum { SETS_AVX2 = 1, SETS_AVX512 = 2, SETS_BOTH = 3 };

enum { GENERAL_COUNT = 16, VECTOR_COUNT = 32, RAX = 0, RCX = 1, RDX = 2, RBX = 3, RSP = 4, RBP = 5 };
enum { SPARE_VECTORS = 3 }; /* the last ones, for operands that lie in the frame, where one does */
enum { FRAME_HEAD = 64 }; /* bytes of the frame that encode.c has for itself */

/* Does a call of instruction k find a value there that is read behind it, and that it may change? */
static inline bool mcode_survives(const RegInfo *r, uint32_t k)
{
    enum { RSI = 6, R11 = 11 };
    bool changed = r->cls == CLASS_VECTOR || (r->machine >= RSI && r->machine <= R11);
    return r->machine >= 0 && changed && r->first < 2 * k && r->last > 2 * k;
}

static inline int mcode_vectors(const Mcode *m) { return m->avx2 ? VECTOR_COUNT / 2 : VECTOR_COUNT; }
static inline int mcode_vector_bytes(const Mcode *m) { return m->avx2 ? 32 : 64; }
/* Has the machine the instruction of this row, or avx2.c others in its place? */
bool mcode_has(const Mcode *m, int op);

/* values.c: a fresh register; an instruction at the end, valid until the next; the place of data in the pool, aligned
 * to their bytes, a power of 2 */
Reg mcode_reg(Mcode *m, RegClass cls, int width);
Ins *mcode_put(Mcode *m, int op);
Reg mcode_give(Mcode *m, int op, Reg dst, Reg a, Reg b, int64_t imm, int width); /* likewise; dst */
int64_t mcode_pool(Mcode *m, const void *data, uint32_t bytes);
void mcode_avx2(Mcode *m); /* avx2.c: in instructions of AVX2 */
void mcode_hoist(Mcode *m); /* hoist.c: constants of loops into registers */
/* hoist.c: the register takes the place of the element of memory that the instruction repeats in all lanes */
void mcode_use(Mcode *m, Ins *i, Reg r);
void mcode_split(Mcode *m); /* split.c: registers of their own behind loops */
void mcode_intervals(Mcode *m); /* registers.c: from where to where registers live */
void mcode_registers(Mcode *m); /* registers.c */
/* Bytes of a function of CpuKernel's form, appended to out encode.c */
TgStatus mcode_encode(Bytes *out, const Mcode *m);
#endif
