package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// admit makes a joiner a member, with the addresses that it reports.
func admit(t *testing.T, by []*cell.Replica, r *cell.Replica, suffrage string) {
	t.Helper()
	report, err := r.Stranger(cell.Bounded(t))
	must(t, err)
	want := fmt.Sprintf("stout member add %s --directory %s --raft-addr %s --url %s", r.ID, report.Directory, r.RaftAddr, r.URL)
	if report.Command != want {
		t.Errorf("%s reports %q, want %q", r.ID, report.Command, want)
	}
	insistMember(t, by, http.MethodPost, "", lockapi.AddMemberRequest{ID: r.ID, Directory: report.Directory, RaftAddr: r.RaftAddr, URL: r.URL, Suffrage: suffrage})
}

// insistMember makes a change of the members, and waits for a concurrent one to
// end. A repeated removal, after a lost answer, finds no member.
func insistMember(t *testing.T, by []*cell.Replica, method, target string, in any) {
	t.Helper()
	asked := 0
	must(t, cell.Wait(cell.Bounded(t), method+" "+target, func(ctx context.Context) error {
		n, err := cell.Insist(ctx, by, method, lockapi.RouteMembers+target, in, nil)
		asked += n
		if method == http.MethodDelete && asked > 1 && errors.Is(err, lockapi.CodeNotFound) {
			return nil
		}
		return err
	}))
}

// wantVoters waits until the members are the given ones, with a vote ("r1+") or
// without.
func wantVoters(t *testing.T, r *cell.Replica, tolerates int, want ...string) lockapi.Members {
	t.Helper()
	var now lockapi.Members
	must(t, cell.Wait(cell.Bounded(t), fmt.Sprintf("the members are %q", want), func(ctx context.Context) error {
		if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteMembers, nil, &now); err != nil {
			return err
		}
		var got []string
		for _, m := range now.Members {
			if !m.Healthy {
				return fmt.Errorf("%s is not well", m.ID)
			}
			if m.Suffrage == lockapi.SuffrageVoter {
				m.ID += "+"
			}
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) || now.Tolerates != tolerates {
			return fmt.Errorf("they are %q, and it tolerates %d", got, now.Tolerates)
		}
		return nil
	}))
	return now
}

// wantRemoved waits until a removed replica has logged its removal and ended
// with exit code 0.
func wantRemoved(t *testing.T, r *cell.Replica) {
	t.Helper()
	select {
	case <-r.Exited():
	case <-cell.Bounded(t).Done():
		t.Fatalf("%s runs on:\n%s", r.ID, r.LogTail(5))
	}
	if code, how := r.ExitState(); code != 0 || !strings.Contains(r.LogTail(5), "was removed from the cell") {
		t.Errorf("%s ends with %d (%s):\n%s", r.ID, code, how, r.LogTail(5))
	}
}

// TestMembersComeAndGo: a cell of three grows to five under load, one of them
// first without a vote. The master is removed, another member moves, all are
// restarted, and no acknowledged change is lost.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	l := startLoad(t, c, 3)
	s := open(t, master, aWhile)
	held := acquire(t, master, "/kept", ask(s.ID, "", 0))

	r4, err := c.Join("r4")
	must(t, err)
	r5, err := c.Join("r5")
	must(t, err)
	admit(t, c.Replicas(), r4, "")
	admit(t, c.Replicas(), r5, lockapi.SuffrageNonvoter)
	wantVoters(t, r4, 1, "r1+", "r2+", "r3+", "r4+", "r5")
	l.progress(t, 50)
	call[lockapi.Lock](t, r5, http.MethodGet, lockRoute("/kept")+"?consistency=stale", nil)
	call[lockapi.EventList](t, r5, http.MethodGet, lockapi.RouteEvents+"?after=0&limit=1", nil)
	voter := lockapi.SuffrageVoter
	insistMember(t, c.Replicas(), http.MethodPatch, "/r5", lockapi.SetMemberRequest{Suffrage: &voter})
	wantVoters(t, r4, 2, "r1+", "r2+", "r3+", "r4+", "r5+")

	first, err := c.Master(cell.Bounded(t))
	if err != nil {
		first = master // a joined replica
	}
	insistMember(t, []*cell.Replica{r4}, http.MethodDelete, "/"+first.ID, nil)
	wantRemoved(t, first)
	rest := c.Others(first)
	want := []string{rest[0].ID + "+", rest[1].ID + "+", "r4+", "r5+"}
	wantVoters(t, r5, 1, want...)
	l.progress(t, 50)
	wantHolder(t, read(t, r5, "/kept"), held)
	l.stop()
	l.writers.Wait()

	// r4 moves, and then all others are restarted.
	must(t, r4.Kill())
	moved, err := c.Rejoin(r4)
	must(t, err)
	insistMember(t, rest, http.MethodPatch, "/r4", lockapi.SetMemberRequest{RaftAddr: &moved.RaftAddr, URL: &moved.URL})
	must(t, moved.Start())
	now := wantVoters(t, rest[0], 1, want...)
	if m := now.Members[2]; m.RaftAddr != moved.RaftAddr || m.URL != moved.URL {
		t.Errorf("it has moved to %s and is at %+v", moved.URL, m)
	}
	all := []*cell.Replica{rest[0], rest[1], moved, r5}
	for _, r := range all {
		must(t, r.Kill())
	}
	for _, r := range all {
		must(t, r.Start())
	}
	wantVoters(t, moved, 1, want...)
	wantHolder(t, read(t, moved, "/kept"), held)

	// Shrink to one, which cannot be removed.
	for _, r := range []*cell.Replica{rest[0], moved, r5} {
		insistMember(t, []*cell.Replica{rest[1]}, http.MethodDelete, "/"+r.ID, nil)
		wantRemoved(t, r)
	}
	wantVoters(t, rest[1], 0, rest[1].ID+"+")
	_, err = cell.Insist(cell.Bounded(t), rest[1:2], http.MethodDelete, lockapi.RouteMembers+"/"+rest[1].ID+"?force=true", nil, nil)
	wantCode(t, "the last one is removed", err, lockapi.CodeUnsafe)
	wantHolder(t, read(t, rest[1], "/kept"), held)

	// A removed replica that is started again waits, and does nothing else.
	must(t, r5.Start())
	if report, err := r5.Stranger(cell.Bounded(t)); err != nil || !strings.Contains(report.Detail, "it was removed") {
		t.Errorf("%v, %v", report, err)
	}
}
