package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// Judge lets everybody do everything.
func (f *fakeMaster) Judge(*master.Caller) error { return nil }

// Do notes the call, runs the hook, and has the call served by an office of its own
// behind the fake.
func (f *fakeMaster) Do(ctx context.Context, by master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", c), "*lockapi.")
	if err := f.enter(ctx, fmt.Sprintf("%s %+v", name, c), stale); err != nil {
		return nil, master.Outcome{}, err
	}
	f.mu.Unlock()
	return f.office().Do(ctx, by, stale, c)
}

// newOffice returns a master in office over a log in memory, made when it is first
// asked for. It ends with the test.
func newOffice(t testing.TB) func() *master.Master {
	return sync.OnceValue(func() *master.Master {
		log := memlog.New(1, memlog.Options{Broken: func(err error) { t.Error(err) }})
		log.SetDelay(0)
		n := log.Nodes()[0]
		m := master.New(n, n, master.Options{Cell: "test", ID: n.ID(), Version: "v1", LeaseTerm: 2 * time.Second, Clock: n.Clock, Logger: zerolog.Nop()})
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Close(ctx)
			log.Close()
		})
		log.Elect(n)
		for !m.Known().Self {
			time.Sleep(time.Millisecond)
		}
		return m
	})
}
