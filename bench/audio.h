/* Recordings as inputs. */
#ifndef TG_AUDIO_H
#define TG_AUDIO_H
#include "tgrun.h"

/* audio:FILE[,RATE][,samples=N] as the port wants it: its last axis is time, others are 1, or a second one from the
 * end as long as the recording has channels; else channels are averaged. RATE: samples a second, the file's unless
 * given; samples=N: cut or filled with zeros to that many. Floats lie within -1 .. 1, integers within those of 16 bits.
 * libsndfile reads and libsamplerate converts, opened at run time. Errors are said; freed by tg_tensor_free. */
TgStatus audio_read(TgTensor *out, const char *spec, const TgPort *port);
#endif
