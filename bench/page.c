/* The page of tgbench: one file without scripts or anything from a network. What it says is what --format json says:
 * the verdict, the times as they came, what the machine did meanwhile, and where the time goes of engines that know. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cold.h"
#include "bench/duel.h"
#include "bench/fair.h"
#include "bench/peaks.h"
#include "bench/report.h"
#include "bench/svg.h"

enum { BINS = 60, DOTS = 1500, ROWS = 15, WORD = 26 };
static const double HEIGHT = 260, LEFT = 58, NAMES_LEFT = 176;

static const char style[] =
    "<style>:root{color-scheme:light dark;--back:#fff;--fore:#1b1f24;--dim:#5b6570;--line:#dfe3e8;--box:#f6f8fa;"
    "--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#cc79a7;--s4:#b58900;--s5:#56b4e9;--s6:#8c6d31;--s7:#777}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14181d;--fore:#e4e8ec;--dim:#9aa5b1;--line:#303841;--box:#1c2229;"
    "--s0:#4aa8e0;--s1:#f08a45;--s2:#2fc79a;--s3:#e29fc4;--s4:#e0b030;--s5:#8fd0f5;--s6:#c7a25f;--s7:#aaa}}\n"
    "body{background:var(--back);color:var(--fore);font:15px/1.5 system-ui,sans-serif;max-width:76rem;"
    "margin:2rem auto;padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;"
    "border-top:1px solid var(--line);padding-top:1rem;overflow-wrap:anywhere}h3{font-size:1rem;margin-bottom:.3rem}\n"
    ".verdict{font-size:1.15rem;font-weight:600;margin:.2rem 0}.plots{display:grid;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr));gap:1rem}\n"
    ".one{max-width:44rem}figure{margin:0;background:var(--box);border:1px solid var(--line);border-radius:8px;padding:.6rem}"
    "figcaption{color:var(--dim);font-size:.85rem}svg{width:100%;height:auto;display:block}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}"
    "th,td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th:first-child,td:first-child,.w{text-align:left}td.w{white-space:normal;overflow-wrap:anywhere;min-width:14rem}\n"
    ".key{white-space:nowrap}.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;"
    "margin:0 .35em 0 .7em}table{margin:.8rem 0}dl{display:grid;"
    "grid-template-columns:max-content 1fr;gap:.1rem 1rem;font-size:.88rem}dt{color:var(--dim)}dd{margin:0}\n"
    "svg text{fill:var(--fore);font-size:12px}svg .number{fill:var(--dim);font-size:11px}line{stroke:var(--dim)}"
    "line.grid{stroke:var(--line)}line.one{stroke:var(--fore);stroke-dasharray:4 3}polyline{fill:none;stroke-width:2}\n"
    "rect{fill-opacity:.45}circle{fill-opacity:.75}circle.small{fill-opacity:.4}"
    ".s0{fill:var(--s0);stroke:var(--s0)}.s1{fill:var(--s1);stroke:var(--s1)}.s2{fill:var(--s2);stroke:var(--s2)}"
    ".s3{fill:var(--s3);stroke:var(--s3)}.s4{fill:var(--s4);stroke:var(--s4)}.s5{fill:var(--s5);stroke:var(--s5)}"
    ".s6{fill:var(--s6);stroke:var(--s6)}.s7{fill:var(--s7);stroke:var(--s7)}polyline.s0,polyline.s1,polyline.s2,"
    "polyline.s3,polyline.s4,polyline.s5,polyline.s6,polyline.s7{fill:none}line.wide{stroke-width:3}rect{stroke:none}"
    "circle{stroke:none}i.s0{background:var(--s0)}i.s1{background:var(--s1)}i.s2{background:var(--s2)}"
    "i.s3{background:var(--s3)}i.s4{background:var(--s4)}i.s5{background:var(--s5)}i.s6{background:var(--s6)}"
    "i.s7{background:var(--s7)}</style>\n";

/* ---- pieces ---- */

static const char *series(uint32_t i)
{
    static const char *const name[ENGINES_MAX] = { "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7" };
    return name[i % ENGINES_MAX];
}

static void words(FILE *f, const char *element, const char *text)
{
    fprintf(f, "<%s>", element);
    html_escaped(f, text);
    fprintf(f, "</%s>\n", strcmp(element, "p class=\"verdict\"") ? element : "p");
}

