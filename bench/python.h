/* The interpreter that engines and tokenizers written in Python run in. */
#ifndef TG_PYTHON_H
#define TG_PYTHON_H
#include <stddef.h>

/* TGRUN_PYTHON, else the private environment that scripts/quickstart made beside the program's folder, else `python3`
 * of PATH. Lives in `buffer` or in the environment. */
const char *python_program(char *buffer, size_t cap);
#endif
