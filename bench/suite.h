/* The verb `test`: every model folder below some folders, each in a child. */
#ifndef TG_SUITE_H
#define TG_SUITE_H
#include "bench/args.h"
TgStatus suite_run(const Args *a, const char *const *dir, uint32_t ndir, const char *program);
#endif
