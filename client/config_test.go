package client

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no URL":         {},
		"empty":          {URLs: []string{""}},
		"host alone":     {URLs: []string{"localhost"}},
		"port alone":     {URLs: []string{":7101"}},
		"host, no port":  {URLs: []string{"localhost:"}},
		"port's name":    {URLs: []string{"localhost:http"}},
		"port too high":  {URLs: []string{"http://localhost:71010"}},
		"port zero":      {URLs: []string{"localhost:0"}},
		"bare IPv6":      {URLs: []string{"::1:7101"}},
		"several in one": {URLs: []string{"r1:7101,r2:7101"}},
		"other scheme":   {URLs: []string{"ftp://r1"}},
		"no host":        {URLs: []string{"http://:7101"}},
		"credentials":    {URLs: []string{"http://me:secret@r1"}},
		"query":          {URLs: []string{"http://r1?x=1"}},
		"malformed":      {URLs: []string{"http://r1", "http://%zz"}},
		"negative grace": {URLs: []string{"http://r1"}, Grace: -1},
	} {
		if got, err := c.New(); err == nil || got != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for given, want := range map[string]string{
		"localhost:7101": "http://localhost:7101", "10.0.0.1:7101": "http://10.0.0.1:7101", "[::1]:7101": "http://[::1]:7101",
		"gateway:80/stout/": "http://gateway:80/stout", "http://r1": "http://r1", "https://r1:8443": "https://r1:8443",
	} {
		c, err := New(given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
		} else if got := c.calls.AllKnown()[0].URL; got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
	if _, err := New("localhost"); err == nil || !strings.Contains(err.Error(), "write http://host:port") {
		t.Errorf("the error does not say what to write: %v", err)
	}

}
