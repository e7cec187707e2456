/** tgrun: an ONNX model runner. The only public header: C99 and C++, opaque handles, no other include needed.
 *
 * A session is made from one model file for one device. It compiles lazily, once per set of input shapes, and keeps its
 * plans. One session serves one thread at a time; different sessions are independent, and those that share (tg_share)
 * run at once. Every fallible function returns a TgStatus; tg_error() then tells what went wrong, in one line, for the
 * calling thread.
 */
#ifndef TGRUN_H
#define TGRUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

/** What happened. The values are the programs' exit codes. */
typedef enum {
    TG_OK = 0,
    TG_DIFFERS = 1,       /**< ran, but an output differs from what was expected, or a gate failed */
    TG_USAGE = 2,         /**< the call or the command line is wrong */
    TG_BAD_MODEL = 3,     /**< the model file breaks the standard */
    TG_BAD_INPUT = 4,     /**< an input, output or reference file or value does not fit */
    TG_UNSUPPORTED = 5,   /**< valid, but not covered yet */
    TG_LIMIT = 6,         /**< memory or another limit; the session is as it was before the call */
    TG_MEMORY = TG_LIMIT, /**< its name where memory is what lacks */
    TG_CACHE = 7,         /**< cache folder, compiler or disk */
    TG_DEVICE = 8,        /**< the device that was requested */
    TG_INTERNAL = 9,      /**< our own mistake */
    TG_STOPPED = 130,     /**< by TgOptions.stop */
    TG_TIMEOUT = 124      /**< the time limit, TgOptions.call_limit_s */
} TgStatus;

/** Element types, numbered as the standard's TensorProto.DataType; then what holds tensors. */
typedef enum {
    TG_F32 = 1,
    TG_U8 = 2,
    TG_I8 = 3,
    TG_U16 = 4,
    TG_I16 = 5,
    TG_I32 = 6,
    TG_I64 = 7,
    TG_STRING = 8,
    TG_BOOL = 9,
    TG_F16 = 10,
    TG_F64 = 11,
    TG_U32 = 12,
    TG_U64 = 13,
    TG_COMPLEX64 = 14,
    TG_COMPLEX128 = 15,
    TG_BF16 = 16,
    TG_F8E4M3FN = 17,
    TG_F8E4M3FNUZ = 18,
    TG_F8E5M2 = 19,
    TG_F8E5M2FNUZ = 20,
    TG_U4 = 21,
    TG_I4 = 22,
    TG_F4E2M1 = 23,
    TG_F8E8M0 = 24,
    TG_U2 = 25,
    TG_I2 = 26,
    TG_F6E2M3 = 27,
    TG_F6E3M2 = 28,
    TG_SEQUENCE = 64,
    TG_OPTIONAL = 65,
    TG_MAP = 66
} TgType;

#define TG_MAX_RANK 16

/* Structs that callers allocate never change their size: `reserved` is zero, and what later versions add takes its
 * place. tg_open and tg_extract refuse a field there that they do not know. */

/** A dense row-major tensor. `data` is owned by whoever made it (see each function). Elements of 6, 4 and 2 bits are
 * packed, the first in the lowest bits. TG_STRING: data are numel pointers to zero-terminated strings, size_bytes
 * counts the pointers. TG_SEQUENCE, TG_OPTIONAL, TG_MAP: rank is 1, data are shape[0] TgTensors, which size_bytes
 * counts. Those of a sequence may differ in shape; an optional has one or none; a map has two: keys [K], i64 or
 * strings, and values [K]. A sequence of maps that share their keys may be one TG_MAP with values [N,K], a row for each
 * of N maps. */
typedef struct {
    TgType type;
    int32_t rank;
    int64_t shape[TG_MAX_RANK];
    void *data;          /**< numel * element size bytes, little endian */
    size_t size_bytes;
} TgTensor;

#define TG_MAX_INSIDE 8

