// Memory, messages, calls and writes in C++, by one rank or several. In another terminal: outboard up
//
//     c++ -std=c++17 services.cpp -o services $(pkg-config --cflags --libs outboard) && outboard run -n 2 -- ./services

#include <outboard.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>

static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        throw std::runtime_error(outboard_last_error());
    }
}

// Options with their size, and nothing else set.
template <typename T> static T empty() {
    T options{};
    options.size = sizeof options;
    return options;
}

// Adds its argument to the first word of its first region, and returns what that was.
static const char COUNT[] = R"(
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 0
    call region_fetch_add
    exit
)";

// A word of a region, changed by an update, by a function and by a write.
static std::uint64_t word_at_a_server(outboard_t *outboard) {
    outboard_memory *memory;
    outboard_region *region;
    must(outboard_memory_connect(outboard, &memory));
    must(outboard_memory_reserve(memory, 1 << 16, nullptr, &region));
    std::uint64_t before;
    must(outboard_region_fetch_add(region, 0, 5, &before));
    must(outboard_region_compare_swap(region, 0, 5, 10, &before)); // 10 now

    outboard_caller *caller;
    must(outboard_caller_connect(outboard, nullptr, &caller));
    outboard_function_region allowed{region, OUTBOARD_READ | OUTBOARD_WRITE | OUTBOARD_CALL, 0};
    auto function = empty<outboard_function_options>();
    function.text = COUNT;
    function.regions = &allowed;
    function.regions_count = 1;
    outboard_function count;
    must(outboard_caller_register(caller, &function, &count));
    std::uint64_t addend = 7;
    auto reply = empty<outboard_reply>();
    must(outboard_caller_call(caller, count, nullptr, &addend, sizeof addend, &reply)); // 17 now

    outboard_writer *writer;
    outboard_target target;
    must(outboard_writer_connect(outboard, nullptr, &writer));
    must(outboard_writer_open(writer, region, &target));
    std::uint64_t written = reply.value + 90;
    must(outboard_writer_write(writer, target, 8, &written, sizeof written, nullptr, nullptr));
    must(outboard_writer_flush(writer));

    std::uint64_t words[2];
    must(outboard_region_read(region, 0, words, sizeof words)); // 17 and 100
    must(outboard_writer_close(writer));
    must(outboard_caller_close(caller));
    must(outboard_region_close(region));
    must(outboard_memory_close(memory));
    return words[0] + words[1];
}

int main() try {
    outboard_job *job;
    outboard_t *outboard;
    outboard_messenger *messenger;
    std::uint32_t rank, ranks;
    must(outboard_job_join(nullptr, &job));
    must(outboard_job_rank(job, &rank, &ranks));
    must(outboard_job_daemons(job, &outboard));
    std::uint64_t found = word_at_a_server(outboard);

    must(outboard_messenger_connect(job, nullptr, &messenger));
    must(outboard_messenger_send(messenger, 0, 0, &found, sizeof found)); // to rank 0, from each
    std::uint64_t sum = 0;
    auto add = [](void *context, outboard_messenger *, std::uint32_t, const void *bytes, std::size_t length) {
        std::uint64_t value = 0;
        if (length == sizeof value) {
            std::memcpy(&value, bytes, sizeof value);
            *static_cast<std::uint64_t *>(context) += value;
        }
    };
    must(outboard_messenger_quiesce(messenger, 0, add, &sum));
    if (rank == 0) {
        std::cout << ranks << " ranks have found " << sum << '\n';
    }
    must(outboard_messenger_close(messenger));
    must(outboard_close(outboard));
    must(outboard_job_close(job));
    return 0;
} catch (const std::exception &error) {
    std::cerr << "services: " << error.what() << '\n';
    return 1;
}
