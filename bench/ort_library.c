/* onnxruntime by its C API, opened at run time: no header and no library is needed to build. The API is a table of
 * functions whose places never change; the places of the few that are used here are the enum below. In: a library, a
 * model, a folder of input_K.npy. Out: an engine for serve.c. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/serve.h"

enum {
    ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_OPTIONS = 10,
    SET_INTRA_THREADS = 24,
    SET_INTER_THREADS = 25,
    INPUT_COUNT = 30,
    OUTPUT_COUNT = 31,
    INPUT_NAME = 36,
    OUTPUT_NAME = 37,
    TENSOR_WITH_DATA = 49,
    TENSOR_DATA = 51,
    ELEMENT_TYPE = 60,
    DIMENSIONS_COUNT = 61,
    DIMENSIONS = 62,
    TYPE_AND_SHAPE = 65,
    CREATE_CPU_MEMORY = 69,
    DEFAULT_ALLOCATOR = 78,
    RELEASE_ENV = 92,
    RELEASE_STATUS = 93,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_SHAPE = 99
};
enum { OLDEST_API = 7, PORTS = 256, LOG_FATAL = 4 };

typedef void *Handle;
typedef struct { void *const *(*table)(uint32_t version); const char *(*version)(void); } ApiBase;
typedef struct {
    void *library;
    void *const *api;
    Handle env, session, memory, allocator;
    size_t nin, nout;
    char *in_name[PORTS], *out_name[PORTS];
    uint32_t sets;
    TgTensor in[SERVED_SETS][PORTS];
    Handle in_value[SERVED_SETS][PORTS], out_value[PORTS];
    Served *served;
} Ort;

/* Every function but the releases returns NULL or a status with a message. */
#define CALL(o, place, types, ...) check((o), ((Handle(*) types)(o)->api[place])(__VA_ARGS__))
#define RELEASE(o, place, handle) ((void (*)(Handle))(o)->api[place])(handle)

static TgStatus check(Ort *o, Handle status)
{
    if (!status) return TG_OK;
    const char *message = ((const char *(*)(Handle))o->api[ERROR_MESSAGE])(status);
    snprintf(o->served->error, sizeof o->served->error, "%.*s", (int)strcspn(message, "\n"), message);
    RELEASE(o, RELEASE_STATUS, status);
    return TG_DEVICE;
}

static TgStatus give_up(Ort *o, const char *what, const char *why)
{
    snprintf(o->served->error, sizeof o->served->error, "%s: %s", what, why);
    return TG_DEVICE;
}

static TgStatus open_library(Ort *o, const char *path)
{
    o->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!o->library) return give_up(o, path, dlerror());
    const ApiBase *(*base)(void) = (const ApiBase *(*)(void))dlsym(o->library, "OrtGetApiBase");
    if (!base) return give_up(o, path, "is not onnxruntime");
    o->api = base()->table(OLDEST_API);
    snprintf(o->served->name, sizeof o->served->name, "onnxruntime %.40s", base()->version());
    return o->api ? TG_OK : give_up(o, path, "does not know this version of its interface");
}

static TgStatus open_session(Ort *o, const char *model, int threads)
{
    Handle options;
    TgStatus s = CALL(o, CREATE_ENV, (int, const char *, Handle *), LOG_FATAL, "tgrun", &o->env);
    if (s == TG_OK) s = CALL(o, CREATE_OPTIONS, (Handle *), &options);
    if (s == TG_OK && threads > 0) s = CALL(o, SET_INTRA_THREADS, (Handle, int), options, threads);
    if (s == TG_OK) s = CALL(o, SET_INTER_THREADS, (Handle, int), options, 1);
    double start = clock_s();
    if (s == TG_OK)
        s = CALL(o, CREATE_SESSION, (Handle, const char *, Handle, Handle *), o->env, model, options, &o->session);
    o->served->load_s = clock_s() - start;
    if (s == TG_OK) s = CALL(o, CREATE_CPU_MEMORY, (int, int, Handle *), 1, 0, &o->memory);
    if (s == TG_OK) s = CALL(o, DEFAULT_ALLOCATOR, (Handle *), &o->allocator);
    return s;
}

static TgStatus read_names(Ort *o, int count_place, int name_place, size_t *count, char **names)
{
    TgStatus s = CALL(o, count_place, (Handle, size_t *), o->session, count);
    if (s == TG_OK && *count > PORTS) return give_up(o, "model", "has too many inputs or outputs");
    for (size_t k = 0; k < *count && s == TG_OK; k++)
        s = CALL(o, name_place, (Handle, size_t, Handle, char **), o->session, k, o->allocator, &names[k]);
    return s;
}

