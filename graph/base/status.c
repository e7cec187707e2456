#include "graph/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct { char line[1024], node[160], op[80], field[80]; } err;

/* Names come from files: control characters are escaped and long ones cut, so that a message stays one short line. */
static void escape(char *out, size_t cap, const char *s)
{
    size_t n = 0;
    for (; *s && n + 5 < cap; s++)
        n += (unsigned char)*s < 32 || *s == 127 ? (size_t)snprintf(out + n, cap - n, "\\x%02x", (unsigned char)*s)
                                                 : (size_t)(out[n] = *s, 1);
    out[n] = 0;
    if (*s && n >= 3) memcpy(out + n - 3, "...", 3);
}

static void record(const char *fmt, va_list ap)
{
    char raw[900];
    size_t n = strlen(err.line);
    vsnprintf(raw, sizeof raw, fmt, ap);
    escape(err.line + n, sizeof err.line - n, raw);
}

TgStatus fail(TgStatus code, const char *fmt, ...)
{
    va_list ap;
    status_clear();
    va_start(ap, fmt);
    record(fmt, ap);
    va_end(ap);
    return code;
}

TgStatus fail_at(TgStatus code, const char *node, const char *op, const char *field, const char *fmt, ...)
{
    va_list ap;
    char head[400] = "";
    status_clear();
    escape(err.node, 84, node ? node : "");
    escape(err.op, sizeof err.op, op ? op : "");
    escape(err.field, sizeof err.field, field ? field : "");
    if (node) snprintf(head, sizeof head, "node '%s'%s%s%s: ", err.node, op ? " (" : "", err.op, op ? ")" : "");
    snprintf(err.line, sizeof err.line, "%s%s%s", head, err.field, field ? ": " : "");
    va_start(ap, fmt);
    record(fmt, ap);
    va_end(ap);
    return code;
}

void status_clear(void) { memset(&err, 0, sizeof err); }

void status_prefix(const char *file)
{
    char old[sizeof err.line], name[256];
    memcpy(old, err.line, sizeof old);
    escape(name, sizeof name, file);
    snprintf(err.line, sizeof err.line, "%.255s: %.760s", name, old);
}

void status_at(const char *node, const char *op)
{
    char old[sizeof err.line];
    if (err.node[0] || !node) return;
    memcpy(old, err.line, sizeof old);
    fail_at(TG_OK, node, op, NULL, "%.800s", old);
}

const char *tg_error(void) { return err.line; }

void tg_error_where(const char **node, const char **op, const char **field)
{
    *node = err.node;
    *op = err.op;
    *field = err.field;
}
