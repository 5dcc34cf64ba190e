// A function that runs beside the data. In another terminal: outboard up
//
//     cc calls.c -o calls $(pkg-config --cflags --libs outboard) && ./calls

#include <inttypes.h>
#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>

// Adds its argument to the first word of its first region, and returns what that was. clang makes such functions of C too.
static const char COUNT[] = "ldxdw r3, [r1+0]\n"
                            "mov r1, 0\n"
                            "mov r2, 0\n"
                            "call region_fetch_add\n"
                            "exit\n";

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "calls: %s\n", outboard_last_error());
        exit(1);
    }
}

int main(void) {
    outboard_t *outboard;
    outboard_memory *memory;
    outboard_region *region;
    outboard_caller *caller;
    must(outboard_find(NULL, &outboard));
    must(outboard_memory_connect(outboard, &memory));
    must(outboard_memory_reserve(memory, 4096, NULL, &region));
    must(outboard_caller_connect(outboard, NULL, &caller));

    outboard_function_region allowed = {region, OUTBOARD_READ | OUTBOARD_WRITE | OUTBOARD_CALL, 0};
    outboard_function_options options = {0};
    options.size = sizeof options;
    options.text = COUNT;
    options.regions = &allowed;
    options.regions_count = 1;
    outboard_function count;
    must(outboard_caller_register(caller, &options, &count));

    outboard_reply reply = {0};
    reply.size = sizeof reply;
    uint64_t seven = 7;
    must(outboard_caller_call(caller, count, NULL, &seven, sizeof seven, &reply)); // one call, waited for
    for (uint64_t number = 1; number <= 100; number++) {
        must(outboard_caller_begin(caller, count, NULL, &number, sizeof number, NULL)); // many at once
    }
    int ended = 0;
    while (outboard_caller_wait(caller, 5000, &reply) == OUTBOARD_OK) {
        must(reply.status);
        ended++;
    }
    uint64_t nothing = 0;
    must(outboard_caller_call(caller, count, NULL, &nothing, sizeof nothing, &reply));
    printf("%d calls at once, counted to %" PRIu64 "\n", ended, reply.value);

    must(outboard_caller_close(caller));
    must(outboard_region_close(region));
    must(outboard_memory_close(memory));
    must(outboard_close(outboard));
    return 0;
}
