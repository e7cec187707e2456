/* Any bytes as a regular expression and, behind the first line, a text that it is looked for in. */
#include <stdlib.h>
#include <string.h>

#include "frontend/host/pattern.h"
#include "graph/base/memory.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[200] = "", *pattern = calloc(1, size + 1);
    const uint8_t *line = memchr(data, '\n', size);
    size_t n = line ? (size_t)(line - data) : size, at = 0, begin, end;
    memcpy(pattern, data, n);
    const char *text = line ? (const char *)line + 1 : "";
    size_t length = line ? size - n - 1 : 0;
    Matcher *m;
    if (pattern_check(pattern, why, sizeof why) != TG_OK) {
        if (!*why) abort();
    } else if (matcher_of(&m, pattern, false, 1) == TG_OK) {
        bool found = true;
        for (int times = 0; found && at <= length && times < 100; times++, at = end > at ? end : at + 1) {
            if (matcher_next(m, text, length, at, &begin, &end, &found) != TG_OK) break;
            if (found && (begin < at || end < begin || end > length)) abort();
        }
    }
    free(pattern);
    return 0;
}

static const char *const seeds[] = {
    "a*b|c\naabcb",  "a*b|c\naab\306b", "(\\w+)\\s(\\d{2,3})[^x-z]\nword 123", "[[:alpha:]]+?$\nabc",   "(?i)x\\x41\\pL\\b\nXA\303\251",
    "((a|b)*)*c\naaaa", "^\\Q.*\\E.\\C?\n.*x",                "[a\\]b]{1,1000}\n]a]b", "(?P<n>[\\D\\t])(?:)\n\t",
};

char *fuzz_seed(size_t k, size_t *size)
{
    return k < sizeof seeds / sizeof *seeds ? *size = strlen(seeds[k]), mem_text(seeds[k]) : NULL;
}
