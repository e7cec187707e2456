/* How kernels are written in C11 alone: as for the CPU, but a vector is a scalar a lane. */
#include "backends/c/c.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/helpers.h"

static void prologue(Text *out, const Kernel *k, const char *name) { cpu_style.prologue(out, k, name); }
static void epilogue(Text *out, const Kernel *k) { cpu_style.epilogue(out, k); }
static const char *type(DType t) { return cpu_style.type(t); }
/* A choice by masks takes vector types. */
static bool op(Text *out, const UOp *u, const char *const *operand)
{
    return u->op != UOP_WHERE && cpu_style.op(out, u, operand);
}

const CStyle c11_style = {
    .name = "C11",
    .math = "",
    .inline_function = "static inline",
    .prologue = prologue,
    .epilogue = epilogue,
    .op = op,
    .type = type,
};

void c11_head(Text *out)
{
    text_add(out, "%s",
             "#include <math.h>\n\n"
             "#if !defined(__GNUC__) && !defined(__clang__) && !defined(__TINYC__)\n"
             "#define __attribute__(list)\n"
             "#endif\n");
    text_add(out, "%s%s\n", cpu_helper[H_HALF], cpu_helper[H_EXP2]);
}
