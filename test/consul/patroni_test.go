//go:build unix

package consul

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// node is one PostgreSQL under Patroni.
type node struct {
	Name      string
	Door      string // its Consul
	API, Port int    // of Patroni and of PostgreSQL
	Dir, Bin  string

	patroni *process
}

// database is three nodes with their three replicas of Stout.
type database struct {
	cell  *cell.Cell // nil with a real Consul
	doors []string
	nodes []*node
	seen  *observations
}

// TestPatroni kills the primary of a PostgreSQL with two standbys, the master
// replica of the cell, and both. There are never two primaries.
func TestPatroni(t *testing.T) {
	testrun.Nightly(t)
	d := newDatabase(t)
	primary := d.primary(t)
	t.Logf("%s is the first primary", primary.Name)

	// The primary and PostgreSQL end without a word.
	primary = d.failsOver(t, "the primary is killed", primary, func() { primary.kill(t) })
	if d.cell == nil {
		return
	}

	// The master is not the replica that the primary uses: the primary stays.
	other := d.nodes[(slices.Index(d.nodes, primary)+1)%len(d.nodes)]
	d.makeMaster(t, other)
	d.replica(other).Kill()
	began := time.Now()
	for time.Since(began) < 45*time.Second { // longer than Patroni's ttl
		if p := d.primary(t); p != primary {
			t.Fatalf("%s is primary, but only the master was killed, and not the replica that %s uses", p.Name, primary.Name)
		}
		time.Sleep(time.Second)
	}
	t.Logf("the master is killed, and the primary uses another replica: %s stays primary", primary.Name)
	d.mend(t)

	// The master is the replica that the primary uses.
	d.makeMaster(t, primary)
	primary = d.failsOver(t, "the master is killed, which the primary uses", primary, func() { d.replica(primary).Kill() })

	// A machine with both ends.
	d.makeMaster(t, primary)
	primary = d.failsOver(t, "the primary and the master are killed, on one machine", primary, func() {
		primary.kill(t)
		d.replica(primary).Kill()
	})

	// The same on two machines: one node has a living PostgreSQL and a living
	// replica.
	other = d.nodes[(slices.Index(d.nodes, primary)+1)%len(d.nodes)]
	d.makeMaster(t, other)
	d.failsOver(t, "the primary and the master are killed, on two machines", primary, func() {
		primary.kill(t)
		d.replica(other).Kill()
	})
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, program := range []string{"patroni", "psql"} {
		if _, err := exec.LookPath(program); err != nil || len(bins) == 0 {
			t.Skip("it needs patroni and postgresql")
		}
	}
	d := &database{seen: new(observations)}
	if withConsul() {
		addr := serve(t)
		d.doors = []string{addr, addr, addr}
	} else {
		d.cell, d.doors = serveCell(t, 3)
		d.cell.Ready(t)
	}
	if err := os.Chmod(work, 0o755); err != nil { // for the user postgres
		t.Fatal(err)
	}
	for i, door := range d.doors {
		n := &node{Name: fmt.Sprint("pg", i+1), Door: door, Bin: bins[len(bins)-1], Dir: filepath.Join(work, fmt.Sprint("pg", i+1))}
		for _, port := range []*int{&n.API, &n.Port} {
			var err error
			if *port, err = freeport.Get(); err != nil {
				t.Fatal(err)
			}
		}
		must(t, os.Mkdir(n.Dir, 0o755))
		if os.Getuid() == 0 {
			c := postgres(t)
			must(t, os.Chown(n.Dir, int(c.Uid), int(c.Gid)))
		}
		file, err := os.Create(filepath.Join(n.Dir, "patroni.yml"))
		must(t, err)
		err = template.Must(template.ParseFiles("testdata/patroni.yml")).Execute(file, n)
		must(t, errors.Join(err, file.Close()))
		d.nodes = append(d.nodes, n)
		d.seen.watch(t, n)
		t.Cleanup(func() { n.kill(t) })
	}
	d.mend(t)
	return d
}

// postgres is the user postgres: PostgreSQL refuses to run as root.
func postgres(t *testing.T) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("it needs a user postgres")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	must(t, errors.Join(err, err2))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// replica is the replica of Stout that a node uses.
func (d *database) replica(n *node) *cell.Replica {
	return d.cell.Replicas()[slices.Index(d.nodes, n)]
}

// mend starts what is down, and waits until the database has a primary and two
// standbys that follow it.
func (d *database) mend(t *testing.T) {
	t.Helper()
	for i, n := range d.nodes {
		if d.cell != nil && !d.replica(n).Running() {
			must(t, d.replica(n).StartWith("--consul-listen", d.doors[i]))
		}
		if n.patroni == nil {
			n.start(t)
		}
	}
	if d.cell != nil {
		d.cell.Ready(t)
	}
	until(t, "a primary has two standbys", func() error {
		primaries, standbys := 0, 0
		for _, n := range d.nodes {
			if n.is("primary") {
				primaries++
			}
			if n.is("replica?lag=1MB") {
				standbys++
			}
		}
		if primaries != 1 || standbys != 2 {
			return fmt.Errorf("%d primaries, %d standbys", primaries, standbys)
		}
		return nil
	})
}

// primary waits until one node is primary for Patroni.
func (d *database) primary(t *testing.T) (primary *node) {
	t.Helper()
	until(t, "there is a primary", func() error {
		for _, n := range d.nodes {
			if n.is("primary") {
				primary = n
				return nil
			}
		}
		return errors.New("no node is primary")
	})
	return primary
}

