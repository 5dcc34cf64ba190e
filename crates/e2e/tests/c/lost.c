// Uses a memory server that is killed meanwhile: every call ends with a status, and the program ends by itself.

#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "%s\n", outboard_last_error());
        exit(1);
    }
}

// Says how a call has ended.
static void told(const char *what, outboard_status status) {
    printf("%s: %s: %s\n", what, outboard_status_text(status), outboard_last_error());
}

int main(void) {
    outboard_t *outboard;
    outboard_memory *memory;
    outboard_region *region;
    outboard_writer *writer;
    outboard_target target;
    outboard_far *far;
    outboard_mapping *mapping;
    static char chunk[65536];
    void *address;
    must(outboard_find(NULL, &outboard));
    must(outboard_memory_connect(outboard, &memory));
    must(outboard_memory_reserve(memory, 4096, NULL, &region));
    must(outboard_writer_connect(outboard, NULL, &writer));
    must(outboard_writer_open(writer, region, &target));
    outboard_far_options options = {0};
    options.size = sizeof options;
    options.buffer = "8MiB";
    options.grace_ms = 500;
    must(outboard_far_connect(outboard, &options, &far));
    must(outboard_mapping_reserve(far, 32 * MIB, NULL, &mapping));
    must(outboard_mapping_address(mapping, &address, NULL));
    memset(address, 7, 32 * MIB);
    printf("ready\n");
    fflush(stdout);
    if (getchar() == EOF) {
        return 1;
    }

    outboard_status status = OUTBOARD_OK;
    while (status == OUTBOARD_OK) {
        status = outboard_region_fetch_add(region, 0, 1, NULL);
    }
    told("update", status);
    status = outboard_writer_write(writer, target, 0, chunk, 8, NULL, NULL);
    for (int tries = 0; status == OUTBOARD_OK && tries < 1000; tries++) {
        status = outboard_writer_flush(writer);
    }
    told("write", status);
    // Some of it is here, and the rest is lost: no signal is raised for that.
    status = OUTBOARD_OK;
    for (size_t at = 0; at < 32 * MIB && status == OUTBOARD_OK; at += sizeof chunk) {
        status = outboard_mapping_read(mapping, at, chunk, sizeof chunk, 20000);
    }
    told("array", status);
    must(outboard_mapping_close(mapping));
    must(outboard_far_close(far));
    must(outboard_writer_close(writer));
    told("region", outboard_region_close(region));
    must(outboard_memory_close(memory));
    must(outboard_close(outboard));
    printf("ended\n");
    return 0;
}
