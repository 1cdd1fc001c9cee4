#!/bin/sh
# After installing. dpkg passes "configure" and the previous version, if any; rpm
# passes the number of installed versions.
set -e
root=${DPKG_ROOT:-}

case "$1" in
configure | 1 | 2) ;;
*) exit 0 ;; # dpkg undoes a failed removal
esac

systemd-sysusers ${root:+--root="$root"} stoutd.conf

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

# A new package does not restart the replica: three machines that upgrade at the
# same time would stop the cell. After a removal and an installation the service is
# disabled, although dpkg passes a previous version.
if systemctl ${root:+--root="$root"} is-enabled --quiet stoutd; then
	echo "stout: restart the replicas one by one: systemctl restart stoutd, then wait for /readyz"
else
	echo "stout: edit /etc/stout/stoutd.yaml, then: systemctl enable --now --no-block stoutd"
fi
