#!/bin/sh
# Make the virtual environment DIR, unless a working one is there.
#
# Usage: venv.sh DIR. The interpreter is $PYTHON, or else the first suitable one that is found.
set -eu

dir=$1
minimum='(3, 11)'

if "$dir/bin/python" -c "import sys, pip; sys.exit(sys.version_info < $minimum)" 2>/dev/null; then
    exit 0
fi

found=
unable=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    version=$("$candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    if ! "$candidate" -c "import sys; sys.exit(sys.version_info < $minimum)"; then
        unable="$unable
  $candidate is Python $version: too old"
    elif ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        unable="$unable
  $candidate is Python $version, but cannot make virtual environments (on Debian and Ubuntu: apt-get install python3-venv)"
    else
        found=$candidate
        break
    fi
done

if [ -z "$found" ]; then
    {
        echo "No suitable Python: version 3.11 or newer with the venv module is needed."
        echo "Looked for: ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}$unable"
        echo "Install one, or name it: PYTHON=/path/to/python3 make ..."
    } >&2
    exit 1
fi

echo "Making $dir with $found (Python $version)"
"$found" -m venv --clear "$dir"
