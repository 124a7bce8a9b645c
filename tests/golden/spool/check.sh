#!/bin/bash
# Opens the spools of all versions that ever were: check and dump say what they said, repair finds nothing to do.
# usage: check.sh KYMO [--update]
set -u
kymo=$(realpath "${1:?usage: check.sh KYMO [--update]}")
golden=tests/golden/spool
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
for spool in "$golden"/v*/; do
    version=$(basename "$spool")
    cp -r "$spool" "$work/$version" && mkdir -p "$work/$version"/{staging,captures,neff}
    got=$(cd "$work" && "$kymo" spool dump "$version")
    if [ "${2:-}" = --update ]; then
        printf '%s\n' "$got" >"$golden/$version.txt"
    else
        diff -u "$golden/$version.txt" - <<<"$got" || failed=1
    fi
    "$kymo" spool check "$work/$version" || failed=1
    "$kymo" spool repair "$work/$version" || failed=1
    [ ! -d "$work/$version/cut" ] || { echo "$version: repair cut something off"; failed=1; }
    "$kymo" spool check "$work/$version" || failed=1
done
exit $failed
