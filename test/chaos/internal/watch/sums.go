package watch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// metric matches the sum of a replica's state, or the index of its log entry.
var metric = regexp.MustCompile(`^stout_state_checksum(_index)? (\S+)$`)

// Sums compares the sums that replicas show. It is safe for concurrent use.
type Sums struct {
	mu       sync.Mutex
	entries  map[uint64]map[string]string // by index and replica
	problems []string
}

// NewSums returns an empty Sums.
func NewSums() *Sums { return &Sums{entries: map[uint64]map[string]string{}} }

// every is the interval between reads of the sums. It is short enough to see
// most sums of a replica, which makes one every five seconds.
const every = 500 * time.Millisecond

// Watch reads the sums of all replicas until ctx ends.
func (s *Sums) Watch(ctx context.Context, c *cell.Cell) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.Look(ctx, c)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Look reads the sums of all replicas that answer, once.
func (s *Sums) Look(ctx context.Context, c *cell.Cell) {
	var looking sync.WaitGroup
	for _, r := range c.Replicas() {
		if !r.Running() || r.Paused() {
			continue
		}
		looking.Go(func() {
			if index, sum, ok := read(ctx, r); ok {
				s.Add(index, r.ID, sum)
			}
		})
	}
	looking.Wait()
}

// read returns a replica's sum; false if it does not answer or has no sum yet.
func read(ctx context.Context, r *cell.Replica) (index uint64, sum string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, page, err := cell.Exchange(ctx, nil, http.MethodGet, r.URL+lockapi.RouteMetrics, nil, nil)
	if err != nil {
		return 0, "", false
	}
	return parse(bytes.NewReader(page))
}

func parse(metrics io.Reader) (index uint64, sum string, ok bool) {
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		found := metric.FindStringSubmatch(lines.Text())
		switch {
		case found == nil:
		case found[1] == "":
			sum = found[2]
		default:
			number, err := strconv.ParseFloat(found[2], 64)
			if err != nil {
				return 0, "", false
			}
			index = uint64(number)
		}
	}
	return index, sum, index > 0 && sum != ""
}

// Add records a sum. It compares it with earlier sums at the same index, from
// this replica and from the others.
func (s *Sums) Add(index uint64, replica, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.entries[index]
	if seen == nil {
		seen = map[string]string{}
		s.entries[index] = seen
	}
	for other, theirs := range seen {
		if theirs != sum {
			s.problems = append(s.problems, fmt.Sprintf("the state after log entry %d has the sum %s at %s and %s at %s", index, sum, replica, theirs, other))
		}
	}
	seen[replica] = sum
}

// Compared returns the number of log entries with the sums of at least two
// replicas.
func (s *Sums) Compared() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.entries {
		if len(seen) > 1 {
			n++
		}
	}
	return n
}

// Latest returns the highest index with the sums of this many replicas.
func (s *Sums) Latest(replicas int) (index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, seen := range s.entries {
		if len(seen) >= replicas {
			index = max(index, i)
		}
	}
	return index
}

// Problems returns the differences.
func (s *Sums) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.problems...)
}
