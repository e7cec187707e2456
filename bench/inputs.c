/* In: options and a session's ports. Out: data sets. What is given by name is bound first, then files without a name
 * fill what is open, then random numbers. A free dimension takes its size from --shape, --dim, or a tensor in which its
 * symbol stands, else 1. A new form of specification is a row of `forms`. */
#include "bench/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/audio.h"
#include "bench/folders.h"
#include "bench/image.h"
#include "bench/maps.h"
#include "bench/say.h"
#include "bench/stats.h"
#include "bench/tokens.h"
#include "bench/values.h"

/* ---- specifications ---- */

typedef struct { const char *text; const TgPort *port; uint64_t seed; } Spec;
typedef TgStatus (*FillFn)(TgTensor *t, const Spec *s);

static TgStatus bad_spec(const Spec *s, const char *wanted)
{
    return say_error(TG_BAD_INPUT, "input '%s': '%s' is wrong; %s is wanted", s->port->name, s->text, wanted);
}

static TgStatus fill_zeros(TgTensor *t, const Spec *s) { return (void)t, (void)s, TG_OK; }

static TgStatus fill_ones(TgTensor *t, const Spec *s)
{
    (void)s;
    for (int64_t i = 0, n = tensor_numel(t); i < n; i++) value_put(t->type, t->data, i, 1);
    return TG_OK;
}

typedef enum { DRAW_NORMAL, DRAW_UNIFORM, DRAW_INTS } Draw;

static void draw_all(TgTensor *t, Draw draw, double a, double b, uint64_t seed)
{
    Random r = { seed };
    int64_t n = tensor_numel(t);
    for (int64_t i = 0; i < n; i++) {
        double v = draw == DRAW_NORMAL ? a + b * random_normal(&r)
            : draw == DRAW_UNIFORM     ? a + (b - a) * random_unit(&r)
                                       : (double)((int64_t)a + (int64_t)(random_unit(&r) * (b - a + 1)));
        value_put(t->type, t->data, i, v);
    }
}

/* Without a distribution: standard normal floats, small integers that are rarely out of somebody's range, coins. */
static TgStatus fill_random(TgTensor *t, const Spec *s)
{
    static const struct {
        const char *name;
        Draw draw;
    } draws[] = { { "uniform", DRAW_UNIFORM }, { "normal", DRAW_NORMAL }, { "ints", DRAW_INTS } };
    char name[16], end;
    double a, b;
    if (!strcmp(s->text, "random")) {
        bool coin = t->type == TG_BOOL;
        draw_all(t, type_is_float(t->type) ? DRAW_NORMAL : DRAW_INTS, 0, type_is_float(t->type) || coin ? 1 : 9,
                 s->seed);
        return TG_OK;
    }
    if (sscanf(s->text, "random:%15[a-z](%lf,%lf%c", name, &a, &b, &end) == 4 && end == ')')
        for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
            if (!strcmp(name, draws[i].name)) return draw_all(t, draws[i].draw, a, b, s->seed), TG_OK;
    return bad_spec(s, "random, random:uniform(a,b), random:normal(m,s) or random:ints(a,b)");
}

static TgStatus fill_raw(TgTensor *t, const Spec *s)
{
    const char *path = s->text + strlen("raw:");
    FILE *f = fopen(path, "rb");
    if (!f) return say_error(TG_BAD_INPUT, "input '%s': %s: %s", s->port->name, path, strerror(errno));
    size_t n = fread(t->data, 1, t->size_bytes, f);
    bool more = fgetc(f) != EOF;
    fclose(f);
    if (n == t->size_bytes && !more) return TG_OK;
    return say_error(TG_BAD_INPUT, "input '%s': %s has %s %zu bytes; %zu are wanted", s->port->name, path,
                     more ? "more than" : "only", n, t->size_bytes);
}

static const struct {
    const char *prefix;
    FillFn fill;
} forms[] = { { "zeros", fill_zeros }, { "ones", fill_ones }, { "random", fill_random }, { "raw:", fill_raw } };

/* A picture or a recording, whose shape follows from the file and the model. */
static bool is_medium(const char *s) { return !strncmp(s, "image:", 6) || !strncmp(s, "audio:", 6); }

