/* The verb `diff`: what two models say differently, and how far their outputs differ.
 *
 * In: two files; inputs for the first, which the second gets by name. Out: inputs, outputs, opsets, operators, nodes
 * and weights that only one has or that differ, then each output's difference. Nodes are known by their names where
 * those are unique, weights by theirs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/values.h"
#include "bench/verbs.h"

enum { LINES_SHOWN = 40 };

/* Names of one kind of thing, in order of names. text: what is said of it beside its name. */
typedef struct { const char *name; char text[200]; int32_t index; } Item;
typedef struct { Item *item; int32_t count; } Items;
typedef struct {
    TgSession *s;
    const char *path;
    Items input, output, node, weight;
} Side;
typedef struct {
    Side side[2];
    json_t *rows;
    int64_t changes;
    int32_t said;
    const Args *args;
} Diff;

static int by_name(const void *a, const void *b) { return strcmp(((const Item *)a)->name, ((const Item *)b)->name); }

static Item *add(Items *list, const char *name, int32_t index)
{
    if (!(list->count & (list->count + 1))) {
        Item *grown = realloc(list->item, (size_t)(2 * list->count + 2) * sizeof *grown);
        if (!grown) return NULL;
        list->item = grown;
    }
    list->item[list->count] = (Item){ .name = name, .index = index };
    return &list->item[list->count++];
}

static void port_text(char *out, size_t cap, const TgPort *p)
{
    size_t n = (size_t)snprintf(out, cap, "%s", p->type ? tg_type_name(p->type) : "of no type");
    for (int32_t d = 0; d < p->rank && n < cap; d++) {
        n += (size_t)snprintf(out + n, cap - n, d ? "," : "[");
        bool free_size = p->shape[d] < 0;
        if (n >= cap) return;
        if (free_size)
            n += (size_t)snprintf(out + n, cap - n, "%.40s", p->symbol[d] && *p->symbol[d] ? p->symbol[d] : "?");
        else n += (size_t)snprintf(out + n, cap - n, "%ld", (long)p->shape[d]);
    }
    if (p->rank > 0 && n < cap) snprintf(out + n, cap - n, "]");
}

static void node_text(char *out, size_t cap, const TgNode *n)
{
    size_t at = (size_t)snprintf(out, cap, "%s%s%s(", n->domain, *n->domain ? "." : "", n->op);
    for (int32_t k = 0; k < n->input_count && at < cap; k++)
        at += (size_t)snprintf(out + at, cap - at, "%s%.40s", k ? ", " : "", n->input[k]);
    if (at < cap) snprintf(out + at, cap - at, ")");
}

static bool read_side(Side *d)
{
    TgPort p;
    TgNode n;
    TgTensor t;
    const char *name;
    bool good = true;
    for (int32_t k = 0; k < tg_input_count(d->s) && tg_input(d->s, k, &p) == TG_OK; k++) {
        Item *i = add(&d->input, p.name, k);
        good = good && i;
        if (i) port_text(i->text, sizeof i->text, &p);
    }
    for (int32_t k = 0; k < tg_output_count(d->s) && tg_output(d->s, k, &p) == TG_OK; k++) {
        Item *i = add(&d->output, p.name, k);
        good = good && i;
        if (i) port_text(i->text, sizeof i->text, &p);
    }
    for (int32_t k = 0; tg_node(d->s, k, &n); k++) {
        Item *i = add(&d->node, n.name, k);
        good = good && i;
        if (i) node_text(i->text, sizeof i->text, &n);
    }
    for (int32_t k = 0; tg_weight(d->s, k, &name, &t); k++) {
        Item *i = add(&d->weight, name, k);
        good = good && i;
        if (i) tensor_title(&t, i->text, sizeof i->text);
    }
    Items *all[] = { &d->input, &d->output, &d->node, &d->weight };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k]->count) qsort(all[k]->item, (size_t)all[k]->count, sizeof(Item), by_name);
    return good || say_error(TG_LIMIT, "no memory for the lists of a model") == TG_OK;
}

/* ---- what is said ---- */

