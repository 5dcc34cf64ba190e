/* The peer of routing.histogram.inline.2ranks.small_over_alltoallv: the same updates as ours, gathered by hand and exchanged
   with MPI_Alltoallv in rounds of at most 32 KiB for each destination.

   alltoallv ITEMS SEED WORDS: every rank sends so many updates of tables of so many words. Rank 0 prints how many were made
   in all and how many seconds the slowest rank took. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Places in 32 KiB. */
#define BATCH 4096
/* How many updates ahead of one its word is fetched. */
#define AHEAD 16

static int rank, ranks;
static uint64_t words, *table, *out, *in;
static int *filled, *out_at, *in_at, *out_count, *in_count;

static void *need(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", count * size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void apply(const uint64_t *places, int count)
{
    int at = 0;
    for (; at + AHEAD < count; at++) {
        __builtin_prefetch(&table[places[at + AHEAD]], 1);
        table[places[at]]++;
    }
    for (; at < count; at++)
        table[places[at]]++;
}

/* Sends what was gathered and makes the updates that come. What is this rank's own does not travel. Returns whether any rank
   has more to send. */
static int exchange(int is_done)
{
    int is_going_on = 0;
    for (int to = 0; to < ranks; to++) {
        out_count[2 * to] = to == rank ? 0 : filled[to];
        out_count[2 * to + 1] = !is_done;
    }
    MPI_Alltoall(out_count, 2, MPI_INT, in_count, 2, MPI_INT, MPI_COMM_WORLD);
    int *sizes = out_count, *sizes_in = in_count;
    for (int from = 0; from < ranks; from++) {
        is_going_on |= in_count[2 * from + 1];
        sizes[from] = out_count[2 * from];
        sizes_in[from] = in_count[2 * from];
    }
    MPI_Alltoallv(out, sizes, out_at, MPI_UINT64_T, in, sizes_in, in_at, MPI_UINT64_T, MPI_COMM_WORLD);
    apply(out + (size_t)rank * BATCH, filled[rank]);
    for (int from = 0; from < ranks; from++) {
        apply(in + (size_t)from * BATCH, sizes_in[from]);
        filled[from] = 0;
    }
    return is_going_on;
}

static double work(uint64_t items, uint64_t seed)
{
    uint64_t state = (((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xff51afd7u) | 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    do {
        for (;;) {
            /* So many fit, whatever their ranks are. */
            uint64_t room = items;
            for (int to = 0; to < ranks; to++)
                if ((uint64_t)(BATCH - filled[to]) < room)
                    room = BATCH - filled[to];
            if (room == 0)
                break;
            for (uint64_t item = 0; item < room; item++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                uint64_t to = (state >> 32) * (uint64_t)ranks >> 32;
                out[to * BATCH + filled[to]++] = (state & 0xffffffffu) * words >> 32;
            }
            items -= room;
        }
    } while (exchange(items == 0));
    return MPI_Wtime() - began;
}

static uint64_t sum(void)
{
    uint64_t sum = 0;
    for (uint64_t word = 0; word < words; word++)
        sum += table[word];
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) {
        fprintf(stderr, "expected: ITEMS SEED WORDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t items = strtoull(argv[1], NULL, 10), seed = strtoull(argv[2], NULL, 10);
    words = strtoull(argv[3], NULL, 10);
    table = need(words, sizeof *table);
    out = need((size_t)ranks * BATCH, sizeof *out);
    in = need((size_t)ranks * BATCH, sizeof *in);
    filled = need(ranks, sizeof(int));
    out_at = need(ranks, sizeof(int));
    in_at = need(ranks, sizeof(int));
    out_count = need(2 * (size_t)ranks, sizeof(int));
    in_count = need(2 * (size_t)ranks, sizeof(int));
    for (int other = 0; other < ranks; other++)
        out_at[other] = in_at[other] = other * BATCH;

    /* Pages are mapped and connections made before the clock starts. */
    work(items / 4, seed + 1);
    uint64_t before = sum(), made, all_made;
    double took = work(items, seed), slowest;
    made = sum() - before;
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&made, &all_made, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%llu %.9f\n", (unsigned long long)all_made, slowest);
    MPI_Finalize();
    return 0;
}
