// Remote writes that choose their path one by one. In another terminal: outboard up
//
//     cc writes.c -o writes $(pkg-config --cflags --libs outboard) && ./writes

#include <inttypes.h>
#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "writes: %s\n", outboard_last_error());
        exit(1);
    }
}

int main(void) {
    outboard_t *outboard;
    outboard_memory *memory;
    outboard_region *region;
    outboard_writer *writer;
    outboard_target target;
    must(outboard_find(NULL, &outboard));
    must(outboard_memory_connect(outboard, &memory));
    must(outboard_memory_reserve(memory, 8 << 20, NULL, &region));
    must(outboard_writer_connect(outboard, NULL, &writer));
    must(outboard_writer_open(writer, region, &target));

    for (uint64_t number = 0; number < 2000; number++) {
        must(outboard_writer_write(writer, target, number * 4096, &number, sizeof number, NULL, NULL));
    }
    must(outboard_writer_fence(writer)); // what follows begins when everything before has ended

    outboard_write_options options = {0};
    options.size = sizeof options;
    options.flags = OUTBOARD_WRITE_SIGNAL;
    uint64_t last = 17, id;
    must(outboard_writer_write(writer, target, 1999 * 4096, &last, sizeof last, &options, &id));
    must(outboard_writer_flush(writer)); // all of it is visible now

    outboard_write_end end = {0};
    end.size = sizeof end;
    must(outboard_writer_wait(writer, 5000, &end)); // only writes with a signal are told, and those that failed
    must(end.status);
    uint64_t seen;
    must(outboard_region_read(region, 1999 * 4096, &seen, sizeof seen));
    printf("the last write was told: %s, and is %" PRIu64 "\n", end.id == id ? "yes" : "no", seen);

    must(outboard_writer_close(writer));
    must(outboard_region_close(region));
    must(outboard_memory_close(memory));
    must(outboard_close(outboard));
    return 0;
}
