/* MPI by dlopen. Its standard says what functions do, not how handles look: those of Open MPI are addresses of objects
 * that its library exports, those of MPICH (and what shares its binary interface) are numbers. Both are passed as
 * words, and a request is kept in one. Statuses are never looked at. */
#include "backends/mpi/mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef uintptr_t Handle;

enum { SERIALIZED = 2, MPI_GOOD = 0 };

static struct {
    int (*Init_thread)(int *argc, char ***argv, int wanted, int *given);
    int (*Comm_rank)(Handle comm, int *rank);
    int (*Comm_size)(Handle comm, int *size);
    int (*Comm_set_errhandler)(Handle comm, Handle handler);
    int (*Isend)(const void *data, int count, Handle type, int to, int tag, Handle comm, void *request);
    int (*Irecv)(void *data, int count, Handle type, int from, int tag, Handle comm, void *request);
    int (*Test)(void *request, int *done, void *status);
    int (*Cancel)(void *request);
    int (*Request_free)(void *request);
    int (*Finalize)(void);
    int (*Abort)(Handle comm, int code);
    Handle world, byte, returns;    /* MPI_COMM_WORLD, MPI_BYTE, MPI_ERRORS_RETURN */
    void *no_status;
} mpi;

static const struct { const char *symbol; size_t at; } function[] = {
#define ROW(name) { "MPI_" #name, offsetof(__typeof__(mpi), name) }
    ROW(Init_thread), ROW(Comm_rank), ROW(Comm_size), ROW(Comm_set_errhandler), ROW(Isend), ROW(Irecv),
    ROW(Test),        ROW(Cancel),    ROW(Request_free), ROW(Finalize),         ROW(Abort),
#undef ROW
};

bool mpi_launched(void)
{
    static const char *const name[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK" };
    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        if (getenv(name[k])) return true;
    return false;
}

static TgStatus failed(const char *what) { return fail(TG_DEVICE, "mpi: %s failed", what); }

/* Its plug-ins look for symbols of the library: those are global. */
static void *open_library(void)
{
    static const char *const name[] = { "libmpi.so.40", "libmpi.so.80", "libmpich.so.12", "libmpi.so.12", "libmpi.so" };
    const char *own = getenv("TGRUN_LIBMPI");
    void *lib = own && *own ? dlopen(own, RTLD_NOW | RTLD_GLOBAL) : NULL;
    bool open = getenv("OMPI_COMM_WORLD_SIZE") != NULL;
    for (size_t k = 0; k < sizeof name / sizeof *name && !lib && !(own && *own); k++)
        if (open || k > 1) lib = dlopen(name[k], RTLD_NOW | RTLD_GLOBAL);
    return lib;
}

static TgStatus resolve(void)
{
    void *lib = open_library();
    if (!lib) return fail(TG_DEVICE, "mpi: no library: %s", dlerror());
    for (size_t k = 0; k < sizeof function / sizeof *function; k++) {
        void *at = dlsym(lib, function[k].symbol);
        if (!at) return fail(TG_DEVICE, "mpi: the library has no %s", function[k].symbol);
        memcpy((char *)&mpi + function[k].at, &at, sizeof at);
    }
    mpi.world = (Handle)dlsym(lib, "ompi_mpi_comm_world");
    if (mpi.world) {
        mpi.byte = (Handle)dlsym(lib, "ompi_mpi_byte");
        mpi.returns = (Handle)dlsym(lib, "ompi_mpi_errors_return");
        return mpi.byte && mpi.returns ? TG_OK : fail(TG_DEVICE, "mpi: the library is not known");
    }
    mpi.world = 0x44000000, mpi.byte = 0x4c00010d, mpi.returns = 0x54000001;       /* MPICH's binary interface */
    mpi.no_status = (void *)(uintptr_t)1;
    return TG_OK;
}

TgStatus mpi_start(int32_t *rank, int32_t *ranks)
{
    int given;
    TRY(resolve());
    if (mpi.Init_thread(NULL, NULL, SERIALIZED, &given) != MPI_GOOD) return failed("MPI_Init_thread");
    if (given < SERIALIZED) return fail(TG_DEVICE, "mpi: the library serves one thread only");
    if (mpi.Comm_set_errhandler(mpi.world, mpi.returns) != MPI_GOOD) return failed("MPI_Comm_set_errhandler");
    if (mpi.Comm_rank(mpi.world, rank) != MPI_GOOD) return failed("MPI_Comm_rank");
    return mpi.Comm_size(mpi.world, ranks) == MPI_GOOD ? TG_OK : failed("MPI_Comm_size");
}

TgStatus mpi_send(MpiRequest *r, const void *data, int32_t bytes, int32_t to, int32_t tag)
{
    return mpi.Isend(data, bytes, mpi.byte, to, tag, mpi.world, r) == MPI_GOOD ? TG_OK : failed("MPI_Isend");
}

TgStatus mpi_receive(MpiRequest *r, void *data, int32_t bytes, int32_t from, int32_t tag)
{
    return mpi.Irecv(data, bytes, mpi.byte, from, tag, mpi.world, r) == MPI_GOOD ? TG_OK : failed("MPI_Irecv");
}

TgStatus mpi_done(MpiRequest *r, bool *done)
{
    int flag = 0;
    if (mpi.Test(r, &flag, mpi.no_status) != MPI_GOOD) return failed("MPI_Test");
    *done = flag != 0;
    return TG_OK;
}

void mpi_forget(MpiRequest *r)
{
    mpi.Cancel(r);
    mpi.Request_free(r);
}

void mpi_finish(void) { mpi.Finalize(); }

void mpi_abort(int code)
{
    mpi.Abort(mpi.world, code);
    _Exit(code);
}
