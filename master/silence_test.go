package master

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/cell"
)

func silenceFor(d time.Duration) SilenceRequest {
	return SilenceRequest{SilenceRequest: lockapi.SilenceRequest{ForMS: d.Milliseconds()}}
}

// TestSilence: a silent master serves nobody from that moment on, its successor
// outwaits its lease, sessions and locks stay, and it follows by itself.
func TestSilence(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a, b := two(t, n.master)
		mustHold(t, n.master, "/a", want(a))
		waits := begin(t.Context(), n.master, "/a", want(b, waiting(time.Minute)))
		waits.running(t)
		got, err := n.master.Silence(t.Context(), silenceFor(5*time.Second))
		if err != nil || got.Master != "r1" || got.ForMS != 5000 {
			t.Fatalf("got %+v, %v", got, err)
		}
		began := time.Now()
		code(t, waits.answered(t).err, lockapi.CodeOutcomeUnknown)
		if loc := n.master.Known(); loc.ID != "" {
			t.Errorf("it knows of %+v", loc)
		}
		if n.master.Lease().Held {
			t.Error("it holds its lease")
		}
		_, err = n.master.Silence(t.Context(), silenceFor(time.Second))
		code(t, err, lockapi.CodeNoMaster)
		next := c.node("r2")
		c.elect("r2")
		c.inOffice(next, 2*leaseTerm)
		if waited := time.Since(began); waited < leaseTerm-100*time.Millisecond {
			t.Errorf("the successor waited %v only, and the lease is for %v", waited, leaseTerm)
		}
		if holder(next.State(), "/a") != a || next.State().SessionCount() != 2 {
			t.Errorf("%q holds, %d sessions", holder(next.State(), "/a"), next.State().SessionCount())
		}
		pass(5 * time.Second)
		if n.master.inOffice() != nil {
			t.Error("it is in office again beside its successor")
		}
		if _, leads := n.Leading(); leads {
			c.depose("r1") // the true one notices by itself
		}
		if c.office("r1"); n.master.inOffice() == nil {
			t.Error("it can't be master any more")
		}
	})
}

// TestSilenceThatNobodyNoticed is over before another was elected: a new office,
// never the old one.
func TestSilenceThatNobodyNoticed(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, time.Minute)
		if _, err := n.master.Silence(t.Context(), silenceFor(time.Second)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second - 1)
		if n.master.inOffice() != nil {
			t.Error("in office before the silence is over")
		}
		if o := c.inOffice(n, time.Minute); o.epoch != 2 {
			t.Errorf("epoch %d, want 2", o.epoch)
		}
		if k, err := keepalive1(n.master, id, 0, 0); err != nil || k.Epoch != 2 {
			t.Errorf("keepalive: %+v, %v", k, err)
		}
	})
}

// TestSilenceThroughASuspend is over when the log is heard again, which goes by a clock
// that goes on while the machine is suspended.
func TestSilenceThroughASuspend(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		if _, err := n.master.Silence(t.Context(), silenceFor(30*time.Second)); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		n.Sleep(24 * time.Second)
		if pass(999 * time.Millisecond); n.master.inOffice() != nil {
			t.Error("in office before the silence is over")
		}
		n.Sleep(time.Minute)
		c.cutOff(n.id, false)
		c.inOffice(n, 2*leaseTerm)
	})
}

// TestSilentReplicaStops without waiting for anybody.
func TestSilentReplicaStops(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		if _, err := n.master.Silence(t.Context(), silenceFor(30*time.Second)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := n.master.Close(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if n.master.silence.Stop() {
			t.Error("a replica that stopped looks whether its silence is over")
		}
		pass(30 * time.Second)
		if n.master.inOffice() != nil {
			t.Error("a replica that stopped is in office")
		}
	})
}

// TestSilenceRefusals change nothing.
func TestSilenceRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*fakeConf)
		req     SilenceRequest
		want    lockapi.Code
		says    string
	}{
		"one is away": {func(f *fakeConf) { delete(f.at, "r2") }, silenceFor(time.Second), lockapi.CodeUnsafe, "1 of 3 members that vote are well"},
		"a change is under way": {func(f *fakeConf) {
			f.members = append(f.members, cell.MemberStatus{Member: cell.Member{ID: "r3"}, Directory: newDirectory})
		}, silenceFor(time.Second), lockapi.CodeUnsafe, "change of the members"},
		"too short": {nil, silenceFor(999 * time.Millisecond), lockapi.CodeInvalidArgument, "1000..30000"},
		"too long":  {nil, silenceFor(30001 * time.Millisecond), lockapi.CodeInvalidArgument, "1000..30000"},
		"at most":   {nil, silenceFor(30 * time.Second), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				c.set(func(f *fakeConf) {
					f.members = slices.Clone(f.members) // others read them
					if tc.prepare != nil {
						tc.prepare(f)
					}
				})
				_, err := n.master.Silence(t.Context(), tc.req)
				if tc.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				code(t, err, tc.want)
				if !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
				if o := openOffice(t, n); o.epoch != 1 {
					t.Errorf("epoch %d: a refused silence changed something", o.epoch)
				}
			})
		})
	}
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		_, err := m.Silence(t.Context(), silenceFor(time.Second))
		code(t, err, lockapi.CodeUnsafe)
	})
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		_, err := c.node("r2").master.Silence(t.Context(), silenceFor(time.Second))
		code(t, err, lockapi.CodeNoMaster)
	})
}
