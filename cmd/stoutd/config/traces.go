package config

import (
	"net/url"
	"strconv"
)

// Names of the settings for traces.
const (
	nameTraceEndpoint = "trace-endpoint"
	nameTraceShare    = "trace-share"
)

func traceSettings() []setting {
	return []setting{
		text(nameTraceEndpoint, "url", "collector of traces that speaks OTLP over HTTP, as http://127.0.0.1:4318; none is told of any without it", func(c *Config) *string { return &c.TraceEndpoint }),
		fraction(nameTraceShare, "share of the calls without a trace of their own that begin one, 0 to 1", func(c *Config) *float64 { return &c.TraceShare }),
	}
}

func (v *validator) traces() {
	c := v.config
	if share := strconv.FormatFloat(c.TraceShare, 'g', -1, 64); !(c.TraceShare >= 0 && c.TraceShare <= 1) {
		v.refuse(nameTraceShare, share, "it is 0 to 1")
	} else if c.TraceShare > 0 && c.TraceEndpoint == "" {
		v.refuse(nameTraceShare, share, "nobody is told of the traces: give trace-endpoint as well")
	}
	if c.TraceEndpoint == "" {
		return
	}
	u, err := url.Parse(c.TraceEndpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		v.refuse(nameTraceEndpoint, c.TraceEndpoint, "it is the URL of a collector, as http://127.0.0.1:4318")
	case u.User != nil:
		v.refuse(nameTraceEndpoint, u.Redacted(), "a secret does not belong here: give it by OTEL_EXPORTER_OTLP_HEADERS in the environment")
	}
}
