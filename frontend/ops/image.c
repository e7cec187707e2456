/* ImageDecoder (20). In: a picture file's bytes. Out: [height, width, channels], empty where the bytes are no picture.
 * Bytes that are known at import are decoded there; others by a host function, whose result's size is a question
 * (shape_query.h): a program serves all pictures of one size.
 */
#include <string.h>

#include "frontend/host/host.h"
#include "frontend/host/util.h"
#include "frontend/host/picture.h"
#include "frontend/import/shape_query.h"
#include "graph/custom.h"

enum { BYTES_MAX = 1 << 28 };

/* ITU-R BT.601 in 16 bits of fraction. */
static uint8_t grey(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

static void store(uint8_t *out, const Picture *p, const PictureAttr *a)
{
    for (int64_t i = 0; i < p->height * p->width; i++)
        for (int32_t k = 0; k < a->channels; k++)
            *out++ = a->channels == 1 ? grey(p->rgb + 3 * i) : p->rgb[3 * i + a->channel[k]];
}

/* ---- at run time ---- */

static TgStatus decode(Picture *p, Arena *arena, const HostCall *call, void *const *args, const int64_t *vars)
{
    size_t size = (size_t)host_dim(call, 0, 0, vars);
    return picture_decode(p, arena, size ? args[0] : NULL, size);
}

TgStatus host_picture_size(const HostCall *call, void *const *args, int64_t *vars)
{
    Arena *arena = arena_new();
    Picture p;
    int64_t *out = host_result(call, args, 0);
    TgStatus status = decode(&p, arena, call, args, vars);
    if (out && status == TG_OK) out[0] = p.height, out[1] = p.width;
    arena_free(arena);
    return status;
}

/* The result's shape is what the size was when it was queried: of the same bytes. */
TgStatus host_picture(const HostCall *call, void *const *args, int64_t *vars)
{
    Arena *arena = arena_new();
    Picture p;
    uint8_t *out = host_result(call, args, 0);
    TgStatus status = decode(&p, arena, call, args, vars);
    bool fits = status == TG_OK && p.height == host_dim(call, 1, 0, vars) && p.width == host_dim(call, 1, 1, vars);
    if (out && fits) store(out, &p, custom_attr(call->call->src[0], NULL));
    arena_free(arena);
    return status == TG_OK && !fits ? fail(TG_INTERNAL, "a picture of another size than was requested") : status;
}

/* ---- the operator ---- */

static U decoded_later(Graph *g, const Ctx *c, U x, const PictureAttr *a)
{
    U two = uop_index(g, 2), call = call_new(g, custom_new(g, "picture_size", NULL, 0, NULL, 0), &x, 1),
      size = import_query(c->im, call_result(g, call, 0, DT_I64, &two, 1));
    const UOp *v[2];
    if (!size)
        return import_queries(c->im)
            ? fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "the picture's size depends on data")
            : fail_data(g, c, 0);
    values_of(g, size, v, 2);
    U dim[3] = { uop_index(g, uop_const_int(v[0])), uop_index(g, uop_const_int(v[1])), uop_index(g, a->channels) };
    return call_result(g, call_new(g, custom_new(g, "picture", a, sizeof *a, NULL, 0), &x, 1), 0, DT_U8, dim, 3);
}

U op_image_decoder(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    const char *format = attr_str(g, c, "pixel_format", "RGB");
    bool bgr = !strcmp(format, "BGR"), single = !strcmp(format, "Grayscale");
    PictureAttr a = { { bgr ? 2 : 0, 1, bgr ? 0 : 2 }, single ? 1 : 3 };
    size_t size = 0;
    Picture p;
    if (!bgr && !single && strcmp(format, "RGB"))
        return fail_node(g, c, TG_BAD_MODEL, "pixel_format", "is '%s'; wanted RGB, BGR or Grayscale", format);
    if (uop_rank(x) != 1 || x->dtype != DT_U8)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not a list of bytes");
    const uint8_t *data = uop_static(x) && uop_numel(x) ? data_of(g, x, BYTES_MAX, &size) : NULL;
    if (!data && (!uop_static(x) || uop_numel(x))) return decoded_later(g, c, x, &a);
    if (picture_decode(&p, graph_arena(g), data, size) != TG_OK)
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "%s", tg_error());
    uint8_t *out = NEW_N(graph_arena(g), uint8_t, p.height * p.width * a.channels + 1);
    store(out, &p, &a);
    return tensor_const(g, DT_U8, (int64_t[]){ p.height, p.width, a.channels }, 3, out,
                        (size_t)(p.height * p.width * a.channels), "");
}
