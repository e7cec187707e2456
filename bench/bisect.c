/* The verb `bisect`: the first node whose value differs from another side's.
 *
 * In: a model, its inputs, and who else computes them. Out: a node whose output is outside the tolerance while all that
 * it reads is inside; the smallest part of the model around it that differs on the other side's own values; and, by the
 * same part in f64, which of the two is wrong. Values become outputs of the model some at a time. Those above a value
 * that agrees are taken to agree, until what the node found reads has been compared itself. Where looking at values
 * makes the difference go away (they are no longer computed inside a kernel), they are looked at one by one, each as
 * the only output of a part.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/peer.h"
#include "bench/probe.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/values.h"
#include "bench/verbs.h"

enum { AT_ONCE = 12 };
static const double REFERENCE_FLOPS = 2e8;      /* more than that waits too long for the interpreter */
static const double AS_FAR = 4;                 /* errors whose ratio is below that are both roundings */

typedef enum { NEW, AGREES, DIFFERS } Seen;
typedef struct { const char *name; int32_t node; Seen seen; } Value;
typedef enum { OURS_WRONG, THEIRS_WRONG, ROUNDING, UNDECIDED } Verdict;

typedef struct {
    Sides sides;
    Data data;
    TgSession *session;
    int32_t nnode, nvalue, probes;
    TgNode *node;
    Value *value;               /* what nodes make, in their order */
    const Value **by_name;
    bool *above, *settled;      /* of nodes: above the value looked for; above one that agrees */
    bool alone;                 /* values are looked at one by one */
    Value *bad;
    Comparison difference;      /* of bad */
    const char *output;         /* of the model, that differs */
    Comparison first;           /* of output */
    bool *inside;               /* of nodes: in the smallest part */
    int32_t ninside;
    Verdict verdict;
    double our_error, their_error;      /* rms against f64, relative to its rms */
    char why[200], dir[1024];
} Bisect;

/* ---- the graph ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(Value *const *)a)->name, (*(Value *const *)b)->name);
}

static Value *value_named(const Bisect *b, const char *name)
{
    Value key = { .name = name }, *at = &key;
    Value **found = bsearch(&at, b->by_name, (size_t)b->nvalue, sizeof *b->by_name, by_name);
    return found ? *found : NULL;
}

static TgStatus graph_read(Bisect *b)
{
    TgNode n;
    while (tg_node(b->session, b->nnode, &n)) b->nnode++, b->nvalue += n.output_count;
    size_t count = (size_t)b->nnode + 1;
    b->node = calloc(count, sizeof *b->node);
    b->above = calloc(count, sizeof *b->above);
    b->settled = calloc(count, sizeof *b->settled);
    b->inside = calloc(count, sizeof *b->inside);
    b->value = calloc((size_t)b->nvalue + 1, sizeof *b->value);
    b->by_name = calloc((size_t)b->nvalue + 1, sizeof *b->by_name);
    if (!b->node || !b->above || !b->settled || !b->inside || !b->value || !b->by_name)
        return say_error(TG_LIMIT, "no memory for the graph");
    b->nvalue = 0;
    for (int32_t i = 0; i < b->nnode; i++) {
        tg_node(b->session, i, &b->node[i]);
        for (int32_t k = 0; k < b->node[i].output_count; k++)
            if (*b->node[i].output[k]) b->value[b->nvalue++] = (Value){ .name = b->node[i].output[k], .node = i };
    }
    for (int32_t k = 0; k < b->nvalue; k++) b->by_name[k] = &b->value[k];
    qsort(b->by_name, (size_t)b->nvalue, sizeof *b->by_name, by_name);
    return TG_OK;
}

/* Marks that node and all that it reads, directly or not. Nodes stand behind those that they read, so one walk
 * backwards does. */
static void mark_above(const Bisect *b, bool *mark, int32_t node)
{
    mark[node] = true;
    for (int32_t i = node; i >= 0; i--)
        for (int32_t k = 0; mark[i] && k < b->node[i].input_count; k++) {
            const Value *v = value_named(b, b->node[i].input[k]);
            if (v) mark[v->node] = true;
        }
}

/* ---- the search ---- */

static TgStatus look(Bisect *b, Probe *p, const char *const *name, int32_t n, const Cut *cut)
{
    b->probes++;
    return probe(p, &b->sides, name, n, cut);
}

/* Values above the one found that nobody has looked at; direct: of those, what its node reads itself. */
static int32_t candidates(const Bisect *b, Value **list, bool direct)
{
    int32_t n = 0;
    const TgNode *node = &b->node[b->bad->node];
    for (int32_t k = 0; k < b->nvalue; k++) {
        Value *v = &b->value[k];
        if (!b->above[v->node] || v->node == b->bad->node || v->seen != NEW || (!direct && b->settled[v->node]))
            continue;
        bool reads = !direct;
        for (int32_t i = 0; i < node->input_count && !reads; i++) reads = !strcmp(node->input[i], v->name);
        if (reads) list[n++] = v;
    }
    return n;
}

