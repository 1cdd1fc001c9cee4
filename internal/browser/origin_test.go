package browser

import (
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]Host{
		"a":                      {"a", ""},
		"A.Example.COM":          {"a.example.com", ""},
		"a.example.com.":         {"a.example.com", ""},
		"a.example.com.:80":      {"a.example.com", "80"},
		"a:7101":                 {"a", "7101"},
		"a:":                     {"a", ""},
		"a:0080":                 {"a", "80"},
		"a:65535":                {"a", "65535"},
		"a_b-c":                  {"a_b-c", ""},
		"xn--bcher-kva.example":  {"xn--bcher-kva.example", ""},
		"127.0.0.1":              {"127.0.0.1", ""},
		"127.0.0.1.:1":           {"127.0.0.1", "1"},
		"[::1]":                  {"::1", ""},
		"[::1]:7101":             {"::1", "7101"},
		"[0:0:0:0:0:0:0:1]:7101": {"::1", "7101"},
		"[2001:DB8::A]":          {"2001:db8::a", ""},
		"[::ffff:10.0.0.1]":      {"::ffff:10.0.0.1", ""},
		"[fe80::1%eth0]:1":       {"fe80::1%eth0", "1"},
		strings.Repeat("a", 253): {strings.Repeat("a", 253), ""},
	} {
		if got, ok := ParseHost(in); !ok || got != want {
			t.Errorf("%q is %+v, %v, want %+v", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", ":", ":80", ".a", "a..", "a..b", "a b", "a/b", "a@b", "user@localhost", "a%41", "bücher.example", "a\x00", "*", "*.a",
		"::1", "2001:db8::a", "[::1", "::1]", "[]", "[]:80", "[a]", "[127.0.0.1]", "[::1]x", "[::1]:x", "x[::1]", "[a::b:80",
		"a:x", "a:-1", "a:+1", "a:65536", "a:123456", "a:0", "a:80:80", "a:8 0", strings.Repeat("a", 254),
	} {
		if got, ok := ParseHost(in); ok {
			t.Errorf("%q is accepted as %+v", in, got)
		}
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"http://a":                "http://a",
		"https://a.example.com":   "https://a.example.com",
		"HTTPS://A.example.com":   "https://a.example.com",
		"https://a.example.com.":  "https://a.example.com",
		"http://a:80":             "http://a",
		"https://a:443":           "https://a",
		"http://a:443":            "http://a:443",
		"https://a:80":            "https://a:80",
		"http://a:7101":           "http://a:7101",
		"http://[::1]:7101":       "http://[::1]:7101",
		"http://[0:0:0:0:0::1]":   "http://[::1]",
		"http://127.0.0.1:7101":   "http://127.0.0.1:7101",
		"https://xn--bcher-kva.a": "https://xn--bcher-kva.a",
	} {
		if got, err := Parse(in); err != nil || got.String() != want {
			t.Errorf("%q is %v, %v, want %s", in, got, err, want)
		}
	}
	for in, why := range map[string]string{
		"":                   "begins with http",
		"null":               "begins with http",
		"*":                  "begins with http",
		"a.example.com":      "begins with http",
		"a:80":               "begins with http",
		"ftp://a":            "begins with http",
		"file://":            "begins with http",
		"chrome-extension:x": "begins with http",
		"http:a":             "begins with http",
		"http:/a":            "begins with http",
		" http://a":          "begins with http",
		"http://a/":          "only scheme, host and port",
		"http://a/b":         "only scheme, host and port",
		"http://a?b":         "only scheme, host and port",
		"http://a#b":         "only scheme, host and port",
		"http://u@a":         "only scheme, host and port",
		"http://u:p@a":       "only scheme, host and port",
		`http://a\b`:         "only scheme, host and port",
		"http://":            "is not a host",
		"http://:80":         "is not a host",
		"http://*.a":         "is not a host",
		"http://a:x":         "is not a host",
		"http://a:65536":     "is not a host",
		"http://bücher.a":    "in its xn-- form",
		"http://a b":         "is not a host",
		"http://a, http://b": "only scheme, host and port",
		"http://a http://b":  "only scheme, host and port",
	} {
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is %v, %v", in, got, err)
		}
	}
}

// An accepted origin is written in the form in which it is compared.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"http://a", "https://a:443", "http://[::1]:7101", "http://[fe80::1%1]", "http://a.:00080", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := Parse(o.String()); err != nil || again != o {
			t.Errorf("%q is %+v, which is written as %q and read as %+v, %v", s, o, o, again, err)
		}
		if h, ok := ParseHost(o.Host.String()); !ok || h != o.Host {
			t.Errorf("%q has the host %+v, which is written as %q and read as %+v, %v", s, o.Host, o.Host, h, ok)
		}
	})
}
