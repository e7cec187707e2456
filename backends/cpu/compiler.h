/* The system's C compiler: found ($CC, gcc, clang, cc), identified, started. */
#ifndef TG_CPU_COMPILER_H
#define TG_CPU_COMPILER_H
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <xxhash.h>

#include "graph/base/status.h"

/* CC may be several words: a launcher, as ccache, in front of the compiler, and its arguments. */
enum { CC_WORDS = 32 };
/* path: "" when only its identity is known; arg: behind it, where they begin in words */
typedef struct {
    char path[PATH_MAX], words[PATH_MAX];
    int arg[CC_WORDS], narg;
    bool clang;
    XXH64_hash_t identity;
} Compiler;
/* TG_CACHE: there is none, or not the one that CC names. */
TgStatus compiler_find(Compiler *c);
/* Where there is none, and CC names none, kernels that an earlier one made serve still: the cache remembers the last.
 */
TgStatus compiler_or_last(Compiler *c, const char *cache_dir);
/* All in the folder, beneath which alone the compiler writes (sandbox.h). */
typedef struct { const char *folder, *source, *object, *log; } CompilerFiles;
/* CC_SAFE: code again, of a unit at which the compiler failed, without the instructions that it is known to fail at. */
typedef enum { CC_CODE, CC_ASSEMBLY, CC_SAFE } CompilerOutput;
/* A process of a group of its own; its words go to the log. -1: it cannot be started, or there is no such output. */
pid_t compiler_start(const Compiler *c, const CompilerFiles *files, CompilerOutput what);
#endif
