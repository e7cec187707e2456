/* Which processor this is: its name, the instruction sets that the system lets programs use, and what compiled code
 * depends on. One file an architecture says it: processor_x86.c, processor_arm.c. */
#ifndef TG_CPU_PROCESSOR_H
#define TG_CPU_PROCESSOR_H
#include "backends/cpu/cpu.h"

/* Fills what is the processor's in m, and requests from the system what it grants on request alone. TGRUN_PROCESSOR in
 * the environment: as if it were of that class (x86-64: sse2, avx, avx2, avx512, each without what later ones have;
 * aarch64: neon, without SVE), for tests. TG_DEVICE: there is no such class, or the processor is not of it. */
TgStatus processor_read(Machine *m);

/* Words by which processors differ: the model, then bits of features. Code that was compiled for one runs on another
 * that has all its features. */
enum { PROCESSOR_MODEL, PROCESSOR_FEATURES, PROCESSOR_WORDS = 16 };
void processor_words(unsigned word[PROCESSOR_WORDS]);

/* The C compiler's flags for this processor, as GCC or Clang want them; NULL behind the last. safe: without the
 * instructions that compilers are known to fail at; NULL: there are none. */
const char *const *processor_flags(bool clang, bool safe);
#endif
