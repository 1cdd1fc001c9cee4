package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/test/chaos/internal/watch"
	"github.com/stoutlock/stout/test/history"
)

func (t *trial) check() {
	t.record = t.recorder.Attempts()
	t.say("checking %d requests", len(t.record))
	t.verdict = history.Check(t.record, t.patience)
	t.problems = append(t.problems, t.verdict.Problems...)
	t.seen = t.events.Received()
	t.problems = append(t.problems, history.CheckEvents(t.record, t.seen)...)
	t.problems = append(t.problems, t.resource.Problems()...)
	t.problems = append(t.problems, t.holds.Problems()...)
	t.problems = append(t.problems, t.sums.Problems()...)
	t.problems = append(t.problems, t.grants.Judge().Problems...)
	logs, err := watch.Logs(t.cell, t.nemesis.Keeper().Excuses)
	t.problems = append(t.problems, logs...)
	t.note(err)
}

// save writes what helps to find the cause into the cell's directory, and
// returns an error that names this directory.
func (t *trial) save() error {
	if err := t.saveHistory(filepath.Join(t.dir, "history.json")); err != nil {
		return err
	}
	if err := saveJSON(filepath.Join(t.dir, "events.json"), t.seen); err != nil {
		return err
	}
	if err := saveJSON(filepath.Join(t.dir, "grants.json"), t.grants); err != nil {
		return err
	}
	pictures, err := t.verdict.WritePictures(picturesIn(t.dir))
	t.note(err)
	var text strings.Builder
	for _, p := range t.problems {
		fmt.Fprintf(&text, "- %s\n", p)
	}
	for _, p := range pictures {
		fmt.Fprintf(&text, "picture: %s\n", p)
	}
	fmt.Fprintf(&text, "again: %s\n", t.command(t.size))
	if err := os.WriteFile(filepath.Join(t.dir, "problems.txt"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return fmt.Errorf("%d replicas, seed %d: %d problems; see %s\n%s", t.size, t.seed, len(t.problems), t.dir, &text)
}

// picturesIn returns the function that names the picture of a path.
func picturesIn(dir string) func(path string) string {
	return func(path string) string {
		return filepath.Join(dir, strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")+".html")
	}
}

// recheck checks the record of an earlier run, and puts the pictures beside it.
func recheck(s *settings, stdout io.Writer) error {
	f, err := os.Open(s.recheck)
	if err != nil {
		return err
	}
	defer f.Close()
	var record []history.Attempt
	for lines := json.NewDecoder(f); ; {
		var a history.Attempt
		if err := lines.Decode(&a); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", s.recheck, err)
		}
		record = append(record, a)
	}
	v := history.Check(record, s.patience)
	fmt.Fprintf(stdout, "%d requests, %d steps on %d locks, %d groups of files and %d directories of keys; the longest check took %v\n",
		len(record), v.Steps, v.Paths, v.Groups, v.Keys, v.Longest)
	seen, err := readEvents(filepath.Join(filepath.Dir(s.recheck), "events.json"))
	if err != nil {
		return err
	}
	v.Problems = append(v.Problems, history.CheckEvents(record, seen)...)
	if len(v.Problems) == 0 {
		return nil
	}
	pictures, err := v.WritePictures(picturesIn(filepath.Dir(s.recheck)))
	return errors.Join(err, fmt.Errorf("%d problems\n%s\npictures: %v", len(v.Problems), strings.Join(v.Problems, "\n"), pictures))
}

// saveJSON writes a file as JSON.
func saveJSON(name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

func readEvents(name string) (seen []history.Told, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return seen, json.Unmarshal(text, &seen)
}

// saveHistory writes the record, one request per line.
func (t *trial) saveHistory(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for i := range t.record {
		if err := lines.Encode(&t.record[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}
