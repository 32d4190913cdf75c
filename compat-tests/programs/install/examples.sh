#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# examples.sh EXAMPLES DIRECTORY [VARIABLE=VALUE]...: copies the examples to the directory, builds them by their own Makefile
# with the libvipl that pkg-config finds, and runs them over via_lo: each has to say what it says there.
set -u
examples=$1 work=$2
shift 2
cp -r "$examples" "$work" && cd "$work" && make -s "CFLAGS=-O2 -Wall -Wextra -Werror" "$@" || exit 1
# Both ends start at once, and on a busy machine a server may begin to wait seconds after the request.
export VIPL_NIC_MAP=nic0=via_lo VIPL_GRACE_MSEC=60000
failed=0

# together TEXT PROGRAM...: runs the programs at once. All have to succeed, and print these lines, in any order.
together() {
    local expected=$1 program pids=()
    shift
    : >said
    for program; do
        # shellcheck disable=SC2086 # its arguments
        ./$program >>said &
        pids+=($!)
    done
    for program; do
        wait -n || {
            echo "$0: one of these has failed: $*" >&2
            failed=1
            kill "${pids[@]}" 2>/dev/null # those that wait for it
        }
    done
    # Not as <(...), which "wait -n" of bash 5.3 would wait for next time in place of a program.
    printf '%b' "$expected" | sort >expected
    sort said | diff expected - >&2 || failed=1
}

both='the client says: hello, server\nthe server says: hello, client\n'
at_cq='client 1 says: hello, server\nclient 2 says: hello, server\nthe server says: hello, client\nthe server says: hello, client\n'
lost='the connection is lost: the client has disconnected, or is gone\n'
peers='hello from the left\nhello from the right\n'
written='the client has written: hello, memory (42)\n'
together "$both" hello_server hello_client
together "$at_cq" cq_server 'hello_client localhost cq_server' 'hello_client localhost cq_server'
together "$both$lost" error_handler 'hello_client localhost error_handler'
together "$peers" 'peers left' 'peers right'
together "$written" rdma_write 'rdma_write localhost'
# Each server waits for its own clients.
together "$both$both$at_cq$lost$peers$written" 'rdma_write localhost' 'hello_client localhost cq_server' hello_client \
    'hello_client localhost error_handler' hello_server cq_server 'peers left' error_handler rdma_write 'peers right' \
    'hello_client localhost cq_server'
exit "$failed"
