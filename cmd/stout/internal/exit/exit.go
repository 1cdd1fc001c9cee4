// Package exit has the exit codes of stout and the errors that carry them.
// Package ui prints these errors.
package exit

import "fmt"

// Exit codes. Flags of stout lock change its codes 69, 75 and 76.
const (
	OK          = 0
	Failed      = 1   // the answer is no: not valid, nothing to release, refused
	Usage       = 2   // the command line is wrong; nothing was done
	NoMaster    = 3   // replicas answer, but the cell has no master
	Unreachable = 4   // no replica answers
	Unknown     = 6   // a change may or may not be done (5 is used by doctor and rehearse)
	Refused     = 77  // stout lock: the cell refused it (EX_NOPERM)
	NotWritten  = 74  // the answer could not be written (EX_IOERR)
	Unavailable = 69  // stout lock: the cell could not grant it (EX_UNAVAILABLE of sysexits.h)
	Conflict    = 75  // stout lock: another session holds it, or it is delayed (EX_TEMPFAIL)
	Lost        = 76  // stout lock: lost before the command ended
	Signal      = 128 // + n: ended by signal n
)

// ReadExits and ChangeExits describe the exit codes of commands that read and
// of commands that change something. done and no describe 0 and 1.
func ReadExits(done, no string) string {
	return "0 " + done + ", 1 " + no + ", 2 wrong usage, 3 the cell has no master, 4 no replica can be reached"
}

func ChangeExits(done, no string) string {
	return ReadExits(done, no) + ", 6 the outcome is unknown"
}

// The exit codes of commands without special ones.
var (
	Reads   = ReadExits("done", "the cell refused") + ", 74 the answer can't be written"
	Changes = ChangeExits("done", "the cell refused") + ", 74 the answer can't be written"
)

// Failure is an error with an exit code and advice. An empty message prints
// nothing: everything was printed already, or the code is enough.
type Failure struct {
	Code        int
	Message     string
	Details     []string // printed below the message, one per line
	Hints       []string // advice, printed below the details
	Quiet       bool     // the exit code is enough: --quiet prints no message
	Interrupted bool     // Ctrl-C ended stout, and the shell must notice that
	Unread      bool     // the reader of standard output has closed the pipe
}

func (f *Failure) Error() string { return f.Message }

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Usagef returns an error of the command line.
func Usagef(format string, args ...any) *Failure { return Errorf(Usage, format, args...) }

// Detail adds a line below the message.
func (f *Failure) Detail(format string, args ...any) *Failure {
	f.Details = append(f.Details, fmt.Sprintf(format, args...))
	return f
}

// Hint adds advice below the details.
func (f *Failure) Hint(format string, args ...any) *Failure {
	f.Hints = append(f.Hints, fmt.Sprintf(format, args...))
	return f
}