static void tell(Diff *d, const char *kind, const char *name, const char *first, const char *second)
{
    d->changes++;
    json_array_append_new(
        d->rows, json_pack("{s:s, s:s, s:s?, s:s?}", "kind", kind, "name", name, "first", first, "second", second));
    if (args_has(d->args, OPT_json) || args_has(d->args, OPT_quiet) || d->said++ >= LINES_SHOWN) return;
    if (!second) printf("%-8s%s: only in the first: %s\n", kind, name, first);
    else if (!first) printf("%-8s%s: only in the second: %s\n", kind, name, second);
    else printf("%-8s%s: %s | %s\n", kind, name, first, second);
}

static void compare_weight(Diff *d, const Item *a, const Item *b)
{
    const char *name;
    TgTensor x, y;
    char text[100];
    if (!tg_weight(d->side[0].s, a->index, &name, &x) || !tg_weight(d->side[1].s, b->index, &name, &y)) return;
    if (!x.data || !y.data || !memcmp(x.data, y.data, x.size_bytes)) return;
    double most = 0;
    int64_t n = tensor_numel(&x), other = 0;
    for (int64_t i = 0; i < n; i++) {
        double p = value_get(x.type, x.data, i), q = value_get(y.type, y.data, i);
        if (p == q || (isnan(p) && isnan(q))) continue;
        other++;
        most = fmax(most, fabs(p - q));
    }
    if (!other) return;
    snprintf(text, sizeof text, "%ld of %ld values differ, max|d| %.3g", (long)other, (long)n, most);
    tell(d, "weight", a->name, a->text, text);
}

/* Both lists are in order: one walk. */
static void compare_items(Diff *d, const char *kind, const Items *a, const Items *b, bool values)
{
    int32_t i = 0, k = 0;
    while (i < a->count || k < b->count) {
        int order = i == a->count ? 1 : k == b->count ? -1 : strcmp(a->item[i].name, b->item[k].name);
        if (order < 0) tell(d, kind, a->item[i].name, a->item[i].text, NULL), i++;
        else if (order > 0) tell(d, kind, b->item[k].name, NULL, b->item[k].text), k++;
        else {
            bool same = !strcmp(a->item[i].text, b->item[k].text);
            if (!same) tell(d, kind, a->item[i].name, a->item[i].text, b->item[k].text);
            else if (values) compare_weight(d, &a->item[i], &b->item[k]);
            i++, k++;
        }
    }
}

static void compare_headers(Diff *d)
{
    TgInfo i[2];
    char text[2][32];
    for (int k = 0; k < 2; k++) {
        tg_info(d->side[k].s, &i[k]);
        snprintf(text[k], sizeof text[k], "%ld", (long)i[k].opset);
    }
    if (i[0].opset != i[1].opset) tell(d, "opset", "ai.onnx", text[0], text[1]);
}

/* ---- numbers ---- */

static const TgTensor *named(const TgSession *s, const DataSet *set, const char *name)
{
    TgPort p;
    for (int32_t k = 0; k < set->ninput; k++)
        if (tg_input(s, k, &p) == TG_OK && !strcmp(p.name, name)) return &set->input[k].tensor;
    return NULL;
}

/* The second model's outputs on the first one's inputs become what the first is compared with. */
static TgStatus run_both(Diff *d, TgSession *run[2], DataSet *set, TgTensor *out)
{
    int32_t nin = tg_input_count(run[1]), nout = tg_output_count(run[1]);
    TgTensor in[(nin > set->ninput ? nin : set->ninput) + 1], other[nout + 1];
    TgPort p, q;
    for (int32_t k = 0; k < nin; k++) {
        const TgTensor *t = tg_input(run[1], k, &p) == TG_OK ? named(run[0], set, p.name) : NULL;
        if (!t)
            return say_note("outputs are not compared: '%s' of the second model is no input of the first", p.name),
                   TG_OK;
        in[k] = *t;
    }
    TgStatus status = tg_run(run[1], in, nin, other);
    say_progress_done();
    if (status != TG_OK) return say_library_error(status);
    for (int32_t k = 0; k < set->noutput; k++)
        for (int32_t i = 0; i < nout; i++) {
            if (tg_output(run[0], k, &p) != TG_OK || tg_output(run[1], i, &q) != TG_OK || strcmp(p.name, q.name))
                continue;
            bound_clear(&set->output[k]);
            if (!(set->output[k].known = tensor_copy(&set->output[k].tensor, &other[i])))
                return say_error(TG_LIMIT, "no memory for an output");
        }
    set_inputs(set, in);
    status = tg_run(run[0], in, set->ninput, out);
    say_progress_done();
    (void)d;
    return status == TG_OK ? status : say_library_error(status);
}

