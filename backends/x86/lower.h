/* A kernel's LINEAR (sched/kernel.h, form 6) as machine instructions. */
#ifndef TG_X86_LOWER_H
#define TG_X86_LOWER_H
#include "backends/x86/mir.h"
#include "sched/kernel.h"

/* TG_UNSUPPORTED: the kernel has an instruction that stands in no row here. */
TgStatus mcode_lower(Mcode *m, const Kernel *k);
#endif
