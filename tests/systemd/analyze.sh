#!/bin/bash
# What systemd itself finds in our units: verify, and the exposure that it computes from their sandboxes, which must stay below
# the bounds here. usage: tests/systemd/analyze.sh DIRECTORY_OF_CONFIGURED_UNITS. Exit code 77: there is no systemd-analyze.
set -euo pipefail
units=${1:?usage: analyze.sh DIRECTORY}

command -v systemd-analyze >/dev/null || { echo "skipped: there is no systemd-analyze"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-analyze.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The programs need not be installed for this.
for file in "$units"/kymo*.service "$units"/kymo*.socket; do
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$file" >"$work/${file##*/}"
done
status=0
output=$(SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work"/*.service "$work"/*.socket 2>&1) || status=$?
output=$(grep -F "$work" <<<"$output" || true)
[ -z "$output" ] || { echo "$output"; exit 1; }
[ $status = 0 ] || { echo "systemd-analyze verify: exit code $status"; exit 1; }

# exposure UNIT BOUND, in tenths
exposure()
{
    local line
    line=$(systemd-analyze security --offline=yes --threshold="$2" "$work/$1" 2>/dev/null | grep -F 'Overall exposure level') ||
        { echo "$1: systemd-analyze security gives no level"; exit 1; }
    echo "$line (bound ${2:0:1}.${2:1})"
    systemd-analyze security --offline=yes --threshold="$2" "$work/$1" >"$work/report" 2>&1 || { cat "$work/report"; exit 1; }
}
exposure kymod.service 28
exposure kymo-collector.service 15
if command -v systemd-sysusers >/dev/null; then
    mkdir -p "$work/root/etc"
    systemd-sysusers --root="$work/root" - <"$(dirname "$0")/../../systemd/kymo.sysusers.conf" >/dev/null
    grep -q '^kymo:' "$work/root/etc/passwd" && grep -q '^kymo-collector:' "$work/root/etc/group" ||
        { echo "the users were not made"; exit 1; }
fi
echo "analyze: passed"
