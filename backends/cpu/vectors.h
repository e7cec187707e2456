/* Vectors of C, by GCC's and Clang's types: f32x16, and f32x16m for the same in memory, aligned to its element only.
 * What render.c, vectors.c and expressions.c share.
 *
 * A vector of bool is a mask: lanes 0 and -1, as wide as what it was compared from. Positions (DT_INDEX) are i32 where
 * their bounds allow, else i64. f16 and bf16 are their bits, u16: select has made their arithmetic f32. */
#ifndef TG_CPU_VECTORS_H
#define TG_CPU_VECTORS_H
#include "backends/cpu/cpu.h"
#include "backends/cpu/helpers.h"

enum { E_F32, E_F64, E_I8, E_U8, E_I16, E_U16, E_I32, E_U32, E_I64, E_U64, E_COUNT };
typedef struct { const char *name, *c; uint8_t bytes; bool is_float, is_signed; } VectorKind;
extern const VectorKind cv_kind[E_COUNT];
/* CRender.used: 128 bits of value types, 128 of memory types, helpers */
enum { USED_VALUE, USED_MEMORY = 2, USED_HELPER = 4 };

/* The name of a vector's type, of that type in memory; the kernel's text brings it along, as it does helper h. */
const char *cv_type(CRender *r, int e, uint32_t lanes);
const char *cv_memory(CRender *r, int e, uint32_t lanes);
void cv_want(CRender *r, int h);

int cv_signed(int bytes);                       /* the signed integer of so many */
int cv_element_of(DType t);                     /* in memory */
int cv_element(CRender *r, const UOp *u);       /* of a node's lanes */

const char *cv_convert(CRender *r, const char *s, int from, int to, uint32_t lanes);
/* u as a vector of element e; the same where a plain scalar beside a vector will do */
const char *cv_whole(CRender *r, const UOp *u, int e, uint32_t lanes);
const char *cv_operand(CRender *r, const UOp *u, int e, uint32_t lanes);
/* { item 0, item 1 .. }; of the ALU node itself */
const char *cv_list(CRender *r, int e, uint32_t lanes, const char *(*item)(CRender *r, const UOp *u, uint32_t lane),
                    const UOp *u);
const char *cv_by_lane(CRender *r, const UOp *u, int e, uint32_t lanes);

/* expressions.c */
const char *cv_op(CRender *r, const UOp *u, int e, uint32_t lanes);
const char *cv_max(CRender *r, const char *a, const char *b, bool a_is_number, int e, uint32_t lanes);
#endif