static void key(FILE *f, const char *class, const char *text)
{
    fprintf(f, " <span class=\"key\"><i class=\"%s\"></i>", class);
    html_escaped(f, text);
    fputs("</span>", f);
}

/* The caption, and which colour is whose. */
static void caption(FILE *f, const Duel *d, const char *text, bool keys)
{
    fputs("<figcaption>", f);
    html_escaped(f, text);
    for (uint32_t i = 0; i < d->nengine && keys; i++) {
        key(f, series(i), d->engine[i].peer.name);
    }
    fputs("</figcaption></figure>\n", f);
}

static void cell(FILE *f, const char *format, double v)
{
    fputs("<td>", f);
    if (isfinite(v)) fprintf(f, format, v);
    else fputs("n/a", f);
    fputs("</td>", f);
}

static void word_cell(FILE *f, const char *text)
{
    fputs("<td class=\"w\">", f);
    html_escaped(f, text);
    fputs("</td>", f);
}

/* ---- what was measured ---- */

static void times_table(FILE *f, const Duel *d)
{
    fputs("<div class=\"scroll\"><table><tr><th>engine</th><th>min ms</th><th>median</th><th>p90</th><th>p99</th>"
          "<th>runs</th><th>MiB</th><th>load s</th><th>first ms</th><th>ratio</th><th>95 %</th></tr>\n",
          f);
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        char p90[24], p99[24];
        fputs("<tr>", f);
        word_cell(f, e->peer.name);
        cell(f, "%.3f", e->sorted[0]);
        cell(f, "%.3f", quantile_sorted(e->sorted, e->runs, 0.5));
        fprintf(f, "<td>%s</td><td>%s</td><td>%u</td>", percentile_text(p90, e, 90), percentile_text(p99, e, 99),
                e->runs);
        cell(f, "%.0f", e->memory_mib);
        cell(f, "%.2f", e->peer.load_s);
        cell(f, "%.1f", e->peer.first_ms);
        fprintf(f, "<td>%.3f%s</td><td>%.3f-%.3f</td></tr>\n", e->faster.ratio, i ? "" : " (placebo)", e->faster.low,
                e->faster.high);
    }
    fputs("</table></div>\n", f);
}

static void ratio_plot(FILE *f, const Duel *d)
{
    double ends[2 * ENGINES_MAX + 1] = { 1 };
    for (uint32_t i = 0; i < d->nengine; i++) {
        ends[2 * i + 1] = d->engine[i].faster.low;
        ends[2 * i + 2] = d->engine[i].faster.high;
    }
    fputs("<figure>", f);
    Plot p = plot_open(f, "ratio", 74 + 30.0 * d->nengine, NAMES_LEFT,
                       scale_around(ends, 2 * d->nengine + 1, false, false), (Scale){ 0, d->nengine, false });
    plot_axes(&p, "its time over the first engine's", NULL);
    plot_segment(&p, 1, 0, 1, d->nengine, "one");
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        double y = d->nengine - i - 0.5;
        char text[64], name[80];
        snprintf(name, sizeof name, i ? "%s" : "placebo: %s", e->peer.name);
        snprintf(text, sizeof text, "%.*s%s", WORD, name, strlen(name) > WORD ? ".." : "");
        plot_text(&p, p.across.low, y, 4, "end", text);
        char wide[16];
        snprintf(wide, sizeof wide, "wide %s", series(i));
        plot_segment(&p, e->faster.low, y, e->faster.high, y, wide);
        snprintf(text, sizeof text, "%.3f (%.3f-%.3f)", e->faster.ratio, e->faster.low, e->faster.high);
        plot_dot(&p, e->faster.ratio, y, 5, series(i), text);
    }
    plot_close(&p);
    caption(f, d, "Ratio with its 95 % interval; the placebo is the first engine against itself.", false);
}

/* From the least to nearly the most: single runs that were disturbed would make everything else a line. */
static Scale times_scale(const Duel *d)
{
    double ends[2 * ENGINES_MAX];
    for (uint32_t i = 0; i < d->nengine; i++) {
        ends[2 * i] = d->engine[i].sorted[0];
        ends[2 * i + 1] = quantile_sorted(d->engine[i].sorted, d->engine[i].runs, 0.99);
    }
    Scale s = scale_around(ends, 2 * d->nengine, false, false);
    return s.low > 0 && s.high > 6 * s.low ? scale_around(ends, 2 * d->nengine, false, true) : s;
}