static bool is_file_spec(const char *s)
{
    const char *zip = strstr(s, ".npz:");
    if (!strncmp(s, "raw:", 4) || is_medium(s)) return false;
    return !strcmp(s, "-") || ends_with(s, ".npy") || ends_with(s, ".npz") || ends_with(s, ".pb") ||
        ends_with(s, ".json") || (zip && zip[5]);
}

/* i64[2]:3,4 or f32:0.5; one value fills the whole tensor. *out is left alone when the text is no literal. */
static TgStatus read_literal(TgTensor *out, const Spec *s, bool *is_literal)
{
    const char *at = s->text + strcspn(s->text, "[:");
    TgType type = type_named(s->text, (size_t)(at - s->text));
    int64_t shape[TG_MAX_RANK], numel;
    int32_t rank = 0;
    int used;
    *is_literal = type && *at;
    if (!*is_literal) return TG_OK;
    if (*at == '[')
        for (at++; *at && *at != ']' && rank < TG_MAX_RANK; at += used, at += *at == ',')
            if (sscanf(at, "%ld%n", (long *)&shape[rank++], &used) != 1) return bad_spec(s, "TYPE[SIZES]:VALUES");
    at += *at == ']';
    if (*at != ':' || !(type_is_float(type) || type_is_integer(type)) || !tensor_new(out, type, shape, rank))
        return bad_spec(s, "TYPE[SIZES]:VALUES");
    numel = tensor_numel(out);
    int64_t n = 0;
    for (at++; *at && n < numel; n++, at += *at == ',') {
        char *end;
        if (type_is_integer(type)) value_put_int(type, out->data, n, strtoll(at, &end, 10));
        else value_put(type, out->data, n, strtod(at, &end));
        if (end == at || (*end && *end != ',')) return bad_spec(s, "a list of numbers");
        at = end;
    }
    if (n == 1) {
        for (; n < numel; n++)
            if (type_is_integer(type)) value_put_int(type, out->data, n, value_get_int(type, out->data, 0));
            else value_put(type, out->data, n, value_get(type, out->data, 0));
    }
    return *at || n < numel ? bad_spec(s, "one value, or one for each element,") : TG_OK;
}

TgStatus spec_read(TgTensor *out, const char *text, const TgPort *port, const int64_t *shape, int32_t rank,
                   uint64_t seed)
{
    Spec s = { text, port, seed };
    bool literal;
    if (ends_with(text, ".json")) return map_read(out, text, port);
    if (is_text_spec(text)) return text_read(out, text, port, shape, rank);
    if (is_medium(text)) return (*text == 'i' ? image_read : audio_read)(out, text, port);
    if (is_file_spec(text)) {
        TgStatus status = tg_tensor_read(out, text, port->type);
        return status == TG_OK ? TG_OK : say_library_error(status);
    }
    TgStatus status = read_literal(out, &s, &literal);
    if (literal || status != TG_OK) return status;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strncmp(text, forms[i].prefix, strlen(forms[i].prefix))) continue;
        if (!port->type) return say_error(TG_UNSUPPORTED, "input '%s' is of a type that is not covered", port->name);
        if (port->type == TG_STRING || port->type >= TG_SEQUENCE)
            return say_error(TG_BAD_INPUT, "input '%s' is %s, which only a file can give", port->name,
                             tg_type_name(port->type));
        if (!tensor_new(out, port->type, shape, rank))
            return say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
        return forms[i].fill(out, &s);
    }
    return bad_spec(&s,
                    "a file (.npy, .npz, .pb, .json), raw:FILE, image:FILE, audio:FILE, text(..):TEXT, zeros, ones, "
                    "random or TYPE[SIZES]:VALUES");
}

/* ---- names and sizes ---- */

typedef struct {
    const TgSession *session;
    const Args *args;
    DataSet *set;
    TgPort *in, *out;
    const int32_t *number;          /* [outputs] of each in the model; NULL: they are all there */
    struct { char symbol[64]; int64_t size; } dim[128];
    uint32_t ndim;
} Maker;

/* NAME=rest: the port of that name and rest; -1 and the whole when no port has it. */
static int32_t split_name(const TgPort *ports, int32_t n, const char *s, const char **rest)
{
    for (int32_t i = 0; i < n; i++) {
        size_t len = strlen(ports[i].name);
        if (!strncmp(s, ports[i].name, len) && s[len] == '=') return *rest = s + len + 1, i;
    }
    return *rest = s, -1;
}

