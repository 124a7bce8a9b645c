#!/bin/bash
# From nothing to Parquet tables on one machine without Neuron hardware: installs what is needed, builds kymo, trains a
# simulated model with capture on, processes the captures and prints where the time went.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
started=$SECONDS

usage()
{
    cat <<'EOF'
usage: tools/quickstart.sh [OPTION]...

  --output DIR      where everything goes (default ./kymo-quickstart; what an earlier quickstart left there is replaced)
  --instance TYPE   simulated host (default trn2.48xlarge; --instance help lists them)
  --lnc 1|2         physical cores per logical core (default 2 on Trn2 and Trn3, which alone have it; else 1)
  --ranks N         processes of the training job, one on each logical core (default 4)
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

# Wrong usage is said before anything is installed, built or written.
wrong()
{
    echo "quickstart: $*" >&2
    exit 2
}

# The instance types as the programs know them: type, generation, devices, default LNC.
instances()
{
    sed -n 's/^INSTANCE("\([^"]*\)", \([A-Z0-9]*\), \([0-9]*\), \([12]\))$/\1 \2 \3 \4/p' "$top/arch/instances.def"
}

output=$PWD/kymo-quickstart instance=trn2.48xlarge lnc="" ranks=4 steps=20 model=mlp install=1 programs=""
while [ $# -gt 0 ]; do
    case $1 in
    --output | --instance | --lnc | --ranks | --steps | --model | --programs)
        [ $# -ge 2 ] || wrong "$1 needs a value; see --help"
        declare "${1#--}=$2"
        shift 2 ;;
    --no-install) install=0; shift ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "$1: no such option; see --help" ;;
    esac
done

[ "$instance" != help ] || { instances | cut -d' ' -f1; exit 0; }
read -r known arch devices lnc_default < <(instances | awk -v type="$instance" 'tolower($1) == tolower(type)') ||
    wrong "--instance $instance: not one of" $(instances | cut -d' ' -f1)
instance=$known
arch=${arch,,}
cores=$((devices * $(sed -n 's/^ *\.pcores_per_device = \([0-9]*\),.*/\1/p' "$top/arch/arch_$arch.c")))
: "${lnc:=$lnc_default}"
[[ $lnc =~ ^[12]$ ]] || wrong "--lnc $lnc: 1 or 2"
[ "$lnc" -le "$lnc_default" ] ||
    wrong "--lnc $lnc: $instance has no logical cores of two physical ones; Trn2 and Trn3 alone have them"
cores=$((cores / lnc))
[[ $ranks =~ ^[1-9][0-9]{0,5}$ ]] || wrong "--ranks $ranks: not a number from 1 to $cores"
[ "$ranks" -le $cores ] || wrong "--ranks $ranks: $instance has $cores logical cores with LNC $lnc, and each rank takes one"
[[ $steps =~ ^[1-9][0-9]{0,5}$ ]] || wrong "--steps $steps: not a number from 1 to 999999"
[[ $model =~ ^(mlp|attention)$ ]] || wrong "--model $model: mlp or attention"
[ -n "$output" ] || wrong "--output: no directory"
[ -z "$programs" ] || [ -x "$programs/kymo" ] || wrong "--programs $programs: no kymo in it"

# Only what carries our mark is ever replaced.
mkdir -p "$output"
output=$(cd "$output" && pwd)
mark=$output/.kymo-quickstart
if [ ! -e "$mark" ] && [ -n "$(ls -A "$output")" ]; then
    wrong "--output $output: not empty and not from an earlier quickstart; choose another --output"
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
run "$programs/kymo-sim" run --instance "$instance" --lnc "$lnc" --ranks "$ranks" --steps "$steps" --dge 1 \
    --neff "$neff" --output "$output" --truth "$output/truth"

say "processing the captures"
# Rank r has logical core r, which the names of its files tell; the runtime's own layout knows no ranks.
captures=0
for capture in "$output"/captures/*_pid_*/*/; do
    ntff=("$capture"*_vnc_*.ntff)
    [ -e "${ntff[0]}" ] || continue
    rank=${ntff[0]##*_vnc_}
    run "$programs/kymo" process -d "${capture%/}" --data-path "$output/data" --display-name "$model-r${rank%.ntff}"
    captures=$((captures + 1))
done
[ $captures = "$ranks" ] || die "$captures captures of $ranks ranks in $output/captures"
profiles=("$output"/data/profiles/global/*@latest)
[ ${#profiles[@]} = "$ranks" ] || die "${#profiles[@]} profiles of $ranks ranks below $output/data"
first=$output/data/profiles/global/$model-r0@latest
echo "$captures captures, ${#profiles[@]} profiles"

say "time by engine and opcode in $(basename "$first")"
"$programs/kymo" query "$first" \
    'SELECT engine, opcode, count(*) AS count, sum(duration_ns)::BIGINT AS sum FROM Instruction
     GROUP BY engine, opcode ORDER BY sum DESC, engine, opcode LIMIT 10' </dev/null

# 1: what the device emitted is neither in the tables nor in the ledger. 3: losses that nobody can count.
say "is every record accounted for?"
for profile in "${profiles[@]}"; do
    status=0
    verdict=$("$programs/kymo" verify "$profile" </dev/null 2>>"$log") || status=$?
    printf '%s\n' "$verdict" >>"$log"
    echo "$(basename "$profile"): ${verdict##*$'\n'}"
    [ $status = 0 ] || [ $status = 3 ] || die "kymo verify $profile ended with $status"
done

say "done in $((SECONDS - started)) s, of which $((SECONDS - ready)) s after installation"
cat <<END
tables    $output/data/profiles/global/*@latest/*.parquet
captures  $output/captures
truth     $output/truth (what the simulated devices really did)
log       $log

  $programs/kymo verify $first
  $programs/kymo query $first 'SELECT * FROM Summary'
  python3 -c 'import pandas as pd; print(pd.read_parquet("$first/Instruction.parquet").head())'
END
