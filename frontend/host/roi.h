/* RoiAlign in one precision. Included by host/detect.c once for each, with REAL its type, INT the integer of that size,
 * ROI(name) the names, CEIL and MAX its functions. */

typedef REAL ROI(Vector) __attribute__((vector_size(16)));
typedef REAL ROI(Stored) __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
typedef INT ROI(Mask) __attribute__((vector_size(16)));
enum { ROI(LANES) = 16 / sizeof(REAL) };

/* What a cell's samples touch along one axis: pixels, in order, how far they lie from the picture's first element, each
 * with two weights: the sum of the samples' and nothing, or the largest and the least of them. outside: a sample lies
 * more than a pixel beyond the axis. */
typedef struct { int64_t offset; REAL weight, least; } ROI(Pixel);
typedef struct { int64_t count; bool outside; ROI(Pixel) *pixel; } ROI(Touched);

static void ROI(touch)(ROI(Touched) *t, int64_t offset, REAL weight, bool max)
{
    int64_t k = t->count;
    while (k && t->pixel[k - 1].offset > offset) k--;
    ROI(Pixel) *p = t->pixel + (k ? k - 1 : 0);
    if (!k || p->offset != offset) {
        memmove(t->pixel + k + 1, t->pixel + k, (size_t)(t->count++ - k) * sizeof *p);
        t->pixel[k] = (ROI(Pixel)){ offset, weight, max ? weight : 0 };
    } else if (!max) p->weight += weight;
    else p->weight = MAX(p->weight, weight), p->least = weight < p->least ? weight : p->least;
}

/* n samples along an axis of that size, whose pixels are at stride step. room: for a pixel each of the axis. */
static ROI(Touched)
    ROI(touched)(ROI(Pixel) * room, REAL start, REAL length, int64_t n, int64_t size, int64_t step, bool max)
{
    ROI(Touched) t = { .pixel = room };
    for (int64_t k = 0; k < n; k++) {
        REAL at = start + ((REAL)k + (REAL)0.5) * length / (REAL)n;
        bool out = !(size && at >= -1 && at <= (REAL)size);
        t.outside |= out;
        if (out) continue;
        at = MAX(at, 0);
        int64_t low = (int64_t)at;
        if (low >= size - 1) low = size - 1, at = (REAL)low;
        ROI(touch)(&t, low * step, 1 - (at - (REAL)low), max);
        ROI(touch)(&t, (low + 1 < size ? low + 1 : low) * step, at - (REAL)low, max);
    }
    return t;
}

/* x: a picture's first pixel, its channels side by side */
typedef struct { const REAL *x; ROI(Touched) down, along; REAL samples; } ROI(Cell);

static ROI(Vector) ROI(larger)(ROI(Vector) a, ROI(Vector) b)         /* b where one of them is NaN */
{
    ROI(Mask) m = a > b;
    return (ROI(Vector))((m & (ROI(Mask))a) | (~m & (ROI(Mask))b));
}

/* The mean of a cell's samples in channels side by side. */
static void ROI(mean)(ROI(Vector) v[VECTORS], const ROI(Cell) *cell)
{
    ROI(Vector) a = { 0 }, b = a, c = a, d = a;
    for (int64_t i = 0; i < cell->down.count; i++)
        for (int64_t j = 0; j < cell->along.count; j++) {
            const ROI(Pixel) *down = &cell->down.pixel[i], *along = &cell->along.pixel[j];
            const ROI(Stored) *x = (const ROI(Stored) *)(cell->x + down->offset + along->offset);
            REAL w = down->weight * along->weight;
            a += w * x[0], b += w * x[1], c += w * x[2], d += w * x[3];
        }
    v[0] = a / cell->samples, v[1] = b / cell->samples, v[2] = c / cell->samples, v[3] = d / cell->samples;
}

/* The largest of all that a mean would add up: of one pixel it has the largest weight or the least. */
static void ROI(most)(ROI(Vector) v[VECTORS], const ROI(Cell) *cell)
{
    REAL none = cell->down.outside || cell->along.outside ? 0 : -(REAL)INFINITY;
    ROI(Vector) a = none + (ROI(Vector)){ 0 }, b = a, c = a, d = a;
    for (int64_t i = 0; i < cell->down.count; i++)
        for (int64_t j = 0; j < cell->along.count; j++) {
            const ROI(Pixel) *down = &cell->down.pixel[i], *along = &cell->along.pixel[j];
            const ROI(Stored) *x = (const ROI(Stored) *)(cell->x + down->offset + along->offset);
            REAL w = down->weight * along->weight, u = down->least * along->least;
            a = ROI(larger)(u * x[0], ROI(larger)(w * x[0], a)), b = ROI(larger)(u * x[1], ROI(larger)(w * x[1], b));
            c = ROI(larger)(u * x[2], ROI(larger)(w * x[2], c)), d = ROI(larger)(u * x[3], ROI(larger)(w * x[3], d));
        }
    v[0] = a, v[1] = b, v[2] = c, v[3] = d;
}

