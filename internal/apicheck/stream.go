package apicheck

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

const eventStream = "text/event-stream"

func init() { openapi3filter.RegisterBodyDecoder(eventStream, decodeEvents) }

// streamed is the context key for the number of server-sent events to read.
type streamed struct{}

// WithEvents sets how many server-sent events the checker reads of a stream,
// which has no end of its own. The default is one.
func WithEvents(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, streamed{}, n)
}

// whole returns the reply's body, of a stream only the events to be read.
func whole(r *http.Request, resp *http.Response) io.Reader {
	if media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); media != eventStream {
		return resp.Body
	}
	n, ok := r.Context().Value(streamed{}).(int)
	if !ok {
		n = 1
	}
	return &firstEvents{from: bufio.NewReader(resp.Body), left: n}
}

// firstEvents ends after the empty line of the last event to be read.
type firstEvents struct {
	from *bufio.Reader
	left int
	line []byte // the rest of the current line
}

func (f *firstEvents) Read(b []byte) (int, error) {
	if len(f.line) == 0 {
		if f.left == 0 {
			return 0, io.EOF
		}
		line, err := f.from.ReadBytes('\n')
		if err != nil {
			return copy(b, line), err
		}
		if f.line = line; string(line) == "\n" {
			f.left--
		}
	}
	n := copy(b, f.line)
	f.line = f.line[n:]
	return n, nil
}

// decodeEvents reads server-sent events as the document describes them: a list
// of objects with their fields, and the data decoded.
func decodeEvents(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	rest, ended := strings.CutSuffix(string(text), "\n\n")
	if !ended {
		return nil, fmt.Errorf("the stream does not end with an empty line: %.200q", text)
	}
	all := []any{}
	for one := range strings.SplitSeq(rest, "\n\n") {
		event := map[string]any{}
		for line := range strings.SplitSeq(one, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			if _, twice := event[name]; twice || !ok {
				return nil, fmt.Errorf("line %q of event %q", line, one)
			}
			event[name] = value
			if name == "data" {
				var data any
				if err := json.Unmarshal([]byte(value), &data); err != nil {
					return nil, fmt.Errorf("data of event %q: %w", one, err)
				}
				event[name] = data
			}
		}
		if err := agree(event); err != nil {
			return nil, err
		}
		all = append(all, event)
	}
	return all, nil
}

// agree checks what a schema cannot express: the id is the revision, and the
// name of a change its type.
func agree(event map[string]any) error {
	data, _ := event["data"].(map[string]any)
	if revision, ok := data["revision"].(float64); !ok || fmt.Sprint(event["id"]) != fmt.Sprintf("%.0f", revision) {
		return fmt.Errorf("the id of event %v is not its revision", event)
	}
	if kind, ok := data["type"]; ok && kind != event["event"] {
		return fmt.Errorf("the name of event %v is not its type", event)
	}
	return nil
}
