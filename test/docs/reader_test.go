package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/docs"
	"github.com/stoutlock/stout/test/cell"
)

// reader reads one page and types its commands.
type reader struct {
	dir       string            // working directory
	first     int               // port of r1's API
	elsewhere string            // replaces directories outside
	env       []string          // of the shells
	instead   *strings.Replacer // replaces addresses of other machines
	typed     int               // blocks so far
	running   []*typed          // commands that continue beside the next blocks
}

// typed is a block that was typed into a shell.
type typed struct {
	block docs.Block
	cmd   *exec.Cmd
	out   string // file of its output
	ended chan error
}

func (r *reader) do(t *testing.T, b docs.Block) {
	t.Helper()
	if b.File != "" {
		name := filepath.Join(r.dir, b.File)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(r.instead.Replace(b.Text)), 0o644)))
		return
	}
	now := r.start(t, b)
	if !b.Start && !b.Until {
		select {
		case err := <-now.ended:
			if err != nil {
				t.Fatalf("%s: %v\n%s\nsays:\n%s", b.Place(), err, b.Text, now.said())
			}
		case <-cell.Bounded(t).Done():
			t.Fatalf("%s does not end:\n%s\nsays:\n%s\nwhile the cell said:\n%s", b.Place(), b.Text, now.said(), r.running[0].said())
		}
	}
	now.await(t, r.instead)
	if b.Until {
		now.end(t)
	}
	if strings.Contains(now.said(), `"code":"`) {
		t.Errorf("%s: a call was refused:\n%s", b.Place(), now.said())
	}
}

func (r *reader) start(t *testing.T, b docs.Block) *typed {
	t.Helper()
	dir := filepath.Join(r.dir, b.In)
	must(t, os.MkdirAll(dir, 0o755))
	r.typed++
	now := &typed{block: b, out: filepath.Join(t.TempDir(), fmt.Sprintf("said-%d", r.typed)), ended: make(chan error, 1)}
	out, err := os.Create(now.out)
	must(t, err)
	defer out.Close()
	script := r.instead.Replace(strings.Join(append(b.Before, b.Text), "\n"))
	now.cmd = exec.Command("sh", "-ec", script)
	now.cmd.Dir, now.cmd.Env, now.cmd.Stdout, now.cmd.Stderr = dir, r.env, out, out
	now.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, now.cmd.Start())
	go func() { now.ended <- now.cmd.Wait() }()
	r.running = append(r.running, now)
	return now
}

func (k *typed) said() string {
	text, err := os.ReadFile(k.out)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await waits until all expected texts have appeared, in order. Background
// commands of the block may print them a little later.
func (k *typed) await(t *testing.T, instead *strings.Replacer) {
	t.Helper()
	ctx, stop := context.WithCancelCause(cell.Bounded(t))
	defer stop(nil)
	err := cell.Wait(ctx, k.block.Place(), func(context.Context) error {
		if k.block.Start || k.block.Until {
			select {
			case err := <-k.ended:
				k.ended <- err
				defer stop(errors.New("it has ended")) // it prints no more
			default:
			}
		}
		rest := k.said()
		for _, want := range k.block.Says {
			found := like(instead.Replace(want)).FindStringIndex(rest)
			if found == nil {
				return fmt.Errorf("it does not say %q", want)
			}
			rest = rest[found[1]:]
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s\nsays:\n%s", err, k.block.Text, k.said())
	}
}

// end ends the block's commands as Ctrl-C does, with their child processes, and
// kills commands that do not react.
func (k *typed) end(t *testing.T) {
	t.Helper()
	group := -k.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGINT)
	deadline := time.After(20 * time.Second)
	for syscall.Kill(group, 0) == nil {
		select {
		case err := <-k.ended:
			k.ended <- err
			_ = syscall.Kill(group, syscall.SIGINT) // background commands of the shell
		case <-deadline:
			_ = syscall.Kill(group, syscall.SIGKILL)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var (
	blanks  = regexp.MustCompile(`[ \t]+`)
	numbers = regexp.MustCompile(`[0-9]+(?:[0-9.:]|(?:h|m|s|ms|µs)\b)*`)
)

// like matches the shown text. Numbers, times and the width of blanks may
// differ, and an ellipsis matches any text.
func like(shown string) *regexp.Regexp {
	text := regexp.QuoteMeta(strings.TrimSpace(shown))
	text = strings.ReplaceAll(text, `\.`, ".") // so that numbers stay whole
	text = numbers.ReplaceAllString(text, `[0-9]+[0-9.:hmsµ]*`)
	text = strings.ReplaceAll(text, "…", ".*")
	text = blanks.ReplaceAllString(text, `\s+`)
	return regexp.MustCompile(text)
}
