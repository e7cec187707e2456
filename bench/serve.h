/* The other end of peer.h: a process of ours that is an engine. */
#ifndef TG_SERVE_H
#define TG_SERVE_H
#include "bench/args.h"

/* One engine, loaded: `run` once, `save` DIR/output_K.npy. */
typedef struct {
    char name[64];
    double load_s;
    TgStatus (*run)(void *self);
    TgStatus (*save)(void *self, const char *dir);
    void *self;
    char error[512];                /* filled by whoever fails */
} Served;

/* PROGRAM @engine tgrun[..]|ort:LIB MODEL DATA_DIR THREADS [options of tgrun]: argv from @engine on. The exit code. */
int serve(int argc, char **argv);
TgStatus serve_loop(Served *e, int64_t idle_bytes);

/* onnxruntime as a shared library, by its C API without its headers (ort_library.c). */
TgStatus ort_library_open(Served *out, const char *library, const char *model, const char *data_dir, int threads);
void ort_library_close(Served *e);
#endif
