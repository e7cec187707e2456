# What the scripts share: where things are, system packages, the Python environment, the build. Sourced by bash.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Debian 12 and Ubuntu 24.04; installed only when something is missing.
packages="gcc cmake ninja-build pkg-config python3 python3-venv protobuf-c-compiler libprotobuf-c-dev libjansson-dev libzip-dev zlib1g-dev libsqlite3-dev libxxhash-dev libpcre2-dev libsodium-dev libcmocka-dev"

install_packages() {
    local missing=() p
    for p in $packages; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return
    # What is there by other means (a compiler that somebody built) counts too.
    if type gcc cmake ninja pkg-config python3 protoc-c >/dev/null 2>&1 && pkg-config --exists libprotobuf-c jansson libzip zlib sqlite3 libxxhash libpcre2-8 libsodium cmocka && python3 -c 'import ensurepip, venv'; then return; fi
    apt_update
    apt_install "${missing[@]}"
}

apt_update() { $(as_root) apt-get update -qq; }
apt_install() {
    echo "installing system packages: $*" >&2
    DEBIAN_FRONTEND=noninteractive $(as_root) apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}
as_root() { [ "$(id -u)" = 0 ] || echo sudo -E; }

# A library to open at run time, then the names that its package has here or there.
media="libturbojpeg.so.0 libturbojpeg0 libturbojpeg
libpng16.so.16 libpng16-16 libpng16-16t64
libwebp.so.7 libwebp7
libtiff.so.6 libtiff6
libopenjp2.so.7 libopenjp2-7
libsndfile.so.1 libsndfile1
libsamplerate.so.0 libsamplerate0"

# The libraries of pictures and recordings, for the tests of what decodes files.
install_media() {
    local library names name missing=() there
    there=$(/sbin/ldconfig -p)
    while read -r library names; do
        [[ $there == *"$library "* ]] || missing+=("$names")
    done <<<"$media"
    [ ${#missing[@]} -eq 0 ] && return
    apt_update
    for names in "${missing[@]}"; do
        for name in $names; do
            ! apt-cache show "$name" >/dev/null 2>&1 || { apt_install "$name"; break; }
        done
    done
}

# A browser that shows tgbench's page to its test, where the system has one as a package.
install_browser() {
    if type chromium >/dev/null 2>&1 || type chromium-browser >/dev/null 2>&1 || type google-chrome >/dev/null 2>&1; then return; fi
    [ -n "$(apt-cache policy chromium 2>/dev/null | sed -n '/Candidate: [0-9]/p')" ] || return 0
    apt_install chromium fonts-dejavu-core || echo "chromium could not be installed: its test is skipped" >&2
}

# What compares two versions of an interface.
install_abidiff() {
    if type abidiff >/dev/null 2>&1; then return; fi
    apt_update
    [ -n "$(apt-cache policy abigail-tools 2>/dev/null | sed -n '/Candidate: [0-9]/p')" ] || return 0
    apt_install abigail-tools || echo "abigail-tools could not be installed: the test of the ABI is skipped" >&2
}

# What builds C source in its tests: make, and a compiler without vector types where the system has one as a package.
install_tcc() {
    if type make tcc >/dev/null 2>&1; then return; fi
    type make >/dev/null 2>&1 || { apt_update; apt_install make; }
    [ -n "$(apt-cache policy tcc 2>/dev/null | sed -n '/Candidate: [0-9]/p')" ] || return 0
    apt_install tcc || echo "tcc could not be installed: C source is built with gcc alone" >&2
}

# What starts several processes as ranks of one job.
install_mpi() {
    if type mpirun >/dev/null 2>&1; then return; fi
    apt_update
    [ -n "$(apt-cache policy openmpi-bin 2>/dev/null | sed -n '/Candidate: [0-9]/p')" ] || return 0
    apt_install openmpi-bin || echo "openmpi-bin could not be installed: the test of ranks is skipped" >&2
}

# python: the private environment's interpreter, unless TGRUN_PYTHON names one that has the packages.
python_environment() {
    if [ -z "${TGRUN_PYTHON:-}" ]; then
        scripts/python-env build/.venv
        export TGRUN_PYTHON="$root/build/.venv/bin/python"
    fi
    python=$TGRUN_PYTHON
}

# RAY_PYTHON: an interpreter that has Ray Serve, for the test of the examples that serve models; in an environment of
# its own, since its packages are many and nothing else needs them.
ray_environment() {
    [ -z "${RAY_PYTHON:-}" ] || return 0
    if [ ! -e build/.ray/made ]; then
        echo "making the Python environment of Ray Serve (once)" >&2
        python3 -m venv build/.ray
        build/.ray/bin/python -m pip install --quiet --disable-pip-version-check -c scripts/requirements.txt \
            numpy "ray[serve]==2.60.0" &&
            touch build/.ray/made || echo "ray could not be installed: the test of its example fails" >&2
    fi
    export RAY_PYTHON="$root/build/.ray/bin/python"
}

# PROGRAMS_PYTHON: an interpreter that has the programs of tests/python/programs.txt, in an environment of their own.
programs_environment() {
    [ -z "${PROGRAMS_PYTHON:-}" ] || return 0
    if [ ! -e build/.programs/made ]; then
        echo "making the Python environment of programs written for onnxruntime (once)" >&2
        python3 -m venv build/.programs
        build/.programs/bin/python -m pip install --quiet --disable-pip-version-check -r tests/python/programs.txt &&
            touch build/.programs/made || echo "programs could not be installed: the test of them fails" >&2
    fi
    export PROGRAMS_PYTHON="$root/build/.programs/bin/python"
}

# build PRESET [TARGET..]: configured once, then what changed.
build() {
    [ -e "build/$1/build.ninja" ] || cmake --preset "$1" >/dev/null
    cmake --build --preset "$1" ${2:+--target "${@:2}"} -- --quiet >"build/$1/build.log" 2>&1 || { cat "build/$1/build.log" >&2; exit 1; }
}
