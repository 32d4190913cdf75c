#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Checks vip_run's messages and exit status when a program cannot be run or something is missing, and the verdict of --check.
#
# usage: says.sh VIP_RUN PROGRAM STATIC-PROGRAM BUILT-IN-PROGRAM INDIRECT-PROGRAM [PROGRAM-OF-THE-OTHER-WORD-SIZE]
set -u

if (($# < 5 || $# > 6)); then
    echo "usage: $0 VIP_RUN PROGRAM STATIC-PROGRAM BUILT-IN-PROGRAM INDIRECT-PROGRAM [OTHER-PROGRAM]" >&2
    exit 2
fi
vip_run=$1 program=$2 static=$3 built_in=$4 indirect=$5 other=${6:-}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
chmod 755 "$work"
unset VIPL_NIC_MAP LD_LIBRARY_PATH LD_PRELOAD
failed=0

# says STATUS WORDS COMMAND...: the command exits with STATUS, and its output matches the regular
# expression WORDS.
says() {
    local expected=$1 words=$2 output status=0
    shift 2
    output=$("$@" 2>&1) || status=$?
    if ((status != expected)) || ! grep -qE -- "$words" <<<"$output"; then
        printf '%s: wanted %d and "%s", had %d and: %s\n   %s\n' "$0" "$expected" "$words" "$status" \
            "$output" "$*" >&2
        failed=1
    fi
}

says 125 'which program' "$vip_run"
says 125 'wants NAME=DEVICE' "$vip_run" --nic=nic0 "$program"
says 125 'wants NAME=DEVICE' "$vip_run" --nic=nic0=a,b=c "$program"
says 125 'more than VIPL_NIC_MAP' "$vip_run" --nic="nic0=$(printf '%0300d' 0)" "$program"
says 0 '^VIPL_NIC_MAP=a=via_lo,b=via_lo1,a=x$' env VIPL_NIC_MAP=a=x \
    "$vip_run" --check -n a=via_lo -n b=via_lo1 "$program"
says 0 '^program: .*, (32|64) bits, linked with VIPL$' "$vip_run" --check -n a=via_lo "$program"
strip -o "$work/stripped" "$program" &&
    says 0 ', linked with VIPL$' "$vip_run" --check -n a=via_lo "$work/stripped"

says 127 'there is no program .* in PATH' "$vip_run" no-such-program-of-ours
says 127 'there is no program' "$vip_run" "$work/nothing"
echo 'true' >"$work/plain"
says 126 'is not executable' "$vip_run" "$work/plain"
says 126 'is a directory' "$vip_run" "$work"
says 126 'statically linked' "$vip_run" "$static"
says 7 '' "$vip_run" -n a=via_lo sh -c 'exit 7'
says 0 '^--nic$' "$vip_run" -n a=via_lo printf '%s\n' x --nic # the program's option

# A terminal gets no control characters of a name, and a search in PATH passes over what this user may not see.
printf '#!/bin/true\n' >"$work/"$'\e[2Jx'
says 126 '\\x1b\[2Jx is not executable' "$vip_run" "$work/"$'\e[2Jx'
chmod +x "$work/"$'\e[2Jx'
says 0 '^program: .*/\\x1b\[2Jx, a script$' "$vip_run" --check -n a=via_lo "$work/"$'\e[2Jx'

# The last line of --check is the verdict. It names all reasons.
verdict() {
    local status=$1 words=$2
    shift 2
    says "$status" "^$words\$" sh -c 'said=$("$@" 2>&1); status=$?; echo "$said" | tail -n 1; exit $status' sh "$@"
}
verdict 0 'ready' "$vip_run" --check -n nic0=via_lo "$program"
verdict 1 'not ready: missing libraries: libother\.so\.2' "$vip_run" --check -n nic0=via_lo "${program%/*}/old_exchange_other"
sed 's/VipPostSend/VipPostSung/' "${program%/*}/old_exchange_other" >"$work/lacks"
sed 's/VipPostSend/VipPostSung/' "$program" >"$work/lacks_function"
chmod +x "$work/lacks" "$work/lacks_function"
verdict 1 'not ready: missing libraries: libother\.so\.2; functions that no library has: VipPostSung' \
    "$vip_run" --check -n nic0=via_lo "$work/lacks"
verdict 1 'not ready: functions that no library has: VipPostSung' "$vip_run" --check -n nic0=via_lo "$work/lacks_function"
verdict 1 'not ready: only 40 files .*' prlimit --nofile=40 "$vip_run" --check -n nic0=via_lo "$program"
says 1 '^not ready: .* is statically linked' "$vip_run" --check -n nic0=via_lo "$static"
says 0 '^limits: locked memory \(ulimit -l\) .*, files \(ulimit -n\) 99$' prlimit --nofile=99:99 "$vip_run" --check -n a=via_lo true

# What can run but may not use libvipl is told.
verdict 0 'ready, but it has VIPL functions of its own, which vip_run does not replace' \
    "$vip_run" --check -n nic0=via_lo "$built_in"
verdict 0 'ready, but nothing shows that it or one of its libraries uses VIPL' "$vip_run" --check -n nic0=via_lo true
verdict 0 'ready, but .*/libuses\.so uses VIPL: try --preload' "$vip_run" --check -n nic0=via_lo "$indirect"
verdict 0 'ready' "$vip_run" --check -n nic0=via_lo --preload "$indirect"
verdict 0 'ready' "$vip_run" --check -n nic0=via_lo "${program%/*}/old_loads"

# A start script may hide libvipl from the program.
script() {
    local status=$1 words=$2
    printf '#!/bin/sh\n%s\n' "$3" >"$work/script"
    chmod +x "$work/script"
    verdict "$status" "$words" "$vip_run" --check -n nic0=via_lo "${@:4}" "$work/script"
}
is_script='ready, but this is a script: check the programs that it runs, too'
bad='LD_LIBRARY_PATH=/opt/via
export LD_LIBRARY_PATH="/opt/via"
[ x ] && LD_PRELOAD=/opt/libvipl.so x
setenv LD_LIBRARY_PATH /opt/via
unset LD_LIBRARY_PATH
os.environ["LD_LIBRARY_PATH"] = "/opt/via"'
good='# LD_PRELOAD=x
LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/opt/via
LD_LIBRARY_PATH="${LD_LIBRARY_PATH}:/x"
if [ "$LD_LIBRARY_PATH" = x ]; then
echo ${LD_LIBRARY_PATH:=x}
MY_LD_LIBRARY_PATH=x
x["LD_PRELOAD"] == y'
script 1 'not ready:( its line [2-7] changes LD_[A-Z_]*: put vip_run before the programs in it;?){6}' "$bad"
script 1 'not ready:( its line [2-7] changes LD_[A-Z_]*: put vip_run before the programs in it;?){6}' "$bad" --preload
script 0 "$is_script" "$good"
script 1 'not ready: its line 2 changes LD_LIBRARY_PATH: try --preload' 'LD_LIBRARY_PATH=/opt/via:$LD_LIBRARY_PATH'
script 0 "$is_script" 'LD_LIBRARY_PATH=/opt/via:$LD_LIBRARY_PATH' --preload
printf '#!/opt/no/shell\n' >"$work/script"
verdict 1 'not ready: there is no /opt/no/shell, which has to run it' "$vip_run" --check -n nic0=via_lo "$work/script"
printf '#!/bin/sh\r\n' >"$work/script"
verdict 1 'not ready: there is no /bin/sh\\x0d, which has to run it' "$vip_run" --check -n nic0=via_lo "$work/script"
printf '#!/tmp\n' >"$work/script"
verdict 1 'not ready: there is no /tmp, which has to run it' "$vip_run" --check -n nic0=via_lo "$work/script"
gzip <"$program" >"$work/script"
verdict 1 'not ready: .*/script is neither a Linux program \(ELF\) nor a script' "$vip_run" --check -n nic0=via_lo "$work/script"

# The reason why a NIC cannot be used is the library's.
verdict 1 'not ready: nic0: there is no RDMA device.*|not ready: nic0: .*none.* is called nosuch.*' \
    "$vip_run" --check -n nic0=nosuch "$program"
mkdir -p "$work/closed/within"
chmod 0 "$work/closed"
passing=()
((EUID == 0)) && passing=(setpriv --bounding-set=-all --inh-caps=-all --reuid=65534 --clear-groups)
if ((EUID != 0)) || "${passing[@]}" test -x "$vip_run"; then
    says 127 'there is no program no-such-program-of-ours in PATH' "${passing[@]}" \
        env PATH="$work/closed/within:$PATH" "$vip_run" no-such-program-of-ours
fi
# Of a job, one process tells of a missing device.
for number in MPI_LOCALRANKID MPIRUN_RANK OMPI_COMM_WORLD_LOCAL_RANK SLURM_LOCALID; do
    says 0 '^$' env "$number=3" "$vip_run" -n a=none -n b=via_lo true
done

# An interpreter that does not exist; and truncated programs, which must not do any harm.
sed 's,/ld-linux,/XX-linux,' "$program" >"$work/old"
chmod +x "$work/old"
says 126 'needs the dynamic linker /[^ ]*XX-linux' "$vip_run" "$work/old"
verdict 1 'not ready: .* needs the dynamic linker /[^ ]*XX-linux.*' "$vip_run" --check -n nic0=via_lo "$work/old"
for size in 1 4 16 20 40 60 64 100 700 900 5000 12000; do
    head -c "$size" "$program" >"$work/cut"
    chmod +x "$work/cut"
    says 126 '^(not )?ready' sh -c '"$@"; status=$?; [ $status -gt 127 ] && exit $status; exit 126' sh \
        "$vip_run" --check "$work/cut"
done

# First there is no library, then only a library of one word size.
mkdir -p "$work/bin" "$work/lib/libvipl"
cp "$vip_run" "$work/bin/vip_run"
says 125 'there is no libvipl beside' "$work/bin/vip_run" "$program"
for name in 'a:b' 'a;b' 'a$LIB'; do
    mkdir -p "$work/$name/bin" "$work/$name/lib/libvipl"
    cp "$vip_run" "$work/$name/bin/"
    cp -L "${vip_run%/*}/../libvipl/libvipl.so.1" "$work/$name/lib/libvipl/"
    says 125 'cannot be told to search .*/lib/libvipl' "$work/$name/bin/vip_run" "$program"
done
mkdir -p "$work/a[b]/bin" "$work/a[b]/lib"
cp "$vip_run" "$work/a[b]/bin/"
cp -Lr "${vip_run%/*}/../libvipl/libvipl" "$work/a[b]/lib/"
says 0 '^LD_LIBRARY_PATH=.*/a\[b\]/lib/libvipl$' "$work/a[b]/bin/vip_run" --check "$program"

# What the names mean, by a vip_info that only plays: it opens what has no 9 in it. A NIC may have two addresses.
cat >"$work/a[b]/bin/vip_info" <<'END'
#!/bin/sh
case "$2 $VIPL_NIC_MAP" in
--nic=*9*) echo 'vipl: warning: it is broken' >&2 && echo '{"nics": []}' ;;
--nic=*) echo '{"nics": [{"Name": "mlx5_0", "host": "10.9.9.1"}]}' ;;
*) cat "${0%/*}/text" ;;
esac
END
chmod +x "$work/a[b]/bin/vip_info"
place='"port": 1, "interface": "eth0", "address":'
problem() { printf '{"problem": "no %s", "about": "%s", "remedy": "get one"}' "$1" "$1"; }
finds() { echo "{\"problems\": [$1], \"candidates\": [$2]}" >"$work/a[b]/bin/text"; }
some='{"nic": "nic0", "device": "mlx5_0", '"$place"' "10.9.9.1"}, {"nic": "", "device": "mlx5_0", '"$place"' "10.9.9.2"},
    {"nic": "nic0", "device": "mlx5_0", '"$place"' "fd00::9"}, {"nic": "nic1", "device": "mlx5_1", '"$place"' "10.9.8.1"}'
