package replica

import (
	"context"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// Peers connects a replica to the other ones.
type Peers struct {
	Transport rafttransport.Wire
	// Ask asks another replica for its card, by its name or its server id. Nil
	// if there are no others.
	Ask func(ctx context.Context, id string) (admission.Info, error)
	// Others returns the names of replicas to ask, in addition to the replicas
	// in the log. A replica that joins has nothing of the log yet, so it knows
	// no others. May be nil.
	Others func(ctx context.Context) ([]string, error)
	// Known is what other replicas know about the stores' contents. Stores that
	// lack it are refused.
	Known admission.Stored

	host *host // has the connections; nil if they are made elsewhere
}
