package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// importKeys is stout consul import.
func (a *app) importKeys() command {
	c := &keyImport{app: a}
	return command{
		use: "import [FILE]", short: "Write the keys that consul kv export printed", like: "load restore", endless: true,
		long: `Writes the keys in FILE, or in standard input, which consul kv export has
printed. Keys keep their values and flags. Their locks and sessions are not part
of an export.

The keys are written through the cell's door for Consul's clients, which --door
names: see the setting consul-listen of stoutd. Keys of the cell that FILE does
not have stay. If the command fails, it can be repeated.`,
		exits: changeExits("all keys are written", "FILE is no export, or the cell refused a key"),
		example: `  consul kv export | stout consul import --door stout1:8500
  stout consul import --door stout1:8500 keys.json`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.door, "door", "", "`address` of the door of a replica")
		},
		run: c.run,
	}
}

// Bounds of a transaction of an import: fewer operations and bytes than the door
// takes.
const (
	mostImported      = 64
	mostImportedBytes = 256 << 10
)

// keyImport writes an export of Consul.
type keyImport struct {
	*app
	door string
}

// exported is a key in an export.
type exported struct {
	Key   string `json:"key"`
	Flags uint64 `json:"flags"`
	Value []byte `json:"value"`
}

// imported is the result of an import.
type imported struct {
	Keys int `json:"keys"`
}

func (c *keyImport) run(ctx context.Context, args []string) error {
	if c.door == "" { // CONSUL_HTTP_ADDR often names the Consul that the keys come from
		return usagef("--door is missing: the address that a replica has in consul-listen")
	}
	text, err := c.input(strings.Join(args, ""), math.MaxInt64-1)
	if err != nil {
		return err
	}
	var keys []exported
	if err := json.Unmarshal(text, &keys); err != nil {
		return &failure{code: exitFailed, message: fmt.Sprintf("this is not what consul kv export prints: %v", err)}
	}
	done := imported{}
	for done.Keys < len(keys) {
		part := portion(keys[done.Keys:])
		if err := c.write(ctx, part); err != nil {
			f := c.explain(err)
			return f.detail("%d of %d keys are written; the command can be repeated", done.Keys, len(keys))
		}
		done.Keys += len(part)
	}
	return answer(c.ui, done, nil, func(imported) { c.ui.printf("%s written\n", format.Plural(done.Keys, "key")) })
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

// write writes keys in one transaction.
func (c *keyImport) write(ctx context.Context, keys []exported) error {
	ctx, cancel := c.bounded(ctx)
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
	url, door := strings.TrimSuffix(c.door, "/"), c.asker()
	if !strings.Contains(url, "://") {
		url = c.scheme() + url
	}
	door.Servers = []string{url} // it may have the token
	resp, err := door.Send(ctx, http.MethodPut, url+"/v1/txn", ops)
	if err != nil {
		return &failure{code: exitUnreachable, message: fmt.Sprintf("the door at %s does not answer: %v", url, err)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	refused := &failure{code: exitFailed, message: fmt.Sprintf("the door at %s answered %s: %s", url, resp.Status, format.Clean(strings.TrimSpace(string(text))))}
	switch {
	case err != nil:
		return &failure{code: exitUnknown, message: fmt.Sprintf("the answer of the door at %s was cut off: %v", url, err)}
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode >= http.StatusInternalServerError:
		refused.code = exitNoMaster
	}
	return refused
}
