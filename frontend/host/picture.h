/* Pictures in files' bytes: BMP and PNM here, others by libraries that are opened when the first such picture comes. */
#ifndef TG_PICTURE_H
#define TG_PICTURE_H
#include <stdbool.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

/* rgb: [height, width, 3] in the arena; no height: nobody can decode these bytes */
typedef struct { int64_t height, width; uint8_t *rgb; } Picture;

/* TG_UNSUPPORTED: the format's library is not installed. Bytes that are no picture, or a broken one, are no error. */
TgStatus picture_decode(Picture *out, Arena *arena, const uint8_t *data, size_t size);

/* One format of a library (picture_libs.c). */
typedef bool (*PictureFn)(Picture *out, Arena *arena, const uint8_t *data, size_t size);
typedef struct { const char *name, *magic; size_t at, length; TgStatus (*open)(void); PictureFn decode; } PictureFormat;
extern const PictureFormat picture_formats[];
extern const size_t picture_format_count;
bool picture_alloc(Picture *p, Arena *arena, int64_t height, int64_t width);    /* false: no size for a picture */
#endif
