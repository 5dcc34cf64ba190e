// An array larger than the memory that it takes here, in C++. In another terminal: outboard up
//
//     c++ -std=c++17 far_array.cpp -o far_array $(pkg-config --cflags --libs outboard) && ./far_array

#include <outboard.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>

// Throws the reason where something has failed.
static void must(outboard_status status) {
    if (status != OUTBOARD_OK) {
        throw std::runtime_error(outboard_last_error());
    }
}

// Ends a handle with its scope.
template <typename T, outboard_status (*close)(T *)> struct Close {
    void operator()(T *handle) const { close(handle); }
};
template <typename T, outboard_status (*close)(T *)> using Handle = std::unique_ptr<T, Close<T, close>>;

// Calls a function that gives a handle.
template <typename T, typename Open> static T *opened(Open open) {
    T *handle = nullptr;
    must(open(&handle));
    return handle;
}

int main() try {
    Handle<outboard_t, outboard_close> outboard(
        opened<outboard_t>([](auto out) { return outboard_find(nullptr, out); }));
    outboard_far_options options{};
    options.size = sizeof options;
    options.buffer = "8MiB";
    Handle<outboard_far, outboard_far_close> far(
        opened<outboard_far>([&](auto out) { return outboard_far_connect(outboard.get(), &options, out); }));
    const std::size_t numbers = std::size_t{8} << 20;
    Handle<outboard_mapping, outboard_mapping_close> mapping(opened<outboard_mapping>([&](auto out) {
        return outboard_mapping_reserve(far.get(), numbers * sizeof(std::uint64_t), nullptr, out);
    }));
    void *address = nullptr;
    must(outboard_mapping_address(mapping.get(), &address, nullptr));

    auto counts = static_cast<std::uint64_t *>(address);
    for (std::size_t at = 0; at < numbers; at += 4096) {
        counts[at] += at;
    }
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < numbers; ++at) {
        sum += counts[at];
    }
    std::cout << "the sum is " << sum << '\n';
    return 0;
} catch (const std::exception &error) {
    std::cerr << "far_array: " << error.what() << '\n';
    return 1;
}
