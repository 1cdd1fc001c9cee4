package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

const txnHelp = `Changes several files at once. If every condition of --if holds, all operations
of --then happen, otherwise all of --else, as one change. If one of them is
impossible, nothing happens.

Conditions:
  PATH exists | PATH absent    of a file
  PATH revision N              of a file
  PATH free                    of a lock: no holder and no lock-delay
  session ID                   the session is open
  sequencer S                  the grant that S describes is still held

Operations; CONTENT is the rest of the argument:
  put PATH CONTENT             write a file
  create PATH CONTENT          write a file that must not exist
  delete PATH | get PATH       delete or read a file

--file reads the transaction as JSON, as the body of POST /v1/transactions. A
transaction of a session needs the HTTP API or a client.

The transaction is sent once. If its outcome is unknown, stout reports that and
exits with 6.`

type runTxn struct {
	*app.App
	file            string
	when, then, els []string
}

func (c *runTxn) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "txn [flags]", Short: "Change several files in one transaction", SuggestFor: "transaction atomic compare swap multi", Unlimited: true,
		Long: txnHelp, Exits: exit.ChangeExits("--then is done", "a condition does not hold and --else is done, or an operation is impossible and nothing is done"),
		Example: `  stout txn --if '/app/conf revision 57' --then 'put /app/conf level=2'
  stout txn --if '/x free' --then 'put /a 1' --then 'delete /b' --else 'get /a'
  stout txn --file move.json`,
		Flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&c.when, "if", nil, "`condition`; repeat for each")
			f.StringArrayVar(&c.then, "then", nil, "`operation` if all conditions hold; repeat for each")
			f.StringArrayVar(&c.els, "else", nil, "`operation` if one does not; repeat for each")
			f.StringVarP(&c.file, "file", "f", "", "read the transaction from this `file`; - is standard input")
		},
	}
}

func (c *runTxn) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("unexpected argument %q", args[0]).Hint("put each condition and operation into quotes: --then 'put /a 1'")
	}
	t, err := c.read()
	if err != nil {
		return err
	}
	if len(t.If)+len(t.Then)+len(t.Else) == 0 {
		return exit.Usagef("the transaction is empty: give --if, --then, --else or --file")
	}
	txn := c.Client.Txn()
	for _, one := range t.If {
		txn.If(client.Condition{Condition: one})
	}
	for _, one := range t.Then {
		txn.Then(client.Operation{Operation: one})
	}
	for _, one := range t.Else {
		txn.Else(client.Operation{Operation: one})
	}
	ctx, cancel := c.WithTimeout(ctx) // not for the reading
	defer cancel()
	out, err := txn.Commit(ctx)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodePrecondition {
		return exit.Errorf(exit.Failed, "%s", format.Clean(refused.Detail)).Hint("nothing was changed")
	}
	branch := t.Then
	if !out.Succeeded {
		branch = t.Else
	}
	if err := ui.Answer(c.UI, out, err, func(out lockapi.TransactionResult) { c.show(out, branch) }); err != nil || out.Succeeded {
		return err
	}
	return &exit.Failure{Code: exit.Failed, Message: "a condition does not hold", Quiet: true}
}

func (c *runTxn) read() (t lockapi.Transaction, err error) {
	if c.Given("file") {
		if len(c.when)+len(c.then)+len(c.els) > 0 {
			return t, exit.Usagef("--file and --if, --then, --else exclude each other")
		}
		return c.readFile()
	}
	for _, text := range c.when {
		one, err := parseCondition(text)
		if err != nil {
			return t, exit.Usagef("--if %q: %v", text, err)
		}
		t.If = append(t.If, one)
	}
	if t.Then, err = parseOperations("--then", c.then); err == nil {
		t.Else, err = parseOperations("--else", c.els)
	}
	return t, err
}

func (c *runTxn) readFile() (t lockapi.Transaction, err error) {
	text, err := c.ReadInput(c.file, lockapi.MaxTransactionBytes)
	if err != nil {
		return t, err
	}
	if len(text) > lockapi.MaxTransactionBytes {
		return t, exit.Usagef("the transaction has more than %d bytes", lockapi.MaxTransactionBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, exit.Usagef("%s is not a transaction: %v", c.file, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return t, exit.Usagef("%s continues after the transaction", c.file)
	}
	if t.Session != "" {
		return t, exit.Usagef("%s names a session: only a client that has it can send its transactions", c.file)
	}
	return t, nil
}

func parseCondition(text string) (out lockapi.Condition, err error) {
	words := strings.Fields(text)
	yes, no := true, false
	switch {
	case len(words) == 2 && words[0] == "session":
		return lockapi.Condition{Session: words[1]}, nil
	case len(words) == 2 && words[0] == "sequencer":
		_, err = lockapi.ParseSequencer(words[1])
		return lockapi.Condition{Sequencer: words[1]}, err
	case len(words) == 2 && words[1] == "exists":
		out = lockapi.Condition{File: words[0], Exists: &yes}
	case len(words) == 2 && words[1] == "absent":
		out = lockapi.Condition{File: words[0], Exists: &no}
	case len(words) == 2 && words[1] == "free":
		out = lockapi.Condition{Lock: words[0], State: lockapi.StateFree}
	case len(words) == 3 && words[1] == "revision":
		n, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil {
			return out, fmt.Errorf("%q is not a revision", words[2])
		}
		out = lockapi.Condition{File: words[0], Revision: &n}
	default:
		return out, errors.New("a condition is PATH exists, PATH absent, PATH revision N, PATH free, session ID or sequencer S")
	}
	return out, lockapi.ValidatePath(words[0])
}

func parseOperations(flag string, texts []string) (out []lockapi.Operation, err error) {
	for _, text := range texts {
		one, err := parseOperation(text)
		if err != nil {
			return nil, exit.Usagef("%s %q: %v", flag, text, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func parseOperation(text string) (out lockapi.Operation, err error) {
	verb, rest, _ := strings.Cut(text, " ")
	path, content, hasContent := strings.Cut(rest, " ")
	write, file := &lockapi.WriteOperation{Path: path, Content: &content}, &lockapi.FileOperation{Path: path}
	switch {
	case verb == "put" && hasContent:
		out.Put = write
	case verb == "create" && hasContent:
		out.Create = write
	case verb == "delete" && !hasContent:
		out.Delete = file
	case verb == "get" && !hasContent:
		out.Get = file
	default:
		return out, errors.New("an operation is put PATH CONTENT, create PATH CONTENT, delete PATH or get PATH")
	}
	return out, lockapi.ValidatePath(path)
}

// show prints a line for each operation, and below it the content that it read.
func (c *runTxn) show(out lockapi.TransactionResult, branch []lockapi.Operation) {
	for i, r := range out.Results {
		op := branch[i]
		switch {
		case op.Get != nil && r.File == nil:
			c.UI.Printf("%s does not exist\n", format.Clean(op.Get.Path))
		case op.Get != nil:
			c.UI.Printf("%s is at revision %d:\n", format.Clean(r.File.Path), r.File.Revision)
			for line := range strings.SplitSeq(string(r.File.Bytes()), "\n") {
				c.UI.Printf("%s%s\n", ui.Indentation, format.Clean(line))
			}
		case r.File != nil:
			c.UI.Printf("wrote %s, revision %d\n", format.Clean(r.File.Path), r.File.Revision)
		case r.Deleted != nil && r.Deleted.Deleted:
			c.UI.Printf("deleted %s\n", format.Clean(op.Delete.Path))
		case r.Deleted != nil:
			c.UI.Printf("%s does not exist\n", format.Clean(op.Delete.Path))
		}
	}
}
