/* Folders on the way to a file, and for temporary ones. Inline, since the programs and the library each want it. */
#ifndef TG_FOLDERS_H
#define TG_FOLDERS_H
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the folders that lead to path, from the character `at` on; path is as it was afterwards. false: errno says. */
static inline bool make_folders(char *path, size_t at, mode_t mode)
{
    for (char *end = strchr(path + at, '/'); end; end = strchr(end + 1, '/')) {
        *end = 0;
        bool made = !mkdir(path, mode) || errno == EEXIST;
        *end = '/';
        if (!made) return false;
    }
    return true;
}

/* TMPDIR, unless names in it would become too long for those who keep them in fixed room. */
static inline const char *temporary_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp && strlen(tmp) <= 40 ? tmp : "/tmp";
}
#endif
