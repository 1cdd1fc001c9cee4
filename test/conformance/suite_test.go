package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func TestMain(m *testing.M) {
	testrun.Wait(16) // scenarios wait for leases
	os.Exit(testrun.Main(m.Run))
}

// driverVariable names the command of the driver that TestGiven runs, for a
// shell.
const driverVariable = "STOUT_CONFORMANCE_DRIVER"

// TestGiven runs the suite with the driver that the environment names, by
// default that of the Go client.
func TestGiven(t *testing.T) {
	if command := os.Getenv(driverVariable); command != "" {
		runAll(t, scenarios, "sh", "-c", "exec "+command)
		return
	}
	runAll(t, share(t, "go"), goDriver(t))
}

// TestTypeScript runs the suite with the client for Node.
func TestTypeScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the client for Node needs Node 20 or later: install node")
	}
	runAll(t, share(t, "node"), node, filepath.Join(root(t), "client/typescript/conformance/driver.js"))
}

func root(t *testing.T) string {
	t.Helper()
	root, err := cell.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// goDriver builds the driver of the Go client.
func goDriver(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := cell.Build(t.Context(), root(t), dir, false, "./test/conformance/godriver"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "godriver")
}

// scenario is one row of the suite.
type scenario struct {
	name string
	run  func(*world)
}

var scenarios = []scenario{
	{"lease-counts-from-sending", leaseCountsFromSending},
	{"lease-of-a-late-opening", leaseOfALateOpening},
	{"paused-client", pausedClient},
	{"cut-off", cutOff},
	{"jeopardy", jeopardy},
	{"resume", resume},
	{"contention", contention},
	{"keepalives-wait", keepalivesWait},
	{"paused-master", pausedMaster},
	{"forced-release", forcedRelease},
	{"expired-session", expiredSession},
	{"answers-too-soon", answersTooSoon},
	{"no-master", noMaster},
	{"too-many", tooMany},
	{"lost-opening", lostOpening},
	{"close", closeFrees},

	{"lost-grant", lostGrant},
	{"lost-release", lostRelease},
	{"wait-ends", waitEnds},
	{"late-grant", lateGrant},
	{"late-repeat", lateRepeat},
	{"late-repeat-of-a-loss", lateRepeatOfALoss},
	{"queue", queue},
	{"priority", priority},
	{"killed-master", killedMaster},
	{"several-locks", severalLocks},
	{"several-wait", severalWait},
	{"several-orders", severalOrders},
	{"loss-of-one", lossOfOne},
	{"unnoticed-loss", unnoticedLoss},
	{"lost-grants", lostGrants},
	{"late-grants", lateGrants},
	{"resume-several", resumeSeveral},
	{"killed-master-of-several", killedMasterOfSeveral},

	{"lost-write", lostWrite},
	{"killed-master-writes", killedMasterWrites},
	{"many-writes", manyWrites},
	{"lost-write-without-session", lostWriteWithoutSession},
	{"files", files},
	{"conditions", conditions},
	{"list", list},
	{"watch", watch},
	{"watch-resumes", watchResumes},
	{"watch-hangs", watchHangs},
	{"watch-compacted", watchCompacted},

	{"hanging-replica", hangingReplica},
	{"dripping-replica", drippingReplica},
	{"members-found", membersFound},
	{"members-change", membersChange},
	{"other-cell", otherCell},
	{"older-epoch", olderEpoch},
	{"longer-lease", longerLease},
	{"wrong-grant", wrongGrant},
	{"wrong-grants", wrongGrants},
	{"wrong-read", wrongRead},
	{"wrong-events", wrongEvents},
	{"web-page", webPage},
	{"tls", tls},
	{"untrusted", untrusted},
}

// share returns the scenarios of one client in this run: all at night. In other
// runs the clients that this machine can run divide them.
func share(t *testing.T, client string) (mine []scenario) {
	t.Helper()
	clients := []string{"go"}
	for name, program := range map[string]string{"node": "node", "python": pythonName()} {
		if _, err := exec.LookPath(program); err == nil {
			clients = append(clients, name)
		}
	}
	slices.Sort(clients)
	for _, n := range testrun.Part(t, slices.Index(clients, client), len(clients), len(scenarios)) {
		mine = append(mine, scenarios[n])
	}
	return mine
}

// runAll runs scenarios with one driver. A scenario that harms its cell has
// one of its own; the others share cells.
func runAll(t *testing.T, scenarios []scenario, command ...string) {
	shared := sync.OnceValue(func() *cell.Cell { return cell.New(t, cell.Options{Args: calm}) })
	other := sync.OnceValue(func() *cell.Cell {
		return cell.New(t, cell.Options{Size: 1, Name: "other", Args: append([]string{fmt.Sprintf("--event-history=%d", history)}, calm...)})
	})
	secure := sync.OnceValue(func() secured { return newSecured(t) })
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(&world{T: t, command: command, shared: shared, other: other, secure: secure, prefix: "/" + s.name})
		})
	}
}

