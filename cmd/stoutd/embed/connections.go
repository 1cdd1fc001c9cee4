package embed

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutd/config"
)

const (
	// ownFiles are kept back from the limit on open files for the log,
	// snapshots, and connections of Raft: were they to find none left, a write
	// would fail, and with it the replica. Under a low limit it is half of it.
	ownFiles = 512
	// fewestFiles is the least limit with which a replica starts.
	fewestFiles = 128
	// mostConnections bounds the connections where nobody has: at about 25 KiB
	// for a call that waits, it is one on memory.
	mostConnections = 65_536
)

// maxConnections is how many connections the API may have open under the given
// limit on open files.
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
		return 0, refused(c, fmt.Sprintf("the limit on open files is %d, which leaves %d beside the replica's own; raise the limit (ulimit -n, LimitNOFILE=) or lower the setting", limit, left))
	case asked == 0:
		asked = min(left, mostConnections)
	}
	return int(asked), nil
}

func refused(c *config.Config, why string) error {
	const name = "max-connections"
	return config.Problems{{Field: name, Value: fmt.Sprint(c.MaxConnections), Source: c.Source(name), Reason: why}}
}
