/* What generated C cannot say in the language: one machine instruction a name, by the builtins of GCC and Clang (their header would cost more than the kernel).
 * A width that the machine lacks falls back to a loop over the lanes. To add one: a row here and in helpers.h. */
#include "backends/cpu/helpers.h"

#define ALWAYS "static inline __attribute__((always_inline)) "
/* NEON's instruction of one operand. */
#define NEON1(f, t, n, i, s) "#define tg_" f "_" t #n "(a) ({ " t #n " x_; __asm__(\"" i " %0." s ", %1." s "\" : \"=w\"(x_) : \"w\"(a)); x_; })\n"
#define NEON(f, i) "#ifdef __aarch64__\n" NEON1(f, "f32x", 4, i, "4s") NEON1(f, "f64x", 2, i, "2d") "#endif\n"
/* SVE's of 256 bits. With Clang, which converts none of its vectors to the header's types, such a vector is two of NEON's. */
#define IF_SVE "#if __ARM_FEATURE_SVE_BITS == 256\n#include <arm_sve.h>\ntypedef int tg_sve_i __attribute__((vector_size(32)));\n"
#define SVE(text) IF_SVE text "#endif\n"
#define SVE1(f, i) \
    "#define tg_" f "_f32x8(a) ((f32x8)sv" i "_f32_x(svptrue_b32(), (svfloat32_t)(a)))\n" \
    "#define tg_" f "_f64x4(a) ((f64x4)sv" i "_f64_x(svptrue_b64(), (svfloat64_t)(a)))\n"
#define SVE_SQRT SVE1("sqrt", "sqrt")
#define SVE_TRUNC SVE1("trunc", "rintz")
#define SVE_ALL "#define tg_all_i32x8(m) (!svptest_any(svptrue_b32(), svcmpeq_n_s32(svptrue_b32(), (svint32_t)(m), 0)))\n"
#define SVE_SET(m) "svcmpne_n_s32(svptrue_b32(), (svint32_t)(" m "), 0)"
#define SVE_MASKED \
    "#define tg_load_f32x8(p, m, a) ({ svbool_t k_ = " SVE_SET("m") "; (f32x8)svsel_f32(k_, svld1_f32(k_, (const float *)(p)), (svfloat32_t)(a)); })\n" \
    "#define tg_store_f32x8(p, m, a) svst1_f32(" SVE_SET("m") ", (float *)(p), (svfloat32_t)(a))\n"
#define SVE_GATHER \
    "#define tg_gather_f32x8(p, i) ((f32x8)svld1_gather_s32index_f32(svptrue_b32(), (const float *)(p), (svint32_t)(i)))\n" \
    "#define tg_gather_if_f32x8(p, i, m, a) ({ svbool_t k_ = " SVE_SET("m") "; " \
    "(f32x8)svsel_f32(k_, svld1_gather_s32index_f32(k_, (const float *)(p), (svint32_t)(i)), (svfloat32_t)(a)); })\n"
/* Narrow numbers come and go by memory, whose loads widen and whose stores narrow. */
#define SVE_WIDEN \
    "#define tg_widen_8(T, M, sign, s, a) ({ __typeof__(a) x_ = (a); (T)(tg_sve_i)(sign[0] == 's' ? " \
    "s[0] == 'b' ? svld1sb_s32(svptrue_b32(), (const signed char *)&x_) : svld1sh_s32(svptrue_b32(), (const short *)&x_) : " \
    "s[0] == 'b' ? svld1ub_s32(svptrue_b32(), (const unsigned char *)&x_) : svld1uh_s32(svptrue_b32(), (const unsigned short *)&x_)); })\n"
#define SVE_NARROW \
    "#define tg_stored_b(p, a) svst1b_s32(svptrue_b32(), (signed char *)(p), a)\n#define tg_stored_w(p, a) svst1h_s32(svptrue_b32(), (short *)(p), a)\n" \
    "#define tg_narrow_8(T, s, a) ({ T y_; tg_stored_##s(&y_, (svint32_t)(tg_sve_i)(a)); y_; })\n"
#define SVE_FROM \
    "#define tg_from_f16x8(a) ({ u16x8 x_ = (a); " \
    "(f32x8)svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(svld1uh_u32(svptrue_b32(), (const unsigned short *)&x_))); })\n"
#define SVE_TO \
    "#define tg_to_f16x8(a) ({ u16x8 x_; " \
    "svst1h_u32(svptrue_b32(), (unsigned short *)&x_, svreinterpret_u32_f16(svcvt_f16_f32_x(svptrue_b32(), (svfloat32_t)(a)))); x_; })\n"
/* The loop, where no macro of that name stands yet. */
#define LOOP1(f, t, n, c) \
    "#ifndef tg_" f "_" t #n "\n" \
    "#define tg_" f "_" t #n "(a) ({ " t #n " x_ = (a); for (int l_ = 0; l_ < " #n "; l_++) x_[l_] = " c "(x_[l_]); x_; })\n#endif\n"
