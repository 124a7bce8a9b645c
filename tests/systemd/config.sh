#!/bin/bash
# The installed configuration: both programs read it, and every key in it is one that they have, also those behind #.
# usage: tests/systemd/config.sh KYMOD KYMO_COLLECTOR
set -euo pipefail
kymod=${1:?usage: config.sh KYMOD KYMO_COLLECTOR} collector=${2:?}
here=$(cd "$(dirname "$0")/../../systemd" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-config.XXXXXX")
trap 'rm -rf "$work"' EXIT

# check PROGRAM FILE OPTION VALUE SAYS: with something that cannot be, a program reads the file and ends
check()
{
    local said
    sed 's/^#\([a-z[]\)/\1/' "$here/$2" >"$work/all.conf"
    ! cmp -s "$here/$2" "$work/all.conf" || { echo "$2: nothing behind #"; exit 1; }
    for file in "$here/$2" "$work/all.conf"; do
        said=$(timeout 20 "$1" --config "$file" "$3" "$4" 2>&1) && { echo "$2: $1 has started"; exit 1; }
        grep -Eq "$5" <<<"$said" || { echo "$2: $said"; exit 1; }
    done
    # The test itself: what is not known is found.
    echo 'no-such-key = 1' >>"$work/all.conf"
    said=$(timeout 20 "$1" --config "$work/all.conf" "$3" "$4" 2>&1) || true
    [[ $said == *"all.conf:"*"no such key"* ]] || { echo "$2: an unknown key was not found: $said"; exit 1; }
}
check "$kymod" kymod.conf --tls-ca /dev/null/x 'tls-ca, tls-cert and tls-key go together|^kymod: /etc/kymo/host[.]crt'
check "$collector" collector.conf --data-path /dev/null/x '/dev/null/x|/etc/kymo/collector[.]crt'
echo "config: passed"