static TgStatus read_inputs(void *self, const char *dir)
{
    Ort *o = self;
    uint32_t set = o->sets++;
    TgStatus s = TG_OK;
    for (size_t k = 0; k < o->nin && s == TG_OK; k++) {
        char path[4096];
        TgTensor *t = &o->in[set][k];
        snprintf(path, sizeof path, "%s/input_%zu.npy", dir, k);
        if (tg_tensor_read(t, path, 0) != TG_OK) return give_up(o, "input", tg_error());
        s = CALL(o, TENSOR_WITH_DATA, (Handle, void *, size_t, const int64_t *, size_t, int, Handle *), o->memory,
                 t->data, t->size_bytes, t->shape, (size_t)t->rank, (int)t->type, &o->in_value[set][k]);
    }
    return s;
}

static void drop_outputs(Ort *o)
{
    for (size_t k = 0; k < o->nout; k++) {
        if (o->out_value[k]) RELEASE(o, RELEASE_VALUE, o->out_value[k]);
        o->out_value[k] = NULL;
    }
}

static TgStatus ort_run(void *self, uint32_t set)
{
    Ort *o = self;
    drop_outputs(o);
    return CALL(o, RUN, (Handle, Handle, char *const *, Handle const *, size_t, char *const *, size_t, Handle *),
                o->session, NULL, o->in_name, o->in_value[set], o->nin, o->out_name, o->nout, o->out_value);
}

static TgStatus save_output(Ort *o, size_t k, const char *path)
{
    TgTensor t = { 0 };
    Handle shape = NULL;
    int type;
    size_t rank;
    TgStatus s = CALL(o, TYPE_AND_SHAPE, (Handle, Handle *), o->out_value[k], &shape);
    if (s == TG_OK) s = CALL(o, ELEMENT_TYPE, (Handle, int *), shape, &type);
    if (s == TG_OK) s = CALL(o, DIMENSIONS_COUNT, (Handle, size_t *), shape, &rank);
    if (s == TG_OK && rank > TG_MAX_RANK) s = give_up(o, path, "too many dimensions");
    if (s == TG_OK) s = CALL(o, DIMENSIONS, (Handle, int64_t *, size_t), shape, t.shape, rank);
    if (s == TG_OK) s = CALL(o, TENSOR_DATA, (Handle, void **), o->out_value[k], &t.data);
    if (shape) RELEASE(o, RELEASE_SHAPE, shape);
    if (s != TG_OK) return s;
    t.type = (TgType)type;
    t.rank = (int32_t)rank;
    t.size_bytes = (size_t)tg_type_bits(t.type) / 8;
    for (size_t d = 0; d < rank; d++) t.size_bytes *= (size_t)t.shape[d];
    return tg_tensor_write(&t, "", path) == TG_OK ? TG_OK : give_up(o, "output", tg_error());
}

static TgStatus ort_save(void *self, const char *dir)
{
    Ort *o = self;
    TgStatus s = TG_OK;
    for (size_t k = 0; k < o->nout && s == TG_OK; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/output_%zu.npy", dir, k);
        s = save_output(o, k, path);
    }
    return s;
}

const char *ort_library_found(void)
{
    static const char *const names[] = { "libonnxruntime.so.1", "libonnxruntime.so" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        void *library = dlopen(names[k], RTLD_LAZY | RTLD_LOCAL);
        bool good = library && dlsym(library, "OrtGetApiBase");
        if (library) dlclose(library);
        if (good) return names[k];
    }
    return NULL;
}

TgStatus ort_library_open(Served *out, const char *library, const char *model, const char *data_dir, int threads)
{
    Ort *o = calloc(1, sizeof *o);
    if (!o) return TG_LIMIT;
    *out = (Served){ .run = ort_run,
                     .save = ort_save,
                     .inputs = read_inputs,
                     .self = o,
                     .device = "cpu",
                     .provider = "CPUExecutionProvider",
                     .threads = threads };
    o->served = out;
    TgStatus s = open_library(o, library);
    if (s == TG_OK) s = open_session(o, model, threads);
    if (s == TG_OK) s = read_names(o, INPUT_COUNT, INPUT_NAME, &o->nin, o->in_name);
    if (s == TG_OK) s = read_names(o, OUTPUT_COUNT, OUTPUT_NAME, &o->nout, o->out_name);
    return s == TG_OK ? read_inputs(o, data_dir) : s;
}

void ort_library_close(Served *e)
{
    Ort *o = e->self;
    if (!o) return;
    drop_outputs(o);
    for (uint32_t i = 0; i < o->sets; i++)
        for (size_t k = 0; k < o->nin; k++) {
            if (o->in_value[i][k]) RELEASE(o, RELEASE_VALUE, o->in_value[i][k]);
            tg_tensor_free(&o->in[i][k]);
        }
    if (o->session) RELEASE(o, RELEASE_SESSION, o->session);
    if (o->env) RELEASE(o, RELEASE_ENV, o->env);
    free(o);                        /* the library stays: its threads may still be ending */
}
