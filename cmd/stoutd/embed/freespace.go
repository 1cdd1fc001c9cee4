package embed

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/wait"
)

// freeSpaceEvery is how often the file system of the data directory is asked. A
// disk that hangs keeps one question, and no scrape of the metrics.
const freeSpaceEvery = 5 * time.Second

// freeSpace is what the file system of the data directory has left.
type freeSpace struct{ bytes atomic.Pointer[uint64] }

// watch asks until ctx ends, or once where the system does not know.
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
	set.Gauges("stout_disk_free_bytes", "What the file system of the data directory has left for stoutd.", nil, func(show metric.Show) {
		if left := f.bytes.Load(); left != nil {
			show(float64(*left))
		}
	})
}
