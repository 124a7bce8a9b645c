# The steps of nspawn.sh. Sourced. Each runs with "set -e": the first failing command ends it, and its output is shown.

# A training unit as people have it, and its program.
train_unit()
{
    cat <<UNIT
[Unit]
Description=training
[Service]
Type=exec
User=trainer
Slice=training.slice
StateDirectory=train
Environment=LD_PRELOAD=/usr/lib/libtrainer.so
Environment=KYMO_JOB=llama
$1
ExecStart=/usr/bin/kymo-sim run --instance trn2.48xlarge --lnc 1 --neff /srv/step.neff --mode none --steps 1000000 --step-ms 100 --output /var/lib/train/out
StandardOutput=null
UNIT
}

# until SECONDS COMMAND: waits for a command inside to succeed
until_inside()
{
    local end=$((SECONDS + $1))
    until inside "$2"; do
        [ $SECONDS -lt $end ] || { echo "not within $1 s: $2"; return 1; }
        sleep 0.3
    done
}

# A failing "! command" would not end a step.
not() { ! "$@"; }

# What drop-ins may leave behind.
traces()
{
    inside 'find /etc/systemd /run/systemd/system /run/systemd/user /home -path "*/kymo*" -prune -o -printf "%p %y %m %u %s %l\n" | sort'
}

main_pid() { inside "systemctl show -P MainPID $1"; }

# The pid of the rank: the process with a runtime.
rank_pid() { inside 'pgrep -u trainer -n -f "kymo-sim"'; }

hook_is_in() { inside "grep -q libkymo-hook /proc/$1/maps"; }

# ID of a capture that has been sent to the collector.
capture()
{
    as watcher "kymo capture --wait=60 ${1:-}" | awk '$2 == "sent" {print $1; found = 1} END {exit !found}'
}

# profile_of ID: until its profile is ready
profile_of()
{
    [ -n "$1" ]
    until_inside 60 "kymo profiles --data-path /var/lib/kymo-collector | grep -F '$1' | grep -qw 'ready\|failed'"
    inside "kymo profiles --data-path /var/lib/kymo-collector | grep -F '$1'" | tee "$work/profile.txt"
    grep -qw ready "$work/profile.txt"
}

step_units()
{
    inside 'systemd-sysusers && systemd-tmpfiles --create && usermod -aG kymo watcher && systemctl daemon-reload && systemctl reload dbus'
    inside 'kymo-sim neff --model mlp --arch trn2 --output /srv/step.neff && chmod 644 /srv/step.neff'
    # A library that the training preloads by itself.
    gcc -shared -fPIC -o "$run/usr/lib/libtrainer.so" -x c - <<<'extern int trainer; int trainer;'
    train_unit '' >"$run/etc/systemd/system/train.service"
    inside 'printf "collector = 127.0.0.1:3002\nperiod = 0\n" >>/etc/kymo/kymod.conf'
    inside 'systemctl daemon-reload && systemctl preset kymod.service kymod.socket kymod-control.socket kymo-collector.service'
    inside '! systemctl is-enabled kymo-collector && systemctl is-enabled kymod kymod.socket kymod-control.socket'
    inside 'systemctl enable --now kymo-collector kymod'
    inside 'systemctl is-active kymod kymod.socket kymod-control.socket kymo-collector'
    inside '[ "$(stat -c "%U %a" /run/kymo)" = "kymo 755" ] && [ "$(stat -c "%a" /run/kymo/hook.sock)" = 666 ]'
    inside '[ "$(stat -c "%G %a" /run/kymo/control.sock)" = "kymo 660" ]'
    inside '[ "$(stat -c "%U %a" /var/lib/kymo)" = "kymo 700" ] && [ "$(stat -c "%U" /var/lib/kymo-collector)" = kymo-collector ]'
    until_inside 20 'kymo status | grep -q "127.0.0.1:3002.*up"'
    inside '! journalctl -q -b -p warning -u kymod -u kymo-collector | grep .'
    # Those who are not in the group have no say.
    as watcher 'kymo status >/dev/null'
    not as other 'kymo status'
    traces >"$work/traces-before"
}

