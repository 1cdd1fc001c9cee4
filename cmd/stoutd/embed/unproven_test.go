package embed

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestAccessWithoutTLSBetweenReplicas: the warning appears once, also when access is
// enabled later.
func TestAccessWithoutTLSBetweenReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		began := time.Now()
		warnUnproven(ctx, zerolog.New(&log), func() bool { return time.Since(began) >= 10*time.Minute })
		if took := time.Since(began); took != 10*time.Minute || strings.Count(log.String(), "raft-cert") != 1 {
			t.Errorf("after %v: %s", took, log.String())
		}
		log.Reset()
		warnUnproven(ctx, zerolog.New(&log), func() bool { return false })
		if ctx.Err() == nil || log.Len() > 0 {
			t.Errorf("access stays off: %s", log.String())
		}
	})
}
