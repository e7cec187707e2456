/* How a program ends before its time, by a signal or its time limit: children are killed, temporary folders removed. */
#ifndef TG_STOP_H
#define TG_STOP_H

/* From then on SIGINT, SIGTERM and SIGHUP end the program so, with 128 and the signal's number; a second one ends it at
 * once. */
void stop_setup(const char *program);
/* Returns unless the program is being ended: what fails then, fails for that. Exits and errors wait here. */
void stop_hold(void);
/* After that many seconds it ends so, with exit code 124. 0: never. */
void stop_after(double seconds);
/* "tgrun-PID.": names of temporary folders of this process begin so. */
void stop_prefix(char out[32]);
#endif
