/* Tensors for a model's ports: from files, specifications, test data folders or a seed. */
#ifndef TG_INPUTS_H
#define TG_INPUTS_H
#include "bench/args.h"

enum { PORTS_MAX = 1024, SETS_MAX = 256 };
typedef struct {
    TgTensor tensor;
    char source[200];
    bool known, mapped;
} Bound; /* source: where it came from, for people; mapped: by tg_tensor_map */

/* One set: a tensor a port; outputs hold what is expected, where that is known. */
typedef struct {
    char name[256];                 /* "test_data_set_0", a folder's file, or "" when made from options */
    int32_t ninput, noutput;
    Bound *input, *output;
    const char *given;              /* an option that gives what has a default value; or NULL */
} DataSet;
typedef struct { uint32_t count; DataSet *set; } Data;

/* All sets of --test-data, or of folders that -i names (else one), completed by -i, -s, --dim, -e and random numbers;
 * what was assumed is said as a note. Errors are said. */
TgStatus data_make(Data *out, TgSession *session, const Args *a);
const char *inputs_give(
    TgSession *s,
    const Args *a); /* -i NAME=.. of what has a default value makes it an input; the last of such options, or NULL */
void data_free(Data *d);
/* What is expected, from a file that stays mapped where it can: it is looked at once, and is none of the model's
 * memory. Takes the place of what b held. */
TgStatus expected_file(Bound *b, const char *path, const TgPort *port);
void bound_clear(Bound *b);
/* A tensor from a specification: a file, raw:FILE, zeros, ones, random.., i64[2]:3,4. port gives type and shape where
 * the specification does not. */
TgStatus spec_read(TgTensor *out, const char *spec, const TgPort *port, const int64_t *shape, int32_t rank,
                   uint64_t seed);
#endif
