/* In: a recording and how many samples a second the model wants. Out: a tensor. libsndfile decodes (wav, flac, ogg,
 * mp3), libsamplerate resamples with its best sinc; their few functions and structs are declared here, since both are
 * opened only when a recording is given. */
#include "bench/audio.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/say.h"
#include "bench/values.h"

enum { SF_READ = 0x10, SRC_SINC_BEST = 0, RATE_MAX = 1 << 20, CHANNELS_MAX = 64 };
static const int64_t SAMPLES_MAX = (int64_t)1 << 31;

typedef struct { /* SF_INFO of sndfile.h */
    int64_t frames;
    int samplerate;
    int channels;
    int format;
    int sections;
    int seekable;
} SfInfo;

typedef struct { /* SRC_DATA of samplerate.h */
    const float *in;
    float *out;
    long in_frames;
    long out_frames;
    long in_used;
    long out_made;
    int end;
    double ratio;
} SrcData;

typedef struct {
    char path[2048];
    int64_t rate, samples; /* 0: not given */
    int64_t channels, frames;
    float *v; /* frames x channels */
} Audio;

static TgStatus bad(const TgPort *port, const char *word, const char *wanted)
{
    return say_error(TG_BAD_INPUT, "input '%s': audio: '%s' is wrong; %s is wanted", port->name, word, wanted);
}

static TgStatus read_spec(Audio *m, const char *spec, const TgPort *port)
{
    char words[256], *save;
    const char *rest = spec + strlen("audio:"), *comma = strchr(rest, ',');
    size_t len = comma ? (size_t)(comma - rest) : strlen(rest);
    *m = (Audio){ 0 };
    if (!len || len >= sizeof m->path || strlen(rest) - len >= sizeof words) return bad(port, spec, "audio:FILE,..");
    memcpy(m->path, rest, len);
    snprintf(words, sizeof words, "%s", comma ? comma + 1 : "");
    for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        bool samples = !strncmp(w, "samples=", 8);
        char *end, *number = samples ? w + 8 : w;
        long long v = strtoll(number, &end, 10);
        if (end == number || *end || v < 1 || v > (samples ? SAMPLES_MAX : RATE_MAX))
            return bad(port, w, "RATE, such as 16000, or samples=N");
        *(samples ? &m->samples : &m->rate) = v;
    }
    return TG_OK;
}

static TgStatus library(void **out, const Audio *m, const TgPort *port, const char *name, const char *package)
{
    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return *out
        ? TG_OK
        : say_error(TG_UNSUPPORTED, "input '%s': %s: needs %s, the package %s", port->name, m->path, name, package);
}

/* ---- the recording ---- */

/* From `rate` samples a second to m->rate. */
static TgStatus resample(Audio *m, const TgPort *port, int rate)
{
    void *lib;
    TgStatus status = library(&lib, m, port, "libsamplerate.so.0", "libsamplerate0");
    if (status != TG_OK) return status;
    int (*convert)(SrcData *, int, int) = dlsym(lib, "src_simple");
    const char *(*text)(int) = dlsym(lib, "src_strerror");
    double ratio = (double)m->rate / rate;
    SrcData d = {
        .in = m->v, .in_frames = (long)m->frames, .out_frames = lrint(ceil((double)m->frames * ratio)), .ratio = ratio
    };
    d.out = malloc(sizeof *d.out * (size_t)(d.out_frames * m->channels));
    int failed = d.out ? convert(&d, SRC_SINC_BEST, (int)m->channels) : 0;
    if (!d.out) status = say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
    else if (failed) status = say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, m->path, text(failed));
    free(m->v);
    m->v = d.out;
    m->frames = d.out_made;
    dlclose(lib);
    return status;
}

