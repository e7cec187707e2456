/* What only a run can tell. An importer that needs a value which depends on data asks for it, and where a node fails
 * some of whose sizes the data tell (graph/custom.h), such a size is asked for. Where a value is not made of a few
 * integers of inputs, which are baked in, the import ends as a question: a graph whose first output is the value.
 * program.c runs it, and the next import has the answer as a constant. A program is used only for inputs that give the
 * same answers. */
#ifndef TG_QUESTION_H
#define TG_QUESTION_H
#include "frontend/import/import.h"

enum { QUESTIONS_MAX = 1024 };

U question_answered(const Run *run, U x);           /* x, or the constant that it is by now */
/* The constant that x is by now; NULL: the importer must fail, and when the question can be asked, it is. */
U import_ask(Import *im, U x);
/* the first size of c's inputs that the data tell and that is not known yet */
void import_ask_size(Import *im, const Ctx *c);
/* a fresh size_var as the size of what is made: itself, or the constant that it is by now */
U size_answered(const Run *run, U var);
bool import_asks(const Import *im);                 /* whether anything can be asked */
TgStatus question_import(Imported *out, Run *run);  /* run->question as the import's result */
#endif
