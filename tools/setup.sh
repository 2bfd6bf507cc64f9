#!/usr/bin/env bash
# Creates .venv from requirements.lock with this checkout installed as editable. If nothing changed, it only compares a stamp and exits.
#
# PYTHON names the interpreter to use (3.11 or later), SPINDLE_CACHE the folder for tools that all checkouts share
# (default ~/.cache/spindle).
set -euo pipefail
cd "$(dirname "$0")/.."

uv_version=0.13.9
cache=${SPINDLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spindle}
uv=$cache/tools/uv-$uv_version/bin/uv
stamp=.venv/.made-from

wanted=$({ pwd; echo "${PYTHON:-}"; cat requirements.lock pyproject.toml tools/setup.sh; } | sha256sum)
if [[ -x .venv/bin/python && -r $stamp && $(<"$stamp") == "$wanted" ]]; then
    exit 0
fi

say() { echo "setup: $*"; }

usable() { # whether an interpreter is new enough and can create environments
    command -v "$1" >/dev/null && "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local name
    for name in ${PYTHON:-python3.11 python3.12 python3.13 python3 /usr/bin/python3}; do
        if usable "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

if ! python=$(find_python); then
    if [[ -n ${PYTHON:-} ]]; then
        say "PYTHON=$PYTHON is not Python 3.11 or later with the venv module" >&2
        exit 1
    fi
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        say "please install Python 3.11 or later with its venv module (Debian: python3 python3-venv)" >&2
        exit 1
    fi
    say "installing python3 python3-venv"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null
    python=$(find_python) || {
        say "this system's python3 is older than 3.11; set PYTHON to a newer interpreter" >&2
        exit 1
    }
fi

started=$SECONDS
if ! [[ -x $uv ]]; then
    say "installing uv $uv_version into ${uv%/bin/uv}"
    mkdir -p "$cache/tools"
    new=$(mktemp -d "$cache/tools/uv.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    "$python" -m venv "$new"
    "$new/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
    # Moved only when complete, so that an interrupted call leaves no incomplete installation that looks ready.
    rm -rf "${uv%/bin/uv}"
    mv -T "$new" "${uv%/bin/uv}"
fi

if ! [[ -x .venv/bin/python ]] || ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "creating .venv with $("$python" --version) ($python)"
    "$uv" venv --quiet --clear --python "$python" .venv
fi
rm -f "$stamp"
say "installing the packages of requirements.lock"
VIRTUAL_ENV=$PWD/.venv "$uv" pip sync --quiet --require-hashes requirements.lock
VIRTUAL_ENV=$PWD/.venv "$uv" pip install --quiet --no-deps --editable .
ln -sfn "$uv" .venv/bin/uv
echo "$wanted" >"$stamp"
say "ready after $((SECONDS - started)) s"
