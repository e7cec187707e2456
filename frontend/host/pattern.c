/* See pattern.h. PCRE2 has more than RE2: what RE2 lacks is refused. Tokens are the longest that match, as
 * onnxruntime's are, which PCRE2's other matcher finds where a pattern leaves a choice. */
#include "frontend/host/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/base/status.h"
#include "graph/base/text.h"

/* What PCRE2 has and RE2 has not; NULL: nothing. */
static const char *foreign(const char *p)
{
    for (bool inside = false; *p; p++) {
        if (*p == '\\') {
            if (!*++p) return "a backslash at its end";
            if (*p == 'Q') {
                const char *end = strstr(p, "\\E");
                if (!end) return NULL;
                p = end + 1;
            } else if (*p >= '1' && *p <= '9' && !(p[1] >= '0' && p[1] <= '7'))
                return "a reference to what a group matched";
            else if (strchr("GHKNRVXYZehgkluoL", *p)) return "an escape that RE2 has not";
        } else if (inside) inside = *p != ']';
        else if (*p == '[') {
            inside = true;
            if (p[1] == '^') p++;
            if (p[1] == ']') p++;
        } else if (*p == '(' &&
                   (p[1] == '*' ||
                    (p[1] == '?' && strchr("=!>|&#R+-0123456789(C'", p[2]) && !(p[2] == '-' && p[3] >= 'a'))))
            return "a group that RE2 has not";
        else if (*p == '(' && p[1] == '?' && p[2] == '<' && (p[3] == '=' || p[3] == '!'))
            return "a group that RE2 has not";
        else if (*p && strchr("*+?}", *p) && p[1] == '+') return "a quantifier that gives nothing back";
    }
    return NULL;
}

/* May the first match that PCRE2 finds be shorter than the longest at its place? */
static bool has_choices(const char *p)
{
    int repeats = 0;
    for (; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
            continue;
        }
        if (*p == '[') {
            p += p[1] == '^' ? 2 : 1;
            for (p += *p == ']'; *p && *p != ']'; p++) p += *p == '\\' && p[1];
            if (!*p) return true;
        }
        if (*p == '|' || *p == '?' || *p == '{') return true;
        repeats += *p == '*' || *p == '+';
    }
    return repeats > 1;
}

/* full: it matches a string as a whole. */
static pcre2_code *pattern_of(const char *pattern, bool full, TgStatus *status, char *why, size_t size)
{
    enum { LENGTH_MAX = 100000 };
    *status = TG_UNSUPPORTED;
    const char *not = foreign(pattern);
    if (not) return snprintf(why, size, "has %s", not), NULL;
    if (strlen(pattern) > LENGTH_MAX)
        return *status = TG_LIMIT, snprintf(why, size, "is longer than %d bytes", LENGTH_MAX), NULL;
    Text t = { 0 };
    int bad;
    size_t at;
    text_add(&t, full ? "\\A(?:%s)\\z" : "%s", pattern);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)t.s, t.len,
                                     PCRE2_UTF | (full || !has_choices(pattern) ? PCRE2_MATCH_INVALID_UTF : 0) |
                                         PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C,
                                     &bad, &at, NULL);
    text_free(&t);
    *status = code ? TG_OK
        : bad == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP || bad == PCRE2_ERROR_PATTERN_TOO_LARGE ||
            bad == PCRE2_ERROR_PATTERN_TOO_COMPLICATED
        ? TG_LIMIT
        : TG_UNSUPPORTED;
    if (code) return code;
    char reason[160];
    pcre2_get_error_message(bad, (PCRE2_UCHAR *)reason, sizeof reason);
    snprintf(why, size, "is wrong: %s", reason);
    return NULL;
}

TgStatus pattern_check(const char *pattern, char *why, size_t size)
{
    TgStatus status;
    pcre2_code_free(pattern_of(pattern, false, &status, why, size));
    return status;
}

/* A pattern at work. longest: of the matches at the leftmost place. */
struct Matcher {
    char *pattern;
    bool full, longest;
    int64_t strings;                /* that it has been used for */
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    int *space;
    size_t spaces;
};