#define LOOP2_OF(f, sign, t, n) \
    "#ifndef tg_" f "_" t #n "\n" \
    "#define tg_" f "_" t #n "(a, b) ({ " t #n " x_ = (a), y_ = (b); __typeof__(x_ > y_) m_ = x_ " sign " y_; (" t #n ")((m_ & (__typeof__(m_))x_) | (~m_ & (__typeof__(m_))y_)); })\n#endif\n"
#define LOOP2(f, sign) \
    LOOP2_OF(f, sign, "f32x", 4) LOOP2_OF(f, sign, "f32x", 8) LOOP2_OF(f, sign, "f32x", 16) \
    LOOP2_OF(f, sign, "f64x", 2) LOOP2_OF(f, sign, "f64x", 4) LOOP2_OF(f, sign, "f64x", 8)
/* The machine's maximum or minimum; when an operand is NaN: the second. */
#define MACHINE2(f) \
    "#if defined(__AVX512F__) && defined(__clang__)\n" \
    "#define tg_" f "_f32x16(a, b) ((f32x16)__builtin_ia32_" f "ps512(a, b, 4))\n" \
    "#define tg_" f "_f64x8(a, b) ((f64x8)__builtin_ia32_" f "pd512(a, b, 4))\n" \
    "#elif defined(__AVX512F__)\n" \
    "#define tg_" f "_f32x16(a, b) ((f32x16)__builtin_ia32_" f "ps512_mask(a, b, (f32x16){ 0 }, -1, 4))\n" \
    "#define tg_" f "_f64x8(a, b) ((f64x8)__builtin_ia32_" f "pd512_mask(a, b, (f64x8){ 0 }, -1, 4))\n#endif\n" \
    "#ifdef __AVX__\n" \
    "#define tg_" f "_f32x8(a, b) ((f32x8)__builtin_ia32_" f "ps256(a, b))\n" \
    "#define tg_" f "_f64x4(a, b) ((f64x4)__builtin_ia32_" f "pd256(a, b))\n#endif\n" \
    "#ifdef __SSE2__\n" \
    "#define tg_" f "_f32x4(a, b) ((f32x4)__builtin_ia32_" f "ps(a, b))\n" \
    "#define tg_" f "_f64x2(a, b) ((f64x2)__builtin_ia32_" f "pd(a, b))\n#endif\n"
#define LOOP_ALL(n) \
    "#ifndef tg_all_i32x" #n "\n" \
    "#define tg_all_i32x" #n "(a) ({ i32x" #n " x_ = (a); int y_ = -1; for (int l_ = 0; l_ < " #n "; l_++) y_ &= x_[l_]; y_; })\n#endif\n"
#define LOOP_FROM(n) \
    "#ifndef tg_from_f16x" #n "\n" \
    "#define tg_from_f16x" #n "(a) ({ u16x" #n " x_ = (a); f32x" #n " y_; for (int l_ = 0; l_ < " #n "; l_++) y_[l_] = tg_f16(x_[l_]); y_; })\n#endif\n"
#define LOOP_TO(n) \
    "#ifndef tg_to_f16x" #n "\n" \
    "#define tg_to_f16x" #n "(a) ({ f32x" #n " x_ = (a); u16x" #n " y_; for (int l_ = 0; l_ < " #n "; l_++) y_[l_] = tg_to_f16(x_[l_]); y_; })\n#endif\n"
#define LOOP_MASKED(t, c, n) \
    "#ifndef tg_load_" t #n "\n" \
    "#define tg_load_" t #n "(p, m, a) ({ const " c " *p_ = (const " c " *)(p); i32x" #n " m_ = (m); " t #n " v_ = (a); for (int l_ = 0; l_ < " #n "; l_++) if (m_[l_]) v_[l_] = p_[l_]; v_; })\n" \
    "#define tg_store_" t #n "(p, m, a) ({ " c " *p_ = (" c " *)(p); i32x" #n " m_ = (m); " t #n " v_ = (a); for (int l_ = 0; l_ < " #n "; l_++) if (m_[l_]) p_[l_] = v_[l_]; })\n#endif\n"
/* The machine's masked access of type s (ps or pd, bits b) and n lanes; the mask is i32. Where no lane is set there is no
 * access: behind a buffer's end a page may be missing, which costs a Zen 4 some 300 ns though nothing is touched. */
#define MASKED(t, c, n, s, b, mask) \
    "#define tg_load_" t #n "(p, m, a) ({ " t #n " v_ = (a); __typeof__(" mask "(m)) k_ = " mask "(m); if (k_) v_ = (" t #n ")__builtin_ia32_loadu" s b "_mask((const " c " *)(p), v_, k_); v_; })\n" \
    "#define tg_store_" t #n "(p, m, a) ({ __typeof__(" mask "(m)) k_ = " mask "(m); if (k_) __builtin_ia32_storeu" s b "_mask((" c " *)(p), a, k_); })\n"
/* The same where masks lie in vectors, whose lanes are as wide as the type's (l, o is 0 of it). A store of all lanes is a plain one:
 * a masked one is 42 operations on a Zen 3. */
