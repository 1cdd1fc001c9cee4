package embed

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/wait"
)

// freeSpaceEvery is the interval of queries to the file system of the data directory.
// A disk that hangs blocks one query, and no scrape of the metrics.
const freeSpaceEvery = 5 * time.Second

// freeSpace has the free bytes on the file system of the data directory.
type freeSpace struct{ bytes atomic.Pointer[uint64] }

// watch queries until ctx ends, or once if the system does not support it.
func (f *freeSpace) watch(ctx context.Context, dir string) {
	tick := time.NewTicker(freeSpaceEvery)
	defer tick.Stop()
	for {
		left, err := wait.Get(ctx, func() (uint64, error) { return freeBytes(dir) })
		switch {
		case err == nil:
			f.bytes.Store(&left)
		case errors.Is(err, errors.ErrUnsupported):
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *freeSpace) metrics(set *metric.Set) {
	set.Gauges("stout_disk_free_bytes", "Bytes free for stoutd on the file system of the data directory.", nil, func(show metric.Show) {
		if left := f.bytes.Load(); left != nil {
			show(float64(*left))
		}
	})
}