// secured is a cell with TLS and access control.
type secured struct {
	cell  *cell.Cell
	token string // file of the root token
}

func newSecured(t *testing.T) secured {
	t.Helper()
	secret, _ := admin.NewSecret()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return secured{cell.New(t, cell.Options{Secure: true, Clients: []string{"me"}, RootToken: token, Args: calm}), token}
}

// calm keeps a master in office on a busy machine.
var calm = []string{"--heartbeat-timeout=2s"}

// world is what a scenario works with.
type world struct {
	*testing.T
	command []string
	shared  func() *cell.Cell
	other   func() *cell.Cell // keeps few events
	secure  func() secured
	prefix  string // of the scenario's paths

	cell  *cell.Cell
	gates *gates
	d     *driver
}

// begin starts a driver. Its client "c" calls the shared cell through gates.
func (w *world) begin() {
	w.Helper()
	w.beginAt(w.shared())
}

// beginAt is begin for another cell.
func (w *world) beginAt(c *cell.Cell) {
	w.Helper()
	w.start(c)
	w.d.do("connect", fields{"as": "c", "urls": w.gates.urls()})
}

// start starts a driver without a client.
func (w *world) start(c *cell.Cell) {
	w.Helper()
	w.cell, w.gates, w.d = c, newGates(w, c), startDriver(w, w.command)
}

// open opens the session "s" and returns its id.
func (w *world) open(ttl time.Duration) string {
	w.Helper()
	return w.d.do("open", fields{"cell": "c", "as": "s", "ttl_ms": ttl.Milliseconds(), "name": w.Name()}).text("session")
}

// lock acquires a lock as "h" and returns its token.
func (w *world) lock(path string) uint64 {
	w.Helper()
	return w.lockAs("h", path)
}

func (w *world) lockAs(name, path string) uint64 {
	w.Helper()
	token := w.d.do("lock", fields{"session": "s", "as": name, "path": path}).number("token")
	if token <= 0 {
		w.Fatalf("the token is %v", token)
	}
	return uint64(token)
}

// ctx is bounded by patience.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	return ctx
}

// call makes a call of its own at any replica, and requires success.
func call[T any](w *world, method, target string, in any) (out T) {
	w.Helper()
	if _, err := cell.Insist(w.ctx(), w.cell.Replicas(), method, target, in, &out); err != nil {
		w.Fatalf("%s %s: %v", method, target, err)
	}
	return out
}

func lockRoute(path string) string { return lockapi.RouteLocks + lockapi.EscapePath(path) }

// read reads a lock.
func (w *world) read(path string) lockapi.Lock {
	w.Helper()
	return call[lockapi.Lock](w, http.MethodGet, lockRoute(path), nil)
}

// wantHolder requires one holder, with that token.
func (w *world) wantHolder(path, session string, token uint64) {
	w.Helper()
	if l := w.read(path); len(l.Holders) != 1 || l.Holders[0].Session != session || l.Holders[0].Token != token {
		w.Errorf("%s is held by %+v; it must be held by session %s with token %d", path, l.Holders, session, token)
	}
}

// eventually waits until check returns nil.
func (w *world) eventually(what string, check func() error) {
	w.Helper()
	err := cell.Wait(w.ctx(), what, func(context.Context) error { return check() })
	if err != nil {
		w.Fatal(err)
	}
}

// awaitFree waits until a lock has neither holders nor waiters.
func (w *world) awaitFree(path string) {
	w.Helper()
	w.eventually(path+" is free", func() error {
		if l := w.read(path); len(l.Holders)+l.Waiters > 0 {
			return fmt.Errorf("it has the holders %+v and %d waiters", l.Holders, l.Waiters)
		}
		return nil
	})
}