/** A port of the model. A free dimension has shape -1 and may have a symbol. Strings live as long as the session. */
typedef struct {
    const char *name;
    TgType type;         /**< 0: not declared */
    TgType inside[TG_MAX_INSIDE]; /**< what a sequence, optional or map holds, from outside in, then 0: TG_OPTIONAL has
                                     { TG_SEQUENCE, TG_F32 }; a map its keys, then its values */
    int32_t rank;        /**< -1: not declared; rank and shape are those of the tensors inside, if any */
    int64_t shape[TG_MAX_RANK];
    const char *symbol[TG_MAX_RANK];
    double step; /**< of an output: two right programs may differ by this (a quantisation's step), see
                    frontend/session/step.c; 0: not known, and of an input */
    TgType rounded; /**< of an output: the narrower type whose numbers it holds (a cast of f16 to f32); 0: none is
                       known, and of an input */
    int64_t sparse; /**< 1: the model says that the tensor is sparse; it is given, and made, dense */
    const char *const *denotation; /**< [rank] what each axis means in the model's words, "DATA_BATCH", or ""; NULL: the
                                      model says nothing */
    int64_t reserved[6];
} TgPort;

/** Data in the caller's memory that take the place of what a model's file says; one of the two names is given. */
typedef struct {
    const char *initializer; /**< of the model's graph, not of a subgraph, nor sparse or of strings */
    const char *file;        /**< the `location` of external data, which need not be there then */
    TgTensor value;          /**< of an initializer, of its type and shape; of a file, data and size_bytes count. The
                                caller's as long as the session and those that share with it live */
    int64_t reserved[4];
} TgData;

typedef enum { TG_PRECISION_EXACT, TG_PRECISION_SPLIT, TG_PRECISION_FAST } TgPrecision;

typedef struct {
    const char *device; /**< "auto", "cpu", "cuda", "cuda:N", "reference"; "none" to look at a model only; "c", "c11":
                           what tg_save is for; "cpu:0-3", "reference:0-3": four devices, which have equal shares of the
                           threads, and of the model as `shard` says */
    int32_t threads;           /**< 0: one a physical core that the process may use */
    const char *cpus;          /**< list such as "0-3,8", or NULL */
    TgPrecision precision;
    const char *cache_dir;     /**< NULL: $XDG_CACHE_HOME/tgrun, else $HOME/.cache/tgrun */
    int32_t no_cache;          /**< 1: neither read nor write the cache folder */
    int64_t max_memory_bytes;  /**< 0: no limit of ours */
    int32_t beam;              /**< width of the search that tg_prepare makes, 0: none, unless tune_s requests one */
    const char *opts; /**< lists of OptOps that take the place of the chosen ones, as tg_kernel has them: lines
                         `KERNEL: LIST`, and `schedule: LIST` with choices of TgInfo.schedule's form; blank lines and
                         # lines do not count; NULL: none */
    double tune_s;             /**< seconds that it may take, 0: until nothing is gained any more */
    int32_t verbose;           /**< what log gets: 0 warnings, 1 why things are as they are, 2 each list of a search */
    /** how far long work has come: choosing, compiling, interpreting, searching; `done` of `total` of what it consists
     * of. Called often, from the thread that called the library; NULL: nobody watches */
    void (*progress)(void *user, const char *what, double done, double total);
    void *progress_user;
    int64_t seed; /**< of the model's random nodes that name none; the same numbers on every device and in every run */
    const char *dims; /**< free dimensions that stay variable from the start: "batch=1..64,length=1..512", all of them:
                         "*=1..512"; NULL: those that change from run to run */
    int32_t batch; /**< the model is one of a sample, and runs on that many: inputs and outputs have them in axis 0,
                      where the model's is 1, else in a new axis in front; 0: as the model is */
    const char *batch_inputs; /**< "x,mask": inputs that have a value for each sample, the others are shared; NULL: all
                                 have */
    const char *compiler; /**< of the CPU's kernels: "cc": the system's C compiler ($CC, gcc, clang), which is waited
                             for; "own": machine code of tgrun's own, which wants AVX2 and is there at once; "auto":
                             kernels that are not in the cache are of tgrun's own first, and the C compiler's take
                             their place between runs as soon as they are compiled, which may change last bits of
                             results. A search waits for the C compiler. NULL: that of TGRUN_DEFAULT_COMPILER in the
                             environment, else "auto" */
    /** not 0, which any thread or a signal handler may make it: the call at work ends soon with TG_STOPPED (between two
     * kernels, steps of a run, rounds of a search), and those that come do at once, until it is 0 again. The caller's,
     * as long as the session lives; NULL: there is none */
    const int32_t *stop;
    double call_limit_s; /* seconds after which a call ends in the same way with TG_TIMEOUT; 0: it takes its time */
    /** a line of what `verbose` brings, or a warning, without its end; from the thread that called. NULL: nobody reads
     * it; the library itself writes to no stream */
    void (*log)(void *user, const char *line);
    void *log_user;
    /** how several devices, or ranks (tg_ranks), divide a model: "batch": by axis 0 of its inputs; "weights": products
     * by the columns and rows of their weights, heads and channels; "model": as its own device_configurations say, one
     * of which must be of so many devices; "auto": the last where there is one, else the first where the axis can be
     * divided; NULL: likewise, and ranks divide nothing.
     * Results may differ in last bits. A batch that is divided does not stay variable. */
    const char *shard;
    const TgData *data;  /**< [data_count], read when the session is opened; one that the model does not read is refused
                            (TG_BAD_INPUT). NULL: everything is the file's. Not of a compiled model, nor with ranks */
    int64_t data_count;
    int64_t reserved[24];
} TgOptions;

