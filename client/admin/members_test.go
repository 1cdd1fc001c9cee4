package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
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
	a, ctx := over(t, client.Config{URLs: []string{server.URL}}), t.Context()

	if got, err := a.Members(ctx); err != nil || got.CellID != "c1" || len(got.Members) != 3 || got.Members[0] != want.Members[0] || got.Tolerates != 1 {
		t.Errorf("Members: %+v, %v", got, err)
	}
	if got, err := a.CellAt(ctx, server.URL); err != nil || got.Cell != "prod" {
		t.Errorf("CellAt: %+v, %v", got, err)
	}
	if got, ok := errors.AsType[*lockapi.Error](a.Ready(ctx, server.URL)); !ok || got.Directory != d2 || got.Command != outsider.Command {
		t.Errorf("Ready: %+v", got)
	}
	must(t, a.ReplaceMember(ctx, "r1", lockapi.ReplaceMemberRequest{Directory: d2}))
	if got, want := replica.asked[len(replica.asked)-1], `POST /v1/members/r1/replace {"directory":"`+d2+`","in_place_of":"d3"}`; got != want {
		t.Errorf("it was sent as %s, want %s", got, want)
	}
	if err := a.ReplaceMember(ctx, "r2", lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, admin.ErrBusy) {
		t.Errorf("ReplaceMember while another change is under way: %v", err)
	}
	if err := a.ReplaceMember(ctx, "r1", lockapi.ReplaceMemberRequest{Directory: "/var/lib/stoutd"}); !errors.Is(err, client.ErrInvalidArgument) {
		t.Errorf("ReplaceMember with a path for a directory: %v", err)
	}
	if err := a.ReplaceMember(ctx, "r9", lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("ReplaceMember of no member: %v", err)
	}
	for _, id := range []string{"", ".", "..", "a/b"} {
		if err := a.ReplaceMember(ctx, id, lockapi.ReplaceMemberRequest{Directory: d2}); !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("ReplaceMember(%q): %v", id, err)
		}
	}
}

// ReplaceMember is never under way twice at a time: the second call would be
// refused as busy because of the first. It is repeated after a lost answer;
// busy then may be due to its own first attempt.
func TestReplaceMemberIsNotHedged(t *testing.T) {
	begun := func(*http.Request) (*http.Response, error) {
		time.Sleep(time.Second) // time enough for a hedge
		return answer(http.StatusAccepted, "{}"), nil
	}
	busy := func(*http.Request) (*http.Response, error) {
		return answer(http.StatusConflict, `{"code":"busy"}`), nil
	}
	lost := func(*http.Request) (*http.Response, error) { return nil, errReset }
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
			bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
				cell.Elect("r2")
				changes := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/replace") }
				sent := 0 // to the master, also by another replica
				n.instead = func(r *http.Request) (*http.Response, error) {
					switch never := r.Header.Get(lockapi.HeaderForward) == lockapi.ForwardNever; {
					case r.URL.Host == "r1":
						return hang(r)
					case !changes(r) || never && r.URL.Host != "r2":
						return nil, nil
					}
					sent++
					return test.answers[min(sent, len(test.answers))-1](r)
				}
				err := a.ReplaceMember(t.Context(), "r3", lockapi.ReplaceMemberRequest{Directory: "0123456789abcdef", InPlaceOf: "00000000000000aa"})
				if !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}
				toHung := n.count(func(r *http.Request) bool { return r.URL.Host == "r1" && changes(r) })
				if sent != len(test.answers) || toHung > 0 {
					t.Errorf("it was sent %d times to the master, and %d times to the hung replica", sent, toHung)
				}
			})
		})
	}
}

// TestMembersChange: each method makes its one call, and refuses malformed
// members itself.
func TestMembersChange(t *testing.T) {
	replica := &scripted{status: map[string]int{"POST /v1/members": 202}, body: map[string]any{
		"": json.RawMessage(`{"id":"r4","directory":"0123456789abcdef","suffrage":"nonvoter","members":[{"id":"r4","directory":"0123456789abcdef"}]}`),
	}}
	a := adminOf(t, replica)
	add := lockapi.AddMemberRequest{ID: "r4", Directory: "0123456789abcdef", RaftAddr: "h:1", URL: "http://h:2"}
	must(t, a.AddMember(t.Context(), add))
	stays := lockapi.SuffrageNonvoter
	if m, err := a.SetMember(t.Context(), "r4", lockapi.SetMemberRequest{Suffrage: &stays, Force: true}); err != nil || m.Suffrage != stays {
		t.Errorf("%+v, %v", m, err)
	}
	must(t, a.RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{}))
	must(t, a.RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{Directory: "00000000000000aa", Force: true}))
	for _, err := range []error{
		a.AddMember(t.Context(), lockapi.AddMemberRequest{}),
		a.RemoveMember(t.Context(), "a/b", lockapi.RemoveMemberRequest{}),
		a.RemoveMember(t.Context(), "r4", lockapi.RemoveMemberRequest{Directory: "/var/lib/stoutd"}),
		second(a.SetMember(t.Context(), "", lockapi.SetMemberRequest{Suffrage: &stays})),
		second(a.SetMember(t.Context(), "r4", lockapi.SetMemberRequest{})),
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
	if !slices.Equal(replica.asked, want) {
		t.Errorf("%q, want %q", replica.asked, want)
	}
}
