/* Messages between the processes of a job (ranks) that mpirun has started, by the MPI library that is there. One thread
 * of the process calls these at a time. */
#ifndef TG_MPI_H
#define TG_MPI_H
#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

/* A message under way; 0 of its bytes are looked at before mpi_done says so. */
typedef struct { uint64_t handle[2]; } MpiRequest;

/* Is this process one of a job? By what launchers put into the environment; nothing is opened. */
bool mpi_launched(void);
/* Opens and starts MPI. TG_DEVICE: there is no library, or it does not start. */
TgStatus mpi_start(int32_t *rank, int32_t *ranks);
/* bytes of data, which stay until it is done, to another rank's mpi_receive of as many with that tag. In order. */
TgStatus mpi_send(MpiRequest *r, const void *data, int32_t bytes, int32_t to, int32_t tag);
TgStatus mpi_receive(MpiRequest *r, void *data, int32_t bytes, int32_t from, int32_t tag);
TgStatus mpi_done(MpiRequest *r, bool *done);
/* A receive that nobody will answer. */
void mpi_forget(MpiRequest *r);
/* No message is under way on any rank: all call it. */
void mpi_finish(void);
/* Ends the processes of all ranks at once. */
_Noreturn void mpi_abort(int code);
#endif
