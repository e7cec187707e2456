/* In: a picture file and how its pixels become numbers. Out: a tensor. The work is a model (scripts/picture_model.py)
 * that this library runs: decoding is ImageDecoder's, resizing is Resize's. */
#include "bench/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/say.h"
#include "bench/values.h"
#include "bench/picture_model.h"

enum { FILE_MAX = 1 << 28, SIZE_MAX_PIXELS = 1 << 15 };
typedef struct {
    char path[2048];
    int64_t size[2];                /* height, width; 0: not given */
    double mean[3], deviation[3], range;
    bool bgr;
    bool channels_last;             /* of the port */
    int64_t axis;                   /* of the port: where height stands */
} Image;

/* ---- the specification ---- */

static TgStatus bad(const TgPort *port, const char *word, const char *wanted)
{
    return say_error(TG_BAD_INPUT, "input '%s': image: '%s' is wrong; %s is wanted", port->name, word, wanted);
}

/* One number for all channels, or three between colons. */
static bool read_three(double out[3], const char *s)
{
    int n = 0;
    for (char *end; n < 3; s = end + 1) {
        out[n++] = strtod(s, &end);
        if (end == s) return false;
        if (!*end) break;
        if (*end != ':') return false;
    }
    if (n == 1) out[1] = out[2] = out[0];
    return n == 1 || (n == 3 && !strchr(s, ':'));
}

static TgStatus read_word(Image *m, const char *word, const TgPort *port)
{
    char end;
    long height, width;
    if (sscanf(word, "%ldx%ld%c", &height, &width, &end) == 2 && height > 0 && width > 0 && height <= SIZE_MAX_PIXELS &&
        width <= SIZE_MAX_PIXELS)
        return m->size[0] = height, m->size[1] = width, TG_OK;
    if (!strncmp(word, "mean=", 5))
        return read_three(m->mean, word + 5) ? TG_OK : bad(port, word, "mean=A or mean=A:B:C");
    if (!strncmp(word, "std=", 4)) {
        bool good = read_three(m->deviation, word + 4) && m->deviation[0] && m->deviation[1] && m->deviation[2];
        return good ? TG_OK : bad(port, word, "std=A or std=A:B:C, not 0,");
    }
    if (!strcmp(word, "range=255")) return m->range = 1, TG_OK;
    if (!strcmp(word, "bgr")) return m->bgr = true, TG_OK;
    return bad(port, word, "HEIGHTxWIDTH, mean=A:B:C, std=A:B:C, range=255 or bgr");
}

static TgStatus read_spec(Image *m, const char *spec, const TgPort *port)
{
    char words[512];
    const char *rest = spec + strlen("image:"), *comma = strchr(rest, ',');
    size_t len = comma ? (size_t)(comma - rest) : strlen(rest);
    *m = (Image){ .deviation = { 1, 1, 1 }, .range = 255 };
    if (!len || len >= sizeof m->path || strlen(rest) - len >= sizeof words) return bad(port, spec, "image:FILE,..");
    memcpy(m->path, rest, len);
    snprintf(words, sizeof words, "%s", comma ? comma + 1 : "");
    TgStatus status = TG_OK;
    char *save;
    for (char *w = strtok_r(words, ",", &save); w && status == TG_OK; w = strtok_r(NULL, ",", &save))
        status = read_word(m, w, port);
    return status;
}

/* Where the port has channels and sizes. */
static TgStatus read_port(Image *m, const TgPort *port)
{
    int64_t first = port->rank - 3;
    if (port->rank != 3 && port->rank != 4)
        return say_error(TG_BAD_INPUT, "input '%s' has rank %d; a picture is a tensor of rank 3 or 4", port->name,
                         port->rank);
    if (!type_is_float(port->type) && !type_is_integer(port->type))
        return say_error(TG_BAD_INPUT, "input '%s' is %s, which no picture is", port->name, tg_type_name(port->type));
    m->channels_last = port->shape[first] != 3 && port->shape[first + 2] == 3;
    if (!m->channels_last && port->shape[first] >= 0 && port->shape[first] != 3)
        return say_error(TG_BAD_INPUT, "input '%s' has %ld channels; a picture has 3", port->name,
                         (long)port->shape[first]);
    if (port->rank == 4 && port->shape[0] > 1)
        return say_error(TG_BAD_INPUT, "input '%s' is of %ld pictures; one is given", port->name, (long)port->shape[0]);
    m->axis = first + !m->channels_last;
    for (int d = 0; d < 2; d++) {
        int64_t wanted = port->shape[m->axis + d];
        if (wanted > 0 && m->size[d] && wanted != m->size[d])
            return say_error(TG_BAD_INPUT, "input '%s': image: size %ldx%ld is given, the model has %ld", port->name,
                             (long)m->size[0], (long)m->size[1], (long)wanted);
        if (wanted > 0) m->size[d] = wanted;
        if (!m->size[d])
            return say_error(TG_BAD_INPUT,
                             "input '%s': image: the model leaves the size open; image:FILE,HEIGHTxWIDTH says it",
                             port->name);
    }
    return TG_OK;
}

