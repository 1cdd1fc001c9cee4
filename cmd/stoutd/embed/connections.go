package embed

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutd/config"
)

const (
	// ownFiles is the reserve of open files for the log, snapshots, and connections
	// of Raft. Without it a write could fail, and with it the replica. It is at most
	// half of the limit.
	ownFiles = 512
	// fewestFiles is the least limit with which a replica starts.
	fewestFiles = 128
	// mostConnections is the bound if the settings have none. It bounds memory: a
	// waiting call takes about 25 KiB.
	mostConnections = 65_536
)

// maxConnections returns how many connections the API may have open under a limit on
// open files.
func maxConnections(c *config.Config, limit uint64, known bool) (int, error) {
	asked := c.MaxConnections
	if !known {
		if asked == 0 {
			asked = mostConnections
		}
		return int(asked), nil
	}
	if limit < fewestFiles {
		return 0, refused(c, fmt.Sprintf("the limit on open files is %d; a replica needs at least %d (ulimit -n, LimitNOFILE=)", limit, fewestFiles))
	}
	left := limit - min(ownFiles, limit/2)
	switch {
	case asked > left:
		return 0, refused(c, fmt.Sprintf("the limit on open files is %d, which leaves %d beside the replica's own files; raise the limit (ulimit -n, LimitNOFILE=) or lower the setting", limit, left))
	case asked == 0:
		asked = min(left, mostConnections)
	}
	return int(asked), nil
}

func refused(c *config.Config, why string) error {
	const name = "max-connections"
	return config.Problems{{Field: name, Value: fmt.Sprint(c.MaxConnections), Source: c.Source(name), Reason: why}}
}
