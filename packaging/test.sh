#!/usr/bin/env bash
# Shows that the packages work: packaging/test.sh ROOT FOLDER [OTHER_FOLDER]
#
#   ROOT          a clean Debian: debootstrap --variant=minbase --include=iproute2 bookworm ROOT
#                 with gcc,libc6-dev,pkg-config,libibverbs-dev C programs are built with the headers, too
#   FOLDER        where packaging/build.sh put the packages
#   OTHER_FOLDER  a second build of the same commit, compared byte by byte
#
# Installs the packages in a throw-away copy of ROOT with a network of its own, uses them, removes them, and looks at what is left.
# Prints the time from installation to the first bytes that arrived. Needs root.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "test.sh: root is needed for chroot and network namespaces" >&2; exit 3; }
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
root=$(realpath "$1") packages=$(realpath "$2") other=${3:-}

if [ "${MRC_TEST_INSIDE:-}" != 1 ]; then
    if [ -n "$other" ]; then
        for deb in "$packages"/*.deb; do
            cmp "$deb" "$other/$(basename "$deb")" && echo "ok: $(basename "$deb") has the same bytes in both builds"
        done
    fi
    exec env MRC_TEST_INSIDE=1 unshare -m -n --propagation private "$0" "$@"
fi

. "$(dirname "$0")/root.sh"
says() { echo "ok: $*"; }

inside sh -c '! command -v mrc' && says "the root has no mrc"
before=$(inside find /usr /etc -xdev -type f | sort)

start=$(date +%s%N)
inside dpkg -i $(cd "$at" && ls packages/*.deb | sed 's,^,/,') >/dev/null
says "installed in $((($(date +%s%N) - start) / 1000000)) ms"
inside sh -c 'cd / && mrc demo --mode sim --seconds 3 --out /run --json >/run/demo.json 2>/run/demo.err' || { cat "$at/run/demo.err"; exit 1; }
grep -q '"integrity": *"ok"' "$at/run/demo.json"
says "from installation to a checked transfer: $((($(date +%s%N) - start) / 1000000)) ms"

inside mrc --version
inside mrc conform | grep 'passed, 0 failed'
for file in /usr/share/man/man1/mrc-conform.1.gz /usr/share/bash-completion/completions/mrc \
    /usr/share/zsh/vendor-completions/_mrc /usr/share/fish/vendor_completions.d/mrc.fish /usr/share/mrc/mrc.lua \
    /usr/lib/mrc/libibverbs.so /usr/lib/mrc/lib_mrc.so /usr/include/mrc/mrc_core.h /usr/share/mrc/conform-agent/agent.c \
    /usr/lib/systemd/system/mrc-mapper-collect.service /usr/lib/systemd/system/mrc-mapper-agent@.service; do
    inside test -s "$file"
done
says "manual pages, completions, dissector, libraries, headers, units and the agent's source are there"
if command -v systemd-analyze >/dev/null; then
    # A minimal root has none of systemd's own units, this machine has: the installed ones are judged here, with a program that is here.
    mkdir "$work/units"
    for unit in mrc-mapper-collect mrc-mapper-agent@; do
        sed 's,=/usr/bin/mrc,=/bin/true,' "$at/usr/lib/systemd/system/$unit.service" >"$work/units/${unit/@/@hA}.service"
    done
    told=$(systemd-analyze verify --man=no "$work"/units/*.service 2>&1) || { echo "$told"; exit 1; }
    [ -z "$told" ] || { echo "$told"; exit 1; }
    says "systemd accepts the units"
fi
inside dpkg --verify mrc libmrc-dev && says "every file has its recorded sum"

if inside sh -c 'command -v cc && command -v pkg-config && pkg-config --exists libibverbs' >/dev/null; then
    cat >"$at/run/mrc.c" <<'EOF'
#include <mrc.h>
#include <mrc_ctl.h>
int main(void) {
    uint32_t now = 0, last = 0, vendor = 0, last_vendor = 0;
    int devices = 0;
    struct ibv_device **list = ibv_get_device_list(&devices);
    mrc_query_version(&now, &last, &vendor, &last_vendor);
    if (list != 0) ibv_free_device_list(list);
    return devices;
}
EOF
    cat >"$at/run/mrc-core.c" <<'EOF'
#include <mrc_core.h>
int main(void) {
    struct mrc_core_config config;
    mrc_core_config_default(&config);
    return config.abi != MRC_CORE_ABI || mrc_core_storage_size(&config.limits) == 0;
}
EOF
    for package in mrc mrc-core; do
        inside sh -c "cc -Wall -Werror -o /run/with-$package /run/$package.c \$(pkg-config --cflags --libs $package) && /run/with-$package"
    done
    says "C programs are built with the pkg-config files, and run"
fi

if inside ip -V >/dev/null 2>&1; then
    inside mrc lab up >/dev/null
    # A clean root has no /etc/hosts that knows localhost.
    inside sh -c 'mrc write-bw --lab hB >/run/server.txt 2>&1 & sleep 1; mrc write-bw --lab hA 127.0.0.1 -D 2' | tee "$at/run/client.txt"
    grep -q 'written per plane' "$at/run/client.txt"
    inside mrc lab down >/dev/null
    says "a transfer through a fabric of namespaces: $((($(date +%s%N) - start) / 1000000)) ms after the beginning of the installation"
fi

inside dpkg -P libmrc-dev mrc >/dev/null
after=$(inside find /usr /etc -xdev -type f | sort)
left=$(diff <(echo "$before") <(echo "$after") | grep '^[<>]' || true)
[ -z "$left" ] || { echo "left behind or lost: $left"; exit 1; }
inside sh -c '! test -e /usr/lib/mrc && ! test -e /usr/include/mrc'
says "removed without a trace"