#define MASKED_WIDE(t, n, s, l, o, all) \
    "#define tg_load_" t #n "(p, m, a) ({ " t #n " v_ = (a), o_; __typeof__(" o " < " o ") m_ = " l "(m, __typeof__(" o " < " o ")); " \
    "if (__builtin_ia32_movmsk" s "((" t #n ")m_)) o_ = (" t #n ")__builtin_ia32_maskload" s "((const " t #n " *)(p), m_), v_ = (" t #n ")((m_ & (__typeof__(m_))o_) | (~m_ & (__typeof__(m_))v_)); v_; })\n" \
    "#define tg_store_" t #n "(p, m, a) ({ " t #n " v_ = (a); __typeof__(" o " < " o ") m_ = " l "(m, __typeof__(" o " < " o ")); int k_ = __builtin_ia32_movmsk" s "((" t #n ")m_); " \
    "if (k_ == " #all ") __builtin_memcpy(p, &v_, sizeof v_); else if (k_) __builtin_ia32_maskstore" s "((" t #n " *)(p), m_, v_); })\n"
/* p[i] in each lane, where mask m is set; else a's. */
#define EACH4(of, l) of(l) ", " of(l + 1) ", " of(l + 2) ", " of(l + 3)
#define EACH8(of, l) EACH4(of, l) ", " EACH4(of, l + 4)
#define EACH16(of, l) EACH8(of, l) ", " EACH8(of, l + 8)
#define TAKEN(l) "p_[i_[" #l "]]"
#define TAKEN_IF(l) "m_[" #l "] ? p_[i_[" #l "]] : a_[" #l "]"
#define LIST_GATHER(t, c, n) \
    "#ifndef tg_gather_" t #n "\n" \
    "#define tg_gather_" t #n "(p, i) ({ const " c " *p_ = (const " c " *)(p); i32x" #n " i_ = (i); (" t #n "){ " EACH##n(TAKEN, 0) " }; })\n" \
    "#define tg_gather_if_" t #n "(p, i, m, a) ({ const " c " *p_ = (const " c " *)(p); i32x" #n " i_ = (i), m_ = (m); " t #n " a_ = (a); (" t #n "){ " EACH##n(TAKEN_IF, 0) " }; })\n#endif\n"
#define GATHER(t, c, n, s, all, mask) \
    "#define tg_gather_" t #n "(p, i) ((" t #n ")__builtin_ia32_gather" s "((" t #n "){ 0 }, (const " c " *)(p), i, " all ", sizeof(" c ")))\n" \
    "#define tg_gather_if_" t #n "(p, i, m, a) ((" t #n ")__builtin_ia32_gather" s "(a, (const " c " *)(p), i, " mask "(m), sizeof(" c ")))\n"
#define LOOPS(f, c) LOOP1(f, "f32x", 4, c "f") LOOP1(f, "f32x", 8, c "f") LOOP1(f, "f32x", 16, c "f") LOOP1(f, "f64x", 2, c) LOOP1(f, "f64x", 4, c) LOOP1(f, "f64x", 8, c)

/* 2^x = 2^n p(x - n), n the nearest integer; the machine scales by 2^n and rounds once. Its remainder is 0 at infinities and NaN where x is.
 * A result below 2^-126 costs Intel's machine hundreds of cycles even where it becomes 0, so only a vector that has denormal results, or NaN, is scaled that way; AMD's it costs nothing (Zen 4: e^-90 10.5 cycles a vector, e^1 10.0).
 * "power" is 2^x of integers, "exp2n" of numbers that have no such results, "exp2z" has 0 in their place. */
#define EXP2_POLYNOMIAL "    p = p * f + 0.00133999309f;\n    p = p * f + 0.00961848907f;\n    p = p * f + 0.0555032864f;\n    p = p * f + 0.240226462f;\n" \
                        "    p = p * f + 0.693147182f;\n    p = p * f + 1.0f;\n"
#define EXP2_ROUNDED(name, T, round, scaled) \
    ALWAYS T " tg_" name "_" T "(" T " x)\n{\n    " T " n = " round ", f, p = 0.000153458081f - (" T "){ 0 };\n" \
    "    __asm__(\"vreduceps $8, %1, %0\" : \"=v\"(f) : \"v\"(x));\n" EXP2_POLYNOMIAL "    return " scaled ";\n}\n"
#define EXP2_MACHINE(T, round, all, scale) \
    ALWAYS T " tg_scaled_" T "(" T " p, " T " n)\n{\n" \
    "#if !defined(__znver3__) && !defined(__znver4__) && !defined(__znver5__)\n    unsigned short k, above;\n" \
    "    __asm__(\"vcmpps $21, %2, %1, %0\" : \"=k\"(k) : \"v\"(n), \"v\"(-126.0f - (" T "){ 0 }));\n" \
    "    if (__builtin_expect(k != " #all ", 0)) {\n        " T " e;\n        __asm__(\"vgetexpps %1, %0\" : \"=v\"(e) : \"v\"(p));\n" \
    "        __asm__(\"vcmpps $22, %2, %1, %0\" : \"=k\"(above) : \"v\"(e + n), \"v\"(-151.0f - (" T "){ 0 }));\n" \
    "        if (above & ~k & " #all ") return " scale(-1) ";\n        return " scale(k) ";\n    }\n#endif\n    return " scale(-1) ";\n}\n" \
    ALWAYS T " tg_above_" T "(" T " p, " T " n, " T " x)\n{\n    unsigned short k;\n" \
    "    __asm__(\"vcmpps $21, %2, %1, %0\" : \"=k\"(k) : \"v\"(x), \"v\"(-126.0f - (" T "){ 0 }));\n    return " scale(k) ";\n}\n" \
    EXP2_ROUNDED("exp2", T, round, "tg_scaled_" T "(p, n)") EXP2_ROUNDED("exp2n", T, round, scale(-1)) \
    EXP2_ROUNDED("exp2z", T, round, "tg_above_" T "(p, n, x)") \
    ALWAYS T " tg_power_" T "(" T " n) { return tg_scaled_" T "(1.0f - (" T "){ 0 }, n); }\n"
