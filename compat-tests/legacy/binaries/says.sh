#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Checks vip_run's messages and exit status when a program cannot be run or something is missing.
#
# usage: says.sh VIP_RUN PROGRAM STATIC-PROGRAM [PROGRAM-OF-THE-OTHER-WORD-SIZE]
set -u

if (($# < 3 || $# > 4)); then
    echo "usage: $0 VIP_RUN PROGRAM STATIC-PROGRAM [OTHER-PROGRAM]" >&2
    exit 2
fi
vip_run=$1 program=$2 static=$3 other=${4:-}
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
for size in 1 4 16 20 40 60 64 100 700 900 5000 12000; do
    head -c "$size" "$program" >"$work/cut"
    chmod +x "$work/cut"
    says 126 '^(vip_run|program): ' sh -c '"$@"; status=$?; [ $status -gt 127 ] && exit $status; exit 126' sh \
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
mkdir -p "$work/a[b]/bin" "$work/a[b]/lib/libvipl"
cp "$vip_run" "$work/a[b]/bin/"
cp -L "${vip_run%/*}/../libvipl/libvipl.so.1" "$work/a[b]/lib/libvipl/"
says 0 '^LD_LIBRARY_PATH=.*/a\[b\]/lib/libvipl$' "$work/a[b]/bin/vip_run" --check "$program"

# What the names mean, by a vip_info that only plays. A name in the map has another meaning, and a NIC may have two addresses.
cat >"$work/a[b]/bin/vip_info" <<'END'
#!/bin/sh
place='"port": 1, "interface": "eth0", "address":'
echo '{"problems": [], "candidates": [
    {"nic": "nic0", "device": "mlx5_0", '"$place"' "10.9.9.1"}, {"nic": "", "device": "mlx5_0", '"$place"' "10.9.9.2"},
    {"nic": "nic0", "device": "mlx5_0", '"$place"' "fd00::9"}, {"nic": "nic1", "device": "mlx5_1", '"$place"' "10.9.8.1"}]}'
END
chmod +x "$work/a[b]/bin/vip_info"
nic0='nic0: RDMA device mlx5_0 port 1, eth0, 10.9.9.1, fd00::9;' nic1='nic1: RDMA device mlx5_1 port 1, eth0, 10.9.8.1;'
nics=('"$@" | grep ^nic | tr "\n" ";"' sh "$work/a[b]/bin/vip_run" --check)
says 0 "^$nic0$nic1\$" sh -c "${nics[@]}" "$program"
says 0 "^$nic1\$" sh -c "${nics[@]}" --nic=nic0=mlx5_1 "$program"
says 0 "^$nic0\$" env VIPL_NIC_MAP=x=via_lo,nic1=mlx5_0 sh -c "${nics[@]}" "$program"
says 0 '^$' env VIPL_NIC_MAP=nic1=mlx5_0 sh -c "${nics[@]}" --nic=nic0=via_lo "$program"
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
sed 's/^LOOK_LIMIT = 10 /LOOK_LIMIT = 0.1 /' "$vip_run" >"$work/a[b]/bin/vip_run"
printf '#!/bin/sh\nexec sleep 1000\n' >"$work/a[b]/bin/vip_info"
says 7 '^$' "$work/a[b]/bin/vip_run" sh -c 'exit 7'
if [[ -n $other ]]; then
    cp -L "${vip_run%/*}/../libvipl/libvipl.so.1" "$work/lib/libvipl/libvipl.so.1"
    says 0 'LD_LIBRARY_PATH=.*/lib/libvipl$' "$work/bin/vip_run" --check "$program"
    says 125 'is a program of (32|64) bits, and no libvipl of (32|64) bits' "$work/bin/vip_run" "$other"
fi

# 32-bit programs have drivers of their own. The test hides them where it can.
hide=(unshare --mount sh -c 'mount -t tmpfs none /usr/lib/i386-linux-gnu/libibverbs && exec "$@"' sh)
for each in "$program" ${other:+"$other"}; do
    if [[ $("$vip_run" --check "$each" 2>/dev/null) == *' 32 bits,'* ]] && "${hide[@]}" true 2>/dev/null; then
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
        says 0 "another user's rights" "${as_nobody[@]}" "$vip_run" --check "$work/setuid"
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
