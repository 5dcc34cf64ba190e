// A region of a memory server, by calls. In another terminal: outboard up
//
//     cc memory.c -o memory $(pkg-config --cflags --libs outboard) && ./memory

#include <inttypes.h>
#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "memory: %s\n", outboard_last_error());
        exit(1);
    }
}

// Makes a word at least `value`, whatever other programs do to it meanwhile.
static void raise_to(outboard_region *region, uint64_t offset, uint64_t value) {
    uint64_t known = 0;
    while (known < value) {
        uint64_t found;
        must(outboard_region_compare_swap(region, offset, known, value, &found));
        if (found == known) {
            break; // it was as we knew it, and is `value` now
        }
        known = found;
    }
}

int main(void) {
    outboard_t *outboard;
    outboard_memory *memory;
    outboard_region *table;
    must(outboard_find(NULL, &outboard));
    must(outboard_memory_connect(outboard, &memory));
    must(outboard_memory_reserve(memory, 1 << 20, NULL, &table)); // ends with this process; a name would keep it

    must(outboard_region_write(table, 4096, "far away", 8)); // visible there when the call returns
    char bytes[9] = {0};
    must(outboard_region_read(table, 4096, bytes, 8));

    uint64_t count;
    for (uint64_t event = 1; event <= 100; event++) {
        must(outboard_region_fetch_add(table, 0, 1, &count));
        raise_to(table, 8, event * 7 % 101);
    }
    uint64_t words[2];
    must(outboard_region_read(table, 0, words, sizeof words));
    printf("“%s”, %" PRIu64 " events, the highest is %" PRIu64 "\n", bytes, words[0], words[1]);

    // What fails says why, as a number for programs and as a text for people.
    outboard_status status = outboard_region_read(table, 1 << 20, bytes, 1);
    if (status != OUTBOARD_OUT_OF_BOUNDS || strlen(outboard_last_error()) == 0 || count != 99) {
        return 1;
    }
    must(outboard_region_close(table));
    must(outboard_memory_close(memory));
    must(outboard_close(outboard));
    return 0;
}
