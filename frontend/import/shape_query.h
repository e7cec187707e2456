/* What only a run can tell. An importer that needs a value which depends on data requests it, and where a node fails
 * some of whose sizes depend on data (graph/custom.h), such a size is requested. Where a value is not made of a few
 * integers of inputs, which are baked in, the import ends as a question: a graph whose first output is the value.
 * program.c runs it, and the next import has the answer as a constant. A program is used only for inputs that give the
 * same answers. */
#ifndef TG_QUESTION_H
#define TG_QUESTION_H
#include "frontend/import/import.h"

enum { QUESTIONS_MAX = 1024 };

U question_answered(const Run *run, U x);           /* x, or the constant that it is by now */
/* The constant that x is by now; NULL: the importer must fail, and when it can be queried, it is. */
U import_query(Import *im, U x);
/* the first data-dependent size of c's inputs that is not known yet */
void import_query_size(Import *im, const Ctx *c);
/* a fresh size_var as the size of what is made: itself, or the constant that it is by now */
U size_answered(const Run *run, U var);
bool import_queries(const Import *im);                 /* whether anything can be queried */
TgStatus question_import(Imported *out, Run *run);  /* run->question as the import's result */
#endif