static double bin_edge(const Scale *s, int k)
{
    double t = (double)k / BINS;
    return s->log ? s->low * pow(s->high / s->low, t) : s->low + t * (s->high - s->low);
}

static void histogram(FILE *f, const Duel *d)
{
    static uint32_t count[ENGINES_MAX][BINS];
    Scale times = times_scale(d);
    double most = 1;
    memset(count, 0, sizeof count);
    for (uint32_t i = 0; i < d->nengine; i++)
        for (uint32_t k = 0, bin = 0; k < d->engine[i].runs; k++) {
            while (bin + 1 < BINS && d->engine[i].sorted[k] > bin_edge(&times, (int)bin + 1)) bin++;
            most = fmax(most, ++count[i][bin]);
        }
    fputs("<figure>", f);
    Plot p = plot_open(f, "histogram", HEIGHT, LEFT, times, (Scale){ 0, most * 1.05, false });
    plot_axes(&p, "ms a run", "runs");
    for (uint32_t i = 0; i < d->nengine; i++)
        for (int k = 0; k < BINS; k++)
            if (count[i][k])
                plot_box(&p, bin_edge(&times, k), 0, bin_edge(&times, k + 1), count[i][k], series(i), NULL);
    plot_close(&p);
    caption(f, d, "How long runs took; the last bar also holds the longest.", true);
}

static double end_s(const Duel *d)
{
    const Block *last = d->nblock ? &d->block[d->nblock - 1] : NULL;
    return last ? last->at_s + last->wall_s : 1;
}

static void time_plot(FILE *f, const Duel *d)
{
    uint32_t next[ENGINES_MAX] = { 0 };
    fputs("<figure>", f);
    Plot p = plot_open(f, "times as they came", HEIGHT, LEFT, (Scale){ 0, end_s(d), false }, times_scale(d));
    plot_axes(&p, "seconds since the first block", "ms a run");
    for (uint32_t b = 0; b < d->nblock; b++) {
        const Block *block = &d->block[b];
        const Engine *e = &d->engine[block->engine];
        uint32_t every = e->runs / DOTS + 1;
        double at = block->at_s;
        char class[16];
        snprintf(class, sizeof class, "small %s", series(block->engine));
        for (uint32_t k = 0; k < block->runs; k++) {
            uint32_t run = next[block->engine]++;
            if (run % every == 0) plot_dot(&p, at, e->ms[run], 1.6, class, NULL);
            at += 1e-3 * e->ms[run];
        }
    }
    plot_close(&p);
    caption(f, d, "Runs as they came; what took longer than the scale stands at its upper end.", true);
}

/* ---- what the machine did ---- */

typedef double (*OfBlock)(const Block *b);
static double others_of(const Block *b) { return b->watched.others; }
static double steal_of(const Block *b) { return b->watched.steal; }
static double mhz_of(const Block *b) { return b->watched.mhz; }
static double memory_of(const Block *b) { return b->watched.rss_mib; }

/* One line over all blocks (engine < 0) or over those of an engine. */
static void block_line(const Plot *p, const Duel *d, OfBlock of, int engine, const char *class)
{
    double *x = malloc(2 * sizeof *x * (d->nblock + 1));
    uint32_t n = 0;
    for (uint32_t i = 0; x && i < d->nblock; i++) {
        if (engine >= 0 && d->block[i].engine != (uint32_t)engine) continue;
        x[n] = d->block[i].at_s;
        x[d->nblock + n++] = of(&d->block[i]);
    }
    if (x) plot_line(p, x, x + d->nblock, n, class);
    free(x);
}

static Scale blocks_scale(const Duel *d, OfBlock a, OfBlock b)
{
    double *v = malloc(2 * sizeof *v * (d->nblock + 1));
    uint32_t n = 0;
    for (uint32_t i = 0; v && i < d->nblock; i++) {
        v[n++] = a(&d->block[i]);
        v[n++] = b(&d->block[i]);
    }
    Scale s = scale_around(v, v ? n : 0, true, false);
    free(v);
    return s;
}

static bool any_block(const Duel *d, OfBlock of)
{
    bool any = false;
    for (uint32_t i = 0; i < d->nblock; i++) any |= isfinite(of(&d->block[i]));
    return any;
}

