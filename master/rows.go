package master

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
)

var sessionCalls = []entry{
	change(Known, AuditChanges, nil, (*Master).OpenSession),
	asking(change(NoCaller, AuditNever, nil, (*Master).KeepAlive), func(c *lockapi.KeepAlive, by *Caller) { by.about(c.Session, true) }).
		set(func(r *Row) { r.Repeats, r.Frees = true, true }),
	change(Known, AuditNever, nil, (*Master).KeepAliveAll).set(func(r *Row) { r.Repeats, r.Frees = true, true }),
	asking(remove(Operate, AuditOthers, nil, (*Master).CloseSession), func(c *lockapi.CloseSession, by *Caller) { by.about(c.Session, true) }).
		set(func(r *Row) { r.Frees = true }),
	heavy(asking(query(Observe, nil, (*Master).GetSession), func(c *lockapi.GetSession, by *Caller) { by.about(c.Session, false) }),
		func(m *Master, c *lockapi.GetSession) bool { return m.isCrowdedSession(c.Session) }),
	list(Observe, nil, (*Master).ListSessions),
}

var lockCalls = []entry{
	asking(change(LockAt, AuditChanges, func(c *lockapi.AcquireLock) string { return c.Path }, (*Master).AcquireLock),
		func(c *lockapi.AcquireLock, by *Caller) {
			by.forSession(c.Session)
			for _, path := range c.With {
				by.also(LockAt, path)
			}
		}),
	asking(change(AdminAt, AuditOthers, func(c *lockapi.ReleaseLock) string { return c.Path }, (*Master).ReleaseLock),
		func(c *lockapi.ReleaseLock, by *Caller) { by.about(c.Session, true) }).
		set(func(r *Row) { r.Frees = true }),
	heavy(query(ReadAt, func(c *lockapi.GetLock) string { return c.Path }, (*Master).GetLock),
		func(m *Master, c *lockapi.GetLock) bool {
			return c.Waiters > lockapi.DefaultListLimit || m.isCrowdedLock(c.Path)
		}),
	list(Reader, func(c *lockapi.ListLocks) string { return rights.ListPath(c.Prefix) }, (*Master).ListLocks),
	query(ReadAt, func(c *lockapi.CheckSequencer) string { return c.Path }, (*Master).CheckSequencer),
	list(Reader, func(*lockapi.FindDeadlocks) string { return "/" }, (*Master).FindDeadlocks),
}

var fileCalls = []entry{
	asking(change(WriteAt, AuditChanges, pathOfWrite, (*Master).WriteFile), func(c *lockapi.WriteFile, by *Caller) {
		if c.Sequential {
			by.Ask.Right = NameAt
		}
		by.forSession(c.Session)
		by.alsoReads(c.Sequencers)
	}),
	asking(change(WriteAt, AuditChanges, pathOfDeletion, (*Master).DeleteFiles), func(c *lockapi.DeleteFiles, by *Caller) {
		if c.Path == "" {
			by.Ask.Right = WriteBelow
		}
		by.forSession(c.Session)
		by.alsoReads(c.Sequencers)
	}),
	query(ReadAt, func(c *lockapi.GetFile) string { return c.Path }, (*Master).GetFile),
	list(Reader, func(c *lockapi.ListFiles) string { return rights.ListPath(c.Prefix) }, (*Master).ListFiles),
	asking(change(Undecided, AuditChanges, nil, (*Master).Transact), func(c *lockapi.Transact, by *Caller) {
		by.forSession(c.Session)
		by.Ask.Right, by.Also = rights.OfTransaction(&c.Transaction, by.Also)
	}),
	list(ReadAt, func(c *lockapi.GetHistory) string { return c.Path }, (*Master).GetHistory).set(func(r *Row) { r.Reads, r.Own = false, true }),
}

var cellCalls = []entry{
	query(Observe, nil, (*Master).ListMembers),
	query(Known, nil, (*Master).GetURLs),
	change(Operate, AuditAlways, nil, (*Master).AddMember),
	change(Operate, AuditAlways, nil, (*Master).SetMember),
	change(Operate, AuditAlways, nil, (*Master).RemoveMember),
	change(Operate, AuditAlways, nil, (*Master).ReplaceMember),
	change(Operate, AuditAlways, nil, (*Master).TransferMastership).set(func(r *Row) { r.Leads = true }),
	query(KnownCaller, nil, (*Master).GetRevision).set(func(r *Row) { r.asked = true }),
	query(Operate, nil, (*Master).GetBackup).set(func(r *Row) { r.Audit = AuditAlways }),
}

var accessCalls = []entry{
	change(AdminAt, AuditAlways, func(c *lockapi.PutRule) string { return c.Path }, (*Master).PutRule),
	query(AdminAt, func(c *lockapi.GetRule) string { return c.Path }, (*Master).GetRule),
	remove(AdminAt, AuditAlways, func(c *lockapi.DeleteRule) string { return c.Path }, (*Master).DeleteRule),
	list(Known, nil, (*Master).ListRules),
	change(AdminBelow, AuditAlways, func(c *lockapi.DeleteRulesBelow) string { return rights.ListPath(c.Prefix) }, (*Master).DeleteRulesBelow),
	query(Reader, func(c *lockapi.CheckAccess) string { return c.Path }, (*Master).CheckAccess),
	change(Operate, AuditAlways, nil, (*Master).PutGroup),
	query(Operate, nil, (*Master).GetGroup),
	remove(Operate, AuditAlways, nil, (*Master).DeleteGroup),
	list(Operate, nil, (*Master).ListGroups),
	change(Operate, AuditAlways, nil, (*Master).PutQuota),
	query(Operate, nil, (*Master).GetQuota),
	remove(Operate, AuditAlways, nil, (*Master).DeleteQuota),
	list(Operate, nil, (*Master).ListQuotas),
	change(Operate, AuditAlways, nil, (*Master).PutCellAccess),
	query(Operate, nil, (*Master).GetCellAccess),
	change(Operate, AuditAlways, nil, (*Master).CreateToken),
	list(Operate, nil, (*Master).ListTokens),
	remove(Operate, AuditAlways, nil, (*Master).RevokeToken),
	change(Operate, AuditAlways, nil, (*Master).EnableAccess),
	remove(Operate, AuditAlways, nil, (*Master).DisableAccess),
	query(AnyCaller, nil, (*Master).GetWhoAmI),
}

// pathOfWrite returns the path of a write. A sequential file has a name that
// ends in digits.
func pathOfWrite(c *lockapi.WriteFile) string {
	if c.Sequential {
		return rights.Sequential(c.Path)
	}
	return c.Path
}

func pathOfDeletion(c *lockapi.DeleteFiles) string {
	if c.Path == "" {
		return rights.ListPath(c.Prefix)
	}
	return c.Path
}

// about makes the call one about a session. If the session is another
// principal's, the call needs the right of its row.
func (by *Caller) about(session string, uses bool) { by.Ask.Session, by.Ask.Uses = session, uses }

// forSession makes the call act for a session, which must be the caller's own;
// empty for none.
func (by *Caller) forSession(session string) {
	by.For = Ask{Right: NoCaller, Session: session, Uses: true}
}

// also adds another right that the call needs.
func (by *Caller) also(right Right, path string) {
	by.Also = append(by.Also, Ask{Right: right, Path: path})
}

// alsoReads adds the right to read at the paths of sequencers.
func (by *Caller) alsoReads(sequencers []lockapi.Sequencer) {
	for _, q := range sequencers {
		by.also(ReadAt, q.Path)
	}
}
