#include "bench/say.h"
#include "bench/stop.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct { const char *program, *json; bool quiet, progress, shown; } say = { .program = "tgrun" };

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
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static void progress(void *user, const char *what, double done, double total)
{
    (void)user;
    say.shown = true;
    fprintf(stderr, "\r\033[K%s  %.0f of %.0f", what, done, total);
    fflush(stderr);
}

void say_progress_setup(const char *when, TgOptions *options)
{
    say.progress = !say.quiet && (!strcmp(when, "always") || (!strcmp(when, "auto") && isatty(STDERR_FILENO)));
    if (say.progress) options->progress = progress;
}

void say_progress_done(void)
{
    if (say.shown) fputs("\r\033[K", stderr);
    say.shown = false;
}
