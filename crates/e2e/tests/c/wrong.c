// Gives every function what it must refuse: each ends with the right status and a text, and the program lives on.

#include <outboard.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks, failures;

// A call has ended as it should, with a text that has this part.
static void ends(outboard_status status, outboard_status wanted, const char *part, const char *call, int line) {
    const char *text = outboard_last_error();
    checks++;
    if (status != wanted || (wanted != OUTBOARD_OK && (strlen(text) < 5 || strstr(text, part) == NULL))) {
        fprintf(stderr, "%d: %s: %d (%s), not %d with “%s”: %s\n", line, call, status, outboard_status_text(status),
                wanted, part, text);
        failures++;
    }
}

#define ENDS(call, wanted, part) ends(call, wanted, part, #call, __LINE__)
#define INVALID(call, part) ENDS(call, OUTBOARD_INVALID, part)
#define MUST(call) ENDS(call, OUTBOARD_OK, "")

static void *closed; // a handle of the kind that is tried, which was closed
static void *other;  // an open one of another kind
static char bytes[64];

// A call with a handle h that is NULL, was closed, was never one, points somewhere, or is of another kind.
#define BAD_HANDLE(type, call)                                                                                         \
    do {                                                                                                               \
        void *all[] = {NULL, closed, (void *)0x1234567812345678, bytes, (void *)1, other};                             \
        for (int at = 0; at < 6; at++) {                                                                               \
            type *h = all[at];                                                                                         \
            ends(call, at == 0 ? OUTBOARD_INVALID : OUTBOARD_CLOSED, at == 0 ? "NULL" : #type, #call, __LINE__);       \
        }                                                                                                              \
    } while (0)

// Options whose size is too small, too large, or whose end is not known.
#define BAD_SIZE(type, options, call)                                                                                  \
    do {                                                                                                               \
        struct {                                                                                                       \
            type known;                                                                                                \
            uint64_t unknown;                                                                                          \
        } longer;                                                                                                      \
        type *options = &longer.known;                                                                                 \
        memset(&longer, 0, sizeof longer);                                                                             \
        INVALID(call, "sizeof(" #type ")");                                                                            \
        options->size = sizeof(type) - 1;                                                                              \
        INVALID(call, "sizeof(" #type ")");                                                                            \
        options->size = (size_t)-1;                                                                                    \
        INVALID(call, "sizeof(" #type ")");                                                                            \
        options->size = sizeof longer;                                                                                 \
        longer.unknown = 1;                                                                                            \
        INVALID(call, "does not know");                                                                                \
    } while (0)

#define OPTIONS(type, name)                                                                                            \
    type name;                                                                                                         \
    memset(&name, 0, sizeof name);                                                                                     \
    name.size = sizeof name

static const char NO_TEXT[] = "caf\xe9"; // Latin-1

static void daemons(outboard_t *good) {
    outboard_t *outboard = (outboard_t *)1;
    INVALID(outboard_find(NULL, NULL), "outboard is NULL");
    BAD_SIZE(outboard_options, options, outboard_find(options, &outboard));
    ENDS(outboard == NULL ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    OPTIONS(outboard_options, options);
    options.memory = "nowhere";
    INVALID(outboard_find(&options, &outboard), "nowhere");
    options.memory = NO_TEXT;
    INVALID(outboard_find(&options, &outboard), "no UTF-8 from its byte 3");
    options.memory = NULL;
    options.agent = "tcp:no port";
    INVALID(outboard_find(&options, &outboard), "no port");
    options.agent = NULL;
    options.name = NO_TEXT;
    INVALID(outboard_find(&options, &outboard), "outboard_options.name");
    size_t length;
    BAD_HANDLE(outboard_t, outboard_explain(h, bytes, sizeof bytes, &length));
    INVALID(outboard_explain(good, NULL, 10, NULL), "text is NULL");
    ENDS(outboard_explain(good, bytes, 5, &length), OUTBOARD_TOO_SHORT, "room for 5");
    ENDS(strlen(bytes) == 4 && length > 10 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    MUST(outboard_explain(good, NULL, 0, &length));
    BAD_HANDLE(outboard_t, outboard_close(h));
}

static void unreachable(void) {
    outboard_t *outboard;
    OPTIONS(outboard_options, options);
    options.memory = "unix:@no-server-listens-here";
    options.agent = "none";
    options.deadline_ms = 500;
    MUST(outboard_find(&options, &outboard));
    outboard_memory *memory;
    outboard_far *far;
    outboard_caller *caller;
    outboard_writer *writer;
    ENDS(outboard_memory_connect(outboard, &memory), OUTBOARD_UNREACHABLE, "no-server-listens-here");
    ENDS(outboard_far_connect(outboard, NULL, &far), OUTBOARD_UNREACHABLE, "no-server-listens-here");
    ENDS(outboard_caller_connect(outboard, NULL, &caller), OUTBOARD_UNREACHABLE, "no-server-listens-here");
    ENDS(outboard_writer_connect(outboard, NULL, &writer), OUTBOARD_UNREACHABLE, "no-server-listens-here");
    MUST(outboard_close(outboard));
    ENDS(outboard_close(outboard), OUTBOARD_CLOSED, "closed");
}

static void job(void) {
    outboard_job *job;
    outboard_t *outboard;
    INVALID(outboard_job_join(NULL, NULL), "job is NULL");
    BAD_SIZE(outboard_job_options, options, outboard_job_join(options, &job));
    OPTIONS(outboard_job_options, options);
    INVALID(outboard_job_join(&options, &job), "secret is NULL");
    options.secret = "short";
    options.ranks = 1;
    INVALID(outboard_job_join(&options, &job), "16 bytes");
    options.secret = "sixteen bytes or more";
    options.rank = 3;
    INVALID(outboard_job_join(&options, &job), "rank 3");
    options.rank = 0;
    options.listen = "here";
    INVALID(outboard_job_join(&options, &job), "here");
    options.listen = NULL;
    options.rendezvous = "there";
    INVALID(outboard_job_join(&options, &job), "there");
    options.rendezvous = NULL;
    options.outboard = (outboard_t *)bytes;
    ENDS(outboard_job_join(&options, &job), OUTBOARD_CLOSED, "outboard_t");
    uint32_t rank;
    BAD_HANDLE(outboard_job, outboard_job_rank(h, &rank, NULL));
    BAD_HANDLE(outboard_job, outboard_job_daemons(h, &outboard));
    INVALID(outboard_job_daemons(closed, NULL), "outboard is NULL");
    BAD_HANDLE(outboard_job, outboard_job_close(h));
}

static void far(outboard_t *good) {
    outboard_far *far;
    OPTIONS(outboard_far_options, options);
    OPTIONS(outboard_far_stats, stats);
    size_t length;
    INVALID(outboard_far_connect(good, NULL, NULL), "far is NULL");
    BAD_HANDLE(outboard_t, outboard_far_connect(h, NULL, &far));
    BAD_SIZE(outboard_far_options, options, outboard_far_connect(good, options, &far));
    options.buffer = "a lot";
    INVALID(outboard_far_connect(good, &options, &far), "a lot");
    options.buffer = "1/3";
    INVALID(outboard_far_connect(good, &options, &far), "footprint");
    options.buffer = NO_TEXT;
    INVALID(outboard_far_connect(good, &options, &far), "UTF-8");
    options.buffer = "4KiB";
    INVALID(outboard_far_connect(good, &options, &far), "too small");
    options.buffer = "16MiB";
    options.chunk = 12345;
    INVALID(outboard_far_connect(good, &options, &far), "power of two");
    options.chunk = 0;
    options.on_loss = 9;
    INVALID(outboard_far_connect(good, &options, &far), "on_loss is 9");
    options.on_loss = 0;
    options.faults = 9;
    INVALID(outboard_far_connect(good, &options, &far), "faults is 9");
    options.faults = 0;
    options.servers_count = 2;
    INVALID(outboard_far_connect(good, &options, &far), "servers is NULL");
    const char *servers[] = {NULL, "x"};
    options.servers = servers;
    INVALID(outboard_far_connect(good, &options, &far), "is NULL");
    options.servers_count = (size_t)-1;
    INVALID(outboard_far_connect(good, &options, &far), "more than all addresses");
    BAD_HANDLE(outboard_far, outboard_far_set_buffer(h, "16MiB"));
    INVALID(outboard_far_set_buffer(closed, NULL), "buffer is NULL");
    INVALID(outboard_far_set_buffer(closed, "much"), "much");
    BAD_HANDLE(outboard_far, outboard_far_get_stats(h, &stats));
    BAD_HANDLE(outboard_far, outboard_far_explain(h, bytes, sizeof bytes, &length));
    BAD_HANDLE(outboard_far, outboard_far_close(h));
}

static void mapping_calls(outboard_mapping *good, size_t size) {
    outboard_span outside[] = {{0, 1}, {size, 1}};
    void *address;
    size_t length;
    ENDS(outboard_mapping_advise(good, size, 1, 0), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_mapping_advise(good, (size_t)-1, (size_t)-1, 0), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_mapping_advise(good, 0, 1, 99), "advice is 99");
    ENDS(outboard_mapping_prefetch(good, outside, 2), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_mapping_prefetch(good, NULL, 2), "spans is NULL");
    MUST(outboard_mapping_prefetch(good, NULL, 0));
    ENDS(outboard_mapping_prefault(good, 0, size + 1), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_mapping_pin(good, 0, size + 1), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_mapping_pin(good, 0, size), OUTBOARD_NO_ROOM, "pin");
    ENDS(outboard_mapping_discard(good, 1, size), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_mapping_protect(good, 0, size + 1, 0), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_mapping_protect(good, 1, 10, OUTBOARD_PROTECT_READ), "first of a page");
    INVALID(outboard_mapping_protect(good, 0, 10, 99), "protection is 99");
    MUST(outboard_mapping_protect(good, 0, 4096, OUTBOARD_PROTECT_NONE));
    ENDS(outboard_mapping_read(good, 0, bytes, 8, 1000), OUTBOARD_NO_RIGHT, "protect");
    MUST(outboard_mapping_protect(good, 0, 4096, OUTBOARD_PROTECT_READ_WRITE));
    ENDS(outboard_mapping_read(good, size - 4, bytes, 8, 1000), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_mapping_read(good, 0, NULL, 8, 1000), "into is NULL");
    INVALID(outboard_mapping_read(good, 0, bytes, (size_t)-1, 1000), "more than all addresses");
    ENDS(outboard_mapping_write(good, size - 4, bytes, 8, 1000), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_mapping_write(good, 0, NULL, 8, 1000), "from is NULL");
    ENDS(outboard_mapping_sync(good, 1000, NULL), OUTBOARD_NOT_THERE, "file");
    ENDS(outboard_mapping_explain(good, bytes, 2, &length), OUTBOARD_TOO_SHORT, "room for 2");
    MUST(outboard_mapping_freeze(good, &address));
    ENDS(outboard_mapping_write(good, 0, bytes, 8, 1000), OUTBOARD_NO_RIGHT, "read");
}

static void mappings(outboard_t *outboard) {
    outboard_far *good;
    outboard_mapping *mapping;
    const size_t size = 16 << 20;
    OPTIONS(outboard_far_options, far_options);
    OPTIONS(outboard_mapping_options, options);
    far_options.buffer = "8MiB";
    MUST(outboard_far_connect(outboard, &far_options, &good));
    OPTIONS(outboard_far_stats, stats);
    INVALID(outboard_far_get_stats(good, NULL), "outboard_far_stats is NULL");
    stats.size = 8;
    INVALID(outboard_far_get_stats(good, &stats), "sizeof(outboard_far_stats)");
    BAD_SIZE(outboard_mapping_options, options, outboard_mapping_reserve(good, size, options, &mapping));
    BAD_HANDLE(outboard_far, outboard_mapping_reserve(h, size, NULL, &mapping));
    INVALID(outboard_mapping_reserve(good, size, NULL, NULL), "mapping is NULL");
    INVALID(outboard_mapping_reserve(good, 0, NULL, &mapping), "bytes is 0");
    INVALID(outboard_mapping_reserve(good, UINT64_MAX, NULL, &mapping), "more than there are addresses");
    options.name = NO_TEXT;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "UTF-8");
    options.name = NULL;
    options.chunk = 1000;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "power of two");
    options.chunk = 0;
    options.path = 7;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "path is 7");
    options.path = 0;
    options.cache = 7;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "cache is 7");
    options.cache = 0;
    options.flags = 0x80;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "unknown flags 0x80");
    INVALID(outboard_mapping_open(good, "x", &options, &mapping), "unknown flags 0x80");
    INVALID(outboard_mapping_open_file(good, "x", &options, &mapping), "unknown flags 0x80");
    options.flags = 0;
    options.reserved = 1;
    INVALID(outboard_mapping_reserve(good, size, &options, &mapping), "reserved");
    BAD_HANDLE(outboard_far, outboard_mapping_open(h, "x", NULL, &mapping));
    INVALID(outboard_mapping_open(good, NULL, NULL, &mapping), "name is NULL");
    INVALID(outboard_mapping_open(good, NO_TEXT, NULL, &mapping), "UTF-8");
    ENDS(outboard_mapping_open(good, "no such region", NULL, &mapping), OUTBOARD_NOT_THERE, "no such region");
    BAD_HANDLE(outboard_far, outboard_mapping_open_file(h, "x", NULL, &mapping));
    INVALID(outboard_mapping_open_file(good, NULL, NULL, &mapping), "path is NULL");
    ENDS(outboard_mapping_open_file(good, "no/such/file", NULL, &mapping), OUTBOARD_NOT_THERE, "");

    void *address;
    size_t length;
    other = good;
    BAD_HANDLE(outboard_mapping, outboard_mapping_address(h, &address, NULL));
    BAD_HANDLE(outboard_mapping, outboard_mapping_advise(h, 0, 1, 0));
    BAD_HANDLE(outboard_mapping, outboard_mapping_prefetch(h, NULL, 0));
    BAD_HANDLE(outboard_mapping, outboard_mapping_prefault(h, 0, 1));
    BAD_HANDLE(outboard_mapping, outboard_mapping_pin(h, 0, 1));
    BAD_HANDLE(outboard_mapping, outboard_mapping_unpin(h));
    BAD_HANDLE(outboard_mapping, outboard_mapping_discard(h, 0, 1));
    BAD_HANDLE(outboard_mapping, outboard_mapping_protect(h, 0, 1, 0));
    BAD_HANDLE(outboard_mapping, outboard_mapping_read(h, 0, bytes, 1, 0));
    BAD_HANDLE(outboard_mapping, outboard_mapping_write(h, 0, bytes, 1, 0));
    BAD_HANDLE(outboard_mapping, outboard_mapping_flush(h));
    BAD_HANDLE(outboard_mapping, outboard_mapping_sync(h, 0, NULL));
    BAD_HANDLE(outboard_mapping, outboard_mapping_freeze(h, NULL));
    BAD_HANDLE(outboard_mapping, outboard_mapping_explain(h, bytes, sizeof bytes, &length));
    BAD_HANDLE(outboard_mapping, outboard_mapping_free(h));
    BAD_HANDLE(outboard_mapping, outboard_mapping_close(h));

    MUST(outboard_mapping_reserve(good, size, NULL, &mapping));
    MUST(outboard_far_close(good)); // its mappings go on
    mapping_calls(mapping, size);
    MUST(outboard_mapping_free(mapping));
    ENDS(outboard_mapping_close(mapping), OUTBOARD_CLOSED, "closed");
}

static void ignore(void *context, const outboard_region_entry *entry) {
    (void)context, (void)entry;
}

static void regions(outboard_t *outboard) {
    outboard_memory *good;
    outboard_region *region, *opened;
    OPTIONS(outboard_region_options, options);
    BAD_HANDLE(outboard_t, outboard_memory_connect(h, &good));
    other = outboard;
    INVALID(outboard_memory_connect(outboard, NULL), "memory is NULL");
    MUST(outboard_memory_connect(outboard, &good));
    BAD_HANDLE(outboard_memory, outboard_memory_reserve(h, 4096, NULL, &region));
    INVALID(outboard_memory_reserve(good, 4096, NULL, NULL), "region is NULL");
    BAD_SIZE(outboard_region_options, options, outboard_memory_reserve(good, 4096, options, &region));
    options.chunk = 5000;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "power of two");
    options.chunk = 2;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "chunks of 2^1");
    options.chunk = 0;
    options.flags = OUTBOARD_REGION_SHARED;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "needs a name");
    options.name = "both";
    options.flags |= OUTBOARD_REGION_SPARSE;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "not both");
    options.flags = 16;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "unknown flags 0x10");
    options.flags = 0;
    options.name = NO_TEXT;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "UTF-8");
    options.name = NULL;
    options.reserved = 1;
    INVALID(outboard_memory_reserve(good, 4096, &options, &region), "reserved");
    ENDS(outboard_memory_reserve(good, (uint64_t)1 << 50, NULL, &region), OUTBOARD_NO_ROOM, "");
    BAD_HANDLE(outboard_memory, outboard_memory_open(h, "x", OUTBOARD_READ, 0, &region));
    INVALID(outboard_memory_open(good, NULL, OUTBOARD_READ, 0, &region), "name is NULL");
    INVALID(outboard_memory_open(good, NO_TEXT, OUTBOARD_READ, 0, &region), "UTF-8");
    INVALID(outboard_memory_open(good, "x", 0x100, 0, &region), "unknown flags 0x100");
    INVALID(outboard_memory_open(good, "x", OUTBOARD_READ, 8, &region), "unknown flags 0x8");
    ENDS(outboard_memory_open(good, "x", OUTBOARD_READ, 0, &region), OUTBOARD_NOT_THERE, "x");
    BAD_HANDLE(outboard_memory, outboard_memory_load(h, "x", OUTBOARD_READ, 1000, &region));
    INVALID(outboard_memory_load(good, NULL, OUTBOARD_READ, 1000, &region), "path is NULL");
    ENDS(outboard_memory_load(good, "no/file", OUTBOARD_READ, 1000, &region), OUTBOARD_NOT_THERE, "");
    BAD_HANDLE(outboard_memory, outboard_memory_list(h, ignore, NULL));
    INVALID(outboard_memory_list(good, NULL, NULL), "handler is NULL");

    MUST(outboard_memory_reserve(good, 4096, NULL, &region));
    uint64_t number;
    other = good;
    BAD_HANDLE(outboard_region, outboard_region_size(h, &number, NULL));
    BAD_HANDLE(outboard_region, outboard_region_read(h, 0, bytes, 8));
    BAD_HANDLE(outboard_region, outboard_region_write(h, 0, bytes, 8));
    BAD_HANDLE(outboard_region, outboard_region_fetch_add(h, 0, 1, &number));
    BAD_HANDLE(outboard_region, outboard_region_compare_swap(h, 0, 1, 2, &number));
    BAD_HANDLE(outboard_region, outboard_region_sync(h, 1000, NULL));
    BAD_HANDLE(outboard_region, outboard_region_populate(h, NULL));
    BAD_HANDLE(outboard_region, outboard_region_free(h));
    BAD_HANDLE(outboard_region, outboard_region_close(h));
    ENDS(outboard_region_read(region, 4090, bytes, 8), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_region_read(region, UINT64_MAX, bytes, 8), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_region_read(region, 0, NULL, 8), "into is NULL");
    ENDS(outboard_region_write(region, 4090, bytes, 8), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_region_write(region, 0, NULL, 8), "from is NULL");
    INVALID(outboard_region_write(region, 0, bytes, (size_t)-1), "more than all addresses");
    ENDS(outboard_region_fetch_add(region, 4, 1, &number), OUTBOARD_OUT_OF_BOUNDS, "multiple of 8");
    ENDS(outboard_region_compare_swap(region, 4096, 1, 2, &number), OUTBOARD_OUT_OF_BOUNDS, "outside");
    ENDS(outboard_region_sync(region, 1000, NULL), OUTBOARD_NOT_THERE, "file");

    // One that may only be read is not written.
    options.reserved = 0;
    options.name = "wrong.c reads this";
    MUST(outboard_memory_reserve(good, 4096, &options, &opened));
    MUST(outboard_region_close(opened));
    MUST(outboard_memory_open(good, options.name, OUTBOARD_READ, 0, &opened));
    ENDS(outboard_region_write(opened, 0, bytes, 8), OUTBOARD_NO_RIGHT, "no right");
    MUST(outboard_region_close(opened));
    MUST(outboard_memory_open(good, options.name, OUTBOARD_READ | OUTBOARD_WRITE, 0, &opened));
    MUST(outboard_region_free(opened));

    // A region whose connection is gone can only be closed.
    other = region;
    BAD_HANDLE(outboard_memory, outboard_memory_close(h));
    MUST(outboard_memory_close(good));
    ENDS(outboard_region_read(region, 0, bytes, 8), OUTBOARD_CLOSED, "outboard_memory");
    MUST(outboard_region_close(region));
    ENDS(outboard_region_close(region), OUTBOARD_CLOSED, "closed");
}