static void memory_plot(FILE *f, const Duel *d)
{
    if (!any_block(d, memory_of)) return;
    fputs("<figure>", f);
    Plot p = plot_open(f, "memory", HEIGHT, LEFT, (Scale){ 0, end_s(d), false },
                       blocks_scale(d, memory_of, memory_of));
    plot_axes(&p, "seconds since the first block", "MiB");
    for (uint32_t i = 0; i < d->nengine; i++) block_line(&p, d, memory_of, (int)i, series(i));
    plot_close(&p);
    caption(f, d, "Memory of each engine's process that is in RAM, after each of its blocks.", true);
}

static void disturbance_plot(FILE *f, const Duel *d)
{
    if (!any_block(d, others_of)) return;
    Scale up = blocks_scale(d, others_of, steal_of);
    if (up.high < 1) up.high = 1;
    fputs("<figure>", f);
    Plot p = plot_open(f, "other load", HEIGHT, LEFT, (Scale){ 0, end_s(d), false }, up);
    plot_axes(&p, "seconds since the first block", "processors");
    block_line(&p, d, others_of, -1, "s7");
    block_line(&p, d, steal_of, -1, "s3");
    plot_close(&p);
    fputs("<figcaption>What else ran while blocks were timed.", f);
    key(f, "s7", "other processes");
    key(f, "s3", "taken by the host");
    fputs("</figcaption></figure>\n", f);
}

static void clock_plot(FILE *f, const Duel *d)
{
    if (!any_block(d, mhz_of)) return;
    fputs("<figure>", f);
    Plot p = plot_open(f, "clock", HEIGHT, LEFT, (Scale){ 0, end_s(d), false }, blocks_scale(d, mhz_of, mhz_of));
    plot_axes(&p, "seconds since the first block", "MHz");
    block_line(&p, d, mhz_of, -1, "s2");
    plot_close(&p);
    caption(f, d, "Clock of the processors, as the system says.", false);
}

static void fact(FILE *f, const char *name, const char *text)
{
    if (!text || !*text) return;
    fputs("<dt>", f);
    html_escaped(f, name);
    fputs("</dt><dd>", f);
    html_escaped(f, text);
    fputs("</dd>\n", f);
}

static void engine_fact(FILE *f, const Duel *d, const Engine *e)
{
    char text[240];
    size_t n = (size_t)snprintf(text, sizeof text, "%s %s %s", *e->peer.device ? e->peer.device : "device not said",
                                e->peer.provider, e->peer.precision);
    if (isfinite(engine_cores(e)) && n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, ", %.1f of %d processors busy", engine_cores(e), d->threads);
    double energy = engine_energy_j(d, (uint32_t)(e - d->engine));
    if (isfinite(energy) && n < sizeof text)
        snprintf(text + n, sizeof text - n, ", %.3g J a run (all of the package)", energy);
    fact(f, e->peer.name, text);
}

static void facts(FILE *f, const Duel *d)
{
    char text[200];
    int64_t switches = 0, throttled = 0;
    for (uint32_t i = 0; i < d->nblock; i++) {
        switches += d->block[i].watched.switches;
        throttled += d->block[i].watched.throttled;
    }
    fputs("<dl>", f);
    fact(f, "inputs", d->inputs);
    snprintf(text, sizeof text, "%u, %u runs of the first engine each; %u sets of inputs in turn", d->pairs,
             d->engine[0].block, d->sets);
    fact(f, "pairs of blocks", text);
    snprintf(text, sizeof text, "%d; load %.2f before", d->threads, d->load_average);
    fact(f, "threads", text);
    snprintf(text, sizeof text, "%ld times an engine was interrupted, %ld times processors were slowed or stopped",
             (long)switches, (long)throttled);
    fact(f, "disturbed", text);
    for (uint32_t i = 0; i < d->nengine; i++) engine_fact(f, d, &d->engine[i]);
    for (uint32_t i = 0; i < 2 * d->nengine; i++)
        if (cold_text(text, sizeof text, &d->engine[i / 2], i & 1)) fact(f, d->engine[i / 2].peer.name, text);
    for (uint32_t i = 0; i < d->notes; i++) fact(f, "note", d->note[i]);
    fputs("</dl>\n", f);
}

/* ---- where the time goes ---- */

