/* Texts as inputs. */
#ifndef TG_TOKENS_H
#define TG_TOKENS_H
#include <stdbool.h>
#include "tgrun.h"

/* text(TOKENIZER.json):TEXT, or text(TOKENIZER.json):@FILE for what a file holds. */
bool is_text_spec(const char *spec);
/* Does an input without a name in -i take part of a text? Whole numbers of one or two axes, [tokens] or [1, tokens]. */
bool takes_tokens(const TgPort *port);
/* The port's part of a text, by its name: with "mask" the attention mask, with "type" or "segment" the types, with
 * "position" 0, 1, 2, ..; else the numbers of the tokens. shape: the sizes wanted, -1 where any will do: fewer tokens
 * are filled up with the tokenizer's padding and masked, more are cut off, which a note says. A child with the Python
 * package `tokenizers` does the work. Errors are said; freed by tg_tensor_free. */
TgStatus text_read(TgTensor *out, const char *spec, const TgPort *port, const int64_t *shape, int32_t rank);
#endif
