/* The other end of peer.h: a process of ours that is an engine. */
#ifndef TG_SERVE_H
#define TG_SERVE_H
#include "bench/args.h"

enum { SERVED_SETS = 16 };

/* One engine, loaded: `run` once on the inputs of that set, `save` what the last run made as DIR/output_K.npy, read
 * more `inputs`. */
typedef struct {
    char name[64], device[16], provider[40], precision[16], built_in[200];
    int threads;
    double load_s;
    uint32_t sets;                  /* of inputs; inputs() makes one more */
    TgStatus (*run)(void *self, uint32_t set);
    TgStatus (*save)(void *self, const char *dir);
    TgStatus (*inputs)(void *self, const char *dir);
    TgStatus (*profile)(void *self, const char *file);      /* NULL: it cannot say where its time goes */
    TgStatus (*once)(void *self, const char *dir);          /* NULL: it cannot */
    void *self;
    char error[512];                /* filled by whoever fails */
} Served;

/* PROGRAM @engine tgrun[..]|ort:LIB MODEL DATA_DIR THREADS [options of tgrun]: argv from @engine on. The exit code. */
int serve(int argc, char **argv);
TgStatus serve_loop(Served *e, int64_t idle_bytes);

/* onnxruntime as a shared library, by its C API without its headers (ort_library.c). */
const char *ort_library_found(void);     /* the system's, by its name; NULL: there is none */
TgStatus ort_library_open(Served *out, const char *library, const char *model, const char *data_dir, int threads);
void ort_library_close(Served *e);
#endif