/* Values to look at next, spread evenly over those that may be the first to differ; when none is left, what the node
 * found reads. */
static int32_t choose(const Bisect *b, Value *pick[AT_ONCE])
{
    int32_t most = b->alone ? 1 : AT_ONCE - 1;
    Value **list = calloc((size_t)b->nvalue + 1, sizeof *list);
    int32_t n = list ? candidates(b, list, false) : 0;
    if (list && !n) n = candidates(b, list, true);
    if (n < most) most = n;
    for (int32_t k = 0; k < most; k++) pick[k] = list[(int64_t)(2 * k + 1) * n / (2 * most)];
    free(list);
    return most;
}

static void found(Bisect *b, Value *v, const Comparison *c)
{
    v->seen = DIFFERS;
    b->bad = v;
    b->difference = *c;
    memset(b->above, 0, (size_t)b->nnode * sizeof *b->above);
    mark_above(b, b->above, v->node);
}

/* One step: looks at some values. The first that differs takes the place of the one that did. */
static TgStatus step(Bisect *b, Value *const *pick, int32_t n)
{
    const char *name[AT_ONCE];
    Probe p;
    for (int32_t k = 0; k < n; k++) name[k] = pick[k]->name;
    if (!b->alone) name[n] = b->bad->name;
    TgStatus status = look(b, &p, name, n + !b->alone, NULL);
    int32_t first = -1;
    for (int32_t k = 0; k < n && status == TG_OK && first < 0; k++)
        if (!p.compare[k].ok) first = k;
    bool hidden = status == TG_OK && first < 0 && !b->alone && p.compare[n].ok;
    if (hidden) b->alone = true;
    for (int32_t k = 0; k < n && status == TG_OK && !hidden; k++) {
        if (!p.compare[k].ok) continue;
        pick[k]->seen = AGREES;
        if (p.set.output[k].known) mark_above(b, b->settled, pick[k]->node);
    }
    if (first >= 0) found(b, pick[first], &p.compare[first]);
    probe_free(&p);
    return status;
}

static TgStatus search(Bisect *b)
{
    Value *pick[AT_ONCE];
    TgStatus status = TG_OK;
    for (int32_t n; status == TG_OK && (n = choose(b, pick)) > 0;) status = step(b, pick, n);
    return status;
}

/* ---- the smallest part ---- */

typedef struct { Cut cut; Probe source; const char **name; } Around;

static void around_free(Around *a)
{
    free(a->cut.name);
    free(a->cut.value);
    free(a->name);
    probe_free(&a->source);
}

static bool makes_constant(const TgNode *n) { return !n->input_count; }

/* Is the value needed by what is inside, and made outside? */
static bool crosses(const Bisect *b, const Value *v)
{
    if (b->inside[v->node] || makes_constant(&b->node[v->node])) return false;
    for (int32_t i = 0; i < b->nnode; i++)
        for (int32_t k = 0; b->inside[i] && k < b->node[i].input_count; k++)
            if (!strcmp(b->node[i].input[k], v->name)) return true;
    return false;
}

/* What enters the part, as the other side has it. Sequences and optionals cannot be given to a part: it computes them
 * itself. */
static TgStatus around(Bisect *b, Around *a)
{
    *a = (Around){ .name = calloc((size_t)b->nvalue + 1, sizeof *a->name) };
    a->cut.name = calloc((size_t)b->nvalue + 1, sizeof *a->cut.name);
    a->cut.value = calloc((size_t)b->nvalue + 1, sizeof *a->cut.value);
    int32_t n = 0;
    if (!a->name || !a->cut.name || !a->cut.value) return say_error(TG_LIMIT, "no memory for a part's inputs");
    for (int32_t k = 0; k < b->nvalue; k++)
        if (crosses(b, &b->value[k])) a->name[n++] = b->value[k].name;
    TgStatus status = n ? look(b, &a->source, a->name, n, NULL) : TG_OK;
    for (int32_t k = 0; k < n && status == TG_OK; k++) {
        const TgTensor *t = &a->source.set.output[k].tensor;
        if (!a->source.set.output[k].known || holds_tensors(t)) continue;
        a->cut.name[a->cut.count] = a->name[k];
        a->cut.value[a->cut.count++] = *t;
    }
    return status;
}

/* The nodes just above what is inside come in, too. */
static bool widen_part(Bisect *b, int32_t levels)
{
    bool more = false;
    for (; levels; levels--) {
        bool was[b->nnode];
        memcpy(was, b->inside, sizeof was);
        for (int32_t i = 0; i < b->nnode; i++)
            for (int32_t k = 0; was[i] && k < b->node[i].input_count; k++) {
                const Value *v = value_named(b, b->node[i].input[k]);
                if (!v || b->inside[v->node]) continue;
                b->inside[v->node] = more = true;
            }
    }
    return more;
}

