#include "bench/python.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *python_program(char *buffer, size_t cap)
{
    static const char private[] = "/.venv/bin/python";
    const char *named = getenv("TGRUN_PYTHON");
    if (named && *named) return named;
    ssize_t n = cap > sizeof private ? readlink("/proc/self/exe", buffer, cap - sizeof private) : 0;
    for (int up = 0; up < 2 && n > 0; up++)
        while (--n > 0 && buffer[n] != '/') {}
    snprintf(buffer + (n > 0 ? n : 0), sizeof private, "%s", private);
    return n > 0 && !access(buffer, X_OK) ? buffer : "python3";
}
