package master

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// keyedPut overwrites a file by a keyed call.
func keyedPut(t *testing.T, m *Master, session, key string) error {
	t.Helper()
	_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/file", Session: session, Key: key})
	return err
}

// answerOfPut is what the cell remembers of keyedPut with a key of three letters.
func answerOfPut() int64 {
	return answerUsage(&state.Answer{Key: "123", Result: state.TransactionResult{Steps: []state.StepResult{{File: &state.File{Path: "/file"}}}}}).bytes
}

// TestQuotaOfBytesCountsAnswers: until the session ends. A call that was answered is
// answered again, what only makes room finds it, and other sessions have their own.
func TestQuotaOfBytesCountsAnswers(t *testing.T) {
	one, slack := sessionUsage("", "", nil).bytes, int64(2*state.SequenceDigits)
	withQuotas(t, Quotas{SessionBytes: one + 2*answerOfPut() + slack}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s, other := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		must(t, keyedPut(t, m, s, "001"))
		must(t, keyedPut(t, m, s, "002"))
		refusedBy(t, keyedPut(t, m, s, "003"), "max-session-bytes")
		must(t, keyedPut(t, m, s, "001"))
		must(t, keyedPut(t, m, s, ""))
		must(t, keyedPut(t, m, other, "001"))
		_, err := m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/file", Session: s, Key: "004"})
		must(t, err)
		settled(t, n)
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: s}))
	})
}

// TestQuotaOfBytesCountsToldContents: also what is read under a key.
func TestQuotaOfBytesCountsToldContents(t *testing.T) {
	withQuotas(t, Quotas{SessionBytes: 100_000}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/file", Content: []byte(strings.Repeat("x", 40_000))})
		must(t, err)
		read := func(key string) error {
			_, err := transacting(t, m, key, `{"session":"`+s+`","then":[{"get":{"path":"/file"}}]}`)
			return err
		}
		must(t, read("a"))
		must(t, read("b"))
		refusedBy(t, read("c"), "max-session-bytes")
		settled(t, n)
	})
}

// TestQuotaOfBytesCountsContentsToCome: what is read under a key may be what the call
// itself writes, or another one that is under way, in one branch or the other.
func TestQuotaOfBytesCountsContentsToCome(t *testing.T) {
	withQuotas(t, Quotas{SessionBytes: 20_000}, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		s, content := newSession(t, m, time.Minute), strings.Repeat("x", 40_000)
		put := `{"put":{"path":"/file","content":"` + content + `"}}`
		_, err := transacting(t, m, "a", `{"session":"`+s+`","then":[`+put+`,{"get":{"path":"/file"}}]}`)
		refusedBy(t, err, "max-session-bytes")
		sequential := `{"create_sequential":{"path":"/q-","content":"` + content + `"}}`
		_, err = transacting(t, m, "b", `{"session":"`+s+`","then":[`+sequential+`,{"get":{"path":"/q-0000000000000001"}}]}`)
		refusedBy(t, err, "max-session-bytes")
		var all sync.WaitGroup
		all.Go(func() {
			_, err := transacting(t, m, "", `{"if":[{"file":"/file","exists":false}],"then":[`+put+`],"else":[`+put+`]}`)
			must(t, err)
		})
		pass(time.Microsecond)
		_, err = transacting(t, m, "c", `{"session":"`+s+`","then":[{"get":{"path":"/file"}}]}`)
		refusedBy(t, err, "max-session-bytes")
		all.Wait()
		settled(t, n)
	})
}

// TestQuotaOfBytesCountsToldHolders: with their names, which may be gone otherwise.
func TestQuotaOfBytesCountsToldHolders(t *testing.T) {
	withQuotas(t, Quotas{SessionBytes: 50_000}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		crowd, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{
			TTLMS: 60_000, Name: strings.Repeat("n", lockapi.MaxNameBytes)}})
		must(t, err)
		for i := range state.MaxStandingHolders {
			handle := fmt.Sprintf("%0*d", lockapi.MaxHandleBytes, i)
			mustHold(t, m, "/l", want(crowd.ID, shared(0), func(r *lockapi.LockRequest) { r.Handle = handle }))
		}
		s := newSession(t, m, time.Minute)
		take := func(key string) error {
			_, err := transacting(t, m, key, `{"session":"`+s+`","then":[{"acquire":{"path":"/l"}}]}`)
			return err
		}
		code(t, take("a"), lockapi.CodePrecondition)
		refusedBy(t, take("b"), "max-session-bytes")
		code(t, take("a"), lockapi.CodePrecondition)
		settled(t, n)
	})
}

// TestOldestAnswerMakesRoom: a session that overwrites its files needs no more room
// than for as many answers as are remembered.
func TestOldestAnswerMakesRoom(t *testing.T) {
	room := sessionUsage("", "", nil).bytes + state.MostAnswers*answerOfPut() + 2*state.SequenceDigits
	withQuotas(t, Quotas{SessionBytes: room}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		for i := range 2*state.MostAnswers + 3 {
			must(t, keyedPut(t, m, s, string([]byte{'0', byte(i / 100), byte(i % 100)})))
		}
		settled(t, n)
	})
}

