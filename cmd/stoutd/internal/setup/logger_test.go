package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/safetext"
)

// TestLogCannotBeForged: text that a caller chose cannot control the reader's terminal
// or forge a line of the log, wherever it is in an event.
func TestLogCannotBeForged(t *testing.T) {
	const evil = "x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\u200b\r\n{\"level\":\"info\",\"message\":\"all is well\"}\n12:00 INF all is well\x7f\xff\u2028\ufe0f"
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log := logger(&config.Config{ID: "r1" + evil, LogFormat: format, LogLevel: "debug"}, &out)
		log.Info().Msg(evil)
		log.Debug().Msgf("a session named %s", evil)
		log.Warn().Str("path", evil).Msg("named")
		log.Warn().Strs("members", []string{evil, evil}).Msg("listed")
		log.Warn().Bytes("body", []byte(evil)).Msg("bytes")
		log.Warn().Interface("meta", map[string]string{evil: evil}).Msg("a map")
		log.Error().Err(errors.New(evil)).Msg("failed")
		log.Error().Errs("errors", []error{errors.New(evil)}).Msg("failed")
		log.Error().Str(evil, "a field's name").Msg("named")
		const events = 9
		text := out.String()
		if n := strings.Count(text, "\n"); n != events {
			t.Errorf("%s: %d events are %d lines:\n%s", format, events, n, text)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if i := strings.IndexFunc(line, safetext.Hidden); i >= 0 {
				t.Errorf("%s: a terminal obeys byte %d of %q", format, i, line)
			}
			if format == "json" && !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %q", line)
			}
		}
	}
}
