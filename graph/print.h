/* Text of a graph, one line a node in topological order, and back. The text form is what goldens hold and what `tgrun
 * dump` prints. %7 = REDUCE.f32 (%5 %6) op=ADD            %2 = CONST.f32 0.5        %3 = RANGE (%1) n=0 L       %9 =
 * INDEX.f32 (%0 %3) */
#ifndef TG_PRINT_H
#define TG_PRINT_H
#include "graph/base/text.h"
#include "graph/uop.h"

void graph_print(Text *out, Graph *g, const UOp *root);
/* The same as one expression, for messages and index listings: `(r0*64 + r1) % 7`. */
void uop_print_expr(Text *out, const UOp *u);
/* Reads what graph_print wrote; NULL and a message (fail) on bad text. The result of the last line. */
const UOp *graph_parse(Graph *g, const char *text);
#endif
