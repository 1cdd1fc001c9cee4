package embed

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/disk"
)

// readSecret is the SHA-256 of the secret that a file has, nil where no file is named.
// What is around the secret in the file is no part of it: editors end a line.
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
		return nil, fmt.Errorf("%s: file %q has no secret of a token: that is %s and at least %d printable characters behind it; make one with: echo %s$(openssl rand -hex 32)",
			setting, file, lockapi.SecretPrefix, lockapi.MinSecret, lockapi.SecretPrefix)
	}
	sum := sha256.Sum256(secret)
	return &sum, nil
}

// newEnableSecret is a secret by which access is enabled from another host, in a file
// that this replica's operator alone can read; each start makes another one. It is of
// no use while access is on. Where the file can't be written, there is none.
func newEnableSecret(dataDir string, log zerolog.Logger) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := hex.EncodeToString(random[:])
	if err := disk.WriteFile(filepath.Join(dataDir, lockapi.EnableSecretFile), []byte(secret+"\n")); err != nil {
		log.Error().Err(err).Msg("there is no secret to enable access from another host with, until the next start: its file cannot be written")
		return ""
	}
	return secret
}

// foundingDigest is what the founders of a cell show each other of the token with
// which they found it, to see that it is the same; empty without one. It is another
// digest than the one by which a cell knows a token.
func foundingDigest(token *[sha256.Size]byte) string {
	if token == nil {
		return ""
	}
	sum := sha256.Sum256(append([]byte("stout founding token\n"), token[:]...))
	return hex.EncodeToString(sum[:16])
}
