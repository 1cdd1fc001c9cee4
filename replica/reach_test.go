package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestReach: a wrong address costs little time, whether it refuses or is
// silent. A result that comes too late is discarded.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		discarded := 0
		at := func(ctx context.Context, address string) (string, error) {
			switch address {
			case "refuses":
				return "", errors.New("refused")
			case "silent":
				<-ctx.Done()
				return "", ctx.Err()
			case "slow":
				<-time.After(time.Second)
			}
			return address, nil
		}
		for _, tc := range []struct {
			addresses []string
			want      string
			within    time.Duration
		}{
			{[]string{"here"}, "here", 0},
			{[]string{"here", "other"}, "here", 0},
			{[]string{"refuses", "here"}, "here", 0},
			{[]string{"silent", "here"}, "here", nextAddress},
			{[]string{"silent", "silent", "here"}, "here", 2 * nextAddress},
			{[]string{"slow", "here"}, "here", nextAddress},
			{[]string{"refuses", "refuses"}, "", 0},
			{[]string{"refuses"}, "", 0},
		} {
			began := time.Now()
			got, err := reach(t.Context(), tc.addresses, at, func(string) { discarded++ })
			if got != tc.want || (err == nil) != (tc.want != "") || time.Since(began) > tc.within {
				t.Errorf("%q: %q, %v after %v", tc.addresses, got, err, time.Since(began))
			}
			<-time.After(time.Minute)
			synctest.Wait()
		}
		if discarded != 1 {
			t.Errorf("%d were discarded that came too late", discarded)
		}
	})
}