static double number(const json_t *j, const char *key) { return json_number_value(json_object_get(j, key)); }
static const char *string(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

/* In units of 1e9: operations a byte across, operations a second up. */
static void roofline(FILE *f, const Duel *d, const json_t *profile, uint32_t engine)
{
    const json_t *kernels = json_object_get(profile, "kernels"), *peaks = json_object_get(profile, "peaks"), *k;
    double flops = number(peaks, "flops") * 1e-9, matrix = number(peaks, "matrix_flops") * 1e-9, sum = 0;
    size_t i, n = json_array_size(kernels);
    double *x = malloc(2 * sizeof *x * (n + 2)), *y = x + n + 2;
    if (!x || flops <= 0) return free(x);
    json_array_foreach(kernels, i, k)
    {
        double s = fmax(number(k, "run_seconds"), 1e-12), launches = number(k, "launches");
        x[i] = number(k, "flops") / fmax(number(k, "bytes"), 1);
        y[i] = launches * number(k, "flops") / s * 1e-9;
        sum += s;
    }
    x[n] = 1;
    y[n] = fmax(flops, matrix) * 1.2;
    fputs("<figure>", f);
    Plot p = plot_open(f, "roofline", 1.3 * HEIGHT, LEFT, scale_around(x, (uint32_t)n + 1, false, true),
                       scale_around(y, (uint32_t)n + 1, false, true));
    plot_axes(&p, "operations a byte", "GFLOP/s");
    for (Level l = LEVEL_L2; l < LEVELS; l++) {
        double rate = number(json_object_get(peaks, "bytes"), level_name[l]) * 1e-9, top = fmax(flops, matrix);
        if (rate <= 0) continue;
        double from = fmax(p.across.low, p.up.low / rate), to = fmin(p.across.high, top / rate);
        if (from < to) plot_segment(&p, from, from * rate, to, to * rate, "axis");
    }
    plot_segment(&p, p.across.low, flops, p.across.high, flops, "axis");
    if (matrix > 0) plot_segment(&p, p.across.low, matrix, p.across.high, matrix, "axis");
    json_array_foreach(kernels, i, k)
    {
        char title[160];
        double share = number(k, "run_seconds") / sum;
        snprintf(title, sizeof title, "%s: %.4f ms, %.1f %%", string(k, "name"), 1e3 * number(k, "run_seconds"),
                 100 * share);
        plot_dot(&p, x[i], y[i], 2.5 + 14 * sqrt(share), series(engine), title);
    }
    plot_close(&p);
    char text[400];
    size_t at = (size_t)snprintf(text, sizeof text, "Kernels of %s, as large as their share of the time, below the "
                                 "machine's measured peaks: f32 %.0f GFLOP/s", d->engine[engine].peer.name, flops);
    if (matrix > 0) at += (size_t)snprintf(text + at, sizeof text - at, ", bf16 tiles %.0f", matrix);
    for (Level l = LEVEL_L2; l < LEVELS && at < sizeof text; l++) {
        double rate = number(json_object_get(peaks, "bytes"), level_name[l]) * 1e-9;
        if (rate > 0) at += (size_t)snprintf(text + at, sizeof text - at, ", %s %.0f GB/s", level_name[l], rate);
    }
    caption(f, d, text, false);
    free(x);
}

static void kernel_table(FILE *f, const json_t *profile)
{
    const json_t *list = json_object_get(profile, "kernels"), *k;
    double sum = number(profile, "kernels_ms");
    size_t i;
    fputs("<div class=\"scroll\"><table><tr><th>kernel</th><th>share</th><th>ms</th><th>launches</th><th>GFLOP/s</th>"
          "<th>GB/s</th><th>of the peaks</th><th>bytes in</th></tr>\n",
          f);
    json_array_foreach(list, i, k)
    {
        if (i == ROWS) break;
        double s = fmax(number(k, "run_seconds"), 1e-12), launches = number(k, "launches");
        fputs("<tr>", f);
        word_cell(f, string(k, "name"));
        cell(f, "%.1f %%", 1e5 * s / sum);
        cell(f, "%.4f", 1e3 * s);
        cell(f, "%.0f", launches);
        cell(f, "%.1f", launches * number(k, "flops") / s * 1e-9);
        cell(f, "%.1f", launches * number(k, "bytes") / s * 1e-9);
        cell(f, "%.0f %%", json_is_number(json_object_get(k, "roof")) ? 100 * number(k, "roof") : NAN);
        fprintf(f, "<td>%s</td></tr>\n", string(k, "level"));
    }
    fputs("</table></div>\n", f);
}

static void node_table(FILE *f, const json_t *profile)
{
    const json_t *list = json_object_get(profile, "nodes"), *row, *node;
    double sum = 0;
    size_t i, k;
    json_array_foreach(list, i, row) sum += number(row, "run_seconds");
    if (sum <= 0) return;
    fputs("<div class=\"scroll\"><table><tr><th>nodes computed together</th><th>share</th><th>ms</th><th>launches</th>"
          "<th>GFLOP/s</th></tr>\n",
          f);
    json_array_foreach(list, i, row)
    {
        double s = fmax(number(row, "run_seconds"), 1e-12);
        if (i == ROWS) break;
        fputs("<tr><td class=\"w\">", f);
        json_array_foreach(json_object_get(row, "nodes"), k, node)
        {
            if (k == 3) fprintf(f, " and %zu more", json_array_size(json_object_get(row, "nodes")) - k);
            if (k >= 3) break;
            fputs(k ? " + " : "", f);
            html_escaped(f, string(node, "op"));
            fputc(' ', f);
            html_escaped(f, string(node, "name"));
        }
        if (!k) fputs("(values moved)", f);
        fputs("</td>", f);
        cell(f, "%.1f %%", 100 * s / sum);
        cell(f, "%.4f", 1e3 * s);
        cell(f, "%.0f", number(row, "launches"));
        cell(f, "%.1f", number(row, "flops") / s * 1e-9);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void profiles(FILE *f, const Duel *d)
{
    for (uint32_t i = 0; i < d->nengine; i++) {
        const json_t *profile = d->engine[i].profile;
        char title[160];
        if (!profile) continue;
        snprintf(title, sizeof title, "Where the time of %s goes: kernels %.3f ms, a run %.3f ms",
                 d->engine[i].peer.name, number(profile, "kernels_ms"), number(profile, "run_ms"));
        words(f, "h3", title);
        fputs("<div class=\"plots one\">", f);
        roofline(f, d, profile, i);
        fputs("</div>\n", f);
        kernel_table(f, profile);
        node_table(f, profile);
    }
}

/* ---- the page ---- */

static void duel_section(FILE *f, const Duel *d, uint32_t number)
{
    char text[320];
    fprintf(f, "<section id=\"m%u\">", number);
    words(f, "h2", d->model);
    if (d->status != TG_OK) {
        fprintf(f, "<p>failed, exit %d</p></section>\n", (int)d->status);
        return;
    }
    for (uint32_t k = 1; k < d->nengine; k++) {
        verdict_text(text, sizeof text, d, k);
        words(f, "p class=\"verdict\"", text);
    }
    times_table(f, d);
    facts(f, d);
    fputs("<div class=\"plots\">\n", f);
    ratio_plot(f, d);
    histogram(f, d);
    time_plot(f, d);
    memory_plot(f, d);
    disturbance_plot(f, d);
    clock_plot(f, d);
    fputs("</div>\n", f);
    profiles(f, d);
    fputs("</section>\n", f);
}

static void contents(FILE *f, const Duel *d, uint32_t n)
{
    if (n < 2) return;
    fputs("<div class=\"scroll\"><table><tr><th>model</th><th class=\"w\">verdict</th></tr>\n", f);
    for (uint32_t i = 0; i < n; i++) {
        char text[320] = "one engine";
        fprintf(f, "<tr><td><a href=\"#m%u\">", i);
        html_escaped(f, d[i].model);
        fputs("</a></td>", f);
        if (d[i].status != TG_OK) snprintf(text, sizeof text, "failed, exit %d", (int)d[i].status);
        else if (d[i].nengine > 1) verdict_text(text, sizeof text, &d[i], 1);
        word_cell(f, text);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void environment(FILE *f)
{
    json_t *env = env_json(NULL), *value;
    const char *key;
    fputs("<dl>", f);
    json_object_foreach(env, key, value)
    {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        fact(f, key, json_is_string(value) ? json_string_value(value) : text);
    }
    fputs("</dl>\n", f);
    json_decref(env);
}

void duels_page(FILE *f, const Duel *d, uint32_t n)
{
    fputs("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>tgbench</title>",
          f);
    fputs(style, f);
    fputs("</head><body><h1>tgbench</h1>\n", f);
    environment(f);
    contents(f, d, n);
    for (uint32_t i = 0; i < n; i++) duel_section(f, &d[i], i);
    fputs("</body></html>\n", f);
}
