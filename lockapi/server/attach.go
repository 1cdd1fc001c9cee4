package server

import (
	"net/http"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// A server serves before its replica is a member of a cell: the founding may
// wait for others, and a directory that is new may wait to be admitted. Until
// Attach it tells what it waits for, and refuses everything else.

// Standby is what a replica says of itself that is no member yet.
type Standby struct {
	Replica lockapi.Replica // its own entry, with its directory
	Why     string          // what has happened and what it waits for, for people
	Command string          // what an operator types to admit it; empty where nobody has to
}

// attached is the member that the server answers for. It does not change.
type attached struct {
	Master
	cell      []string          // the cell's id, as the value of a header
	directory string            // of the replica's data
	way       http.RoundTripper // to the other members
	// proven says that members have shown each other their certificates.
	proven bool
	links  Links // nil where calls of other members come in another way
}

// Attach has the server answer for a member from now on; links are its
// connections to the others, nil where there are none. It is called once, and
// not where Options.Master is set.
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

// onStandby are the routes that a replica answers that is no member.
var onStandby = map[string]bool{
	lockapi.RouteLive: true, lockapi.RouteReady: true, lockapi.RouteReplica: true,
}

// standbyProblem is what such a replica answers to all else.
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

// stamp puts the headers that every reply carries.
func (s *Server) stamp(h http.Header) {
	at := s.attached.Load()
	if at == nil || at.Hangs() != nil {
		h[lockapi.HeaderEpoch] = noEpoch
		return
	}
	known := at.Known()
	last := s.stamps.Load()
	if last == nil || last.known != known {
		last = &stamps{known, []string{strconv.FormatUint(known.Epoch, 10)}, []string{known.URL}}
		s.stamps.Store(last)
	}
	h[lockapi.HeaderEpoch] = last.epoch
	h[lockapi.HeaderCell] = at.cell
	if known.ID != "" && known.URL != "" {
		h[lockapi.HeaderMaster] = last.master
	}
}

// noEpoch is that of a replica that is no member, or that hangs.
var noEpoch = []string{"0"}

// stamps are the values of the headers that go with what is known of the
// master, which is the same for many replies. Nobody changes them.
type stamps struct {
	known         Location
	epoch, master []string
}
