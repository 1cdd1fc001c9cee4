package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// What a replica says of itself, without asking any other.

func readReplica(x *exchange) error {
	if x.master == nil {
		return x.reply(http.StatusOK, x.opts.Standby().Replica)
	}
	own := x.master.View().Own
	own.Unreached = x.others.Unreached()
	if x.peer {
		x.others.ShowClock(x.c.Writer.Header())
	}
	return x.reply(http.StatusOK, own)
}

func readOpenAPI(x *exchange) error {
	x.write(http.StatusOK, typeYAML, lockapi.OpenAPI())
	return nil
}

// probeAnswer is the body of a health probe that succeeds.
type probeAnswer struct {
	Status    string `json:"status"`
	Directory string `json:"directory,omitempty"` // of the replica, where it is ready
	Log       string `json:"log,omitempty"`       // what is the matter with the replica's log, see logState
}

// logState reports that the reader of the replica's log hangs; empty where it does
// not. The replica serves all the same.
func (x *exchange) logState() string {
	if x.opts.LogBlocked != nil {
		if d := x.opts.LogBlocked().Truncate(time.Second); d > 0 {
			return fmt.Sprintf("blocked for %v", d)
		}
	}
	return ""
}

func live(x *exchange) error {
	if err := x.hangs(); err != nil {
		return err
	}
	return x.reply(http.StatusOK, probeAnswer{Status: "live"})
}

// hangs is why the replica cannot serve, for a reason of its own; nil where it can.
func (x *exchange) hangs() error {
	if x.master == nil {
		return nil
	}
	if err := x.master.Hangs(); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%v", err)
	}
	return nil
}

func ready(x *exchange) error {
	if x.master == nil {
		return x.standbyProblem()
	}
	directory, reason := x.attached.Load().directory, x.hangs()
	if reason == nil {
		reason = x.master.View().Ready
	}
	if reason == nil {
		if at := x.master.Known(); !at.Self {
			reason = x.caughtUp(at)
		}
	}
	if reason == nil {
		return x.reply(http.StatusOK, probeAnswer{"ready", directory, x.logState()})
	}
	e := new(lockapi.Error)
	if !errors.As(reason, &e) || e.Code.Status() != http.StatusServiceUnavailable {
		e = lockapi.Errorf(lockapi.CodeNoMaster, "this replica is not ready: %v", reason)
	}
	told := *e
	told.Directory = directory
	return &told
}

func readMetrics(x *exchange) error {
	x.stamp(x.c.Writer.Header())
	x.identify()
	x.metrics.page.ServeHTTP(x.c.Writer, x.c.Request)
	return nil
}
