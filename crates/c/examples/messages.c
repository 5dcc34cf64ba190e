// Small messages between ranks: a table of counters that all of them change.
//
//     cc messages.c -o messages $(pkg-config --cflags --libs outboard) && outboard run -n 2 -- ./messages

#include <inttypes.h>
#include <outboard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 16, UPDATES = 50000 };

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        fprintf(stderr, "messages: %s\n", outboard_last_error());
        exit(1);
    }
}

// This rank's part of the table.
struct part {
    uint32_t ranks;
    uint64_t counts[PLACES];
};

// A message is the number of a place. A handler may send as well, which this one has no need for.
static void count(void *context, outboard_messenger *messenger, uint32_t from, const void *bytes, size_t length) {
    struct part *part = context;
    uint64_t place;
    (void)messenger, (void)from;
    if (length == sizeof place) {
        memcpy(&place, bytes, sizeof place);
        part->counts[place / part->ranks]++;
    }
}

int main(void) {
    static struct part part;
    uint32_t rank;
    outboard_job *job;
    outboard_messenger *messenger;
    must(outboard_job_join(NULL, &job)); // which rank this is, of how many; one of one without `outboard run`
    must(outboard_job_rank(job, &rank, &part.ranks));
    must(outboard_messenger_connect(job, NULL, &messenger));

    for (uint64_t number = 0; number < UPDATES; number++) {
        uint64_t place = number * 0x9e3779b97f4a7c15 % PLACES;
        uint32_t owner = (uint32_t)(place % part.ranks); // any rank, this one included
        outboard_status status;
        while ((status = outboard_messenger_send(messenger, 0, owner, &place, sizeof place)) == OUTBOARD_FULL) {
            must(outboard_messenger_make_room(messenger, 0, count, &part)); // handle what has come, then try again
        }
        must(status);
    }
    // Until everything that was sent anywhere is handled everywhere.
    must(outboard_messenger_quiesce(messenger, 0, count, &part));

    uint64_t sum = 0;
    for (size_t at = 0; at < PLACES; at++) {
        sum += part.counts[at];
    }
    printf("rank %" PRIu32 " of %" PRIu32 " has counted %" PRIu64 " updates\n", rank, part.ranks, sum);
    must(outboard_messenger_close(messenger));
    must(outboard_job_close(job));
    return 0;
}
