/* How many requests a second engines serve, several at a time. */
#ifndef TG_THROUGHPUT_H
#define TG_THROUGHPUT_H
#include "bench/duel.h"

enum { STREAMS_MAX = 64 };

/* --throughput has a meaning beside these options; TG_USAGE after say_error. */
TgStatus throughput_check(const Args *a);
/* After the duel's engines have started and agree: each gets d->streams, processes of its own with as many threads as
 * are left for one. throughput_stop ends all but the engines' first ones. */
TgStatus throughput_start(Duel *d, const Args *a, const char *dir);
void throughput_stop(Duel *d);
/* Offline: all streams always have a request; engines take turns, as blocks of a duel do, and the ratio is
 * one of rates. With --latency-limit also the server's: requests come at random times (a Poisson process), and the rate
 * is the highest tried at which the limit holds for p99 (p90 where fewer than 662 requests fit the budget). Fills each
 * engine's offline, server and faster.
 */
TgStatus throughput_measure(Duel *d, const Args *a);
void throughput_table(FILE *f, const Duel *d);
struct json_t *throughput_json(const Duel *d);
#endif
