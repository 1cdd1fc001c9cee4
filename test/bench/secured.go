package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
	"github.com/stoutlock/stout/test/bench/internal/host"
	"github.com/stoutlock/stout/test/bench/internal/load"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

// securedSessions are the numbers of sessions of the work secured.
var securedSessions = []int{64, 256}

// runSecured has the same load in the plain cell and in one with TLS and access, in
// turn: only so do their figures compare.
func runSecured(ctx context.Context, b *bench) (err error) {
	other, err := host.Open(ctx, host.Options{Binary: b.stoutd, Args: b.stoutdArgs, Secure: true, Access: true, Rules: b.rules})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	ns := securedSessions
	if len(b.sessions) > 0 {
		ns = b.sessions
	}
	for _, via := range b.via {
		for _, w := range []struct {
			name string
			p    prepare
		}{{"cycle", prepareCycle}, {"read", prepareRead}} {
			for _, n := range ns {
				if err := b.inTurn(ctx, other, via, w.name, w.p, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inTurn makes the rows of one work in both cells.
func (b *bench) inTurn(ctx context.Context, secured *host.Cell, via, name string, p prepare, n int) error {
	opening, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	type side struct {
		row  report.Row
		b    bench
		f    field
		sum  summary
		rate []float64
	}
	sides := [2]side{}
	for i, c := range []*host.Cell{b.cell, secured} {
		s := &sides[i]
		s.row = report.Row{Work: []string{name, name + ", secured"}[i], Via: via, SharedClient: b.shared, Sessions: n, Runs: b.runs}
		s.b = *b
		s.b.cell = c
		var err error
		if s.f.clients, err = drive.Clients(via, c.Way(), n, b.shared); err != nil {
			return err
		}
		defer s.f.close(ctx)
		if err := p(opening, &s.b, &s.f); err != nil {
			return fmt.Errorf("%s via %s, %d sessions: %w", s.row.Work, via, n, err)
		}
	}
	for i := range b.runs {
		for j := range sides {
			s := &sides[j]
			r, err := s.b.once(ctx, fmt.Sprintf("%s via %s, %d sessions, run %d of %d", s.row.Work, via, n, i+1, b.runs), b.plan(0), &s.f)
			if err != nil {
				return err
			}
			s.sum.add(r)
			s.rate = append(s.rate, r.Rate())
		}
	}
	for i := range sides {
		sides[i].row.Load = sides[i].sum.load(false)
	}
	sides[1].row.Load.OfPlain = ratios(sides[1].rate, sides[0].rate)
	b.add(sides[0].row)
	b.add(sides[1].row)
	return nil
}

// ratios are of the runs, pair by pair.
func ratios(of, to []float64) load.Spread {
	var out []float64
	for i := range of {
		if to[i] > 0 {
			out = append(out, of[i]/to[i])
		}
	}
	return load.SpreadOf(out)
}

// prepareHandshake: every worker connects to the master, shakes hands in full, asks
// whether it is alive, and leaves.
func prepareHandshake(ctx context.Context, b *bench, f *field) error {
	way := b.cell.Way()
	if way.TLS == nil {
		return errors.New("there is no handshake without TLS: give --secure")
	}
	view, err := b.cell.View(ctx)
	if err != nil {
		return err
	}
	master, err := url.Parse(view.Master.URL)
	if err != nil {
		return err
	}
	for range f.clients {
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error { return handshake(ctx, master.Host, way.TLS) }))
	}
	return nil
}

func handshake(ctx context.Context, address string, config *tls.Config) error {
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer hangUp(c)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+lockapi.RouteLive, nil)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if err := req.Write(c); err != nil {
		return err
	}
	reply, err := http.ReadResponse(bufio.NewReaderSize(c, 1<<10), req)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", lockapi.RouteLive, reply.Status)
	}
	return nil
}

// hangUp closes a connection at once, so that the ports of many are free again.
func hangUp(c net.Conn) {
	if inner, ok := c.(*tls.Conn).NetConn().(*net.TCPConn); ok {
		_ = inner.SetLinger(0)
	}
	_ = c.Close()
}
