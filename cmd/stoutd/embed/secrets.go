package embed

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/disk"
)

// readSecret returns the SHA-256 of the secret in a file; nil without a file. It
// ignores white space around the secret: editors add a line end.
func readSecret(setting, file string) (*[sha256.Size]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	secret := bytes.TrimSpace(data)
	defer clear(data)
	rest, ok := strings.CutPrefix(string(secret), lockapi.SecretPrefix)
	if !ok || len(rest) < lockapi.MinSecret || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s: file %q has no valid secret: a secret is %s followed by at least %d printable characters; make one with: echo %s$(openssl rand -hex 32)",
			setting, file, lockapi.SecretPrefix, lockapi.MinSecret, lockapi.SecretPrefix)
	}
	sum := sha256.Sum256(secret)
	return &sum, nil
}

// readFoundToken returns the SHA-256 of the secret in found-token-file; nil without
// one. A directory that belongs to a cell does not need the file. A new directory does:
// without it the cell might be founded with access off.
func readFoundToken(file, dataDir string, log zerolog.Logger) (*[sha256.Size]byte, error) {
	sum, err := readSecret("found-token-file", file)
	if !errors.Is(err, fs.ErrNotExist) {
		return sum, err
	}
	cell, unreadable := replica.CellOf(dataDir)
	if unreadable != nil {
		return nil, unreadable
	}
	if cell == "" {
		return nil, fmt.Errorf("%w; data directory %s is new, and needs the file to found a cell; if the cell exists, remove the setting", err, dataDir)
	}
	log.Info().Str("file", file).Str("cell_id", cell).Msg("found-token-file is missing, and is not needed: the data directory belongs to a cell; remove the setting")
	return nil, nil
}

// newEnableSecret makes the secret for enabling access from another host, in a file
// that only this replica's operator can read. Each start makes a new secret. It has no
// use while access is on. If the file cannot be written, it returns "".
func newEnableSecret(dataDir string, log zerolog.Logger) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := hex.EncodeToString(random[:])
	if err := disk.WriteFile(filepath.Join(dataDir, lockapi.EnableSecretFile), []byte(secret+"\n")); err != nil {
		log.Error().Err(err).Msg("access cannot be enabled from another host until the next start: the file of the secret cannot be written")
		return ""
	}
	return secret
}

// foundingDigest returns a digest of the founding token; empty without a token. The
// founders of a cell exchange it to check that they have the same token. It differs
// from the digest by which a cell stores a token.
func foundingDigest(token *[sha256.Size]byte) string {
	if token == nil {
		return ""
	}
	sum := sha256.Sum256(append([]byte("stout founding token\n"), token[:]...))
	return hex.EncodeToString(sum[:16])
}
