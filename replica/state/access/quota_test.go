package access_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stoutlock/stout/replica/state/access"
)

type limits = map[access.Resource]int64

// quotas returns a policy with quotas and groups, and user:op as operator.
func quotas(t *testing.T, groups map[string][]string, of map[string]limits) *access.Policy {
	t.Helper()
	p := access.New().PutCell(access.CellRules{Operate: []string{"user:op"}})
	var err error
	for name, members := range groups {
		if p, err = p.PutGroup(&access.Members{Group: name, Members: members}); err != nil {
			t.Fatal(err)
		}
	}
	for entry, l := range of {
		if p, err = p.PutQuota(&access.Quota{Of: entry, Limits: l}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestLimitsOf: for each resource the own quota decides, else the highest of the
// groups, else that of all principals.
func TestLimitsOf(t *testing.T) {
	const (
		files, bytes = access.Files, access.Bytes
		rate, burst  = access.CallsPerSecond, access.Burst
	)
	groups := map[string][]string{"g": {"user:a", "group:h"}, "h": {"user:b"}, "i": {"user:b", "user:op"}, "ops": {"group:g"}}
	for _, c := range []struct {
		name string
		who  string
		of   map[string]limits
		want limits // others are not bounded
	}{
		{"no quotas", "user:a", nil, nil},
		{"own", "user:a", map[string]limits{"user:a": {files: 3}}, limits{files: 3}},
		{"none allowed", "user:a", map[string]limits{"user:a": {files: 0}}, limits{files: 0}},
		{"another one's", "user:a", map[string]limits{"user:b": {files: 3}, "anonymous": {files: 2}, "user:": {files: 1}}, nil},
		{"all", "user:x", map[string]limits{"*": {files: 3}}, limits{files: 3}},
		{"all, for anonymous", "anonymous", map[string]limits{"*": {files: 3}}, nil},
		{"anonymous", "anonymous", map[string]limits{"anonymous": {files: 2}, "*": {files: 3}}, limits{files: 2}},
		{"own before all, per resource", "user:a", map[string]limits{"user:a": {files: 9}, "*": {files: 3, bytes: 4}}, limits{files: 9, bytes: 4}},
		{"group before all", "user:a", map[string]limits{"group:g": {files: 9}, "*": {files: 3, bytes: 4}}, limits{files: 9, bytes: 4}},
		{"group of a group", "user:b", map[string]limits{"group:g": {files: 9}}, limits{files: 9}},
		{"the highest of the groups", "user:b", map[string]limits{"group:g": {files: 2, bytes: 7}, "group:h": {files: 5}, "group:i": {files: 4, bytes: 1}}, limits{files: 5, bytes: 7}},
		{"own before groups, even if lower", "user:b", map[string]limits{"user:b": {files: 1}, "group:g": {files: 2}}, limits{files: 1}},
		{"zero in a group, and one in another", "user:b", map[string]limits{"group:g": {files: 0}, "group:i": {files: 1}}, limits{files: 1}},
		{"operator", "user:op", map[string]limits{"user:op": {files: 0}, "group:i": {files: 0}, "*": {files: 0}}, nil},
		{"root", "user:root", map[string]limits{"user:root": {files: 0, rate: 0}}, nil},
		{"a rate without burst", "user:a", map[string]limits{"*": {rate: 5}}, limits{rate: 5, burst: 5}},
		{"burst belongs to its rate", "user:a", map[string]limits{"user:a": {rate: 5}, "*": {rate: 9, burst: 90}}, limits{rate: 5, burst: 5}},
		{"burst of the faster group", "user:b", map[string]limits{"group:g": {rate: 5, burst: 50}, "group:i": {rate: 9, burst: 9}}, limits{rate: 9, burst: 9}},
		{"the same rate with another burst", "user:b", map[string]limits{"group:g": {rate: 5, burst: 50}, "group:i": {rate: 5}}, limits{rate: 5, burst: 50}},
		{"a group without a rate", "user:b", map[string]limits{"group:g": {files: 5}, "*": {rate: 9, burst: 90}}, limits{files: 5, rate: 9, burst: 90}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := access.Unlimited
			for r, n := range c.want {
				want[r] = n
			}
			if got := quotas(t, groups, c.of).LimitsOf(c.who); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestLimitsOfManyGroups compares both walks: of the groups and of the quotas.
func TestLimitsOfManyGroups(t *testing.T) {
	groups, of := map[string][]string{}, map[string]limits{"user:z": {access.Files: 1}}
	for i := range 100 {
		groups[fmt.Sprintf("g%02d", i)] = []string{"user:a"}
	}
	of["group:g42"], of["group:none"] = limits{access.Files: 7}, limits{access.Files: 9}
	few := quotas(t, groups, of)
	for i := range 200 {
		of[fmt.Sprintf("group:x%03d", i)] = limits{access.Files: 8}
	}
	if a, b := few.LimitsOf("user:a"), quotas(t, groups, of).LimitsOf("user:a"); a != b || a[access.Files] != 7 {
		t.Errorf("%v with few quotas, %v with many", a, b)
	}
}

func TestQuotasAreBounded(t *testing.T) {
	p, empty := access.New(), access.New().Size()
	for i := range access.MaxQuotas {
		var err error
		if p, err = p.PutQuota(&access.Quota{Of: fmt.Sprint("user:", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.PutQuota(&access.Quota{Of: "*"}); !errors.Is(err, access.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if _, err := p.PutQuota(&access.Quota{Of: "user:7", Limits: limits{access.Files: 1}}); err != nil {
		t.Errorf("another for the same principal: %v", err)
	}
	if p.DropQuota("user:x") != p {
		t.Error("no quota is dropped by a copy")
	}
	for i := range access.MaxQuotas {
		p = p.DropQuota(fmt.Sprint("user:", i))
	}
	if p.QuotaCount() != 0 || p.Size() != empty {
		t.Errorf("%d quotas and %d bytes are left", p.QuotaCount(), p.Size())
	}
}
