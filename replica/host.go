package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// host accepts and opens a replica's connections to the others, before and after
// its directory belongs to a member.
type host struct {
	opts    *Options
	links   *peerconn.Listener
	caller  peerconn.Caller
	dir     *datadir.Dir
	running atomic.Pointer[Replica]             // nil before it has started
	told    atomic.Pointer[[]membership.Member] // the last result of Options.Join; nil before
	few     zerolog.Logger                      // for frequent messages: a few lines at a time
}

func newHost(o *Options, dir *datadir.Dir) (*host, error) {
	in, err := net.Listen("tcp", o.RaftListen)
	if err != nil {
		return nil, fmt.Errorf("listen for the other replicas on %s: %w", o.RaftListen, err)
	}
	h := &host{opts: o, caller: peerconn.Caller{Security: o.Security}, dir: dir, few: o.Logger.Sample(&zerolog.BurstSampler{Burst: 3, Period: time.Minute})}
	h.links = peerconn.Listen(in, peerconn.Rules{Admit: h.admit, Members: h.members, CheckSender: h.checkSender, Security: o.Security, Refused: h.refused})
	return h, nil
}

// admit refuses a connection that is not meant for this member of this cell.
func (h *host) admit(o peerconn.Hello) (card []byte, err error) {
	who := h.dir.Identity()
	if o.Cell != who.Cell {
		// The answer does not name this replica's cell: without TLS, a stranger
		// with the name can ask for the rest.
		h.few.Warn().Str("from", fmt.Sprintf("%.80q", o.From)).Str("cell", fmt.Sprintf("%.80q", o.Cell)).Str("own_cell", who.Cell).Msg("a replica of another cell connected; is one of the two cell settings mistyped?")
		return nil, fmt.Errorf("replica %s belongs to another cell than %.80q; its log names that cell", who.ID, o.Cell)
	}
	if o.Kind == peerconn.Ask {
		if o.To != who.ID {
			return nil, fmt.Errorf("this is replica %s, not %s", who.ID, o.To)
		}
		return cbor.Marshal(h.card(o.From))
	}
	if h.running.Load() == nil {
		return nil, fmt.Errorf("replica %s with directory %s is not a member yet", who.ID, who.Directory)
	}
	if err := who.Refuses(o.CellID, o.To); err != nil {
		return nil, err
	}
	return nil, h.checkSender(o.From)
}

// checkSender returns an error if messages of a server must be refused.
func (h *host) checkSender(server string) error {
	r := h.running.Load()
	if r == nil {
		return nil
	}
	err := r.CheckSender(server)
	if err != nil {
		h.few.Warn().Str("from", fmt.Sprintf("%.80q", server)).Err(err).Msg("a replica that is not a member of the cell connected")
	}
	return err
}

// askBelieved is Ask for a replica that does not run yet. It refuses the card
// of a replica that the cell has removed.
func (h *host) askBelieved(ctx context.Context, id string) (admission.Info, error) {
	card, err := h.Ask(ctx, id)
	if known := h.dir.Identity().Known; err == nil && known.Gone(card.ServerID()) {
		return admission.Info{}, errGone(card.ServerID())
	}
	return card, err
}

// members returns the servers for which connections are reserved, however many
// strangers connect. Before the replica runs it returns nil; then the first
// strangers get these connections.
func (h *host) members() []string {
	if r := h.running.Load(); r != nil {
		return r.memberIDs()
	}
	return nil
}

