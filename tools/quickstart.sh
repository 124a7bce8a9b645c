#!/bin/bash
# From nothing to Parquet tables on one machine without Neuron hardware: installs what is needed, builds kymo, trains a
# simulated model with capture on, processes the captures and prints where the time went.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
started=$SECONDS

usage()
{
    cat <<'EOF'
usage: tools/quickstart.sh [--output DIR] [--instance TYPE] [--lnc 1|2] [--ranks N] [--steps N] [--model mlp|attention]

  --output DIR      where everything goes (default ./kymo-quickstart; what an earlier quickstart left there is replaced)
  --instance TYPE   simulated host: inf2.*, trn1.*, trn2.* or trn3.* (default trn2.48xlarge)
  --lnc N           physical cores per logical core (default 2 on Trn2 and Trn3, which alone have it; else 1)
  --ranks N         processes of the training job (default 4)
  --steps N         training steps (default 20)
  --model NAME      mlp or attention (default mlp)
  --no-install      take the packages as they are
  --programs DIR    use the programs in DIR instead of building
EOF
}

die()
{
    echo "quickstart: $*" >&2
    exit 1
}

output=$PWD/kymo-quickstart instance=trn2.48xlarge lnc="" ranks=4 steps=20 model=mlp install=1 programs=""
while [ $# -gt 0 ]; do
    case $1 in
    --output | --instance | --lnc | --ranks | --steps | --model | --programs)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2 ;;
    --no-install) install=0; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done

case $instance in
inf2.*) arch=inf2 ;;
trn1.* | trn1n.*) arch=trn1 ;;
trn2.* | trn2u.* | trn2n.*) arch=trn2 ;;
trn3.* | trn3u.* | trn3n.*) arch=trn3 ;;
*) die "--instance $instance: not an Inf2, Trn1, Trn2 or Trn3 type" ;;
esac
case $arch in trn2 | trn3) lnc_max=2 ;; *) lnc_max=1 ;; esac
: "${lnc:=$lnc_max}"
[[ $lnc =~ ^[12]$ ]] || die "--lnc $lnc: 1 or 2"
[ "$lnc" -le $lnc_max ] || die "--lnc $lnc: $instance has no logical cores of two; Trn2 and Trn3 alone do"
[[ $ranks =~ ^[1-9][0-9]{0,3}$ ]] || die "--ranks $ranks: not a number from 1 to 9999"
[[ $steps =~ ^[1-9][0-9]{0,5}$ ]] || die "--steps $steps: not a number from 1 to 999999"
[[ $model =~ ^(mlp|attention)$ ]] || die "--model $model: mlp or attention"

# Only what carries our mark is ever replaced.
mkdir -p "$output"
output=$(cd "$output" && pwd)
mark=$output/.kymo-quickstart
if [ ! -e "$mark" ] && [ -n "$(ls -A "$output")" ]; then
    die "$output is not empty and not from an earlier quickstart; choose another --output"
fi
touch "$mark"
rm -rf "${output:?}"/{neff,captures,data,truth,quickstart.log}
log=$output/quickstart.log

# Every process of this run carries this in its environment, so that those, and no others, can be found and stopped.
export KYMO_QUICKSTART_RUN=$$-$(date +%s%N)
child=""

ours()
{
    local environ pid
    for environ in /proc/[0-9]*/environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
        grep -qsza "^KYMO_QUICKSTART_RUN=$KYMO_QUICKSTART_RUN\$" "$environ" 2>/dev/null && echo "$pid"
    done
    return 0
}

stop_all()
{
    local status=$? pid tries
    trap - EXIT
    [ -z "$child" ] || kill "$child" 2>/dev/null || true
    # A second to end by themselves, then a signal to each that is left, then the last one.
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(ours)" ] || break
        [ $tries != 5 ] || for pid in $(ours); do kill "$pid" 2>/dev/null || true; done
        [ $tries != 9 ] || for pid in $(ours); do kill -9 "$pid" 2>/dev/null || true; done
        sleep 0.25
    done
    [ $status = 0 ] || echo "quickstart: failed; the programs' output is in $log" >&2
    exit $status
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say()
{
    printf '\n== %s\n' "$*"
}

# Runs a program of the run as a child that the trap can stop; its output goes to the log, and on failure its end to people.
run()
{
    printf '$ %s\n' "$*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null &
    child=$!
    local status=0
    wait "$child" || status=$?
    child=""
    [ $status = 0 ] || { tail -n 5 "$log" >&2; die "$(basename "$1") $2 ended with $status"; }
}

if [ -z "$programs" ]; then
    if [ $install = 1 ]; then
        say "packages"
        "$top/tools/install-deps.sh"
        "$top/tools/fetch-duckdb.sh"
    fi
    say "build (in $top/build-install)"
    (cd "$top" && cmake --preset install >>"$log" && cmake --build --preset install >>"$log") ||
        { tail -n 30 "$log" >&2; die "the build failed"; }
    programs=$top/build-install/bin
fi
programs=$(cd "$programs" && pwd)
ready=$SECONDS

say "a $model training step for $arch, LNC $lnc"
mkdir -p "$output/neff"
neff=$output/neff/$model.neff
run "$programs/kymo-sim" neff --model "$model" --arch "$arch" --lnc "$lnc" --output "$neff"
echo "$neff"

say "training: $ranks ranks, $steps steps on a simulated $instance"
run "$programs/kymo-sim" run --instance "$instance" --lnc "$lnc" --ranks "$ranks" --steps "$steps" --neff "$neff" \
    --output "$output" --truth "$output/truth"

say "processing the captures"
captures=0
for capture in "$output"/captures/*_pid_*/*/; do
    [ -d "$capture" ] || continue
    run "$programs/kymo" process -d "${capture%/}" --data-path "$output/data"
    captures=$((captures + 1))
done
[ $captures -gt 0 ] || die "the job left no captures in $output/captures"
profiles=("$output"/data/profiles/global/*@latest)
[ -d "${profiles[0]}" ] || die "no profile was written below $output/data"
echo "$captures captures, ${#profiles[@]} profiles"

say "time by engine and opcode in $(basename "${profiles[0]}")"
"$programs/kymo" query "${profiles[0]}" \
    'SELECT engine, opcode, count(*) AS count, sum(duration_ns)::BIGINT AS sum FROM Instruction
     GROUP BY engine, opcode ORDER BY sum DESC LIMIT 10' </dev/null

say "done in $((SECONDS - started)) s, of which $((SECONDS - ready)) s after installation"
cat <<EOF
tables    $output/data/profiles/global/*@latest/*.parquet
captures  $output/captures
truth     $output/truth (what the simulated devices really did)

  $programs/kymo verify ${profiles[0]}
  $programs/kymo query ${profiles[0]} 'SELECT * FROM Summary'
  python3 -c 'import pandas as pd; print(pd.read_parquet("${profiles[0]}/Instruction.parquet").head())'
EOF
