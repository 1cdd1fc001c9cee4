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

// errMissed says that a watcher was too late for what it was to be told.
var errMissed = errors.New("the events are not kept any more")

func (c sdkClient) Watch(ctx context.Context, path string, after uint64, told func()) error {
	for event, err := range c.c.Watch(ctx, after, client.OnPath(path), client.OfType(lockapi.EventFileChanged)) {
		switch {
		case err != nil:
			return err
		case event.Compacted != nil:
			return errMissed
		case event.Type == lockapi.EventFileChanged:
			told()
		}
	}
	return nil
}

// Watch listens to one stream, at the replica that was last said to be the
// master: give a client whose watchers are to be at one replica only its URL.
func (c *Raw) Watch(ctx context.Context, path string, after uint64, told func()) error {
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
	return listen(reply.Body, told)
}

// listen tells of the changes in a stream of server-sent events, and why that
// has ended.
func listen(stream io.Reader, told func()) error {
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
			told()
		case compacted:
			return errMissed
		}
	}
}
