package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

// ownNetwork is set in a test binary that runs in its own network namespace.
const ownNetwork = "STOUT_TEST_OWN_NETWORK"

// inOwnNetwork runs the test again in its own network and mount namespaces,
// where it can drop packets and have a DNS server. It reports whether this is
// that run.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetwork) != "" {
		must(t, exec.Command("ip", "link", "set", "lo", "mtu", "1500", "up").Run())
		must(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		return true
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("it drops packets: %v", err)
		}
	}
	self, err := os.Executable()
	must(t, err)
	namespace := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
		if uid := os.Getuid(); uid != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		return cmd
	}
	if out, err := namespace("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "1", "-m", "length", "--length", "1400:", "-j", "DROP").CombinedOutput(); err != nil {
		t.Skipf("it needs a network namespace in which it may drop packets: %v: %s", err, bytes.TrimSpace(out))
	}
	cmd := namespace(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=15m")
	cmd.Env = append(os.Environ(), ownNetwork+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// onPackets decides the treatment of matching TCP packets. A rule has the form
// of iptables.
func onPackets(t *testing.T, rule ...string) {
	t.Helper()
	args := append([]string{"-w", "-A", "INPUT", "-p", "tcp"}, rule...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		t.Fatalf("iptables %v: %v: %s", args, err, out)
	}
}

func apiPort(t *testing.T, r *cell.Replica) string {
	t.Helper()
	_, port, err := net.SplitHostPort(r.Addr())
	must(t, err)
	return port
}

// cuts are dead links, between clients and the API of a replica or between two
// replicas. Each leaves another path.
var cuts = []struct {
	name string
	cut  func(t *testing.T, c *cell.Cell, master, follower *cell.Replica)
}{
	{"none", func(*testing.T, *cell.Cell, *cell.Replica, *cell.Replica) {}},
	{"client to master", func(t *testing.T, _ *cell.Cell, master, _ *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, master), "-j", "DROP")
	}},
	{"master to client", func(t *testing.T, _ *cell.Cell, master, _ *cell.Replica) {
		onPackets(t, "--sport", apiPort(t, master), "-j", "DROP")
	}},
	{"large packets", func(t *testing.T, _ *cell.Cell, master, _ *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, master), "-m", "length", "--length", "1400:", "-j", "DROP")
		onPackets(t, "--sport", apiPort(t, master), "-m", "length", "--length", "1400:", "-j", "DROP")
	}},
	{"client and follower", func(t *testing.T, _ *cell.Cell, _, follower *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, follower), "-j", "DROP")
		onPackets(t, "--sport", apiPort(t, follower), "-j", "DROP")
	}},
	{"follower and master", func(_ *testing.T, c *cell.Cell, master, follower *cell.Replica) {
		c.Network().Cut(follower.ID, master.ID)
	}},
	{"client to master, follower and master", func(t *testing.T, c *cell.Cell, master, follower *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, master), "-j", "DROP")
		c.Network().Cut(follower.ID, master.ID)
	}},
	{"client to master and follower", func(t *testing.T, _ *cell.Cell, master, follower *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, master), "-j", "DROP")
		onPackets(t, "--dport", apiPort(t, follower), "-j", "DROP")
	}},
	{"reset by master", func(t *testing.T, _ *cell.Cell, master, _ *cell.Replica) {
		onPackets(t, "--dport", apiPort(t, master), "-j", "REJECT", "--reject-with", "tcp-reset")
	}},
}

// cutFor is longer than a holder with the longest ttl needs to find another
// path, plus the next keepalive.
const cutFor = 45 * time.Second

// TestDeadLinksCostNoLock: while a client has a path to the cell, no dead link
// costs a session its lease, and new locks are granted. The test prints the
// cost of each cut: the longest time between two renewals of a lease, by its
// ttl, and the longest times for a lock, a large file and a new client's lock.
func TestDeadLinksCostNoLock(t *testing.T) {
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	rows := make([]string, len(cuts))
	t.Run("cuts", func(t *testing.T) {
		for _, i := range testrun.Sample(t, 3, len(cuts)) {
			cut := cuts[i]
			t.Run(cut.name, func(t *testing.T) {
				t.Parallel()
				c := cell.New(t, cell.Options{Args: still, Network: true})
				master := c.Ready(t)
				var holders []*holder
				for _, ttl := range []time.Duration{6 * time.Second, 12 * time.Second, 30 * time.Second} {
					holders = append(holders, hold(t, c, ttl))
				}
				safe := holders[1:] // a busy machine may end a lease of 6 s
				cut.cut(t, c, master, c.Others(master)[0])
				var fresh, slowest, large time.Duration
				for began, n := time.Now(), 0; time.Since(began) < cutFor; n++ {
					took, wrote := safe[n%len(safe)].another(t, fmt.Sprintf("/another/%d", n))
					slowest, large = max(slowest, took), max(large, wrote)
					if n%5 == 0 {
						fresh = max(fresh, acquireAnew(t, c, fmt.Sprintf("/anew/%d", n)))
					}
					pause(t, time.Second)
				}
				row := fmt.Sprintf("%-40s", cut.name)
				for _, h := range holders {
					row += fmt.Sprintf("%10s", h.gap().Round(10*time.Millisecond))
				}
				rows[i] = row + fmt.Sprintf("%12s%12s%12s", slowest.Round(time.Millisecond), large.Round(time.Millisecond), fresh.Round(time.Millisecond))
				for _, h := range safe {
					if err := h.held.Err(); err != nil || h.session.State() != client.Safe {
						t.Errorf("the holder with ttl %s: %v, %s", h.session.TTL(), err, h.session.State())
					}
				}
			})
		}
	})
	fmt.Printf("%-40s%10s%10s%10s%12s%12s%12s\n%s\n", "cut", "ttl 6s", "12s", "30s", "acquire", "8 KiB", "new client", strings.Join(slices.DeleteFunc(rows, func(r string) bool { return r == "" }), "\n"))
}

