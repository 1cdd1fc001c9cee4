package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// silence is the longest pause in a stream: bookmarks come more often. A
// replica that has stopped is given up after it.
const silence = (lockapi.MaxBookmarkMS + 2000) * time.Millisecond

// streams has no time limit; silence ends a stuck stream.
var streams = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// streamOf follows a replica by server-sent events.
func streamOf(base string) func(context.Context, uint64, *watcher) error {
	return func(ctx context.Context, after uint64, w *watcher) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		alive := time.AfterFunc(silence, cancel)
		defer alive.Stop()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+lockapi.RouteEvents+"?after=0", nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", lockapi.TypeEventStream)
		req.Header.Set(lockapi.HeaderLastEventID, strconv.FormatUint(after, 10))
		reply, err := streams.Do(req)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			return errors.New(reply.Status)
		}
		return readStream(reply.Body, w, func() { alive.Reset(silence) })
	}
}

// readStream records the messages of a stream and calls arrived for each.
func readStream(body io.Reader, w *watcher, arrived func()) error {
	name, data := "", ""
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err // an incomplete last message does not count
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data += value
		case "":
			if data != "" {
				arrived()
				if err := w.message(name, data); err != nil {
					return err
				}
			}
			name, data = "", ""
		}
	}
}

// message records one message of a stream.
func (w *watcher) message(name, data string) error {
	switch name {
	case lockapi.StreamBookmark:
		var b lockapi.Bookmark
		if err := json.Unmarshal([]byte(data), &b); err != nil {
			return err
		}
		w.reach(b.Revision)
	case lockapi.StreamCompacted:
		var c lockapi.Compacted
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return err
		}
		w.miss(c)
	default:
		var e lockapi.CellEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		w.record(e)
	}
	return nil
}

// pollsOf follows a replica by calls that wait.
func pollsOf(base string) func(context.Context, uint64, *watcher) error {
	return func(ctx context.Context, after uint64, w *watcher) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var list lockapi.EventList
		_, err := cell.Call(ctx, http.MethodGet, base, fmt.Sprintf("%s?after=%d&wait_ms=1000&limit=1000", lockapi.RouteEvents, after), nil, &list)
		var refused *lockapi.Error
		if errors.As(err, &refused) && refused.Code == lockapi.CodeCompacted {
			w.miss(refused.Compacted)
		}
		if err != nil {
			return err
		}
		for _, e := range list.Events {
			w.record(e)
		}
		w.reach(list.Revision)
		return nil
	}
}
