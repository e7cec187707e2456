/* `--cold`: fresh processes of an engine with an empty cache of compiled kernels. */
#ifndef TG_COLD_H
#define TG_COLD_H
#include "bench/duel.h"

/* Measures e->cold: first with the files in the operating system's memory, then with those thrown out of it that the
 * engine maps (its program, libraries, the model) or that lie beside the model; resident says what stayed, since other
 * processes map it. Errors are said. */
TgStatus cold_measure(Engine *e, const Args *a, const char *model, const char *dir);
/* One line about either; false: it was not measured. */
bool cold_text(char *out, size_t cap, const Engine *e, bool from_disk);
struct json_t *cold_json(const Cold *c);
#endif
