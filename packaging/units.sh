#!/usr/bin/env bash
# Shows that the units run: packaging/units.sh ROOT FOLDER
#
#   ROOT    a Debian root: debootstrap --variant=minbase --include=iproute2,systemd-sysv,dbus bookworm ROOT
#   FOLDER  where packaging/build.sh put the packages
#
# Boots systemd in a throw-away copy of ROOT, with a network and processes of its own. Then it breaks a link of a fabric: the
# collector must name it, and an agent must deny the plane to a device. An upgrade must restart the services, a removal end them.
# Needs root, and cgroup v2 mounted anywhere.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "units.sh: root is needed for namespaces" >&2; exit 3; }
[ $# = 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
root=$(realpath "$1") packages=$(realpath "$2")
if [ "${MRC_UNITS_INSIDE:-}" != 1 ]; then
    tree=$(findmnt -nt cgroup2 -o TARGET | head -1)
    [ -n "$tree" ] || { echo "units.sh: no cgroup v2 is mounted" >&2; exit 3; }
    group=$tree/mrc-units-$$
    mkdir "$group"
    # What systemd made below goes first, when the last process is gone.
    remove() {
        for _ in $(seq 50); do
            find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
            [ -d "$group" ] || break
            sleep 0.1
        done
    }
    trap remove EXIT
    # The shell that moves into the group becomes the script.
    env MRC_UNITS_INSIDE=1 sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec unshare -m -n -C --propagation private "$@"' sh "$group" "$0" "$@"
    exit
fi

. "$(dirname "$0")/root.sh"
says() { echo "ok: $*"; }
fails() { echo "FAIL: $*" >&2; inside journalctl --no-pager -n 40 >&2 || true; exit 1; }

inside dpkg -i $(cd "$at" && ls packages/*.deb | sed 's,^,/,') >/dev/null
mkdir -p "$at/etc/mrc" "$at/dev/shm" "$at/old"
head -c 16 /dev/urandom >"$at/etc/mrc/mapper.key"
chmod 600 "$at/etc/mrc/mapper.key"
inside mrc mapper policy >"$at/etc/mrc/policy.toml"
cat >"$at/etc/default/mrc-mapper" <<EOF
COLLECT_OPTIONS="--fabric 2,2,4,2"
AGENT_OPTIONS="--collector 127.0.0.1:9713 --policy /etc/mrc/policy.toml --apply"
EOF
mount -t cgroup2 cgroup2 "$at/sys/fs/cgroup"
env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare -p -f -m --kill-child bash -c "
    cd '$at' && mount --bind . . && cd '$at' && mount -t proc proc proc && pivot_root . old && cd / && umount -l old && mount --make-rshared /
    exec /lib/systemd/systemd --log-target=null" &
booted=$!
trap 'kill -9 $booted 2>/dev/null; wait $booted 2>/dev/null || true' EXIT
init=
for _ in $(seq 100); do
    init=$(pgrep -P "$booted" -x systemd || true)
    [ -z "$init" ] || break
    sleep 0.1
done
[ -n "$init" ] || fails "systemd does not start"
inside() { nsenter -t "$init" -m -p -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
# eventually SECONDS COMMAND...
eventually() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.5
    done
}
eventually 60 inside systemctl is-system-running || fails "systemd does not come up"
says "systemd $(inside systemctl --version | awk 'NR == 1 { print $2 }') is up"

inside mrc lab up >/dev/null
units="mrc-mapper-collect mrc-mapper-agent@hA mrc-mapper-agent@hB"
inside systemctl start $units
told() { inside mrc mapper why "$1" | grep -q "is $2"; }
eventually 30 told p0-t0a-t1b healthy || fails "the collector has no map"
says "collector and agents run"
inside mrc lab cut p0-t0a-t1b >/dev/null
eventually 60 told p0-t0a-t1b FAULTY || fails "the collector does not name the link"
inside mrc lab heal p0-t0a-t1b >/dev/null
says "the collector names a link that is cut"

inside mrc write-bw --lab hB >/dev/null 2>&1 &
inside mrc write-bw --lab hA 127.0.0.1 -D 60 >/dev/null 2>&1 &
inside mrc lab impair p0-hA --loss 20% >/dev/null
denied() { inside mrc control denylist | grep -q '"by":"mapper","planes":\[0\]'; }
eventually 50 denied || fails "the agent denies nothing"
inside mrc lab impair p0-hA --clear >/dev/null
says "an agent denies a lossy plane to a device"

inside systemctl enable $units >/dev/null 2>&1
processes() { inside systemctl show --value -p MainPID $units | grep -v '^$' || true; }
before=$(processes)
inside sh -c 'dpkg -i /packages/*.deb' >/dev/null
inside systemctl is-active --quiet $units || fails "a service does not run after an upgrade"
for process in $before; do
    [ -z "$(processes | grep -x "$process")" ] || fails "process $process runs the program of before the upgrade"
done
says "an upgrade restarts the services"

inside systemctl stop $units
[ -z "$(inside systemctl --failed --plain --no-legend)" ] || fails "a unit failed"
says "the units stop"
inside systemctl start $units
eventually 30 told p0-t0a-t1b healthy || fails "the collector has no map"
before=$(processes)
inside mrc lab down >/dev/null
inside dpkg -P libmrc-dev mrc >/dev/null 2>&1
for process in $before; do
    ! inside kill -0 "$process" 2>/dev/null || fails "process $process runs without its program"
done
left=$(inside find /etc/systemd /var/lib -name "mrc*" -not -path "*/dpkg/*")
[ -z "$left" ] || fails "left behind: $left"
says "a removal ends the services and takes links and history along"
