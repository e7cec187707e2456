/* graph/base/number: where the host's locale parts decimals by a comma, kernels and graphs are still written in the C
 * locale, and the host's locale stays. */
#include <locale.h>
#include <stdbool.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_have_points) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
