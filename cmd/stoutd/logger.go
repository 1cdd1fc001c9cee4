package main

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/config"
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
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", TimeLocation: time.Local, NoColor: !isTerminal(w)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("replica", c.ID).Logger()
}
