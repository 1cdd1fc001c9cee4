package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// mostMessage bounds a server-sent event: JSON may take six bytes for one of a
// file's content.
const mostMessage = 4 << 20

var errLongMessage = errors.New("the stream has a message that is too long to be an event")

// message is one server-sent event.
type message struct {
	id    string
	event string
	data  []byte // valid until the next one is read
}

// messages reads a stream of server-sent events.
type messages struct {
	r    *bufio.Reader
	long []byte // a line longer than the reader's buffer
	data []byte
}

func newMessages(r io.Reader) *messages { return &messages{r: bufio.NewReader(r)} }

// next returns the next message with data. It drops a message that is
// incomplete at the end of the stream.
func (m *messages) next() (out message, err error) {
	m.data = m.data[:0]
	for {
		line, err := m.line()
		if err != nil {
			return out, err
		}
		if len(line) == 0 {
			if len(m.data) > 0 {
				out.data = m.data[:len(m.data)-1]
				return out, nil
			}
			out = message{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			out.id = string(value)
		case "event":
			out.event = string(value)
		case "data":
			if len(m.data)+len(value) > mostMessage {
				return out, errLongMessage
			}
			m.data = append(append(m.data, value...), '\n')
		}
	}
}

// line returns the next line without its line end.
func (m *messages) line() ([]byte, error) {
	m.long = m.long[:0]
	for {
		part, err := m.r.ReadSlice('\n')
		if err == nil && len(m.long) == 0 {
			return trimEnd(part), nil
		}
		if m.long = append(m.long, part...); len(m.long) > mostMessage {
			return nil, errLongMessage
		}
		switch err {
		case nil:
			return trimEnd(m.long), nil
		case bufio.ErrBufferFull:
		default:
			return nil, err
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
}
