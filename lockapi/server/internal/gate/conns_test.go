package gate

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// A connection that must close for another one begins no call: the call could
// take any time, while the other connection waits.
func TestMakingWayBeginsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewConns(1)
		ours, theirs := net.Pipe()
		defer ours.Close()
		p.admit()
		c := &conn{netConn: netConn{theirs}, conns: p}
		p.Waits(c)
		if !p.Busy(c) {
			t.Error("a call cannot begin")
		}
		p.Waits(c)
		var admitting sync.WaitGroup
		admitting.Go(func() {
			if !p.admit() {
				t.Error("there is no room")
			}
		})
		synctest.Wait()
		if p.Busy(c) {
			t.Error("a call begins")
		}
		c.Close()
		admitting.Wait()
		if open, evicted, _ := p.Counts(); open != 1 || evicted != 1 {
			t.Errorf("%d open, %d evicted", open, evicted)
		}
	})
}

// caller is a caller by its principal.
type caller string

func (c caller) Principal(Names) string { return string(c) }
func (c caller) Source() Source         { return Source{} }

// TestDelayedRefusalFreesNoOtherPlace: a call with a delayed refusal has only its
// connection, and no place among the watches or the forwarded calls.
func TestDelayedRefusalFreesNoOtherPlace(t *testing.T) {
	p := NewConns(10)
	for range 3 {
		ours, theirs := net.Pipe()
		defer ours.Close()
		p.admit()
		c := &conn{netConn: netConn{theirs}, conns: p}
		p.working.link(c)
		c.waiting.Store(&Call{Of: caller("user:a"), Refused: true})
	}
	newcomer := &Call{Of: caller("user:b")}
	if p.Yield(newcomer, CallsOnly) || p.Yield(newcomer, WatchesOnly) {
		t.Error("it makes way for a place that it does not have")
	}
	if !p.Yield(newcomer, anyCall) {
		t.Error("it does not give up its connection")
	}
}
