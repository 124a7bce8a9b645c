#!/bin/bash
# What `kymo systrace inspect` says of the golden files, against what is checked in beside them. usage: check.sh KYMO [--update]
set -u
kymo=${1:?usage: check.sh KYMO [--update]}
dir=tests/golden/systrace
failed=0
for file in "$dir"/v*/*.pb "$dir"/v*/trace.json; do
    for format in txt json; do
        options=(--events)
        [ $format = txt ] || options+=(--json)
        want=$file.$format
        got=$("$kymo" systrace inspect "$file" "${options[@]}") || { echo "$file: inspect failed"; failed=1; continue; }
        if [ "${2:-}" = --update ]; then
            printf '%s\n' "$got" >"$want"
        elif ! diff -u "$want" - <<<"$got" >/tmp/golden.$$; then
            head -40 /tmp/golden.$$
            failed=1
        fi
    done
done
rm -f /tmp/golden.$$
exit $failed