finds "$(problem port)" "$some"
nic0='nic0: RDMA device mlx5_0 port 1, eth0, 10.9.9.1, fd00::9;' nic1='nic1: RDMA device mlx5_1 port 1, eth0, 10.9.8.1;'
opens=': RDMA device mlx5_0, 10.9.9.1;'
nics=('"$@" | grep ^nic | tr "\n" ";"' sh "$work/a[b]/bin/vip_run" --check)
says 0 "^$nic0$nic1\$" sh -c "${nics[@]}" "$program"
says 0 "^${nic1}nic0$opens\$" sh -c "${nics[@]}" --nic=nic0=mlx5_1 "$program"
says 0 "^${nic0}nic1$opens\$" env VIPL_NIC_MAP=x=via_lo,nic1=mlx5_0 sh -c "${nics[@]}" "$program"
verdict 0 ready "$work/a[b]/bin/vip_run" --check "$program"
verdict 1 'not ready: nic0: it is broken' "$work/a[b]/bin/vip_run" --check --nic=nic0=mlx5_9 "$program"
says 0 '^$' "$work/a[b]/bin/vip_run" true
# Names in the program, of which one has to be right.
(cat "$program" && printf '\0/dev/clanvi9\0') >"$work/held"
chmod +x "$work/held"
verdict 1 'not ready: /dev/clanvi9: it is broken' "$work/a[b]/bin/vip_run" --check "$work/held"
printf '\0\\\\.\\VI%%d\0no/dev/via_eth0\0' >>"$work/held"
verdict 0 ready "$work/a[b]/bin/vip_run" --check "$work/held"
says 0 '^\\\\\.\\VI1, in the program: RDMA device mlx5_0, 10\.9\.9\.1$' "$work/a[b]/bin/vip_run" --check "$work/held"
# One line says what is missing, before a program runs.
before() {
    says 0 "^vip_run: note: $1 \\(vip_run --check says more\\)\$" "$work/a[b]/bin/vip_run" true
    says 0 '^1$' sh -c '"$@" 2>&1 | wc -l' sh "$work/a[b]/bin/vip_run" true
    says 0 '^$' "$work/a[b]/bin/vip_run" -n nic0=via_lo true
}
finds "$(problem memory)" "$some"
before 'no memory'
verdict 1 'not ready: no memory' "$work/a[b]/bin/vip_run" --check "$program"
verdict 0 ready "$work/a[b]/bin/vip_run" --check -n nic0=via_lo "$program"
finds "$(problem port), $(problem memory)" '{"nic": "", "device": "mlx5_0", '"$place"' ""}'
before 'no port'
finds "$(problem device), $(problem memory)" ''
before 'there is no RDMA device'
verdict 0 'ready, but for this machine only: there is no RDMA device' "$work/a[b]/bin/vip_run" --check "$program"
# From what cannot be understood nothing follows, a terminal gets no control characters of a name, and nobody waits for long.
for text in 'what' '[]' '{"problems": 3, "candidates": []}' '{"problems": [], "candidates": [{"nic": []}]}' '\351' \
    '{"problems": [{"problem": 1}]}' '{"problems": ["x"], "candidates": [1]}' "$(printf '[%.0s' {1..100000})"; do
    printf '#!/bin/sh\nexec cat "${0%%/*}/text"\n' >"$work/a[b]/bin/vip_info"
    printf "${text//%/%%}" >"$work/a[b]/bin/text"
    says 7 '^$' "$work/a[b]/bin/vip_run" sh -c 'exit 7'
    says 0 '^program: .* bits, linked with VIPL$' "$work/a[b]/bin/vip_run" --check "$program"
