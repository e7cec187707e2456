/* Compiler processes at work: a temporary folder with the files of each, and the wait for all. */
#ifndef TG_CPU_JOBS_H
#define TG_CPU_JOBS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/cpu/compiler.h"
#include "graph/base/text.h"

enum { MAX_JOBS = 64 };
typedef struct {
    char source[112], object[112], log[112];
    pid_t pid;                      /* -1: it could not be started */
    CompilerOutput what;
    bool done;
} Job;
/* started: the first so many jobs are waited for */
typedef struct { const Compiler *cc; char folder[80]; int started; Job job[MAX_JOBS]; } Work;
TgStatus work_begin(Work *w, const Compiler *cc);       /* cc lives until the end */
void work_end(Work *w);             /* the folder goes */
void work_undo(void *work);         /* the same, with processes that nobody waits for (undo_push) */
Job *job_new(Work *w, int i);       /* job[i], with the names of its files */
TgStatus job_write(const Job *j, const Text *source);
void job_start(const Work *w, Job *j, CompilerOutput what);
TgStatus job_read(void **object, size_t *size, const Job *j);       /* freed by mem_free */
/* Of all kernels that are missing: how many were compiled before these, and these. */
typedef struct { uint32_t before, now, all; } Share;
/* Waits for all; starts again, as CC_SAFE, what fails; kills what runs too long, and all where the wait is to stop, or
 * the thread's work to end. stop: NULL: only the thread's watcher says so. */
TgStatus jobs_wait(Work *w, Share kernels, const atomic_bool *stop);
#endif
