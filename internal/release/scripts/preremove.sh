#!/bin/sh
# Before removing. dpkg passes "remove", rpm 0 as the number of remaining versions.
set -e
case "$1" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now stoutd.service
	fi
	;;
esac
