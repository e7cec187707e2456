/* What every suite includes: cmocka in the order that it wants, without its `fail` macro, which is a name of ours. */
#ifndef TG_TEST_H
#define TG_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#undef fail
#endif
