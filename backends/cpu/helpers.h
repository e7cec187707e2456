/* Pieces of C that a kernel's text brings along when it needs them. */
#ifndef TG_CPU_HELPERS_H
#define TG_CPU_HELPERS_H
/* in the order in which they need each other */
enum {
    H_HALF,
    H_MAX,
    H_MIN,
    H_MAX_NAN,
    H_SQRT,
    H_TRUNC,
    H_CHOOSE,
    H_FROM_F16,
    H_TO_F16,
    H_ALL,
    H_EXP2,
    H_EXP2_4,
    H_EXP2_8,
    H_EXP2_16,
    H_MASKED,
    H_STREAM,
    H_GATHER,
    H_DOT,
    H_WIDEN,
    H_NARROW,
    H_COUNT
};
extern const char *const cpu_helper[H_COUNT];
#endif
