/* aarch64: instruction sets by the capabilities that Linux lists. Vectors have 256 bits where SVE's registers have
 * these as the system runs programs, else NEON's 128: SVE of 128 bits does no more a cycle, and with one of 512 GCC 12
 * compiles shorter vectors to wrong code (the maximum of eight lanes). */
#ifdef __aarch64__
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "backends/cpu/processor.h"
#include "graph/wmma.h"

/* Of AT_HWCAP and AT_HWCAP2, as asm/hwcap.h numbers them. */
enum {
    ATOMICS = 1 << 8, HALF_VECTORS = 1 << 10, ROUNDED_DOUBLING = 1 << 12, DCPOP = 1 << 16, DOT = 1 << 20, SVE = 1 << 22
};
enum { I8MM = 1 << 13, BF16 = 1 << 14 };

static unsigned long first(void) { return getauxval(AT_HWCAP); }
static unsigned long second(void) { return getauxval(AT_HWCAP2); }
static bool has_8_2(void) { return first() & ATOMICS && first() & ROUNDED_DOUBLING && first() & DCPOP; }

/* Bytes of a vector that kernels use: code that was compiled for one length runs with no other. 16: NEON's. */
static unsigned vector_length(void)
{
    const char *class = getenv("TGRUN_PROCESSOR");
    int length = first() & SVE && !(class && !strcmp(class, "neon")) ? prctl(PR_SVE_GET_VL) : -1;
    if (length >= 0) length &= PR_SVE_VL_LEN_MASK;
    return length == 32 ? 32 : 16;
}

/* What the system calls it: the implementer's and the part's number of the first core, else its kind. */
static unsigned model(void)
{
    char line[256];
    unsigned implementer = 0, part = 0, n;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f) && !part)
        if (sscanf(line, "CPU implementer : %x", &n) == 1) implementer = n;
        else if (sscanf(line, "CPU part : %x", &n) == 1) part = n;
    if (f) fclose(f);
    return implementer << 16 | part;
}

TgStatus processor_read(Machine *m)
{
    const char *wanted = getenv("TGRUN_PROCESSOR");
    if (wanted && *wanted && strcmp(wanted, "neon"))
        return fail(TG_DEVICE, "TGRUN_PROCESSOR=%s: aarch64 has no class but neon", wanted);
    unsigned id = model(), length = vector_length();
    bool dot = first() & DOT, i8mm = second() & I8MM, bf16 = second() & BF16, sve = length > 16;
    if (id) snprintf(m->name, sizeof m->name, "aarch64 processor %02x-%03x", id >> 16, id & 0xffff);
    else snprintf(m->name, sizeof m->name, "aarch64 processor");
    snprintf(m->features, sizeof m->features, "neon%s%s%s%s", dot ? " dot" : "", i8mm ? " i8mm" : "",
             bf16 ? " bf16" : "", sve ? " sve256" : "");
    m->vector_bytes = (int)length;
    m->vector_registers = 32;
    m->rows = (i8mm ? 1u << (sve ? WMMA_sve_u8 : WMMA_neon_u8) : 0) |
        (dot ? 1u << (sve ? WMMA_sve_i8 : WMMA_neon_i8) : 0) |
        (bf16 ? 1u << (sve ? WMMA_sve_bf16 : WMMA_neon_bf16) : 0);
    m->has_fma = true;
    return TG_OK;
}

void processor_words(unsigned word[PROCESSOR_WORDS])
{
    memset(word, 0, PROCESSOR_WORDS * sizeof *word);
    word[PROCESSOR_MODEL] = model();
    word[PROCESSOR_FEATURES] = (unsigned)first();
    word[PROCESSOR_FEATURES + 1] = (unsigned)second();
    word[PROCESSOR_FEATURES + 2] = vector_length() & ~16u;           /* NEON's runs everywhere */
}

/* Not "native", which cross compilers do not know: by what is used here. GCC would move loads ahead before it gives out
 * registers, and then has none left for a tile's accumulators (9 accesses to the stack in a loop of 28 multiply-adds).
 * Loops have the vectors that they should have: see processor_x86.c. At SVE's conditional negation GCC 12 fails where
 * the other value has the bits of another type: the text serves NEON as well. Clang has no SVE here: helpers.c. */
const char *const *processor_flags(bool clang, bool safe)
{
    static _Thread_local char arch[64];
    static _Thread_local const char *flags[5];
    bool has = !clang && vector_length() > 16, sve = has && !safe;
    if (safe && !has) return NULL;
    flags[0] = arch;
    flags[1] = "-fno-tree-loop-vectorize";
    flags[2] = clang ? NULL : "-fno-schedule-insns";
    flags[3] = sve ? "-msve-vector-bits=256" : NULL;
    snprintf(arch, sizeof arch, "-march=%s%s%s%s%s%s", has_8_2() ? "armv8.2-a" : "armv8-a",
             first() & HALF_VECTORS ? "+fp16" : "", first() & DOT ? "+dotprod" : "", second() & I8MM ? "+i8mm" : "",
             second() & BF16 ? "+bf16" : "", sve ? "+sve" : "");
    return flags;
}
#endif