/* NAME=FILE whose file is not there, where NAME is nobody's: the name is what is wrong. */
static bool names_nobody(const char *option, const char *s, const TgPort *ports, int32_t n)
{
    size_t len = strcspn(s, "=:[(");
    char known[400] = "";
    if (s[len] != '=' || !access(s, F_OK)) return false;
    for (int32_t i = 0; i < n && strlen(known) < 300; i++)
        snprintf(known + strlen(known), 100, "%s%.80s", i ? ", " : "", ports[i].name);
    say_error(TG_BAD_INPUT, "%s %s: none is named '%.*s'; there %s %s%s", option, s, (int)len, s, n == 1 ? "is" : "are",
              known, strlen(known) < 300 ? "" : ", ..");
    return true;
}

static int64_t dim_known(const Maker *m, const char *symbol)
{
    for (uint32_t i = 0; symbol && i < m->ndim; i++)
        if (!strncmp(m->dim[i].symbol, symbol, sizeof m->dim[i].symbol - 1)) return m->dim[i].size;
    return -1;
}

static void dim_set(Maker *m, const char *symbol, int64_t size)
{
    if (!symbol || !*symbol || dim_known(m, symbol) >= 0 || m->ndim == sizeof m->dim / sizeof *m->dim) return;
    snprintf(m->dim[m->ndim].symbol, sizeof m->dim->symbol, "%s", symbol);
    m->dim[m->ndim++].size = size;
}

static TgStatus dims_from_options(Maker *m)
{
    for (uint32_t i = 0; i < m->args->value[OPT_dim].count; i++) {
        const char *s = m->args->value[OPT_dim].v[i], *equals = strrchr(s, '=');
        int64_t size;
        if (equals && strstr(equals, ".."))
            continue; /* a range: the library's (args.c), and a size where nothing tells one (choose_shape) */
        if (!equals || equals == s || !parse_int(equals + 1, &size) || size < 0)
            return say_error(TG_USAGE, "--dim: '%s' is wrong; SYMBOL=8 or SYMBOL=1..64 is wanted", s);
        char symbol[64];
        snprintf(symbol, sizeof symbol, "%.*s", (int)(equals - s), s);
        bool known = false;
        for (int32_t k = 0; k < m->set->ninput; k++)
            for (int32_t d = 0; d < m->in[k].rank; d++)
                known |= m->in[k].symbol[d] && !strcmp(m->in[k].symbol[d], symbol);
        if (!known) return say_error(TG_USAGE, "--dim: no input has a dimension '%s'", symbol);
        if (dim_known(m, symbol) >= 0 && dim_known(m, symbol) != size)
            return say_error(TG_USAGE, "--dim: '%s' is given twice, as %ld and %ld", symbol,
                             (long)dim_known(m, symbol), (long)size);
        dim_set(m, symbol, size);
    }
    return TG_OK;
}

static TgStatus shape_option(const Maker *m, int32_t k, int64_t shape[TG_MAX_RANK], int32_t *rank)
{
    int given = 0;
    for (uint32_t i = 0; i < m->args->value[OPT_shape].count; i++) {
        const char *s = m->args->value[OPT_shape].v[i], *sizes;
        int32_t port = split_name(m->in, m->set->ninput, s, &sizes);
        if (port < 0)
            return say_error(TG_USAGE, "--shape: '%s' is wrong; NAME=1,3,224,224 with the name of an input is wanted",
                             s);
        if (port != k) continue;
        if (given++) return say_error(TG_USAGE, "--shape %s: the shape of '%s' is given twice", s, m->in[k].name);
        for (*rank = 0; *sizes && *rank < TG_MAX_RANK; sizes += *sizes == ',') {
            char *end;
            shape[(*rank)++] = strtoll(sizes, &end, 10);
            if (end == sizes || (*end && *end != ',') || shape[*rank - 1] < 0)
                return say_error(TG_USAGE, "--shape: '%s' is wrong; sizes between commas are wanted", s);
            sizes = end;
        }
    }
    return TG_OK;
}

