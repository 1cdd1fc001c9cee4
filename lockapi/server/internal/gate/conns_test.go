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
