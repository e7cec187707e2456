/* ImageDecoder (20). In: a picture file's bytes, known at import: an input's value is baked in, as the result's shape depends on it (and the bytes' number differs from picture
 * to picture anyway). Out: [height, width, channels], empty where the bytes are no picture.
 */
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/picture.h"

enum { BYTES_MAX = 1 << 28 };

/* ITU-R BT.601 in 16 bits of fraction. */
static uint8_t grey(const uint8_t *rgb) { return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16); }

U op_image_decoder(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    const char *format = attr_str(g, c, "pixel_format", "RGB");
    bool bgr = !strcmp(format, "BGR"), single = !strcmp(format, "Grayscale");
    size_t size;
    Picture p;
    if (!bgr && !single && strcmp(format, "RGB")) return fail_node(g, c, TG_BAD_MODEL, "pixel_format", "is '%s'; wanted RGB, BGR or Grayscale", format);
    if (uop_rank(x) != 1 || x->dtype != DT_U8) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not a list of bytes");
    const uint8_t *data = uop_static(x) && uop_numel(x) ? data_of(g, x, BYTES_MAX, &size) : NULL;
    if (!data && (!uop_static(x) || uop_numel(x))) return fail_data(g, c, 0);
    if (picture_decode(&p, graph_arena(g), data, data ? size : 0) != TG_OK) return fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "%s", tg_error());
    int64_t n = p.height * p.width, channels = single ? 1 : 3;
    uint8_t *out = NEW_N(graph_arena(g), uint8_t, n * channels + 1);
    for (int64_t i = 0; i < n; i++) {
        if (single) out[i] = grey(p.rgb + 3 * i);
        for (int k = 0; k < 3 && !single; k++) out[3 * i + k] = p.rgb[3 * i + (bgr ? 2 - k : k)];
    }
    return tensor_const(g, DT_U8, (int64_t[]){ p.height, p.width, channels }, 3, out, (size_t)(n * channels), "");
}
