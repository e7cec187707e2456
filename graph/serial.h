/* Expressions as bytes: sizes, counts of iterations, host functions with their attributes, as a plan has them when its
 * kernels are code. A node is written where it is met first, behind that its number is. */
#ifndef TG_SERIAL_H
#define TG_SERIAL_H
#include "graph/base/bytes.h"
#include "graph/base/map.h"
#include "graph/uop.h"

/* bad: a node was met that is none of an expression */
typedef struct { Text *out; Map of; uint32_t count; bool bad; } UOpWriter;
typedef struct { ByteReader *in; Graph *g; const UOp **node; uint32_t count, room; } UOpReader;

void uop_write(UOpWriter *w, const UOp *u);                     /* may be NULL */
const UOp *uop_read(UOpReader *r);                              /* NULL as it was written, or in->bad */
void shape_write(UOpWriter *w, const Shape *s);
const Shape *shape_read(UOpReader *r);
#endif
