/* tgrun-worker: compiles CUDA C (no argument), or times and checks a search's candidates (`tune DEVICE ..`), until its
 * input closes. A program of its own because nothing may fork once CUDA or a thread team runs, and because a candidate
 * may crash or hang. Not for users: found beside the library or the program (backends/child.c). */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "backends/backend.h"
#include "backends/cuda/protocol.h"
#include "beam/wire.h"

static const Backend *const backends[] = { &backend_cpu, &backend_cuda, &backend_reference, NULL };

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);                    /* Ctrl-C is for the program, which then closes our input */
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    if (argc == 1) return cuda_serve();
    prctl(PR_SET_PDEATHSIG, SIGKILL);           /* a candidate that hangs does not outlive the search */
    return strcmp(argv[1], "tune") ? TG_USAGE : tune_serve(backends, argc - 2, argv + 2);
}