// makeMaster transfers mastership to the replica that a node uses.
func (d *database) makeMaster(t *testing.T, n *node) {
	t.Helper()
	to := d.replica(n)
	if d.cell.Ready(t) == to {
		return
	}
	err := cell.Wait(cell.Bounded(t), to.ID+" is master", func(context.Context) error {
		var got lockapi.Transferred
		if _, err := to.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteTransfer, lockapi.TransferRequest{To: to.ID}, &got); err != nil {
			return err
		}
		if got.Master != to.ID {
			return fmt.Errorf("%s is master", got.Master)
		}
		return nil
	})
	must(t, err)
}

// failsOver causes a fault after which another node becomes primary, mends it,
// and returns that node.
func (d *database) failsOver(t *testing.T, what string, old *node, fault func()) *node {
	t.Helper()
	began := time.Now()
	fault()
	var next *node
	until(t, "another node is primary", func() error {
		for _, n := range d.nodes {
			if n != old && n.is("primary") {
				next = n
				return nil
			}
		}
		return errors.New("no other node is primary")
	})
	t.Logf("%s: %s is primary after %v", what, next.Name, time.Since(began).Round(100*time.Millisecond))
	d.mend(t)
	if p := d.primary(t); p != next {
		t.Errorf("%s: the primary is %s at last, and %s was before", what, p.Name, next.Name)
	}
	if both := d.seen.twoPrimaries(); both != "" {
		t.Fatalf("%s: %s", what, both)
	}
	if !d.seen.saw(next) {
		t.Fatalf("%s: %s does not say itself that it takes writes", what, next.Name)
	}
	return next
}

// start starts Patroni, which starts PostgreSQL.
func (n *node) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command("patroni", filepath.Join(n.Dir, "patroni.yml"))
	cmd.Dir = n.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = postgres(t)
	}
	n.patroni = run(t, cmd)
}

// kill ends Patroni and PostgreSQL as the end of their machine does.
func (n *node) kill(t *testing.T) {
	t.Helper()
	if n.patroni == nil {
		return
	}
	_ = syscall.Kill(-n.patroni.cmd.Process.Pid, syscall.SIGKILL)
	content, err := os.ReadFile(filepath.Join(n.Dir, "data", "postmaster.pid"))
	if err == nil {
		first, _, _ := strings.Cut(string(content), "\n")
		if pid, err := strconv.Atoi(first); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-n.patroni.done
	n.patroni = nil
}

// is asks Patroni whether the node has a role.
func (n *node) is(role string) bool {
	c := http.Client{Timeout: 2 * time.Second}
	resp, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", n.API, role))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// observation is one answer of a PostgreSQL that takes writes. It takes them
// from its start until its end, or since it was promoted.
type observation struct {
	at   float64 // seconds, by the clock of the one machine
	node string
	run  string // the start of that PostgreSQL
}

// observations are the answers of all nodes.
type observations struct {
	mu        sync.Mutex
	primaries []observation
}

// watch asks a node, several times a second until the test ends, whether it
// takes writes.
func (o *observations) watch(t *testing.T, n *node) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); all.Wait() })
	all.Go(func() {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, "psql", "-XqAtF,", "-h", "127.0.0.1", "-p", fmt.Sprint(n.Port), "-U", "postgres", "postgres")
			cmd.Stdin = strings.NewReader(`select extract(epoch from clock_timestamp()), pg_postmaster_start_time() where not pg_is_in_recovery() \watch 0.1`)
			out, err := cmd.StdoutPipe()
			if err == nil && cmd.Start() == nil {
				for lines := bufio.NewScanner(out); lines.Scan(); {
					at, run, ok := strings.Cut(lines.Text(), ",")
					if seconds, err := strconv.ParseFloat(at, 64); ok && err == nil {
						o.add(observation{seconds, n.Name, run})
					}
				}
				_ = cmd.Wait()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

func (o *observations) add(next observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.primaries = append(o.primaries, next)
}

func (o *observations) saw(n *node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.primaries, func(seen observation) bool { return seen.node == n.Name })
}

// twoPrimaries describes two nodes that took writes at the same time: one was
// primary between two observations of the other's one run. It returns an empty
// string without any.
func (o *observations) twoPrimaries() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	type span struct{ first, last observation }
	spans := map[[2]string]*span{}
	for _, seen := range o.primaries {
		key := [2]string{seen.node, seen.run}
		if s := spans[key]; s != nil {
			s.last = seen
		} else {
			spans[key] = &span{seen, seen}
		}
	}
	for a, sa := range spans {
		for b, sb := range spans {
			if a != b && sa.first.at <= sb.first.at && sb.first.at <= sa.last.at {
				return fmt.Sprintf("%s was primary from %.3f to %.3f, and %s from %.3f to %.3f", a[0], sa.first.at, sa.last.at, b[0], sb.first.at, sb.last.at)
			}
		}
	}
	return ""
}

func TestTwoPrimaries(t *testing.T) {
	a, b := observation{1, "a", "x"}, observation{3, "b", "y"}
	for name, c := range map[string]struct {
		seen []observation
		want bool
	}{
		"one after the other": {[]observation{a, {2, "a", "x"}, b}, false},
		"both":                {[]observation{a, b, {4, "a", "x"}}, true},
		"a new run":           {[]observation{a, b, {4, "a", "z"}, {5, "b", "y"}}, true},
		"back after a while":  {[]observation{a, b, {4, "b", "y"}, {5, "a", "z"}}, false},
	} {
		o := observations{primaries: c.seen}
		if got := o.twoPrimaries(); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
