/* Machine code of x86-64 without a compiler: in less than a millisecond a kernel, at about half the speed of a
 * compiler's code or better. For first runs (the compiler's code takes its place when it is there), and where there is
 * no compiler. */
#ifndef TG_X86_H
#define TG_X86_H
#include "sched/kernel.h"

/* Where code has the address of a C function, in 8 bytes, and which of x86_functions that is: it is the only thing in
 * code that depends on where it and this process lie. */
typedef struct X86Call {
    uint32_t at, function;
} X86Call;
typedef void X86Function(void);
extern X86Function *const x86_functions[];
extern const uint32_t x86_function_count;

/* Bytes that grow by mem_grow; freed by mem_free(data) and (call). */
typedef struct {
    uint8_t *data;
    size_t size, cap;
    X86Call *call;
    uint32_t ncall;
} Bytes;
/* Appends a function of CpuKernel's form (backends/cpu/cpu.h), aligned to a line: of AVX-512 (F, BW, DQ, VL), or of
 * AVX2 (with FMA, F16C, BMI2). TG_UNSUPPORTED: it has an instruction that has no row; nothing is appended. */
TgStatus x86_assemble(Bytes *out, const Kernel *k, bool avx2);
/* Writes the addresses of its functions. */
void x86_link(Bytes *code);
/* Pages that can be executed and no longer written; NULL: the system has none. x86_unmap frees them. */
void *x86_map(const Bytes *code);
void x86_unmap(void *pages, size_t size);
#endif
