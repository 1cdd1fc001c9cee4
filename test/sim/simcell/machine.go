package simcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// These are the shipped settings, with two exceptions: leases may be longer
// than an election takes, and snapshots may come often and keep few trailing
// entries.
const (
	heartbeat = 500 * time.Millisecond
	trailing  = 4
)

// machine is the host of one replica: its disk and its clock outlive the
// process.
type machine struct {
	w       *world
	id      string
	disk    *disk
	attic   []*disk // former disks
	clock   *clock
	lease   time.Duration // in its batches
	process *process      // nil while it is down
	resume  chan struct{} // closed at the end of a pause; nil while it runs
	deposed time.Duration // until then it believes that it is not the leader
	notice  chan struct{} // deposed has changed

	freeze     int           // one in this many points is a pause; 0 = none
	snag       int           // a goroutine stalls at one in this many points; 0 = none
	snagged    time.Duration // for this long
	tardy      time.Duration // the next batch is delayed this long; 0 = not
	fatal      int           // it crashes at one in this many writes; 0 = never
	afterCrash time.Duration // and restarts after this long
	reboots    bool          // with a reset clock
	putBack    bool          // its directory was put back and lacks entries
	forgot     bool          // and the product detected that
	joins      bool          // it is to join the existing cell
	waiting    int           // for how many seconds it has waited though it is a member
	port       int           // port of its address; 0 = none
	level      uint64        // the highest level of its release
}

func newMachine(w *world, i int) *machine {
	m := &machine{w: w, id: fmt.Sprintf("r%d", i+1), disk: newDisk(w), lease: w.lease, level: state.Level, notice: make(chan struct{}, 1)}
	if w.mixed {
		m.lease = time.Duration(1+w.script.IntN(5)) * time.Second
	}
	m.reboot()
	return m
}

// reboot resets the machine's clock.
func (m *machine) reboot() {
	m.clock = &clock{w: m.w, rate: m.w.rate(), offset: time.Duration(m.w.script.Int64N(int64(time.Hour)))}
}

func (w *world) machine(id string) *machine {
	for _, m := range w.everyMachine() {
		if m.id == id {
			return m
		}
	}
	panic("no machine " + id)
}

// at returns the machine at an address, and whether it listens there.
func (w *world) at(addr string) (m *machine, listens bool) {
	name, port, given := strings.Cut(addr, ":")
	m = w.machine(name)
	return m, !given || port == strconv.Itoa(m.port)
}

func (w *world) isReplica(id string) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool { return m.id == id })
}

// process is one run of stoutd on a machine.
type process struct {
	m       *machine
	clock   *clock
	wire    *wire
	replica *replica.Replica
	master  *master.Master
	api     http.Handler
	peers   http.Handler // the same, for calls of other replicas
	door    http.Handler // for Consul's clients
	server  *server.Server
	kept    admission.Roster // the members and the removed ones, from its disk
	opened  chan struct{}    // closed when it has started, or died before
	gone    context.Context  // ends with the process
	kill    context.CancelFunc
	stalled time.Duration // the end of its goroutines' stalls
	blocked []*blocked    // queries of keys that wait for a change
	changed chan struct{}
	closed  chan struct{}   // closed when it has closed its stores; nil unless it stops in good order
	deaf    bool            // it is stopping, and accepts calls of other members only
	seen    *state.State    // the last one that the oracle has checked
	applied uint64          // the last entry that its library has applied
	members uint64          // the last configuration up to there
	met     map[string]bool // servers in any of these configurations

	disk     *mounted
	stranger bool   // it waits to be admitted
	level    uint64 // the highest level of its release

	recounted uint64 // the last revision of its histories
	restored  uint64 // last entry of the latest snapshot that it has read
}

