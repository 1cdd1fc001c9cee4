package nemesis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/internal/faultpoint"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sequence describes the faults that a plan draws, and their own random draws.
func sequence(seed uint64, length int) (names, all []string) {
	p := newPlan(seed, faults)
	for range length {
		d := p.draw()
		names = append(names, d.name)
		all = append(all, d.name, d.calm.String(), d.lasts.String(), time.Duration(d.random.Uint64()).String())
	}
	return names, all
}

// TestSeedDecidesThePlan: the same seed draws the same faults; another seed
// draws other faults.
func TestSeedDecidesThePlan(t *testing.T) {
	_, first := sequence(7, 50)
	if _, again := sequence(7, 50); !slices.Equal(first, again) {
		t.Errorf("seed 7 drew\n%v and\n%v", first, again)
	}
	if _, other := sequence(8, 50); slices.Equal(first, other) {
		t.Errorf("seeds 7 and 8 drew the same: %v", first)
	}
}

// TestNoKindIsForgotten: each round through the faults contains every kind
// once.
func TestNoKindIsForgotten(t *testing.T) {
	names, _ := sequence(1, 2*len(faults))
	for _, round := range [][]string{names[:len(faults)], names[len(faults):]} {
		for _, f := range faults {
			if !slices.Contains(round, f.name) {
				t.Errorf("%s is missing in %v", f.name, round)
			}
		}
	}
}

// TestRing: with five replicas each sees a majority, itself included, and no
// two see the same one.
func TestRing(t *testing.T) {
	ring := []string{"a", "b", "c", "d", "e"}
	views := map[string]bool{}
	for _, id := range ring {
		sees := map[string]bool{}
		for _, other := range ring {
			sees[other] = true
		}
		for _, p := range apart(ring) {
			if p[0] == id {
				delete(sees, p[1])
			}
			if p[1] == id {
				delete(sees, p[0])
			}
		}
		view := ""
		for _, other := range ring {
			if sees[other] {
				view += other
			}
		}
		if len(view) != 3 || !strings.Contains(view, id) || views[view] {
			t.Errorf("%s sees %s; seen by others: %v", id, view, views)
		}
		views[view] = true
	}
}