static TgStatus decode(Audio *m, const TgPort *port)
{
    void *lib;
    SfInfo info = { 0 };
    TgStatus status = library(&lib, m, port, "libsndfile.so.1", "libsndfile1");
    if (status != TG_OK) return status;
    void *(*open)(const char *, int, SfInfo *) = dlsym(lib, "sf_open");
    int64_t (*read)(void *, float *, int64_t) = dlsym(lib, "sf_readf_float");
    const char *(*why)(void *) = dlsym(lib, "sf_strerror");
    int (*close)(void *) = dlsym(lib, "sf_close");
    bool unreadable = access(m->path, R_OK);
    void *file = unreadable ? NULL : open(m->path, SF_READ, &info);
    if (unreadable) status = say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, m->path, strerror(errno));
    else if (!file) status = say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, m->path, why(NULL));
    else if (info.frames < 1 || info.frames > SAMPLES_MAX || info.channels < 1 || info.channels > CHANNELS_MAX ||
             info.samplerate < 1)
        status = say_error(TG_BAD_INPUT, "input '%s': %s: %ld samples of %d channels; 1 to %ld of at most %d are read",
                           port->name, m->path, (long)info.frames, info.channels, (long)SAMPLES_MAX, CHANNELS_MAX);
    else if (!(m->v = malloc(sizeof *m->v * (size_t)(info.frames * info.channels))))
        status = say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
    else {
        m->frames = read(file, m->v, info.frames);
        m->channels = info.channels;
        if (m->frames < info.frames)
            status = say_error(TG_BAD_INPUT, "input '%s': %s: ends after %ld of %ld samples", port->name, m->path,
                               (long)m->frames, (long)info.frames);
        if (!m->rate) m->rate = info.samplerate;
    }
    if (file) close(file);
    dlclose(lib);
    return status == TG_OK && m->rate != info.samplerate ? resample(m, port, info.samplerate) : status;
}

/* ---- as the port wants it ---- */

static TgStatus arrange(TgTensor *out, const Audio *m, const TgPort *port)
{
    int64_t shape[TG_MAX_RANK], n = m->samples ? m->samples : m->frames, time = port->rank - 1;
    bool each = time > 0 && port->shape[time - 1] == m->channels && m->channels > 1;
    for (int32_t d = 0; d < time; d++) {
        shape[d] = d == time - 1 && each ? m->channels : 1;
        if (port->shape[d] > 0 && port->shape[d] != shape[d])
            return say_error(TG_BAD_INPUT, "input '%s' has %ld on axis %d; a recording of %ld channels is given",
                             port->name, (long)port->shape[d], (int)d, (long)m->channels);
    }
    shape[time] = n;
    if (port->shape[time] > 0 && port->shape[time] != n)
        return say_error(TG_BAD_INPUT,
                         "input '%s' has %ld samples; %s has %ld at %ld a second: samples=%ld cuts it or fills it with "
                         "zeros",
                         port->name, (long)port->shape[time], m->path, (long)n, (long)m->rate, (long)port->shape[time]);
    if (!tensor_new(out, port->type, shape, port->rank))
        return say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
    double unit = type_is_integer(port->type) ? 32768 : 1;
    int64_t rows = each ? m->channels : 1, mixed = m->channels / rows;
    for (int64_t c = 0; c < rows; c++)
        for (int64_t i = 0; i < n && i < m->frames; i++) {
            double v = 0;
            for (int64_t k = c; k < c + mixed; k++) v += m->v[i * m->channels + k];
            v *= unit / (double)mixed;
            value_put(port->type, out->data, c * n + i, unit > 1 ? fmin(fmax(v, -32768), 32767) : v);
        }
    return TG_OK;
}

TgStatus audio_read(TgTensor *out, const char *spec, const TgPort *port)
{
    Audio m;
    if (port->rank < 1 || !(type_is_float(port->type) || type_is_integer(port->type)))
        return say_error(TG_BAD_INPUT, "input '%s' is %s of rank %d, which no recording is", port->name,
                         tg_type_name(port->type), port->rank);
    TgStatus status = read_spec(&m, spec, port);
    if (status == TG_OK) status = decode(&m, port);
    if (status == TG_OK) status = arrange(out, &m, port);
    free(m.v);
    return status;
}
