package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// errMissed reports that events were compacted before the watcher read them.
var errMissed = errors.New("the events are compacted")

func (c sdkClient) Watch(ctx context.Context, path string, after uint64, onChange func()) error {
	for event, err := range c.c.Watch(ctx, after, client.OnPath(path), client.OfType(lockapi.EventFileChanged)) {
		switch {
		case err != nil:
			return err
		case event.Compacted != nil:
			return errMissed
		case event.Type == lockapi.EventFileChanged:
			onChange()
		}
	}
	return nil
}

// Watch reads one stream at the last known master. A client for watchers at one
// particular replica must have only its URL.
func (c *Raw) Watch(ctx context.Context, path string, after uint64, onChange func()) error {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}, "path": {path}, "types": {string(lockapi.EventFileChanged)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *c.base.Load()+lockapi.RouteEvents+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", lockapi.TypeEventStream)
	reply, err := c.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(reply.Body)
		return problem("GET "+lockapi.RouteEvents, reply.Status, body)
	}
	return listen(reply.Body, onChange)
}

// listen calls onChange for the changes in a stream of server-sent events, and
// returns why the stream ended.
func listen(stream io.Reader, onChange func()) error {
	const changed = "event: " + string(lockapi.EventFileChanged)
	const compacted = "event: " + lockapi.StreamCompacted
	in := bufio.NewReader(stream)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the stream of events has ended: %w", err)
		}
		switch strings.TrimSuffix(line, "\n") {
		case changed:
			onChange()
		case compacted:
			return errMissed
		}
	}
}