/* The largest size of the range that --dim requests; 1 without one. */
static int64_t size_assumed(const Maker *m, const char *symbol)
{
    int64_t size = 1;
    for (uint32_t i = 0; symbol && i < m->args->value[OPT_dim].count; i++) {
        const char *s = m->args->value[OPT_dim].v[i], *dots = strstr(s, "..");
        bool named =
            dots && (!strncmp(s, "*=", 2) || (!strncmp(s, symbol, strlen(symbol)) && s[strlen(symbol)] == '='));
        if (named) parse_int(dots + 2, &size);
    }
    return size;
}

/* The sizes of an input that are known; -1 where none is. */
static TgStatus known_shape(const Maker *m, int32_t k, int64_t shape[TG_MAX_RANK], int32_t *rank)
{
    const TgPort *p = &m->in[k];
    *rank = p->rank < 0 ? 0 : p->rank;
    for (int32_t d = 0; d < *rank; d++) shape[d] = p->shape[d] >= 0 ? p->shape[d] : -1;
    TgStatus status = shape_option(m, k, shape, rank);
    for (int32_t d = 0; d < *rank && status == TG_OK; d++)
        if (shape[d] < 0) shape[d] = dim_known(m, d < p->rank ? p->symbol[d] : NULL);
    return status;
}

/* The shape of a generated input; what had to be assumed is said. */
static TgStatus choose_shape(Maker *m, int32_t k, int64_t shape[TG_MAX_RANK], int32_t *rank)
{
    const TgPort *p = &m->in[k];
    TgStatus status = known_shape(m, k, shape, rank);
    if (status != TG_OK) return status;
    for (int32_t d = 0; d < *rank; d++) {
        const char *symbol = d < p->rank ? p->symbol[d] : NULL;
        if (shape[d] >= 0) continue;
        shape[d] = size_assumed(m, symbol);
        say_note("assumed: input '%s' axis %d%s%s%s is %ld (--dim or --shape sets it)", p->name, d,
                 symbol && *symbol ? " (" : "", symbol ? symbol : "", symbol && *symbol ? ")" : "", (long)shape[d]);
    }
    return TG_OK;
}

/* ---- binding ---- */

/* --shape and an array that is given say the same, or one of them is a mistake. */
static TgStatus shape_agrees(const Maker *m, int32_t k, const TgTensor *t)
{
    int64_t shape[TG_MAX_RANK];
    int32_t rank = -1;
    TgStatus status = shape_option(m, k, shape, &rank);
    if (status != TG_OK || rank < 0 || holds_tensors(t)) return status;
    bool same = rank == t->rank;
    for (int32_t d = 0; d < rank && same; d++) same = shape[d] == t->shape[d];
    return same ? TG_OK : say_error(TG_USAGE, "--shape: input '%s' is given with another shape", m->in[k].name);
}

static TgStatus bind(Maker *m, int32_t k, const char *spec)
{
    int64_t shape[TG_MAX_RANK];
    int32_t rank = 0;
    Bound *b = &m->set->input[k];
    bool text = is_text_spec(spec), file = is_file_spec(spec) || is_medium(spec) || text;
    TgStatus status = text ? known_shape(m, k, shape, &rank) : file ? TG_OK : choose_shape(m, k, shape, &rank);
    if (status == TG_OK)
        status = spec_read(&b->tensor, spec, &m->in[k], shape, rank,
                           (uint64_t)args_count(m->args, OPT_seed, 0) * 1000003 + (uint64_t)k + 1);
    if (status == TG_OK && file) status = shape_agrees(m, k, &b->tensor);
    if (status != TG_OK) return status;
    b->known = true;
    if (file || strncmp(spec, "random", 6)) snprintf(b->source, sizeof b->source, "%.199s", spec);
    else snprintf(b->source, sizeof b->source, "%.150s, seed %ld", spec, (long)args_count(m->args, OPT_seed, 0));
    for (int32_t d = 0; !holds_tensors(&b->tensor) && d < m->in[k].rank && d < b->tensor.rank; d++)
        dim_set(m, m->in[k].symbol[d], b->tensor.shape[d]);
    return TG_OK;
}

static int32_t first_open(const Maker *m)
{
    for (int32_t k = 0; k < m->set->ninput; k++)
        if (!m->set->input[k].known) return k;
    return -1;
}

