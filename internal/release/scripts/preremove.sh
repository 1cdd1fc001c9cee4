#!/bin/sh
# Before removing: dpkg says "remove", rpm that no version remains.
set -e
case "$1" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now stoutd.service
	fi
	;;
esac
