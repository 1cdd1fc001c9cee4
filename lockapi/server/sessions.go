package server

import (
	"encoding/json"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
	"github.com/stoutlock/stout/master"
)

// hurry makes a keepalive with that body return at once if the call got no
// place.
func (x *exchange) hurry(waitMS *int64, body any) (err error) {
	if x.call.Keeps = true; x.hurried {
		*waitMS = 0
		x.body, err = json.Marshal(body) // for the master, if that is another replica
	}
	return err
}

func hurryOne(x *exchange, c *lockapi.KeepAlive) error {
	if c.WaitMS > 0 && x.parking == nil && !x.peer && !x.route.guest && !x.broke && (x.span == nil || !x.span.IsRecording()) {
		if x.later = wire.LaterOf(x.ctx()); x.later != nil {
			x.parking = &master.Parking{Wake: x.later.Wake}
		}
	}
	return x.hurry(&c.WaitMS, &c.KeepaliveRequest)
}

func hurryAll(x *exchange, c *lockapi.KeepAliveAll) error {
	return x.hurry(&c.WaitMS, &c.KeepalivesRequest)
}

// parked is what is left of a keepalive's exchange while it waits without a
// goroutine.
type parked struct {
	parking *master.Parking
	start   time.Time
	call    gate.Call
}

// absent identifies the caller of a parked keepalive.
type absent struct {
	principal string
	from      gate.Source
}

func (a absent) Principal(gate.Names) string { return a.principal }
func (a absent) Source() gate.Source         { return a.from }

// leave ends the exchange without a reply. After the wait another exchange
// continues the call.
func (x *exchange) leave(start time.Time) {
	p := &parked{x.parking, start, gate.Call{Of: absent{x.noted.checked.Principal, x.Source()}, Keeps: true}}
	p.call.Park(x.ctx())
	x.later.Leave(p)
}

// goOn continues the call of an exchange that left, if there is one, and
// returns when that exchange began.
func (x *exchange) goOn() (start time.Time, ok bool) {
	if x.route.pattern != patternKeepalive {
		return time.Time{}, false
	}
	p, ok := wire.LeftOf(x.ctx()).(*parked)
	if !ok {
		return time.Time{}, false
	}
	p.call.Unpark()
	x.parking, x.paced = p.parking, true
	return p.start, true
}
