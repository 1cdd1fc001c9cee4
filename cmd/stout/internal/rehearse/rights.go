package rehearse

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Rights notes in b what whoever asks may not do and would have to. It takes URLs.
func (r *Rehearsal) Rights(ctx context.Context, b *Before) error {
	if !b.Cell.Access {
		return nil
	}
	who, err := r.whoAmI(ctx)
	if err != nil {
		return fmt.Errorf("ask who may operate the cell: %w", err)
	}
	path := strings.TrimRight(r.Path, "/") + "/held"
	may, err := r.Client.Access().Check(ctx, path, "")
	if err != nil {
		return fmt.Errorf("ask who may lock %s: %w", path, err)
	}
	b.Caller, b.Lacks = who.Principal, nil
	for _, right := range []struct {
		has  bool
		what string
	}{
		{who.Operate, "operate the cell"}, {who.Observe, "observe it"},
		{may.Lock.Allowed, "lock below " + r.Path}, {may.Read.Allowed, "read below " + r.Path},
	} {
		if !right.has {
			b.Lacks = append(b.Lacks, right.what)
		}
	}
	return nil
}

// whoAmI asks the replicas in turn, with the rights, which the SDK does not ask for.
func (r *Rehearsal) whoAmI(ctx context.Context) (who lockapi.WhoAmI, err error) {
	p := &prober{http: r.HTTP, token: r.Token, agent: r.Agent}
	for _, base := range r.URLs {
		if err = p.call(ctx, http.MethodGet, base+lockapi.RouteWhoAmI+"?rights=true", nil, &who); err == nil {
			return who, nil
		}
	}
	return who, err
}
