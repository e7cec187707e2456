/* The CUDA driver, opened at run time: no toolkit is needed to build, and one binary runs with and without a GPU. Our
 * own declarations of what driver.def lists, laid out as the driver's documented interface (64-bit Linux).
 * TGRUN_LIBCUDA names another library, such as the emulator of tests/emulator. */
#ifndef TG_CUDA_DRIVER_H
#define TG_CUDA_DRIVER_H
#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

typedef int CuResult;
typedef uint64_t CuPtr;
typedef struct CuContext_ *CuContext;
typedef struct CuModule_ *CuModule;
typedef struct CuFunction_ *CuFunction;
typedef struct CuStream_ *CuStream;
typedef struct CuEvent_ *CuEvent;
typedef struct CuGraph_ *CuGraph;
typedef struct CuNode_ *CuNode;
typedef struct CuGraphExec_ *CuGraphExec;

typedef struct {
    CuFunction func;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    void *kernel;
    CuContext ctx;
} CuKernelNode;

enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };
typedef struct {
    size_t x, y, z, lod;
    int memory;                     /* CU_MEMORY_ */
    const void *host;
    CuPtr device;
    void *array, *reserved;
    size_t pitch, height;
} CuCopyEnd;
typedef struct {
    CuCopyEnd from, to;
    size_t width, height, depth;    /* bytes, rows, planes */
} CuCopy;

enum {
    CU_ATTR_THREADS_PER_BLOCK = 1,
    CU_ATTR_WARP = 10,
    CU_ATTR_SM_COUNT = 16,
    CU_ATTR_L2_BYTES = 38,
    CU_ATTR_CC_MAJOR = 75,
    CU_ATTR_CC_MINOR = 76,
    CU_ATTR_REGISTERS_PER_SM = 82,
    CU_ATTR_SHARED_OPTIN = 97
};
enum { CU_FUNC_LOCAL_BYTES = 3, CU_FUNC_REGISTERS = 4, CU_FUNC_MAX_DYNAMIC_SHARED = 8 };
enum { CU_NON_BLOCKING = 1 };

typedef struct {
#define FN(name, symbol, params) CuResult (*name) params;
#include "backends/cuda/driver.def"
#undef FN
} Cuda;

extern Cuda cuda;                   /* valid after cuda_open */
TgStatus cuda_open(void);           /* once a process; TG_DEVICE and a reason when there is no driver or no device */
TgStatus cuda_failed(CuResult r, const char *what);

#define CU(call)                                                        \
    do {                                                                \
        CuResult cu_result_ = cuda.call;                                \
        if (cu_result_) return cuda_failed(cu_result_, #call);          \
    } while (0)
#endif
