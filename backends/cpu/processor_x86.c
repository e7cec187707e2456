/* x86-64: instruction sets by cpuid and by what the system saves of the registers. */
#ifdef __x86_64__
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/processor.h"
#include "graph/wmma.h"

enum { ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

/* Does the system save these registers? Bits of XCR0. */
static bool saves(unsigned want)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c & 1u << 27)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & want) == want;
}

typedef struct { bool avx, avx2, fma, f16c, bmi2, avx512, avx_vnni, vnni, bf16, amx; } Sets;

/* As TGRUN_PROCESSOR names them, lowest first. */
typedef enum { CLASS_SSE2, CLASS_AVX, CLASS_AVX2, CLASS_AVX512, CLASS_ALL, CLASS_UNKNOWN } Class;

static Class class_wanted(void)
{
    static const char *const name[] = { "sse2", "avx", "avx2", "avx512" };
    const char *wanted = getenv("TGRUN_PROCESSOR");
    int k = 0;
    if (!wanted || !*wanted) return CLASS_ALL;
    while (k < CLASS_ALL && strcmp(name[k], wanted)) k++;
    return k < CLASS_ALL ? (Class)k : CLASS_UNKNOWN;
}

static Sets sets(void)
{
    Sets s = { 0 };
    unsigned a, b, c, d;
    unsigned long supported = 0;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d)) return s;
    bool ymm = saves(6), zmm = saves(0xe6);
    s.avx = ymm && c & 1u << 28, s.fma = ymm && c & 1u << 12, s.f16c = ymm && c & 1u << 29;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return s;
    s.avx2 = ymm && b & 1u << 5, s.bmi2 = b & 1u << 8;
    s.avx512 = zmm && b & 1u << 16 && b & 1u << 17 && b & 1u << 30 && b & 1u << 31;      /* F, DQ, BW, VL */
    s.vnni = zmm && c & 1u << 11;
    /* with products of bf16 and of bytes, which all that have tiles have */
    bool tiles = d & 1u << 24 && d & 1u << 22 && d & 1u << 25 && saves(3u << 17);
    /* the kernel saves tiles from then on */
    s.amx = tiles && !syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &supported) && supported >> TILE_DATA & 1 &&
        !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return s;
    s.bf16 = s.avx512 && a & 1u << 5;
    s.avx_vnni = s.avx2 && !s.vnni && a & 1u << 4;
    return s;
}

static Sets limited(Sets s, Class to)
{
    if (to < CLASS_ALL) s.amx = s.bf16 = s.vnni = s.avx_vnni = false;
    if (to < CLASS_AVX512) s.avx512 = false;
    if (to < CLASS_AVX2) s.avx2 = s.fma = s.f16c = s.bmi2 = false;
    if (to < CLASS_AVX) s.avx = false;
    return s;
}

/* AMD's family 19h, whose AVX-512 is made of halves. */
static bool has_halves(void)
{
    enum { LAST_FAMILY = 0xf, ZEN_4 = 0x19 };
    char vendor[13] = "";
    unsigned a, b, c, d;
    if (!__get_cpuid_count(0, 0, &a, &b, &c, &d)) return false;
    memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
    __get_cpuid_count(1, 0, &a, &b, &c, &d);
    return !strcmp(vendor, "AuthenticAMD") && (a >> 8 & 0xf) == LAST_FAMILY && LAST_FAMILY + (a >> 20 & 0xff) == ZEN_4;
}

static void brand(char name[128])
{
    unsigned r[13] = { 0 };
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    const char *s = (const char *)r;
    while (*s == ' ') s++;
    snprintf(name, 128, "%s", *s ? s : "x86-64 processor");
}

TgStatus processor_read(Machine *m)
{
    Class to = class_wanted();
    Sets s = sets();
    bool is_one[] = { true, s.avx, s.avx2, s.avx512, true, false };
    if (!is_one[to])
        return fail(TG_DEVICE, "TGRUN_PROCESSOR=%s: %s; sse2, avx, avx2 and avx512 are known",
                    getenv("TGRUN_PROCESSOR"),
                    to == CLASS_UNKNOWN ? "there is no such class" : "this processor is not of it");
    s = limited(s, to);
    brand(m->name);
    snprintf(m->features, sizeof m->features, "%s%s%s%s%s",
             s.avx512     ? "avx512"
                 : s.avx2 ? "avx2"
                 : s.avx  ? "avx"
                          : "sse2",
             s.fma && !s.avx512 ? " fma" : "", s.vnni || s.avx_vnni ? " vnni" : "", s.bf16 ? " bf16" : "",
             s.amx ? " amx" : "");
    m->vector_bytes = s.avx512 ? 64 : s.avx ? 32 : 16;
    m->vector_registers = s.avx512 ? 32 : 16;
    m->halves = s.avx512 && has_halves();
    m->rows = (s.amx ? 1u << WMMA_amx_bf16 | 1u << WMMA_amx_u8 : 0) | (s.bf16 ? 1u << WMMA_dot_bf16 : 0) |
        (s.vnni ? 1u << WMMA_vnni_u8 : 0) | (s.avx2 && !s.avx512 ? 1u << WMMA_avx_u8 : 0);
    m->has_fma = s.fma || s.avx512;
    m->has_exp2 = s.avx512;
    m->has_streams = true;
    m->has_own = s.avx512 || (s.avx2 && s.fma && s.f16c && s.bmi2);
    return TG_OK;
}

void processor_words(unsigned word[PROCESSOR_WORDS])
{
    memset(word, 0, PROCESSOR_WORDS * sizeof *word);
    __get_cpuid_count(1, 0, &word[PROCESSOR_MODEL], &word[1], &word[2], &word[3]);
    __get_cpuid_count(7, 0, &word[4], &word[5], &word[6], &word[7]);
    __get_cpuid_count(7, 1, &word[8], &word[9], &word[10], &word[11]);
    /* in place of what says which core reads it: a bit for each class below its own */
    word[1] = (1u << class_wanted()) - 1;
}

const char *const *processor_flags(bool clang, bool safe)
{
    if (safe) return NULL;
    /* gcc gives out registers loop by loop, and then keeps a vector that a tile needs at every step in memory, though
     * registers are free; loops have the vectors that they should have, and of sums of i64 gcc 12 makes wrong ones
     * beside -fwrapv. What it knows of a processor's costs does harm in kernels whose instructions are chosen already:
     * for Zen it reads a tile's weights from memory at each use (512 to 128 channels of 30 x 30 pixels: 55 GFLOP/s in
     * tiles of 4 x 2 vectors, 70 tuned for no processor; resnet50 73 ms, 58), and does not fuse sums that others do. */
    static const char *const gcc_flags[] = { "-fcf-protection=none", "-fira-region=one", "-fno-tree-loop-vectorize",
                                             "-mtune=generic", NULL },
                             *const clang_flags[] = { "-fcf-protection=none", "-mprefer-vector-width=512", NULL },
                             *const march[] = { "-march=x86-64",    "-march=sandybridge", "-march=x86-64-v3",
                                                "-march=x86-64-v4", "-march=native",      "-march=native" };
    static _Thread_local const char *flags[6];
    flags[0] = march[class_wanted()];
    if (clang) memcpy(flags + 1, clang_flags, sizeof clang_flags);
    else memcpy(flags + 1, gcc_flags, sizeof gcc_flags);
    return flags;
}
#endif
