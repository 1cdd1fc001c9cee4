package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// URL returns the URL of a route at another member. A bare # in the query, which
// this replica has read as any other byte, begins no fragment.
func URL(id, path, query string) (*url.URL, error) {
	decoded, err := url.PathUnescape(path)
	return &url.URL{Scheme: "http", Host: id, Path: decoded, RawPath: path, RawQuery: strings.ReplaceAll(query, "#", "%23")}, err
}

const maxReplicaBytes = 64 << 10

// AskReplica requests another replica's own entry.
func AskReplica(ctx context.Context, way http.RoundTripper, id string) (lockapi.Replica, error) {
	var got lockapi.Replica
	_, err := Ask(ctx, way, id, lockapi.RouteReplica, &got)
	return got, err
}

// Ask reads a short answer of another replica, which nil drops, and returns the
// headers.
func Ask(ctx context.Context, way http.RoundTripper, id, route string, into any) (http.Header, error) {
	url, err := URL(id, route, "")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := way.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("replica %s answered %s", id, resp.Status)
	}
	body := http.MaxBytesReader(nil, resp.Body, maxReplicaBytes)
	if into == nil {
		_, err = io.Copy(io.Discard, body)
		return resp.Header, err
	}
	// Unknown fields are ignored: a newer replica may send them.
	return resp.Header, json.NewDecoder(body).Decode(into)
}
