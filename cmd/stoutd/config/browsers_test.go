package config

import (
	"slices"
	"testing"
)

// TestListsFromEachSource: each source can give a list, and the later source replaces
// the whole list.
func TestListsFromEachSource(t *testing.T) {
	const asList = "allow-origin: [\"http://a\", 'https://b:8']\napi-host:\n  - c.example.com\n  - D.\n"
	for name, in := range map[string]input{
		"flags":       cell("--allow-origin", "http://a", "--allow-origin", "https://b:8", "--api-host", "c.example.com", "--api-host", "D."),
		"file":        {args: threeReplicas, file: asList},
		"environment": {args: threeReplicas, env: []string{"STOUTD_ALLOW_ORIGIN=http://a;https://b:8", "STOUTD_API_HOST=c.example.com d"}},
		"the later":   {args: append(slices.Clone(threeReplicas), "--api-host", "c.example.com", "--api-host", "d"), env: []string{"STOUTD_API_HOST=x y"}, file: asList},
	} {
		c := mustLoad(t, in)
		if !slices.Equal(c.AllowOrigins, []string{"http://a", "https://b:8"}) || !slices.Equal(c.APIHosts, []string{"c.example.com", "d"}) {
			t.Errorf("%s: %v %v", name, c.AllowOrigins, c.APIHosts)
		}
	}
	if c := mustLoad(t, input{args: threeReplicas, file: "allow-origin: http://a\napi-host: 007\n"}); len(c.AllowOrigins) != 1 || !slices.Equal(c.APIHosts, []string{"007"}) {
		t.Errorf("one value: %v %v", c.AllowOrigins, c.APIHosts)
	}
	if c := mustLoad(t, input{args: threeReplicas, env: []string{"STOUTD_API_HOST= "}, file: "api-host: a\nallow-origin: []\n"}); c.AllowOrigins != nil || c.APIHosts != nil {
		t.Errorf("none: %v %v", c.AllowOrigins, c.APIHosts)
	}
}
