#!/bin/bash
# clang-tidy and cppcheck over our C, at zero warnings. usage: analyse.sh BUILD_DIR [FILE...]
# BUILD_DIR is configured and built (generated headers, compile_commands.json). Files that passed are remembered there by a
# hash of all C text of the tree, so that a second run costs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:?usage: analyse.sh BUILD_DIR [FILE...]}
shift
[ -f "$build/compile_commands.json" ] || { echo "analyse: $build has no compile_commands.json" >&2; exit 2; }
jobs=$(nproc)

# Only what is compiled in this build can be looked at.
mapfile -t files < <(/usr/bin/python3 - "$build" "$@" <<'EOF'
import json, os, sys
top, build, only = os.getcwd(), sys.argv[1], set(sys.argv[2:])
names = {os.path.relpath(os.path.join(e["directory"], e["file"]), top) for e in json.load(open(build + "/compile_commands.json"))}
print("\n".join(sorted(n for n in names if not n.startswith(("..", "build")) and (not only or n in only))))
EOF
)
[ -n "${files[0]:-}" ] || { echo "analyse: no files" >&2; exit 2; }

state=$({ git ls-files -z -co --exclude-standard -- '*.c' '*.h' '*.proto' '*.tsv' | xargs -0 sha256sum; sha256sum .clang-tidy tools/check/analyse.sh; } |
    sha256sum | cut -d' ' -f1)
stamp=$build/analysed-${state:0:16}
if [ $# = 0 ] && [ -e "$stamp" ]; then
    echo "analyse: ${#files[@]} files, unchanged since they passed"
    exit 0
fi

status=0
# clang does not know every warning option of gcc, and counts more into one of them (cmake/options.cmake).
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$jobs" \
    clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-sign-conversion 2>/dev/null || status=1

# The first two and internalAstError (statement expressions) speak about cppcheck itself; readdir_r, which it wants instead of readdir, is deprecated.
# cppcheck does not read system headers: it is told what the macros in them mean, without which our text makes no sense.
macros=$(mktemp)
trap 'rm -f "$macros"' EXIT
cat >"$macros" <<'EOF'
#define PROTOBUF_C_VERSION_NUMBER 1004001
#define PROTOBUF_C_MIN_COMPILER_VERSION 1000000
#define PROTOBUF_C__BEGIN_DECLS
#define PROTOBUF_C__END_DECLS
#define json_array_foreach(array, i, value) for (i = 0; (value = json_array_get(array, i)); i++)
#define json_object_foreach(object, key, value) for (key = json_key(object); (value = json_value(key)); key = json_next(key))
EOF
cppcheck --quiet --error-exitcode=1 -j "$jobs" --std=c11 --language=c --enable=warning,portability \
    --inline-suppr --suppress=missingIncludeSystem --suppress=unmatchedSuppression --suppress=readdirCalled \
    --suppress=internalAstError \
    --library=posix,gnu -D_GNU_SOURCE -DKYMO_VERSION='""' --include="$macros" -I . -I "$build/generated" "${files[@]}" || status=1

if [ $status = 0 ]; then
    [ $# != 0 ] || touch "$stamp"
    echo "analyse: ${#files[@]} files, no warnings"
else
    echo "analyse: there are warnings"
fi
exit $status
