package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/safetext"
)

// setLogForm sets what zerolog keeps for the whole process. Lines of several
// replicas are read side by side, so times have fractions and are in UTC.
var setLogForm = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	zerolog.DurationFieldUnit = time.Millisecond
	zerolog.DurationFieldInteger = true
	zerolog.ErrorHandler = func(error) {} // by default it writes to standard error, and waits
})

const (
	// mostLogLines bounds the lines that wait for standard error, some 2 MiB.
	mostLogLines = 4096
	// lastLogLines is how long the end of the process waits for its last lines.
	lastLogLines = time.Second
)

// droppedLines returns the line that reports how many were dropped.
func droppedLines(c *config.Config) func(dropped uint64) []byte {
	return func(dropped uint64) []byte {
		var line bytes.Buffer
		log := newLogger(c, &line)
		log.Warn().Uint64("dropped", dropped).Msg("lines of this log were dropped: standard error took none, or has failed")
		return line.Bytes()
	}
}

// logging is the metrics of the log.
type logging struct{ lines *nonblock.Writer }

var logDroppedDesc = prometheus.NewDesc("stout_log_lines_dropped_total",
	"Lines of the log that were dropped, since standard error took none or failed.", nil, nil)

func (logging) Describe(to chan<- *prometheus.Desc) { to <- logDroppedDesc }

func (l logging) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(logDroppedDesc, prometheus.CounterValue, float64(l.lines.Dropped()))
}

// newLogger makes the process's logger: one line per event that an operator
// cares about, each with the replica's id.
func newLogger(c *config.Config, w io.Writer) zerolog.Logger {
	setLogForm()
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // config.Load accepts no other than zerolog's names
	}
	if c.LogFormat == "console" {
		w = console(w, isTerminal(w))
	} else {
		w = safetext.Lines(w)
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("replica", c.ID).Logger()
}

// console writes events for a person. Messages, names of fields and values in lists
// are written by zerolog as they are, and may have in them what somebody else chose.
func console(w io.Writer, colour bool) io.Writer {
	safe := func(v any) string { return safetext.Line(fmt.Sprintf("%s", v)) }
	return zerolog.ConsoleWriter{
		Out: w, TimeFormat: "15:04:05.000", TimeLocation: time.Local, NoColor: !colour,
		FormatPrepare: func(event map[string]any) error {
			if text, ok := event[zerolog.MessageFieldName].(string); ok {
				event[zerolog.MessageFieldName] = safetext.Line(text)
			}
			for name, value := range maps.Clone(event) {
				delete(event, name)
				event[safetext.Line(name)] = value
			}
			return nil
		},
		FormatFieldValue: safe,
		FormatErrFieldValue: func(v any) string {
			if !colour {
				return safe(v)
			}
			return "\x1b[31;1m" + safe(v) + "\x1b[0m"
		},
	}
}