/* Without that machine: 2^n by its bits, in halves, so that a denormal result is rounded once. */
#define EXP2_BITS(T) \
    ALWAYS T " tg_exp2_" T "(" T " x)\n{\n    __typeof__(x < x) low = x < -151.0f - (" T "){ 0 }, high = x > 129.0f - (" T "){ 0 };\n" \
    "    x = (" T ")(((__typeof__(low))x & ~(low | high)) | ((__typeof__(low))(129.0f - (" T "){ 0 }) & high));\n" \
    "    " T " n = (x + 12582912.0f) - 12582912.0f, f = x - n, p = 0.000153458081f - (" T "){ 0 };\n" EXP2_POLYNOMIAL \
    "    __typeof__(low) i = __builtin_convertvector(n, __typeof__(low)), half = i >> 1;\n" \
    "    p = p * (" T ")((half + 127) << 23) * (" T ")((i - half + 127) << 23);\n    return (" T ")((__typeof__(low))p & ~low);\n}\n"
#define EXP2_OF(T, all, round, scale) \
    "#if !defined(__AVX512F__) || !defined(__AVX512VL__) || !defined(__AVX512DQ__)\n" EXP2_BITS(T) "#define tg_power_" T " tg_exp2_" T "\n#define tg_exp2n_" T " tg_exp2_" T "\n" \
    "#define tg_exp2z_" T "(x) ({ " T " x_ = (x); (" T ")((__typeof__(x_ < x_))tg_exp2_" T "(x_) & ~(x_ < -126.0f)); })\n" \
    "#define tg_scaled_" T "(p, n) ((p) * tg_exp2_" T "(n))\n#else\n" \
    EXP2_MACHINE(T, round, all, scale) "#endif\n"
#define SCALE_4(k) "__builtin_ia32_scalefps128_mask(p, n, (f32x4){ 0 }, " #k ")"
#define SCALE_8(k) "__builtin_ia32_scalefps256_mask(p, n, (f32x8){ 0 }, " #k ")"
#define SCALE_16(k) "__builtin_ia32_scalefps512_mask(p, n, (f32x16){ 0 }, " #k ", 4)"

