/* Values inside a model, computed by this program and by another side on the same inputs. */
#ifndef TG_PROBE_H
#define TG_PROBE_H
#include "bench/compare.h"
#include "bench/inputs.h"

/* Who is compared. The other side: `reference`, an engine as tgbench names them, or a model file whose graph has values
 * of the same names, which this program runs; or a folder of NAME.npy as `run --values all --output-dir` writes it, in
 * which values may be missing: those are not known, and count as equal. */
typedef struct {
    const Args *args;
    const char *model, *other;
    char name[64];              /* what the other side calls itself, once it has run */
    char folder[64];            /* of files in between */
    const TgSession *session;   /* of the model, without a device */
    const DataSet *inputs;      /* the model's */
} Sides;

/* Values that a part gets from outside instead of computing them. */
typedef struct { int32_t count; const char **name; TgTensor *value; } Cut;

/* The part of the model that computes these values, run by both sides. got: ours; set.input: what the part was given;
 * set.output: the other side's. */
typedef struct {
    int32_t count;
    const char *const *name;
    TgTensor *got;
    DataSet set;
    Comparison *compare;
    double flops;
} Probe;

/* Errors are said. The names must live as long as the probe, which is freed also after a failure. cut may be NULL. */
TgStatus probe(Probe *out, Sides *s, const char *const *name, int32_t count, const Cut *cut);
void probe_free(Probe *p);
/* The same values with every narrow float as f64; device: "reference" or "cpu". The caller frees value[0..count). */
TgStatus probe_wide(TgTensor *value, const Sides *s, const Probe *p, const Cut *cut, const char *device);
/* The part as DIR/model.onnx with DIR/test_data_set_0: the inputs, and the other side's values as what is expected. */
TgStatus probe_keep(const Probe *p, const Sides *s, const Cut *cut, const char *dir);
bool is_model_file(const char *other);
bool is_dump_folder(const char *other);
#endif
