#!/bin/sh
# What watching costs, in processor time of the processes and not in seconds, so that it holds on a busy machine:
#   top       `mrc top` at 10 updates a second beside a running device, per cent of a core (asked: below 1)
#   scrape    time to answer one scrape at QPS queue pairs (asked: below 5 ms), and what it costs
#   recorder  what the flight recorder takes (asked: below 1 %): its share of the processor time of both ends, in samples of perf, with
#             large and small messages; its share of the client's instructions below the kernel, counted by valgrind
#   recorder-pairs  processor time of a write's client per packet, with the recorder and without, by turns: needs many PAIRS
#   agent     processor time of `mrc mapper agent`, and of a client beside it
#   policy    goodput over 8 planes: healthy, while a host link loses 1 %, and after the agent's policy denied its plane
# Usage, as root: benches/operations.sh MRC [top|scrape|recorder|recorder-pairs|agent|policy]...  (MRC: a release build; PAIRS=5 QPS=10000)
# Everything happens in a lab fabric of its own. Each figure is one line: name, value, unit.
set -eu
[ $# -ge 1 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || { echo "operations.sh: root is needed for network namespaces" >&2; exit 3; }
mrc=$(realpath "$1"); shift
here=$(realpath "$(dirname "$0")")
[ $# -gt 0 ] || set -- top scrape recorder recorder-pairs agent policy
pairs=${PAIRS:-5} qps=${QPS:-10000} prefix=mrccost
work=$(mktemp -d)
"$mrc" lab up --prefix $prefix >/dev/null
leave() {
    for pid in ${server:-} ${client:-} ${watcher:-}; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    "$mrc" lab down --prefix $prefix >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

# Nanoseconds of processor time of all threads of a process.
spent() {
    cat /proc/"$1"/task/*/schedstat 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# Server and client with these arguments; both are known by number afterwards. Waits for COUNT queue pairs.
transfer() {
    count=$1; shift
    "$mrc" write-bw ${host_b:---prefix $prefix --lab hB} "$@" >"$work/server" 2>&1 & server=$!
    sleep 1
    "$mrc" write-bw ${host_a:---prefix $prefix --lab hA} "$@" localhost -D 600 >"$work/client" 2>&1 & client=$!
    tries=0
    until [ "$("$mrc" stats --json --pid $client 2>/dev/null | grep -o '"RTS":[0-9]*' | tr -dc 0-9)" = "$count" ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] && kill -0 $client 2>/dev/null || { cat "$work/server" "$work/client" >&2; exit 1; }
        sleep 0.3
    done
}

end_transfer() {
    kill -INT $client $server 2>/dev/null || true
    wait $client $server 2>/dev/null || true
    server= client=
}

packets() {
    "$mrc" stats --json --pid "$1" | grep -oE '"[rt]x_packets":[0-9]+' | awk -F: '{ sum += $2 } END { printf "%.0f\n", sum }'
}

top_cost() {
    transfer 3 -q 3
    for n in $(seq "$pairs"); do
        tmux -L mrccost -f /dev/null new-session -d -x 110 -y 40 "$mrc top --interval 100"
        sleep 1
        watcher=$(pgrep -n -f "^$mrc top --interval 100")
        a=$(spent "$watcher"); sleep 5; b=$(spent "$watcher")
        tmux -L mrccost kill-server
        watcher=
        echo "$a $b" | awk '{ printf "%.3f\n", ($2 - $1) / 5e9 * 100 }'
    done | sort -n >"$work/top"
    end_transfer
    echo "top_best_percent_of_a_core $(head -n 1 "$work/top")"
    echo "top_median_percent_of_a_core $(sed -n "$(((pairs + 1) / 2))p" "$work/top")"
}

scrape_cost() {
    transfer "$qps" -q "$qps" -t 1 -s 64 --rate-limit 100kbit --timeout 18
    "$mrc" metrics --listen 127.0.0.1:9719 2>/dev/null & watcher=$!
    sleep 1
    curl -s -o "$work/metrics" http://127.0.0.1:9719/metrics
    a=$(spent $watcher)
    for n in $(seq 20); do
        curl -s -o "$work/metrics" -w '%{time_total}\n' http://127.0.0.1:9719/metrics >>"$work/whole"
        awk '$1 == "mrc_scrape_seconds" { print $2 }' "$work/metrics" >>"$work/asking"
    done
    b=$(spent $watcher)
    kill $watcher; wait $watcher 2>/dev/null || true; watcher=
    for what in whole asking; do
        sort -n "$work/$what" | awk -v name=$what '
            { of[NR] = $1 * 1000 }
            END { printf "scrape_%s_best_ms %.2f\nscrape_%s_median_ms %.2f\n", name, of[1], name, of[int((NR + 1) / 2)] }'
    done
    echo "$a $b" | awk '{ printf "scrape_processor_ms %.2f\n", ($2 - $1) / 20e6 }'
    grep '^mrc_qps{' "$work/metrics" | awk '{ sum += $2 } END { printf "scrape_queue_pairs %d\n", sum }'
    end_transfer
    if command -v promtool >/dev/null; then promtool check metrics <"$work/metrics" && echo "promtool ok"; fi
}

# Processor time of the client per packet it sent or received, in nanoseconds, over some seconds.
per_packet() {
    p=$(packets $client) a=$(spent $client)
    sleep 4
    b=$(spent $client) q=$(packets $client)
    echo "$a $b $p $q" | awk '{ printf "%.1f\n", ($2 - $1) / ($4 - $3) }'
}

host_files() {
    for host in hA hB; do
        "$mrc" lab host $host --prefix $prefix >"$work/$host.json"
        sed '1s/{/{ "recorder": { "packets": 0 },/' "$work/$host.json" >"$work/$host.off.json"
    done
}

recorder_cost() {
    file=device/recorder.rs
    for size in 1048576 64; do
        transfer 1 -s $size
        perf record -q -e cpu-clock -F 4000 -o "$work/client.perf" -p $client -- sleep 10 2>/dev/null & watcher=$!
        perf record -q -e cpu-clock -F 4000 -o "$work/server.perf" -p $server -- sleep 10 2>/dev/null
        wait $watcher; watcher=
        end_transfer
        for who in client server; do
            "$here/share.py" samples "$work/$who.perf" "$mrc" $file |
                awk -v name="recorder_${who}_${size}" '{ printf "%s_percent_of_processor_time %s\n%s_percent_without_the_kernel %s\n%s_samples %d\n", name, $1, name, $2, name, $3 }'
        done
    done
    host_files
    for size in 1048576 64; do
        for how in json off.json; do
            "$mrc" write-bw --host-file "$work/hB.$how" -s $size >"$work/server" 2>&1 & server=$!
            sleep 1
            valgrind -q --tool=callgrind --callgrind-out-file="$work/calls" "$mrc" write-bw --host-file "$work/hA.$how" -s $size \
                -n $((size > 64 ? 20 : 8000)) localhost --timeout 18 >"$work/client" 2>&1 || { cat "$work/client" >&2; exit 1; }
            wait $server || true; server=
            "$here/share.py" instructions "$work/calls" Progress::move_all $file 'FrameSink>::push'
        done | awk -v name="recorder_$size" '
            { all[NR] = $1; ours[NR] = $2 }
            END { printf "%s_instructions_per_frame %.1f\n%s_percent_of_instructions %.2f\n", name, ours[1] - ours[2], name, (ours[1] - ours[2]) / all[1] * 100 }'
    done
}

recorder_pairs_cost() {
    host_files
    for n in $(seq "$pairs"); do
        # What comes first in a pair is the other one in the next.
        for how in $([ $((n % 2)) = 0 ] && echo json off.json || echo off.json json); do
            host_a="--host-file $work/hA.$how" host_b="--host-file $work/hB.$how"
            transfer 1 -q 1
            per_packet >>"$work/recorder.$how"
            end_transfer
        done
    done
    host_a= host_b=
    paste -d' ' "$work/recorder.json" "$work/recorder.off.json" | awk '
        { ratio = ($1 - $2) / $2 * 100; sum += ratio; squares += ratio * ratio; on += $1; off += $2 }
        END {
            printf "recorder_on_mean_ns_per_packet %.0f\nrecorder_off_mean_ns_per_packet %.0f\n", on / NR, off / NR
            printf "recorder_pairs_mean_percent %.2f\n", sum / NR
            if (NR > 1) printf "recorder_pairs_standard_error_percent %.2f\n", sqrt((squares - sum * sum / NR) / (NR - 1) / NR)
        }'
}

agent_cost() {
    for interval in 10 1; do
        "$mrc" mapper agent --prefix $prefix --lab hA --interval $interval --timeout 100 >"$work/agent" 2>&1 & watcher=$!
        sleep 1
        for n in $(seq "$pairs"); do
            a=$(spent $watcher); sleep 2; b=$(spent $watcher)
            echo "$a $b" | awk '{ printf "%.3f\n", ($2 - $1) / 2e9 * 100 }'
        done | sort -n | head -n 1 | sed "s/^/agent_${interval}ms_best_percent_of_a_core /"
        kill -INT $watcher; wait $watcher 2>/dev/null || true; watcher=
        sed -n "s/^started.*bits_per_second \([0-9.]*\).*/agent_${interval}ms_bits_per_second_and_port \1/p" "$work/agent"
    done
    transfer 1 -q 1
    for n in $(seq "$pairs"); do
        per_packet >>"$work/alone"
        "$mrc" mapper agent --prefix $prefix --lab hA --interval 10 >"$work/agent" 2>&1 & watcher=$!
        per_packet >>"$work/beside"
        kill -INT $watcher; wait $watcher 2>/dev/null || true; watcher=
    done
    end_transfer
    echo "client_alone_best_ns_per_packet $(sort -n "$work/alone" | head -n 1)"
    echo "client_beside_agent_best_ns_per_packet $(sort -n "$work/beside" | head -n 1)"
}

acked() {
    "$mrc" control --pid $client state | grep -oE '"acked_bytes":[0-9]+' | awk -F: '{ sum += $2 } END { printf "%.0f\n", sum }'
}

# Gb that the peer acknowledges per second, and per second of processor time of client and server: the lab's fabric has no rate of its
# own, and how much of a busy machine the two get is chance.
goodput() {
    t=$(date +%s%N) a=$(acked) x=$(spent $client) y=$(spent $server)
    sleep 3
    b=$(acked) u=$(date +%s%N) v=$(spent $client) w=$(spent $server)
    echo "$a $b $t $u $x $v $y $w" | awk '{ bits = ($2 - $1) * 8; printf "%.3f %.3f\n", bits / ($4 - $3), bits / ($6 - $5 + $8 - $7) }'
}

watch() {
    "$mrc" mapper agent --prefix $prefix --lab hA --interval 10 "$@" >"$work/agent" 2>&1 & watcher=$!
    sleep 0.5
}

unwatch() { kill -INT $watcher; wait $watcher 2>/dev/null || true; watcher=; }

denied() { "$mrc" control --pid $client state | grep -oE '"denied":(true|false)' | head -n 1 | cut -d: -f2; }

policy_cost() {
    "$mrc" lab up --prefix $prefix --planes 8 --t1 2 >/dev/null
    printf '[[rules]]\nname = "lossy"\npart = "host-link"\nloss_above = 0.005\n' >"$work/policy.toml"
    transfer 1 -q 1
    for n in $(seq "$pairs"); do
        # The agent runs all the time, as it does in a watched fabric; at first it only says what it would deny.
        watch --policy "$work/policy.toml"
        goodput >>"$work/healthy"
        "$mrc" lab impair p0-hA --loss 1% --prefix $prefix >/dev/null
        sleep 1
        goodput >>"$work/lossy"
        unwatch
        watch --policy "$work/policy.toml" --apply
        t=$(date +%s%N) tries=0
        until [ "$(denied)" = true ]; do
            tries=$((tries + 1))
            [ $tries -lt 200 ] || { echo "operations.sh: the policy denied nothing in 60 s" >&2; tail -n 5 "$work/agent" >&2; exit 1; }
            sleep 0.3
        done
        echo "$t $(date +%s%N)" | awk '{ printf "%.1f\n", ($2 - $1) / 1e9 }' >>"$work/until"
        goodput >>"$work/denied"
        unwatch
        "$mrc" lab impair p0-hA --clear --prefix $prefix >/dev/null
        while [ "$(denied)" = true ]; do sleep 0.3; done
        sleep 1
    done
    end_transfer
    for what in healthy lossy denied; do
        for column in 1 2; do
            sort -n -k $column "$work/$what" | awk -v c=$column -v name=$what '
                { of[NR] = $c }
                END { printf "policy_%s_median_gbit_per_%s %.3f\n", name, c == 1 ? "s" : "core_s", of[int((NR + 1) / 2)] }'
        done
    done
    paste -d' ' "$work/healthy" "$work/lossy" "$work/denied" | awk '
        { h += $2; l += $4; d += $6 }
        END { printf "policy_lossy_percent_of_healthy %.1f\npolicy_denied_percent_of_healthy %.1f\n", l / h * 100, d / h * 100; exit d / h < 0.85 }' || missed=1
    sort -n "$work/until" | awk '{ of[NR] = $1 } END { printf "policy_median_s_to_denial %.1f\n", of[int((NR + 1) / 2)] }'
}

missed=0
for what; do
    case $what in
        top | scrape | recorder | agent | policy) "${what}_cost" ;;
        recorder-pairs) recorder_pairs_cost ;;
        *) echo "operations.sh: \`$what\` is none of top, scrape, recorder, recorder-pairs, agent, policy" >&2; exit 2 ;;
    esac
done
exit $missed
