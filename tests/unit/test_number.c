/* graph/base/number: where the host's locale parts decimals by a comma, kernels and graphs are still written in the C
 * locale, and the host's locale stays; plain formats are written as snprintf writes them. */
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/number.h"
#include "graph/base/text.h"
#include "tests/test.h"

/* A locale with a comma: one that is installed, else one that localedef makes in a folder of ours. */
static bool to_comma(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "nl_NL.UTF-8", "de_DE" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i])) return true;
    char folder[] = "/tmp/test_number_XXXXXX", command[200];
    if (!mkdtemp(folder)) return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    bool made = !system(command) && !setenv("LOCPATH", folder, 1) && setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return !system(command) && made;
}

static void numbers_have_points(void **state)
{
    (void)state;
    char s[32];
    Text t = { 0 };
    if (!to_comma()) skip();
    snprintf(s, sizeof s, "%g", 0.5);
    assert_string_equal(s, "0,5");
    number_print(s, sizeof s, "%g", 0.5);
    assert_string_equal(s, "0.5");
    assert_true(number_parse("0.25", NULL) == 0.25);
    text_add(&t, "%.9g", 1.5);
    assert_string_equal(t.s, "1.5");
    text_free(&t);
    snprintf(s, sizeof s, "%g", 0.5);
    assert_string_equal(s, "0,5");                      /* the host's own stays */
    setlocale(LC_ALL, "C");
}

/* As snprintf writes it, into any size. */
static void as_printf(const char *fmt, ...)
{
    for (size_t size = 0; size < 40; size++) {
        char ours[64], theirs[64];
        va_list ap, again;
        memset(ours, '#', sizeof ours), memset(theirs, '#', sizeof theirs);
        va_start(ap, fmt);
        va_copy(again, ap);
        assert_int_equal(number_vprint(ours, size, fmt, ap), vsnprintf(theirs, size, fmt, again));
        va_end(again);
        va_end(ap);
        assert_memory_equal(ours, theirs, sizeof ours);
    }
}

static void plain_formats(void **state)
{
    (void)state;
    as_printf("");
    as_printf("plain");
    as_printf("%s = %s;", "value", "");
    as_printf("%d %d %d %u", 0, INT_MIN, INT_MAX, UINT_MAX);
    as_printf("%ld %ld %lu", LONG_MIN, LONG_MAX, ULONG_MAX);
    as_printf("%lld", LLONG_MIN);
    as_printf("%lld%lld", LLONG_MAX, 7ll);
    as_printf("%c%c%%%s", 'a', 'b', "c");
    as_printf("100%% %d%%", 100);
    as_printf("%5d|%-4s|%.2f|%x", 42, "ab", 1.5, 255);
    as_printf("%.*s %08lx", 2, "abc", 0xbeeful);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_have_points), cmocka_unit_test(plain_formats) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
