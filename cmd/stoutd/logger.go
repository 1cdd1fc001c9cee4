package main

import (
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/internal/safetext"
)

// setLogForm sets what zerolog keeps for the whole process. Lines of several
// replicas are read side by side, so times have fractions and are in UTC.
var setLogForm = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	zerolog.DurationFieldUnit = time.Millisecond
	zerolog.DurationFieldInteger = true
})

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
