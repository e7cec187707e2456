/* The reference interpreter: slow, obvious, and the oracle of every differential test. ref_eval knows tensors, ref_exec
 * knows kernels in each of their forms; they share nothing but uop_eval, so that one proves the other. Every op rounds
 * to its dtype; double is used only inside REDUCE and transcendentals.
 */
#ifndef TG_REFERENCE_H
#define TG_REFERENCE_H
#include "graph/wmma.h"
#include "sched/kernel.h"

enum { REF_RANK = 60 };
/* data: malloc'ed, row-major, packed */
typedef struct {
    DType dtype;
    uint32_t rank;
    int64_t shape[REF_RANK], numel;
    void *data;
} RefTensor;
typedef struct { const UOp *var; int64_t value; } RefVar;
typedef struct {
    const void *const *param;       /* by slot of PARAM; their sizes are their shapes' */
    const void *const *buffer;      /* by slot of BUFFER, or NULL; constants have data of their own */
    uint32_t nparam, nbuffer, nvar;
    const RefVar *var;
    int64_t base;                   /* slot of param[0]: bodies of loops and branches number theirs from elsewhere */
} RefInput;

/* Evaluates tensor-level values. out[n] on TG_OK; ref_tensor_free each. An index that is out of range is TG_BAD_INPUT.
 */
TgStatus ref_eval(RefTensor *out, Graph *g, const UOp *const *value, uint32_t n, const RefInput *in);
void ref_tensor_free(RefTensor *t);
/* call.c: one CALL. result[k].dtype DT_VOID: nobody reads it. vars: the DEFINE_VARs among the function's sources after
 * its bodies (of a loop: after its step), in order. */
TgStatus ref_call(Graph *g, const UOp *call, const RefTensor *arg, RefTensor *result, uint32_t nresult, int64_t *vars,
                  const RefInput *in);

/* Runs one kernel: its LINEAR when it has one (form 6), else its root (forms 1 to 5). mem: one a param; vars: as
 * Kernel.var. Every access is checked. */
typedef struct { void *data; int64_t size_bytes; } RefMem;
TgStatus ref_exec(const Kernel *k, const RefMem *mem, const int64_t *vars);
TgStatus ref_exec_root(const Kernel *k, const RefMem *mem, const int64_t *vars);
TgStatus ref_exec_linear(const Kernel *k, const RefMem *mem, const int64_t *vars);
/* One thread's share of a linear kernel: the values first .. end - 1 of its THREAD range. */
TgStatus ref_exec_parts(const Kernel *k, const RefMem *mem, const int64_t *vars, int64_t first, int64_t end);

/* A size: a formula of constants and variables. false: it depends on something else, or divides by zero. */
bool ref_size(const UOp *u, const RefVar *var, uint32_t nvar, int64_t *out);

/* Shared by both executors: an element-wise op on lanes (an operand of one lane serves all), and a lane count. */
bool ref_alu(const UOp *u, const int64_t *const *src, int64_t *out);
/* a GUARD's value; the note goes to word, which may be NULL */
int64_t ref_guard(const UOp *u, int64_t value, int64_t bound, int64_t *word);
/* a, b: of all lanes; out: this lane's accumulator */
void ref_wmma(const UOp *wmma, int64_t lane, const int64_t *a, const int64_t *b, int64_t *out);
static inline uint32_t ref_lanes(const UOp *u) { return u->shape->rank ? (uint32_t)uop_numel(u) : 1; }
#endif
