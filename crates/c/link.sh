#!/bin/sh
# Makes the shared library of the archive that `cargo build --release` makes: link.sh ARCHIVE LIBRARY
#
# rustc gives a shared library of its own an anonymous version, beside which linkers allow no other. So the linker is called here.
set -eu
here=$(dirname "$0")
exec "${CC:-cc}" -shared -o "$2" \
    -Wl,-soname,liboutboard.so.0 -Wl,--version-script="$here/outboard.map" \
    -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,relro,-z,now -Wl,-z,nodelete \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm -lc