/* ---- the picture ---- */

static TgStatus read_bytes(TgTensor *out, const Image *m, const TgPort *port)
{
    FILE *f = fopen(m->path, "rb");
    if (!f) return say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, m->path, strerror(errno));
    fseek(f, 0, SEEK_END);
    int64_t n = ftell(f);
    rewind(f);
    bool good =
        n > 0 && n <= FILE_MAX && tensor_new(out, TG_U8, &n, 1) && fread(out->data, 1, (size_t)n, f) == (size_t)n;
    fclose(f);
    return good ? TG_OK
                : say_error(TG_BAD_INPUT, "input '%s': %s: cannot be read as a file of 1 to %d bytes", port->name,
                            m->path, FILE_MAX);
}

/* planes: f32[1, 3, height, width]. */
static TgStatus arrange(TgTensor *out, const Image *m, const TgTensor *planes, const TgPort *port)
{
    int64_t shape[4] = { 1, 1, 1, 1 }, height = m->size[0], width = m->size[1];
    int64_t first = port->rank - 3;
    shape[first + (m->channels_last ? 2 : 0)] = 3;
    shape[m->axis] = height;
    shape[m->axis + 1] = width;
    if (!tensor_new(out, port->type, shape, port->rank))
        return say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < height * width; i++) {
            double v = ((const float *)planes->data)[(m->bgr ? 2 - c : c) * height * width + i];
            value_put(port->type, out->data, m->channels_last ? i * 3 + c : c * height * width + i, v);
        }
    return TG_OK;
}

static TgStatus run(TgTensor *out, const Image *m, TgTensor *bytes, const TgPort *port)
{
    float scale[3], shift[3];
    TgSession *s = NULL;
    TgOptions o;
    TgTensor planes;
    for (int c = 0; c < 3; c++) {
        int k = m->bgr ? 2 - c : c;                 /* mean and std are in the order of the model's channels */
        scale[c] = (float)(1 / (m->range * m->deviation[k]));
        shift[c] = (float)(-m->mean[k] / m->deviation[k]);
    }
    TgTensor in[4] = {
        *bytes,
        { .type = TG_I64, .rank = 1, .shape = { 2 }, .data = (void *)(uintptr_t)m->size, .size_bytes = sizeof m->size },
        { .type = TG_F32, .rank = 1, .shape = { 3 }, .data = scale, .size_bytes = sizeof scale },
        { .type = TG_F32, .rank = 1, .shape = { 3 }, .data = shift, .size_bytes = sizeof shift }
    };
    tg_options_default(&o);
    o.device = "cpu";
    TgStatus status = tg_open_memory(&s, picture_model, sizeof picture_model, NULL, &o);
    if (status == TG_OK) status = tg_run(s, in, 4, &planes);
    if (status == TG_BAD_MODEL || status == TG_BAD_INPUT) /* nothing was decoded, so that there is nothing to resize */
        status = say_error(TG_BAD_INPUT, "input '%s': %s: is no picture that can be read here", port->name, m->path);
    else if (status != TG_OK) say_error(status, "input '%s': %s: %s", port->name, m->path, tg_error());
    else if (tensor_numel(&planes) != 3 * m->size[0] * m->size[1])
        status = say_error(TG_BAD_INPUT, "input '%s': %s: is no picture that can be read here", port->name, m->path);
    else status = arrange(out, m, &planes, port);
    tg_close(s);
    return status;
}

TgStatus image_read(TgTensor *out, const char *spec, const TgPort *port)
{
    Image m;
    TgTensor bytes = { 0 };
    TgStatus status = read_spec(&m, spec, port);
    if (status == TG_OK) status = read_port(&m, port);
    if (status == TG_OK) status = read_bytes(&bytes, &m, port);
    if (status == TG_OK) status = run(out, &m, &bytes, port);
    tg_tensor_free(&bytes);
    return status;
}
