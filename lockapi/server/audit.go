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

// noted is what is known of a call for the audit log.
type noted struct {
	audits    master.Audit
	route     string
	told      master.Checked // by whoever judged it
	code      lockapi.Code   // that it was refused with
	id        string         // of the request, once it was asked for
	begun     bool           // a line says that it is about to take effect
	refused   bool           // since there could be no such line
	elsewhere bool           // another replica has judged it, and answered
	denied    bool           // it is a denial whatever its code is
}

// isDenial reports whether a refusal is for who calls, or from where.
func isDenial(c lockapi.Code) bool {
	return c == lockapi.CodeUnauthenticated || c == lockapi.CodePermissionDenied || c == lockapi.CodeCrossOrigin
}

// watch has the call's judge tell what it finds out, and ask before there is an
// effect.
func (x *exchange) watch(by *master.Caller) {
	if x.opts.Audit == nil {
		return
	}
	x.noted.told = master.Checked{Principal: by.Principal, How: by.How}
	by.Told = &x.noted.told
	if !x.opts.Audit.Required() {
		return
	}
	if by.Adopts = x.announce; x.noted.audits != master.AuditNever {
		by.Admitted = x.announce
	}
}

// matters reports whether the audit log is to have the call, as far as it is known
// that it may be made.
func (x *exchange) matters() bool {
	switch {
	case x.broke, x.noted.audits == master.AuditAlways, x.noted.told.Adopted != "":
		return true
	case x.noted.audits == master.AuditOthers && x.noted.told.Others:
		return true
	}
	return x.noted.audits != master.AuditNever && x.opts.AuditChanges
}

// announce notes that a change is about to take effect, where it must not without,
// for the caller that was found out. While the log can't be written no change is made,
// also where it would have no line: who is denied would have none.
func (x *exchange) announce(found master.Checked) error {
	x.noted.told = found
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
	e := lockapi.Errorf(lockapi.CodeNoMaster, "no change is made while the audit log of this replica, which is the master, cannot be written (audit-required): %v", cause(err))
	e.RetryAfter = 1
	return e
}

// cause leaves out the name of the file, which is nobody's business here.
func cause(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// audit notes the call when it was answered, if it is one to be noted and this
// replica has judged it.
func (x *exchange) audit() {
	switch {
	case x.noted.begun:
		x.opts.Audit.Note(x.record(x.c.Writer.Status()))
	case x.noted.elsewhere:
	case x.noted.told.Adopted != "": // whatever became of the call itself
		x.opts.Audit.Note(x.record(x.c.Writer.Status()))
	case isDenial(x.noted.code), x.noted.denied:
		if x.opts.Audit.Denied(x.remote(), x.noted.told.Principal) {
			x.opts.Audit.Note(x.record(x.c.Writer.Status()))
		}
	case x.broke, x.mayHaveChanged() && x.matters():
		x.opts.Audit.Note(x.record(x.c.Writer.Status()))
	}
}

// mayHaveChanged reports whether the answer leaves it open that there was an effect.
func (x *exchange) mayHaveChanged() bool {
	return x.noted.code == "" || x.noted.code == lockapi.CodeOutcomeUnknown || x.noted.code == lockapi.CodeInternal
}

// record is the line about the call, with the status of its answer.
func (x *exchange) record(status int) audit.Record {
	told := x.noted.told
	if told.How == "" && x.secret != nil && x.noted.code != lockapi.CodeUnauthenticated {
		// Another replica was to judge the call, and its answer was lost.
		_ = x.master.Authorize(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}, Told: &told})
	}
	r := audit.Record{
		Principal: cmp.Or(told.Principal, lockapi.PrincipalAnonymous), How: cmp.Or(told.How, lockapi.HowNone),
		Remote: x.remote(), Via: viaName(x.via()), Method: x.methodLabel(), Route: x.noted.route, Path: x.node, Adopted: told.Adopted,
		Status: status, Code: string(x.noted.code), RequestID: x.requestID(),
	}
	if x.master != nil {
		at := x.master.Known()
		r.Epoch, r.Revision = at.Epoch, at.Revision
	}
	return r
}

// viaName is the name of the replica that a server id is of.
func viaName(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

// requestID tells the call from all others.
func (x *exchange) requestID() string {
	if x.noted.id == "" {
		x.noted.id = rand.Text()
	}
	return x.noted.id
}

// identify tells the caller by which id the audit log has the call, if it has.
func (x *exchange) identify() {
	if x.opts.Audit == nil || x.noted.elsewhere {
		return
	}
	if x.noted.begun || x.noted.told.Adopted != "" || isDenial(x.noted.code) || x.noted.denied || x.broke || x.mayHaveChanged() && x.matters() {
		x.c.Writer.Header()[lockapi.HeaderRequestID] = []string{x.requestID()}
	}
}
