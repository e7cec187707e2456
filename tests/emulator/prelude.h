/* What CUDA C needs to be C++ on the host: included before a kernel's source by the emulator. Threads of a workgroup
 * are fibers that meet in tg_emulator_meet. */
#include <math.h>
#include <string.h>

#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))

struct Position { unsigned x, y, z; };
extern "C" {
Position blockIdx, threadIdx;
void (*tg_emulator_meet)(void);
unsigned char tg_shared[256 << 10] __attribute__((aligned(64)));
}

static inline void __syncthreads() { tg_emulator_meet(); }

/* Two sets of places in turn: a thread may be at its next shuffle before another has read this one's. */
template <class T> static T __shfl_xor_sync(unsigned mask, T v, int lanes)
{
    static unsigned char place[2][1024][8], turn[1024];
    unsigned t = threadIdx.x, half = turn[t] ^= 1;
    T out;
    if (!(mask >> t % 32 & 1)) __builtin_trap();
    memcpy(place[half][t], &v, sizeof v);
    tg_emulator_meet();
    memcpy(&out, place[half][t ^ (unsigned)lanes], sizeof out);
    return out;
}

template <class To, class From> static To tg_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "same size");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int i) { return tg_bits<float>(i); }
static inline float __uint_as_float(unsigned i) { return tg_bits<float>(i); }
static inline unsigned __float_as_uint(float f) { return tg_bits<unsigned>(f); }
static inline double __longlong_as_double(long long i) { return tg_bits<double>(i); }

#define TG_TYPES
template <class T, int N> struct __align__(sizeof(T) * N) tg_vec { T v[N]; };

static inline unsigned short float_to_half(float f)
{
    unsigned u = __float_as_uint(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (unsigned short)(sign | 0x7e00);
    if (a >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
    /* subnormal: units of 2^-24, ties to even as nearbyint does */
    if (a < 0x38800000) {
        return (unsigned short)(sign | (unsigned)nearbyintf(__uint_as_float(a) * 16777216.0f));
    }
    a += 0xfff + (a >> 13 & 1);
    return (unsigned short)(sign | ((a - 0x38000000) >> 13));
}
static inline float half_to_float(unsigned short h)
{
    unsigned sign = (unsigned)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31) return __uint_as_float(sign | 0x7f800000 | m << 13);
    if (!e) return __uint_as_float(sign | __float_as_uint((float)m * 5.9604644775390625e-8f));
    return __uint_as_float(sign | (e + 112) << 23 | m << 13);
}
struct tg_f16 {
    unsigned short x;
    tg_f16() = default;
    explicit tg_f16(float f) : x(float_to_half(f)) {}
    operator float() const { return half_to_float(x); }
};
struct tg_bf16 {
    unsigned short x;
    tg_bf16() = default;
    explicit tg_bf16(float f)
    {
        unsigned u = __float_as_uint(f);
        x = f != f ? 0x7fc0 : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    operator float() const { return __uint_as_float((unsigned)x << 16); }
};

/* A warp's m16n8k16: every lane shows its parts of A and B, then computes from those of the lanes of its row and of its
 * columns. */
#define TG_MMA
template <class T> static unsigned tg_pair(T a, T b) { return (unsigned)a.x | (unsigned)b.x << 16; }
template <class T> static void tg_mma(float *d, const unsigned *a, const unsigned *b, const float *c)
{
    static unsigned place[2][1024][6];
    static unsigned char turn[1024];
    unsigned me = threadIdx.x, lane = me % 32, first = me - lane, half = turn[me] ^= 1;
    memcpy(place[half][me], a, 16);
    memcpy(place[half][me] + 4, b, 8);
    tg_emulator_meet();
    for (unsigned e = 0; e < 4; e++) {
        double sum = 0;
        for (unsigned k = 0; k < 16; k++) {
            const unsigned *row = place[half][first + lane / 4 * 4 + k / 2 % 4],
                           *column = place[half][first + (lane % 4 * 2 + e % 2) * 4 + k / 2 % 4] + 4;
            T x, y;
            x.x = (unsigned short)(row[k / 8 * 2 + e / 2] >> k % 2 * 16);
            y.x = (unsigned short)(column[k / 8] >> k % 2 * 16);
            sum += (double)(float)x * (double)(float)y;
        }
        d[e] = (float)(c[e] + sum);
    }
}
#define TG_MMA_OF(name, type) \
    static void name(float &d0, float &d1, float &d2, float &d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, \
                     unsigned b0, unsigned b1, float c0, float c1, float c2, float c3) \
    { \
        const unsigned a[] = { a0, a1, a2, a3 }, b[] = { b0, b1 }; \
        const float c[] = { c0, c1, c2, c3 }; \
        float d[4]; \
        tg_mma<type>(d, a, b, c); \
        d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3]; \
    }
TG_MMA_OF(tg_mma_f16, tg_f16)
TG_MMA_OF(tg_mma_bf16, tg_bf16)
