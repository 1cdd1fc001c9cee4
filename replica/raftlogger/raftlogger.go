// Package raftlogger makes the consensus library log through zerolog.
package raftlogger

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// New passes the library's log lines to zerolog, at debug level. This project's
// own lines log once what an operator needs to know of them.
func New(l zerolog.Logger) hclog.Logger {
	il := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	il.RegisterSink(&sink{l})
	return il
}

type sink struct{ log zerolog.Logger }

func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	e := s.log.Debug()
	if !e.Enabled() {
		return
	}
	e = e.Str("from", "raft").Stringer("severity", level)
	for i := 0; i+1 < len(args); i += 2 {
		v := args[i+1]
		if f, ok := v.(hclog.Format); ok {
			v = fmt.Sprintf(f[0].(string), f[1:]...)
		}
		if err, ok := v.(error); ok {
			v = err.Error()
		}
		if str, ok := v.(fmt.Stringer); ok {
			v = str.String()
		}
		e = e.Interface("raft_"+fmt.Sprint(args[i]), v)
	}
	e.Msg(msg)
}
