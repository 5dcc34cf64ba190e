#!/bin/sh
set -e
if [ "$1" = configure ]; then
    getent group outboard >/dev/null || addgroup --system --quiet outboard
    getent passwd outboard >/dev/null || \
        adduser --system --quiet --ingroup outboard --no-create-home --home /var/lib/outboard outboard
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        udevadm control --reload 2>/dev/null || true
        udevadm trigger --subsystem-match=misc --sysname-match=userfaultfd 2>/dev/null || true
    fi
fi
