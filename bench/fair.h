/* What keeps a duel honest: inputs that change, outputs of timed runs, and what each engine used. */
#ifndef TG_FAIR_H
#define TG_FAIR_H
#include "bench/duel.h"

enum { SETS_USUAL = 3 };

/* Another set of inputs for the same program: shapes, and numbers in small integer tensors (they may be sizes), are the
 * same; other elements stand elsewhere, the last of an axis first. turn: 1, 2, .. how far. The caller frees it by
 * data_free. */
TgStatus set_turned(Data *out, const DataSet *set, uint32_t turn);
bool same_shapes(const DataSet *a, const DataSet *b);

/* Engines on unlike devices are compared only where each was named; TG_USAGE after say_error. */
TgStatus fair_devices(const Duel *d, const Args *a);
/* What was measured beside times goes into the duel's notes: cores, inputs not seen before, engines with one set of
 * inputs. */
void fair_notes(Duel *d);
void duel_note(Duel *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
double engine_energy_j(const Duel *d, uint32_t engine);     /* of the packages, a run; NAN: not readable */
double engine_cores(const Engine *e);       /* processors that were busy in its timed runs; NAN: too little was timed */
#endif
