#!/bin/sh
# After installing: dpkg says "configure" and the version before, if any; rpm
# says how many versions there are now.
set -e
root=${DPKG_ROOT:-}

case "$1" in
configure | 1 | 2) ;;
*) exit 0 ;; # dpkg takes back a removal that failed
esac

systemd-sysusers ${root:+--root="$root"} stoutd.conf

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

# A replica is not restarted by a new package: three machines that upgrade at the
# same time would stop the cell.
if [ "$1" = 2 ] || [ -n "$2" ]; then
	echo "stout: restart one replica after the other: systemctl restart stoutd, then wait for /readyz"
else
	echo "stout: edit /etc/stout/stoutd.yaml, then: systemctl enable --now stoutd"
fi
