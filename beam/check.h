/* The numeric check of a list before it may enter the database. */
#ifndef TG_CHECK_H
#define TG_CHECK_H
#include "backends/backend.h"
#include "beam/beam.h"
#include "beam/data.h"

/* plain: of the kernel without OptOps; oracle: of the interpreter, where chosen[slot] is set for the element (NULL:
 * everywhere). */
typedef struct {
    bool ready, interpreted;
    void *plain[KERNEL_PARAMS], *oracle[KERNEL_PARAMS], *chosen[KERNEL_PARAMS];
} Want;
/* [0] plain data, [1] hostile */
typedef struct {
    const Backend *b;
    Device *d;
    const Target *t;
    const Kernel *base;
    Inputs in[2];
    Want want[2];
} Checker;

/* base: before OptOps; borrowed */
TgStatus checker_init(Checker *c, const Backend *b, Device *d, const Kernel *base);
void checker_free(Checker *c);
/* k: base under a list, lowered; code->kernel `at`. TG_OK: right. TG_DIFFERS and `why`: wrong. Else it could not be
 * run. */
TgStatus check_list(Checker *c, const Kernel *k, Code *code, uint32_t at, char why[160]);
void pack_buffers(Kernel *k);                   /* gives packed parameters buffers of the copies' sizes */
#endif
