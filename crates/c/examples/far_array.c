// An array larger than the memory that it takes here. In another terminal: outboard up
//
//     cc far_array.c -o far_array $(pkg-config --cflags --libs outboard) && ./far_array

#include <inttypes.h>
#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program with the reason where something has failed.
static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "far_array: %s\n", outboard_last_error());
        exit(1);
    }
}

int main(void) {
    const size_t numbers = (size_t)8 << 20; // 64 MiB, of which 8 MiB are here at a time
    outboard_t *outboard;
    must(outboard_find(NULL, &outboard)); // this user's `outboard up`

    outboard_far_options options = {0};
    options.size = sizeof options;
    options.buffer = "8MiB";
    outboard_far *far;
    must(outboard_far_connect(outboard, &options, &far));

    outboard_mapping *mapping;
    must(outboard_mapping_reserve(far, numbers * sizeof(uint64_t), NULL, &mapping));
    void *address;
    must(outboard_mapping_address(mapping, &address, NULL));

    uint64_t *counts = address;
    for (size_t at = 0; at < numbers; at += 4096) {
        counts[at] += at; // a page fault, a fetch, and then memory like any other
    }
    uint64_t sum = 0;
    for (size_t at = 0; at < numbers; at++) {
        sum += counts[at];
    }

    outboard_far_stats stats = {0};
    stats.size = sizeof stats;
    must(outboard_far_get_stats(far, &stats));
    printf("the sum is %" PRIu64 ", after %" PRIu64 " evictions\n", sum, stats.evictions);

    must(outboard_mapping_close(mapping)); // its address is gone then
    must(outboard_far_close(far));
    must(outboard_close(outboard));
    return 0;
}
