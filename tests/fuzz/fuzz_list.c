/* Any text as a list of OptOps, and as lines of --opts that name kernels: what is taken prints as what is taken again.
 */
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/base/memory.h"
#include "sched/sched.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    memcpy(text, data, size);
    OptList list, again;
    Text printed = { 0 };
    if (opt_parse(&list, text) != TG_OK) {
        if (!*tg_error()) abort();
    } else {
        opt_print(&printed, &list);
        if (opt_parse(&again, printed.s ? printed.s : "") != TG_OK || again.count != list.count) abort();
    }
    text_free(&printed);
    if (choice_named_check(text) != TG_OK && !*tg_error()) abort();
    free(text);
    return 0;
}

static const char *const seeds[] = {
    "SPLIT 0 16 UPCAST; SPLIT 0 2 THREAD TOP; SWAP 2 1; TC 8 3; PACK 1",
    "r_16_196_512: SPLIT 2 4 UNROLL\ne_3*: \n# nothing\nr_2: NOLOCALS",
    "PADTO 1 32; MERGE 2; SPLIT 1 8 LOCAL; NEST 6; CUT 0 256; LANES 3",
    "schedule: STORE 3fa1c2d0; INLINE 7; LAST ffffffff 2\nschedule: WINOGRAD 1; DIRECT; JOIN SINGLE",
    "r_1:SPLIT 0 2147483647 UPCAST",
};

char *fuzz_seed(size_t k, size_t *size)
{
    return k < sizeof seeds / sizeof *seeds ? *size = strlen(seeds[k]), mem_text(seeds[k]) : NULL;
}