static TgStatus compare_outputs(Diff *d, const Args *a)
{
    TgSession *run[2] = { NULL, NULL };
    TgOptions o;
    Data data = { 0 };
    TgStatus status = open_model(&run[0], &data, a, d->side[0].path);
    args_session_options(a, &o);
    if (status == TG_OK && (status = tg_open(&run[1], d->side[1].path, &o)) != TG_OK) say_library_error(status);
    if (status == TG_OK) {
        DataSet *set = &data.set[0];
        TgTensor out[set->noutput + 1];
        for (int32_t k = 0; k < set->noutput; k++) bound_clear(&set->output[k]);
        status = run_both(d, run, set, out);
        for (int32_t k = 0; k < set->noutput && status == TG_OK; k++) {
            TgPort p;
            char text[160];
            if (!set->output[k].known || tg_output(run[0], k, &p) != TG_OK) continue;
            Comparison c = compare_output(a, &p, &out[k], &set->output[k]);
            if (*c.why) snprintf(text, sizeof text, "%s", c.why);
            else
                snprintf(text, sizeof text, "max|d| %.3g, rel %.3g, cosine %.6f, %ld of %ld outside rtol %g atol %.2g",
                         c.max_abs, c.max_rel, c.cosine, (long)c.outside, (long)c.numel, c.used.rtol, c.used.atol);
            if (!c.ok) tell(d, "values", p.name, "as computed", text);
            else if (!args_has(a, OPT_json) && !args_has(a, OPT_quiet))
                printf("%-8s%s: agree: %s\n", "values", p.name, text);
        }
    }
    data_free(&data);
    tg_close(run[0]);
    tg_close(run[1]);
    return status;
}

/* ---- the verb ---- */

static TgStatus open_side(Side *d, const Args *a, const char *path)
{
    TgOptions o;
    args_session_options(a, &o);
    o.device = "none";
    o.dims = NULL;
    d->path = path;
    TgStatus status = tg_open(&d->s, path, &o);
    if (status != TG_OK) return say_library_error(status);
    return read_side(d) ? TG_OK : TG_LIMIT;
}

TgStatus verb_diff(const Args *a, const char *first, const char *second)
{
    Diff d = { .rows = json_array(), .args = a };
    TgStatus status = open_side(&d.side[0], a, first);
    if (status == TG_OK) status = open_side(&d.side[1], a, second);
    if (status == TG_OK) {
        compare_headers(&d);
        compare_items(&d, "input", &d.side[0].input, &d.side[1].input, false);
        compare_items(&d, "output", &d.side[0].output, &d.side[1].output, false);
        compare_items(&d, "node", &d.side[0].node, &d.side[1].node, false);
        compare_items(&d, "weight", &d.side[0].weight, &d.side[1].weight, true);
        if (d.said > LINES_SHOWN && !args_has(a, OPT_json))
            printf("and %d more; --json has all\n", d.said - LINES_SHOWN);
        d.said = 0;
        status = compare_outputs(&d, a);
    }
    if (status == TG_OK) {
        status = d.changes ? TG_DIFFERS : TG_OK;
        if (args_has(a, OPT_json)) {
            json_t *j = json_pack("{s:s, s:s, s:s, s:O, s:b, s:i}", "schema", "tgrun.diff/1", "first", first, "second",
                                  second, "differences", d.rows, "ok", status == TG_OK, "exit", (int)status);
            TgStatus written = json_write(j, args_text(a, OPT_json, ""));
            if (written != TG_OK) status = written;
        } else if (!args_has(a, OPT_quiet)) printf("%ld difference%s\n", (long)d.changes, d.changes == 1 ? "" : "s");
    }
    for (int k = 0; k < 2; k++) {
        free(d.side[k].input.item);
        free(d.side[k].output.item);
        free(d.side[k].node.item);
        free(d.side[k].weight.item);
        tg_close(d.side[k].s);
    }
    json_decref(d.rows);
    return status;
}
