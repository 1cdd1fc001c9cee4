package call

import (
	"fmt"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	for text, want := range map[string]*dnsName{
		"dns:stout.example:7101":                 {scheme: "http", host: "stout.example", port: "7101", cert: "stout.example"},
		"dns:stout.example.:7101":                {scheme: "http", host: "stout.example.", port: "7101", cert: "stout.example"},
		"DNS:stout.example:7101":                 {scheme: "http", host: "stout.example", port: "7101", cert: "stout.example"},
		"dns:localhost:1":                        {scheme: "http", host: "localhost", port: "1", cert: "localhost"},
		"dns:10.0.0.1:7101":                      {scheme: "http", host: "10.0.0.1", port: "7101", cert: "10.0.0.1"},
		"dns:[::1]:7101":                         {scheme: "http", host: "::1", port: "7101", cert: "::1"},
		"dns+https:stout.example:7101":           {scheme: "https", host: "stout.example", port: "7101", cert: "stout.example"},
		"dns+http:stout.example:7101":            {scheme: "http", host: "stout.example", port: "7101", cert: "stout.example"},
		"dns:stout.example":                      {scheme: "http", srv: "_stout._tcp.stout.example", cert: "stout.example"},
		"dns:stout.example.":                     {scheme: "http", srv: "_stout._tcp.stout.example.", cert: "stout.example"},
		"dns+https:_api._tcp.stout.svc":          {scheme: "https", srv: "_api._tcp.stout.svc", cert: "stout.svc"},
		"dns:" + long + "." + long + ".com:7101": {scheme: "http", host: long + "." + long + ".com", port: "7101", cert: long + "." + long + ".com"},
	} {
		got, err := parseName(text, "http")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !isName(text) || got.scheme != want.scheme || got.host != want.host || got.port != want.port || got.srv != want.srv || got.cert != want.cert {
			t.Errorf("%s becomes %+v", text, got)
		}
	}
	for text, want := range map[string]string{
		"dns:":                                            "no name; write dns:NAME:PORT, for instance dns:stout.example.com:7101",
		"dns+https:":                                      "no name; write dns+https:NAME:PORT",
		"dns://stout.example:7101":                        "remove the slashes; write dns:stout.example:7101",
		"dns:///stout.example:7101":                       "write dns:stout.example:7101",
		"dns+ftp:stout.example:7101":                      "dns+ftp is not known",
		"dns:7101":                                        "this is a port without a name; write dns:NAME:7101, or http://dns:7101",
		"dns:stout.example:":                              `port "" is not within 1..65535`,
		"dns:stout.example:0":                             `port "0" is not within`,
		"dns:stout.example:65536":                         `port "65536" is not within`,
		"dns:stout.example:http":                          `port "http" is not within`,
		"dns:stout.example:-1":                            `port "-1" is not within`,
		"dns::7101":                                       "has 1 to 63 bytes",
		"dns:::1:7101":                                    "an IPv6 address in brackets",
		"dns:stout example:7101":                          `cannot contain " "`,
		"dns: stout.example:7101":                         `cannot contain " "`,
		"dns:stout.example:7101 ":                         `port "7101 " is not within`,
		"dns:stout.example:7101/v1":                       `port "7101/v1" is not within`,
		"dns:stout.example/v1":                            `cannot contain "/"`,
		"dns:me@stout.example:7101":                       `cannot contain "@"`,
		"dns:stout.example?x":                             `cannot contain "?"`,
		"dns:http://stout.example:7101":                   "too many colons",
		"dns:größe.example:7101":                          "write the name in its DNS form, with xn--",
		"dns:stout..example:7101":                         "has 1 to 63 bytes",
		"dns:.:7101":                                      "has 1 to 63 bytes",
		"dns:-stout.example:7101":                         "begins or ends with a hyphen",
		"dns:" + long + "a:7101":                          "has 64",
		"dns:" + strings.Repeat(long+".", 4) + "com:7101": "at most 253 bytes",
		"dns:_stout._tcp.stout.example:7101":              "an SRV record has its own ports; write dns:_stout._tcp.stout.example",
		"dns:_stout.stout.example":                        "_SERVICE._PROTO.NAME",
		"dns:_stout._tcp":                                 "_SERVICE._PROTO.NAME",
		"dns:a\x00b:7101":                                 "cannot contain",
	} {
		if _, err := New(Settings{URLs: []string{text}, Scheme: "http"}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	e, err := parseEndpoint("https://gateway:8443/stout/")
	if err != nil {
		t.Fatal(err)
	}
	if got := e.address("/v1/locks/a b/%/ü", "").String(); got != "https://gateway:8443/stout/v1/locks/a%20b/%25/%C3%BC" {
		t.Errorf("address is %s", got)
	}
}