/** What a session has done and holds; times in seconds, sizes in bytes. */
typedef struct {
    int64_t opset, nodes, parameters;              /**< of the model */
    int64_t kernels, syncs, host_steps; /**< a run: launches, waits of all threads or the whole grid, host functions */
    int64_t kernels_compiled, kernels_cached;      /**< unique kernels */
    int64_t lists_refused; /**< unique kernels that run without OptOps, because the device did not take those that were
                              chosen */
    int64_t planned_bytes, weight_bytes,
        flops; /**< planned: values and packed constants; weight: mapped ones (see TgMemory) */
    double load_s, schedule_s, compile_s, tune_s;
    int64_t kernels_timed, kernels_better; /**< of the last search: unique kernels, and those that got a faster list */
    double run_before_s,
        run_after_s; /**< a run before and after it; where it had no data to run on, the sum of its kernels */
    int32_t threads;
    char device_kind[16], device_name[128], features[256];
    char model_hash[33];                           /**< XXH3-128 of the file, hex */
    int64_t programs_kept; /**< of those the session has made (tg_program_count): ones that the cache, or a compiled
                              model, had planned before */
    const char *schedule; /**< choices of a list by which the program used last was divided into kernels, as tg_tune
                             found them or TgOptions.opts has them behind "schedule:"; "": none. Valid until the session
                             makes another program */
    int64_t reserved[30];
} TgInfo;

typedef struct TgSession TgSession;

/** "0.1.0", that of the library, which may be another than the header's. */
TG_API const char *tg_version(void);

/** The calling thread's last error: one line, never NULL. node, op and field may be "". */
TG_API const char *tg_error(void);
TG_API void tg_error_where(const char **node, const char **op, const char **field);

/** All options as they are when nobody sets them: device "auto", all cores, exact. */
TG_API void tg_options_default(TgOptions *options);

/** Processes that mpirun has started (Open MPI, MPICH) are ranks of one job, which this process joins: its number, and
 * how many there are; 0 of 1 where no launcher has started it, and then MPI is not opened. From here on a session that
 * rank 0 opens from a file with TgOptions.shard and a device without numbers is divided among all ranks, each of which
 * holds what it needs of the weights; the others do what rank 0 calls (tg_ranks_serve). Such sessions are called by one
 * thread at a time, do not search, profile, share or become compiled models; a call that is cut short (stop,
 * call_limit_s) ends them all. TG_DEVICE: there is no MPI library, or it does not start. */
TG_API TgStatus tg_ranks(int32_t *rank, int32_t *ranks);
/** Of every rank but 0, once it has joined: returns when rank 0 has called tg_ranks_end. What fails rank 0 reports.
 * TG_STOPPED: a call was cut short. */
TG_API TgStatus tg_ranks_serve(void);
/** The last call of each rank that has joined, after its sessions are closed; it ends MPI. Where a call was cut short
 * all ranks end at once, with this status. */
TG_API void tg_ranks_end(int32_t status);

