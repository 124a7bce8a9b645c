#!/bin/bash
# From nothing to Parquet tables on one machine without Neuron hardware: installs what is needed, builds kymo, starts a
# collector and a daemon on loopback, trains a simulated model that knows nothing of kymo but LD_PRELOAD and KYMO_SOCKET,
# has steps of it captured by policy and on demand, and prints where the time went. With --serve it builds the viewer too.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
started=$SECONDS

usage()
{
    cat <<'EOF'
usage: tools/quickstart.sh [OPTION]...

  --output DIR      where everything goes (default ./kymo-quickstart, or ./kymo-quickstart-2 and so on while others run;
                    what an earlier quickstart left there is replaced)
  --instance TYPE   simulated host (default trn2.48xlarge; --instance help lists them)
  --lnc 1|2         physical cores per logical core (default 2 on Trn2 and Trn3, which alone have it; else 1)
  --ranks N         processes of the training job, one on each logical core (default 4); of allreduce 2 to 64
  --steps N         training steps, at least 8 (default 20)
  --model NAME      mlp, attention or allreduce (default mlp)
  --no-install      take the packages as they are
  --programs DIR    use the programs in DIR instead of building
  --serve           build the viewer too (Node 18 or later; Debian's where there is none), leave collector and daemon
                    running until Ctrl-C, and print the address at which the viewer shows what was made
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

output="" instance=trn2.48xlarge lnc="" ranks=4 steps=20 model=mlp install=1 programs="" serve=0
while [ $# -gt 0 ]; do
    case $1 in
    --output | --instance | --lnc | --ranks | --steps | --model | --programs)
        [ $# -ge 2 ] || wrong "$1 needs a value; see --help"
        [ -n "$2" ] || wrong "$1: empty"
        declare "${1#--}=$2"
        shift 2 ;;
    --no-install) install=0; shift ;;
    --serve) serve=1; shift ;;
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
[[ $steps =~ ^[1-9][0-9]{0,5}$ ]] && [ "$steps" -ge 8 ] || wrong "--steps $steps: not a number from 8 to 999999"
[[ $model =~ ^(mlp|attention|allreduce)$ ]] || wrong "--model $model: mlp, attention or allreduce"
# A program with collectives is made for its number of ranks.
program=()
if [ "$model" = allreduce ]; then
    [ "$ranks" -ge 2 ] && [ "$ranks" -le 64 ] || wrong "--ranks $ranks: allreduce runs on 2 to 64"
    program=(--ranks "$ranks")
fi
[ -z "$programs" ] || [ -x "$programs/kymo" ] || wrong "--programs $programs: no kymo in it"

# claim DIR: makes it our output. 1: a quickstart that still runs, or programs it left, have it. The lock is on our mark and
# goes with the last process of the run.
claim()
{
    mkdir -p "$1" && output=$(cd "$1" && pwd) || wrong "--output $1: cannot be made"
    mark=$output/.kymo-quickstart
    # Only what carries our mark is ever replaced.
    if [ ! -e "$mark" ] && [ -n "$(ls -A "$output")" ]; then
        wrong "--output $output: not empty and not from an earlier quickstart; choose another --output"
    fi
    exec 9>>"$mark"
    flock -n 9
}

if [ -n "$output" ]; then
    claim "$output" || wrong "--output $output: in use by another quickstart; stop it, or choose another --output"
else
    claim "$PWD/kymo-quickstart" || for number in 2 3 4 5 6 7 8 9; do
        ! claim "$PWD/kymo-quickstart-$number" || break
        [ $number != 9 ] || wrong "nine quickstarts run in $PWD; stop one, or choose another --output"
    done
fi
sockets=$output/sockets
[ "$(printf %s "$sockets/control.sock" | wc -c)" -le 107 ] || wrong "--output $output: too long for the name of a socket in it"
rm -rf "${output:?}"/{neff,captures,data,truth,host,sockets,sysfs,collector.ports} "$output"/{quickstart,collector,daemon,demand,job}.log "$output"/{status,profiles}.txt
log=$output/quickstart.log

# Every process of this run carries this in its environment, so that those, and no others, can be found and stopped.
export KYMO_QUICKSTART_RUN=$$-$(date +%s%N)
declare -A pids=() # of what is running, by name

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
    local status=$? name tries pid
    trap - EXIT
    for name in program job daemon collector; do
        [ -z "${pids[$name]:-}" ] || kill "${pids[$name]}" 2>/dev/null || true
    done
    # A second to end by themselves, then a signal to each that is left, then the last one.
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(ours)" ] || break
        [ $tries != 5 ] || for pid in $(ours); do kill "$pid" 2>/dev/null || true; done
        [ $tries != 9 ] || for pid in $(ours); do kill -9 "$pid" 2>/dev/null || true; done
        sleep 0.25
    done
    [ $status = 0 ] || echo "quickstart: failed; the programs' output is in $output/*.log" >&2
    exit $status
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say()
{
    printf '\n== %s\n' "$*"
}

# start NAME LOG COMMAND...: a child that the trap can stop; its output goes to the log.
start()
{
    local name=$1 to=$2
    shift 2
    printf '$ %s\n' "$*" >>"$to"
    "$@" >>"$to" 2>&1 </dev/null &
    pids[$name]=$!
}

# failed LOG TEXT: the log's end to people.
failed()
{
    tail -n 5 "$1" >&2
    die "$2"
}

# finish NAME LOG TEXT: waits for a child, which must end well.
finish()
{
    local status=0
    wait "${pids[$1]}" || status=$?
    unset "pids[$1]"
    [ $status = 0 ] || failed "$2" "$3 ended with $status"
}

run()
{
    start program "$log" "$@"
    finish program "$log" "$(basename "$1") $2"
}

# Collector and daemon are to run all the time.
check_running()
{
    local name status
    for name in collector daemon; do
        [ -n "${pids[$name]:-}" ] && ! kill -0 "${pids[$name]}" 2>/dev/null || continue
        status=0
        wait "${pids[$name]}" || status=$?
        unset "pids[$name]"
        failed "$output/$name.log" "the $name ended with $status"
    done
}

# until_true SECONDS WHAT COMMAND...
until_true()
{
    local until=$((SECONDS + $1)) what=$2
    shift 2
    while ! "$@"; do
        check_running
        [ $SECONDS -lt $until ] || die "waited too long for $what"
        sleep 0.1
    done
}

# Is there a Node that builds the viewer? The build takes the first one of PATH, too.
has_node()
{
    local version
    command -v npm >/dev/null && version=$(node --version 2>/dev/null) && version=${version#v} && [ "${version%%.*}" -ge 18 ]
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
    if [ $serve = 1 ]; then
        has_node || die "the viewer needs npm and Node 18 or later; found: $(command -v node npm | xargs) $(node --version 2>&1 || true)"
        echo "viewer, by Node $(node --version)"
        (cd "$top" && cmake --build --preset install --target viewer >>"$log" 2>&1) ||
            { tail -n 30 "$log" >&2; die "the viewer's build failed"; }
    fi
    programs=$top/build-install/bin
fi
programs=$(cd "$programs" && pwd)
hook=$(find "$programs/../lib" -maxdepth 3 -name libkymo-hook.so 2>/dev/null | head -1)
[ -n "$hook" ] || die "no libkymo-hook.so below $(dirname "$programs")/lib"
hook=$(realpath "$hook")
ready=$SECONDS

say "a $model training step for $arch, LNC $lnc"
mkdir -p "$output/neff"
neff=$output/neff/$model.neff
run "$programs/kymo-sim" neff --model "$model" --arch "$arch" --lnc "$lnc" "${program[@]}" --output "$neff"
echo "$neff"

say "collector and daemon on loopback"
mkdir -p "$sockets" "$output/sysfs"
start collector "$output/collector.log" "$programs/kymo-collector" --data-path "$output/data" --listen 127.0.0.1:0 \
    --http 127.0.0.1:0 --ports-file "$output/collector.ports"
until_true 30 "the collector to be ready" test -s "$output/collector.ports"
uplink=127.0.0.1:$(sed -n 's/^uplink=//p' "$output/collector.ports")
url=http://127.0.0.1:$(sed -n 's/^http=//p' "$output/collector.ports")

# The job is paced to last some seconds, so that captures come three seconds, or three eighths of its time, apart.
step_ms=$((8000 / steps))
[ $step_ms -ge 10 ] || step_ms=10
period=$((steps * step_ms * 3 / 8000))
[ $period -ge 3 ] || period=3
start daemon "$output/daemon.log" "$programs/kymod" --data-dir "$output/host" --socket-dir "$sockets" --sysfs "$output/sysfs" \
    --collector "$uplink" --metrics 127.0.0.1:0 --period $period --jitter 0
until_true 30 "the daemon's sockets" test -S "$sockets/hook.sock" -a -S "$sockets/control.sock"
echo "collector at $url and, for daemons, $uplink; daemon at $sockets: a capture of each rank every $period s"

say "training: $ranks ranks, $steps steps on a simulated $instance"
job=$output/job.log
start job "$job" env LD_PRELOAD="$hook" KYMO_SOCKET="$sockets" "$programs/kymo-sim" run --mode none --instance "$instance" \
    --lnc "$lnc" --ranks "$ranks" --steps "$steps" --step-ms $step_ms --dge 1 --neff "$neff" --output "$output" \
    --truth "$output/truth" --sysfs "$output/sysfs"

job_steps()
{
    [ "$(grep -c '^rank [0-9]* step 1:' "$job" || true)" -ge "$ranks" ] || ! kill -0 "${pids[job]}" 2>/dev/null
}
until_true 120 "the training's first steps" job_steps
kill -0 "${pids[job]}" 2>/dev/null || finish job "$job" "kymo-sim run"
start program "$output/demand.log" "$programs/kymo" capture --socket "$sockets" --wait=120
finish program "$output/demand.log" "kymo capture"
demanded=$(grep -c ' sent$' "$output/demand.log") || failed "$output/demand.log" "no capture came on demand"
printf 'on demand, by kymo capture --wait:\n%s\n\n' "$(grep ' sent$' "$output/demand.log")"
"$programs/kymo" status --socket "$sockets" </dev/null

# As long as the job takes, which --steps tells.
while kill -0 "${pids[job]}" 2>/dev/null; do
    check_running
    sleep 0.2
done
finish job "$job" "kymo-sim run"

say "from the daemon's spool to the collector's tables"
all_sent()
{
    "$programs/kymo" status --socket "$sockets" </dev/null >"$output/status.txt" 2>>"$log" ||
        failed "$log" "kymo status ended with $?"
    grep -q ' 0 under-way,' "$output/status.txt" && grep -q ' 0 captures to send$' "$output/status.txt"
}
until_true 120 "the daemon to send its captures" all_sent
sent=$(sed -n 's/.*[ ,]\([0-9]*\) sent\(,.*\|$\)/\1/p' "$output/status.txt" | head -1)
list=("$programs/kymo" profiles --collector "$url")
all_made()
{
    "${list[@]}" </dev/null >"$output/profiles.txt" 2>>"$log" || failed "$log" "kymo profiles ended with $?"
    ! grep -q '^[^ ]* failed' "$output/profiles.txt" || failed "$output/profiles.txt" "a capture became no profile"
    [ "$(grep -c '^[^ ]* ready ' "$output/profiles.txt" || true)" -ge "$sent" ]
}
until_true $((60 + 2 * sent)) "the collector to make the profiles" all_made
# Those of captures: what kymo-gather made of several has the table Member.
profiles=()
for profile in "$output"/data/profiles/global/*@latest; do
    [ -e "$profile/Member.parquet" ] || profiles+=("$profile")
done
[ ${#profiles[@]} = "$sent" ] || die "${#profiles[@]} profiles of $sent captures below $output/data"
[ "$sent" -gt "$demanded" ] || die "the daemon captured nothing by policy; see $output/daemon.log"
# The one of rank 0 that came on demand.
first=$(printf '%s\n' "${profiles[@]}" | sed -n '/-r0-d-/{p;q}')
[ -n "$first" ] || die "no profile of rank 0's capture on demand below $output/data"
echo "$sent captures, $demanded of them on demand; ${#profiles[@]} profiles"

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
captures  $output/data/raw/captures, their programs beside it in raw/neff; kymo process -d makes tables of any of them again
truth     $output/truth (what the simulated devices really did)
logs      $output/*.log

  $programs/kymo profiles --data-path $output/data
  $programs/kymo verify $first
  $programs/kymo query $first 'SELECT * FROM Summary'
  python3 -c 'import pandas as pd; print(pd.read_parquet("$first/Instruction.parquet").head())'
END
[ $serve = 1 ] || exit 0

say "collector and daemon go on until Ctrl-C, or kill $$"
viewer=$url/#/profile/$(basename "$first" @latest)
[ -e "$programs/../share/kymo/viewer/index.html" ] || viewer="$url/ says how to have it; it is not with these programs"
cat <<END
viewer    $viewer
API       $url/api/v1/
uplink    $uplink

  KYMO_SOCKET=$sockets LD_PRELOAD=$hook PROGRAM...
  $programs/kymo status --socket $sockets
  $programs/kymo profiles --collector $url
END
trap 'exit 0' INT TERM HUP
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && command -v xdg-open >/dev/null && [ "${viewer%% *}" = "$viewer" ]; then
    xdg-open "$viewer" >/dev/null 2>&1 </dev/null 9>&- || true
fi
while check_running; do
    sleep 0.2
done
