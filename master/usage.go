package master

import (
	"github.com/stoutlock/stout/replica/state"
)

// Estimates of the memory that things take on the master, state and office
// together, in bytes. TestMemoryEstimates measures them.
const (
	sessionBytes  = 400
	keyBytes      = 50  // of an idempotency key, and
	metaBytes     = 350 // of metadata, where there is any
	metaPairBytes = 50  // of each name and value in it
	claimBytes    = 300
	delayBytes    = 300
	fileBytes     = 350 // besides its content
	answerBytes   = 200 // of one that is remembered, besides its key, and
	toldBytes     = 180 // of each file and grant in it, besides paths and content
	stepBytes     = 32  // of what else was done
	holderBytes   = 100 // of each of those who had a lock, besides names
)

// usage is a sum of what quotas count.
type usage struct{ sessions, holds, waiters, files, content, bytes int64 }

func (u *usage) add(more usage, times int64) {
	u.sessions += times * more.sessions
	u.holds += times * more.holds
	u.waiters += times * more.waiters
	u.files += times * more.files
	u.content += times * more.content
	u.bytes += times * more.bytes
}

// most is the larger of two uses, for each quota.
func (u usage) most(other usage) usage {
	return usage{max(u.sessions, other.sessions), max(u.holds, other.holds), max(u.waiters, other.waiters),
		max(u.files, other.files), max(u.content, other.content), max(u.bytes, other.bytes)}
}

// of is the part that a quota counts.
func (u *usage) of(k quotaKind) int64 {
	return [quotaKinds]int64{
		quotaSessions: u.sessions, quotaHolds: u.holds, quotaWaiters: u.waiters, quotaBytes: u.bytes,
		quotaFiles: u.files, quotaContent: u.content,
		quotaSessionHolds: u.holds, quotaSessionWaiters: u.waiters, quotaSessionBytes: u.bytes,
	}[k]
}

// waitUsage is what a place in a queue takes besides being a claim.
var waitUsage = usage{waiters: 1}

// claimUsage is what a claim takes, be it a hold or a place in a queue.
func claimUsage(key claimKey) usage {
	return usage{holds: 1, bytes: int64(claimBytes + len(key.path) + len(key.handle))}
}

func delayUsage(path string) usage {
	return usage{bytes: int64(delayBytes + len(path))}
}

// fileUsage is what a file takes that has so many bytes of content.
func fileUsage(path string, content int64) usage {
	return usage{files: 1, content: content, bytes: fileBytes + int64(len(path)) + content}
}

// answerUsage is what an answer takes that is remembered. What it shares with
// the state counts: it may be the last to have it.
func answerUsage(answer *state.Answer) usage {
	n, r := answerBytes+len(answer.Key), &answer.Result
	for _, s := range r.Steps {
		switch {
		case s.File != nil:
			n += toldUsage(s.File.Path, len(s.File.Content))
		case s.Hold != nil:
			n += toldUsage(s.Hold.Path, len(s.Hold.Handle))
		default:
			n += stepBytes
		}
	}
	if r.Guard != nil {
		n += toldUsage(r.Guard.Path, 0)
	}
	if f := r.Failure; f != nil && f.Current != nil {
		n += toldUsage(f.Current.Path, len(f.Current.Content))
	}
	if f := r.Failure; f != nil && f.Lock != nil {
		n += toldBytes
		for _, h := range f.Lock.Holders {
			n += holdingUsage(h.Name, h.Handle)
		}
	}
	return usage{bytes: int64(n)}
}

// holdingUsage is what one of those who had a lock takes in an answer.
func holdingUsage(name, handle string) int { return holderBytes + len(name) + len(handle) }

func toldUsage(path string, more int) int { return toldBytes + len(path) + more }

func sessionUsage(name, key string, meta map[string]string) usage {
	n := sessionBytes + len(name)
	if key != "" {
		n += keyBytes + len(key)
	}
	if len(meta) > 0 {
		n += metaBytes
	}
	for k, v := range meta {
		n += metaPairBytes + len(k) + len(v)
	}
	return usage{sessions: 1, bytes: int64(n)}
}

func usageOf(v *state.Session) usage { return sessionUsage(v.Name, v.Key, v.Meta) }
