/* A harness: a function from bytes to nothing that must not crash, leak or hang, and seeds to start from. libFuzzer
 * calls it, or driver.c, which needs no clang. To add one: fuzz_NAME.c with both, and NAME in CMakeLists.txt. */
#ifndef TG_FUZZ_H
#define TG_FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The k-th seed, of mem_new; NULL after the last. */
char *fuzz_seed(size_t k, size_t *size);
#endif
