#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# on_device.sh VIP_CHECK_ADAPTER [HOST]: the check, of a build tree, passes on a device that works, and its file has no name or
# address of this host, or of HOST.
set -u
program=$1 PATH=$PATH:/usr/sbin host=${2:-}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

"$program" --quick --output="$folder/report.tar.gz" ${host:+"$host"}
status=$?
tar -xzf "$folder/report.tar.gz" -C "$folder" && cd "$folder/vip_check_adapter" || exit 1
if ((status != 0)) || ! grep -q '"works": true' report.json || grep -E '"status": "[^o]' report.json; then
    echo "$0: exit status $status; the check does not pass"
    tail -n 50 ./*.txt
    exit 1
fi
grep -q '"gid": "::ffff:ipv4-' report.json || {
    echo "$0: the facts lack the GIDs"
    exit 1
}

# What the system itself says of this host: addresses, and the GUIDs of its devices.
addresses=$(ip address show | sed -nE 's/^ *(link\/ether|inet6?) ([^ /]*).*/\2/p' | grep -vxE '127.0.0.1|::1')
mapfile -t names < <(
    printf '%s\n' "$addresses"
    cat /sys/class/infiniband/*/*_guid
    [[ ! $host ]] || getent hosts "$host" | tr -s ' ' '\n'
)
((${#names[@]} >= 5)) || {
    echo "$0: only ${names[*]} to look for"
    exit 1
}
for name in "${names[@]}"; do
    ! grep -iwF -e "$name" -- * || {
        echo "$0: the file tells $name"
        exit 1
    }
done
echo "$0: the file has none of ${names[*]}"
