/* Programs that are kept: what import, schedule and plan came to, as bytes, so that the next process that opens the
 * model with inputs of these sizes begins with code and memory. They lie in the cache folder, and in compiled models.
 * Only the build that wrote one reads it: its identity stands in front. Not kept are programs of several devices, of
 * samples, of strings and sequences, and those that had to compute something before they could be imported. */
#ifndef TG_KEPT_H
#define TG_KEPT_H
#include "frontend/session/program.h"

#define KEPT_NAME "program"     /* of the folder in the cache, and of the piece of a compiled model */
/* false: it is none that is kept */
bool program_write(Text *out, const Program *p, const Model *m);
/* Into one that is empty: its inputs, what its import said, sizes, plan. false: another build's, or damaged. */
bool program_read(Program *p, ByteReader *in, const Model *m);

/* The cache's key of what is made for these inputs; false: nothing is kept there. Sizes that vary are not in it: what
 * is found may be for others. */
typedef char KeptKey[33];
bool kept_key(KeptKey out, const ProgramMaker *k, const TgTensor *input, uint32_t nport, const FreeDims *f);
#endif
