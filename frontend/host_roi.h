/* RoiAlign in one precision. Included by host_detect.c once for each, with REAL its type, ROI(name) the names, CEIL and MAX its functions. */

typedef struct { int64_t i[4]; REAL w[4]; } ROI(Sample);

/* Bilinear weights of a point of a plane [h, w]; all zero beyond one pixel around it. */
static ROI(Sample) ROI(sample_at)(REAL y, REAL x, int64_t h, int64_t w)
{
    ROI(Sample) s = { 0 };
    if (!(y >= -1 && y <= (REAL)h && x >= -1 && x <= (REAL)w)) return s;
    y = MAX(y, 0);
    x = MAX(x, 0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    if (y0 >= h - 1) y0 = h - 1, y = (REAL)y0;
    if (x0 >= w - 1) x0 = w - 1, x = (REAL)x0;
    int64_t y1 = y0 + 1 < h ? y0 + 1 : y0, x1 = x0 + 1 < w ? x0 + 1 : x0;
    REAL dy = y - (REAL)y0, dx = x - (REAL)x0;
    return (ROI(Sample)){ { y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1 }, { (1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx } };
}

typedef struct { REAL y, x, dy, dx; int64_t ny, nx; } ROI(Grid);         /* a cell's first corner, size, samples */

static void ROI(place_samples)(ROI(Sample) *s, const ROI(Grid) *g, int64_t from, int64_t count, int64_t h, int64_t w)
{
    for (int64_t k = from; k < from + count; k++)
        *s++ = ROI(sample_at)(g->y + ((REAL)(k / g->nx) + (REAL)0.5) * g->dy / (REAL)g->ny, g->x + ((REAL)(k % g->nx) + (REAL)0.5) * g->dx / (REAL)g->nx, h, w);
}

/* What a cell's samples add to y, or the largest of y and them, in planes of several channels: place and weight are read once for all of them. */
static void ROI(total)(REAL *y, const REAL *const *plane, const ROI(Sample) *s, int64_t count)
{
    REAL v[TOGETHER];
    memcpy(v, y, sizeof v);
    for (int64_t i = 0; i < count; i++, s++)
        for (int c = 0; c < TOGETHER; c++) v[c] += s->w[0] * plane[c][s->i[0]] + s->w[1] * plane[c][s->i[1]] + s->w[2] * plane[c][s->i[2]] + s->w[3] * plane[c][s->i[3]];
    memcpy(y, v, sizeof v);
}

static void ROI(most)(REAL *y, const REAL *const *plane, const ROI(Sample) *s, int64_t count)
{
    REAL v[TOGETHER];
    memcpy(v, y, sizeof v);
    for (int64_t i = 0; i < count; i++, s++)
        for (int c = 0; c < TOGETHER; c++)
            for (int k = 0; k < 4; k++) {
                REAL part = s->w[k] * plane[c][s->i[k]];
                v[c] = part > v[c] ? part : v[c];
            }
    memcpy(y, v, sizeof v);
}

/* The same samples of some cells, `count` each, in all c channels of a picture. Results of a channel lie side by side, those of the next one step behind. */
static void ROI(pool_cells)(REAL *out, int64_t step, int64_t cells, const REAL *x, int64_t plane_size, int64_t c, const ROI(Sample) *s, int64_t count, bool max)
{
    for (int64_t k = 0; k < c; k += TOGETHER) {
        const REAL *plane[TOGETHER];
        for (int64_t j = 0; j < TOGETHER; j++) plane[j] = x + (k + j < c ? k + j : c - 1) * plane_size;
        for (int64_t cell = 0; cell < cells; cell++) {
            REAL y[TOGETHER], *o = out + k * step + cell;
            for (int64_t j = 0; j < TOGETHER; j++) y[j] = k + j < c ? o[j * step] : 0;
            (max ? ROI(most) : ROI(total))(y, plane, s + cell * count, count);
            for (int64_t j = 0; j < TOGETHER && k + j < c; j++) o[j * step] = y[j];
        }
    }
}

typedef struct { int64_t c, h, w, oh, ow; bool max; } ROI(Pool);

/* One region of a picture: cells are taken as many at a time as have room for their samples. */
static void ROI(pool_region)(REAL *out, const REAL *x, const ROI(Grid) *region, const ROI(Pool) *p)
{
    ROI(Sample) sample[SAMPLES];
    int64_t n = region->ny > 0 && region->nx > 0 ? region->ny * region->nx : 0, cells = p->oh * p->ow, block = n && n < SAMPLES ? SAMPLES / n : 1;
    for (int64_t k = 0; k < p->c * cells; k++) out[k] = p->max && n ? -(REAL)INFINITY : 0;
    for (int64_t first = 0; first < cells; first += block)
        for (int64_t from = 0, some = first + block < cells ? block : cells - first, count; from < n; from += count) {
            count = n - from < SAMPLES ? n - from : SAMPLES;
            for (int64_t k = 0; k < some; k++) {
                ROI(Grid) g = *region;
                g.y += (REAL)((first + k) / p->ow) * g.dy;
                g.x += (REAL)((first + k) % p->ow) * g.dx;
                ROI(place_samples)(sample + k * count, &g, from, count, p->h, p->w);
            }
            ROI(pool_cells)(out + first, cells, some, x, p->h * p->w, p->c, sample, count, p->max);
        }
    for (int64_t k = 0; k < p->c * cells && n && !p->max; k++) out[k] /= (REAL)n;
}

/* Region [x0 y0 x1 y1] of a picture, cut into oh x ow cells, with as many samples as pixels. */
static ROI(Grid) ROI(grid_of)(const REAL *roi, const RoiAttr *a, int64_t oh, int64_t ow)
{
    REAL scale = a->scale, shift = a->half_pixel ? (REAL)0.5 : 0, x0 = roi[0] * scale - shift, y0 = roi[1] * scale - shift, rw = roi[2] * scale - shift - x0, rh = roi[3] * scale - shift - y0;
    if (!a->half_pixel) rw = MAX(rw, 1), rh = MAX(rh, 1);
    return (ROI(Grid)){ .y = y0, .x = x0, .dy = rh / (REAL)oh, .dx = rw / (REAL)ow };
}

static TgStatus ROI(roi_align)(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts)
{
    const RoiAttr *a = custom_attr(call->call->src[0], NULL);
    int64_t n = host_dim(call, 0, 0, vars), c = host_dim(call, 0, 1, vars), h = host_dim(call, 0, 2, vars), w = host_dim(call, 0, 3, vars);
    int64_t regions = host_dim(call, 1, 0, vars), oh = host_dim(call, 3, 2, vars), ow = host_dim(call, 3, 3, vars), cells = oh * ow;
    for (int64_t r = 0; r < regions; r++) {
        int64_t picture = ((const int64_t *)args[2])[r];
        ROI(Grid) g = ROI(grid_of)((const REAL *)args[1] + r * 4, a, oh, ow);
        TRY(check_region((double)g.dy, (double)g.dx, r, picture, n));
        if (r < regions * part / parts || r >= regions * (part + 1) / parts) continue;
        g.ny = (int64_t)CEIL(g.dy), g.nx = (int64_t)CEIL(g.dx);
        ROI(pool_region)((REAL *)args[3] + r * c * cells, (const REAL *)args[0] + picture * c * h * w, &g, &(ROI(Pool)){ c, h, w, oh, ow, a->max });
    }
    return TG_OK;
}

#undef REAL
#undef ROI
#undef CEIL
#undef MAX
