/* In: folders and archives. Out: a line a model, in their order, a summary, JUnit and JSON. A model is any .onnx file
 * below; the test_data_set_K/ beside it are its data, and without outputs among them it only runs. An archive, given or
 * below, is unpacked into a temporary folder for as long as its models run. Each model runs in a child, so that a crash
 * or a limit is one line too; --jobs of them at a time. */
#define _GNU_SOURCE
#include "bench/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/archive.h"
#include "bench/measure.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/say.h"

extern char **environ;
enum { ARGV_MAX = 1024, JOBS_MAX = 1024 };
typedef struct {
    char *name, *why;
    int code;
    bool compared, ended;
    double seconds;
} Case;
typedef struct {
    pid_t pid;
    FILE *said;
    char *model;
    double start;
    uint32_t number;
} Job; /* a child that runs; number: of its case */
typedef struct {
    const Args *args;
    const char *program;
    FILE *out;
    Case *list;
    uint32_t count, cap, reported, running;
    Job job[JOBS_MAX];
    TgStatus status;
} Suite; /* status: of the walk itself */

static volatile sig_atomic_t stopped;       /* the signal: what was unpacked is still removed */
static void on_stop(int sig) { stopped = sig; }

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

static bool is_archive(const char *name)
{
    return ends_with(name, ".tar.gz") || ends_with(name, ".tgz") || ends_with(name, ".tar.xz") ||
        ends_with(name, ".tar");
}
static bool is_data_set(const char *name) { return !strncmp(name, "test_data_set_", 14); }

/* ---- one model ---- */

static int64_t jobs_of(const Args *a) { return args_count(a, OPT_jobs, 1); }

/* Sets of data, or one of them. */
static bool has_data(const char *folder)
{
    DIR *d = opendir(folder);
    bool has = false;
    for (struct dirent *e; d && !has && (e = readdir(d));)
        has = is_data_set(e->d_name) || !strncmp(e->d_name, "input_", 6) || !strncmp(e->d_name, "output_", 7);
    if (d) closedir(d);
    return has;
}

static void child_arguments(const Suite *s, const char *model, const char *folder, const char **argv)
{
    static const struct {
        Opt o;
        const char *name;
    } passed[] = { { OPT_device, "--device" },
                   { OPT_threads, "--threads" },
                   { OPT_cpus, "--cpus" },
                   { OPT_precision, "--precision" },
                   { OPT_compiler, "--compiler" },
                   { OPT_cache_dir, "--cache-dir" },
                   { OPT_tolerance, "--tolerance" },
                   { OPT_rtol, "--rtol" },
                   { OPT_atol, "--atol" },
                   { OPT_max_memory, "--max-memory" },
                   { OPT_against, "--against" },
                   { OPT_dim, "--dim" },
                   { OPT_opts, "--opts" },
                   { OPT_seed, "--seed" } };
    const char *fixed[] = {
        s->program, model, "--runs", "1", "-q", "--timeout", args_text(s->args, OPT_timeout, "600")
    };
    int n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[n++] = fixed[i];
    if (has_data(folder)) argv[n++] = "--test-data", argv[n++] = folder;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        for (uint32_t k = 0; k < s->args->value[passed[i].o].count && n + 4 < ARGV_MAX; k++) {
            argv[n++] = passed[i].name;
            argv[n++] = s->args->value[passed[i].o].v[k];
        }
    if (args_has(s->args, OPT_no_cache)) argv[n++] = "--no-cache";
    argv[n] = NULL;
}

/* The last line that the child said, without what the line of the report begins with. */
static char *last_line(FILE *f, const char *program, const char *model)
{
    char *line = NULL, *last = NULL;
    size_t cap = 0, skip;
    while (getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        skip = 0;
        for (const char *const *part = (const char *const[]){ program, model, NULL }; *part; part++)
            if (!strncmp(line + skip, *part, strlen(*part)) && !strncmp(line + skip + strlen(*part), ": ", 2))
                skip += strlen(*part) + 2;
        free(last);
        last = strdup(line + skip);
    }
    free(line);
    return last;
}

static bool start_child(Job *j, const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    int fd = memfd_create("said", MFD_CLOEXEC);
    if (fd < 0) return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bool good = !posix_spawn(&j->pid, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!good || !(j->said = fdopen(fd, "r"))) close(fd);
    return good;
}

/* Do its data sets hold outputs? */
static bool has_outputs(const char *folder)
{
    bool found = false;
    struct dirent **set, **file;
    int sets = scandir(folder, &set, NULL, NULL);
    for (int i = 0; i < sets; i++) {
        char *path = NULL;
        int files = is_data_set(set[i]->d_name) && asprintf(&path, "%s/%s", folder, set[i]->d_name) >= 0
            ? scandir(path, &file, NULL, NULL)
            : -1;
        for (int k = 0; k < files; k++) {
            found |= !strncmp(file[k]->d_name, "output_", 7);
            free(file[k]);
        }
        if (files >= 0) free(file);
        free(path);
        free(set[i]);
    }
    if (sets >= 0) free(set);
    return found;
}