// start starts the machine's process.
func (m *machine) start() {
	p := &process{m: m, clock: m.clock, changed: make(chan struct{}), opened: make(chan struct{}), met: map[string]bool{}, level: m.level}
	p.gone, p.kill = context.WithCancel(context.Background())
	p.wire = newWire(p)
	p.disk = m.disk.mount(p)
	m.process = p
	m.w.trace.note(m.id, "starts; its clock runs at %.3f", m.clock.rate)
	go p.open()
}

// open starts the parts of a process, as command stoutd does.
func (p *process) open() {
	defer close(p.opened)
	m := p.m
	log := zerolog.New(m.w.trace.writer(m.id)).Level(zerolog.InfoLevel)
	if m.w.opts.Trace {
		log = log.Level(zerolog.DebugLevel)
	}
	stores, peers, ok := p.seek(log)
	if !ok {
		return
	}
	stores.Quarantine, p.kept = p.quarantined, p.disk.who.Known
	var err error
	p.replica, err = replica.Start(replica.Options{
		Cell: "sim", ID: m.id, Members: m.settings(), MasterLease: m.lease, ClockDrift: drift,
		HeartbeatTimeout: heartbeat, ElectionTimeout: heartbeat,
		SnapshotThreshold: m.w.snapshotAfter, SnapshotInterval: 500 * time.Millisecond, TrailingLogs: trailing,
		EventHistory: m.w.profile.events,
		Logger:       log, Clock: p.now,
	}, stores, peers)
	if p.dead() {
		return
	}
	switch {
	case errors.Is(err, replica.ErrForgotten) && m.putBack:
		m.crash()
		return
	case err != nil:
		m.w.fail("replica %s does not start: %v", m.id, err)
		return
	}
	m.w.oracle.look()
	if m.w.oracle.roster.gone[p.disk.who.ServerID()] {
		m.w.fail("%s runs with a removed directory", m.id)
	}
	m.w.oracle.roster.runs(p.disk.who.ServerID(), m.w.now())
	log = log.With().Logger()
	p.master = master.New(watched{p.replica, p}, p.replica, master.Options{
		Cell: "sim", ID: m.id, Version: "sim", LeaseTerm: p.replica.LeaseTerm(), Drift: p.replica.Drift(),
		Clock: p.now, StaleFor: staleFor, Logger: log, AutoReplace: m.w.memberOperator.autoReplace(), Level: p.level,
	})
	p.server = server.New(server.Options{
		Master: p.master, Logger: log, Peers: m.w.endpoint(m.id, p.gone), EnableSecret: enableSecret,
	})
	p.api, p.peers, p.door = p.server.Handler(), p.server.PeerHandler(), p.server.ConsulHandler()
	go p.watchFailure()
	go p.relay()
}

// watchFailure checks a replica that ends by itself. A library that forgot to
// end a transfer (hashicorp/raft #696), or to discard a log before a snapshot, ends
// its replica, and the supervisor restarts it. Replicas that were replaced, removed or put back end,
// too. Any other end is a failure, since the simulated disks have no errors
// while the machine is up.
func (p *process) watchFailure() {
	m := p.m
	select {
	case err := <-p.replica.Failed():
		switch {
		case p.dead():
		case errors.Is(err, replica.ErrReplaced):
			m.w.stats.check("end of a replaced directory")
			m.crash()
			m.w.later(100*time.Millisecond, func() { m.restart(false) })
		case errors.Is(err, replica.ErrRemoved):
			m.removed()
		case errors.Is(err, replica.ErrForgotten) && m.putBack:
			m.crash()
		case strings.Contains(err.Error(), "transfer of mastership has not ended"):
			m.w.stats.check("end of a stuck transfer")
			m.crash()
			m.w.later(100*time.Millisecond, func() { m.restart(false) })
		case strings.Contains(err.Error(), "before the installed snapshot"):
			m.w.stats.check("end with a log that was not discarded")
			m.crash()
			m.w.later(100*time.Millisecond, func() { m.restart(false) })
		default:
			m.w.fail("replica %s ends by itself: %v", m.id, err)
		}
	case <-p.gone.Done():
	}
}

