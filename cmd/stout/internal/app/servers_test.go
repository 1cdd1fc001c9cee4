package app

import (
	"os"
	"slices"
	"testing"

	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
)

// Without a word about servers, those are asked that a cell on this machine
// has: any of them may be down.
func TestServers(t *testing.T) {
	for _, tt := range []struct {
		flag []string
		env  string
		want []string
	}{
		{nil, "", []string{"http://127.0.0.1:7101", "http://127.0.0.1:7102", "http://127.0.0.1:7103"}},
		{nil, " , ", []string{"http://127.0.0.1:7101", "http://127.0.0.1:7102", "http://127.0.0.1:7103"}},
		{nil, "a:1, https://b:2/", []string{"http://a:1", "https://b:2/"}},
		{nil, "dns:a.example:1,dns+https:b.example,dns.example:2", []string{"dns:a.example:1", "dns+https:b.example", "http://dns.example:2"}},
		{[]string{"c:3"}, "a:1", []string{"http://c:3"}},
	} {
		t.Setenv(survey.ServerEnv, tt.env)
		a := &App{Streams: ui.Streams{Stdout: os.Stdout}, Options: Options{Servers: tt.flag}}
		if err := a.connect(); err != nil {
			t.Errorf("--server %q, %s=%q: %v", tt.flag, survey.ServerEnv, tt.env, err)
		}
		if !slices.Equal(a.Options.Servers, tt.want) {
			t.Errorf("--server %q, %s=%q: asks %q, want %q", tt.flag, survey.ServerEnv, tt.env, a.Options.Servers, tt.want)
		}
	}
}
