package server

import (
	"errors"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// What a replica says of itself, without asking any other.

func readReplica(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	return x.reply(http.StatusOK, x.master.Replica())
}

func readOpenAPI(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	x.write(http.StatusOK, typeYAML, lockapi.OpenAPI())
	return nil
}

// probeAnswer is the body of a health probe that succeeds.
type probeAnswer struct {
	Status string `json:"status"`
}

func live(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	return x.reply(http.StatusOK, probeAnswer{"live"})
}

func ready(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	reason := x.master.Ready()
	if at := x.master.Known(); reason == nil && !at.Self {
		reason = x.caughtUp(at)
	}
	if reason == nil {
		return x.reply(http.StatusOK, probeAnswer{"ready"})
	}
	if e := new(lockapi.Error); errors.As(reason, &e) && e.Code.Status() == http.StatusServiceUnavailable {
		return e
	}
	return lockapi.Errorf(lockapi.CodeNoMaster, "this replica is not ready: %v", reason)
}

func readMetrics(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	x.stamp(x.c.Writer.Header())
	x.metrics.page.ServeHTTP(x.c.Writer, x.c.Request)
	return nil
}
