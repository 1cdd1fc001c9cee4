package master

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// TestMemoryEstimates measures the memory of items on a master, in the state
// and in the office. It compares them with the estimates that quotas of bytes
// use: between two thirds of the truth and twice the truth.
func TestMemoryEstimates(t *testing.T) {
	testrun.Sequential(t)
	const sessions, many = 2_000, 10_000
	long := strings.Repeat("/long-segment-of-a-path", 10)
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = rand.Text()
	}
	owner := func(i int) string { return ids[i%sessions] }
	open := func(i int) state.Command {
		return state.Command{Operation: &state.OpenSession{Session: ids[i], TTLMS: 12_000}}
	}
	take := func(prefix string) func(int) state.Command {
		return func(i int) state.Command {
			return state.Command{Operation: &state.Acquire{Session: owner(i), Path: fmt.Sprintf("%s/%d", prefix, i), Mode: state.Exclusive, DelayMS: 60_000}}
		}
	}
	queue := func(i int) state.Command {
		return state.Command{Operation: &state.Acquire{Session: owner(i), Handle: fmt.Sprint(i), Path: "/locks/0", Mode: state.Exclusive, Wait: state.Persistent}}
	}
	file := func(content int) func(int) state.Command {
		return func(i int) state.Command {
			w := &state.Write{Path: fmt.Sprintf("/files/%d/%d", content, i), Content: make([]byte, content), Sum: make([]byte, 32)}
			return state.Command{Operation: &state.Transaction{Then: []state.Step{w}}}
		}
	}
	named := func(i int) state.Command {
		return state.Command{Operation: &state.OpenSession{Session: rand.Text(), TTLMS: 12_000, Name: fmt.Sprintf("service@host-%d", i),
			Key: rand.Text(), Digest: make([]byte, 16), Meta: map[string]string{"pid": fmt.Sprint(i), "version": "v1.2.3"}}}
	}
	keyed := func(steps ...state.Step) func(int) state.Command {
		return func(i int) state.Command {
			return state.Command{Operation: &state.Transaction{Session: owner(i), Key: rand.Text(), Digest: make([]byte, 16), Then: steps}}
		}
	}
	overwrite := func(i int) state.Command {
		return keyed(&state.Write{Path: fmt.Sprintf("/files/0/%d", i), Sum: make([]byte, 32)})(i)
	}
	replace := func(i int) state.Command { // only the answer has the old content then
		path := fmt.Sprintf("/files/1024/%d", i)
		return keyed(&state.Get{Path: path}, &state.Write{Path: path, Content: make([]byte, 1024), Sum: make([]byte, 32)})(i)
	}
	refused := func(i int) state.Command {
		return keyed(&state.Write{Path: fmt.Sprintf("/files/0/%d", i), Sum: make([]byte, 32), When: state.IfAbsent})(i)
	}
	toldFile := func(content int) state.StepResult {
		return state.StepResult{File: &state.File{Path: "/files/1024/12345", Content: make([]byte, content)}}
	}
	answer := func(r state.TransactionResult) int64 {
		return (&state.Answer{Key: rand.Text(), Result: r}).Bytes()
	}
	rule := func(entries int) func(int) state.Command {
		return func(i int) state.Command {
			return state.Command{Caller: "user:admin", Operation: &state.PutRule{Rule: *ruleFor(i, entries)}}
		}
	}
	group := func(members int) func(int) state.Command {
		return func(i int) state.Command {
			return state.Command{Operation: &state.PutGroup{Group: *groupFor(i, members)}}
		}
	}
	quota := func(limits int) func(int) state.Command {
		return func(i int) state.Command {
			return state.Command{Operation: &state.PutQuota{Quota: *quotaFor(i, limits)}}
		}
	}
	g := newGrowth()
	g.apply([]state.Command{{Operation: &state.RaiseLevel{Level: state.Level}}})
	for _, step := range []struct {
		what  string
		n     int
		of    func(int) state.Command
		check int64
	}{
		{"a session", sessions, open, (&state.OpenSession{}).Bytes()},
		{"a session with a name, a key and metadata", sessions, named,
			(&state.OpenSession{Name: "service@host-1234", Key: rand.Text(), Meta: map[string]string{"pid": "1234", "version": "v1.2.3"}}).Bytes()},
		{"a lock held", many, take("/locks"), state.BytesOfHandle("/locks/12345", "")},
		{"a lock with a long path held", many, take(long), state.BytesOfHandle(long+"/12345", "")},
		{"an empty file", many, file(0), state.BytesOfFile("/files/0/12345", 0)},
		{"a file of 1 KiB", many, file(1024), state.BytesOfFile("/files/1024/12345", 1024)},
		{"the answer to a write", many, overwrite, answer(state.TransactionResult{Steps: []state.StepResult{toldFile(0)}})},
		{"the answer to a read of 1 KiB and a write", many, replace,
			answer(state.TransactionResult{Steps: []state.StepResult{toldFile(1024), toldFile(0)}})},
		{"the answer to a write that was refused", many, refused,
			answer(state.TransactionResult{Failure: &state.Failure{Current: toldFile(0).File}})},
		{"a short rule", sessions, rule(1), ruleFor(1234, 1).Size()},
		{"a rule with entries", sessions, rule(40), ruleFor(1234, 40).Size()},
		{"a short group", sessions, group(1), groupFor(1234, 1).Size()},
		{"a group with members", sessions, group(20), groupFor(1234, 20).Size()},
		{"a quota with a limit", 5000, quota(1), quotaFor(1234, 1).Size()},
		{"a full quota", 5000, quota(len(access.Resources)), quotaFor(1234, len(access.Resources)).Size()},
		{"a place in a queue", many, queue, state.BytesOfHandle("/locks/0", "12345")},
	} {
		before := liveHeap()
		for first := 0; first < step.n; first += 100 {
			var batch []state.Command
			for i := range 100 {
				batch = append(batch, step.of(first+i))
			}
			g.apply(batch)
		}
		real, estimate := float64(liveHeap()-before)/float64(step.n), float64(step.check)
		t.Logf("%s: %.0f bytes, estimated as %.0f", step.what, real, estimate)
		if estimate < real*2/3 || estimate > real*2 {
			t.Errorf("%s takes %.0f bytes, and is estimated as %.0f", step.what, real, estimate)
		}
	}
	runtime.KeepAlive(g)
}

