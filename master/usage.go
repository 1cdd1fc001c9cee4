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
