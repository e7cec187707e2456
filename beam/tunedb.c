/* The tuning database: what searches have learned, kept in the cache folder for every later run.
 *
 * A row is (kernel key, device, list): `good` is the winner of that kernel on that device (one a pair, with its
 * seconds), `bad` a list that crashed, hung or gave other numbers, so that no search tries it again. `device` is a text
 * that names everything else that decides which list is best: kind, machine, features, threads, compiler, and our
 * version. A list that another version wrote is read as text and checked by whoever applies it. Nothing here fails:
 * several processes may use one file at once (SQLite's locks, short transactions); a database that is damaged is put
 * aside with a warning and a new one is begun; without a folder, or when it cannot be written, what is learned lives as
 * long as the session. The file is made by the first thing that is learned. To add a column: it is another schema, so a
 * new FILE_NAME; older files are left alone.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beam/beam.h"
#include "common/folders.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

#define FILE_NAME "tune-1.db"
enum { BUSY_MS = 10000 };
enum { GET, GET_BAD, DROP, PUT, STATEMENTS };

struct TuneDb { sqlite3 *db; sqlite3_stmt *statement[STATEMENTS]; char path[PATH_MAX]; bool memory, made; };

/* No waiting for the disk: what a loss of power may damage is only a cache. */
static const char schema[] =
    "PRAGMA synchronous = OFF; BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS tuned (kernel TEXT NOT NULL, device TEXT "
    "NOT NULL, opts TEXT NOT NULL, seconds REAL NOT NULL, state TEXT NOT NULL,"
    " PRIMARY KEY (kernel, device, opts)) WITHOUT ROWID; COMMIT";
static const char *const sql[STATEMENTS] = {
    [GET] = "SELECT opts, seconds FROM tuned WHERE kernel = ?1 AND device = ?2 AND state = 'good'",
    [GET_BAD] = "SELECT 1 FROM tuned WHERE kernel = ?1 AND device = ?2 AND opts = ?3 AND state = 'bad'",
    [DROP] = "DELETE FROM tuned WHERE kernel = ?1 AND device = ?2 AND state = 'good'",
    [PUT] = "INSERT OR REPLACE INTO tuned VALUES (?1, ?2, ?3, ?4, ?5)",
};

/* ---- the file ---- */

static void close_file(TuneDb *d)
{
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(d->statement[i]);
    memset(d->statement, 0, sizeof d->statement);
    sqlite3_close(d->db);
    d->db = NULL;
}

static bool damaged(int rc)
{
    return rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB || rc == SQLITE_FORMAT || rc == SQLITE_ERROR;
}

static int prepare_all(TuneDb *d, bool create)
{
    int rc = create ? sqlite3_exec(d->db, schema, NULL, NULL, NULL) : SQLITE_OK;
    for (int i = 0; i < STATEMENTS && rc == SQLITE_OK; i++)
        rc = sqlite3_prepare_v2(d->db, sql[i], -1, &d->statement[i], NULL);
    return rc;
}

static int open_path(TuneDb *d, const char *path, bool create)
{
    int rc = sqlite3_open_v2(path, &d->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0), NULL);
    if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(d->db, BUSY_MS);
    if (rc == SQLITE_OK) rc = prepare_all(d, create);
    if (rc != SQLITE_OK) close_file(d);
    d->made = d->db && create;
    return rc;
}

static void warn(const TuneDb *d, const char *what)
{
    watch_say("warning: tuning database %s %s", d->path, what);
}

static void put_aside(TuneDb *d)
{
    char aside[PATH_MAX + 8];
    snprintf(aside, sizeof aside, "%s.damaged", d->path);
    close_file(d);
    if (rename(d->path, aside) && errno != ENOENT) unlink(d->path);
    warn(d, "was damaged; a new one is begun");
}

/* Is there a database to ask? One in a folder is made only when there is something to write. A reader that finds no
 * table in it came while another process was at that. */
static bool ready(TuneDb *d, bool create)
{
    if (d->db && (d->made || !create)) return true;
    if (d->db) close_file(d);                                   /* opened to be read only, so far */
    if (!d->memory) {
        if (!create && access(d->path, F_OK)) return false;
        if (create) make_folders(d->path, 1, 0700);
        bool is_new = access(d->path, F_OK) != 0;
        int rc = open_path(d, d->path, create);
        if (damaged(rc) && (create || rc != SQLITE_ERROR))
            put_aside(d), rc = create ? open_path(d, d->path, true) : SQLITE_CANTOPEN;
        if (rc == SQLITE_OK && is_new) chmod(d->path, 0600);
        if (rc == SQLITE_OK) return true;
        if (!create) return false;
        warn(d, "cannot be written; what is learned is not kept");
        d->memory = true;
    }
    return open_path(d, ":memory:", true) == SQLITE_OK;
}

TuneDb *tunedb_open(const char *cache_dir)
{
    TuneDb *d = mem_zeros(1, sizeof *d);
    d->memory = !cache_dir || snprintf(d->path, sizeof d->path, "%s/" FILE_NAME, cache_dir) >= (int)sizeof d->path;
    return d;
}

void tunedb_look(TuneDb *d) { (void)ready(d, false); }