func ruleFor(i, entries int) *access.Rule {
	r := &access.Rule{Path: fmt.Sprintf("/rules/%d/%d", entries, i), Lists: map[access.Permission][]string{}}
	for k := range entries {
		r.Lists[access.Read] = append(r.Lists[access.Read], fmt.Sprintf("user:somebody-%d", k))
	}
	return r
}

func groupFor(i, members int) *access.Members {
	g := &access.Members{Group: fmt.Sprintf("group-%d-%d", members, i)}
	for k := range members {
		g.Members = append(g.Members, fmt.Sprintf("user:somebody-%d-%d", i, k))
	}
	return g
}

func quotaFor(i, limits int) *access.Quota {
	q := &access.Quota{Of: fmt.Sprintf("user:somebody-%d-%d", limits, i)}
	for _, r := range access.Resources[:limits] {
		if q.Limits == nil {
			q.Limits = map[access.Resource]int64{}
		}
		q.Limits[r] = int64(i)
	}
	return q
}

// growth is a state and the office that follows it, without a log between them.
type growth struct {
	Log
	state  atomic.Pointer[state.State]
	office *office
}

func newGrowth() *growth {
	opts := &Options{LeaseTerm: time.Second, Clock: func() time.Duration { return 0 }}
	g := &growth{}
	g.state.Store(state.New())
	g.office = makeOffice(opts, g, 0, 0, newVitals(opts.LeaseTerm), nil)
	g.apply([]state.Command{{Operation: &state.OpenOffice{Master: "r1", Term: 1}}})
	return g
}

func (g *growth) State() *state.State { return g.state.Load() }

func (g *growth) apply(batch []state.Command) {
	s := g.State()
	raw, err := (&state.Batch{Epoch: s.Epoch, LeaseMS: 1000, Commands: batch}).Encode()
	if err != nil {
		panic(err)
	}
	again, err := state.DecodeBatch(raw) // as on every replica: the decoded batch owns its strings
	if err != nil {
		panic(err)
	}
	next, out := s.Apply(s.Index+1, 1, again)
	if !out.Accepted {
		panic("a batch was refused")
	}
	g.state.Store(next)
	g.office.follow(&out)
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