/** Loads and checks a model; compiles nothing yet. @param out set only on TG_OK; freed by tg_close. */
TG_API TgStatus tg_open(TgSession **out, const char *path, const TgOptions *options);
/** The same for a model in memory: data stay the caller's and must live as long as the session. folder: where its
 * external data lie; NULL: it may name none. Errors call it "model". */
TG_API TgStatus tg_open_memory(TgSession **out, const void *data, size_t size_bytes, const char *folder,
                               const TgOptions *options);

/** Writes what the session has prepared (tg_prepare, tg_run or tg_tune, for one set of shapes or the ranges of
 * TgOptions.dims) as a compiled model: the model, kernels in machine code, packed weights. tg_open opens such a file
 * without a compiler, on processors with the same features, for these inputs alone. path appears whole or not at all.
 * TG_UNSUPPORTED: the device has no compiled models, or the session has met several shapes.
 * Of the devices "c" (what GCC and Clang take) and "c11" (what any compiler takes) path becomes a folder of source text
 * that needs libc and libm alone: a header, C, weights, a Makefile and a program that runs the model on files. Kernels
 * are chosen for a processor like this one; nothing runs. TG_UNSUPPORTED: what only the library can do, by the node's
 * name; TG_CACHE: path is there already. */
TG_API TgStatus tg_save(TgSession *session, const char *path);

/** A session for another thread: model, device, kernels and packed weights are those of `session`, which is in no call
 * meanwhile; values, outputs and what tg_info counts are its own. Sessions that share run at once, each in one thread
 * at a time; a run that begins while another is under way takes one thread of the processor, not all. A program that
 * one of them makes is there for all. Any of them may be closed first. watcher: progress, log, stop and call_limit_s of
 * the new one (the rest is not looked at); NULL: those of `session`. TG_UNSUPPORTED: the device (only cpu can), or the
 * samples of TgOptions.batch. @param out set only on TG_OK; freed by tg_close. */
TG_API TgStatus tg_share(TgSession **out, TgSession *session, const TgOptions *watcher);

/** Frees the session, what it holds and what its calls returned; NULL: nothing. */
TG_API void tg_close(TgSession *session);

/** The model's inputs and outputs, in its order (tg_give, tg_select_outputs). TG_USAGE: there is no such index. */
TG_API int32_t tg_input_count(const TgSession *session);
TG_API int32_t tg_output_count(const TgSession *session);
TG_API TgStatus tg_input(const TgSession *session, int32_t index, TgPort *out);
TG_API TgStatus tg_output(const TgSession *session, int32_t index, TgPort *out);

/** An initializer that the model lists among its inputs is the default value of one. given 1: it is an input from here
 * on, behind those of which there is no default, in the model's order; 0: it has its default value again. What the
 * session has compiled, and outputs of runs, are dropped. TG_BAD_INPUT: there is none of that name. */
TG_API TgStatus tg_give(TgSession *session, const char *name, int32_t given);

/** From here on the session has these outputs alone, in this order, and runs compute nothing else: index[count] are
 * numbers of the model's outputs as they were at first, none twice. count 0: all again. What the session has compiled,
 * what memory is bound and outputs of runs are dropped. TG_USAGE: there is no such output, one is named twice, the
 * session shares its model, or it is a compiled one, which has the outputs that it was compiled with. */
TG_API TgStatus tg_select_outputs(TgSession *session, const int32_t *index, int32_t count);

/** Plans, compiles and (with beam or tune_s) searches for these input shapes and types; inputs' data may be NULL unless
 * the model's shapes depend on it. */
TG_API TgStatus tg_prepare(TgSession *session, const TgTensor *inputs, int32_t count);

/** What a program for these inputs takes of memory, in bytes. */
typedef struct {
    int64_t values_bytes;      /**< what a run computes on the way to its outputs */
    int64_t packed_bytes;      /**< constants as they are laid out at load */
    int64_t mapped_bytes; /**< constants that a run reads where the files have them; what it does not look at of them
                             takes none */
    int64_t reserved[8];
} TgMemory;

/** What one of several devices (TgOptions.device) has of a program; sizes in bytes. */
typedef struct {
    int64_t kernels, flops;    /**< of a run: launches, operations */
    int64_t weight_bytes;      /**< constants that it reads */
    int64_t foreign_bytes;     /**< of a run: what others computed that it reads */
    int64_t reserved[4];
} TgShare;