static int handled;

// A handler may send by its messenger, and do nothing else with it.
static void handle(void *context, outboard_messenger *messenger, uint32_t from, const void *message, size_t length) {
    uint32_t done;
    (void)message;
    if (handled++ == 0) {
        MUST(outboard_messenger_send(messenger, 0, from, "again", 5));
        INVALID(outboard_messenger_send(messenger, 0, from, NULL, length), "bytes is NULL");
        ENDS(outboard_messenger_send(messenger, 0, 5, "x", 1), OUTBOARD_NOT_THERE, "rank 5");
        ENDS(outboard_messenger_receive(messenger, 0, handle, context, NULL), OUTBOARD_BUSY, "handler");
        ENDS(outboard_messenger_poll_quiesce(messenger, 0, &done), OUTBOARD_BUSY, "handler");
        ENDS(outboard_messenger_close(messenger), OUTBOARD_BUSY, "handler");
    }
}

static void messages(void) {
    outboard_job *job;
    outboard_messenger *good;
    OPTIONS(outboard_messenger_options, options);
    MUST(outboard_job_join(NULL, &job));
    INVALID(outboard_job_daemons(job, NULL), "outboard is NULL");
    BAD_HANDLE(outboard_job, outboard_messenger_connect(h, NULL, &good));
    INVALID(outboard_messenger_connect(job, NULL, NULL), "messenger is NULL");
    BAD_SIZE(outboard_messenger_options, options, outboard_messenger_connect(job, options, &good));
    options.spaces = 65;
    INVALID(outboard_messenger_connect(job, &options, &good), "65 message spaces");
    options.spaces = 1000;
    INVALID(outboard_messenger_connect(job, &options, &good), "1000 message spaces");
    options.spaces = 0;
    options.carrier = 9;
    INVALID(outboard_messenger_connect(job, &options, &good), "carrier is 9");
    options.carrier = 0;
    options.longest = 100000;
    MUST(outboard_messenger_connect(job, &options, &good));
    outboard_messenger *second;
    ENDS(outboard_messenger_connect(job, NULL, &second), OUTBOARD_BUSY, "already");

    uint32_t done, ranks[2] = {0, 7};
    size_t count;
    other = job;
    BAD_HANDLE(outboard_messenger, outboard_messenger_send(h, 0, 0, "x", 1));
    BAD_HANDLE(outboard_messenger, outboard_messenger_send_many(h, 0, ranks, 1, "x", 1, &count));
    BAD_HANDLE(outboard_messenger, outboard_messenger_flush(h, 0));
    BAD_HANDLE(outboard_messenger, outboard_messenger_receive(h, 0, handle, NULL, NULL));
    BAD_HANDLE(outboard_messenger, outboard_messenger_make_room(h, 0, handle, NULL));
    BAD_HANDLE(outboard_messenger, outboard_messenger_quiesce(h, 0, handle, NULL));
    BAD_HANDLE(outboard_messenger, outboard_messenger_begin_quiesce(h, 0));
    BAD_HANDLE(outboard_messenger, outboard_messenger_poll_quiesce(h, 0, &done));
    BAD_HANDLE(outboard_messenger, outboard_messenger_barrier(h));
    BAD_HANDLE(outboard_messenger, outboard_messenger_explain(h, bytes, sizeof bytes, &count));
    BAD_HANDLE(outboard_messenger, outboard_messenger_close(h));

    ENDS(outboard_messenger_send(good, 0, 1, "x", 1), OUTBOARD_NOT_THERE, "rank 1");
    ENDS(outboard_messenger_send(good, 1, 0, "x", 1), OUTBOARD_NOT_THERE, "space 1");
    ENDS(outboard_messenger_send(good, 300, 0, "x", 1), OUTBOARD_NOT_THERE, "space 300");
    INVALID(outboard_messenger_send(good, 0, 0, NULL, 1), "bytes is NULL");
    char *longer = calloc(1, 200000);
    INVALID(outboard_messenger_send(good, 0, 0, longer, 200000), "longer than");
    free(longer);
    ENDS(outboard_messenger_send_many(good, 0, ranks, 2, "xy", 1, &count), OUTBOARD_NOT_THERE, "rank 7");
    ENDS(count == 1 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    INVALID(outboard_messenger_send_many(good, 0, NULL, 2, "xy", 1, NULL), "ranks is NULL");
    INVALID(outboard_messenger_send_many(good, 0, ranks, 2, "xy", (size_t)-1, NULL), "addresses");
    ENDS(outboard_messenger_flush(good, 9), OUTBOARD_NOT_THERE, "space 9");
    INVALID(outboard_messenger_receive(good, 0, NULL, NULL, NULL), "handler is NULL");
    ENDS(outboard_messenger_receive(good, 9, handle, NULL, NULL), OUTBOARD_NOT_THERE, "space 9");
    INVALID(outboard_messenger_make_room(good, 0, NULL, NULL), "handler is NULL");
    INVALID(outboard_messenger_quiesce(good, 0, NULL, NULL), "handler is NULL");
    ENDS(outboard_messenger_quiesce(good, 9, handle, NULL), OUTBOARD_NOT_THERE, "space 9");
    ENDS(outboard_messenger_begin_quiesce(good, 9), OUTBOARD_NOT_THERE, "space 9");
    INVALID(outboard_messenger_poll_quiesce(good, 0, NULL), "done is NULL");
    MUST(outboard_messenger_quiesce(good, 0, handle, NULL));
    ENDS(handled == 2 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    MUST(outboard_messenger_close(good));
    MUST(outboard_job_close(job));
}

static void calls(outboard_t *outboard) {
    outboard_caller *good;
    outboard_memory *memory;
    outboard_region *region;
    outboard_function function;
    OPTIONS(outboard_caller_options, options);
    OPTIONS(outboard_function_options, code);
    OPTIONS(outboard_call_options, how);
    OPTIONS(outboard_reply, reply);
    MUST(outboard_memory_connect(outboard, &memory));
    MUST(outboard_memory_reserve(memory, 4096, NULL, &region));
    BAD_HANDLE(outboard_t, outboard_caller_connect(h, NULL, &good));
    INVALID(outboard_caller_connect(outboard, NULL, NULL), "caller is NULL");
    BAD_SIZE(outboard_caller_options, options, outboard_caller_connect(outboard, options, &good));
    options.site = 4;
    INVALID(outboard_caller_connect(outboard, &options, &good), "site is 4");
    options.site = 0;
    options.flags = 2;
    INVALID(outboard_caller_connect(outboard, &options, &good), "unknown flags 0x2");
    options.flags = 0;
    options.under_way_max = 5000;
    INVALID(outboard_caller_connect(outboard, &options, &good), "4096");
    MUST(outboard_caller_connect(outboard, NULL, &good));

    BAD_HANDLE(outboard_caller, outboard_caller_register(h, (code.text = "exit", &code), &function));
    INVALID(outboard_caller_register(good, &code, NULL), "function is NULL");
    BAD_SIZE(outboard_function_options, code, outboard_caller_register(good, code, &function));
    INVALID(outboard_caller_register(good, NULL, &function), "a text or as an object");
    code.text = "jump up";
    INVALID(outboard_caller_register(good, &code, &function), "text");
    code.text = "mov r0, 0\nexit\n";
    code.entry = "missing";
    INVALID(outboard_caller_register(good, &code, &function), "missing");
    code.entry = NULL;
    code.object = bytes;
    code.object_length = sizeof bytes;
    INVALID(outboard_caller_register(good, &code, &function), "a text or as an object");
    code.text = NULL;
    INVALID(outboard_caller_register(good, &code, &function), "object");
    code.object_length = 0;
    code.text = NO_TEXT;
    INVALID(outboard_caller_register(good, &code, &function), "UTF-8");
    code.text = "mov r1, 0\nmov r2, 0\nldxdw r3, [r2+0]\nexit\n"; // reads what is not its own
    code.regions_count = 1;
    INVALID(outboard_caller_register(good, &code, &function), "regions is NULL");
    outboard_function_region allowed = {(outboard_region *)bytes, OUTBOARD_READ, 0};
    code.regions = &allowed;
    ENDS(outboard_caller_register(good, &code, &function), OUTBOARD_CLOSED, "outboard_region");
    allowed.region = region;
    allowed.rights = 64;
    INVALID(outboard_caller_register(good, &code, &function), "unknown flags 0x40");
    allowed.rights = OUTBOARD_READ;
    allowed.reserved = 1;
    INVALID(outboard_caller_register(good, &code, &function), "reserved");
    allowed.reserved = 0;
    MUST(outboard_caller_register(good, &code, &function));

    size_t count;
    BAD_HANDLE(outboard_caller, outboard_caller_call(h, 0, NULL, NULL, 0, NULL));
    BAD_HANDLE(outboard_caller, outboard_caller_begin(h, 0, NULL, NULL, 0, NULL));
    BAD_HANDLE(outboard_caller, outboard_caller_flush(h));
    BAD_HANDLE(outboard_caller, outboard_caller_wait(h, 0, &reply));
    BAD_HANDLE(outboard_caller, outboard_caller_under_way(h, &count));
    BAD_HANDLE(outboard_caller, outboard_caller_explain(h, bytes, sizeof bytes, &count));
    BAD_HANDLE(outboard_caller, outboard_caller_close(h));
    ENDS(outboard_caller_call(good, 8, NULL, NULL, 0, NULL), OUTBOARD_NOT_THERE, "none of number 8");
    ENDS(outboard_caller_begin(good, 8, NULL, NULL, 0, NULL), OUTBOARD_NOT_THERE, "none of number 8");
    INVALID(outboard_caller_call(good, function, NULL, NULL, 8, NULL), "arguments is NULL");
    BAD_SIZE(outboard_call_options, how, outboard_caller_call(good, function, how, NULL, 0, NULL));
    BAD_SIZE(outboard_reply, reply, outboard_caller_call(good, function, NULL, NULL, 0, reply));
    BAD_SIZE(outboard_reply, reply, outboard_caller_wait(good, 0, reply));
    how.key_length = 4;
    INVALID(outboard_caller_begin(good, function, &how, NULL, 0, NULL), "key is NULL");
    INVALID(outboard_caller_wait(good, 0, NULL), "reply is NULL");
    reply.room = 100;
    INVALID(outboard_caller_wait(good, 0, &reply), "outboard_reply.bytes is NULL");
    reply.room = 0;
    ENDS(outboard_caller_wait(good, 0, &reply), OUTBOARD_NOTHING, "no call");
    INVALID(outboard_caller_under_way(good, NULL), "count is NULL");
    char *arguments = calloc(1, 1 << 20);
    INVALID(outboard_caller_call(good, function, NULL, arguments, 1 << 20, NULL), "arguments are longer");
    free(arguments);
    // One that ends by a mistake says so, by a call and by waiting.
    ENDS(outboard_caller_call(good, function, NULL, NULL, 0, &reply), OUTBOARD_TRAPPED, "instruction");
    ENDS(reply.status, OUTBOARD_TRAPPED, "instruction");
    MUST(outboard_caller_begin(good, function, NULL, NULL, 0, NULL));
    MUST(outboard_caller_wait(good, 20000, &reply));
    ENDS(reply.status, OUTBOARD_TRAPPED, "instruction");
    ENDS(reply.may_have_run == 1 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    // A reply that has too little room is cut, and says so.
    code.text = "stb [r10-1], 7\nstb [r10-2], 5\nmov r1, r10\nsub r1, 2\nmov r2, 2\ncall reply\nmov r0, 9\nexit\n";
    MUST(outboard_caller_register(good, &code, &function));
    reply.bytes = bytes;
    reply.room = 1;
    ENDS(outboard_caller_call(good, function, NULL, NULL, 0, &reply), OUTBOARD_TOO_SHORT, "2 bytes");
    ENDS(reply.length == 2 && reply.value == 9 && bytes[0] == 5 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    reply.room = 2;
    MUST(outboard_caller_call(good, function, NULL, NULL, 0, &reply));
    MUST(outboard_caller_close(good));
    MUST(outboard_region_close(region));
    MUST(outboard_memory_close(memory));
}

static void writes(outboard_t *outboard) {
    outboard_writer *good;
    outboard_memory *memory;
    outboard_region *region;
    outboard_target target;
    OPTIONS(outboard_writer_options, options);
    OPTIONS(outboard_write_options, how);
    OPTIONS(outboard_write_end, end);
    MUST(outboard_memory_connect(outboard, &memory));
    MUST(outboard_memory_reserve(memory, 4096, NULL, &region));
    BAD_HANDLE(outboard_t, outboard_writer_connect(h, NULL, &good));
    INVALID(outboard_writer_connect(outboard, NULL, NULL), "writer is NULL");
    BAD_SIZE(outboard_writer_options, options, outboard_writer_connect(outboard, options, &good));
    options.path = 3;
    INVALID(outboard_writer_connect(outboard, &options, &good), "path is 3");
    options.path = 0;
    options.flags = 2;
    INVALID(outboard_writer_connect(outboard, &options, &good), "unknown flags 0x2");
    options.flags = 0;
    options.under_way_max = 2000;
    INVALID(outboard_writer_connect(outboard, &options, &good), "1024");
    MUST(outboard_writer_connect(outboard, NULL, &good));
    BAD_HANDLE(outboard_writer, outboard_writer_open(h, region, &target));
    INVALID(outboard_writer_open(good, NULL, &target), "outboard_region is NULL");
    INVALID(outboard_writer_open(good, region, NULL), "target is NULL");
    MUST(outboard_writer_open(good, region, &target));

    size_t longest;
    uint64_t id;
    outboard_write_part parts[] = {{0, bytes, 8}, {8, NULL, 8}};
    BAD_HANDLE(outboard_writer, outboard_writer_close_target(h, 0));
    BAD_HANDLE(outboard_writer, outboard_writer_write(h, 0, 0, bytes, 8, NULL, NULL));
    BAD_HANDLE(outboard_writer, outboard_writer_write_parts(h, 0, parts, 1, NULL));
    BAD_HANDLE(outboard_writer, outboard_writer_fence(h));
    BAD_HANDLE(outboard_writer, outboard_writer_flush(h));
    BAD_HANDLE(outboard_writer, outboard_writer_wait(h, 0, &end));
    BAD_HANDLE(outboard_writer, outboard_writer_longest(h, &longest));
    BAD_HANDLE(outboard_writer, outboard_writer_explain(h, bytes, sizeof bytes, NULL));
    BAD_HANDLE(outboard_writer, outboard_writer_close(h));
    ENDS(outboard_writer_close_target(good, 9), OUTBOARD_NOT_THERE, "target 9");
    ENDS(outboard_writer_write(good, 9, 0, bytes, 8, NULL, &id), OUTBOARD_NOT_THERE, "target 9");
    ENDS(outboard_writer_write(good, target, 4090, bytes, 8, NULL, &id), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_writer_write(good, target, 0, NULL, 8, NULL, &id), "bytes is NULL");
    BAD_SIZE(outboard_write_options, how, outboard_writer_write(good, target, 0, bytes, 8, how, &id));
    how.hint = 4;
    INVALID(outboard_writer_write(good, target, 0, bytes, 8, &how, &id), "hint is 4");
    how.hint = 0;
    how.path = 3;
    INVALID(outboard_writer_write(good, target, 0, bytes, 8, &how, &id), "path is 3");
    how.path = 0;
    how.flags = 2;
    INVALID(outboard_writer_write(good, target, 0, bytes, 8, &how, &id), "unknown flags 0x2");
    how.flags = 0;
    how.reserved = 2;
    INVALID(outboard_writer_write(good, target, 0, bytes, 8, &how, &id), "reserved");
    INVALID(outboard_writer_longest(good, NULL), "bytes is NULL");
    MUST(outboard_writer_longest(good, &longest));
    char *longer = calloc(2, longest);
    ENDS(outboard_writer_write(good, target, 0, longer, 2 * longest, NULL, &id), OUTBOARD_OUT_OF_BOUNDS, "outside");
    free(longer);
    INVALID(outboard_writer_write_parts(good, target, NULL, 2, &id), "parts is NULL");
    INVALID(outboard_writer_write_parts(good, target, parts, 2, &id), "outboard_write_part.bytes is NULL");
    parts[1].bytes = bytes;
    parts[1].offset = 5000;
    ENDS(outboard_writer_write_parts(good, target, parts, 2, &id), OUTBOARD_OUT_OF_BOUNDS, "outside");
    INVALID(outboard_writer_wait(good, 0, NULL), "end is NULL");
    BAD_SIZE(outboard_write_end, end, outboard_writer_wait(good, 0, end));
    ENDS(outboard_writer_wait(good, 0, &end), OUTBOARD_NOTHING, "no write");
    MUST(outboard_writer_close_target(good, target));
    ENDS(outboard_writer_write(good, target, 0, bytes, 8, NULL, &id), OUTBOARD_NOT_THERE, "target 0");
    MUST(outboard_writer_close(good));
    MUST(outboard_region_close(region));
    MUST(outboard_memory_close(memory));
}

// A child that was forked has none of what its parent has opened, and opens it anew.
static void forks(outboard_t *outboard) {
    outboard_memory *memory, *anew;
    MUST(outboard_memory_connect(outboard, &memory));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        outboard_t *own;
        checks = failures = 0;
        ENDS(outboard_memory_list(memory, ignore, NULL), OUTBOARD_CLOSED, "forked this one");
        ENDS(outboard_memory_close(memory), OUTBOARD_CLOSED, "forked this one");
        MUST(outboard_find(NULL, &own));
        MUST(outboard_memory_connect(own, &anew));
        MUST(outboard_memory_list(anew, ignore, NULL));
        MUST(outboard_memory_close(anew));
        _exit(failures);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ENDS(child > 0 && status == 0 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    MUST(outboard_memory_list(memory, ignore, NULL));
    MUST(outboard_memory_close(memory));
}

static outboard_region *contended;

// Every update of a thread is done once, or refused because another thread is in a call.
static void *update(void *done) {
    for (int number = 0; number < 2000; number++) {
        outboard_status status = outboard_region_fetch_add(contended, 0, 1, NULL);
        if (status == OUTBOARD_OK) {
            ++*(uint64_t *)done;
        } else if (status != OUTBOARD_BUSY || strstr(outboard_last_error(), "one thread at a time") == NULL) {
            return NULL;
        }
    }
    return done;
}

static void threads(outboard_t *outboard) {
    outboard_memory *memory;
    pthread_t all[4];
    uint64_t done[4] = {0}, sum = 0, counted;
    void *good;
    MUST(outboard_memory_connect(outboard, &memory));
    MUST(outboard_memory_reserve(memory, 4096, NULL, &contended));
    for (int thread = 0; thread < 4; thread++) {
        pthread_create(&all[thread], NULL, update, &done[thread]);
    }
    for (int thread = 0; thread < 4; thread++) {
        pthread_join(all[thread], &good);
        ENDS(good != NULL ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
        sum += done[thread];
    }
    MUST(outboard_region_read(contended, 0, &counted, sizeof counted));
    ENDS(sum == counted && sum >= 2000 ? OUTBOARD_OK : OUTBOARD_INTERNAL, OUTBOARD_OK, "");
    MUST(outboard_region_close(contended));
    MUST(outboard_memory_close(memory));
}

int main(void) {
    outboard_t *outboard;
    outboard_memory *memory;
    outboard_region *region;
    MUST(outboard_find(NULL, &outboard));
    MUST(outboard_memory_connect(outboard, &memory));
    MUST(outboard_memory_reserve(memory, 4096, NULL, &region));
    // Closed handles of each kind are alike: a number whose place has another generation, or another object, by now.
    MUST(outboard_region_close(region));
    closed = region;
    other = memory;
    daemons(outboard);
    unreachable();
    job();
    far(outboard);
    other = memory;
    regions(outboard);
    other = memory;
    messages();
    other = memory;
    calls(outboard);
    writes(outboard);
    forks(outboard);
    threads(outboard);
    if (getenv("WITHOUT_FAR") == NULL) {
        mappings(outboard);
    }
    MUST(outboard_memory_close(memory));
    MUST(outboard_close(outboard));
    printf("%d checks of version %s, %d failures\n", checks, outboard_version(), failures);
    return failures > 0;
}