/* One channel, where fewer are left than those two take. */
static REAL ROI(single)(const ROI(Cell) *cell, bool max)
{
    REAL v = !max || cell->down.outside || cell->along.outside ? 0 : -(REAL)INFINITY;
    for (int64_t i = 0; i < cell->down.count; i++)
        for (int64_t j = 0; j < cell->along.count; j++) {
            const ROI(Pixel) *down = &cell->down.pixel[i], *along = &cell->along.pixel[j];
            REAL x = cell->x[down->offset + along->offset], w = down->weight * along->weight * x,
                 u = down->least * along->least * x;
            if (!max) v += w;
            else v = w > v ? w : v, v = u > v ? u : v;
        }
    return max ? v : v / cell->samples;
}

/* All channels; results of neighbours are at stride step. */
static void ROI(pool_cell)(REAL *out, int64_t step, int64_t channels, ROI(Cell) cell, bool max)
{
    int64_t k = 0;
    for (; k + VECTORS * ROI(LANES) <= channels; k += VECTORS * ROI(LANES), cell.x += VECTORS * ROI(LANES)) {
        ROI(Vector) v[VECTORS];
        (max ? ROI(most) : ROI(mean))(v, &cell);
        for (int64_t j = 0; j < VECTORS * ROI(LANES); j++) out[(k + j) * step] = v[j / ROI(LANES)][j % ROI(LANES)];
    }
    for (; k < channels; k++, cell.x++) out[k * step] = ROI(single)(&cell, max);
}

/* the first cell's corner; a cell's size, samples */
typedef struct { REAL y, x, dy, dx; int64_t ny, nx; } ROI(Grid);
typedef struct { int64_t h, w, c, oh, ow; bool max; } ROI(Pool);

/* One region of a picture [h,w,c] -> [c,oh,ow]. room: for a pixel each of a column and of a row */
static void ROI(pool_region)(REAL *out, const REAL *x, const ROI(Grid) *g, const ROI(Pool) *p, ROI(Pixel) *room)
{
    for (int64_t i = 0; i < p->oh && g->ny > 0 && g->nx > 0; i++) {
        ROI(Touched) down = ROI(touched)(room, g->y + (REAL)i * g->dy, g->dy, g->ny, p->h, p->w * p->c, p->max);
        for (int64_t j = 0; j < p->ow; j++) {
            ROI(Touched) along = ROI(touched)(room + p->h, g->x + (REAL)j * g->dx, g->dx, g->nx, p->w, p->c, p->max);
            ROI(Cell) cell = { x, down, along, (REAL)(g->ny * g->nx) };
            ROI(pool_cell)(out + i * p->ow + j, p->oh * p->ow, p->c, cell, p->max);
        }
    }
    if (g->ny <= 0 || g->nx <= 0) memset(out, 0, (size_t)(p->c * p->oh * p->ow) * sizeof *out);
}

/* Region [x0 y0 x1 y1] of a picture, cut into oh x ow cells. */
static ROI(Grid) ROI(grid_of)(const REAL *roi, const RoiAttr *a, int64_t oh, int64_t ow)
{
    REAL scale = a->scale, shift = a->half_pixel ? (REAL)0.5 : 0, x0 = roi[0] * scale - shift,
         y0 = roi[1] * scale - shift, rw = roi[2] * scale - shift - x0, rh = roi[3] * scale - shift - y0;
    if (!a->half_pixel) rw = MAX(rw, 1), rh = MAX(rh, 1);
    return (ROI(Grid)){ .y = y0, .x = x0, .dy = rh / (REAL)oh, .dx = rw / (REAL)ow };
}

static TgStatus ROI(roi_align)(const HostCall *call, void *const *args, const int64_t *vars, int64_t part,
                               int64_t parts)
{
    const RoiAttr *a = custom_attr(call->call->src[0], NULL);
    int64_t n = host_dim(call, 0, 0, vars), h = host_dim(call, 0, 1, vars), w = host_dim(call, 0, 2, vars),
            c = host_dim(call, 0, 3, vars);
    int64_t regions = host_dim(call, 1, 0, vars), oh = host_dim(call, 3, 2, vars), ow = host_dim(call, 3, 3, vars);
    ROI(Pixel) *room = host_scratch((size_t)(h + w + 1) * sizeof *room);
    for (int64_t r = 0; r < regions; r++) {
        int64_t picture = ((const int64_t *)args[2])[r];
        ROI(Grid) g = ROI(grid_of)((const REAL *)args[1] + r * 4, a, oh, ow);
        TRY(check_region((double)g.dy, (double)g.dx, r, picture, n));
        if (r < regions * part / parts || r >= regions * (part + 1) / parts) continue;
        g.ny = a->samples ? a->samples : (int64_t)CEIL(g.dy), g.nx = a->samples ? a->samples : (int64_t)CEIL(g.dx);
        ROI(pool_region)
        ((REAL *)args[3] + r * c * oh * ow, (const REAL *)args[0] + picture * c * h * w, &g,
         &(ROI(Pool)){ h, w, c, oh, ow, a->max }, room);
    }
    return TG_OK;
}

#undef REAL
#undef INT
#undef ROI
#undef CEIL
#undef MAX
