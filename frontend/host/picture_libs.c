/* Pictures by the usual libraries, opened when they are first wanted: libturbojpeg, libpng, libwebp, libtiff, openjpeg.
 * Their functions and the few structs that we touch are declared here as their stable interfaces have them, so that the
 * build needs none of their headers and a machine without them runs everything else. To add one: a table of names, a
 * function, a row of picture_formats.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "frontend/host/picture.h"

typedef struct { const char *name; void *to; } Symbol;                  /* to: the address of a function pointer */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Opens a library once. file: names to try, the last NULL. */
static TgStatus library(bool *opened, const char *what, const char *package, const char *const *file,
                        const Symbol *symbol, size_t n)
{
    void *handle = NULL;
    pthread_mutex_lock(&lock);
    for (size_t k = 0; !*opened && !handle && file[k]; k++) handle = dlopen(file[k], RTLD_NOW | RTLD_LOCAL);
    bool all = *opened || handle;
    for (size_t k = 0; k < n && !*opened && all; k++) {
        void *address = dlsym(handle, symbol[k].name);
        memcpy(symbol[k].to, &address, sizeof address);
        all = address != NULL;
    }
    *opened = all;
    pthread_mutex_unlock(&lock);
    return all
        ? TG_OK
        : fail(TG_UNSUPPORTED, "%s pictures need %s, which is not installed (package %s)", what, file[0], package);
}
#define LIBRARY(what, package, files, symbols) \
    static TgStatus open_##what(void) \
    { \
        static bool opened; \
        return library(&opened, #what, package, files, symbols, sizeof symbols / sizeof *symbols); \
    }

/* Four bytes a pixel without the last. */
static void drop_fourth(Picture *out, const uint8_t *rgba)
{
    for (int64_t i = 0; i < out->height * out->width; i++) memcpy(out->rgb + 3 * i, rgba + 4 * i, 3);
}

/* ---- JPEG ---- */

static struct {
    void *(*create)(void);
    int (*header)(void *handle, const uint8_t *data, unsigned long size, int *width, int *height, int *sampling,
                  int *colours);
    int (*decode)(void *handle, const uint8_t *data, unsigned long size, uint8_t *out, int width, int pitch, int height,
                  int format, int flags);
    int (*destroy)(void *handle);
} jpeg;
static const char *const jpeg_files[] = { "libturbojpeg.so.0", "libturbojpeg.so", NULL };
static const Symbol jpeg_symbols[] = { { "tjInitDecompress", &jpeg.create },
                                       { "tjDecompressHeader3", &jpeg.header },
                                       { "tjDecompress2", &jpeg.decode },
                                       { "tjDestroy", &jpeg.destroy } };
LIBRARY(JPEG, "libturbojpeg0", jpeg_files, jpeg_symbols)

static bool decode_jpeg(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    enum { FORMAT_RGB = 0, ACCURATE_DCT = 4096 };
    int width, height, sampling, colours;
    void *handle = jpeg.create();
    bool good = handle && !jpeg.header(handle, data, size, &width, &height, &sampling, &colours) &&
        picture_alloc(out, arena, height, width) &&
        !jpeg.decode(handle, data, size, out->rgb, width, 3 * width, height, FORMAT_RGB, ACCURATE_DCT);
    if (handle) jpeg.destroy(handle);
    return good;
}

/* ---- PNG ---- */

typedef struct {
    void *opaque;
    uint32_t version, width, height, format, flags, colours, warning;
    char message[64];
} PngImage;
static struct {
    int (*begin)(PngImage *image, const void *data, size_t size);
    int (*finish)(PngImage *image, const void *background, void *out, int32_t stride, void *colours);
    void (*free)(PngImage *image);
} png;
static const char *const png_files[] = { "libpng16.so.16", "libpng16.so", NULL };
static const Symbol png_symbols[] = { { "png_image_begin_read_from_memory", &png.begin },
                                      { "png_image_finish_read", &png.finish },
                                      { "png_image_free", &png.free } };
LIBRARY(PNG, "libpng16-16", png_files, png_symbols)

static bool decode_png(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    enum { VERSION = 1, FORMAT_RGBA = 3 };
    PngImage image = { .version = VERSION };
    bool good = png.begin(&image, data, size) && picture_alloc(out, arena, image.height, image.width);
    uint8_t *rgba = good ? NEW_N(arena, uint8_t, out->height * out->width * 4) : NULL;
    image.format = FORMAT_RGBA;
    good = good && png.finish(&image, NULL, rgba, 0, NULL);
    if (good) drop_fourth(out, rgba);
    png.free(&image);
    return good;
}

/* ---- WebP ---- */

static struct {
    int (*info)(const uint8_t *data, size_t size, int *width, int *height);
    uint8_t *(*decode)(const uint8_t *data, size_t size, uint8_t *out, size_t out_size, int stride);
} webp;
static const char *const webp_files[] = { "libwebp.so.7", "libwebp.so", NULL };
static const Symbol webp_symbols[] = { { "WebPGetInfo", &webp.info }, { "WebPDecodeRGBInto", &webp.decode } };
LIBRARY(WebP, "libwebp7", webp_files, webp_symbols)

static bool decode_webp(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    int width, height;
    return webp.info(data, size, &width, &height) && picture_alloc(out, arena, height, width) &&
        webp.decode(data, size, out->rgb, (size_t)(height * (int64_t)width * 3), 3 * width);
}

/* ---- TIFF ---- */

/* A file in memory. */
typedef struct { const uint8_t *data; int64_t size, at; } Bytes;

static int64_t bytes_read(void *user, void *out, int64_t n)
{
    Bytes *b = user;
    int64_t left = b->at < b->size ? b->size - b->at : 0;
    if (n > left) n = left;
    if (n > 0) memcpy(out, b->data + b->at, (size_t)n);
    b->at += n;
    return n;
}
static int64_t bytes_write(void *user, void *from, int64_t n) { (void)user, (void)from, (void)n; return 0; }

static uint64_t bytes_seek(void *user, uint64_t to, int whence)
{
    Bytes *b = user;
    return (uint64_t)(b->at = (int64_t)to + (whence == 1 ? b->at : whence == 2 ? b->size : 0));
}
static int bytes_close(void *user) { (void)user; return 0; }
static uint64_t bytes_size(void *user) { return (uint64_t)((Bytes *)user)->size; }

typedef int64_t (*TiffIo)(void *user, void *data, int64_t n);
static struct {
    void *(*open)(const char *name, const char *mode, void *user, TiffIo read, TiffIo write,
                  uint64_t (*seek)(void *, uint64_t, int), int (*close)(void *), uint64_t (*size)(void *), void *map,
                  void *unmap);
    int (*field)(void *tiff, uint32_t tag, ...);
    int (*decode)(void *tiff, uint32_t width, uint32_t height, uint32_t *out, int orientation, int stop);
    void (*close)(void *tiff);
    void *(*errors)(void *handler), *(*warnings)(void *handler);
} tiff;
static const char *const tiff_files[] = { "libtiff.so.6", "libtiff.so.5", "libtiff.so", NULL };
static const Symbol tiff_symbols[] = { { "TIFFClientOpen", &tiff.open },
                                       { "TIFFGetField", &tiff.field },
                                       { "TIFFReadRGBAImageOriented", &tiff.decode },
                                       { "TIFFClose", &tiff.close },
                                       { "TIFFSetErrorHandler", &tiff.errors },
                                       { "TIFFSetWarningHandler", &tiff.warnings } };
LIBRARY(TIFF, "libtiff6", tiff_files, tiff_symbols)

static bool decode_tiff(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    enum { TAG_WIDTH = 256, TAG_HEIGHT = 257, TOP_LEFT = 1 };
    Bytes bytes = { data, (int64_t)size, 0 };
    uint32_t width = 0, height = 0;
    tiff.errors(NULL), tiff.warnings(NULL);
    void *file =
        tiff.open("picture", "rm", &bytes, bytes_read, bytes_write, bytes_seek, bytes_close, bytes_size, NULL, NULL);
    bool good = file && tiff.field(file, TAG_WIDTH, &width) && tiff.field(file, TAG_HEIGHT, &height) &&
        picture_alloc(out, arena, height, width);
    uint32_t *rgba = good ? NEW_N(arena, uint32_t, out->height * out->width) : NULL;
    good = good && tiff.decode(file, width, height, rgba, TOP_LEFT, 1);
    if (good) drop_fourth(out, (const uint8_t *)rgba);
    if (file) tiff.close(file);
    return good;
}

/* ---- JPEG 2000 ---- */

typedef struct {
    uint32_t dx, dy, w, h, x0, y0, bits, bpp, is_signed, resolution, factor;
    int32_t *data;
    uint16_t alpha;
} J2kPart;
typedef struct {
    uint32_t x0, y0, x1, y1, parts;
    int colours;
    J2kPart *part;
} J2kImage;
static struct {
    void *(*codec)(int format);
    void (*defaults)(void *parameters);
    int (*setup)(void *codec, void *parameters);
    void *(*stream)(size_t buffer, int is_input);
    void (*on_read)(void *stream, size_t (*fn)(void *out, size_t n, void *user));
    void (*on_skip)(void *stream, int64_t (*fn)(int64_t n, void *user));
    void (*on_seek)(void *stream, int (*fn)(int64_t to, void *user));
    void (*user)(void *stream, void *user, void (*done)(void *user));
    void (*length)(void *stream, uint64_t n);
    int (*header)(void *stream, void *codec, J2kImage **out);
    int (*decode)(void *codec, void *stream, J2kImage *image);
    void (*free_image)(J2kImage *image);
    void (*free_codec)(void *codec);
    void (*free_stream)(void *stream);
} j2k;
static const char *const j2k_files[] = { "libopenjp2.so.7", "libopenjp2.so", NULL };
static const Symbol j2k_symbols[] = { { "opj_create_decompress", &j2k.codec },
                                      { "opj_set_default_decoder_parameters", &j2k.defaults },
                                      { "opj_setup_decoder", &j2k.setup },
                                      { "opj_stream_create", &j2k.stream },
                                      { "opj_stream_set_read_function", &j2k.on_read },
                                      { "opj_stream_set_skip_function", &j2k.on_skip },
                                      { "opj_stream_set_seek_function", &j2k.on_seek },
                                      { "opj_stream_set_user_data", &j2k.user },
                                      { "opj_stream_set_user_data_length", &j2k.length },
                                      { "opj_read_header", &j2k.header },
                                      { "opj_decode", &j2k.decode },
                                      { "opj_image_destroy", &j2k.free_image },
                                      { "opj_destroy_codec", &j2k.free_codec },
                                      { "opj_stream_destroy", &j2k.free_stream } };
LIBRARY(JPEG2000, "libopenjp2-7", j2k_files, j2k_symbols)

static size_t j2k_read(void *out, size_t n, void *user)
{
    int64_t got = bytes_read(user, out, (int64_t)n);
    return got > 0 ? (size_t)got : (size_t)-1;
}

static int64_t j2k_skip(int64_t n, void *user)
{
    ((Bytes *)user)->at += n;
    return n;
}

static int j2k_seek(int64_t to, void *user) { return bytes_seek(user, (uint64_t)to, 0), 1; }

/* Parts, 1 or 3 and perhaps one for opacity, as 8 bits. */
static bool j2k_pixels(Picture *out, Arena *arena, const J2kImage *image)
{
    uint32_t colours = image->parts > 2 ? 3 : 1;
    if (!image->parts || !picture_alloc(out, arena, image->part[0].h, image->part[0].w)) return false;
    for (uint32_t k = 0; k < colours; k++)
        if (!image->part[k].data || image->part[k].w != out->width || image->part[k].h != out->height ||
            image->part[k].bits < 1 || image->part[k].bits > 24)
            return false;
    for (int64_t i = 0; i < out->height * out->width; i++)
        for (uint32_t k = 0; k < 3; k++) {
            const J2kPart *p = &image->part[colours == 3 ? k : 0];
            int64_t most = (INT64_C(1) << p->bits) - 1,
                    v = p->data[i] + (p->is_signed ? INT64_C(1) << (p->bits - 1) : 0);
            out->rgb[3 * i + k] = (uint8_t)((v < 0 ? 0 : v > most ? most : v) * 255 / most);
        }
    return true;
}

static bool decode_j2k(Picture *out, Arena *arena, const uint8_t *data, size_t size)
{
    enum { RAW = 0, JP2 = 2, PARAMETERS = 1 << 15, BUFFER = 1 << 16 };
    Bytes bytes = { data, (int64_t)size, 0 };
    J2kImage *image = NULL;
    void *parameters = NEW_N(arena, uint64_t, PARAMETERS / 8), *codec = j2k.codec(data[0] ? RAW : JP2),
         *stream = j2k.stream(BUFFER, 1);
    bool good = codec && stream;
    if (good) {
        j2k.defaults(parameters);
        j2k.on_read(stream, j2k_read), j2k.on_skip(stream, j2k_skip), j2k.on_seek(stream, j2k_seek),
            j2k.user(stream, &bytes, NULL), j2k.length(stream, size);
        good = j2k.setup(codec, parameters) && j2k.header(stream, codec, &image) && j2k.decode(codec, stream, image) &&
            j2k_pixels(out, arena, image);
    }
    if (image) j2k.free_image(image);
    if (stream) j2k.free_stream(stream);
    if (codec) j2k.free_codec(codec);
    return good;
}

/* ---- formats ---- */

const PictureFormat picture_formats[] = {
    { "JPEG", "\xff\xd8\xff", 0, 3, open_JPEG, decode_jpeg },
    { "PNG", "\x89PNG\r\n\x1a\n", 0, 8, open_PNG, decode_png },
    { "WebP", "WEBP", 8, 4, open_WebP, decode_webp },
    { "TIFF", "II*\0", 0, 4, open_TIFF, decode_tiff },
    { "TIFF", "MM\0*", 0, 4, open_TIFF, decode_tiff },
    { "JPEG 2000", "\0\0\0\x0cjP  ", 0, 8, open_JPEG2000, decode_j2k },
    { "JPEG 2000", "\xff\x4f\xff\x51", 0, 4, open_JPEG2000, decode_j2k },
};
const size_t picture_format_count = sizeof picture_formats / sizeof *picture_formats;
