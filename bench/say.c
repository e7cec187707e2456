#include "bench/say.h"
#include "bench/stop.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

/* The work that is waited for. ours: the program's own, not the library's; first: what was done when it began. */
typedef struct {
    char what[96];
    bool ours;
    double began, shown, first, done, total;
} Wait;
static struct {
    const char *program, *json;
    bool quiet, progress, shown;
    Wait wait;
} say = { .program = "tgrun" };

void say_setup(const char *program, const char *json_file, bool quiet)
{
    say.program = program;
    say.json = json_file;
    say.quiet = quiet;
}

static void escaped(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127) fprintf(stderr, "\\x%02x", (unsigned char)*s);
        else fputc(*s, stderr);
}

static void error_json(TgStatus code, const char *message, const char *node, const char *op, const char *field)
{
    json_t *j = json_pack("{s:s, s:b, s:i, s:{s:s, s:s, s:s, s:s}}", "schema", "tgrun.error/1", "ok", 0, "exit",
                          (int)code, "error", "message", message, "node", node, "op", op, "field", field);
    FILE *f = *say.json ? fopen(say.json, "w") : stdout;
    if (j && f) {
        json_dumpf(j, f, JSON_INDENT(2));
        fputc('\n', f);
    }
    if (f && f != stdout) fclose(f);
    json_decref(j);
}

static TgStatus error_line(TgStatus code, const char *message, const char *node, const char *op, const char *field)
{
    stop_hold();
    say_progress_done();
    fprintf(stderr, "%s: ", say.program);
    escaped(message);
    fputc('\n', stderr);
    if (say.json) error_json(code, message, node, op, field);
    return code;
}

TgStatus say_error(TgStatus code, const char *fmt, ...)
{
    char line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return error_line(code, line, "", "", "");
}

TgStatus say_library_error(TgStatus code)
{
    const char *node, *op, *field;
    tg_error_where(&node, &op, &field);
    return error_line(code, tg_error(), node, op, field);
}

int say_end(TgStatus status)
{
    errno = 0;
    bool lost = fflush(stdout) || ferror(stdout);
    if (lost && status == TG_OK)
        status = say_error(TG_CACHE, "standard output: %s", strerror(errno ? errno : ENOSPC));
    return (int)status;
}

void say_note(const char *fmt, ...)
{
    if (say.quiet) return;
    say_progress_done();
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* ---- bars ---- */

static void time_text(char *out, size_t cap, double seconds)
{
    if (seconds < 90) snprintf(out, cap, "%.0f s", ceil(seconds));
    else snprintf(out, cap, "%.0f min", ceil(seconds / 60));
}

static void draw(const Wait *w, double now)
{
    enum { WIDTH = 24 };
    char bar[WIDTH + 1], time[32];
    double passed = now - w->began, part = w->total > 0 ? fmin(1, fmax(0, w->done / w->total)) : 0;
    say.shown = true;
    fprintf(stderr, "\r\033[K%s", w->what);
    if (w->total <= 0) {
        time_text(time, sizeof time, floor(passed));
        fprintf(stderr, ", %s so far", time);
    } else {
        memset(bar, '-', WIDTH);
        memset(bar, '#', (size_t)(part * WIDTH));
        bar[WIDTH] = 0;
        fprintf(stderr, "  [%s] %.0f of %.0f", bar, w->done, w->total);
        if (w->done > w->first) {
            time_text(time, sizeof time, passed * (w->total - w->done) / (w->done - w->first));
            fprintf(stderr, ", %s left", time);
        }
    }
    fflush(stderr);
}

static void progress(const char *what, double done, double total, bool ours)
{
    static const double at_once_s = 0.5, again_s = 0.1; /* what is over sooner has no bar */
    Wait *w = &say.wait;
    if (!say.progress) return;
    double now = clock_s();
    if (strncmp(what, w->what, sizeof w->what - 1) || done < w->done || total != w->total) {
        *w = (Wait){ .ours = ours, .began = now, .first = done, .total = total, .shown = now + at_once_s - again_s };
        snprintf(w->what, sizeof w->what, "%s", what);
    }
    w->done = done;
    if (now < w->shown + again_s) return;
    w->shown = now;
    draw(w, now);
}

void say_progress(const char *what, double done, double total) { progress(what, done, total, true); }

/* A bar of the program's own stays, whatever the library does within it. */
static void of_library(void *user, const char *what, double done, double total)
{
    (void)user;
    if (!say.wait.ours) progress(what, done, total, false);
}

void say_progress_setup(const char *when)
{
    say.progress = !say.quiet && (!strcmp(when, "always") || (!strcmp(when, "auto") && isatty(STDERR_FILENO)));
}

static void line_of_library(void *user, const char *line)
{
    (void)user;
    say_progress_done();
    fprintf(stderr, "%s\n", line);                              /* -v brings them, -q or not */
}

void say_watch(TgOptions *options)
{
    if (say.progress) options->progress = of_library;
    options->log = line_of_library;
}

void say_progress_done(void)
{
    if (say.shown) fputs("\r\033[K", stderr);
    say.shown = false;
    say.wait = (Wait){ .total = 0 };
}
