package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var diskFaults = []fault{
	{name: "disk", about: "write and sync beside the replicas' data; throttle one replica's writes if cgroups allow it", least: 2 * time.Second, most: 8 * time.Second, begin: disk},
}

// neighbours is the number of files that are written at the same time, each
// over and over.
const (
	neighbours    = 4
	neighbourSize = 4 << 20
)

func disk(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	victim := n.any(ctx, r)
	perSecond := 10 + r.IntN(50)
	what := fmt.Sprintf("%d neighbours writing and syncing", neighbours)
	release, err := throttle(victim.PID(), victim.DataDir, perSecond)
	if err == nil {
		what += fmt.Sprintf("; %s may write %d times a second", victim.ID, perSecond)
	}
	var writing sync.WaitGroup
	errs := make([]error, neighbours)
	for i := range neighbours {
		writing.Go(func() {
			errs[i] = load(ctx, filepath.Join(n.Cell.Dir(), fmt.Sprintf("neighbour%d", i)))
		})
	}
	return harm{what: what, replicas: n.Cell.Replicas(), undo: func() error { // they share one disk
		writing.Wait()
		return errors.Join(append(errs, release())...)
	}}, nil
}

// load writes a file and syncs it, piece by piece, until ctx ends.
func load(ctx context.Context, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	defer f.Close()
	piece := make([]byte, neighbourSize/16)
	for at := int64(0); ctx.Err() == nil; at = (at + int64(len(piece))) % neighbourSize {
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