static void matcher_close(Matcher *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_code_free(m->code);
    mem_free(m->space);
    mem_free(m->pattern);
    *m = (Matcher){ 0 };
}

enum { KEPT = 4, JIT_FROM = 64 };           /* patterns of a thread; strings from which on machine code pays */
typedef struct { Matcher of[KEPT]; uint32_t next; } Matchers;
static pthread_key_t matchers_key;

static void free_matchers(void *p)
{
    Matchers *all = p;
    for (int k = 0; k < KEPT; k++) matcher_close(&all->of[k]);
    mem_free(all);
}

static void make_matchers_key(void) { pthread_key_create(&matchers_key, free_matchers); }

static Matchers *matchers(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_matchers_key);
    Matchers *all = pthread_getspecific(matchers_key);
    if (all) return all;
    mem_keep(all = mem_zeros(1, sizeof *all));
    pthread_setspecific(matchers_key, all);
    return all;
}

TgStatus matcher_of(Matcher **out, const char *pattern, bool full, int64_t strings)
{
    char why[256];
    TgStatus status;
    Matchers *all = matchers();
    Matcher *m = NULL;
    for (int k = 0; k < KEPT && !m; k++)
        if (all->of[k].code && all->of[k].full == full && !strcmp(all->of[k].pattern, pattern)) m = &all->of[k];
    if (!m) {
        Matcher made = { .full = full, .longest = !full && has_choices(pattern), .spaces = 1024 };
        made.pattern = mem_text(pattern);
        made.space = mem_new(made.spaces * sizeof *made.space);
        made.code = pattern_of(pattern, full, &status, why, sizeof why);
        made.data = made.code ? pcre2_match_data_create(made.longest ? 1 : 16, NULL) : NULL;
        made.context = made.data ? pcre2_match_context_create(NULL) : NULL;
        if (!made.context) {
            bool bad = !made.code;
            matcher_close(&made);
            return bad ? fail(status, "the pattern '%.80s' %s", pattern, why) : fail(TG_LIMIT, "out of memory");
        }
        mem_keep(made.pattern), mem_keep(made.space);
        m = &all->of[all->next++ % KEPT];
        matcher_close(m);
        *m = made;
        pcre2_set_match_limit(m->context, 10000000);
    }
    if (m->strings < JIT_FROM && (m->strings += strings) >= JIT_FROM && !m->longest)
        pcre2_jit_compile(m->code, PCRE2_JIT_COMPLETE);
    return *out = m, TG_OK;
}

TgStatus matcher_next(Matcher *m, const char *s, size_t len, size_t at, size_t *begin, size_t *end, bool *found)
{
    int n, shown = len < 40 ? (int)len : 40;
    do {
        if (!m->longest) n = pcre2_match(m->code, (PCRE2_SPTR)s, len, at, 0, m->data, m->context);
        else n = pcre2_dfa_match(m->code, (PCRE2_SPTR)s, len, at, 0, m->data, m->context, m->space, m->spaces);
        if (n == PCRE2_ERROR_DFA_WSSIZE && m->spaces < 1 << 24) {
            int *more = mem_try_grow(m->space, 4 * m->spaces * sizeof *m->space);
            if (!more) return fail(TG_LIMIT, "no memory for the pattern '%.40s'", m->pattern);
            m->space = more;
            m->spaces *= 4;
        } else if (n <= PCRE2_ERROR_UTF8_ERR1 && n >= PCRE2_ERROR_UTF8_ERR21)
            return fail(TG_BAD_INPUT, "the string '%.*s' is not UTF-8, which the pattern '%.40s' wants", shown, s,
                        m->pattern);
        else if (n < 0 && n != PCRE2_ERROR_NOMATCH)
            return fail(TG_LIMIT, "a pattern takes too many steps for the string '%.*s'", shown, s);
        else break;
    } while (true);
    *found = n >= 0;
    if (*found) *begin = pcre2_get_ovector_pointer(m->data)[0], *end = pcre2_get_ovector_pointer(m->data)[1];
    return TG_OK;
}
