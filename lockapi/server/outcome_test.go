package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/internal/apicheck"
	"github.com/stoutlock/stout/lockapi"
)

// outcome is a request with its result, to be compared with the contract.
type outcome struct {
	doc     *apicheck.Document
	request *http.Request
	forward string // Stout-Forward
	body    int    // length
	known   string // id of the master; "" without a master
	made    []string
	reply   *httptest.ResponseRecorder
	code    lockapi.Code // code of the problem document
}

// staysHere reports whether a replica answers the call itself.
func (o *outcome) staysHere() bool {
	switch o.code {
	case lockapi.CodeNotMaster, lockapi.CodeNotFound, lockapi.CodeMethodNotAllowed:
		return true
	}
	return o.reply.Header().Get(lockapi.HeaderStale) != "" || strings.Contains(o.request.URL.RawQuery, "stale")
}

func (o *outcome) check(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s %s: %d %v %s, calls %q", o.request.Method, o.request.URL, o.reply.Code, o.reply.Header(), o.reply.Body, o.made)
		}
	}()
	h := o.reply.Header()
	if h.Get(lockapi.HeaderCell) != "c1" {
		t.Errorf("cell %q", h.Get(lockapi.HeaderCell))
	}
	if h.Get(lockapi.HeaderEpoch) != "3" || h.Get(lockapi.HeaderMaster) != masterURL(o.known) {
		t.Errorf("epoch %q and master %q", h.Get(lockapi.HeaderEpoch), h.Get(lockapi.HeaderMaster))
	}
	if o.reply.Code != http.StatusNoContent && h.Get("Content-Length") != strconv.Itoa(o.reply.Body.Len()) && h.Get("Content-Type") == "application/json" {
		t.Errorf("Content-Length %q of %d bytes", h.Get("Content-Length"), o.reply.Body.Len())
	}
	if len(o.made) > 1 {
		t.Error("one request made several calls")
	}
	if o.reply.Code >= 400 {
		o.checkProblem(t)
		return
	}
	o.checkSuccess(t)
}

func masterURL(id string) string {
	if id == "" {
		return ""
	}
	return "http://" + id
}

// checkProblem checks a refusal, and that its code fits the request.
func (o *outcome) checkProblem(t *testing.T) {
	t.Helper()
	h := o.reply.Header()
	if got := h.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	e := &lockapi.Error{}
	wantExact(t, o.reply.Body.Bytes(), &struct {
		Type             *string           `json:"type"`
		Title            *string           `json:"title"`
		Status           *int              `json:"status"`
		Code             *lockapi.Code     `json:"code"`
		Detail           *string           `json:"detail"`
		Field            string            `json:"field,omitempty"`
		Holders          []*lockapi.Holder `json:"holders,omitempty"`
		DelayRemainingMS int64             `json:"delay_remaining_ms,omitempty"`
		Master           string            `json:"master,omitempty"`
		Directory        string            `json:"directory,omitempty"`
		Permission       string            `json:"permission,omitempty"`
	}{})
	must(t, json.Unmarshal(o.reply.Body.Bytes(), e))
	o.code = e.Code
	if e.Code.Status() != o.reply.Code || e.Detail == "" || len(e.Detail) > 1000 || len(e.Field) > 100 {
		t.Errorf("%+v does not go with status %d", e, o.reply.Code)
	}
	if (e.Directory != "") != (o.request.URL.EscapedPath() == lockapi.RouteReady && e.Code == lockapi.CodeNoMaster) {
		t.Errorf("%+v tells a directory of itself", e)
	}
	if (e.Field != "") != (e.Code == lockapi.CodeInvalidArgument) || (e.Master != "") != (e.Code == lockapi.CodeNotMaster) {
		t.Errorf("%+v has fields of another code", e)
	}
	if retry := h.Get("Retry-After"); (retry != "") != (e.Code == lockapi.CodeNoMaster) {
		t.Errorf("Retry-After %q", retry)
	}
	if !o.fits(e) {
		t.Errorf("%s is no answer to this; if it is one, add it to outcome.fits", e.Code)
	}
}

// fits reports whether the stand-in, without faults, can return the code.
func (o *outcome) fits(e *lockapi.Error) bool {
	called := len(o.made) > 0
	switch e.Code {
	case lockapi.CodeInvalidArgument:
		return !called
	case lockapi.CodeNotFound:
		path := o.request.URL.EscapedPath()
		return !called || strings.HasPrefix(path, lockapi.RouteMembers+"/") || strings.HasPrefix(path, "/v1/access/")
	case lockapi.CodePermissionDenied:
		return called && o.request.URL.EscapedPath() == lockapi.RouteEnable
	case lockapi.CodeMethodNotAllowed:
		allow := o.reply.Header().Get("Allow")
		return !called && allow != "" && !strings.Contains(", "+allow+",", " "+o.request.Method+",")
	case lockapi.CodeTooLarge:
		return !called && o.body > lockapi.MaxBodyBytes
	case lockapi.CodeNotMaster:
		return !called && o.forward == lockapi.ForwardNever && e.Master == masterURL(o.known)
	case lockapi.CodeNoMaster:
		return o.known == ""
	case lockapi.CodeLockHeld:
		return called && o.request.Method == http.MethodPut && len(e.Holders) > 0
	case lockapi.CodeConflict:
		return called && (o.request.Method == http.MethodPut || strings.HasPrefix(o.request.URL.EscapedPath(), lockapi.RouteMembers+"/"))
	case lockapi.CodeSessionNotFound:
		return called
	}
	return false
}

// checkSuccess checks that openapi.yaml has the success.
func (o *outcome) checkSuccess(t *testing.T) {
	t.Helper()
	h, body := o.reply.Header(), o.reply.Body.Bytes()
	must(t, o.doc.CheckReply(o.request, o.reply.Code, h, body))
	if h.Get("Content-Type") == "application/json" && !(json.Valid(body) && utf8.Valid(body)) {
		t.Errorf("%q is no JSON", body)
	}
	if queued := bytes.Contains(body, []byte(`"state":"queued"`)); strings.HasPrefix(o.request.URL.EscapedPath(), lockapi.RouteLocks+"/") &&
		o.request.Method == http.MethodPut && queued != (o.reply.Code == http.StatusAccepted) {
		t.Errorf("status %d of %s", o.reply.Code, body)
	}
	if o.reply.Code == http.StatusNoContent && len(body) > 0 {
		t.Error("204 with a body")
	}
	if h.Get(lockapi.HeaderStale) != "" && o.request.Method != http.MethodGet && o.request.Method != http.MethodHead {
		t.Errorf("a stale answer to %s", o.request.Method)
	}
}

// wantExact checks that data is one JSON value in UTF-8 with exactly the fields
// of into.
func wantExact(t *testing.T, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || d.More() || !utf8.Valid(data) {
		t.Errorf("%s is no %T: %v", data, into, err)
		return
	}
	again, err := json.Marshal(into)
	must(t, err)
	var have, want any
	must(t, json.Unmarshal(data, &have))
	must(t, json.Unmarshal(again, &want))
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s lacks fields of %s", data, again)
	}
}