const char *const cpu_helper[H_COUNT] = {
    [H_MAX] = MACHINE2("max") LOOP2("max", ">"),
    [H_MIN] = MACHINE2("min") LOOP2("min", "<"),
    [H_MAX_NAN] =               /* the same, NaN when an operand is NaN */
        "#if defined(__AVX512F__) && defined(__AVX512VL__)\n"
        "#define tg_max_nan(T, I, m, a, b) ({ T a_ = (a), m_ = m(a_, b); __asm__(\"vfixupimmps $0, %2, %1, %0\" : \"+v\"(m_) : \"v\"(a_), \"v\"(0x11 - (I){ 0 })); m_; })\n"
        "#else\n"
        "#define tg_max_nan(T, I, m, a, b) ({ T a_ = (a), m_ = m(a_, b); I n_ = a_ != a_; (T)((n_ & (I)a_) | (~n_ & (I)m_)); })\n"
        "#endif\n",
    [H_SQRT] =
        "#if defined(__AVX512F__) && defined(__clang__)\n"
        "#define tg_sqrt_f32x16(a) ((f32x16)__builtin_ia32_sqrtps512(a, 4))\n"
        "#define tg_sqrt_f64x8(a) ((f64x8)__builtin_ia32_sqrtpd512(a, 4))\n"
        "#elif defined(__AVX512F__)\n"
        "#define tg_sqrt_f32x16(a) ((f32x16)__builtin_ia32_sqrtps512_mask(a, (f32x16){ 0 }, -1, 4))\n"
        "#define tg_sqrt_f64x8(a) ((f64x8)__builtin_ia32_sqrtpd512_mask(a, (f64x8){ 0 }, -1, 4))\n#endif\n"
        "#ifdef __AVX__\n"
        "#define tg_sqrt_f32x8(a) ((f32x8)__builtin_ia32_sqrtps256(a))\n"
        "#define tg_sqrt_f64x4(a) ((f64x4)__builtin_ia32_sqrtpd256(a))\n#endif\n"
        "#ifdef __SSE2__\n"
        "#define tg_sqrt_f32x4(a) ((f32x4)__builtin_ia32_sqrtps(a))\n"
        "#define tg_sqrt_f64x2(a) ((f64x2)__builtin_ia32_sqrtpd(a))\n#endif\n"
        NEON("sqrt", "fsqrt") SVE(SVE_SQRT) LOOPS("sqrt", "__builtin_sqrt"),
    [H_CHOOSE] =                /* by masks: floors of random numbers, one by one, 1.5 ns each in place of 6 */
        "static inline float tg_choose(int c, float a, float b)\n{\n"
        "    typedef float F __attribute__((vector_size(16)));\n"
        "    typedef int I __attribute__((vector_size(16)));\n"
        "    const F x = { a }, y = { b };\n"
        "    const I m = { -c };\n"
        "    return ((F)(((I)x & m) | ((I)y & ~m)))[0];\n}\n",
    [H_TRUNC] =
        "#ifdef __AVX512F__\n"
        "#define tg_trunc_f32x16(a) ((f32x16)__builtin_ia32_rndscaleps_mask(a, 11, (f32x16){ 0 }, -1, 4))\n"
        "#define tg_trunc_f64x8(a) ((f64x8)__builtin_ia32_rndscalepd_mask(a, 11, (f64x8){ 0 }, -1, 4))\n#endif\n"
        "#ifdef __AVX__\n"
        "#define tg_trunc_f32x8(a) ((f32x8)__builtin_ia32_roundps256(a, 11))\n"
        "#define tg_trunc_f64x4(a) ((f64x4)__builtin_ia32_roundpd256(a, 11))\n#endif\n"
        "#ifdef __SSE4_1__\n"
        "#define tg_trunc_f32x4(a) ((f32x4)__builtin_ia32_roundps(a, 11))\n"
        "#define tg_trunc_f64x2(a) ((f64x2)__builtin_ia32_roundpd(a, 11))\n#endif\n"
        NEON("trunc", "frintz") SVE(SVE_TRUNC) LOOPS("trunc", "__builtin_trunc"),
    [H_ALL] =                   /* lanes 0 and -1: are all -1? */
        "#ifdef __AVX512DQ__\n#define tg_all_i32x16(m) ((unsigned short)__builtin_ia32_cvtd2mask512(m) == 0xffff)\n#endif\n"
        "#ifdef __AVX__\n#define tg_all_i32x8(m) (__builtin_ia32_movmskps256((float __attribute__((vector_size(32))))(m)) == 255)\n#endif\n"
        "#ifdef __SSE2__\n#define tg_all_i32x4(m) (__builtin_ia32_movmskps((float __attribute__((vector_size(16))))(m)) == 15)\n#endif\n"
        "#ifdef __aarch64__\n#define tg_all_i32x4(m) ({ int y_; __asm__(\"uminv %s0, %1.4s\" : \"=w\"(y_) : \"w\"(m)); y_ == -1; })\n#endif\n"
        SVE(SVE_ALL) LOOP_ALL(4) LOOP_ALL(8) LOOP_ALL(16),
    [H_EXP2] =
        ALWAYS "float tg_exp2(float x)\n{\n    if (x < -151.0f) return 0;\n    x = x > 129.0f ? 129.0f : x;\n"
               "    float n = (x + 12582912.0f) - 12582912.0f, f = x - n, p = 0.000153458081f;\n" EXP2_POLYNOMIAL
               "    int i = (int)n, half = i >> 1;\n    union { int i; float f; } a = { (half + 127) << 23 }, b = { (i - half + 127) << 23 };\n    return p * a.f * b.f;\n}\n",
    [H_EXP2_4] = EXP2_OF("f32x4", 15, "__builtin_ia32_roundps(x, 8)", SCALE_4),
    [H_EXP2_8] = EXP2_OF("f32x8", 255, "__builtin_ia32_roundps256(x, 8)", SCALE_8),
    [H_EXP2_16] = EXP2_OF("f32x16", 65535, "__builtin_ia32_rndscaleps_mask(x, 8, (f32x16){ 0 }, -1, 4)", SCALE_16),
    [H_MASKED] =                /* lanes whose mask is 0 are not touched in memory */
        "#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
        MASKED("f32x", "float", 16, "ps", "512", "(unsigned short)__builtin_ia32_cvtd2mask512") MASKED("f32x", "float", 8, "ps", "256", "(unsigned char)__builtin_ia32_cvtd2mask256")
        MASKED("f32x", "float", 4, "ps", "128", "(unsigned char)__builtin_ia32_cvtd2mask128") MASKED("f64x", "double", 8, "pd", "512", "(unsigned char)__builtin_ia32_cvtd2mask256")
        MASKED("f64x", "double", 4, "pd", "256", "(unsigned char)__builtin_ia32_cvtd2mask128")
        "#elif defined(__AVX2__)\n#define tg_same(m, t) ((t)(m))\n"
        MASKED_WIDE("f32x", 8, "ps256", "tg_same", "(f32x8){ 0 }", 255) MASKED_WIDE("f32x", 4, "ps", "tg_same", "(f32x4){ 0 }", 15)
        MASKED_WIDE("f64x", 4, "pd256", "__builtin_convertvector", "(f64x4){ 0 }", 15)
        "#endif\n"
        SVE(SVE_MASKED)
        LOOP_MASKED("f32x", "float", 16) LOOP_MASKED("f32x", "float", 8) LOOP_MASKED("f32x", "float", 4) LOOP_MASKED("f64x", "double", 8) LOOP_MASKED("f64x", "double", 4),
    [H_STREAM] =                /* T's vector v, past the caches where its place is aligned (a caller's output may not be) */
        "#ifdef __clang__\n#define tg_past(p, v, n) __builtin_nontemporal_store((float __attribute__((vector_size(n))))(v), (float __attribute__((vector_size(n))) *)(p))\n"
        "#define tg_past_64(p, v) tg_past(p, v, 64)\n#define tg_past_32(p, v) tg_past(p, v, 32)\n#define tg_past_16(p, v) tg_past(p, v, 16)\n"
        "#else\n#define tg_past_64(p, v) __builtin_ia32_movntps512((float *)(p), (float __attribute__((vector_size(64))))(v))\n"
        "#define tg_past_32(p, v) __builtin_ia32_movntps256((float *)(p), (float __attribute__((vector_size(32))))(v))\n"
        "#define tg_past_16(p, v) __builtin_ia32_movntps((float *)(p), (float __attribute__((vector_size(16))))(v))\n#endif\n"
        "#define tg_stream(T, n, p, a) ({ __typeof__(a) v_ = (a); T *p_ = (T *)(p); if ((unsigned long)p_ & (n - 1)) *p_ = v_; else tg_past_##n(p_, v_); })\n",
    [H_GATHER] =                /* older machines with AVX-512 were made to gather slower than they load lane by lane; those with its bf16 were not */
        "#if defined(__AVX512BF16__) && defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
        GATHER("f32x", "float", 16, "siv16sf", "-1", "(unsigned short)__builtin_ia32_cvtd2mask512") GATHER("f32x", "float", 8, "3siv8sf", "-1", "(unsigned char)__builtin_ia32_cvtd2mask256")
        GATHER("f32x", "float", 4, "3siv4sf", "-1", "(unsigned char)__builtin_ia32_cvtd2mask128") GATHER("f64x", "double", 8, "siv8df", "-1", "(unsigned char)__builtin_ia32_cvtd2mask256")
        GATHER("f64x", "double", 4, "3siv4df", "-1", "(unsigned char)__builtin_ia32_cvtd2mask128")
        "#endif\n"
        SVE(SVE_GATHER)
        LIST_GATHER("f32x", "float", 16) LIST_GATHER("f32x", "float", 8) LIST_GATHER("f32x", "float", 4) LIST_GATHER("f64x", "double", 8) LIST_GATHER("f64x", "double", 4),
    [H_DOT] =                   /* rows of graph/wmma.def whose accumulator c is a vector: a is the same in every lane. GCC gives accumulators of its own instructions registers, those of asm it spills */
        "#if defined(__AVX512VNNI__) && !defined(__clang__)\n"
        "#define tg_vnni_u8(c, a, b) ((i32x16)__builtin_ia32_vpdpbusd_v16si(c, (int)(a) - (i32x16){ 0 }, (i32x16)(b)))\n"
        "#else\n"
        "#define tg_vnni_u8(c, a, b) ({ i32x16 c_ = (c); __asm__(\"vpdpbusd %2, %1, %0\" : \"+v\"(c_) : \"v\"((int)(a) - (i32x16){ 0 }), \"v\"(b)); c_; })\n"
        "#endif\n"
        "#if defined(__AVX512BF16__) && !defined(__clang__)\n"
        "#if __GNUC__ > 12\ntypedef __bf16 tg_pairs __attribute__((vector_size(64)));\n#else\ntypedef short tg_pairs __attribute__((vector_size(64)));\n#endif\n"
        "#define tg_dot_bf16(c, a, b) ((f32x16)__builtin_ia32_dpbf16ps_v16sf(c, (tg_pairs)((int)(a) - (i32x16){ 0 }), (tg_pairs)(b)))\n"
        "#else\n"
        "#define tg_dot_bf16(c, a, b) ({ f32x16 c_ = (c); __asm__(\"vdpbf16ps %2, %1, %0\" : \"+v\"(c_) : \"v\"((int)(a) - (i32x16){ 0 }), \"v\"(b)); c_; })\n"
        "#endif\n"
        "#if defined(__AVXVNNI__) || defined(__AVX512VNNI__) || !defined(__AVX2__)\n"
        "#define tg_avx_u8(c, a, b) ({ i32x8 c_ = (c); __asm__(AVX_DOT \" %2, %1, %0\" : \"+v\"(c_) : \"v\"((int)(a) - (i32x8){ 0 }), \"v\"(b)); c_; })\n"
        "#ifdef __AVXVNNI__\n#define AVX_DOT \"{vex} vpdpbusd\"\n#else\n#define AVX_DOT \"vpdpbusd\"\n#endif\n"
        "#else\n"                  /* bytes 0 and 2, then 1 and 3, as halves of words: their products are exact */
        "typedef short tg_halves __attribute__((vector_size(32)));\ntypedef unsigned short tg_uhalves __attribute__((vector_size(32)));\n"
        "#define tg_twice(a, b) ((i32x8)__builtin_ia32_pmaddwd256((tg_halves)(a), b))\n"
        "#define tg_avx_u8(c, a, b) ({ tg_uhalves a_ = (tg_uhalves)((int)(a) - (i32x8){ 0 }); tg_halves b_ = (tg_halves)(b); "
        "(c) + tg_twice(a_ & 255, (b_ << 8) >> 8) + tg_twice(a_ >> 8, b_ >> 8); })\n"
        "#endif\n"
        "#ifdef __aarch64__\n#include <arm_neon.h>\n"
        "#define tg_neon_u8(c, a, b) ((i32x4)vusdotq_s32((int32x4_t)(c), (uint8x16_t)((int)(a) - (i32x4){ 0 }), (int8x16_t)(b)))\n"
        "#define tg_neon_i8(c, a, b) ((i32x4)vdotq_s32((int32x4_t)(c), (int8x16_t)((int)(a) - (i32x4){ 0 }), (int8x16_t)(b)))\n"
        "#define tg_neon_bf16(c, a, b) ((f32x4)vbfdotq_f32((float32x4_t)(c), (bfloat16x8_t)((int)(a) - (i32x4){ 0 }), (bfloat16x8_t)(b)))\n"
        "#endif\n"
        IF_SVE
        "#define tg_sve_u8(c, a, b) ((i32x8)svusdot_s32((svint32_t)(c), svreinterpret_u8_s32(svdup_n_s32((int)(a))), svreinterpret_s8_s32((svint32_t)(tg_sve_i)(b))))\n"
        "#define tg_sve_i8(c, a, b) ((i32x8)svdot_s32((svint32_t)(c), svreinterpret_s8_s32(svdup_n_s32((int)(a))), svreinterpret_s8_s32((svint32_t)(tg_sve_i)(b))))\n"
        "#define tg_sve_bf16(c, a, b) ((f32x8)svbfdot_f32((svfloat32_t)(c), svreinterpret_bf16_s32(svdup_n_s32((int)(a))), svreinterpret_bf16_s32((svint32_t)(tg_sve_i)(b))))\n"
        "#elif defined(__aarch64__)\ntypedef int i32x4 __attribute__((vector_size(16)));\ntypedef float f32x4 __attribute__((vector_size(16)));\n"
        "#define tg_sve_by(of, V, A, c, a, b) ({ union { V v; A h[2]; } c_ = { .v = (c) }, b_ = { .v = (V)(b) }; for (int l_ = 0; l_ < 2; l_++) c_.h[l_] = of(c_.h[l_], a, b_.h[l_]); c_.v; })\n"
        "#define tg_sve_u8(c, a, b) tg_sve_by(tg_neon_u8, i32x8, i32x4, c, a, b)\n"
        "#define tg_sve_i8(c, a, b) tg_sve_by(tg_neon_i8, i32x8, i32x4, c, a, b)\n"
        "#define tg_sve_bf16(c, a, b) tg_sve_by(tg_neon_bf16, f32x8, f32x4, c, a, b)\n"
        "#endif\n",
    [H_WIDEN] =                 /* integers of size s (b, w) and sign (z: none, s) to 32 bits each at once; GCC's conversion makes halves of quarters. M: of twice their size */
        "#define tg_widens(T, M, sign, s, a) __builtin_convertvector(__builtin_convertvector(a, M), T)\n"
        "#define tg_widen_at_once(T, M, sign, s, a) ({ T y_; __asm__(\"vpmov\" sign \"x\" s \"d %1, %0\" : \"=v\"(y_) : \"vm\"(a)); y_; })\n"
        SVE(SVE_WIDEN)
        "#if defined(__AVX512F__) && !defined(__clang__)\n#define tg_widen_16 tg_widen_at_once\n#elif !defined(tg_widen_16)\n#define tg_widen_16 tg_widens\n#endif\n"
        "#if defined(__AVX2__) && !defined(__clang__)\n#define tg_widen_8 tg_widen_at_once\n#elif !defined(tg_widen_8)\n#define tg_widen_8 tg_widens\n#endif\n",
    [H_NARROW] =                /* the low bytes (s: b) or halves (w) of 32 bits each; GCC takes them one by one */
        SVE(SVE_NARROW)
        "#define tg_narrows(T, s, a) __builtin_convertvector(a, T)\n"
        "#define tg_narrow_at_once(T, s, a) ({ T y_; __asm__(\"vpmovd\" #s \" %1, %0\" : \"=v\"(y_) : \"v\"(a)); y_; })\n"
        "#if defined(__AVX512F__) && !defined(__clang__)\n#define tg_narrow_16 tg_narrow_at_once\n#elif !defined(tg_narrow_16)\n#define tg_narrow_16 tg_narrows\n#endif\n"
        "#if defined(__AVX512VL__) && !defined(__clang__)\n#define tg_narrow_8 tg_narrow_at_once\n"
        "#elif defined(__AVX2__) && !defined(__clang__)\n"
        "typedef unsigned char tg_u8x32 __attribute__((vector_size(32)));\n"
        "#define tg_narrow_8_b(T, a) ((T)__builtin_shufflevector((tg_u8x32)(a), (tg_u8x32)(a), 0, 4, 8, 12, 16, 20, 24, 28))\n"
        "#define tg_narrow_8_w(T, a) __builtin_convertvector(a, T)\n#define tg_narrow_8(T, s, a) tg_narrow_8_##s(T, a)\n"
        "#elif !defined(tg_narrow_8)\n#define tg_narrow_8 tg_narrows\n#endif\n",
    [H_HALF] =                  /* scalars; f16: the exponent is moved by a product, so that denormals come out right */
        ALWAYS "float tg_bf16(unsigned short h)\n{\n    return (union { unsigned int i; float f; }){ (unsigned int)h << 16 }.f;\n}\n"
        ALWAYS "unsigned short tg_to_bf16(float f)\n{\n    unsigned int i = (union { float f; unsigned int i; }){ f }.i;\n"
               "    return f != f ? 0x7fc0 : (unsigned short)((i + 0x7fff + (i >> 16 & 1)) >> 16);\n}\n"
        "#ifdef __F16C__\n"
        ALWAYS "float tg_f16(unsigned short h)\n{\n    return __builtin_ia32_vcvtph2ps((short __attribute__((vector_size(16)))){ (short)h })[0];\n}\n"
        ALWAYS "unsigned short tg_to_f16(float f)\n{\n    return (unsigned short)__builtin_ia32_vcvtps2ph((float __attribute__((vector_size(16)))){ f }, 8)[0];\n}\n"
        "#elif defined(__aarch64__)\n"      /* asm: of two casts between float and __fp16 GCC would make one fused multiply-add of halves */
        ALWAYS "float tg_f16(unsigned short h)\n{\n    return (union { unsigned short i; __fp16 f; }){ h }.f;\n}\n"
        ALWAYS "unsigned short tg_to_f16(float f)\n{\n    union { __fp16 f; unsigned short i; } h;\n    __asm__(\"fcvt %h0, %s1\" : \"=w\"(h.f) : \"w\"(f));\n    return h.i;\n}\n#else\n"
        ALWAYS "float tg_f16(unsigned short h)\n{\n"
               "    float f = (union { unsigned int i; float f; }){ (unsigned int)(h & 0x7fff) << 13 }.f * 0x1p112f;\n"
               "    unsigned int i = (union { float f; unsigned int i; }){ f }.i | (unsigned int)(h & 0x8000) << 16;\n"
               "    return (union { unsigned int i; float f; }){ (h & 0x7c00) == 0x7c00 ? i | 0x7f800000 : i }.f;\n}\n"
        ALWAYS "unsigned short tg_to_f16(float f)\n{\n"
               "    unsigned int i = (union { float f; unsigned int i; }){ f }.i, sign = i >> 16 & 0x8000, a = i & 0x7fffffff, h;\n"
               "    if (a > 0x7f800000) h = 0x7e00;\n    else if (a >= 0x477ff000) h = 0x7c00;\n"
               "    else if (a < 0x38800000) h = (union { float f; unsigned int i; }){ (union { unsigned int i; float f; }){ a }.f + 0.5f }.i - 0x3f000000;\n"
               "    else h = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;\n"
               "    return (unsigned short)(sign | h);\n}\n#endif\n",
    [H_FROM_F16] =
        "typedef short tg_i16x8 __attribute__((vector_size(16)));\ntypedef short tg_i16x16 __attribute__((vector_size(32)));\n"
        "#ifdef __AVX512F__\n#define tg_from_f16x16(a) ((f32x16)__builtin_ia32_vcvtph2ps512_mask((tg_i16x16)(a), (f32x16){ 0 }, -1, 4))\n#endif\n"
        "#ifdef __F16C__\n#define tg_from_f16x8(a) ((f32x8)__builtin_ia32_vcvtph2ps256((tg_i16x8)(a)))\n#endif\n"
        "#ifdef __aarch64__\n#define tg_from_f16x4(a) ({ f32x4 x_; __asm__(\"fcvtl %0.4s, %1.4h\" : \"=w\"(x_) : \"w\"(a)); x_; })\n#endif\n"
        SVE(SVE_FROM) LOOP_FROM(4) LOOP_FROM(8) LOOP_FROM(16),
    [H_TO_F16] =
        "typedef short tg_j16x16 __attribute__((vector_size(32)));\n"
        "#ifdef __AVX512F__\n#define tg_to_f16x16(a) ((u16x16)__builtin_ia32_vcvtps2ph512_mask(a, 8, (tg_j16x16){ 0 }, -1))\n#endif\n"
        "#ifdef __F16C__\n#define tg_to_f16x8(a) ((u16x8)__builtin_ia32_vcvtps2ph256(a, 8))\n#endif\n"
        "#ifdef __aarch64__\n#define tg_to_f16x4(a) ({ u16x4 x_; __asm__(\"fcvtn %0.4h, %1.4s\" : \"=w\"(x_) : \"w\"(a)); x_; })\n#endif\n"
        SVE(SVE_TO) LOOP_TO(4) LOOP_TO(8) LOOP_TO(16),
};
