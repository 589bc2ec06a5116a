# Runs one command so that it outlives the server: sh shim.sh FOLDER SHELL REAPER, in a session of its own (see detach.py).
#
# Read from FOLDER:  command (what to run), limits (time limit and grace in hundredths of a second, unit), stop (asked to stop).
# Written there:     pid (who runs it, and since when), watch, child, out, err, and at last status, once every process is gone.
#
# This process only waits for the command. The watcher beside it keeps the time limit, sees the stop file and ends the tree,
# whether a server is there or not. The tree is whoever carries PALESTRA_UNIT, is in the command's session, is a child of ours
# outside our own session, or descends from one of those. With REAPER orphans become our children, so nobody gets away; without
# it a process that clears its environment, leaves the session and loses its parent is no longer seen.
# Needs /proc, and setsid, env, grep -z, awk, date, ln, mv, sleep on PATH. Times are hundredths of a second since boot, so a
# clock that is set meanwhile changes no length.

LC_ALL=C
export LC_ALL
cd "$1" || exit 1
exec </dev/null >/dev/null 2>>shim

tick=200 # a stop file is seen this soon, even when nobody could signal

# The pid and start time of this very shell ($$ is the parent's in a subshell).
identify() {
    read -r line </proc/self/stat || return 1
    self=${line%% *}
    set -- ${line##*) }
    shift 19
    began=$1
}

clock() {
    read -r now idle </proc/uptime
    now=${now%.*}${now#*.}
    now=${now#0} # leading zeros would mean octal
    now=${now#0}
}

seconds() { # 1234 -> 12.34
    printf '%d.%02d' "$(($1 / 100))" "$(($1 % 100))"
}

# Sets `tree`, the living processes of the tree (with `groups` also -G for each of their process groups), and `unsure` when a
# process was in the middle of an exec: for that moment its environment can't be read, so one has to look again.
find_tree() {
    child=0
    [ -e child ] && read -r child <child
    [ -n "$over" ] && [ -d "/proc/$child" ] && child=0 # reaped: the number is another's by now
    found=$(grep -slzxF "PALESTRA_UNIT=$unit" /proc/[0-9]*/environ)
    tree=$(awk -v found="$(echo $found)" -v session="${child:-0}" -v shim="$shim" -v since="$since" -v groups="$1" '
        BEGIN {
            for (i = split(found, paths, " "); i > 0; i--) { split(paths[i], part, "/"); ours[part[3]] = 1 }
            for (i = 1; i < ARGC; i++) {
                file = ARGV[i] "/stat"; text = ""
                while ((getline line < file) > 0) text = text line
                close(file)
                sub(/^.*\) /, "", text) # the name before it may hold anything; so field 3 of proc(5) is 1 here
                if (split(text, field, " ") < 20) continue
                if (field[1] ~ /[ZX]/ && field[18] < 2) continue # dead, or dead but for being reaped
                split(ARGV[i], part, "/")
                parent[part[3]] = field[2]; group[part[3]] = field[3]
                if (session > 1 && field[4] == session || field[2] == shim && field[4] != shim) ours[part[3]] = 1
                # It has memory but no end of its environment yet (both read 0 where we may not look).
                if (field[20] >= since && field[21] > 0 && field[49] == 0) {
                    file = ARGV[i] "/environ"
                    if ((getline line < file) >= 0) unsure = 1
                    close(file)
                }
            }
            do {
                more = 0
                for (pid in parent) if (!(pid in ours) && (parent[pid] in ours)) { ours[pid] = 1; more = 1 }
            } while (more)
            for (pid in ours) if (pid in parent) {
                print pid
                if (groups && group[pid] > 1 && group[pid] != shim) seen[group[pid]] = 1
            }
            for (pid in seen) print "-" pid
            if (unsure) print "?"
        }' /proc/[0-9]*)
    unsure=
    case $tree in *\?) unsure=1 tree=${tree%\?} ;; esac
}

terminate() { # false when there was nobody to tell
    find_tree
    [ -n "$tree" ] || return 1
    kill -s TERM -- $tree
    kill -s CONT -- $tree
    return 0
}

destroy() { # by group as well, which no fork outruns
    find_tree groups
    [ -n "$tree" ] || return 1
    kill -s KILL -- $tree
    return 0
}

shim_lives() {
    read -r line <"/proc/$shim/stat" || return 1
    case ${line##*) } in [ZX]*) return 1 ;; esac
}

# What the watcher does each time it wakes; sets `nap`, how long it may sleep.
look() {
    clock
    nap=$tick
    if ! shim_lives; then
        while destroy; do sleep 0.1; done
        exit 0
    fi
    if [ "$phase" = run ]; then
        late=0
        [ "$limit" -gt 0 ] && [ "$now" -ge "$deadline" ] && late=1
        if [ "$late" = 1 ] || [ -e stop ]; then
            quit_at=$((now + grace))
            echo "$quit_at $late" >quit.new && mv quit.new quit # first: the shim reads it as soon as the command is gone
            if terminate; then phase=term; else nap=5; fi
        elif [ "$limit" -gt 0 ] && [ $((deadline - now)) -lt "$nap" ]; then
            nap=$((deadline - now))
        fi
    fi
    if [ "$phase" = term ]; then
        if [ "$now" -ge "$quit_at" ]; then
            destroy
            nap=20
        elif [ $((quit_at - now)) -lt "$nap" ]; then
            nap=$((quit_at - now))
        fi
    fi
}

watch() {
    phase=run sleeper=
    trap - HUP INT TERM USR2
    trap 'woken=1; [ -z "$sleeper" ] || kill "$sleeper"' USR1
    identify && echo "$self $began" >watch.new && mv watch.new watch # before the first look, so that no stop is missed
    while :; do
        woken=
        look
        [ -z "$woken" ] || continue
        sleep "$(seconds "$nap")" &
        sleeper=$!
        [ -z "$woken" ] || kill "$sleeper" # a signal while there was none to kill yet
        wait "$sleeper"
        sleeper=
    done
}

# By KILL: a shell that has only just been forked can lose a TERM. Its sleep goes with it.
end_watcher() {
    asleep=
    kill -s STOP "$watcher"
    [ -r "/proc/$watcher/task/$watcher/children" ] && read -r asleep <"/proc/$watcher/task/$watcher/children"
    kill -s KILL "$watcher" $asleep
    wait "$watcher"
}

# Whether we have no child at all. Where orphans become our children this is exact: no child, no descendant.
childless() {
    kids=
    read -r kids <"$children"
    [ -z "$kids" ]
}

# What forks and exits all the time is another process by the time a look at it is over; but it is always a child of ours.
chase() {
    laps=0
    while [ "$laps" -lt 300 ] && ! childless; do
        kill -s KILL $kids
        laps=$((laps + 1))
    done
}

# What is left after the command itself ended: TERM, then KILL after the grace, until none is left.
clear_up() {
    quit_at=0 late=0 quiet=0 doubts=0 pause=0.02
    [ -e quit ] && read -r quit_at late <quit
    clock
    [ "$limit" -gt 0 ] && [ "$now" -ge "$((deadline + grace))" ] && late=1
    # Without being told exactly, two looks in a row must find nobody: one can miss a process that forks or execs meanwhile.
    while [ "$quiet" -lt 2 ]; do
        if [ -n "$children" ] && childless; then return; fi
        clock
        if [ "$quit_at" -eq 0 ]; then
            terminate && quit_at=$((now + grace))
        elif [ "$now" -ge "$quit_at" ]; then
            destroy
            [ -z "$children" ] || chase
        else
            find_tree
        fi
        if [ -n "$tree" ] || [ -n "$children" ]; then
            quiet=0
        elif [ -n "$unsure" ] && [ "$doubts" -lt 50 ]; then # perhaps a stranger that hangs: not for ever
            quiet=0 doubts=$((doubts + 1))
        else
            quiet=$((quiet + 1))
        fi
        [ "$quiet" -lt 2 ] || break
        sleep "$pause"
        [ "$quiet" -gt 0 ] || pause=0.1
    done
}

finish() { # exit code; kept at until the disk has room for it
    clock
    until echo "$1 $started $((started + (now - start) * 10000)) $late" >status.new && mv status.new status; do
        [ -e pid ] || exit 1
        sleep 1
    done
    exit 0
}

trap : HUP INT TERM USR1 USR2
over=
read -r limit grace unit <limits || exit 1
identify || exit 1
shim=$self since=$began boot=- children=
[ "$3" = reaper ] && [ -r "/proc/$shim/task/$shim/children" ] && children=/proc/$shim/task/$shim/children
[ -r /proc/sys/kernel/random/boot_id ] && read -r boot </proc/sys/kernel/random/boot_id
clock
start=$now deadline=$((now + limit)) late=0
started=$(date +%s%6N)
case $started in *[!0-9]*) started=$(date +%s)000000 ;; esac

# Linking is exclusive: of any number of shims started for this folder, one goes on.
echo "$shim $began $boot $started" >"began.$shim" && ln "began.$shim" pid || exit 1
[ -e stop ] && finish 143

watch 2>/dev/null &
watcher=$!
# In a subshell, or the shell's own word on how the command died would go to its log.
(PALESTRA_UNIT=$unit exec setsid env -i PALESTRA_UNIT="$unit" "${2:-sh}" ./command) >>out 2>>err
code=$?
over=1
end_watcher 2>/dev/null
clear_up
finish "$code"
