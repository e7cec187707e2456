/* How kernels are written in C11 alone. */
#include "backends/c/c.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/helpers.h"

static void prologue(Text *out, const Kernel *k, const char *name)
{
    text_add(out, "void %s(void *const *args, const long *sizes, long begin, long end, void *scratch)\n{\n", name);
    for (uint32_t i = 0; i < k->linear->nsrc; i++) {
        const UOp *u = k->linear->src[i];
        const char *t = cpu_style.type((DType)u->dtype);
        if (u->op == UOP_PARAM)
            text_add(out, "    %s *p%ld = (%s *)args[%ld];\n", t, (long)u->arg.i, t, (long)u->arg.i);
    }
    for (uint32_t i = 0; i < k->nvar; i++) text_add(out, "    const long n%u = sizes[%u];\n", i, i);
    text_add(out, "    (void)args, (void)sizes, (void)begin, (void)end, (void)scratch;\n");
}

static void epilogue(Text *out, const Kernel *k)
{
    (void)k;
    text_add(out, "}\n");
}

static const char *type(DType t) { return cpu_style.type(t); }
static bool op(Text *out, const UOp *u, const char *const *operand) { return cpu_style.op(out, u, operand); }

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