/* An archive's keys are names of inputs. */
static TgStatus bind_archive(Maker *m, const char *path)
{
    uint32_t found = 0;
    for (int32_t k = 0; k < m->set->ninput; k++) {
        char spec[4096];
        snprintf(spec, sizeof spec, "%s:%s", path, m->in[k].name);
        TgTensor t;
        if (m->set->input[k].known || tg_tensor_read(&t, spec, m->in[k].type) != TG_OK) continue;
        tg_tensor_free(&t);
        TgStatus status = bind(m, k, spec);
        if (status != TG_OK) return status;
        found++;
    }
    return found ? TG_OK : say_error(TG_BAD_INPUT, "%s: no key is the name of an input that is open", path);
}

/* A text is for every open input that takes tokens. */
static TgStatus bind_text(Maker *m, const char *spec)
{
    bool found = false;
    for (int32_t k = 0; k < m->set->ninput; k++) {
        if (m->set->input[k].known || !takes_tokens(&m->in[k])) continue;
        TgStatus status = bind(m, k, spec);
        if (status != TG_OK) return status;
        found = true;
    }
    return found ? TG_OK : say_error(TG_BAD_INPUT, "-i %s: no input that is open takes tokens", spec);
}

/* Named ones first, so that "the only input left open" does not depend on the order of options. */
static TgStatus bind_options(Maker *m, bool named)
{
    for (uint32_t i = 0; i < m->args->value[OPT_input].count; i++) {
        const char *rest, *s = m->args->value[OPT_input].v[i];
        int32_t k = split_name(m->in, m->set->ninput, s, &rest);
        TgStatus status = TG_OK;
        if ((k >= 0) != named) continue;
        if (k < 0 && names_nobody("-i", s, m->in, m->set->ninput)) return TG_BAD_INPUT;
        if (k < 0 && ends_with(rest, ".npz")) status = bind_archive(m, rest);
        else if (k < 0 && is_text_spec(rest)) status = bind_text(m, rest);
        else if (k < 0 && (k = first_open(m)) < 0)
            status = say_error(TG_BAD_INPUT, "-i %s: every input is given already, and none has that name", s);
        else if (named && m->set->input[k].known)
            status = say_error(TG_USAGE, "-i %s: input '%s' is given twice", s, m->in[k].name);
        else if (named || k >= 0) status = bind(m, k, rest);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

/* ---- test data folders ---- */

void bound_clear(Bound *b)
{
    if (b->mapped) tg_tensor_unmap(&b->tensor);
    else tg_tensor_free(&b->tensor);
    b->known = b->mapped = false;
}

TgStatus expected_file(Bound *b, const char *path, const TgPort *port)
{
    bound_clear(b);
    b->mapped = tg_tensor_map(&b->tensor, path, port->type) == TG_OK;
    TgStatus status = b->mapped ? TG_OK : spec_read(&b->tensor, path, port, NULL, 0, 0);
    b->known = status == TG_OK;
    snprintf(b->source, sizeof b->source, "%.199s", path);
    return status;
}

static bool find_file(char *path, size_t cap, const char *dir, const char *stem, int32_t k)
{
    static const char *const suffixes[] = { "npy", "pb", "json" };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        struct stat st;
        snprintf(path, cap, "%s/%s_%d.%s", dir, stem, k, suffixes[i]);
        if (!stat(path, &st)) return true;
    }
    return false;
}

static TgStatus read_folder(Maker *m, const char *dir)
{
    char path[4096];
    bool found = !m->set->ninput;
    for (int32_t k = 0; k < m->set->ninput; k++)
        if (find_file(path, sizeof path, dir, "input", k)) {
            TgStatus status = bind(m, k, path);
            if (status != TG_OK) return status;
            found = true;
        }
    for (int32_t k = 0; k < m->set->noutput; k++) {
        Bound *b = &m->set->output[k];
        if (!find_file(path, sizeof path, dir, "output", m->number ? m->number[k] : k)) continue;
        TgStatus status = expected_file(b, path, &m->out[k]);
        if (status != TG_OK) return status;
        b->known = found = true;
        snprintf(b->source, sizeof b->source, "%.199s", path);
    }
    return found ? TG_OK
                 : say_error(TG_BAD_INPUT, "--test-data: %s has no test_data_set_K, no input_N and no output_N", dir);
}

static TgStatus expected_options(Maker *m)
{
    for (uint32_t i = 0; i < m->args->value[OPT_expected].count; i++) {
        const char *rest;
        int32_t k = split_name(m->out, m->set->noutput, m->args->value[OPT_expected].v[i], &rest);
        if (k < 0 && names_nobody("-e", rest, m->out, m->set->noutput)) return TG_BAD_INPUT;
        for (int32_t open = 0; k < 0 && open < m->set->noutput; open++)
            if (!m->set->output[open].known) k = open;
        if (k < 0)
            return say_error(TG_USAGE, "-e %s: no output has that name, or every output has its expectation", rest);
        Bound *b = &m->set->output[k];
        bound_clear(b);
        TgStatus status = is_file_spec(rest)
            ? expected_file(b, rest, &m->out[k])
            : spec_read(&b->tensor, rest, &m->out[k], m->out[k].shape, m->out[k].rank < 0 ? 0 : m->out[k].rank, 0);
        if (status != TG_OK) return status;
        b->known = true;
        snprintf(b->source, sizeof b->source, "%.199s", rest);
    }
    return TG_OK;
}

static TgStatus set_make(DataSet *set, const TgSession *session, const Args *a, TgPort *in, TgPort *out,
                         const int32_t *number, const char *dir)
{
    Maker m = { .session = session, .args = a, .set = set, .in = in, .out = out, .number = number };
    set->ninput = tg_input_count(session);
    set->noutput = tg_output_count(session);
    set->input = calloc((size_t)set->ninput + 1, sizeof(Bound));
    set->output = calloc((size_t)set->noutput + 1, sizeof(Bound));
    if (!set->input || !set->output) return say_error(TG_LIMIT, "no memory for the list of ports");
    TgStatus status = dims_from_options(&m);
    if (status == TG_OK) status = bind_options(&m, true);
    if (status == TG_OK && dir) status = read_folder(&m, dir);
    if (status == TG_OK) status = bind_options(&m, false);
    bool some = false;
    for (int32_t k = 0; k < set->ninput; k++) some |= set->input[k].known;
    for (int32_t k; status == TG_OK && (k = first_open(&m)) >= 0;)
        status = some ? say_error(TG_BAD_INPUT, "input '%s' has no value, though others have; -i %s=random makes one",
                                  in[k].name, in[k].name)
                      : bind(&m, k, "random");
    return status == TG_OK ? expected_options(&m) : status;
}

static int set_number(const char *name)
{
    int n, used = 0;
    return sscanf(name, "test_data_set_%d%n", &n, &used) == 1 && !name[used] ? n : -1;
}

static int by_number(const void *a, const void *b)
{
    return set_number(*(char *const *)a) - set_number(*(char *const *)b);
}

/* Names of the sets below dir in order of their numbers; 0: dir is a set itself. */
static uint32_t list_sets(const char *dir, char *names[SETS_MAX])
{
    DIR *d = opendir(dir);
    uint32_t n = 0;
    for (struct dirent *e; d && n < SETS_MAX && (e = readdir(d));)
        if (set_number(e->d_name) >= 0) names[n++] = strdup(e->d_name);
    if (d) closedir(d);
    qsort(names, n, sizeof *names, by_number);
    return n;
}

static TgStatus ports_of(const TgSession *s, TgPort **in, TgPort **out)
{
    int32_t nin = tg_input_count(s), nout = tg_output_count(s);
    TgStatus status = TG_OK;
    *in = calloc((size_t)nin + 1, sizeof **in);
    *out = calloc((size_t)nout + 1, sizeof **out);
    if (!*in || !*out) return say_error(TG_LIMIT, "no memory for the list of ports");
    for (int32_t k = 0; k < nin && status == TG_OK; k++) status = tg_input(s, k, &(*in)[k]);
    for (int32_t k = 0; k < nout && status == TG_OK; k++) status = tg_output(s, k, &(*out)[k]);
    return status == TG_OK ? status : say_library_error(status);
}

const char *inputs_give(TgSession *s, const Args *a)
{
    const char *given = NULL;
    for (uint32_t i = 0; i < a->value[OPT_input].count; i++) {
        const char *spec = a->value[OPT_input].v[i];
        size_t len = strcspn(spec, "=");
        char name[len + 1];
        memcpy(name, spec, len);
        name[len] = 0;
        if (spec[len] && tg_give(s, name, 1) == TG_OK) given = spec;
    }
    return given;
}

/* --outputs: number of the one whose name is n bytes long, or -1 */
static int32_t output_named(const TgSession *s, const char *name, size_t n)
{
    TgPort p;
    for (int32_t k = 0; k < tg_output_count(s) && tg_output(s, k, &p) == TG_OK; k++)
        if (strlen(p.name) == n && !memcmp(p.name, name, n)) return k;
    return -1;
}

/* Makes the outputs that --outputs names the session's. number: theirs, in the model; NULL: there is no such option. */
static TgStatus outputs_select(int32_t **number, TgSession *s, const Args *a)
{
    int32_t n = 0, most = 0;
    *number = NULL;
    if (!args_has(a, OPT_outputs)) return TG_OK;
    for (uint32_t i = 0; i < a->value[OPT_outputs].count; i++)
        for (const char *c = a->value[OPT_outputs].v[i]; c; c = strchr(c + 1, ',')) most++;
    if (!(*number = malloc(sizeof **number * (size_t)most))) return say_error(TG_LIMIT, "no memory for --outputs");
    for (uint32_t i = 0; i < a->value[OPT_outputs].count; i++) {
        const char *name = a->value[OPT_outputs].v[i];
        for (size_t len = output_named(s, name, strlen(name)) >= 0 ? strlen(name) : strcspn(name, ",");;
             name += len + 1, len = strcspn(name, ",")) {
            if (((*number)[n++] = output_named(s, name, len)) < 0)
                return say_error(TG_USAGE, "--outputs: the model has no output '%.*s'", (int)len, name);
            if (!name[len]) break;
        }
    }
    TgStatus status = tg_select_outputs(s, *number, n);
    return status == TG_OK ? status : say_library_error(status);
}

TgStatus data_make(Data *out, TgSession *session, const Args *a)
{
    const char *dir = args_text(a, OPT_test_data, NULL);
    char *names[SETS_MAX] = { NULL };
    uint32_t n = 0;
    struct stat st;
    Folders folders;
    *out = (Data){ 0 };
    if (dir && (stat(dir, &st) || !S_ISDIR(st.st_mode)))
        return say_error(TG_BAD_INPUT, "--test-data: %s is no folder", dir);
    if (dir) n = list_sets(dir, names);
    TgPort *in, *ports_out;
    const char *given = inputs_give(session, a);
    int32_t *number;
    TgStatus chosen = outputs_select(&number, session, a), status = ports_of(session, &in, &ports_out);
    if (chosen != TG_OK) status = chosen;
    if (status == TG_OK) status = folders_list(&folders, a);
    else folders = (Folders){ 0 };
    uint32_t count = folders.count ? folders.count : n ? n : 1;
    *out = (Data){ count, calloc(count, sizeof(DataSet)) };
    for (uint32_t i = 0; i < out->count && out->set && status == TG_OK; i++) {
        char path[4096], text[FOLDERS_MAX][SPEC_BYTES];
        Args one = *a;
        const char *name = folders.count ? folders_name(&folders, i) : n ? names[i] : "";
        snprintf(path, sizeof path, "%s%s%s", dir ? dir : "", n ? "/" : "", n ? names[i] : "");
        snprintf(out->set[i].name, sizeof out->set[i].name, "%s", name);
        out->set[i].given = given;
        if (folders.count) folders_args(&folders, i, &one, text);
        status = set_make(&out->set[i], session, &one, in, ports_out, number, dir ? path : NULL);
    }
    for (uint32_t i = 0; i < n; i++) free(names[i]);
    folders_free(&folders);
    free(in);
    free(ports_out);
    free(number);
    return status;
}

void data_free(Data *d)
{
    for (uint32_t i = 0; d->set && i < d->count; i++) {
        for (int32_t k = 0; d->set[i].input && k < d->set[i].ninput; k++) bound_clear(&d->set[i].input[k]);
        for (int32_t k = 0; d->set[i].output && k < d->set[i].noutput; k++) bound_clear(&d->set[i].output[k]);
        free(d->set[i].input);
        free(d->set[i].output);
    }
    free(d->set);
}
