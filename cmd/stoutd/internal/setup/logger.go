// Package setup makes from the settings what both command stoutd and package embed
// need: the log, certificates, and errors that name a setting.
package setup

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/safetext"
)

// mostLines bounds the lines that wait to be written, about 2 MiB.
const mostLines = 4096

// Lines returns a writer for the log that never waits for w. It reports dropped lines
// as plain text until Logger is called.
func Lines(w io.Writer) *nonblock.Writer {
	return nonblock.New(w, mostLines, func(dropped uint64) []byte {
		return fmt.Appendf(nil, "stoutd: %d lines were dropped\n", dropped)
	})
}

// Logger returns a replica's log, and the writer of its lines: c.Stderr, if Lines made
// it, else a new one.
func Logger(c *config.Config) (zerolog.Logger, *nonblock.Writer) {
	lines, ok := c.Stderr.(*nonblock.Writer)
	if !ok {
		lines = Lines(cmp.Or(c.Stderr, io.Writer(os.Stderr)))
	}
	lines.SetReport(func(dropped uint64) []byte {
		var line bytes.Buffer
		log := logger(c, &line)
		log.Warn().Uint64("dropped", dropped).Msg("lines of this log were dropped: standard error blocked or failed")
		return line.Bytes()
	})
	return logger(c, lines), lines
}

// logger returns a log with the replica's id in each line.
func logger(c *config.Config, w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // not reached: package config accepts zerolog's names only
	}
	if c.LogFormat == "console" {
		w = console(w, isTerminal(w))
	} else {
		w = safetext.Lines(w)
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("replica", c.ID).Logger()
}

// console writes events for a person. zerolog writes messages, names of fields and
// values in lists unchanged, and they may contain text that a caller chose.
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

// isTerminal reports whether w is a terminal that may be coloured.
func isTerminal(w io.Writer) bool {
	if log, ok := w.(*nonblock.Writer); ok {
		w = log.Under()
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}
