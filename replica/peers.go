package replica

import (
	"context"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// Peers are the other replicas, as one speaks to them.
type Peers struct {
	Transport rafttransport.Wire
	// Ask asks another replica for its card, by its name or its server id. Nil where
	// there is no other.
	Ask func(ctx context.Context, id string) (admission.Card, error)
	// Others are the names of those to be asked besides who is in the log: one that
	// joins, and has nothing of the log yet, knows of nobody else. May be nil.
	Others func(ctx context.Context) ([]string, error)
	// Known is what others know that the stores hold. They are refused where
	// that is not there.
	Known admission.Stored

	host *host // what has the connections; nil where they are made elsewhere
}