step_enable()
{
    inside 'systemctl start train'
    not hook_is_in "$(rank_pid)"
    inside 'kymo enable train --now' | tee "$work/enable.txt"
    grep -q 'train.service: restarted' "$work/enable.txt"
    inside 'systemctl show -P Environment train' | tee "$work/environment.txt"
    grep -q 'LD_PRELOAD=/usr/lib/libtrainer.so:/usr/lib/[^ ]*libkymo-hook.so' "$work/environment.txt"
    hook_is_in "$(rank_pid)"
    inside 'grep -q libtrainer /proc/$(systemctl show -P MainPID train)/maps'
    until_inside 20 'kymo status --json | grep -q "\"unit\": *\"train.service\""'
    inside 'kymo enable train' | grep -q 'was enabled'
    # Only those may who may change units.
    not as watcher 'kymo enable train --runtime'
    inside '! kymo enable nobody 2>&1 | grep -v "no such unit" | grep .'
}

step_capture()
{
    local id
    id=$(capture)
    echo "capture $id"
    profile_of "$id"
    inside "grep -aq train.service /var/lib/kymo-collector/raw/captures/$id/manifest.pb"
    inside "grep -aq training.slice /var/lib/kymo-collector/raw/captures/$id/manifest.pb"
    # KYMO_JOB stands in the environment of another user's process.
    inside "kymo profiles --data-path /var/lib/kymo-collector | grep -q '^llama-'"
    inside 'find /var/lib/kymo-collector/profiles -name "Instruction*.parquet" -size +0 | grep -q .'
}

call() { echo "busctl --json=short call org.kymo.Daemon1 /org/kymo/Daemon1 org.kymo.Daemon1 $*"; }

step_bus()
{
    inside "$(call Status)" | tee "$work/status.json" | grep -q '"train.service"'
    inside "$(call Capture "'a{sv}' 0")" | grep -q '"as"\|\[\['
    as watcher "$(call Status)" | grep -q '"training.slice"'
    as other "$(call Status)" 2>&1 | grep -qi 'only root and members of the group kymo'
    as other 'busctl get-property org.kymo.Daemon1 /org/kymo/Daemon1 org.kymo.Daemon1 Version' | grep -q '^s '
    # Nobody else may pretend to be the daemon.
    inside 'systemctl stop kymod.service kymod.socket kymod-control.socket'
    not as other 'busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus RequestName su org.kymo.Daemon1 0'
    inside 'systemctl start kymod.socket kymod-control.socket kymod'
    # The bus goes and comes back; the daemon follows.
    inside 'systemctl kill -s KILL dbus.service; sleep 1; systemctl start dbus.socket dbus.service'
    until_inside 90 "$(call Status) >/dev/null 2>&1"
}

step_group()
{
    as watcher 'kymo status --json >/dev/null'
    not as other 'kymo capture'
    not as other 'test -w /run/kymo/control.sock'
    as other 'test -w /run/kymo/hook.sock'
    not as other 'ls /var/lib/kymo'
}

step_restart()
{
    local socket job id
    socket=$(inside 'stat -c %i /run/kymo/hook.sock')
    job=$(main_pid train)
    for _ in 1 2 3; do inside 'systemctl restart kymod'; done
    [ "$(inside 'stat -c %i /run/kymo/hook.sock')" = "$socket" ]
    # While it is down, hooks find the socket and wait; a connection starts the daemon.
    inside 'systemctl kill -s KILL kymod; sleep 0.2; test -S /run/kymo/hook.sock'
    until_inside 30 'systemctl is-active kymod'
    [ "$(main_pid train)" = "$job" ]
    until_inside 30 'kymo status --json | grep -q "\"unit\": *\"train.service\""'
    id=$(capture)
    profile_of "$id"
    inside 'systemctl stop kymod'
    until_inside 30 'systemctl is-active kymod'
}

