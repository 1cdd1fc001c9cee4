package config

import (
	"strings"
	"testing"
)

// joined returns the flags of a replica that joins, with more pairs of name and
// value.
func joined(more ...string) *Flags {
	flags := map[string][]string{
		"cell": {"c"}, "id": {"r4"}, nameDataDir: {"/d"}, "join": {"http://a:1/,https://b:2"},
		"api-listen": {"10.0.0.4:7101"}, "raft-listen": {"10.0.0.4:7201"},
	}
	for i := 0; i < len(more); i += 2 {
		flags[more[i]] = []string{more[i+1]}
	}
	return &Flags{given: flags}
}

// TestJoin: others reach a replica that joins at the addresses to which it binds,
// unless it has an entry of its own.
func TestJoin(t *testing.T) {
	c, err := Load(t.Context(), joined(), nil)
	if err != nil || len(c.Join) != 2 || c.Join[0] != "http://a:1" || c.Join[1] != "https://b:2" ||
		c.Self() != (Replica{ID: "r4", RaftAddr: "10.0.0.4:7201", APIURL: "http://10.0.0.4:7101"}) {
		t.Errorf("%+v, %v", c, err)
	}
	own := "r4=host:7201,http://host:7101"
	c, err = Load(t.Context(), joined(nameReplica, own, "raft-listen", "0.0.0.0:7201", "api-listen", "0.0.0.0:7101"), nil)
	if err != nil || formatReplica(c.Self()) != own {
		t.Errorf("%+v, %v", c.Self(), err)
	}
	for _, tc := range []struct{ name, value, field, says string }{
		{"raft-listen", "0.0.0.0:7201", "raft-listen", "--replica r4="},
		{"api-listen", ":7101", "api-listen", "--replica r4="},
		{"join", "a:1", "join", "http://"},
		{"join", "", "join", "http://"},
		{"join", "http://10.0.0.4:7101", "join", "own URL"},
		{"join", "http://10.0.0.4:7101/,http://10.0.0.4:7101", "join", "own URL"},
		{nameReplica, "r1=a:1,http://a:2", "join", "no other entry"},
		{"found-token-file", "/token", "join", "founds none"},
		{"dev", "true", "join", "contradicts dev"},
	} {
		_, err := Load(t.Context(), joined(tc.name, tc.value), nil)
		problems, _ := err.(Problems)
		found := false
		if tc.field == "join" && tc.name == "join" && len(problems) != 1 {
			t.Errorf("%s %q: other settings are refused as well: %v", tc.name, tc.value, err)
		}
		for _, p := range problems {
			found = found || p.Field == tc.field && strings.Contains(p.Reason, tc.says)
		}
		if !found {
			t.Errorf("%s %q: %v", tc.name, tc.value, err)
		}
	}
}
