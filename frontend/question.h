/* What only a run can tell. An importer that needs a value which depends on data asks for it; where that is not made of a few integers of inputs, which are baked in, the import ends as a question: a graph whose
 * first output is the value. program.c runs it, and the next import has the answer as a constant. A program is used only for inputs that give the same answers. */
#ifndef TG_QUESTION_H
#define TG_QUESTION_H
#include "frontend/import.h"

enum { QUESTIONS_MAX = 1024 };

U question_answered(const Run *run, U x);           /* x, or the constant that it is by now */
/* The constant that x is by now; NULL: the importer must fail, and when the question can be asked, it is. */
U import_ask(Import *im, U x);
bool import_asks(const Import *im);                 /* whether anything can be asked */
TgStatus question_import(Imported *out, Run *run);  /* run->question as the import's result */
#endif
