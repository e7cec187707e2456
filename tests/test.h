/* What every suite includes: cmocka in the order that it wants, without its `fail` macro, which is a name of ours. */
#ifndef TG_TEST_H
#define TG_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#undef fail
#include <stdio.h>
#include <stdlib.h>

/* A suite's folder of temporary files, at its end. */
static inline int remove_tree(const char *folder)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}
#endif