/** Of the program for these inputs, planned as by tg_memory; inputs NULL: of the one of the last run or tg_prepare.
 * @param out set for the first *devices devices, which is made how many there are. TG_USAGE: there is no program. */
TG_API TgStatus tg_shares(const TgSession *session, const TgTensor *inputs, int32_t count, TgShare *out,
                          int32_t *devices);

/** Plans for these inputs, as tg_prepare does, but compiles and loads nothing. calls, unless NULL, is given a line for
 * each function that stands for parts which repeat. */
TG_API TgStatus tg_memory(const TgSession *session, const TgTensor *inputs, int32_t count, TgMemory *out,
                          void (*calls)(void *user, const char *line), void *user);

/** Runs. inputs in the model's order, data stay the caller's. outputs[count of outputs]: data belong to the session and
 * live until its next tg_run or tg_close. Prepares when the shapes, or the lengths of sequences, are new. An optional
 * input may be given as its element. */
TG_API TgStatus tg_run(TgSession *session, const TgTensor *inputs, int32_t count, TgTensor *outputs);

/** From the next run on output `index` is written to data, the caller's memory of size_bytes, which must live until
 * another is bound or the session closed; an input's memory may be it, too. data NULL: to the session's memory again. A
 * run whose output has another size fails with TG_BAD_INPUT, and then what data hold is not defined. TG_USAGE: there is
 * no such output, or it holds strings or tensors. */
TG_API TgStatus tg_bind_output(TgSession *session, int32_t index, void *data, size_t size_bytes);

/** tg_run in a thread of the library's, which calls done once, and ends: with the run's status, and tg_error's line
 * where that is not TG_OK; outputs as tg_run sets them. The session is in a call until then; inputs, their data and
 * outputs stay where they are. TG_LIMIT: no thread is to be had, and done is not called. */
TG_API TgStatus tg_run_async(TgSession *session, const TgTensor *inputs, int32_t count, TgTensor *outputs,
                             void (*done)(void *user, TgStatus status, const char *error), void *user);

/** 1: the program that was used last is made for the value that this input had, from which sizes follow; another value
 * makes another program. 0: any value of that shape runs on it. */
TG_API int32_t tg_built_in(const TgSession *session, int32_t index);

/** Why the samples of a batch (TgOptions.batch) run one after another: an op, or a size, that differs from sample to
 * sample; NULL: they run at once. Known after tg_prepare or tg_run; lives as long as the session. */
TG_API const char *tg_serial(const TgSession *session);

/** The data of output `index` of the last run become the caller's, who frees them by tg_tensor_free; the next run takes
 * new memory. Strings, and what holds tensors, stay the session's: TG_USAGE. */
TG_API TgStatus tg_take(TgTensor *out, TgSession *session, int32_t index);

/** Seconds that the device spent in the last run, or 0 where it cannot tell. */
TG_API double tg_device_seconds(const TgSession *session);

/** The device, and the program of the last run or tg_prepare. Strings live until the next of these, or tg_close. */
TG_API TgStatus tg_info(const TgSession *session, TgInfo *out);

/** Programs that the session has made so far: one for the first sizes of its inputs, others where sizes came that none
 * of them serves. A loop whose cache grows should see this number stay. */
TG_API int64_t tg_program_count(const TgSession *session);

/** What the model says of itself; "" where it says nothing. Strings live as long as the session. */
typedef struct {
    const char *producer_name, *producer_version, *domain, *doc_string, *graph_name, *graph_doc_string;
    int64_t model_version, ir_version;
    int64_t reserved[16];
} TgModel;
TG_API void tg_model(const TgSession *session, TgModel *out);

/** The model's metadata_props, one an index. Returns 0 after the last. */
TG_API int32_t tg_model_property(const TgSession *session, int32_t index, const char **key, const char **value);

/** The model's operators, one an index: how many nodes of the graph are of that kind. Returns 0 after the last. */
TG_API int32_t tg_model_operator(const TgSession *session, int32_t index, const char **domain, const char **name);

/** A node of the model's graph; nodes of its subgraphs are none of them. A name of an input is "" where an optional one
 * is absent. Strings live as long as the session. */