static double error_against(const TgTensor *truth, const TgTensor *t)
{
    double sum = 0, size = 0;
    if (holds_tensors(truth) || truth->type == TG_STRING || tensor_numel(truth) != tensor_numel(t)) return NAN;
    for (int64_t i = 0, n = tensor_numel(truth); i < n; i++) {
        double want = value_get(truth->type, truth->data, i), got = value_get(t->type, t->data, i);
        if (!isfinite(want)) sum += isfinite(got) ? INFINITY : 0;
        else sum += (got - want) * (got - want), size += want * want;
    }
    return size > 0 ? sqrt(sum / size) : sqrt(sum);
}

static void decide(Bisect *b, const Probe *p, const Cut *cut)
{
    TgTensor truth = { 0 };
    const char *device = p->flops <= REFERENCE_FLOPS ? "reference" : "cpu";
    if (probe_wide(&truth, &b->sides, p, cut, device) != TG_OK) {
        snprintf(b->why, sizeof b->why, "the part does not run in f64");
        return;
    }
    b->our_error = error_against(&truth, &p->got[0]);
    b->their_error = error_against(&truth, &p->set.output[0].tensor);
    tg_tensor_free(&truth);
    if (isnan(b->our_error) || isnan(b->their_error))
        snprintf(b->why, sizeof b->why, "the part's value has another shape in f64");
    else
        b->verdict = b->our_error > AS_FAR * b->their_error ? OURS_WRONG
            : b->their_error > AS_FAR * b->our_error        ? THEIRS_WRONG
                                                            : ROUNDING;
}

/* Grows the part from the node upwards until it differs on the other side's values, keeps it and judges. Without a cut,
 * as the whole model above the node, it differs by how it was found. */
static TgStatus smallest(Bisect *b)
{
    TgStatus status = TG_OK;
    bool differs = false;
    b->inside[b->bad->node] = true;
    for (int32_t levels = 1; status == TG_OK && !differs; levels *= 2) {
        Around a;
        Probe p = { 0 };
        status = around(b, &a);
        const Cut *cut = a.cut.count ? &a.cut : NULL;
        if (status == TG_OK) status = look(b, &p, &b->bad->name, 1, cut);
        differs = status == TG_OK && (!p.compare[0].ok || !cut);
        if (differs) {
            b->difference = p.compare[0];
            status = probe_keep(&p, &b->sides, cut, b->dir);
            if (is_model_file(b->sides.other)) snprintf(b->why, sizeof b->why, "two models are compared");
            else decide(b, &p, cut);
        }
        probe_free(&p);
        around_free(&a);
        if (!differs && status == TG_OK && !widen_part(b, levels)) break;
    }
    for (int32_t i = 0; i < b->nnode; i++) b->ninside += b->inside[i] && !makes_constant(&b->node[i]);
    return status;
}

/* ---- report ---- */

static const char *const verdicts[] = { "ours", "theirs", "rounding", "undecided" };

static void say_difference(const char *what, const char *name, const Comparison *c)
{
    if (*c->why) printf("%-8s%s: %s\n", what, name, c->why);
    else
        printf("%-8s%s: %ld of %ld values outside rtol %g atol %.2g, max|d| %.3g, cosine %.6f\n", what, name,
               (long)c->outside, (long)c->numel, c->used.rtol, c->used.atol, c->max_abs, c->cosine);
}

static void people(const Bisect *b)
{
    if (!b->output) {
        printf("no output differs from %s\n", b->sides.name);
        return;
    }
    say_difference("output", b->output, &b->first);
    if (!b->bad) {
        printf("%-8sno node makes it: it is an input or a weight\n", "first");
        return;
    }
    const TgNode *n = &b->node[b->bad->node];
    printf("%-8snode %d of %d, '%s' (%s): what it reads agrees, what it makes does not\n", "first", b->bad->node + 1,
           b->nnode, n->name, n->op);
    say_difference("value", b->bad->name, &b->difference);
    printf("%-8s%s/model.onnx: %d node%s that differ%s on %s's values, kept with them as test data\n", "part", b->dir,
           b->ninside, b->ninside == 1 ? "" : "s", b->ninside == 1 ? "s" : "", b->sides.name);
    if (b->verdict == UNDECIDED) printf("%-8snot decided: %s\n", "f64", b->why);
    else
        printf("%-8sours is %.2g from it, %s's %.2g (rms): %s\n", "f64", b->our_error, b->sides.name, b->their_error,
               b->verdict == ROUNDING         ? "both are roundings"
                   : b->verdict == OURS_WRONG ? "ours is wrong"
                                              : "theirs is wrong");
}

