/* Opens the driver's library and resolves driver.def. */
#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

Cuda cuda;

static const struct { const char *symbol; size_t offset; } rows[] = {
#define FN(name, symbol, params) { symbol, offsetof(Cuda, name) },
#include "backends/cuda/driver.def"
#undef FN
};

static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static bool opened;

TgStatus cuda_failed(CuResult r, const char *what)
{
    enum { OUT_OF_MEMORY = 2 };
    const char *text = NULL;
    if (cuda.GetErrorString) cuda.GetErrorString(r, &text);
    size_t name = strcspn(what, "(");
    return fail(r == OUT_OF_MEMORY ? TG_LIMIT : TG_DEVICE, "cuda: %.*s: %s (%d)", (int)name, what,
                text ? text : "unknown error", r);
}

static TgStatus resolve(void)
{
    const char *own = getenv("TGRUN_LIBCUDA");
    void *lib = dlopen(own && *own ? own : "libcuda.so.1", RTLD_NOW);
    if (!lib && !own) lib = dlopen("/usr/local/nvidia/lib64/libcuda.so.1", RTLD_NOW);
    if (!lib) return fail(TG_DEVICE, "cuda: no driver: %s", dlerror());
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        void *at = dlsym(lib, rows[k].symbol);
        if (!at) return fail(TG_DEVICE, "cuda: the driver is too old: it has no %s", rows[k].symbol);
        memcpy((char *)&cuda + rows[k].offset, &at, sizeof at);
    }
    int count = 0;
    CU(Init(0));
    CU(DeviceGetCount(&count));
    return count ? TG_OK : fail(TG_DEVICE, "cuda: no device");
}

TgStatus cuda_open(void)
{
    pthread_mutex_lock(&once);
    TgStatus status = opened ? TG_OK : resolve();
    opened = status == TG_OK;
    pthread_mutex_unlock(&once);
    return status;
}