typedef struct {
    const char *name, *op, *domain;
    int32_t input_count, output_count;
    const char *const *input, *const *output;
    int64_t reserved[8];
} TgNode;
/** The nodes, one an index, each behind those that it reads. Returns 0 after the last. */
TG_API int32_t tg_node(const TgSession *session, int32_t index, TgNode *out);

/** The weights (initializers) of the model's graph, one an index; data are the file's and live as long as the session,
 * and NULL for strings. Returns 0 after the last. */
TG_API int32_t tg_weight(const TgSession *session, int32_t index, const char **name, TgTensor *out);

/** What tg_extract takes out of a model. */
typedef struct {
    const char *const *output;     /**< values of the graph that the part computes, in this order */
    int32_t output_count;
    /** values that it gets from outside, behind those of the model's own inputs that it still reads */
    const char *const *input;
    const TgTensor *input_type;    /**< type, rank and shape of each */
    int32_t input_count;
    int32_t widen;                 /**< 1: f16, bf16 and f32 become f64, in weights, types and attributes */
    int64_t reserved[8];
} TgExtract;
/** Writes that part of the model as a model of its own: the nodes between inputs and outputs, the weights that they
 * read, the model's functions. External data become internal. TG_USAGE: there is no such value; TG_LIMIT: 2 GiB or
 * more; TG_CACHE: the file cannot be written. */
TG_API TgStatus tg_extract(const char *model, const TgExtract *part, const char *path);

/** Does the device of these options work here? TG_OK: its name and features. */
TG_API TgStatus tg_device(const TgOptions *options, char name[128], char features[256]);

/** What a core, or multiprocessor, its caches and its memory do: kernels are chosen for these. */
typedef struct {
    double hz;                 /**< cycles a second */
    double products;           /**< whole vectors, of f32, that are multiplied and added to others in a cycle */
    double loads, stores;      /**< whole vectors a cycle, from and to the first cache */
    double l2_bytes, l3_bytes; /**< a cycle, from the second and from the third cache to one core */
    double memory_bytes;       /**< a second, from memory to all cores together */
    double phase_s;            /**< seconds: from one phase of all threads to the next; until a launch has begun */
    int32_t measured;          /**< 1: here, at the first use of this cache folder; 0: typical ones of such a device */
    double reserved[7];
} TgRates;
/** Those of the device of these options. With a cache folder a processor is measured once, for a tenth of a second. */
TG_API TgStatus tg_rates(const TgOptions *options, TgRates *out);

/** Prepares, and searches its kernels for that long (0: until nothing is gained any more), see TgOptions.progress. The
 * winners are kept in the cache folder as they are found; at the end they are timed in the model on these inputs, and
 * those that do not make it faster are dropped. Inputs without data: no winner is dropped. beam: width, 0: the default.
 */
TG_API TgStatus tg_tune(TgSession *session, const TgTensor *inputs, int32_t count, double seconds, int32_t beam);

/** One kernel of a run. flops and bytes are a launch's; options: the OptOps that it got; seconds: a launch timed alone;
 * run_seconds: all launches within a run; 0: not timed. excess: float operations that a launch executes for each that
 * its part of the graph needs (1: nothing is computed twice); 0: it needs none. */
typedef struct {
    char name[64], options[768];
    int64_t launches, flops, bytes;
    double seconds, run_seconds, excess;
    int64_t reserved[8];
} TgKernelTime;

/** Kernels of the program that was prepared last, one an index; those without launches only run at load. Returns 0
 * after the last. */
TG_API int32_t tg_kernel(const TgSession *session, int32_t index, TgKernelTime *out);

/** Prepares, and times every kernel, alone and (where the device can tell) within runs on these inputs. */
TG_API TgStatus tg_profile(TgSession *session, const TgTensor *inputs, int32_t count,
                           void (*emit)(void *user, const TgKernelTime *row), void *user);

/** What one kernel, or one step of the host between kernels, computes of the model, and what that takes in a run. */
typedef struct {
    const char *kernel;            /**< as TgKernelTime names it; "" a step of the host or a copy */
    const int32_t *node;           /**< for tg_node, ascending */
    int32_t node_count;
    int64_t launches, flops, bytes;    /**< a run's */
    double run_seconds;            /**< a run's; 0: the device cannot tell */
    int64_t reserved[8];
} TgNodeTime;
/** Rows of the last tg_profile, longest first. Returns 0 after the last. What out points to lives until the next
 *  tg_profile or tg_close. */