static json_t *difference_json(const char *name, const Comparison *c)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:s}", "name", name, "max_abs", c->max_abs, "max_rel",
                     c->max_rel, "cosine", c->cosine, "outside", (json_int_t)c->outside, "numel", (json_int_t)c->numel,
                     "rtol", c->used.rtol, "atol", c->used.atol, "why", c->why);
}

static json_t *report(const Bisect *b, TgStatus code)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:b, s:i}", "schema", "tgrun.bisect/1", "file", b->sides.model,
                          "against", b->sides.name, "probes", (int)b->probes, "ok", code == TG_OK, "exit", (int)code);
    if (b->output) json_object_set_new(j, "output", difference_json(b->output, &b->first));
    if (!b->bad) return j;
    const TgNode *n = &b->node[b->bad->node];
    json_object_set_new(j, "node",
                        json_pack("{s:s, s:s, s:s, s:i}", "name", n->name, "op", n->op, "domain",
                                  *n->domain ? n->domain : "ai.onnx", "index", (int)b->bad->node));
    json_object_set_new(j, "value", difference_json(b->bad->name, &b->difference));
    json_object_set_new(j, "part", json_pack("{s:s, s:i}", "dir", b->dir, "nodes", (int)b->ninside));
    json_object_set_new(j, "verdict", json_string(verdicts[b->verdict]));
    if (b->verdict != UNDECIDED)
        json_object_set_new(j, "f64", json_pack("{s:f, s:f}", "ours", b->our_error, "theirs", b->their_error));
    return j;
}

/* ---- the verb ---- */

/* The model's outputs, all at once: the first that differs. */
static TgStatus outputs(Bisect *b)
{
    int32_t n = tg_output_count(b->session);
    const char *name[n + 1];
    Probe p;
    TgPort port;
    for (int32_t k = 0; k < n; k++) name[k] = tg_output(b->session, k, &port) == TG_OK ? port.name : "";
    TgStatus status = look(b, &p, name, n, NULL);
    for (int32_t k = 0; k < n && status == TG_OK && !b->output; k++) {
        if (p.compare[k].ok) continue;
        Value *v = value_named(b, name[k]);
        b->output = name[k];
        b->first = p.compare[k];
        if (v) found(b, v, &p.compare[k]);
    }
    probe_free(&p);
    return status;
}

static TgStatus prepare(Bisect *b, const Args *a, const char *path)
{
    TgOptions o;
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    size_t len = strlen(stem) - (ends_with(stem, ".onnx") ? strlen(".onnx") : 0);
    *b = (Bisect){ .sides = { .args = a, .model = path, .other = args_text(a, OPT_against, NULL) },
                   .verdict = UNDECIDED };
    if (!b->sides.other)
        return say_error(TG_USAGE,
                         "bisect: --against reference, ort[:LIB], tgrun:OPTIONS, another MODEL.onnx or a folder of "
                         "values is wanted");
    snprintf(b->sides.name, sizeof b->sides.name, "%.63s", b->sides.other);
    if (args_has(a, OPT_output_dir)) snprintf(b->dir, sizeof b->dir, "%.1000s", args_text(a, OPT_output_dir, ""));
    else snprintf(b->dir, sizeof b->dir, "%.*s.bisect", (int)len, stem);
    args_session_options(a, &o);
    o.device = "none";
    TgStatus status = tg_open(&b->session, path, &o);
    if (status != TG_OK) return say_library_error(status);
    if ((status = data_make(&b->data, b->session, a)) != TG_OK) return status;
    b->sides.session = b->session;
    b->sides.inputs = &b->data.set[0];
    return graph_read(b);
}

static TgStatus bisect(Bisect *b)
{
    if (!folder_make(b->sides.folder)) return TG_CACHE;
    TgStatus status = outputs(b);
    if (status == TG_OK && b->bad) status = search(b);
    if (status == TG_OK && b->bad) status = smallest(b);
    rmdir(b->sides.folder);
    return status;
}

TgStatus verb_bisect(const Args *a, const char *path)
{
    Bisect b;
    TgStatus status = prepare(&b, a, path);
    if (status == TG_OK) status = bisect(&b);
    if (status == TG_OK) {
        status = b.output ? TG_DIFFERS : TG_OK;
        if (args_has(a, OPT_json)) {
            TgStatus written = json_write(report(&b, status), args_text(a, OPT_json, ""));
            if (written != TG_OK) status = written;
        } else if (!args_has(a, OPT_quiet)) people(&b);
    }
    free(b.node);
    free(b.above);
    free(b.settled);
    free(b.inside);
    free(b.value);
    free(b.by_name);
    data_free(&b.data);
    tg_close(b.session);
    return status;
}
