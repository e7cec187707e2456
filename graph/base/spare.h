/* Blocks of memory that callers freed and that later results take again: fresh pages cost a fault for every 4 KiB,
 * which for large results is longer than many a run. */
#ifndef TG_SPARE_H
#define TG_SPARE_H
#include <stddef.h>

/* A block of at least `bytes`, aligned to 64, large ones to a page; its contents are anything. NULL: there is no
 * memory. Freed by spare_free or free. Any thread may call both. */
void *spare_alloc(size_t bytes);
/* Frees a block of malloc, aligned_alloc or spare_alloc; NULL is none. Large ones are held for a later spare_alloc,
 * SPARE_BYTES of them in the process at most. */
void spare_free(void *block);
#endif
