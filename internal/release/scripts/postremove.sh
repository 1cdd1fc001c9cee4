#!/bin/sh
# After removing, and after dpkg's purge. The data directory, the audit logs and
# their user stay: a member that loses its directory is lost to its cell, which no
# package manager should cause.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
case "$1" in
purge)
	if [ -d "${DPKG_ROOT:-}/var/lib/stoutd" ]; then
		echo "stout: /var/lib/stoutd is kept; remove it when the cell does not need this member"
	fi
	;;
esac
