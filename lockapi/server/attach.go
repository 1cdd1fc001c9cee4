package server

import (
	"net/http"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// A server starts before its replica is a member of a cell: the founding may
// wait for other replicas, and a new directory may wait for its admission.
// Until Attach the server reports what it waits for and refuses all other
// calls.

// Standby is the state of a replica that is not a member yet.
type Standby struct {
	Replica lockapi.Replica // the replica's own entry, with its directory
	Why     string          // what has happened and what it waits for, for people
	Command string          // the command that admits it; empty if none is needed
}

// attached is the member that the server serves. It is never modified.
type attached struct {
	Master
	cell      []string          // the cell's id as the value of a header
	directory string            // id of the replica's data directory
	way       http.RoundTripper // to the other members
	// proven reports that members have shown each other their certificates.
	proven bool
	links  Links // nil if calls of other members arrive otherwise
}

// Attach makes the server serve a member. links are its connections to the
// others, or nil. It is called once, and not if Options.Master is set.
func (s *Server) Attach(m Master, links Links) {
	view := m.View()
	at := &attached{Master: m, cell: []string{view.CellID}, directory: view.Own.Directory, way: s.opts.Peers, proven: links != nil && links.Proven(), links: links}
	if at.way == nil {
		at.way = peers.NewTransport(links)
	}
	s.opts.Registry.MustRegister(export(m.Metrics()), export(s.membership(at)))
	if s.opts.Checksum != nil {
		s.opts.Registry.MustRegister(checksum(s.opts.Checksum))
	}
	s.attached.Store(at)
	if links != nil {
		go s.serveCalls(links.Calls())
	}
}

// onStandby lists the routes of a replica that is not a member.
var onStandby = map[string]bool{
	lockapi.RouteLive: true, lockapi.RouteReady: true, lockapi.RouteReplica: true,
}

// standbyProblem is the answer of such a replica to all other calls.
func (s *Server) standbyProblem() *lockapi.Error {
	now := s.opts.Standby()
	why := now.Why
	if why == "" {
		why = "this replica is about to start"
	}
	if now.Command != "" {
		why += "; to admit it: " + now.Command
	}
	e := lockapi.Errorf(lockapi.CodeNoMaster, "%s", why)
	e.Directory, e.Command = now.Replica.Directory, now.Command
	return e
}

// stamp sets the headers of every reply.
func (s *Server) stamp(h http.Header) {
	at := s.attached.Load()
	if at == nil || at.Hangs() != nil {
		h[lockapi.HeaderEpoch] = noEpoch
		return
	}
	known := at.Known()
	last := s.stamps.Load()
	if last == nil || last.of != known.Epoch || last.master[0] != known.URL {
		last = &stamps{known.Epoch, []string{strconv.FormatUint(known.Epoch, 10)}, []string{known.URL}}
		s.stamps.Store(last)
	}
	h[lockapi.HeaderEpoch] = last.epoch
	h[lockapi.HeaderCell] = at.cell
	if known.ID != "" && known.URL != "" {
		h[lockapi.HeaderMaster] = last.master
	}
}

// noEpoch is sent by a replica that is not a member or that hangs.
var noEpoch = []string{"0"}

// stamps caches the header values for the known master, which many replies
// share. They are never modified.
type stamps struct {
	of            uint64 // the epoch
	epoch, master []string
}