// forceRelease releases the holds of a lock as an operator does.
func (w *world) forceRelease(path string) {
	w.Helper()
	for _, h := range w.read(path).Holders {
		q := url.Values{"session": {h.Session}, "handle": {h.Handle}, "token": {strconv.FormatUint(h.Token, 10)}, "by_force": {"true"}}
		call[lockapi.Released](w, http.MethodDelete, lockRoute(path)+"?"+q.Encode(), nil)
	}
}

// rival opens a session by plain calls.
func (w *world) rival() string {
	w.Helper()
	return call[lockapi.Session](w, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 600_000, Name: "rival"}).ID
}

// rivalLocks waits for a lock in the background. The channel has the moment
// before which it was granted.
func (w *world) rivalLocks(path, session string) <-chan time.Time {
	w.Helper()
	req := lockapi.NewLockRequest(session)
	req.WaitMS = patience.Milliseconds()
	granted := make(chan time.Time, 1)
	ctx, replicas := w.ctx(), w.cell.Replicas()
	go func() {
		var grant lockapi.Grant
		if _, err := cell.Insist(ctx, replicas, http.MethodPut, lockRoute(path), req, &grant); err == nil && grant.State == lockapi.StateHeld {
			granted <- time.Now()
		}
		close(granted)
	}()
	return granted
}

// wantHeld requires that the client believes in a hold.
func (w *world) wantHeld(hold string) {
	w.Helper()
	if !w.d.do("held", fields{"hold": hold}).is("held") {
		w.Errorf("the hold %s has ended", hold)
	}
}

// lastBelief asks until the client does not believe in a hold, and returns the
// moment of the last question before that.
func (w *world) lastBelief(hold string) (last time.Time) {
	w.Helper()
	for over := time.Now().Add(patience); time.Now().Before(over); time.Sleep(10 * time.Millisecond) {
		p := w.d.begin("held", fields{"hold": hold})
		if !p.ok().is("held") {
			return last
		}
		last = p.sent
	}
	w.Fatal("the client still believes in its hold")
	return last
}

// renewals returns how many keepalives were answered.
func (w *world) renewals() int {
	return len(w.gates.find(func(q *request) bool { return isKeepalive(q) && q.status == http.StatusOK }))
}

// awaitRenewals waits until n keepalives were answered. It calls each,
// unless that is nil, until then.
func (w *world) awaitRenewals(n int, each func()) {
	w.Helper()
	for over := time.Now().Add(patience); w.renewals() < n; time.Sleep(20 * time.Millisecond) {
		if each != nil {
			each()
		}
		if time.Now().After(over) {
			w.Fatalf("%d keepalives were answered; there must be %d", w.renewals(), n)
		}
	}
}

// any200 is any request, for leaseBound.
func any200(*request) bool { return true }

// leaseBound returns the latest moment at which the local lease of the driver's
// session may end. The client sent a request that renewed it before that
// arrived at its gate.
func (w *world) leaseBound(ttl time.Duration, counts func(*request) bool) (end time.Time) {
	for _, q := range w.gates.find(func(q *request) bool { return isKeepalive(q) || isOpening(q) }) {
		if q.status/100 != 2 || !counts(&q) {
			continue
		}
		held := time.Duration(number(q.answer, "held_ms") * float64(time.Millisecond))
		if at := q.arrived.Add(held + ttl); at.After(end) {
			end = at
		}
	}
	return end
}

// checkLease requires that the lease, as the driver counts it, is not too long.
func (w *world) checkLease(ttl time.Duration) {
	w.Helper()
	p := w.d.begin("state", fields{"session": "s"})
	state := p.ok()
	remaining := time.Duration(state.number("remaining_ms") * float64(time.Millisecond))
	switch {
	case state.text("state") != "safe" && remaining != 0:
		w.Errorf("%v remain in the state %s", remaining, state.text("state"))
	case state.text("state") == "safe":
		if late := p.sent.Add(remaining).Sub(w.leaseBound(ttl, any200)); late > time.Millisecond {
			w.Errorf("the local lease ends %v later than it may", late)
		}
	}
}