// holder holds a lock with its own client.
type holder struct {
	client  *client.Client
	session *client.Session
	held    *client.Held

	mu    sync.Mutex
	least time.Duration // shortest remaining lease
}

func hold(t *testing.T, c *cell.Cell, ttl time.Duration) *holder {
	t.Helper()
	sdk, err := client.New(c.URLs()...)
	must(t, err)
	t.Cleanup(func() { _ = sdk.Close() })
	h := &holder{client: sdk, least: ttl}
	h.session, err = sdk.NewSession(cell.Bounded(t), client.TTL(ttl))
	must(t, err)
	h.held, err = h.session.Lock(cell.Bounded(t), fmt.Sprintf("/held/%s", ttl))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(func() { stop(); watching.Wait() })
	watching.Go(func() {
		for tick := time.NewTicker(pace); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			left := h.session.Remaining()
			h.mu.Lock()
			h.least = min(h.least, left)
			h.mu.Unlock()
		}
	})
	return h
}

// gap returns the longest time between two renewals of the lease.
func (h *holder) gap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session.TTL() - h.least
}

// another acquires another lock, writes and reads more than a packet holds, and
// releases the lock. It returns the times for the lock and for the file.
func (h *holder) another(t *testing.T, path string) (took, wrote time.Duration) {
	t.Helper()
	began := time.Now()
	held, err := h.session.Lock(cell.Bounded(t), path)
	must(t, err)
	took, began = time.Since(began), time.Now()
	_, err = h.session.Put(cell.Bounded(t), path, make([]byte, 8<<10))
	must(t, err)
	_, err = h.client.Get(cell.Bounded(t), path)
	must(t, err)
	wrote = time.Since(began)
	must(t, held.Unlock(cell.Bounded(t)))
	return took, wrote
}

// acquireAnew acquires a lock with a new client, as a starting program does.
func acquireAnew(t *testing.T, c *cell.Cell, path string) time.Duration {
	t.Helper()
	began := time.Now()
	sdk, err := client.New(c.URLs()...)
	must(t, err)
	defer sdk.Close()
	s, err := sdk.NewSession(cell.Bounded(t))
	must(t, err)
	_, err = s.Lock(cell.Bounded(t), path)
	must(t, err)
	took := time.Since(began)
	must(t, s.Close(cell.Bounded(t)))
	return took
}

// pause lets time pass while a cut is in place; the test needs that.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestDNSThatHangs: the replicas call each other by name, and the DNS stops
// answering. The cell continues, and elects another master when its master
// dies.
func TestDNSThatHangs(t *testing.T) {
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	hosts, resolv := t.TempDir()+"/hosts", t.TempDir()+"/resolv.conf"
	names := "127.0.0.1 " + cell.Host("r1") + " " + cell.Host("r2") + " " + cell.Host("r3") + "\n"
	must(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+names), 0o644))
	must(t, os.WriteFile(resolv, []byte("nameserver 127.0.0.77\n"), 0o644))
	must(t, syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""))
	must(t, syscall.Mount(resolv, "/etc/resolv.conf", "", syscall.MS_BIND, ""))
	dns, err := net.ListenPacket("udp", "127.0.0.77:53") // never answers
	must(t, err)
	defer dns.Close()

	c := cell.New(t, cell.Options{Named: true})
	master := c.Ready(t)
	h := hold(t, c, 12*time.Second)
	must(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644))
	pause(t, 6*time.Second) // longer than Go's resolver uses the hosts file that it has read
	if _, err := net.DefaultResolver.LookupHost(cell.Bounded(t), cell.Host("r1")); err == nil {
		t.Fatal("the DNS does not hang")
	}
	must(t, master.Kill())
	killed := time.Now()
	newMaster(t, c, master)
	t.Logf("another master is in office after %s", time.Since(killed).Round(time.Millisecond))
	h.another(t, "/another")
	if err := h.held.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
}