// prepared returns a cell of a program that ends at once.
func prepared(t *testing.T) *cell.Cell {
	t.Helper()
	program, err := exec.LookPath("false")
	must(t, err)
	c, err := cell.Prepare(cell.Options{Dir: t.TempDir(), Binary: program, Network: true})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestThrottleLeavesNothingBehind: if a process's disk writes can be throttled,
// its cgroup is gone after the release; otherwise no cgroup was made.
func TestThrottleLeavesNothingBehind(t *testing.T) {
	sleeper := exec.Command("sleep", "60")
	must(t, sleeper.Start())
	defer func() { _ = sleeper.Wait() }()
	defer func() { _ = sleeper.Process.Kill() }()
	release, err := throttle(sleeper.Process.Pid, t.TempDir(), 20)
	t.Logf("throttled: %v", err)
	if err := release(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/blkio/*%d", sleeper.Process.Pid)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestKeeperTellsWhoEndedByItself: a process that ended unexpectedly is
// reported; one that is down on purpose is not.
func TestKeeperTellsWhoEndedByItself(t *testing.T) {
	c := prepared(t)
	k := newKeeper(c)
	for _, r := range c.Replicas() {
		must(t, r.Start())
		<-r.Exited()
	}
	k.down["r1"] = true
	ended := strings.Join(k.Ended(), "\n")
	if strings.Contains(ended, "r1") || !strings.Contains(ended, "replica r2 ended unexpectedly (exit status 1)") || !strings.Contains(ended, "r3") {
		t.Errorf("ended unexpectedly: %s; want r2 and r3", ended)
	}
}

// TestFaultsThatDoNotFit: named faults that are unknown or do not fit the cell
// are refused. Without names they are left out.
func TestFaultsThatDoNotFit(t *testing.T) {
	c := prepared(t)
	for _, name := range []string{"earthquake", "ring", "disk-full", "upgrade"} {
		if _, err := New(Options{Cell: c, Faults: []string{"kill", name}, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s in a cell of three replicas without fault points and of one release: %v", name, err)
		}
	}
	n, err := New(Options{Cell: c, Log: io.Discard})
	must(t, err)
	for _, f := range n.chosen {
		if f.size > 3 || f.points || f.releases {
			t.Errorf("%s is chosen", f.name)
		}
	}
}

// TestOrders: one file has the orders of several faults; each order ends with
// its fault.
func TestOrders(t *testing.T) {
	c := prepared(t)
	r := c.Replica("r1")
	o := orders{of: map[string]map[uint64]string{}}
	want := func(text string) {
		t.Helper()
		if got, err := os.ReadFile(r.FaultFile()); err != nil || string(got) != text {
			t.Errorf("orders %q, %v; want %q", got, err, text)
		}
	}
	slow, err := o.give(r, "sleep 1s", "disk.sync", "store.commit")
	must(t, err)
	kill, err := o.give(r, "kill", "apply")
	must(t, err)
	want("disk.sync sleep 1s 1\nstore.commit sleep 1s 1\napply kill 2\n")
	if err := slow(); err != nil {
		t.Error(err)
	}
	want("apply kill 2\n")
	if err := kill(); err != nil {
		t.Error(err)
	}
	want("")
}

// TestEachPointIsAStage: a process is stopped at every point.
func TestEachPointIsAStage(t *testing.T) {
	for _, point := range faultpoint.Points {
		if !slices.ContainsFunc(stages, func(s stage) bool { return s.point == point }) {
			t.Errorf("no stage is at %s", point)
		}
	}
}

// TestDoomedReplicas: a process that will end by itself is not reported, and
// starts again if it ended as expected.
func TestDoomedReplicas(t *testing.T) {
	c := prepared(t)
	k, r := newKeeper(c), c.Replica("r1")
	for code, refused := range map[int]bool{1: false, 74: true} {
		must(t, r.Start())
		k.doom(r)
		<-r.Exited()
		first := r.PID()
		if ended := strings.Join(k.Ended(), "\n"); strings.Contains(ended, "r1") {
			t.Errorf("ended unexpectedly: %s", ended)
		}
		err := k.revive(r, 0, func(got int, _ string) bool { return got == code })
		if (err != nil) != refused || (r.PID() == first) != refused {
			t.Errorf("it ended with code 1, %d was expected: %v", code, err)
		}
		<-r.Exited()
	}
}

// TestUpgradeEnds: once every replica has the present release, none goes back to
// the previous one, since the cell's level may have risen.
func TestUpgradeEnds(t *testing.T) {
	c, err := cell.Prepare(cell.Options{Dir: t.TempDir(), Binary: "before"})
	must(t, err)
	defer c.Close()
	synctest.Test(t, func(t *testing.T) {
		n, err := New(Options{Cell: c, Log: io.Discard, Now: func() time.Duration { return 0 }, Faults: []string{"upgrade"},
			Present: "present", Before: "before", Upgrade: time.Minute})
		must(t, err)
		n.upgradeAll(t.Context())
		for seed := range uint64(20) {
			if _, err := upgrade(t.Context(), rand.New(rand.NewPCG(seed, 0)), n); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range c.Replicas() {
			if got := r.Command()[0]; got != "present" {
				t.Errorf("%s runs %s", r.ID, got)
			}
		}
	})
}

// TestBackUp: a backup is refused, or has everything that the cell had reported
// before.
func TestBackUp(t *testing.T) {
	var whole bytes.Buffer
	if err := backup.Write(&whole, lockapi.BackupHeader{Cell: "c", Revision: 7}, func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before  uint64
		shown   string // the revision in the header of the answer; "" for a refusal
		refused bool
		says    string
	}{{7, "7", false, ""}, {8, "7", false, "the cell had reported 8 before"}, {7, "6", false, "reported as incomplete"}, {7, "", true, ""}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != lockapi.RouteBackup:
				_ = json.NewEncoder(w).Encode(lockapi.EventList{Revision: c.before})
			case c.shown == "":
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"code":"invalid_argument"}`)
			default:
				w.Header().Set("Content-Type", lockapi.TypeBackup)
				w.Header().Set(lockapi.HeaderRevision, c.shown)
				_, _ = w.Write(whole.Bytes())
			}
		}))
		_, refused, err := backUp(t.Context(), server.URL)
		server.Close()
		if (refused != nil) != c.refused || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, %v", c, refused, err)
		}
	}
}
