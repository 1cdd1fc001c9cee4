package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stoutlock/stout/internal/safetext"
)

// refreshEvery is how long a watched answer stays.
const refreshEvery = time.Second

// refresh shows an answer again and again, until ctx ends or a signal ends us.
// What show prints, and the error that it returns, are the picture: a cell that
// cannot be reached is one too.
func (a *app) refresh(ctx context.Context, show func(context.Context) error) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	stdout, stderr := a.ui.out.w, a.ui.err.w
	for first := true; ; first = false {
		var picture bytes.Buffer
		a.ui.out.w, a.ui.err.w = &picture, &picture
		if err := show(ctx); err != nil {
			picture.WriteString("\n")
			a.ui.failure(a.explain(err))
		}
		a.ui.out.w, a.ui.err.w = stdout, stderr
		if _, err := io.WriteString(stdout, a.frame(picture.String(), first)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// refreshLines prints an answer again and again, as a line of JSON each time. Each
// is written as a whole, so that whatever ends us leaves no half of one.
func (a *app) refreshLines(ctx context.Context, look func(context.Context) any) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		line, err := json.Marshal(look(ctx))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(a.ui.out.w, safetext.JSON(string(line))+"\n"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// frame is a picture as it goes to standard output. On a terminal it takes the
// place of the one before, line by line, so that nothing flickers; what is
// beyond the last line is left out.
func (a *app) frame(picture string, first bool) string {
	_, height, err := term.GetSize(int(a.stdout.Fd()))
	if err != nil {
		if first {
			return picture
		}
		return "\n" + picture
	}
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
	if height > 1 { // 0 where a terminal does not say
		lines = lines[:min(len(lines), height-1)]
	}
	out := home + strings.Join(lines, clearLine+"\n") + clearLine + "\n" + clearBelow
	if first {
		return clear + out
	}
	return out
}
