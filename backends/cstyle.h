/* Rendering shared by C-like languages: walks a LINEAR (kernel.h, form 6) and prints one line an instruction. What differs between languages is in a CStyle. */
#ifndef TG_CSTYLE_H
#define TG_CSTYLE_H
#include "sched/kernel.h"
#include "graph/base/text.h"

typedef struct CStyle {
    const char *name;
    bool vectors;                   /* the language has vector types (GCC/Clang); else vectors become one scalar variable a lane */
    /* opening of the function, parameters included, and its end */
    void (*prologue)(Text *out, const Kernel *k, const char *name);
    void (*epilogue)(Text *out, const Kernel *k);
    /* expression of an element-wise op on rendered operands, e.g. "fmaxf(a,b)"; NULL: the shared table serves */
    bool (*op)(Text *out, const UOp *u, const char *const *operand);
} CStyle;

TgStatus cstyle_render(Text *out, const CStyle *style, const Kernel *k, const char *name);
#endif
