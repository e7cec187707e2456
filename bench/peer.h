/* Another engine, in a process of its own, spoken to in lines: it starts with a model and a folder of input_K.npy (what
 * holds tensors: input_K.pb); it loads, runs once and answers
 *     {"name": "onnxruntime 1.31.1", "load_s": 0.9, "first_ms": 9.8}
 * Then it obeys:
 *     run N          N times in nanoseconds, between blanks
 *     save DIR       runs on the first inputs, writes DIR/output_K.npy (or .pb) and answers `ok`
 *     memory         MiB that it holds above its idle process
 * An engine whose first answer also has "sets": true knows two commands more, without which it is timed on one set of
 * inputs and the report says so:
 *     inputs DIR     reads another set of inputs of the same shapes and answers `ok`; each run takes the next of all
 *                    sets, over and over
 *     kept DIR       writes what the last run of the last `run` made, without running again, and answers `ok`
 * and one with "profile": true this, after everything else:
 *     profile FILE   writes where its time goes, as `tgrun profile --json` does, and answers `ok`
 * and one with "once": true this, with which accuracy over many inputs is measured:
 *     once DIR       reads DIR/input_K.npy, runs on them alone, writes DIR/output_K.npy and answers `ok`
 * The first answer may also say "device" (cpu, cuda), "provider", "precision" and "threads", which the report names,
 * "overhead_ms", what a run takes in which nothing is computed, and "built_in", the inputs whose values it has built
 * into what it runs, by name, so that another value is work that no run shows. An
 * answer that starts with `error ` says why not. The end of its input ends it. Between commands it must be silent: no
 * spinning threads. Adding an engine: a script in peers/ and a row in peer.c, or `cmd:PROGRAM` that speaks this (MODEL,
 * DATA and THREADS are in its environment). */
#ifndef TG_PEER_H
#define TG_PEER_H
#include <stdio.h>
#include <sys/types.h>
#include "bench/inputs.h"

typedef struct {
    pid_t pid, worker;              /* worker: the process that computes, which a shell of `cmd:` has started */
    FILE *to, *from;
    char label[1024], name[64];      /* label: as --engine says; name: what it calls itself */
    double load_s, first_ms, start_s;      /* start_s: process start to the first answer, load and first run included */
    int sets, profiles, once;              /* sets: it takes more inputs than one */
    int threads;                           /* 0: it does not say */
    char device[16], provider[40], precision[16], built_in[200];       /* "" where it does not say */
    double overhead_ms;                    /* NAN: it does not say */
} Peer;

/* Errors are said. options: what follows `tgrun:` is added to the child's command line. */
TgStatus peer_start(Peer *out, const char *engine, const char *model, const char *data_dir, const Args *a);
TgStatus peer_run(Peer *p, uint32_t n, double *ms);
TgStatus peer_save(Peer *p, const char *dir);
TgStatus peer_inputs(Peer *p, const char *dir);     /* of an engine with sets; so is the next */
TgStatus peer_kept(Peer *p, const char *dir);
TgStatus peer_once(Peer *p, const char *dir);       /* of an engine that does */
TgStatus peer_profile(Peer *p, const char *file);   /* of an engine that profiles */
double peer_cpu_s(const Peer *p);   /* seconds that its worker's threads have run */
double peer_memory(Peer *p);        /* MiB, NAN when it cannot tell */
bool peer_silent(const Peer *p);    /* waits up to 0.2 s until its CPU time stands still for 2 ms */
void peer_stop(Peer *p);

/* A fresh folder that goes with folder_remove; false after say_error. */
bool folder_make(char out[64]);
void folder_remove(const char *dir);
void folder_clear(const char *dir);             /* with whatever is in it */
void value_path(char *path, size_t cap, const char *dir, const char *stem, int32_t k,
                const TgTensor *t); /* stem_K.npy or .pb */
TgStatus inputs_write(const DataSet *set, const char *dir);
/* The outputs that DIR/output_K.npy hold become what `set` expects. */
TgStatus expected_read(DataSet *set, const TgSession *session, const char *dir, const char *source);
#endif
