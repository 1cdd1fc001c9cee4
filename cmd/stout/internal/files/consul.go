package files

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

func consulCommand(a *app.App) app.Command {
	return app.Command{
		Use: "consul", Short: "Move keys from Consul to the cell", SuggestFor: "kv import",
		Sub: []app.Command{(&keyImport{App: a}).command()},
	}
}

func (c *keyImport) command() app.Command {
	return app.Command{
		Use: "import [FILE]", Short: "Write the keys that consul kv export printed", SuggestFor: "load restore", Unlimited: true,
		Long: `Writes the keys in FILE, or in standard input, which consul kv export has
printed. Keys keep their values and flags. Their locks and sessions are not part
of an export.

The keys are written through the cell's door for Consul's clients, which --door
names: see the setting consul-listen of stoutd. Keys of the cell that FILE does
not have stay. If the command fails, it can be repeated.`,
		Exits: exit.ChangeExits("all keys are written", "FILE is no export, or the cell refused a key"),
		Example: `  consul kv export | stout consul import --door stout1:8500
  stout consul import --door stout1:8500 keys.json`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.door, "door", "", "`address` of the door of a replica")
		},
		Run: c.run,
	}
}

// Bounds of a transaction of an import: fewer operations and bytes than the door
// takes.
const (
	mostImported      = 64
	mostImportedBytes = 256 << 10
)

type keyImport struct {
	*app.App
	door string
}

type exported struct {
	Key   string `json:"key"`
	Flags uint64 `json:"flags"`
	Value []byte `json:"value"`
}

type imported struct {
	Keys int `json:"keys"`
}

func (c *keyImport) run(ctx context.Context, args []string) error {
	if c.door == "" { // CONSUL_HTTP_ADDR often names the Consul that the keys come from
		return exit.Usagef("--door is missing: the address that a replica has in consul-listen")
	}
	text, err := c.ReadInput(strings.Join(args, ""), math.MaxInt64-1)
	if err != nil {
		return err
	}
	var keys []exported
	if err := json.Unmarshal(text, &keys); err != nil {
		return exit.Errorf(exit.Failed, "this is not what consul kv export prints: %v", err)
	}
	done := imported{}
	for done.Keys < len(keys) {
		part := portion(keys[done.Keys:])
		if err := c.write(ctx, part); err != nil {
			f := c.Explain(err)
			return f.Detail("%d of %d keys are written; the command can be repeated", done.Keys, len(keys))
		}
		done.Keys += len(part)
	}
	return ui.Answer(c.UI, done, nil, func(imported) { c.UI.Printf("%s written\n", format.Plural(done.Keys, "key")) })
}

// portion returns the first keys that fit in one transaction.
func portion(keys []exported) []exported {
	n, size := 0, 0
	for n < len(keys) && n < mostImported && (n == 0 || size+len(keys[n].Value) <= mostImportedBytes) {
		size += len(keys[n].Value)
		n++
	}
	return keys[:n]
}

func (c *keyImport) write(ctx context.Context, keys []exported) error {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	type operation struct {
		Verb, Key string
		Flags     uint64
		Value     []byte
	}
	ops := make([]map[string]operation, len(keys))
	for i, k := range keys {
		ops[i] = map[string]operation{"KV": {string(lockapi.KeySet), k.Key, k.Flags, k.Value}}
	}
	url, door := strings.TrimSuffix(c.door, "/"), c.Asker()
	if !strings.Contains(url, "://") {
		url = c.Scheme() + url
	}
	door.Servers = []string{url} // it may have the token
	resp, err := door.Send(ctx, http.MethodPut, url+"/v1/txn", ops)
	if err != nil {
		return exit.Errorf(exit.Unreachable, "the door at %s does not answer: %v", url, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	refused := exit.Errorf(exit.Failed, "the door at %s answered %s: %s", url, resp.Status, format.Clean(strings.TrimSpace(string(text))))
	switch {
	case err != nil:
		return exit.Errorf(exit.Unknown, "the answer of the door at %s was cut off: %v", url, err)
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode >= http.StatusInternalServerError:
		refused.Code = exit.NoMaster
	}
	return refused
}