TG_API int32_t tg_node_time(const TgSession *session, int32_t index, TgNodeTime *out);
/** The same for each step of a run, in the order in which they are begun; a loop's or a branch's appear once. */
TG_API int32_t tg_step_time(const TgSession *session, int32_t index, TgNodeTime *out);

/** Calls emit once a line of text of what a stage makes for these inputs (as for tg_prepare); compiles and runs
 * nothing. stage: as `tgrun dump --stage` names them; kernel: NULL for all. */
TG_API TgStatus tg_dump(TgSession *session, const TgTensor *inputs, int32_t count, const char *stage,
                        const char *kernel, void (*emit)(void *user, const char *text), void *user);

/** Checks without running: everything that is not supported goes to emit, a line each. TG_OK when there is none. */
TG_API TgStatus tg_check(const char *path, void (*emit)(void *user, const char *line), void *user);

/** A file of the cache folder: compiled kernels and plans ("program"), by the hash of what they are made from. */
typedef struct {
    const char *kind, *key;
    int64_t size_bytes, used;      /**< used: read or written last, to a day, in seconds since 1970 */
    int32_t good; /**< 0: cut, damaged, or somebody else's to write; it is a miss when it is looked for */
} TgCacheFile;
/** Calls emit once a file; cache_dir: NULL for the folder that sessions take by default. check 1: reads each file, else
 * all count as good. TG_CACHE: there is no folder. */
TG_API TgStatus tg_cache_list(const char *cache_dir, int32_t check, void (*emit)(void *user, const TgCacheFile *file),
                              void *user);
/** Removes files that are not good, then those that were not used for longest, until at most most_bytes are left.
 * removed, left: files and bytes. Sessions do that by themselves when they write (4 GiB, or TGRUN_CACHE_SIZE bytes). */
TG_API TgStatus tg_cache_prune(const char *cache_dir, int64_t most_bytes, int64_t removed[2], int64_t left[2]);

/** One operator as of one version. */
typedef struct {
    const char *domain, *name;
    int32_t since_version;
    int32_t covered;           /**< 0: the standard has it, we do not */
    int32_t tests; /**< of the onnx package's own tests, those that have a node of it; -1: it is not of the standard */
    TgType type[32]; /**< of the first input, as the standard lists them; 0 after the last; none known outside the
                        standard */
    int32_t sequence, optional, map;    /**< may the first input be one? */
} TgOperator;

/** Every version of every operator, those of the standard that the build knew first, then ours beyond it. Returns 0
 * after the last. */
TG_API int32_t tg_operator(int32_t index, TgOperator *out);
/** Are values of that type computed or moved? */
TG_API int32_t tg_type_covered(TgType type);

/** Element size in bits (0: what holds tensors), and the short name ("f32", "seq"); 0 and "?" for an unknown type. */
TG_API int32_t tg_type_bits(TgType type);
TG_API const char *tg_type_name(TgType type);

/** Tensor files: npy, npz and pb by suffix; FILE.npz:KEY is one member (without a key: the only one); reading "-" is
 * npy on standard input. What holds tensors is a pb file: SequenceProto, OptionalProto, MapProto. Data are malloc'ed
 * and freed by tg_tensor_free. `want`: the port's type, or 0 for any tensor; bfloat16 has no npy type and is uint16
 * there. */
TG_API TgStatus tg_tensor_read(TgTensor *out, const char *path, TgType want);
/** As tg_tensor_read, but without a copy: data are a read-only mapping of an npy file, given back by tg_tensor_unmap.
 * TG_UNSUPPORTED where the file's elements do not lie as memory wants them (another byte order, Fortran's order of
 * axes, narrow types, bool, none at all): such a file is read. */
TG_API TgStatus tg_tensor_map(TgTensor *out, const char *path, TgType want);
TG_API void tg_tensor_unmap(TgTensor *tensor);
TG_API TgStatus tg_tensor_write(const TgTensor *tensor, const char *name, const char *path);
TG_API void tg_tensor_free(TgTensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
