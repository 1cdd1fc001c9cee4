package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// readReplica answers with this replica's own entry, without calls to others.

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

// probeAnswer is the body of a successful health probe.
type probeAnswer struct {
	Status    string `json:"status"`
	Directory string `json:"directory,omitempty"` // of a ready replica
	Log       string `json:"log,omitempty"`       // a fault of the replica's log, see logState
}

// logState reports that the reader of the replica's log is blocked; empty if it
// is not. The replica serves calls in both cases.
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

// hangs returns a reason of the replica's own why it cannot serve; nil if it
// can.
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
	failed := *e
	failed.Directory = directory
	return &failed
}

func readMetrics(x *exchange) error {
	x.stamp(x.c.Writer.Header())
	x.identify()
	x.metrics.page.ServeHTTP(x.c.Writer, x.c.Request)
	return nil
}