// memberIDs returns the server ids of two configurations: the latest in this
// replica's log, which may never be committed, and the latest known to be
// committed.
func (r *Replica) memberIDs() []string {
	r.noteSnapshot()
	r.committed.mu.Lock()
	ids := slices.Clone(r.committed.ids)
	r.committed.mu.Unlock()
	future := r.raft.GetConfiguration()
	if future.Error() == nil {
		for _, s := range future.Configuration().Servers {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// card returns this replica's card for a directory that asks.
func (h *host) card(asks string) admission.Info {
	if r := h.running.Load(); r != nil {
		return r.InfoFor(asks)
	}
	return h.opts.card(h.dir.Identity())
}

// card returns the card of a replica that does not run yet.
func (o *Options) card(who admission.Identity) admission.Info {
	self, _ := o.member(o.ID)
	card := admission.Info{
		Cell: who.Cell, ID: who.ID, Directory: who.Directory, RaftAddr: self.RaftAddr, Names: o.names(),
		Founding: who.Founding, CellID: who.CellID, Version: o.Version, Level: state.Level,
	}
	if who.CellID == "" {
		card.Access, card.Addrs = o.FoundAccess, o.addrs()
	}
	return card
}

// names returns the names of the founding list, sorted.
func (o *Options) names() []string {
	var names []string
	for _, m := range o.Members {
		names = append(names, m.ID)
	}
	slices.Sort(names)
	return names
}

// addrs returns the Raft addresses of the founding list, in the order of names.
func (o *Options) addrs() (addrs []string) {
	for _, name := range o.names() {
		m, _ := o.member(name)
		addrs = append(addrs, m.RaftAddr)
	}
	return addrs
}

// others returns the names of the replicas that a replica asks before it runs.
func (h *host) others(ctx context.Context) ([]string, error) {
	names := h.opts.names()
	if h.opts.Join == nil {
		return names, nil
	}
	told, err := h.opts.Join(ctx)
	if err == nil {
		h.told.Store(&told)
	}
	if known := h.told.Load(); known != nil {
		for _, m := range *known {
			if !slices.Contains(names, m.ID) {
				names = append(names, m.ID)
			}
		}
	}
	return names, err
}

// addresses returns where the replica of a name may be, likeliest first:
//
//  1. where the cell's state has it (state.PutMember)
//  2. where the settings have it
//  3. for a name that is not in the settings, where Raft's configuration has
//     it: that is in the log before any entry is applied
//  4. where Options.Join last found it
//
// The handshake of each connection checks that the right replica answers.
func (h *host) addresses(name string) (all []string) {
	add := func(addr string) {
		if addr != "" && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	m, given := h.opts.member(name)
	if r := h.running.Load(); r != nil {
		add(r.member(name).RaftAddr)
		for _, s := range r.servers() {
			if n, _ := admission.Split(string(s.ID)); n == name && !given {
				_, at := rafttransport.SplitAddress(s.Address)
				add(at)
			}
		}
	}
	add(m.RaftAddr)
	if told := h.told.Load(); told != nil {
		for _, m := range *told {
			if m.ID == name {
				add(m.RaftAddr)
			}
		}
	}
	return all
}

// Ask asks a replica for its card. For a name, the first address that answers
// counts. For a server id, the first address where that directory answers
// counts; if none does, the card of another directory is returned.
func (h *host) Ask(ctx context.Context, id string) (admission.Info, error) {
	name, directory := admission.Split(id)
	addresses := h.addresses(name)
	if len(addresses) == 0 {
		return admission.Info{}, fmt.Errorf("no address of replica %q is known", name)
	}
	var other atomic.Pointer[admission.Info]
	card, err := reach(ctx, addresses, func(ctx context.Context, addr string) (admission.Info, error) {
		card, err := h.askAt(ctx, name, addr)
		if err == nil && directory != "" && card.Directory != directory {
			other.Store(&card)
			err = fmt.Errorf("the replica at %s has directory %s, not %s", addr, card.Directory, directory)
		}
		return card, err
	}, nil)
	if other := other.Load(); err != nil && other != nil {
		return *other, nil
	}
	return card, err
}

func (h *host) askAt(ctx context.Context, name, addr string) (card admission.Info, err error) {
	who := h.dir.Identity()
	raw, err := h.caller.AskInfo(ctx, addr, peerconn.Hello{Cell: who.Cell, CellID: who.CellID, From: who.ServerID(), To: name})
	if err != nil {
		return card, err
	}
	if err := cbor.Unmarshal(raw, &card); err != nil {
		return card, fmt.Errorf("the card of replica %s: %w", name, err)
	}
	if card.ID != name || card.Cell != who.Cell {
		return card, fmt.Errorf("the replica at %s is %s of cell %q", addr, card.ID, card.Cell)
	}
	return card, nil
}

// refused logs a refused connection to the replicas' port.
func (h *host) refused(caller net.Addr, err error) {
	h.few.Warn().Stringer("caller", caller).Err(err).Msg("refused a connection to the replicas' port")
}

// dial opens a connection to a member, at any of its known addresses; at addr
// if none is known.
func (h *host) dial(ctx context.Context, kind peerconn.Kind, server, addr string) (net.Conn, error) {
	name, _ := admission.Split(server)
	addresses := h.addresses(name)
	if len(addresses) == 0 {
		addresses = []string{addr}
	}
	return reach(ctx, addresses,
		func(ctx context.Context, addr string) (net.Conn, error) { return h.dialAt(ctx, kind, server, addr) },
		func(c net.Conn) { _ = c.Close() })
}

func (h *host) dialAt(ctx context.Context, kind peerconn.Kind, server, addr string) (net.Conn, error) {
	who := h.dir.Identity()
	c, err := h.caller.Dial(ctx, addr, peerconn.Hello{Kind: kind, Cell: who.Cell, CellID: who.CellID, From: who.ServerID(), To: server})
	if errors.Is(err, peerconn.ErrTrust) {
		h.few.Warn().Str("peer", server).Str("address", addr).Err(err).Msg("could not open a trusted connection to a replica")
	}
	return c, err
}

// network returns the network that carries Raft's messages.
func (h *host) network() rafttransport.Network {
	self, _ := h.opts.member(h.opts.ID)
	return rafttransport.Network{
		Listener:   h.links.Kind(peerconn.Raft),
		Advertised: self.RaftAddr,
		Logger:     h.opts.Logger,
		Dial: func(ctx context.Context, server, addr string) (net.Conn, error) {
			return h.dial(ctx, peerconn.Raft, server, addr)
		},
		At: func(name string) (string, bool) {
			addresses := h.addresses(name)
			if len(addresses) == 0 {
				return "", false
			}
			return addresses[0], true
		},
	}
}

func (h *host) close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.links.Close(), h.dir.Close())
}