step_watchdog()
{
    local before after
    for unit in kymod kymo-collector; do
        inside "mkdir -p /run/systemd/system/$unit.service.d; printf '[Service]\nWatchdogSec=4\n' >/run/systemd/system/$unit.service.d/test.conf"
    done
    inside 'systemctl daemon-reload; systemctl restart kymod kymo-collector'
    for unit in kymod kymo-collector; do
        before=$(main_pid $unit)
        inside "kill -STOP $before"
        until_inside 30 "journalctl -q -b -u $unit | grep -q 'Watchdog timeout'"
        until_inside 30 "[ \"\$(systemctl show -P MainPID $unit)\" != $before ] && systemctl is-active $unit"
        after=$(main_pid $unit)
        [ "$after" != 0 ]
    done
    until_inside 30 'kymo status --json | grep -q "\"unit\": *\"train.service\""'
    profile_of "$(capture)"
    inside 'rm -r /run/systemd/system/kymod.service.d /run/systemd/system/kymo-collector.service.d; systemctl daemon-reload; systemctl restart kymod kymo-collector'
}

step_reload()
{
    local before
    before=$(main_pid kymod)
    inside 'systemctl reload kymod kymo-collector && systemctl is-active kymod kymo-collector'
    inside 'echo "no-such-key = 1" >>/etc/kymo/kymod.conf; systemctl reload kymod; systemctl is-active kymod'
    inside 'journalctl -q -b -p err -u kymod | grep -q "no such key"'
    inside 'sed -i /no-such-key/d /etc/kymo/kymod.conf; systemctl reload kymod'
    [ "$(main_pid kymod)" = "$before" ]
}

# The collector's socket from systemd: daemons' connections outlive a restart in its queue.
step_socket()
{
    inside 'systemctl stop kymo-collector && systemctl start kymo-collector.socket && systemctl start kymo-collector'
    until_inside 90 'kymo status | grep -q "127.0.0.1:3002.*up"'
    inside 'systemctl kill -s KILL kymo-collector'
    until_inside 30 'systemctl is-active kymo-collector'
    profile_of "$(capture)"
    inside 'systemctl stop kymo-collector.socket kymo-collector && systemctl start kymo-collector'
    until_inside 90 'kymo status | grep -q "127.0.0.1:3002.*up"'
}

# A training unit in a sandbox of its own: captures reach the daemon all the same.
step_strict()
{
    train_unit $'ProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\nNoNewPrivileges=yes\nUMask=0077' \
        >"$run/etc/systemd/system/train.service"
    inside 'systemctl daemon-reload && systemctl restart train'
    until_inside 30 'kymo status --json | grep -q "\"unit\": *\"train.service\""'
    profile_of "$(capture)"
    train_unit '' >"$run/etc/systemd/system/train.service"
    inside 'systemctl daemon-reload && systemctl restart train'
}

step_slice()
{
    train_unit '' >"$run/etc/systemd/system/idle.service"
    inside 'systemctl daemon-reload'
    inside 'kymo enable training.slice' | tee "$work/slice.txt"
    grep -q 'idle.service: enabled through training.slice' "$work/slice.txt"
    grep -q 'train.service: ' "$work/slice.txt"
    inside 'kymo disable idle' | grep -q 'idle.service: disabled'
    inside 'test ! -e /etc/systemd/system/idle.service.d'
    not inside 'kymo enable system.slice'
    inside 'rm /etc/systemd/system/idle.service; systemctl daemon-reload'
    # A template, for instances that come later.
    train_unit '' >"$run/etc/systemd/system/node@.service"
    inside 'systemctl daemon-reload && kymo enable node@.service --runtime && systemctl show -P Environment node@7 | grep -q libkymo-hook'
    inside 'kymo disable node@.service && ! systemctl show -P Environment node@7 | grep -q libkymo-hook; rm /etc/systemd/system/node@.service; systemctl daemon-reload'
}

