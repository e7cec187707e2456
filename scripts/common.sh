# What the scripts share: where things are, system packages, the Python environment, the build. Sourced by bash.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Debian 12 and Ubuntu 24.04; installed only when something is missing.
packages="gcc cmake ninja-build pkg-config python3 python3-venv protobuf-c-compiler libprotobuf-c-dev libjansson-dev libzip-dev zlib1g-dev libsqlite3-dev libxxhash-dev libcmocka-dev"

install_packages() {
    local missing=() p
    for p in $packages; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return
    # What is there by other means (a compiler that somebody built) counts too.
    if type gcc cmake ninja pkg-config python3 protoc-c >/dev/null 2>&1 && pkg-config --exists libprotobuf-c jansson libzip zlib sqlite3 libxxhash cmocka && python3 -c 'import ensurepip, venv'; then return; fi
    echo "installing system packages: ${missing[*]}" >&2
    local sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

# python: the private environment's interpreter, unless TGRUN_PYTHON names one that has the packages.
python_environment() {
    if [ -z "${TGRUN_PYTHON:-}" ]; then
        scripts/python-env build/.venv
        export TGRUN_PYTHON="$root/build/.venv/bin/python"
    fi
    python=$TGRUN_PYTHON
}

# build PRESET [TARGET..]: configured once, then what changed.
build() {
    [ -e "build/$1/build.ninja" ] || cmake --preset "$1" >/dev/null
    cmake --build --preset "$1" ${2:+--target "${@:2}"} -- --quiet >"build/$1/build.log" 2>&1 || { cat "build/$1/build.log" >&2; exit 1; }
}
