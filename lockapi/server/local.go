package server

import (
	"errors"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// What a replica says of itself, without asking any other.

func readReplica(x *exchange) error {
	if x.master == nil {
		return x.reply(http.StatusOK, x.opts.Standby().Replica)
	}
	own := x.master.Replica()
	own.Directory = x.master.Directory()
	if x.peer {
		x.clocks.show(x.c.Writer.Header())
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
}

func live(x *exchange) error {
	return x.reply(http.StatusOK, probeAnswer{Status: "live"})
}

func ready(x *exchange) error {
	if x.master == nil {
		return x.standbyProblem()
	}
	directory, reason := x.master.Directory(), x.master.Ready()
	if at := x.master.Known(); reason == nil && !at.Self {
		reason = x.caughtUp(at)
	}
	if reason == nil {
		return x.reply(http.StatusOK, probeAnswer{"ready", directory})
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
