/* Plots as SVG inside of a page: scales, axes, marks. Sizes are in the units of the drawing, UNIT_WIDTH across; colours
 * are classes (`s0`, `s1`, .. of a series, `axis`, `grid`, `note`), which the page's style sheet gives. */
#ifndef TG_SVG_H
#define TG_SVG_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    double low, high;               /* log: both above 0 */
    bool log;
} Scale;
/* x, y, w, h: the area inside of the axes */
typedef struct {
    FILE *f;
    double x, y, w, h;
    Scale across, up;
} Plot;

/* A drawing with one plot in it; height: of the whole drawing. left: room for the words at the vertical axis. */
Plot plot_open(FILE *f, const char *title, double height, double left, Scale across, Scale up);
void plot_close(const Plot *p);
/* Lines at round numbers with those numbers; an axis whose label is NULL has neither. */
void plot_axes(const Plot *p, const char *across, const char *up);
double plot_x(const Plot *p, double v);         /* what lies outside of the scale stands at its end */
double plot_y(const Plot *p, double v);

/* title, where it is not NULL, shows when a pointer rests on the mark. */
void plot_dot(const Plot *p, double x, double y, double radius, const char *class, const char *title);
void plot_line(const Plot *p, const double *x, const double *y, uint32_t n, const char *class);
void plot_segment(const Plot *p, double x0, double y0, double x1, double y1, const char *class);
void plot_box(const Plot *p, double x0, double y0, double x1, double y1, const char *class, const char *title);
/* anchor: start, middle or end; dy: below the point, in units of the drawing */
void plot_text(const Plot *p, double x, double y, double dy, const char *anchor, const char *text);

/* The smallest scale around some numbers that are finite, wider by a twentieth; around nothing: 0 to 1. */
Scale scale_around(const double *v, uint32_t n, bool zero, bool log);
void html_escaped(FILE *f, const char *s);
#endif
