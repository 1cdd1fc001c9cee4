package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
)

func TestMembers(t *testing.T) {
	const d2 = "0123456789abcdef"
	want := lockapi.Members{CellID: "c1", Tolerates: 1, Members: []lockapi.Member{
		{ID: "r1", Directory: "d1", Suffrage: lockapi.SuffrageVoter}, {ID: "r1", Directory: "d3", Suffrage: lockapi.SuffrageNonvoter}, {ID: "r2", Directory: "d4", Suffrage: lockapi.SuffrageVoter}}}
	outsider := &lockapi.Error{Code: lockapi.CodeNoMaster, Detail: "none of the cell's", Directory: d2, Command: "stout member replace r1"}
	replica := &scripted{
		status: map[string]int{
			"GET /readyz": 503, "POST /v1/members/r1/replace": 202, "POST /v1/members/r2/replace": 409,
		},
		body: map[string]any{
			"GET /v1/members": want, "GET /readyz": outsider, "GET /v1/cell": lockapi.Cell{Cell: "prod"},
			"POST /v1/members/r1/replace": struct{}{},
			"POST /v1/members/r2/replace": lockapi.Errorf(lockapi.CodeBusy, "another change is not committed"),
		},
	}
	server := httptest.NewServer(replica)
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()

	if got, err := admin.New(c).Members(ctx); err != nil || got.CellID != "c1" || len(got.Members) != 3 || got.Members[0] != want.Members[0] || got.Tolerates != 1 {
		t.Errorf("Members: %+v, %v", got, err)
	}
	if got, err := admin.New(c).CellAt(ctx, server.URL); err != nil || got.Cell != "prod" {
		t.Errorf("CellAt: %+v, %v", got, err)
	}
	if got, ok := errors.AsType[*lockapi.Error](admin.New(c).Ready(ctx, server.URL)); !ok || got.Directory != d2 || got.Command != outsider.Command {
		t.Errorf("Ready: %+v", got)
	}
	if err := admin.New(c).ReplaceMember(ctx, "r1", lockapi.ReplaceMemberRequest{Directory: d2}); err != nil {
		t.Errorf("ReplaceMember: %v", err)
	}
	if got, want := replica.asked[len(replica.asked)-1], `POST /v1/members/r1/replace {"directory":"`+d2+`","in_place_of":"d3"}`; got != want {
		t.Errorf("it was sent as %s, want %s", got, want)
	}
	if err := admin.New(c).ReplaceMember(ctx, "r2", lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, admin.ErrBusy) {
		t.Errorf("ReplaceMember while another change is under way: %v", err)
	}
	if err := admin.New(c).ReplaceMember(ctx, "r1", lockapi.ReplaceMemberRequest{Directory: "/var/lib/stoutd"}); !errors.Is(err, client.ErrInvalidArgument) {
		t.Errorf("ReplaceMember with a path for a directory: %v", err)
	}
	if err := admin.New(c).ReplaceMember(ctx, "r9", lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("ReplaceMember of no member: %v", err)
	}
	for _, id := range []string{"", ".", "..", "a/b"} {
		if err := admin.New(c).ReplaceMember(ctx, id, lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("ReplaceMember(%q): %v", id, err)
		}
	}
}

// changing is a cell with r2 as its master, which gives scripted answers to
// replacements, also to forwarded ones. All other calls go to the cell.
type changing struct {
	*testCell
	answers []func(*http.Request) (*http.Response, error)
	sent    int
}

func (m *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	never := r.Header.Get(lockapi.HeaderForward) == lockapi.ForwardNever
	if !strings.HasSuffix(r.URL.Path, "/replace") || never && r.URL.Host != "r2" {
		return m.testCell.RoundTrip(r)
	}
	m.sent++
	return m.answers[min(m.sent, len(m.answers))-1](r)
}

// ReplaceMember is never under way twice at a time: the second call would be
// refused as busy because of the first. It is repeated after a lost answer;
// busy then may be due to its own first attempt.
func TestReplaceMemberIsNotHedged(t *testing.T) {
	begun := func(r *http.Request) (*http.Response, error) {
		client.Sleep(r.Context(), 3*client.HedgeAfter)
		return answer(func(*http.Request) (int, string) { return http.StatusAccepted, "{}" }).RoundTrip(r)
	}
	busy := answer(func(*http.Request) (int, string) { return http.StatusConflict, `{"code":"busy"}` }).RoundTrip
	lost := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
	type answers []func(*http.Request) (*http.Response, error)
	for name, test := range map[string]struct {
		answers
		want error
	}{
		"slow":          {answers{begun}, nil},
		"lost":          {answers{lost, begun}, nil},
		"lost and busy": {answers{lost, busy, begun}, nil},
		"busy":          {answers{busy}, admin.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
				tc.Elect("r2")
				tc.silence("r1", true)
				way := &changing{testCell: tc, answers: test.answers}
				c := tc.by(t, way, "http://r1", "http://r2", "http://r3")
				err := admin.New(c).ReplaceMember(t.Context(), "r3", lockapi.ReplaceMemberRequest{Directory: "0123456789abcdef", InPlaceOf: "00000000000000aa"})
				if !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}
				toHung := tc.count(func(r sentRequest) bool { return r.host == "r1" && r.method == http.MethodPost })
				if way.sent != len(test.answers) || toHung > 0 {
					t.Errorf("it was sent %d times to the master, and %d times to the hung replica", way.sent, toHung)
				}
			})
		})
	}
}

// TestMembersChange: each method makes its one call, and refuses malformed
// members itself.
func TestMembersChange(t *testing.T) {
	var got []string
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(lockapi.HeaderEpoch, "1")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, `{"id":"r4","directory":"0123456789abcdef","suffrage":"nonvoter","members":[{"id":"r4","directory":"0123456789abcdef"}]}`)
	}))
	add := lockapi.AddMemberRequest{ID: "r4", Directory: "0123456789abcdef", RaftAddr: "h:1", URL: "http://h:2"}
	if err := admin.New(c).AddMember(t.Context(), add); err != nil {
		t.Error(err)
	}
	stays := lockapi.SuffrageNonvoter
	if m, err := admin.New(c).SetMember(t.Context(), "r4", lockapi.SetMemberRequest{Suffrage: &stays, Force: true}); err != nil || m.Suffrage != stays {
		t.Errorf("%+v, %v", m, err)
	}
	if err := admin.New(c).RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{}); err != nil {
		t.Error(err)
	}
	if err := admin.New(c).RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{Directory: "00000000000000aa", Force: true}); err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		admin.New(c).AddMember(t.Context(), lockapi.AddMemberRequest{}),
		admin.New(c).RemoveMember(t.Context(), "a/b", lockapi.RemoveMemberRequest{}),
		admin.New(c).RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{Directory: "/var/lib/stoutd"}),
		func() error {
			_, err := admin.New(c).SetMember(t.Context(), "", lockapi.SetMemberRequest{Suffrage: &stays})
			return err
		}(),
		func() error {
			_, err := admin.New(c).SetMember(t.Context(), "r4", lockapi.SetMemberRequest{})
			return err
		}(),
	} {
		if !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("the error is %v", err)
		}
	}
	want := []string{
		`POST /v1/members {"id":"r4","directory":"0123456789abcdef","raft_addr":"h:1","url":"http://h:2"}`,
		`PATCH /v1/members/r4?force=true {"suffrage":"nonvoter"}`, "GET /v1/members",
		"DELETE /v1/members/r4?directory=0123456789abcdef", "DELETE /v1/members/r4?directory=00000000000000aa&force=true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
