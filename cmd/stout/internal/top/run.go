package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/wait"
)

// Options are the arguments of Run.
type Options struct {
	In, Out *os.File // a terminal
	Source  Source
	Client  *client.Client
	Colour  bool
}

// ErrInterrupted is the error of Run after Ctrl-C.
var ErrInterrupted = tea.ErrInterrupted

// Signalled is the error of Run after a signal that ends programs.
type Signalled struct{ Signal syscall.Signal }

func (s *Signalled) Error() string { return "ended by signal " + s.Signal.String() }

// lastPicture is how long a signal waits for the terminal to be restored.
const lastPicture = time.Second

// Run shows the cell until the user quits, which is no error. It restores the
// terminal, also after a panic or a signal. If the terminal blocks, as on a
// hanging ssh, only its modes are restored.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := New(o.Source, o.Client, o.Colour, time.Local)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler(), tea.WithFPS(30)}
	if !o.Colour {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	p := tea.NewProgram(m, options...)
	m.stream = func() tea.Msg {
		follow(ctx, o.Client, o.Source, func(c change) { p.Send(occurred{c}) })
		return nil
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	modes, _ := term.GetState(int(o.In.Fd()))
	ran := wait.Err(func() error { _, err := p.Run(); return err })
	var err error
	var sig os.Signal
	select {
	case err = <-ran:
	case sig = <-signals:
		go p.Quit()
		select {
		case err = <-ran:
		case <-time.After(lastPicture):
			_ = term.Restore(int(o.In.Fd()), modes)
		}
	}
	switch {
	case sig == syscall.SIGINT:
		return ErrInterrupted
	case sig != nil:
		return &Signalled{sig.(syscall.Signal)}
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("stout top: internal error: %w", err)
	}
	return err
}
