/* What this machine can do at most, measured: products and sums of floats, and bytes read from each level of memory. */
#ifndef TG_PEAKS_H
#define TG_PEAKS_H
#include <stdint.h>

typedef enum { LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, LEVELS } Level;
/* Per second, all threads together; NAN: not there, or not measured. */
typedef struct {
    double flops;                   /* of f32: a product and a sum are two */
    double matrix_flops;            /* of bf16 tiles with sums of f32 */
    double bytes[LEVELS];           /* read */
    int64_t holds[LEVELS];          /* bytes that the level has for all threads; INT64_MAX: memory */
} Peaks;

/* threads: on as many of the processors that this process may use, one each. Takes about half a second. features: as
 * TgInfo names them. */
Peaks peaks_measure(int32_t threads, const char *features);
/* The nearest level that holds that many bytes. */
Level peaks_level(const Peaks *p, double bytes);
extern const char *const level_name[LEVELS];
#endif