done
place='"port": 1, "interface": "eth\u001b[2J", "address": "\udce9"'
echo '{"problems": [], "candidates": [{"nic": "nic0", "device": "mlx5\u009b", '"$place"'}]}' >"$work/a[b]/bin/text"
says 0 '^nic0: RDMA device mlx5\\xc2\\x9b port 1, eth\\x1b\[2J, \\xe9' "$work/a[b]/bin/vip_run" --check "$program"
parts=$(sed -n 's/^sys.path.*, "\(.*\)").*/\1/p' "$vip_run")
cp "$parts"/*.py "$work/"
sed -i 's/^LOOK_LIMIT = 10 /LOOK_LIMIT = 0.1 /' "$work/machine.py"
# --check runs no auditors of a program, which the dynamic linker runs also where it only looks for libraries.
printf '#include <unistd.h>\n__attribute__((constructor)) static void run(void) { write(2, "RAN", 3); }\n' >"$work/auditor.c"
printf 'int main(void) { return 0; }\n' >"$work/audited.c"
cc -w -shared -fPIC -o "$work/auditor.so" "$work/auditor.c"
for tag in audit depaudit; do
    cc -o "$work/$tag" "$work/audited.c" -Wl,--$tag="$work/auditor.so"
    ! "$vip_run" --check -n nic0=via_lo "$work/$tag" 2>&1 | grep RAN || failed=1
    verdict 1 'not ready: .*auditors.*' "$vip_run" --check -n nic0=via_lo "$work/$tag"
done
printf '#!/bin/sh\0\n' >"$work/nul"
chmod +x "$work/nul"
verdict 0 'ready, but .*' "$vip_run" --check -n nic0=via_lo "$work/nul"

# --check runs only GNU's dynamic linkers: a file can name any program as its linker.
python3 - "$work" <<'TEXT' || { echo "--check takes other programs for the dynamic linker, or does not know it"; failed=1; }
import sys
sys.path.insert(0, sys.argv[1])
from verdict import GNU_LINKER
names = "/lib64/ld-linux-x86-64.so.2 /lib/ld-linux.so.2 /lib/ld-linux-aarch64.so.1 /usr/lib/a-b/ld-linux.so.2 /lib/ld.so.1"
others = "/usr/lib/git-core/git /usr/lib/klibc/bin/sh /lib/ld-musl-x86_64.so.1 /lib/../tmp/ld.so.1 /tmp/lib/ld.so.1"
sys.exit(not all(map(GNU_LINKER.fullmatch, names.split())) or any(map(GNU_LINKER.fullmatch, others.split())))
TEXT
sed "s,$parts,$work," "$vip_run" >"$work/a[b]/bin/vip_run"
printf '#!/bin/sh\nexec sleep 1000\n' >"$work/a[b]/bin/vip_info"
says 7 '^$' "$work/a[b]/bin/vip_run" sh -c 'exit 7'
if [[ -n $other ]]; then
    cp -Lr "${vip_run%/*}/../libvipl/libvipl" "$work/lib/"
    says 0 'LD_LIBRARY_PATH=.*/lib/libvipl$' "$work/bin/vip_run" --check "$program"
    verdict 1 'not ready: .* and no libvipl of (32|64) bits is installed .*' "$work/bin/vip_run" --check "$other"
    says 125 'is a program of (32|64) bits, and no libvipl of (32|64) bits' "$work/bin/vip_run" "$other"