# A user's own manager.
step_user()
{
    local uid
    uid=$(inside 'id -u trainer')
    inside "systemctl start user@$uid.service"
    local me="XDG_RUNTIME_DIR=/run/user/$uid DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$uid/bus HOME=/home/trainer"
    inside "mkdir -p /home/trainer/.config/systemd/user && printf '[Service]\nExecStart=/bin/sleep 1000\n' >/home/trainer/.config/systemd/user/own.service && chown -R trainer: /home/trainer/.config"
    as trainer "env $me systemctl --user daemon-reload"
    as trainer "env $me kymo enable --user own" | grep -q 'own.service: enabled'
    as trainer "env $me systemctl --user show -P Environment own" | grep -q libkymo-hook
    as trainer "env $me kymo disable --user own" | grep -q 'own.service: disabled'
    not as trainer "env $me systemctl --user show -P Environment own" | grep -q libkymo-hook
    as trainer 'test ! -e /home/trainer/.config/systemd/user/own.service.d'
    inside "rm -r /home/trainer/.config; systemctl stop user@$uid.service"
}

# within UNIT COMMAND: a shell with what the unit's sandbox leaves: its namespaces, user and capabilities
within()
{
    local pid
    pid=$(main_pid "$1")
    inside "nsenter -t $pid -m -- setpriv --reuid=$2 --regid=$2 --clear-groups --inh-caps=$3 --ambient-caps=$3 --bounding-set=$3 --no-new-privs bash -c '$4'"
}

step_sandbox()
{
    local pid caps=-all,+chown,+dac_override,+sys_ptrace
    pid=$(main_pid kymod)
    inside "grep -x 'CapEff:.0000000000080003' /proc/$pid/status && grep -x 'CapBnd:.0000000000080003' /proc/$pid/status"
    inside "grep -x 'NoNewPrivs:.1' /proc/$pid/status && grep -x 'Seccomp:.2' /proc/$pid/status"
    inside "[ \"\$(stat -c %U /proc/$pid)\" = kymo ]"
    # What the capabilities could reach, the mounts do not offer.
    not within kymod kymo "$caps" 'touch /etc/x || touch /usr/x || touch /var/x || touch /var/lib/kymo-collector/x'
    not within kymod kymo "$caps" 'cat /etc/shadow || ls /etc/ssh/x || cat /etc/gshadow'
    within kymod kymo "$caps" 'test -z "$(ls /root /home /boot /var/log 2>/dev/null | grep -v :$ | grep .)"'
    within kymod kymo "$caps" 'touch /var/lib/kymo/x /run/kymo/x && rm /var/lib/kymo/x /run/kymo/x'
    not within kymod kymo "$caps" 'test -e /dev/kmsg || test -e /dev/mem'
    pid=$(main_pid kymo-collector)
    inside "grep -x 'CapEff:.0000000000000000' /proc/$pid/status && grep -x 'CapBnd:.0000000000000000' /proc/$pid/status"
    inside "grep -x 'NoNewPrivs:.1' /proc/$pid/status && grep -x 'Seccomp:.2' /proc/$pid/status"
    not within kymo-collector kymo-collector -all 'touch /etc/x || touch /var/lib/kymo/x || ls /var/lib/kymo || ls /home/trainer'
    within kymo-collector kymo-collector -all 'touch /var/lib/kymo-collector/x && rm /var/lib/kymo-collector/x'
}

step_disable()
{
    inside 'systemctl is-active train'
    hook_is_in "$(rank_pid)"
    inside 'kymo disable train --now' | tee "$work/disable.txt"
    grep -q 'train.service: restarted' "$work/disable.txt"
    not hook_is_in "$(rank_pid)"
    inside 'systemctl show -P Environment train' | grep -qv libkymo
    inside 'kymo disable train' | grep -q 'nothing to disable'
    traces >"$work/traces-after"
    diff "$work/traces-before" "$work/traces-after"
}

step_stop()
{
    inside 'systemctl stop train kymod.socket kymod-control.socket kymod kymo-collector'
    inside '[ "$(systemctl show -P Result kymod)" = success ] && [ "$(systemctl show -P Result kymo-collector)" = success ]'
    inside '! pgrep -u kymo . && ! pgrep -u kymo-collector .'
    inside 'kymo spool check /var/lib/kymo/spool'
    inside '! find /var/lib/kymo-collector -name "*.tmp*" -o -name "*.part" | grep .'
    inside '! journalctl -q -b -u kymod -u kymo-collector | grep -i "segfault\|SIGSEGV\|SIGSYS\|assert"'
}
