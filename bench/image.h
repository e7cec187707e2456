/* Pictures as inputs. */
#ifndef TG_IMAGE_H
#define TG_IMAGE_H
#include "tgrun.h"

/* image:FILE[,HEIGHTxWIDTH][,mean=A[:B:C]][,std=A[:B:C]][,range=255][,bgr] as the port wants it: [1, 3, height, width],
 * [1, height, width, 3] or one without the 1. Sizes are the port's where it has them. A number is
 * (pixel / 255 - mean) / std; with range=255, (pixel - mean) / std. Errors are said; freed by tg_tensor_free. */
TgStatus image_read(TgTensor *out, const char *spec, const TgPort *port);
#endif
