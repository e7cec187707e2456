/* What the standard's schemas say of an operator's version: how many inputs and outputs, their types, its attributes.
 * The rows are those of the onnx package of the build (scripts/standard_operators.py), those of com.microsoft stand in
 * microsoft.def; every node of such an operator is held to its row, so that importers need not. */
#ifndef TG_STANDARD_H
#define TG_STANDARD_H
#include "frontend/frontend.h"

/* Fails when node c is not what its schema wants; TG_OK for operators that have no row. Inputs are still what
 * sequences, strings and narrow types are (tuple.h, text.h, narrow.h). */
TgStatus standard_check(Graph *g, const Ctx *c);
#endif