// quarantined is called when a replica finds that its state differs from its
// master's, or that its directory was put back.
func (p *process) quarantined(why string) error {
	if p.dead() { // its writes reach no disk any more
		return nil
	}
	if p.m.putBack && strings.Contains(why, replica.ErrForgotten.Error()) {
		p.m.forgot = true
		return nil
	}
	p.m.w.fail("replica %s quarantines its data: %s", p.m.id, why)
	return nil
}

// crash ends the machine's process at once.
func (m *machine) crash() {
	p := m.process
	if p == nil {
		return
	}
	m.w.trace.note(m.id, "crashes")
	m.process = nil
	if p.replica != nil {
		m.disk.knew = max(m.disk.knew, p.replica.State().Revision)
	}
	m.w.oracle.roster.leaves(p.disk.who.ServerID(), m.w.now())
	p.kill()
	p.disk.unmount()
	m.wake()
	go p.bury()
}

// bury ends the goroutines of a dead process.
func (p *process) bury() {
	<-p.opened
	if p.server != nil {
		p.server.Drain()
	}
	if p.master != nil {
		_ = p.master.Close(p.gone) // its context has ended, so it hands nothing over
	}
	switch {
	case p.closed != nil:
		<-p.closed
	case p.replica != nil:
		_ = p.replica.Close()
	}
	if err := p.disk.at.Remove(); err != nil {
		panic(err) // an error of the host
	}
}

func (p *process) dead() bool { return p.gone.Err() != nil }

// pause stops the process until wake.
func (m *machine) pause() {
	if m.process != nil && m.resume == nil {
		m.w.trace.note(m.id, "is paused")
		m.resume = make(chan struct{})
	}
}

func (m *machine) wake() {
	if m.resume != nil {
		m.w.trace.note(m.id, "goes on")
		close(m.resume)
		m.resume, m.w.woke = nil, m.w.now()
	}
}

// awake returns when the process is not paused. Goroutines of a resumed process
// continue one after the other, in any order.
func (p *process) awake() {
	for p.m.resume != nil && !p.dead() {
		select {
		case <-p.m.resume:
			time.Sleep(between(p.m.w.rng, time.Microsecond, 5*time.Millisecond))
		case <-p.gone.Done():
		}
	}
}

// point is a point between two instructions of a process: it may be paused
// here, or stalled by the operating system for a while.
func (p *process) point() {
	w := p.m.w
	if w.oracle.looking || p.dead() {
		return
	}
	w.oracle.look()
	w.oracle.spins(p)
	if m := p.m; m.freeze > 0 {
		if m.freeze--; m.freeze == 0 {
			m.pause()
		}
	}
	p.awake()
	if m := p.m; m.snag > 0 {
		if m.snag--; m.snag == 0 {
			p.stall(m.snagged)
		}
	}
	if n := w.profile.stalls; w.pauses && n > 0 && w.chance(n) {
		w.stats.fault("stall")
		p.stall(between(w.rng, 20*time.Microsecond, 3*time.Second))
	}
}

// stall blocks one goroutine for a while.
func (p *process) stall(d time.Duration) {
	p.m.w.trace.note(p.m.id, "a goroutine stalls for %v", d)
	p.stalled = max(p.stalled, p.m.w.now()+d)
	sleep(d, p.gone.Done())
	p.awake()
}

// now returns the time of the process's clock. A pause may fall between the
// reading and its use.
func (p *process) now() time.Duration {
	at := p.clock.read()
	p.point()
	return at
}

// settings returns the configured members of a machine: the founding list, or
// its own entry if it is to join.
func (m *machine) settings() []membership.Member {
	names := m.w.founders
	if m.joins {
		names = []string{m.id}
	}
	var out []membership.Member
	for _, name := range names {
		out = append(out, membership.Member{ID: name, RaftAddr: name, APIURL: "http://" + name})
	}
	return out
}