// TestForgottenAnswerIsNotGuessed: a call under way that will not be remembered makes
// none of the later ones forget a longer answer.
func TestForgottenAnswerIsNotGuessed(t *testing.T) {
	const long = 40_000
	room := sessionUsage("", "", nil).bytes + (state.MostAnswers-1)*answerOfPut() + long + 5_000
	withQuotas(t, Quotas{SessionBytes: room}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/long", Content: []byte(strings.Repeat("x", long))})
		must(t, err)
		read := func(key string) error {
			_, err := transacting(t, m, key, `{"session":"`+s+`","then":[{"get":{"path":"/long"}}]}`)
			return err
		}
		for i := range state.MostAnswers {
			if i == 2 {
				must(t, read("long"))
				continue
			}
			must(t, keyedPut(t, m, s, string([]byte{'0', byte(i / 100), byte(i % 100)})))
		}
		var all sync.WaitGroup
		for _, content := range []string{"first", "conflict"} {
			all.Go(func() {
				_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/file", Content: []byte(content), Session: s, Key: "key"})
				if (err == nil) != (content == "first") {
					t.Errorf("%s: %v", content, err)
				}
			})
			pass(time.Microsecond)
		}
		refusedBy(t, read("more"), "max-session-bytes")
		all.Wait()
		settled(t, n)
	})
}

// TestAnswersAreCountedByANewMaster.
func TestAnswersAreCountedByANewMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		s := newSession(t, m, time.Minute)
		must(t, keyedPut(t, m, s, "001"))
		n := c.office("r2")
		settled(t, n)
		must(t, n.master.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: s}))
		settled(t, n)
	})
}

// TestRepeatedCreationNeedsNoRoom: neither beside the first one nor after it, in a
// lapse of the lease.
func TestRepeatedCreationNeedsNoRoom(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01, Quotas: Quotas{Files: 1, SessionHolds: 1}}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		m := n.master
		s := newSession(t, m, time.Minute)
		create := func() (FileWritten, error) {
			return m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Session: s, Key: "k", Sequential: true})
		}
		acquire := `{"session":"` + s + `","then":[{"acquire":{"path":"/old"}}]}`
		var made [2]FileWritten
		var errs [2]error
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], errs[i] = create() })
		}
		all.Wait()
		must(t, errs[0])
		must(t, errs[1])
		if made[0].Stat != made[1].Stat || made[0].Replayed == made[1].Replayed {
			t.Errorf("%+v", made)
		}
		_, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q-", Session: s, Key: "other", Sequential: true})
		refusedBy(t, err, "max-files")
		_, err = transacting(t, m, "l", acquire)
		must(t, err)
		_, err = m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/old", Session: s})
		must(t, err)
		mustHold(t, m, "/new", want(s)) // it has the room
		_, err = transacting(t, m, "fresh", acquire)
		refusedBy(t, err, "max-session-holds")

		c.cutOff("r1", true)
		pass(3 * time.Second)
		if openOffice(t, n).lease.Valid(n.clock()) {
			t.Fatal("no lapse")
		}
		all.Go(func() {
			if again, err := create(); err != nil || !again.Replayed || again.Stat != made[0].Stat {
				t.Errorf("%+v, %v; the first time %+v", again, err, made[0])
			}
		})
		all.Go(func() {
			if done, err := transacting(t, m, "l", acquire); err != nil || !done.Replayed {
				t.Errorf("%+v, %v", done, err)
			}
		})
		pass(fakeDelay)
		c.cutOff("r1", false)
		all.Wait()
		settled(t, n)
	})
}

// TestLargerBranchCounts: of what a transaction may write.
func TestLargerBranchCounts(t *testing.T) {
	withQuotas(t, Quotas{Files: 3, Content: 100}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 10))
		put := func(path string, size int) string {
			return `{"put":{"path":"` + path + `","content":"` + strings.Repeat("x", size) + `"}}`
		}
		either := func(then, other string) error {
			_, err := transacting(t, m, "", `{"if":[{"file":"/none","exists":true}],"then":[`+then+`],"else":[`+other+`]}`)
			return err
		}
		refusedBy(t, either(put("/b", 91), put("/c", 1)), "max-content")
		refusedBy(t, either(put("/b", 1), put("/c", 91)), "max-content")
		refusedBy(t, either(put("/b", 1)+","+put("/c", 1)+","+put("/d", 1), put("/a", 1)), "max-files")
		must(t, either(put("/b", 90), put("/a", 20)+","+put("/c", 80)))
		must(t, either(put("/a", 20), put("/c", 80)))
		must(t, either(put("/b", 0)+","+put("/c", 1), put("/c", 70)+","+put("/d", 0)))
		settled(t, n)
	})
}

// TestChoiceIsNotShared: what another call may write beside either branch needs room
// of its own, and what ends meanwhile leaves its room to the branch that may make it
// anew.
func TestChoiceIsNotShared(t *testing.T) {
	withQuotas(t, Quotas{Content: 100}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 40))
		a := openOffice(t, n).accounting
		put := func(path string, size int) []state.Step {
			return []state.Step{&state.Write{Path: path, Content: make([]byte, size)}}
		}
		leave, err := a.reserveTransaction(&state.Transaction{Then: put("/a", 100), Else: put("/b", 60)})
		must(t, err)
		refusedBy(t, putSized(t, m, "/b", 60), "max-content")
		_, err = m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/a"})
		must(t, err)
		refusedBy(t, putSized(t, m, "/c", 1), "max-content") // as /a may be made anew
		leave()
		must(t, putSized(t, m, "/c", 100))
	})
}

// TestChoiceGivesWhatIsThereBack: a branch that overwrites needs nothing for that,
// and it needs it when somebody has deleted the file.
func TestChoiceGivesWhatIsThereBack(t *testing.T) {
	withQuotas(t, Quotas{Files: 2}, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		must(t, putSized(t, m, "/a", 1))
		must(t, putSized(t, m, "/b", 1))
		body := `{"then":[{"put":{"path":"/a"}},{"create_sequential":{"path":"/q"}}],"else":[{"put":{"path":"/b"}}]}`
		_, err := transacting(t, m, "", body)
		refusedBy(t, err, "max-files")
		_, err = m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/b"})
		must(t, err)
		_, err = transacting(t, m, "", body)
		must(t, err)
		settled(t, n)
	})
}
