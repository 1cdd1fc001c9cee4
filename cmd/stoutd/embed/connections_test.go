package embed

import (
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutd/config"
)

func TestMaxConnections(t *testing.T) {
	for _, test := range []struct {
		asked, limit uint64
		unknown      bool
		want         int
		refused      string
	}{
		{limit: 1024, want: 512},
		{limit: 20_000, want: 20_000 - 512},
		{limit: 1 << 20, want: 65_536},
		{limit: 200, want: 100},
		{unknown: true, want: 65_536},
		{asked: 7, unknown: true, want: 7},
		{asked: 1000, limit: 20_000, want: 1000},
		{asked: 100_000, limit: 1 << 20, want: 100_000},
		{asked: 1000, limit: 1024, refused: `max-connections "1000" (default): the limit on open files is 1024, which leaves 512`},
		{limit: 100, refused: `max-connections "0" (default): the limit on open files is 100; a replica needs at least 128`},
	} {
		c := &config.Config{MaxConnections: test.asked}
		got, err := maxConnections(c, test.limit, !test.unknown)
		if got != test.want || (err == nil) != (test.refused == "") || err != nil && !strings.HasPrefix(err.Error(), test.refused) {
			t.Errorf("%+v: %d, %v", test, got, err)
		}
	}
}
