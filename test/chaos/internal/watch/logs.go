package watch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stoutlock/stout/test/cell"
)

// most bounds the lines that are shown from one replica's log.
const most = 5

// Logs finds lines that replicas must not log: level error or worse, reports of
// the race detector, and lines of another form, such as a panic. Lines for
// which excused returns true are left out.
func Logs(c *cell.Cell, excused func(id, line string) bool) (problems []string, err error) {
	for _, r := range c.Replicas() {
		f, err := os.Open(r.LogFile)
		if err != nil {
			return problems, err
		}
		found, err := scan(f, func(line string) bool { return excused(r.ID, line) })
		f.Close()
		if err != nil {
			return problems, err
		}
		for _, line := range found[:min(len(found), most)] {
			problems = append(problems, fmt.Sprintf("replica %s wrote: %s", r.ID, line))
		}
	}
	return problems, nil
}

func scan(log io.Reader, excused func(line string) bool) (found []string, err error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text := lines.Text(); suspicious(text) && !excused(text) {
			found = append(found, text)
		}
	}
	return found, lines.Err()
}

// suspicious reports whether a line is anything but a log line of level warn or
// lower.
func suspicious(text string) bool {
	var line struct {
		Level string `json:"level"`
	}
	if strings.TrimSpace(text) == "" {
		return false
	}
	if json.Unmarshal([]byte(text), &line) != nil {
		return true
	}
	switch line.Level {
	case "trace", "debug", "info", "warn":
		return false
	}
	return true
}
