#!/bin/sh
# --configure of the agent for this project's own libraries: writes the host file that MRC_CONFIG names. Arguments are
# NAME=VALUE, one for each knob that verbs have no attribute for, and `slow`, which the clock of the device follows.
#
#   PLANES     interfaces, comma-separated, port 1 first
#   NEXT_HOPS  MAC addresses of the tester's interfaces, in the same order
#   EXTRA      NAME=VALUE of knobs that the device has whatever a script asks for: a target of another reading
set -eu
: "${MRC_CONFIG:?names the host file to write}" "${PLANES:?}" "${NEXT_HOPS:?}"
slow=1 planes=1 ip=6 srv6=0 knobs=
for item in "$@" ${EXTRA:-}; do
    name=${item%%=*} value=${item#*=}
    case $name in
        slow) slow=$value ;;
        planes) planes=$value ;;
        ip) ip=$value ;;
        srv6) srv6=$value ;;
        # The engine serves both readings: only `mrc conform` makes a target of the other one.
        ev_in_outer_label | trim_keeps_tseth) [ "$value" = 0 ] || { echo "needs $name=$value: the engine has no such knob"; exit 1; } ;;
        *) knobs=$(printf '%s\n' "$knobs" | grep -v "^$name = " || true; echo "$name = $value") ;;
    esac
done
if [ "$ip" != 6 ]; then
    echo "needs ip=$ip: the inner addresses of a host file are IPv6"
    exit 1
fi
{
    printf 'name = "target"\ngid = "2001:db8:1::b"\nmtu = 9000\n\n'
    printf '[protocol]\ntuning = "specification"\nslowness = %s\n%s\n' "$slow" "$knobs"
    plane=0
    while [ "$plane" -lt "$planes" ]; do
        port=$((plane + 1))
        interface=$(echo "$PLANES" | cut -d, -f"$port") next_hop=$(echo "$NEXT_HOPS" | cut -d, -f"$port")
        if [ -z "$interface" ]; then
            exec >&2
            echo "needs $planes ports, this device has $plane"
            exit 1
        fi
        printf '\n[[planes]]\ninterface = "%s"\nnext_hop = "%s"\n' "$interface" "$next_hop"
        if [ "$srv6" = 1 ]; then
            sid=fcbb:bb00:3${plane}0b::
            printf 'sid = "%s"\naddr = "%s"\n' "$sid" "$sid"
        fi
        plane=$port
    done
    printf '\n[[peers]]\nname = "tester"\ngid = "2001:db8:1::a"\n'
    if [ "$srv6" = 1 ]; then printf 'template = "fcbb:bb00:1000:300a::"\nuplinks = 0\n'; else printf 'uplinks = 8\n'; fi
} >"$MRC_CONFIG"
echo "slow=$slow"