bool tunedb_stamp(const TuneDb *d, int64_t stamp[2])
{
    struct stat file;
    stamp[0] = stamp[1] = 0;
    if (!d || d->memory) return false;
    if (!stat(d->path, &file))
        stamp[0] = file.st_size, stamp[1] = file.st_mtim.tv_sec * INT64_C(1000000000) + file.st_mtim.tv_nsec;
    return true;
}

void tunedb_close(TuneDb *d)
{
    if (!d) return;
    close_file(d);
    mem_free(d);
}

/* ---- rows ---- */

typedef struct {
    const char *kernel, *device, *opts, *state;
    double seconds;
} Row;

/* Steps one statement and hands its row to `take`; damage is noticed here as well as at opening. */
static int step(TuneDb *d, int which, const Row *r, bool (*take)(sqlite3_stmt *s, void *user), void *user)
{
    sqlite3_stmt *s = d->statement[which];
    int n = sqlite3_bind_parameter_count(s);
    sqlite3_bind_text(s, 1, r->kernel, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(s, 2, r->device, -1, SQLITE_TRANSIENT);
    if (n > 2) sqlite3_bind_text(s, 3, r->opts, -1, SQLITE_TRANSIENT);
    if (n > 3) sqlite3_bind_double(s, 4, r->seconds), sqlite3_bind_text(s, 5, r->state, -1, SQLITE_TRANSIENT);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW && take && !take(s, user)) rc = SQLITE_EMPTY;
    sqlite3_reset(s);
    if (damaged(rc)) put_aside(d);
    return rc;
}

static int write_row(TuneDb *d, const Row *r, bool replace)
{
    int rc = sqlite3_exec(d->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK && replace) rc = step(d, DROP, r, NULL, NULL);
    if (d->db && (rc == SQLITE_OK || rc == SQLITE_DONE)) rc = step(d, PUT, r, NULL, NULL);
    if (d->db) sqlite3_exec(d->db, rc == SQLITE_DONE ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    if (d->db && damaged(rc)) put_aside(d);
    return rc;
}

static void put(TuneDb *d, const Row *r, bool replace)
{
    for (int attempt = 0; attempt < 2 && ready(d, true); attempt++)
        if (!damaged(write_row(d, r, replace))) return;
}

static bool take_best(sqlite3_stmt *s, void *user)
{
    Tuned *out = user;
    const char *text = (const char *)sqlite3_column_text(s, 0);
    out->seconds = sqlite3_column_double(s, 1);
    return text && opt_parse(&out->opts, text) == TG_OK;
}

static bool take_schedule(sqlite3_stmt *s, void *user)
{
    const char *text = (const char *)sqlite3_column_text(s, 0);
    return text && schedule_parse(user, text) == TG_OK;
}

static pthread_mutex_t one_reads = PTHREAD_MUTEX_INITIALIZER;

static void let_read(void *mutex) { pthread_mutex_unlock(mutex); }

static bool find_best(TuneDb *d, const Row *r, bool (*take)(sqlite3_stmt *s, void *user), void *out)
{
    Undo undo;
    pthread_mutex_lock(&one_reads);
    undo_push(&undo, let_read, &one_reads);
    bool found = ready(d, false) && step(d, GET, r, take, out) == SQLITE_ROW;
    undo_pop(&undo);
    pthread_mutex_unlock(&one_reads);
    if (!found) status_clear();
    return found;
}

bool tunedb_best(TuneDb *d, const char *kernel, const char *device, Tuned *out)
{
    return find_best(d, &(Row){ .kernel = kernel, .device = device }, take_best, out);
}

bool tunedb_schedule(TuneDb *d, const char *key, const char *device, ScheduleList *out)
{
    return find_best(d, &(Row){ .kernel = key, .device = device }, take_schedule, out);
}

void tunedb_put_schedule(TuneDb *d, const char *key, const char *device, const ScheduleList *l)
{
    Text text = { 0 };
    schedule_print(&text, l);
    if (l->count) put(d, &(Row){ key, device, text.s, "good", 0 }, true);
    else tunedb_forget_best(d, key, device);
    text_free(&text);
}

void tunedb_put_best(TuneDb *d, const char *kernel, const char *device, const Tuned *t)
{
    Text text = { 0 };
    text_add(&text, "%s", "");
    opt_print(&text, &t->opts);
    put(d, &(Row){ kernel, device, text.s, "good", t->seconds }, true);
    text_free(&text);
}

void tunedb_forget_best(TuneDb *d, const char *kernel, const char *device)
{
    if (ready(d, false)) step(d, DROP, &(Row){ .kernel = kernel, .device = device }, NULL, NULL);
}

bool tunedb_is_bad(TuneDb *d, const char *kernel, const char *device, const OptList *l)
{
    Text text = { 0 };
    text_add(&text, "%s", "");
    opt_print(&text, l);
    Row r = { .kernel = kernel, .device = device, .opts = text.s };
    bool bad = ready(d, false) && step(d, GET_BAD, &r, NULL, NULL) == SQLITE_ROW;
    text_free(&text);
    return bad;
}

void tunedb_put_bad(TuneDb *d, const char *kernel, const char *device, const OptList *l)
{
    Text text = { 0 };
    text_add(&text, "%s", "");
    opt_print(&text, l);
    put(d, &(Row){ kernel, device, text.s, "bad", 0 }, false);
    text_free(&text);
}