fi

# 32-bit programs have drivers of their own. The test hides them where it can.
hide=(unshare --mount sh -c 'mount -t tmpfs none /usr/lib/i386-linux-gnu/libibverbs && exec "$@"' sh)
for each in "$program" ${other:+"$other"}; do
    if [[ $("$vip_run" --check "$each" 2>/dev/null) == *' 32 bits,'*$'\n'ready* ]] && "${hide[@]}" true 2>/dev/null; then
        says 0 'no verbs drivers for programs of 32 bits' "${hide[@]}" "$vip_run" --check "$each"
    fi
done

# If possible the next tests run as an unprivileged user: with a program of another user, and with a
# low limit.
as_nobody=()
if ((EUID == 0)); then
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    cp "$program" "$work/setuid"
    chmod 4755 "$work/setuid"
    if "${as_nobody[@]}" test -x "$vip_run"; then
        says 1 "^not ready: it runs with another user's rights" "${as_nobody[@]}" "$vip_run" --check "$work/setuid"
        says 3 "note: .* runs with another user's rights" "${as_nobody[@]}" sh -c '"$@"; exit 3' sh "$vip_run" "$work/setuid"
    fi
fi
if ((EUID != 0)) || "${as_nobody[@]}" test -x "$vip_run"; then
    says 0 'can register 64 KiB .*hard limit: 64 KiB' prlimit --memlock=65536:65536 \
        "${as_nobody[@]}" "$vip_run" --check "$program"
    # vip_run raises a limit that it may raise.
    says 0 'can register 128 KiB' prlimit --memlock=65536:131072 \
        "${as_nobody[@]}" "$vip_run" --check "$program"
fi
exit "$failed"