static void tell(const Suite *s, const Case *c)
{
    const char *said = c->why ? c->why : "";
    if (c->code) fprintf(s->out, "%-40s exit %-3d %6.1f s  %s\n", c->name, c->code, c->seconds, said);
    else if (!args_has(s->args, OPT_quiet))
        fprintf(s->out, "%-40s %-8s %6.1f s\n", c->name, c->compared ? "ok" : "ran", c->seconds);
    fflush(s->out);
}

static void end_case(Suite *s, Case *c, int code)
{
    c->code = code;
    c->ended = true;
    for (; s->reported < s->count && s->list[s->reported].ended; s->reported++) tell(s, &s->list[s->reported]);
}

/* Waits for one of the children. */
static void end_job(Suite *s)
{
    int status = TG_INTERNAL << 8;                          /* where the system has dropped it */
    uint32_t i = 0;
    pid_t pid;
    while (!(pid = waitpid(-1, &status, WNOHANG)) || (pid < 0 && errno == EINTR)) {
        say_progress(s->list[s->reported].name, 0, 0);
        usleep(1000);
    }
    say_progress_done();
    while (i + 1 < s->running && s->job[i].pid != pid) i++;
    Job j = s->job[i];
    Case *c = &s->list[j.number];
    s->job[i] = s->job[--s->running];
    c->seconds = clock_s() - j.start;
    if (j.said) {                                           /* the child has moved the offset that both have */
        rewind(j.said);
        c->why = last_line(j.said, s->program, j.model);
        fclose(j.said);
    }
    free(j.model);
    if (WIFSIGNALED(status)) {
        free(c->why);
        if (asprintf(&c->why, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status))) < 0)
            c->why = NULL;
    }
    end_case(s, c, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void end_jobs(Suite *s)
{
    while (s->running) end_job(s);
}

/* name: the folder as the user sees it. */
static void run_case(Suite *s, const char *folder, const char *name, const char *file)
{
    const char *argv[ARGV_MAX];
    if (s->running == jobs_of(s->args)) end_job(s);
    if (s->count == s->cap) {
        Case *grown = realloc(s->list, sizeof *grown * (s->cap = s->cap ? 2 * s->cap : 64));
        if (!grown) return (void)(s->status = say_error(TG_LIMIT, "no memory for the list of models"));
        s->list = grown;
    }
    Case *c = &s->list[s->count];
    Job *j = &s->job[s->running];
    *c = (Case){ .compared = has_outputs(folder) };
    *j = (Job){ .start = clock_s(), .number = s->count };
    if (asprintf(&j->model, "%s/%s", folder, file) < 0 ||
        asprintf(&c->name, strcmp(file, "model.onnx") ? "%s/%s" : "%s", name, file) < 0)
        return (void)(s->status = TG_LIMIT);
    s->count++;
    child_arguments(s, j->model, folder, argv);
    if (start_child(j, argv)) s->running++;
    else free(j->model), end_case(s, c, TG_INTERNAL);
}

/* ---- finding them ---- */

static void visit_folder(Suite *s, const char *folder, const char *name);

static void visit_archive(Suite *s, const char *archive, const char *name)
{
    char folder[64];
    if (!folder_make(folder)) return (void)(s->status = TG_CACHE);
    s->status = archive_unpack(archive, folder, &stopped);
    if (s->status == TG_OK) visit_folder(s, folder, name), end_jobs(s);
    folder_clear(folder);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Links to folders are not followed: they may lead back. */
static void visit_entry(Suite *s, const char *folder, const char *name, const char *entry)
{
    struct stat st;
    char *path = NULL, *shown = NULL;
    if (asprintf(&path, "%s/%s", folder, entry) < 0 || asprintf(&shown, "%s/%s", name, entry) < 0) s->status = TG_LIMIT;
    else if (ends_with(entry, ".onnx")) run_case(s, folder, name, entry);
    else if (is_archive(entry)) visit_archive(s, path, shown);
    else if (*entry != '.' && !is_data_set(entry) && !lstat(path, &st) && S_ISDIR(st.st_mode))
        visit_folder(s, path, shown);
    free(path);
    free(shown);
}

static void visit_folder(Suite *s, const char *folder, const char *name)
{
    struct dirent **e;
    int n = scandir(folder, &e, NULL, by_name);
    if (n < 0) return (void)(s->status = say_error(TG_BAD_INPUT, "%s: %s", folder, strerror(errno)));
    for (int i = 0; i < n; i++) {
        if (s->status == TG_OK && !stopped) visit_entry(s, folder, name, e[i]->d_name);
        free(e[i]);
    }
    free(e);
}

static void visit_operand(Suite *s, const char *path)
{
    struct stat st;
    if (stat(path, &st) || (!is_archive(path) && !S_ISDIR(st.st_mode)))
        s->status = say_error(TG_BAD_INPUT, "test: %s is neither a folder nor a .tar.gz", path);
    else if (S_ISDIR(st.st_mode)) visit_folder(s, path, path);
    else visit_archive(s, path, path);
}

/* ---- telling ---- */

typedef struct {
    uint32_t right, ran, differ, broken;
} Count; /* ran: without outputs to compare; broken: ended otherwise than by comparing */

static Count count_cases(const Suite *s)
{
    Count n = { 0 };
    for (uint32_t i = 0; i < s->count; i++) {
        const Case *c = &s->list[i];
        n.differ += c->code == TG_DIFFERS;
        n.broken += c->code && c->code != TG_DIFFERS;
        n.ran += !c->code && !c->compared;
        n.right += !c->code && c->compared;
    }
    return n;
}

static void xml_escaped(FILE *f, const char *s)
{
    for (; s && *s; s++)
        if (strchr("<>&\"", *s) || (unsigned char)*s < 32) fprintf(f, "&#%d;", (unsigned char)*s < 32 ? ' ' : *s);
        else fputc(*s, f);
}

static TgStatus write_junit(const Suite *s, const char *file, Count n)
{
    FILE *f = fopen(file, "w");
    double seconds = 0;
    if (!f) return say_error(TG_CACHE, "--junit: %s: %s", file, strerror(errno));
    for (uint32_t i = 0; i < s->count; i++) seconds += s->list[i].seconds;
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tgrun\" tests=\"%u\" failures=\"%u\" "
            "errors=\"%u\" time=\"%.3f\">\n",
            s->count, n.differ, n.broken, seconds);
    for (uint32_t i = 0; i < s->count; i++) {
        const Case *c = &s->list[i];
        fputs("  <testcase classname=\"tgrun\" name=\"", f);
        xml_escaped(f, c->name);
        fprintf(f, "\" time=\"%.3f\">", c->seconds);
        if (c->code) {
            fprintf(f, "<%s message=\"exit %d: ", c->code == TG_DIFFERS ? "failure" : "error", c->code);
            xml_escaped(f, c->why);
            fputs("\"/>", f);
        }
        fputs("</testcase>\n", f);
    }
    fputs("</testsuite>\n", f);
    return fclose(f) ? say_error(TG_CACHE, "--junit: %s: %s", file, strerror(errno)) : TG_OK;
}

static TgStatus write_json(const Suite *s, TgStatus status)
{
    json_t *models = json_array();
    for (uint32_t i = 0; i < s->count; i++) {
        const Case *c = &s->list[i];
        json_array_append_new(models,
                              json_pack("{s:s, s:b, s:b, s:i, s:f, s:s}", "name", c->name, "ok", !c->code, "compared",
                                        c->compared, "exit", c->code, "seconds", c->seconds, "message",
                                        c->code && c->why ? c->why : ""));
    }
    return json_write(json_pack("{s:s, s:o, s:b, s:i}", "schema", "tgrun.test/1", "models", models, "ok",
                                status == TG_OK, "exit", (int)status),
                      args_text(s->args, OPT_json, ""));
}

static TgStatus report(const Suite *s)
{
    Count n = count_cases(s);
    TgStatus status = n.differ || n.broken ? TG_DIFFERS : TG_OK, written = TG_OK;
    fprintf(s->out, "%u of %u models are right", n.right, s->count - n.ran);
    if (n.ran) fprintf(s->out, ", %u more ran and had no outputs to compare", n.ran);
    fputc('\n', s->out);
    if (args_has(s->args, OPT_junit)) written = write_junit(s, args_text(s->args, OPT_junit, ""), n);
    if (args_has(s->args, OPT_json) && written == TG_OK) written = write_json(s, status);
    return written == TG_OK ? status : written;
}

TgStatus suite_run(const Args *a, const char *const *dir, uint32_t ndir, const char *program)
{
    Suite s = { .args = a, .program = program, .out = args_has(a, OPT_json) ? stderr : stdout };
    const struct sigaction stop = { .sa_handler = on_stop };
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (!ndir) s.status = say_error(TG_USAGE, "test: a folder is missing: tgrun test DIR...");
    if (jobs_of(a) < 1 || jobs_of(a) > JOBS_MAX)
        s.status = say_error(TG_USAGE, "test: --jobs: wanted 1 to %d", JOBS_MAX);
    for (uint32_t i = 0; i < ndir && s.status == TG_OK && !stopped; i++) visit_operand(&s, dir[i]);
    end_jobs(&s);
    if (s.status == TG_OK && !s.count && !stopped) s.status = say_error(TG_BAD_INPUT, "test: no model is in there");
    if (s.status == TG_OK && s.count) s.status = report(&s);
    for (uint32_t i = 0; i < s.count; i++) {
        free(s.list[i].name);
        free(s.list[i].why);
    }
    free(s.list);
    return stopped ? (TgStatus)(128 + stopped) : s.status;
}
