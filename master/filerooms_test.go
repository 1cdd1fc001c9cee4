package master

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// putSized writes a file of so many bytes.
func putSized(t *testing.T, m *Master, path string, size int) error {
	t.Helper()
	_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: path, Content: make([]byte, size)})
	return err
}

func TestQuotaOfFiles(t *testing.T) {
	withQuotas(t, Quotas{Files: 2}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 1))
		must(t, putSized(t, m, "/b", 1))
		refusedBy(t, putSized(t, m, "/c", 0), "max-files")
		must(t, putSized(t, m, "/a", 100)) // it is no further one
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Sequential: true})
		refusedBy(t, err, "max-files")
		_, err = m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/a"})
		must(t, err)
		must(t, putSized(t, m, "/c", 1))
	})
}

func TestQuotaOfContent(t *testing.T) {
	withQuotas(t, Quotas{Content: 100}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 60))
		refusedBy(t, putSized(t, m, "/b", 41), "max-content")
		must(t, putSized(t, m, "/b", 40))
		refusedBy(t, putSized(t, m, "/b", 41), "max-content")
		must(t, putSized(t, m, "/b", 40))
		must(t, putSized(t, m, "/b", 10))
		must(t, putSized(t, m, "/a", 90))
	})
}

// TestQuotaOfBytesCountsFiles.
func TestQuotaOfBytesCountsFiles(t *testing.T) {
	withQuotas(t, Quotas{Bytes: fileUsage("/a", 1000).bytes}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		refusedBy(t, putSized(t, m, "/a", 1001), "max-bytes")
		must(t, putSized(t, m, "/a", 1000))
	})
}

// TestQuotaOfBytesCountsNumbers: also those that a sequential file is to have.
func TestQuotaOfBytesCountsNumbers(t *testing.T) {
	write := func(m *Master) error {
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Sequential: true})
		return err
	}
	most := fileUsage("/q-0000000000000001", 0).bytes
	withQuotas(t, Quotas{Bytes: most - 1}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		refusedBy(t, write(m), "max-bytes")
	})
	withQuotas(t, Quotas{Bytes: most}, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		must(t, write(m))
	})
}

// TestFilesAreNoSessions: what bounds sessions does not bound files.
func TestFilesAreNoSessions(t *testing.T) {
	withQuotas(t, Quotas{SessionBytes: 500}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 1000))
	})
}

// TestTransactionNeedsRoomAsAWhole: all that it may write, in either branch.
func TestTransactionNeedsRoomAsAWhole(t *testing.T) {
	withQuotas(t, Quotas{Files: 3, Content: 100}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 10))
		put := func(path string, size int) lockapi.Operation {
			content := strings.Repeat("x", size)
			return lockapi.Operation{Put: &lockapi.WriteOperation{Path: path, Content: &content}}
		}
		transact := func(operations ...lockapi.Operation) error {
			_, err := m.Transact(t.Context(), &Caller{}, &lockapi.Transact{Transaction: lockapi.Transaction{Then: operations}})
			return err
		}
		refusedBy(t, transact(put("/a", 1), put("/b", 1), put("/c", 1), put("/d", 1)), "max-files")
		refusedBy(t, transact(put("/a", 90), put("/b", 11)), "max-content")
		must(t, transact(put("/b", 90), put("/b", 1), put("/b", 20)))
		refusedBy(t, transact(put("/a", 81)), "max-content")
		refusedBy(t, transact(put("/a", 5), put("/c", 71)), "max-content") // what it makes shorter counts until then
		must(t, transact(put("/a", 5), put("/c", 70)))
	})
}

// TestQuotaOfFilesUnderConcurrency: many calls at once come to exactly as many
// files as there may be, and writers of one file need the room of one.
func TestQuotaOfFilesUnderConcurrency(t *testing.T) {
	withQuotas(t, Quotas{Files: 10, Content: 100}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		var all sync.WaitGroup
		var written atomic.Int32
		for i := range 40 {
			all.Go(func() {
				path := "/" + strings.Repeat("x", 1+i%20)
				if _, err := m.WriteFile(context.Background(), &Caller{}, &lockapi.WriteFile{Path: path, Content: make([]byte, 10)}); err == nil {
					written.Add(1)
				}
			})
		}
		all.Wait()
		if has := inUse(n.State()); has.files != 10 || has.content != 100 || written.Load() != 20 {
			t.Errorf("%d of 40 are written, and the state has %+v", written.Load(), has)
		}
	})
}

// TestQuotaOfFilesAfterAChangeOfMaster: a new office counts what is there.
func TestQuotaOfFilesAfterAChangeOfMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01, Quotas: Quotas{Files: 2}}, func(t *testing.T, c *fakeCell) {
		first := c.office("r1")
		must(t, putSized(t, first.master, "/a", 1))
		must(t, putSized(t, first.master, "/b", 1))
		second := c.office("r2")
		refusedBy(t, putSized(t, second.master, "/c", 1), "max-files")
		must(t, putSized(t, second.master, "/b", 2))
		settled(t, second)
	})
}

// must fails the test where a call was refused.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
