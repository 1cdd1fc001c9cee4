package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// noted collects the details of a call for the audit log.
type noted struct {
	under     string         // prefix of the paths of a call about several nodes
	checked   master.Checked // from the replica that checked it
	code      lockapi.Code   // error code of the refusal
	id        string         // request id, once needed
	begun     bool           // a line has announced the effect
	refused   bool           // refused because that line could not be written
	elsewhere bool           // another replica checked and answered it
	bounded   bool           // it has a line, bounded like that of a denial
}

// isDenial reports whether the code refuses the caller or the origin of the
// call.
func isDenial(c lockapi.Code) bool {
	return c == lockapi.CodeUnauthenticated || c == lockapi.CodePermissionDenied || c == lockapi.CodeCrossOrigin
}

// watch makes the master report its findings about the call, and ask before an
// effect.
func (x *exchange) watch(by *master.Caller) {
	if x.opts.Audit == nil {
		return
	}
	x.noted.checked = master.Checked{Principal: by.Principal, How: by.How}
	by.Told = &x.noted.checked
	if !x.opts.Audit.Required() {
		return
	}
	if by.Adopts = x.announce; x.route.audits != master.AuditNever {
		by.Admitted = x.announce
	}
}

// matters reports whether the audit log needs the call, if it is permitted.
func (x *exchange) matters() bool {
	switch {
	case x.broke, x.route.audits == master.AuditAlways, x.noted.checked.Adopted != "":
		return true
	case x.route.audits == master.AuditOthers && x.noted.checked.Others:
		return true
	}
	return x.route.audits != master.AuditNever && x.opts.AuditChanges
}

// announce writes the line about a change before it takes effect, if the log is
// required. found describes the caller. While the log cannot be written, all
// changes are refused, even if they would have no line: otherwise denied
// callers would leave no trace.
func (x *exchange) announce(found master.Checked) error {
	x.noted.checked = found
	err := x.opts.Audit.Err()
	if err == nil && x.matters() && !x.noted.begun {
		if err = x.opts.Audit.Demand(x.ctx(), x.record(0)); err == nil {
			x.noted.begun = true
		}
	}
	if err == nil {
		return nil
	}
	x.noted.refused = true
	return lockapi.Errorf(lockapi.CodeNoMaster, "the audit log of this replica, the master, cannot be written, and audit-required refuses changes until it can: %v", cause(err))
}

// cause drops the file name from the error, which is not for callers.
func cause(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// audit writes the call's line after the answer, if the call needs one and this
// replica checked it. Denials of one caller, and its calls of /v1/join, have a
// bounded number of lines.
func (x *exchange) audit() {
	n := &x.noted
	if !n.begun {
		if n.elsewhere || !x.needsLine() {
			return
		}
		who := n.checked.Principal
		if n.code == "" { // counted apart: denials do not hide it
			who = cmp.Or(who, lockapi.PrincipalAnonymous)
		}
		if (isDenial(n.code) || n.bounded) && n.checked.Adopted == "" && !x.opts.Audit.Denied(x.remote(), who) {
			return
		}
	}
	x.opts.Audit.Note(x.record(x.c.Writer.Status()))
}

// needsLine reports whether the audit log needs the call, by its result. An
// adopted session counts regardless of the call's own result.
func (x *exchange) needsLine() bool {
	n := &x.noted
	mayHaveChanged := n.code == "" || n.code == lockapi.CodeOutcomeUnknown || n.code == lockapi.CodeInternal
	return n.checked.Adopted != "" || isDenial(n.code) || n.bounded || x.broke || mayHaveChanged && x.matters()
}

// record returns the line about the call, with the status of its answer.
func (x *exchange) record(status int) audit.Record {
	checked := x.noted.checked
	if checked.How == "" && x.secret != nil && x.noted.code != lockapi.CodeUnauthenticated {
		// Another replica was to check the call, and its answer was lost.
		_ = x.master.Authorize(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}, Told: &checked})
	}
	r := audit.Record{
		Principal: cmp.Or(checked.Principal, lockapi.PrincipalAnonymous), How: cmp.Or(checked.How, lockapi.HowNone),
		Remote: x.remote(), Via: viaName(x.via()), Method: x.methodLabel(), Route: x.route.template, Path: cmp.Or(x.node, x.noted.under), Adopted: checked.Adopted,
		Status: status, Code: string(x.noted.code), RequestID: x.requestID(),
	}
	if x.master != nil {
		at := x.master.Known()
		r.Epoch, r.Revision = at.Epoch, at.Revision
	}
	return r
}

func viaName(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

func (x *exchange) requestID() string {
	if x.noted.id == "" {
		x.noted.id = rand.Text()
	}
	return x.noted.id
}

// identify adds the id of the call's line in the audit log to the reply, if
// there is such a line.
func (x *exchange) identify() {
	if x.opts.Audit == nil || x.noted.elsewhere {
		return
	}
	if x.noted.begun || x.needsLine() {
		x.c.Writer.Header()[lockapi.HeaderRequestID] = []string{x.requestID()}
	}
}
