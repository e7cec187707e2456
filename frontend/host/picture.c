/* Which format bytes are in, by how they begin; BMP and PNM. Must hold: nothing is read outside the bytes, whatever
 * they say. To add a format: a row of picture_formats, or a function here.
 */
#include "frontend/host/picture.h"

#include <string.h>

enum { SIDE_MAX = 1 << 20, PIXELS_MAX = 1 << 28 };

bool picture_alloc(Picture *p, Arena *arena, int64_t height, int64_t width)
{
    if (height < 1 || width < 1 || height > SIDE_MAX || width > SIDE_MAX || height * width > PIXELS_MAX) return false;
    p->rgb = NEW_N(arena, uint8_t, height * width * 3);
    p->height = height, p->width = width;
    return true;
}

/* ---- BMP ---- */

static uint32_t little(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    while (bytes--) v = v << 8 | p[bytes];
    return v;
}

/* Rows of 8 bits by a palette, 24 or 32, not compressed; from below unless the height is negative. */
static bool decode_bmp(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    if (size < 54) return false;
    uint32_t from = little(data + 10, 4), header = little(data + 14, 4), bits = little(data + 28, 2),
             packing = little(data + 30, 4), colours = little(data + 46, 4);
    int64_t width = (int32_t)little(data + 18, 4), height = (int32_t)little(data + 22, 4),
            rows = height < 0 ? -height : height, stride = (width * bits + 31) / 32 * 4;
    if (bits == 8 && !colours) colours = 256;
    if ((bits != 8 && bits != 24 && bits != 32) || (packing && packing != 3) || header < 40 || header > size ||
        !picture_alloc(out, arena, rows, width))
        return false;
    if (from > size || (uint64_t)(rows * stride) > size - from ||
        (bits == 8 && (colours > 256 || 14 + (size_t)header + 4 * (size_t)colours > size)))
        return false;
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < width; x++) {
            const uint8_t *p = data + from + (height < 0 ? y : rows - 1 - y) * stride + x * (bits / 8);
            if (bits == 8 && *p >= colours) return false;
            if (bits == 8) p = data + 14 + header + 4 * *p;             /* of the palette */
            for (int k = 0; k < 3; k++) out->rgb[(y * width + x) * 3 + k] = p[2 - k];
        }
    return true;
}

/* ---- PNM ---- */

/* The next number of the header, behind white space and comments. */
static bool pnm_number(const uint8_t *data, size_t size, size_t *at, int64_t *out)
{
    while (*at < size && (data[*at] == '#' || data[*at] <= ' ')) {
        if (data[*at] == '#') while (*at < size && data[*at] != '\n') ++*at;
        else ++*at;
    }
    size_t start = *at;
    for (*out = 0; *at < size && data[*at] >= '0' && data[*at] <= '9' && *out < SIDE_MAX; ++*at)
        *out = *out * 10 + data[*at] - '0';
    return *at > start;
}

/* Sample i of raw data; one bit a sample (a row begins with a byte), one byte, or two. */
static int64_t pnm_sample(const uint8_t *p, int64_t i, int64_t row, int64_t most)
{
    if (most == 1) return !(p[i / row * ((row + 7) / 8) + i % row / 8] >> (7 - i % row % 8) & 1);
    return most < 256 ? p[i] : p[2 * i] << 8 | p[2 * i + 1];
}

/* P1 to P3 are text, P4 to P6 raw: bits (1 is black), grey, colours. */
static bool decode_pnm(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    int kind = data[1] - '0', channels = kind % 3 == 0 ? 3 : 1;
    int64_t width, height, most = 1, v;
    size_t at = 2;
    if (!pnm_number(data, size, &at, &width) || !pnm_number(data, size, &at, &height) ||
        (kind % 3 != 1 && !pnm_number(data, size, &at, &most)) || most < 1 || most > 65535)
        return false;
    if (!picture_alloc(out, arena, height, width)) return false;
    int64_t row = width * channels, bytes = height * (kind == 4 ? (width + 7) / 8 : row * (most < 256 ? 1 : 2));
    bool bits = kind == 4;
    if (kind > 3 && (at + 1 > size || (uint64_t)bytes > size - at - 1)) return false;
    for (int64_t i = 0; i < height * row; i++) {
        if (kind > 3) v = pnm_sample(data + at + 1, i, row, bits ? 1 : most < 2 ? 2 : most);
        else if (!pnm_number(data, size, &at, &v)) return false;
        if (kind == 1) v = !v;
        for (int k = 0; k < 3 / channels; k++)
            out->rgb[i * (3 / channels) + k] = (uint8_t)((v > most ? most : v) * 255 / most);
    }
    return true;
}

/* ---- which ---- */

TgStatus picture_decode(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    bool good = false;
    *out = (Picture){ 0 };
    for (size_t k = 0; k < picture_format_count; k++) {
        const PictureFormat *f = &picture_formats[k];
        if (size < f->at + f->length || memcmp(data + f->at, f->magic, f->length)) continue;
        TRY(f->open());
        good = f->decode(out, arena, data, size);
        break;
    }
    if (size > 2 && !memcmp(data, "BM", 2)) good = decode_bmp(out, arena, data, size);
    if (size > 2 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6') good = decode_pnm(out, arena, data, size);
    if (!good) *out = (Picture){ 0 };
    return TG_OK;
}
