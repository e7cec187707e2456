/* tg_tune: the unique kernels of the program that was prepared last, as they are before OptOps, go to the search; then the program is made anew with the winners. */
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "frontend/session.h"
#include "graph/base/map.h"

typedef struct { Arena *arena; Kernel **kernel; double *count; uint32_t n; Map index; } Uniques;

/* Launches of an item in a run: those of a loop's body count as often as it goes round, where that is known. */
static void collect(Uniques *u, const Schedule *s)
{
    double times[64] = { 1 };
    int depth = 0;
    u->kernel = NEW_N(u->arena, Kernel *, s->count + 1);
    u->count = NEW_N(u->arena, double, s->count + 1);
    map_init(&u->index, u->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        if (item->kind == ITEM_LOOP && depth < 63) depth++, times[depth] = times[depth - 1] * (item->mem[0] || item->trip < 1 ? 8 : (double)item->trip);
        if (item->kind == ITEM_NEXT && depth) depth--;
        if (item->kind != ITEM_KERNEL || item->once || !item->kernel->key[0]) continue;
        uintptr_t at = (uintptr_t)map_gets(&u->index, item->kernel->key);
        if (!at) {
            u->kernel[u->n++] = item->kernel;
            map_puts(&u->index, item->kernel->key, (void *)(uintptr_t)(at = u->n));
        }
        u->count[at - 1] += times[depth];
    }
}

static TgStatus search(TgSession *s, const Schedule *schedule, double seconds, int32_t beam)
{
    const TgOptions *o = &s->options;
    Uniques u = { .arena = arena_new() };
    collect(&u, schedule);
    SearchOptions so = { .choice = &s->choice, .backend = s->backend, .device_index = s->device_index, .threads = o->threads, .cpus = o->cpus,
                         .cache_dir = o->no_cache ? NULL : o->cache_dir, .kernel = u.kernel, .count = u.count, .n = u.n, .seconds = seconds, .beam = beam, .verbose = o->verbose,
                         .progress = o->progress, .user = o->progress_user };
    TgStatus status = search_run(&s->report, &so);
    arena_free(u.arena);
    return status;
}

/* The model is imported and scheduled again: the program's own kernels are lowered. */
static TgStatus search_program(TgSession *s, const Program *p, double seconds, int32_t beam)
{
    Imported imported = { 0 };
    Schedule *schedule = NULL;
    TgStatus status = import_model(&imported, s->model, p->input, p->ninput);
    if (status == TG_OK) status = sched_schedule(&schedule, imported.g, imported.sink, s->choice.target, NULL);
    if (status == TG_OK) status = search(s, schedule, seconds, beam);
    if (schedule) schedule_free(schedule);
    if (imported.g) graph_free(imported.g);
    return status;
}

TgStatus tg_tune(TgSession *s, double seconds, int32_t beam)
{
    double start = seconds_now();
    if (!s->program) return session_in_file(s, fail(TG_USAGE, "nothing is prepared yet that could be tuned"));
    TgStatus status = search_program(s, s->program, seconds, beam);
    s->tune_s += seconds_now() - start;
    return session_in_file(s, status == TG_OK ? session_remake(s) : status);
}
