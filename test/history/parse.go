package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// parseRequest parses a request. ok is false for calls that are not recorded.
// The request's body is read and replaced.
func parseRequest(req *http.Request) (a Attempt, ok bool, err error) {
	a.Host = req.URL.Host
	path, q := req.URL.Path, req.URL.Query()
	lock, isLock := strings.CutPrefix(path, lockapi.RouteLocks)
	session, isSession := strings.CutPrefix(path, lockapi.RouteSessions)
	isLock = isLock && strings.HasPrefix(lock, "/")
	switch {
	case q.Has("consistency"):
		return a, false, nil
	case isLock && req.Method == http.MethodPut:
		a.Kind, a.Path = Acquire, lock
		return a, true, a.parseAcquire(req)
	case isLock && req.Method == http.MethodDelete:
		a.Kind, a.Path, a.Session, a.Handle = Release, lock, q.Get("session"), q.Get("handle")
		if token := q.Get("token"); token != "" {
			a.Token, err = strconv.ParseUint(token, 10, 64)
		}
	case isLock && req.Method == http.MethodGet:
		a.Kind, a.Path = Read, lock
	case path == lockapi.RouteSequencers && req.Method == http.MethodGet:
		var s lockapi.Sequencer
		s, err = lockapi.ParseSequencer(q.Get("value"))
		a.Kind, a.Path, a.Token, a.Mode = Sequencer, s.Path, s.Token, s.Mode
	case isSession && session == "" && req.Method == http.MethodPost:
		a.Kind, a.Key = Open, req.Header.Get(lockapi.HeaderIdempotencyKey)
		err = a.parseOpen(req)
	case isSession && strings.HasSuffix(session, "/keepalive") && req.Method == http.MethodPost:
		a.Kind, a.Session = Keepalive, strings.TrimSuffix(session[1:], "/keepalive")
	case isSession && session != "" && req.Method == http.MethodDelete:
		a.Kind, a.Session = Close, session[1:]
	default:
		if ok, err = a.parseFileRequest(req); !ok {
			ok, err = a.parseDoorRequest(req)
		}
		return a, ok, err
	}
	return a, true, err
}

// parseOpen notes what becomes of the keys that the session locks.
func (a *Attempt) parseOpen(req *http.Request) error {
	body, err := bodyOf(req)
	if err != nil || len(body) == 0 {
		return err
	}
	var in lockapi.SessionRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("history: the body %q of an opening: %w", body, err)
	}
	return a.keysEnd(in.Meta[lockapi.MetaKeyBehavior], in.Meta[lockapi.MetaKeyDelay])
}

func (a *Attempt) parseAcquire(req *http.Request) error {
	body, err := bodyOf(req)
	if err != nil {
		return err
	}
	var in lockapi.LockRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("history: the body %q of an acquire: %w", body, err)
	}
	a.Session, a.Handle, a.Mode, a.Limit = in.Session, in.Handle, in.Mode, in.Limit
	a.WaitMS, a.Queue, a.DelayMS = in.WaitMS, in.Queue, in.LockDelayMS
	return nil
}

// parseReply records an answer.
func (a *Attempt) parseReply(resp *http.Response, body []byte) {
	a.Epoch, _ = strconv.ParseUint(resp.Header.Get(lockapi.HeaderEpoch), 10, 64) // 0 if absent
	var err error
	if isDoor(resp.Request.URL.Path) {
		err = a.parseDoorReply(resp, body)
	} else if resp.StatusCode >= 300 {
		err = a.parseProblem(resp, body)
	} else {
		err = a.parseSuccess(resp, body)
	}
	if err != nil {
		a.Outcome, a.Detail = Wrong, fmt.Sprintf("%v: %s %.300s", err, resp.Status, body)
	}
}

func (a *Attempt) parseProblem(resp *http.Response, body []byte) error {
	var e lockapi.Error
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	a.Detail = e.Error()
	switch e.Code {
	case lockapi.CodeLockHeld, lockapi.CodeLockDelayed:
		if a.Kind != Acquire {
			return errors.New("unexpected refusal")
		}
		a.Outcome, a.Holders = Refused, e.Holders
	case lockapi.CodeSessionNotFound:
		a.Outcome = Gone
	case lockapi.CodeNoMaster, lockapi.CodeNotMaster, lockapi.CodeTooMany:
		a.Outcome = NoEffect
	case lockapi.CodeOutcomeUnknown:
		a.Outcome = Unknown
	default:
		if a.Files != nil {
			return a.parseFileProblem(resp, &e)
		}
		return errors.New("unexpected refusal")
	}
	return nil
}

func (a *Attempt) parseSuccess(resp *http.Response, body []byte) error {
	a.Outcome = Done
	switch a.Kind {
	case Close:
	case Acquire:
		var g lockapi.Grant
		if err := json.Unmarshal(body, &g); err != nil {
			return err
		}
		if a.Token = g.Token; resp.StatusCode == http.StatusAccepted {
			a.Outcome = Queued
		}
		if g.Path != a.Path || g.Session != a.Session || g.Handle != a.Handle || g.Mode != a.Mode || (a.Outcome == Done) != (g.Token != 0) {
			return errors.New("the grant does not match the request")
		}
	case Release:
		var r lockapi.Released
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		if !r.Released {
			a.Outcome = Nothing
		}
	case Read:
		var l lockapi.Lock
		if err := json.Unmarshal(body, &l); err != nil {
			return err
		}
		a.State, a.Holders, a.Mode, a.Limit = l.State, l.Holders, l.Mode, l.Limit
	case Sequencer:
		var c lockapi.SequencerCheck
		if err := json.Unmarshal(body, &c); err != nil {
			return err
		}
		if !c.Valid {
			a.Outcome = Nothing
		}
	case Open:
		var s lockapi.Session
		if err := json.Unmarshal(body, &s); err != nil {
			return err
		}
		a.Session, a.TTLMS = s.ID, s.TTLMS
	case Keepalive:
		var k lockapi.Keepalive
		if err := json.Unmarshal(body, &k); err != nil {
			return err
		}
		a.TTLMS, a.HeldMS = k.TTLMS, k.HeldMS
	default:
		return a.parseFileSuccess(resp, body)
	}
	return nil
}
