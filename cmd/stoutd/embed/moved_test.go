package embed

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/replica/membership"
)

// TestMovedBeforeTheCellWasTold: only a replica that was started at another address and
// knows no master logs the command that corrects its address.
func TestMovedBeforeTheCellWasTold(t *testing.T) {
	at := func(addr string) []membership.MemberStatus {
		return []membership.MemberStatus{{Member: membership.Member{ID: "r1"}, At: "10.0.0.1:7201"}, {Member: membership.Member{ID: "r2"}, At: addr}}
	}
	for _, c := range []struct {
		name    string
		known   bool
		members []membership.MemberStatus
		want    string
	}{
		{"moved", false, at("10.0.0.2:7201"), "stout member set r2 --raft-addr 10.0.0.9:7201 --url http://10.0.0.9:7101"},
		{"moved, with a master", true, at("10.0.0.2:7201"), ""},
		{"at its place", false, at("10.0.0.9:7201"), ""},
		{"before it knows of members", false, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				settings := &config.Config{ID: "r2", Replicas: []config.Replica{
					{ID: "r1", RaftAddr: "10.0.0.1:7201"}, {ID: "r2", RaftAddr: "10.0.0.9:7201", APIURL: "http://10.0.0.9:7101"},
				}}
				began := time.Now()
				warnMoved(t.Context(), zerolog.New(&log), settings, func() bool { return c.known }, func() []membership.MemberStatus { return c.members })
				if took := time.Since(began); took != movedAfter || !strings.Contains(log.String(), c.want) || (c.want == "") != (log.Len() == 0) {
					t.Errorf("after %v: %s", took, log.String())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		warnMoved(ctx, zerolog.Nop(), nil, nil, nil) // it ends at once
	})
}
