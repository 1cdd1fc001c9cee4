package apicheck

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/getkin/kin-openapi/openapi3filter"
)

// Checker validates all calls that pass through it, and remembers the status of
// each operation's answers. It is safe for concurrent use.
type Checker struct {
	doc  *Document
	base http.RoundTripper

	mu   sync.Mutex
	seen map[string]bool // "operation status"
}

// NewChecker returns a checker that sends with base, or with
// http.DefaultTransport if base is nil.
func NewChecker(doc *Document, base http.RoundTripper) *Checker {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Checker{doc: doc, base: base, seen: map[string]bool{}}
}

var filter = openapi3filter.Options{
	IncludeResponseStatus:             true,
	RejectWhenRequestBodyNotSpecified: true,
	SkipSettingDefaults:               true,
}

// RoundTrip sends a request. It fails if the request or the reply does not
// match the document. Do not send deliberately wrong requests through it.
func (c *Checker) RoundTrip(r *http.Request) (*http.Response, error) {
	route, params, err := c.doc.route(r)
	if err != nil {
		return nil, err
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &filter}
	if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
		return nil, fmt.Errorf("%s: request: %w", route.Operation.OperationID, err)
	}
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(whole(r, resp))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := checkReply(input, resp.StatusCode, resp.Header, body); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[route.Operation.OperationID+" "+strconv.Itoa(resp.StatusCode)] = true
	return resp, nil
}

// CheckReply returns an error if the document does not permit the reply to the
// request. HEAD has the replies of GET.
func (d *Document) CheckReply(r *http.Request, status int, header http.Header, body []byte) error {
	if r.Method == http.MethodHead {
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
	}
	route, params, err := d.route(r)
	if err != nil {
		return err
	}
	return checkReply(&openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &filter}, status, header, body)
}

func checkReply(to *openapi3filter.RequestValidationInput, status int, header http.Header, body []byte) error {
	reply := &openapi3filter.ResponseValidationInput{RequestValidationInput: to, Status: status, Header: header, Options: &filter}
	reply.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(to.Request.Context(), reply); err != nil {
		return fmt.Errorf("%s: reply %d %s: %w", to.Route.Operation.OperationID, status, body, err)
	}
	return nil
}

// Missing lists each documented success that was never seen, as "operation
// status".
func (c *Checker) Missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, o := range c.doc.Operations() {
		for _, status := range o.Successes {
			if name := o.ID + " " + status; !c.seen[name] {
				missing = append(missing, name)
			}
		}
	}
	return missing
}
