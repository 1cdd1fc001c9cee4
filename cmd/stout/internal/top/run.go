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
	s := &screen{model: New(o.Colour, time.Local)}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler(), tea.WithFPS(30)}
	if !o.Colour {
		options = append(options, tea.WithColorProfile(colorprofile.Ascii))
	}
	p := tea.NewProgram(s, options...)
	s.driver = newDriver(o.Source, o.Client, func(msg any) { p.Send(msg) })

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	modes, _ := term.GetState(int(o.In.Fd()))
	ended := make(chan struct{})
	go func() { s.driver.run(ctx); close(ended) }()
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
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Second): // calls in flight need no orderly end
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

// tickEvery is the time between updates of the clock, short enough to show the
// lease running down.
const tickEvery = 200 * time.Millisecond

func tick() tea.Cmd {
	return tea.Tick(tickEvery, func(t time.Time) tea.Msg { return Tick(t) })
}

// screen shows a model on a terminal.
type screen struct {
	model  *Model
	driver *driver
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd {
	s.model.Update(Tick(time.Now()))
	return tick()
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case panicked:
		panic(fmt.Sprintf("%v\n\n%s", msg.what, msg.stack))
	case tea.WindowSizeMsg:
		s.model.Update(Size{msg.Width, msg.Height})
	case tea.KeyPressMsg:
		switch key := tea.Key(msg); key.Keystroke() {
		case "ctrl+c":
			return s, tea.Interrupt
		case "ctrl+z":
			if mayStop() {
				return s, tea.Suspend
			}
		default:
			s.model.Update(Key{Name: name(key), Text: key.Text})
		}
	case tea.PasteMsg:
		s.model.Update(Key{Name: "paste", Text: msg.Content})
	case Tick:
		s.model.Update(msg)
		next = tick()
	case Looked, Membered, Happened, Missed, Unheard, LocksRead, AgainRead, SessionsRead, DirRead, DetailRead:
		s.model.Update(msg)
	}
	s.driver.wants(s.model.Wanted())
	if s.model.Over() {
		next = tea.Quit
	}
	return s, next
}

// name returns the model's name of a key: its text, or else its key name.
func name(k tea.Key) string {
	if k.Text != "" && k.Text != " " {
		return k.Text
	}
	return k.Keystroke()
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	v := tea.NewView(s.model.View())
	v.AltScreen = true
	return v
}
