# Programs that were built with released.h, the header of the last release, go on with this library: abidiff compares
# the functions and types of the two headers. At a release released.h becomes a copy of include/tgrun.h.
set -eu
type abidiff >/dev/null 2>&1 || { echo "skipped: abidiff (abigail-tools) is not here"; exit 0; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# library HEADER NAME: one with the header's ABI, whose functions do nothing
library() {
    mkdir "$here/$2"
    cp "$1" "$here/$2/tgrun.h"
    {
        echo '#include "tgrun.h"'
        awk '/^TG_API/ { on = 1; text = "" }
             on { text = text " " $0 }
             on && /;/ { sub(/;.*/, "", text); sub(/TG_API /, "", text); print text " { __builtin_trap(); }"; on = 0 }' "$1"
    } >"$here/$2/abi.c"
    ${CC:-cc} -g -shared -fPIC "$here/$2/abi.c" -o "$here/$2/libtgrun.so.0" -Wl,-soname,libtgrun.so.0 -Wl,--version-script=cmake/tgrun.map
}

# same OLD NEW: nothing that old programs use has changed; what is new they do not use
same() { abidiff --no-added-syms --suppressions tests/install/released.abignore "$here/$1/libtgrun.so.0" "$here/$2/libtgrun.so.0" >"$here/said"; }

library tests/install/released.h released
library include/tgrun.h now
same released now || { cat "$here/said"; exit 1; }

# changed NAME SED: such a change is found
changed() {
    sed "$2" tests/install/released.h >"$here/$1.h"
    library "$here/$1.h" "$1"
    ! same released "$1" || { echo "$1 goes unnoticed"; exit 1; }
}
changed moved 's/^    int32_t batch;/    int32_t more;\n&/'
changed removed '/^TG_API int32_t tg_type_covered/d'
changed retyped 's/^TG_API int32_t tg_type_covered(TgType/TG_API int32_t tg_type_covered(int64_t/'
changed smaller 's/reserved\[26\]/reserved[20]/'
sed 's/^    int64_t reserved\[26\];/    int64_t added;\n    int64_t reserved[25];/' tests/install/released.h >"$here/added.h"
library "$here/added.h" added
same released added || { echo "a field in the room of reserved is refused"; cat "$here/said"; exit 1; }
echo "programs that were built with the last release's header go on"
