package simcell

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"
)

// trace is the story of a run. Its hash distinguishes runs even if no story is
// kept.
type trace struct {
	w     *world
	on    bool
	lines []string
	sum   uint64
}

// mark adds an event to the hash of the run.
func (t *trace) mark(kind string, n uint64) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, kind)
	t.sum = (t.sum*0x100000001b3 ^ h.Sum64()) + n + uint64(t.w.now())
}

// note adds a line to the story.
func (t *trace) note(who, format string, args ...any) {
	t.mark(who, uint64(len(format)))
	if t.on {
		line := fmt.Sprintf("%12.6f  step %-4d %-6s %s", t.w.now().Seconds(), t.w.step, who, fmt.Sprintf(format, args...))
		t.lines = append(t.lines, line)
	}
}

// writer returns a log's writer into the story.
func (t *trace) writer(who string) io.Writer {
	if !t.on {
		return io.Discard
	}
	return lineWriter{t, who}
}

type lineWriter struct {
	t   *trace
	who string
}

func (l lineWriter) Write(p []byte) (int, error) {
	l.t.note(l.who, "%s", strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// Report is the result of a run of seeds.
type Report struct {
	Failure *Failure `json:"failure,omitempty"` // the first one; no seed runs after it
	Stats   *Stats   `json:"stats"`
	Sum     uint64   `json:"sum"` // equal for equal runs
}

// Add adds the result of other seeds. The hash does not depend on the order.
// The first failure counts.
func (r *Report) Add(other Report) {
	if r.Failure == nil {
		r.Failure = other.Failure
	}
	if r.Stats == nil {
		r.Stats = newStats()
	}
	r.Sum += other.Sum
	if o := other.Stats; o != nil {
		r.Stats.add(o)
	}
}

// Stats count the work of the runs.
type Stats struct {
	Seeds     int            `json:"seeds"`
	Steps     int            `json:"steps"`
	Virtual   time.Duration  `json:"virtual"`
	Entries   int            `json:"entries"`   // committed and checked
	Messages  int            `json:"messages"`  // of Raft
	Pipelined int            `json:"pipelined"` // those sent through a pipe
	Requests  int            `json:"requests"`  // of HTTP
	Faults    map[string]int `json:"faults"`
	Checks    map[string]int `json:"checks"`
	Offices   int            `json:"offices"`
}

func newStats() *Stats { return &Stats{Faults: map[string]int{}, Checks: map[string]int{}} }

func (s *Stats) add(o *Stats) {
	s.Seeds += o.Seeds
	s.Steps += o.Steps
	s.Virtual += o.Virtual
	s.Entries += o.Entries
	s.Messages += o.Messages
	s.Pipelined += o.Pipelined
	s.Requests += o.Requests
	s.Offices += o.Offices
	for kind, n := range o.Faults {
		s.Faults[kind] += n
	}
	for kind, n := range o.Checks {
		s.Checks[kind] += n
	}
}

func (s *Stats) fault(kind string) { s.Faults[kind]++ }
func (s *Stats) check(kind string) { s.Checks[kind]++ }
