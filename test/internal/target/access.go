package target

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
)

// caller is the principal of the load's calls in a cell with access control.
const caller = "user:bench"

// rulesOfGroup is the number of rules for each group.
const rulesOfGroup = 10

// foundingToken writes the secret of user:root to a file, and makes the harness
// send it in its calls.
func (c *Cell) foundingToken(dir string) (file string, err error) {
	c.root, _ = admin.NewSecret()
	file = filepath.Join(dir, "root-token")
	return file, os.WriteFile(file, []byte(c.root+"\n"), 0o600)
}

// allow grants the load's caller the rights that works need, by groups, and
// makes its token. It also makes the given number of other rules, and puts the
// caller into one group for every ten of them.
func (c *Cell) allow(ctx context.Context, rules int) error {
	sdk, err := Way{URLs: c.urls, TLS: c.tls(), Token: c.root}.SDK()
	if err != nil {
		return err
	}
	defer sdk.Close()
	access := admin.New(sdk).Access()
	group := func(i int) string { return fmt.Sprintf("group:g%d", i) }
	err = Each(1+rules/rulesOfGroup, func(i int) error {
		_, err := access.PutGroup(ctx, group(i)[len("group:"):], []string{caller})
		return err
	})
	if err != nil {
		return err
	}
	most := []string{group(0)}
	if _, err := access.PutRule(ctx, "/bench", lockapi.AccessLists{Read: most, Lock: most, Write: most}); err != nil {
		return err
	}
	err = Each(rules, func(i int) error {
		_, err := access.PutRule(ctx, fmt.Sprintf("/bench/rules/%d", i), lockapi.AccessLists{Read: []string{group(i / rulesOfGroup)}})
		return err
	})
	if err != nil {
		return err
	}
	if _, err := access.PutCell(ctx, lockapi.CellAccess{Observe: most, Operate: []string{}}); err != nil {
		return err
	}
	token, err := access.CreateToken(ctx, lockapi.TokenRequest{Principal: caller, Note: "bench"})
	c.token = token.Secret
	return err
}
