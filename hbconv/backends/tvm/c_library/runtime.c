/* What every library needs: memory for calls, and codes of texts. */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define KEPT 64

/* The bytes of a file, under a name. */
#define INCLUDE(name, file) __asm__(".section .rodata\n.balign 64\n.globl " #name "\n.hidden " #name \
    "\n" #name ": .incbin \"" file "\"\n.previous\n");

enum { BAD_ARGUMENT = -1, NO_MEMORY = -2, OTHER_PROCESSOR = -3 };

typedef struct {
    const char *text;
    int32_t code;
} entry;

/* Memory of calls that ended, for calls to come: one at a time has each. */
typedef struct {
    _Atomic(char *) kept[KEPT];
} pool;

static char *take(pool *from, size_t bytes) {
    for (int i = 0; i < KEPT; i++) {
        if (atomic_load_explicit(&from->kept[i], memory_order_relaxed)) {
            char *found = atomic_exchange(&from->kept[i], NULL);
            if (found) return found;
        }
    }
    return aligned_alloc(64, bytes);
}

static void give_back(pool *to, char *memory) {
    for (int i = 0; i < KEPT; i++) {
        char *nothing = NULL;
        if (atomic_compare_exchange_strong(&to->kept[i], &nothing, memory)) return;
    }
    free(memory);
}

static void empty(pool *of) {
    for (int i = 0; i < KEPT; i++) free(atomic_exchange(&of->kept[i], NULL));
}

/* Texts are sorted by their bytes; a missing text is the empty one; -1 for an unknown text. */
static inline int32_t code_of(const entry *table, int32_t entries, const char *text) {
    int32_t low = 0, high = entries;
    if (!text) text = "";
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(text, table[middle].text);
        if (order == 0) return table[middle].code;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return -1;
}

static inline int any(const uint8_t *flags, int64_t count) {
    uint8_t found = 0;
    for (int64_t i = 0; i < count; i++) found |= flags[i];
    return found;
}
