#include "bench/svg.h"

#include <math.h>
#include <string.h>

static const double UNIT_WIDTH = 560, TOP = 12, RIGHT = 16, BOTTOM = 42, TICK = 4;
enum { TICKS_MOST = 40 };

void html_escaped(FILE *f, const char *s)
{
    for (; *s; s++)
        if (strchr("<>&\"'", *s)) fprintf(f, "&#%d;", *s);
        else fputc(*s, f);
}

/* ---- scales ---- */

Scale scale_around(const double *v, uint32_t n, bool zero, bool is_log)
{
    double low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(v[i]) || (is_log && v[i] <= 0)) continue;
        low = fmin(low, v[i]);
        high = fmax(high, v[i]);
    }
    if (low > high) return (Scale){ is_log ? 0.1 : 0, 1, is_log };
    if (zero) low = fmin(low, 0), high = fmax(high, 0);
    if (is_log) return (Scale){ low / 1.1, high * 1.1, true };
    double room = high > low ? (high - low) / 20 : fmax(fabs(high), 1) / 20;
    return (Scale){ zero && low == 0 ? 0 : low - room, zero && high == 0 ? 0 : high + room, false };
}

static double part(const Scale *s, double v)
{
    double t = s->log ? log(v / s->low) / log(s->high / s->low) : (v - s->low) / (s->high - s->low);
    return isfinite(t) ? fmin(fmax(t, 0), 1) : 0;
}

double plot_x(const Plot *p, double v) { return p->x + p->w * part(&p->across, v); }
double plot_y(const Plot *p, double v) { return p->y + p->h * (1 - part(&p->up, v)); }

/* Round numbers within a scale, at most `most`: multiples of 1, 2 or 5 times a power of ten, or powers themselves. */
static uint32_t ticks(const Scale *s, uint32_t most, double out[TICKS_MOST])
{
    static const double steps[] = { 1, 2, 5, 10 };
    uint32_t n = 0;
    if (s->log) {
        int first = (int)floor(log10(s->low)), last = (int)floor(log10(s->high)),
            every = (int)ceil((last - first + 1) / (double)most);
        bool between = last - first <= 2;
        for (int k = first; k <= last; k += every)
            for (int i = 0; i < (between ? 3 : 1) && n < TICKS_MOST; i++) {
                double v = steps[i] * pow(10, k);
                if (v >= s->low && v <= s->high) out[n++] = v;
            }
        if (n > 1) return n;
        n = 0;
    }
    double rough = (s->high - s->low) / most, power = pow(10, floor(log10(rough))), step = power;
    for (int i = 0; i < 4 && step < rough; i++) step = steps[i] * power;
    double first = ceil(s->low / step - 1e-9), last = floor(s->high / step + 1e-9);
    for (; first + n <= last && n < TICKS_MOST; n++) out[n] = (first + n) * step;
    return n;
}

static void number_text(char buf[24], double v)
{
    double size = fabs(v);
    if (size >= 1e9) snprintf(buf, 24, "%.6gG", v / 1e9);
    else if (size >= 1e6) snprintf(buf, 24, "%.6gM", v / 1e6);
    else if (size >= 1e4) snprintf(buf, 24, "%.6gk", v / 1e3);
    else snprintf(buf, 24, "%.6g", v);
}

/* ---- the drawing ---- */

Plot plot_open(FILE *f, const char *title, double height, double left, Scale across, Scale up)
{
    fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>", UNIT_WIDTH, height);
    html_escaped(f, title);
    fputs("</title>\n", f);
    return (Plot){ f, left, TOP, UNIT_WIDTH - left - RIGHT, height - TOP - BOTTOM, across, up };
}

void plot_close(const Plot *p) { fputs("</svg>\n", p->f); }

static void line(const Plot *p, double x0, double y0, double x1, double y1, const char *class)
{
    fprintf(p->f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x0, y0, x1, y1);
}

static void text(const Plot *p, double x, double y, const char *anchor, const char *class, const char *s)
{
    fprintf(p->f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y, anchor);
    html_escaped(p->f, s);
    fputs("</text>\n", p->f);
}

void plot_axes(const Plot *p, const char *across, const char *up)
{
    double at[TICKS_MOST];
    char number[24];
    uint32_t n = across ? ticks(&p->across, 7, at) : 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = plot_x(p, at[i]);
        number_text(number, at[i]);
        line(p, x, p->y, x, p->y + p->h + TICK, "grid");
        text(p, x, p->y + p->h + 16, "middle", "number", number);
    }
    if (across) text(p, p->x + p->w / 2, p->y + p->h + 34, "middle", "label", across);
    n = up ? ticks(&p->up, 6, at) : 0;
    for (uint32_t i = 0; i < n; i++) {
        double y = plot_y(p, at[i]);
        number_text(number, at[i]);
        line(p, p->x - TICK, y, p->x + p->w, y, "grid");
        text(p, p->x - 7, y + 4, "end", "number", number);
    }
    if (up) {
        fprintf(p->f, "<text class=\"label\" transform=\"translate(13 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                p->y + p->h / 2);
        html_escaped(p->f, up);
        fputs("</text>\n", p->f);
    }
    line(p, p->x, p->y + p->h, p->x + p->w, p->y + p->h, "axis");
    line(p, p->x, p->y, p->x, p->y + p->h, "axis");
}

/* ---- marks ---- */

static void end_mark(const Plot *p, const char *element, const char *title)
{
    if (!title) return (void)fputs("/>\n", p->f);
    fputs("><title>", p->f);
    html_escaped(p->f, title);
    fprintf(p->f, "</title></%s>\n", element);
}

void plot_dot(const Plot *p, double x, double y, double radius, const char *class, const char *title)
{
    fprintf(p->f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", class, plot_x(p, x), plot_y(p, y), radius);
    end_mark(p, "circle", title);
}

void plot_line(const Plot *p, const double *x, const double *y, uint32_t n, const char *class)
{
    fprintf(p->f, "<polyline class=\"%s\" points=\"", class);
    for (uint32_t i = 0; i < n; i++)
        if (isfinite(y[i])) fprintf(p->f, "%.1f,%.1f ", plot_x(p, x[i]), plot_y(p, y[i]));
    fputs("\"/>\n", p->f);
}

void plot_segment(const Plot *p, double x0, double y0, double x1, double y1, const char *class)
{
    line(p, plot_x(p, x0), plot_y(p, y0), plot_x(p, x1), plot_y(p, y1), class);
}

void plot_box(const Plot *p, double x0, double y0, double x1, double y1, const char *class, const char *title)
{
    double left = plot_x(p, x0), top = plot_y(p, fmax(y0, y1));
    fprintf(p->f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", class, left, top,
            plot_x(p, x1) - left, plot_y(p, fmin(y0, y1)) - top);
    end_mark(p, "rect", title);
}

void plot_text(const Plot *p, double x, double y, double dy, const char *anchor, const char *s)
{
    text(p, plot_x(p, x), plot_y(p, y) + dy, anchor, "label", s);
}
