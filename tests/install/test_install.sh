# What is installed under a prefix works from there, and from where that is moved: programs, library by pkg-config and
# by CMake, its names, manual pages, completions.
set -eu
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
unset TGRUN_WORKER
cmake --install "$BUILD_DIR" --prefix "$here/first" >/dev/null
mv "$here/first" "$here/root"
lib=$(dirname "$(find "$here/root" -name libtgrun.so)")
"$here/root/bin/tgrun" --version >/dev/null
"$here/root/bin/tgbench" --version >/dev/null
"$here/root/bin/tgrun" env >/dev/null
for page in tgrun tgbench; do
    test -s "$here/root/share/man/man1/$page.1"
    grep -q -- '\\-\\-help' "$here/root/share/man/man1/$page.1"
    test -s "$here/root/share/bash-completion/completions/$page"
done
# the names that it exports are the header's, all of one version
nm -D --defined-only --with-symbol-versions "$lib/libtgrun.so" | awk '$2 == "T" { print $3 }' | sort >"$here/exported"
sed -n '/^TG_API/s/.*[ *]\(tg_[a-z0-9_]*\)(.*/\1@@TGRUN_0.1/p' "$here/root/include/tgrun.h" | sort >"$here/declared"
diff "$here/declared" "$here/exported"
cat >"$here/main.c" <<'C'
#include <stdio.h>
#include <tgrun.h>
int main(void)
{
    TgOptions o;
    tg_options_default(&o);
    return puts(tg_version()) < 0;
}
C
${CC:-cc} "$here/main.c" -o "$here/main" $(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs tgrun)
LD_LIBRARY_PATH="$lib" "$here/main"
mkdir "$here/user"
cat >"$here/user/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(tgrun 0.1 REQUIRED)
add_executable(user ../main.c)
target_link_libraries(user PRIVATE tgrun::tgrun)
C
cmake -S "$here/user" -B "$here/user/build" -DCMAKE_PREFIX_PATH="$here/root" >/dev/null
cmake --build "$here/user/build" >/dev/null
"$here/user/build/user"
echo "what is installed works from its prefix"
