package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// outcome is a request with its result, to be compared with the contract.
type outcome struct {
	method  string
	target  *url.URL
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
	return o.reply.Header().Get(lockapi.HeaderStale) != "" || strings.Contains(o.target.RawQuery, "stale")
}

func (o *outcome) check(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s %s: %d %v %s, calls %q", o.method, o.target, o.reply.Code, o.reply.Header(), o.reply.Body, o.made)
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
	}{})
	if err := json.Unmarshal(o.reply.Body.Bytes(), e); err != nil {
		t.Fatal(err)
	}
	o.code = e.Code
	if e.Code.Status() != o.reply.Code || e.Detail == "" || len(e.Detail) > 1000 || len(e.Field) > 100 {
		t.Errorf("%+v does not go with status %d", e, o.reply.Code)
	}
	if (e.Directory != "") != (o.target.EscapedPath() == lockapi.RouteReady && e.Code == lockapi.CodeNoMaster) {
		t.Errorf("%+v tells a directory of itself", e)
	}
	if (e.Field != "") != (e.Code == lockapi.CodeInvalidArgument) || (e.Master != "") != (e.Code == lockapi.CodeNotMaster) {
		t.Errorf("%+v has fields of another code", e)
	}
	if retry := h.Get("Retry-After"); (retry != "") != (e.Code == lockapi.CodeNoMaster) {
		t.Errorf("Retry-After %q", retry)
	}
	if !o.fits(e) {
		t.Errorf("%s is no answer to this", e.Code)
	}
}

// fits reports whether the stand-in, without faults, can return the code.
func (o *outcome) fits(e *lockapi.Error) bool {
	called := len(o.made) > 0
	switch e.Code {
	case lockapi.CodeInvalidArgument:
		return !called
	case lockapi.CodeNotFound:
		return !called || strings.HasPrefix(o.target.EscapedPath(), lockapi.RouteMembers+"/")
	case lockapi.CodeMethodNotAllowed:
		allow := o.reply.Header().Get("Allow")
		return !called && allow != "" && !strings.Contains(", "+allow+",", " "+o.method+",")
	case lockapi.CodeTooLarge:
		return !called && o.body > lockapi.MaxBodyBytes
	case lockapi.CodeNotMaster:
		return !called && o.forward == lockapi.ForwardNever && e.Master == masterURL(o.known)
	case lockapi.CodeNoMaster:
		return o.known == ""
	case lockapi.CodeLockHeld:
		return called && o.method == http.MethodPut && len(e.Holders) > 0
	case lockapi.CodeConflict:
		return called && (o.method == http.MethodPut || strings.HasPrefix(o.target.EscapedPath(), lockapi.RouteMembers+"/"))
	case lockapi.CodeSessionNotFound:
		return called
	}
	return false
}

// checkSuccess checks that a success has what its operation promises.
func (o *outcome) checkSuccess(t *testing.T) {
	t.Helper()
	status, body := o.promised()
	if o.reply.Code != status {
		t.Errorf("status %d, want %d", o.reply.Code, status)
	}
	stale := o.method == "GET" || o.method == "HEAD"
	if o.reply.Header().Get(lockapi.HeaderStale) != "" && !stale {
		t.Errorf("a stale answer to %s", o.method)
	}
	switch got := o.reply.Header().Get("Content-Type"); {
	case body == nil && o.reply.Code == http.StatusNoContent:
		if o.reply.Body.Len() > 0 {
			t.Error("204 with a body")
		}
	case body == nil:
		if got == "application/json" || o.reply.Body.Len() == 0 {
			t.Errorf("Content-Type %q of %d bytes", got, o.reply.Body.Len())
		}
	case got != "application/json":
		t.Errorf("Content-Type %q", got)
	default:
		wantExact(t, o.reply.Body.Bytes(), body)
	}
}

// promised returns the status of a success and a value to decode its body into;
// nil if it is not JSON.
func (o *outcome) promised() (status int, body any) {
	rest, isLock := strings.CutPrefix(o.target.EscapedPath(), lockapi.RouteLocks+"/")
	_, isSession := strings.CutPrefix(o.target.EscapedPath(), lockapi.RouteSessions+"/")
	method := strings.Replace(o.method, http.MethodHead, http.MethodGet, 1)
	if member, ok := strings.CutPrefix(o.target.EscapedPath(), lockapi.RouteMembers+"/"); ok && member != "" {
		switch {
		case method == http.MethodPatch:
			return http.StatusOK, &lockapi.Member{}
		case method == http.MethodDelete:
			return http.StatusOK, &lockapi.MemberRemoved{}
		}
		return http.StatusAccepted, &lockapi.MemberChange{}
	}
	switch {
	case isLock && rest != "" && method == http.MethodPut:
		if strings.Contains(o.reply.Body.String(), `"state":"queued"`) {
			return http.StatusAccepted, &lockapi.Grant{}
		}
		return http.StatusOK, &lockapi.Grant{}
	case isLock && rest != "" && method == http.MethodDelete:
		return http.StatusOK, &lockapi.Released{}
	case isLock && rest != "":
		return http.StatusOK, &lockapi.Lock{}
	case isSession && method == http.MethodPost:
		return http.StatusOK, &lockapi.Keepalive{}
	case isSession && method == http.MethodDelete:
		return http.StatusNoContent, nil
	case isSession:
		return http.StatusOK, &lockapi.SessionState{}
	}
	switch method + " " + o.target.EscapedPath() {
	case "POST " + lockapi.RouteSessions:
		return http.StatusCreated, &lockapi.Session{}
	case "GET " + lockapi.RouteSessions:
		return http.StatusOK, &lockapi.SessionList{}
	case "GET " + lockapi.RouteLocks:
		return http.StatusOK, &lockapi.LockList{}
	case "GET " + lockapi.RouteSequencers:
		return http.StatusOK, &lockapi.SequencerCheck{}
	case "GET " + lockapi.RouteCell:
		return http.StatusOK, &lockapi.Cell{}
	case "GET " + lockapi.RouteURLs:
		return http.StatusOK, &lockapi.URLs{}
	case "POST " + lockapi.RouteTransfer:
		return http.StatusOK, &lockapi.Transferred{}
	case "POST " + lockapi.RouteMembers:
		return http.StatusAccepted, &lockapi.MemberChange{}
	case "GET " + lockapi.RouteJoin:
		return http.StatusOK, &lockapi.Joining{}
	case "GET " + lockapi.RouteMembers:
		return http.StatusOK, &lockapi.Members{}
	case "GET " + lockapi.RouteReplica:
		return http.StatusOK, &lockapi.Replica{}
	case "GET " + lockapi.RouteLive, "GET " + lockapi.RouteReady:
		return http.StatusOK, &map[string]string{}
	case "GET " + lockapi.RouteOpenAPI, "GET " + lockapi.RouteMetrics:
		return http.StatusOK, nil
	}
	return http.StatusNotFound, nil
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
	if err != nil {
		t.Fatal(err)
	}
	var have, want any
	if err := json.Unmarshal(data, &have); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s lacks fields of %s", data, again)
	}
}
